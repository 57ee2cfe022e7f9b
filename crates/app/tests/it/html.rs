//! `--html` from the outside: every kind of source, filters, `--redact`, and sources that must not
//! become a page. `crates/views/web` tests the page's drawings.

use crate::{iowhy, labs};
use iowhy_model::recording::RecordingWriter;
use iowhy_model::script::Script;
use iowhy_model::{Status, WaitClass};
use iowhy_recorder::incidents::record::{INCIDENT_FORMAT, IncidentRecord};
use iowhy_recorder::incidents::store::{IncidentStore, RECORDING, write_record};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The page that a command writes. If this build has no pages, prints that and returns `None`.
fn page(folder: &Path, words: &[&str]) -> Option<String> {
    let path = folder.join(format!("{}.html", fs::read_dir(folder).unwrap().count()));
    let output = iowhy(words.iter().copied().chain(["--html", path.to_str().unwrap()]));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("built without the page's script") {
        eprintln!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{words:?}: {said}");
    assert!(!output.stdout.is_empty(), "the answer is printed, too");
    assert!(said.contains("wrote "), "{said}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    Some(text)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn lab(name: &str) -> String {
    let found = labs().into_iter().find(|lab| lab.ends_with(name)).unwrap();
    found.to_str().unwrap().to_owned()
}

fn recorded(folder: &Path, script: &mut Script) -> PathBuf {
    let path = folder.join("recording");
    let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
    writer.add(&script.batch, &script.names).unwrap();
    writer.finish(&mut script.environment, &script.names).unwrap();
    path
}

/// Checks the page's sentence on how many requests the charts hold.
fn holds(text: &str, requests: &str) {
    let (_, foot) = text.split_once("What the charts hold").unwrap();
    let (foot, _) = foot.split_once("</p>").unwrap();
    assert!(foot.contains(&format!("all {requests} requests")), "{foot}");
}

#[test]
fn a_capture_without_processes() {
    let folder = folder();
    let mut capture = String::new();
    for number in 0..50_u64 {
        for (sequence, (action, later)) in (3 * number + 1..).zip([("Q", 0), ("D", 20), ("C", 90)])
        {
            let (time, sector) = (number * 1_000_000 + later * 1_000, number * 8);
            let _ = writeln!(
                capture,
                "  8,0    0 {sequence:8}     0.{time:09}     0  {action}   R {sector} + 8 [0]"
            );
        }
    }
    let path = folder.path().join("capture.txt");
    fs::write(&path, capture).unwrap();
    let Some(text) = page(folder.path(), &["report", path.to_str().unwrap()]) else { return };
    holds(&text, "50");
    assert!(text.contains("8:0"), "the device by its number");
}

#[test]
fn filters_are_those_of_a_report() {
    let folder = folder();
    let lab = lab("metadata-scan");
    let Some(whole) = page(folder.path(), &["report", &lab]) else { return };
    let device = page(folder.path(), &["report", &lab, "--above", "1"]).unwrap();
    assert!(!whole.contains("all 0 requests"));
    // A filter selects what is shown, not what is judged.
    let finding = |text: &str| text.split_once("data-cause=").map(|parts| parts.1[..20].to_owned());
    assert_eq!(finding(&device), finding(&whole));
    let path = folder.path().join("x.html");
    let output = iowhy(["report", &lab, "-d", "nosuch", "--html", path.to_str().unwrap()]);
    assert!(!output.status.success() && !path.exists());
}

#[test]
fn an_incident_by_its_directory_and_by_its_time() {
    let state = folder();
    let store = IncidentStore::below(state.path());
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "cat").direct(0, 0, 1_000_000).add();
    fs::create_dir_all(store.path(1)).unwrap();
    let recording = recorded(state.path(), &mut script);
    fs::rename(recording, store.path(1).join(RECORDING)).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
    let record = IncidentRecord {
        format: INCIDENT_FORMAT,
        number: 1,
        begun_ns: now,
        recorded_from_ns: now - 86_400_000_000_000,
        recorded_until_ns: now + 86_400_000_000_000,
        complete: true,
        ..IncidentRecord::default()
    };
    write_record(&store.path(1), &record).unwrap();
    let folder = folder();
    let path = store.path(1).join(RECORDING);
    let Some(text) = page(folder.path(), &["report", path.to_str().unwrap()]) else { return };
    holds(&text, "1");
    let state = state.path().to_str().unwrap();
    let words = ["report", "--at", "00:00:01", "--state", state];
    holds(&page(folder.path(), &words).unwrap(), "1");
}

#[test]
fn redacted_pages_name_nobody() {
    let folder = folder();
    let mut script = Script::new(10);
    for number in 0..20_i64 {
        let read = script.read("sda", 4096).by(7, "secretproc").at(number * 400_000_000);
        let read = read.cgroup("/secretunit.service", "secretunit.service");
        read.direct(0, 0, 300_000_000).file("/secretfolder/secretfile").add();
    }
    script.environment.host = "secrethost".to_owned();
    let path = recorded(folder.path(), &mut script);
    let path = path.to_str().unwrap();
    let Some(plain) = page(folder.path(), &["report", path]) else { return };
    assert!(plain.contains("secretproc") && plain.contains("secretfile"));
    let text = page(folder.path(), &["report", path, "--redact"]).unwrap();
    assert!(!text.contains("secret"), "in the text; the data: html::tests of iowhy-views");
    holds(&text, "20");
}

#[test]
fn one_request_ten_hours_and_losses() {
    let folder = folder();
    let mut script = Script::new(36_000);
    script.read("sda", 4096).by(1, "cat").at(35_000_000_000_000).direct(0, 0, 1_000_000).add();
    script.read("sda", 4096).by(1, "cat").at(1_000_000_000).status(Status::InFlight).add();
    script.environment.losses.add("ring", 30, "requests that have no record", true);
    let path = recorded(folder.path(), &mut script);
    let Some(text) = page(folder.path(), &["report", path.to_str().unwrap()]) else { return };
    holds(&text, "2");
    assert!(text.contains("requests that have no record"), "losses stand on the page");
    let (_, columns) = text.split_once("exact sums in columns of ").unwrap();
    assert!(columns[..12].contains(" s "), "columns of seconds: {}", &columns[..12]);
}

#[test]
fn a_file_that_exists_stays() {
    let folder = folder();
    let path = folder.path().join("kept.html");
    fs::write(&path, "mine").unwrap();
    let lab = lab("hung-io");
    let kept = path.to_str().unwrap();
    for words in [&["report", &lab, "--html", kept][..], &["diff", &lab, &lab, "--html", kept]] {
        let output = iowhy(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let is_skipped = said.contains("built without the page's script");
        assert!(is_skipped || said.contains("hint: name another file"), "{said}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

/// Names that anybody may choose, in a recording; the page is kept for the browser's tests
/// (`crates/views/web/browser`), which look for elements and scripts that these made.
#[test]
fn hostile_names_stay_texts() {
    let hostile = [
        "</script><script>document.title='owned'</script>",
        "\"><img src=x onerror=document.title='owned'>",
        "'onmouseover='document.title=1",
        "\u{202e}gpj.exe\u{2066}",
        "nul\0and\x1b[2Jescape",
        "<!--",
        "]]>&lt;b&gt;&#60;i&#62;",
        "javascript:alert(1)",
        "__proto__",
        "constructor",
    ];
    let folder = folder();
    let mut script = Script::new(10);
    for (index, name) in hostile.into_iter().enumerate() {
        let pid = index as u32 + 1;
        for number in 0..20_i64 {
            let at = number * 400_000_000;
            let read = script.read("sda", 4096).by(pid, name).at(at).direct(0, 0, 300_000_000);
            let read = read.file(&format!("/srv/{name}")).cgroup(name, name);
            read.stacks(&["submit_bio", name], &["main", name], 1).add();
        }
        script.wait((pid, name), WaitClass::FsLock, 5_000_000_000, 2_000_000_000, 0);
        script.chain(&[(pid, name), (pid + 100, name)], 2_000_000_000, 3_000_000_000);
        script.environment.settings_start.insert(name.to_owned(), name.to_owned());
    }
    let long = format!("/{}", "x<b>\u{202e}".repeat(1_700));
    script.read("sda", 4096).by(99, "long").direct(0, 0, 4_000_000_000).file(&long).add();
    script.environment.host = hostile[0].to_owned();
    let path = recorded(folder.path(), &mut script);
    let Some(text) = page(folder.path(), &["report", path.to_str().unwrap()]) else { return };
    assert_eq!(text.matches("<script").count(), 2, "the data and the page's own");
    assert!(!text.contains("<img") && !text.contains("<!--"));
    let strange = |char: char| char != '\n' && (char.is_control() || char == '\u{202e}');
    assert!(!text.contains(strange));
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile.html"), text).unwrap();
}

/// Programs in a container of Docker, in a pod and in none, whose pages are also written by the
/// kernel. The recording is kept for the browser's tests, which compare what the page shows of each
/// container with SQL on the recording's files.
#[test]
fn containers_are_those_of_owners() {
    const DOCKER: (&str, &str) = ("/system.slice/docker-4f5c0f7d6f0e.scope", "docker:4f5c0f7d6f0e");
    const POD: (&str, &str) =
        ("/kubepods/burstable/pod2b698bd8/9d8e7f6a", "pod:shop/db-0/postgres");
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.process(11, "nginx", DOCKER.0, DOCKER.1);
    script.process(21, "postgres", POD.0, POD.1);
    for number in 0..60_u64 {
        let (at, ns) = (number as i64 * 150_000_000, 200_000 + number * 30_000);
        let read = script.read("sda", 4096).by(11, "nginx").cgroup(DOCKER.0, DOCKER.1);
        read.at(at).direct(0, 0, ns).file("/srv/www/index.html").add();
        if number % 3 == 0 {
            let write = script.write("sda", 65_536).by(21, "postgres").cgroup(POD.0, POD.1);
            write.at(at + 1_000_000).direct(ns, 0, 2 * ns).file("/data/base/16384").add();
            let wait = script.sleep((21, "postgres"), at as u64, 3 * ns).device("sda");
            wait.container(POD.1).add();
        }
        if number % 4 == 0 {
            // Most of it is the pod's, some is nginx's.
            let write = script.write("sda", 12_288).by(5, "kworker/u8:1").at(at + 2_000_000);
            let write =
                write.direct(0, ns, ns).part(Ok("/data/base/16384"), 8_192, Ok((21, "postgres")));
            write.part(Ok("/srv/www/access.log"), 4_096, Ok((11, "nginx"))).add();
        }
        if number % 5 == 0 {
            let read = script.read("sda", 131_072).by(31, "backup").at(at + 3_000_000);
            read.direct(0, 0, 4 * ns).file("/srv/www/index.html").add();
            script.sleep((31, "backup"), at as u64, 4 * ns).device("sda").add();
        }
    }
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("containers");
    if kept.exists() {
        fs::remove_dir_all(&kept).unwrap();
    }
    fs::create_dir_all(&kept).unwrap();
    let path = recorded(&kept, &mut script);
    let Some(text) = page(folder().path(), &["report", path.to_str().unwrap()]) else { return };
    holds(&text, "107");
    assert!(text.contains(DOCKER.1) && text.contains(POD.1));
}
