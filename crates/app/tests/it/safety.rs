//! Promises that hold in a directory of anyone and with any content of a file: nothing hangs,
//! nothing grows, outputs are their owner's.

use crate::iowhy;
use iowhy_model::recording::RecordingWriter;
use iowhy_model::script::{START_NS, Script};
use iowhy_model::{Environment, Request};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Kilobytes of address space: the program, its threads' stacks and what it may use.
const MOST_KB: u64 = 1_200_000;

fn demo() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording")
}

/// Runs iowhy with a limit of memory; it ends within a minute.
fn limited(arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {MOST_KB}; exec timeout --signal=KILL 60 \"$@\"");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_iowhy")]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A recording of some reads of one process, the last of which is changed.
fn recorded(folder: &Path, change: impl FnOnce(&mut Request)) -> PathBuf {
    let mut script = Script::new(10);
    for index in 0..200 {
        let read = script.read("sda", 4096).by(7, "cat").at(index * 50_000_000);
        read.direct(100, 200, 3_000_000).add();
    }
    change(script.batch.requests.last_mut().unwrap());
    // As a watch that was killed leaves it: the last row gives the end.
    (script.environment.end_ns, script.environment.finished) = (0, false);
    written(&script, folder)
}

/// A recording of what a script has.
fn written(script: &Script, folder: &Path) -> PathBuf {
    let path = folder.join("recording");
    let mut writer = RecordingWriter::create(&path, &script.environment).unwrap();
    writer.add(&script.batch, &script.names).unwrap();
    writer.finish(&mut Environment { ..script.environment.clone() }, &script.names).unwrap();
    path
}

#[test]
fn short_intervals_take_no_more_memory() {
    let demo = demo();
    let output = limited(&["stat", demo.to_str().unwrap(), "0.01"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(output.stdout.len() > 10_000);
}

#[test]
fn one_time_that_cannot_be_neither_hangs_nor_grows() {
    let folder = tempfile::tempdir().unwrap();
    let century_ns = 100 * 365 * 86_400 * 1_000_000_000;
    let path = recorded(folder.path(), |request| request.start_ns = START_NS + century_ns);
    let recording = path.to_str().unwrap();
    let case = folder.path().join("case");
    for arguments in [
        &["reproduce", recording, "-o", case.to_str().unwrap()][..],
        &["stat", recording, "1"],
        &["proc", recording, "0.1"],
        &["cache", recording, "1"],
        &["report", recording],
    ] {
        let output = limited(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some(), "{arguments:?}: {} {said}", output.status);
        assert!(output.stdout.len() < 1 << 20, "{arguments:?}: {} bytes", output.stdout.len());
        if arguments.first() == Some(&"stat") {
            assert!(said.contains("intervals without a row are not shown"), "{said}");
        }
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pipe = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    pipe(&path("incident.json"));
    pipe(&path("sda.blktrace.0"));
    pipe(&path("iowhy.toml"));
    let begun = Instant::now();
    for arguments in [
        ["incidents", "show", folder.path().to_str().unwrap()],
        ["stages", "--json", path("sda.blktrace.0").to_str().unwrap()],
        ["daemon", "--check-config", "--config"],
    ] {
        let mut words: Vec<&str> = arguments.to_vec();
        let config = path("iowhy.toml");
        if arguments[0] == "daemon" {
            words.push(config.to_str().unwrap());
        }
        let output = limited(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("a pipe"), "{words:?}: {said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[test]
fn outputs_are_their_owners_and_follow_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let demo = demo();
    let export = |output: &Path| {
        let words = ["export", demo.to_str().unwrap(), "--format", "csv", "-o"];
        iowhy(words.iter().copied().chain([output.to_str().unwrap()]))
    };
    assert!(export(&path("new.csv")).status.success());
    assert_eq!(mode(&path("new.csv")), 0o600);
    // One that was there keeps how open it is.
    fs::write(path("old.csv"), "x").unwrap();
    fs::set_permissions(path("old.csv"), PermissionsExt::from_mode(0o644)).unwrap();
    assert!(export(&path("old.csv")).status.success());
    assert_eq!(mode(&path("old.csv")), 0o644);
    // A link to a file makes room, and the file stays.
    fs::write(path("victim"), "precious").unwrap();
    symlink(path("victim"), path("link.csv")).unwrap();
    export(&path("link.csv"));
    assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
    let output = iowhy(
        ["reproduce", demo.to_str().unwrap(), "-o"]
            .into_iter()
            .chain([path("case").to_str().unwrap()]),
    );
    if output.status.success() {
        assert_eq!((mode(&path("case")), mode(&path("case/plan.json"))), (0o700, 0o600));
    }
}

#[test]
fn root_does_not_start_programs_of_the_callers_search_path() {
    let folder = tempfile::tempdir().unwrap();
    if fs::metadata("/proc/self").map(|about| std::os::unix::fs::MetadataExt::uid(&about)).ok()
        != Some(0)
    {
        eprintln!("skipped: only root is not to follow the search path");
        return;
    }
    let (program, mark) = (folder.path().join("fio"), folder.path().join("mark"));
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let target = folder.path().join("target");
    fs::write(&target, vec![b'x'; 2 << 20]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    command.args(["probe", "-t", "0.1"]).arg(&target).stdin(Stdio::null());
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    let output = command.output().unwrap();
    assert!(!mark.exists(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The bytes that a command shows on a terminal.
fn on_a_terminal(arguments: &str) -> String {
    let mut command = Command::new("script");
    let shown = format!("{} {arguments}", env!("CARGO_BIN_EXE_iowhy"));
    command.args(["-qec", &shown, "/dev/null"]).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let output = command.output().expect("script (scripts/install-deps test)");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn names_in_stacks_and_lines_of_json_move_no_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = Script::new(10);
    let name = "a\u{9b}31m\u{7f}\u{202e}b";
    for index in 0..200 {
        let read = script.read("sda", 4096).by(7, name).at(index * 50_000_000).file(name);
        read.direct(100, 200, 3_000_000).stacks(&[name, "submit_bio"], &[name], 1).add();
    }
    let path = written(&script, folder.path());
    let source = path.display();
    for command in ["stacks --folded", "export --format collapsed", "snoop --json", "stat --json"] {
        let shown = on_a_terminal(&format!("{command} {source}"));
        assert!(shown.contains("31m"), "{command}: {shown:?}");
        let is_bad = |c: char| c == '\u{202e}' || c.is_control() && !"\r\n".contains(c);
        assert!(!shown.contains(is_bad), "{command}: {shown:?}");
    }
}

#[test]
fn fio_ends_with_the_probe_that_was_killed() {
    if iowhy_fs::programs::find("fio").is_none() {
        eprintln!("skipped: fio is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let processes = || {
        let mine = folder.path().to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        let is_fio = |line: &String| line.contains("fio\0--name") && line.contains(&mine);
        lines.filter(is_fio).count()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
    command.args(["probe", "--write", "-t", "20"]).arg(folder.path()).stdin(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let has_begun = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().unwrap().is_none(), "the probe ended");
        processes() > 0
    });
    assert!(has_begun, "fio did not begin");
    child.kill().unwrap();
    child.wait().unwrap();
    let is_over = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        processes() == 0
    });
    assert!(is_over, "fio still runs");
}

/// Kilobytes of address space for a file of another tool: 256 MiB beside the program itself, its
/// libraries and the stacks of its threads.
const READER_KB: u64 = 256 << 10;

/// Address space that the program takes for nothing, kilobytes.
fn bare_kb() -> u64 {
    (64..4_096)
        .step_by(32)
        .map(|mib| mib << 10)
        .find(|kb| {
            let mut command = Command::new("sh");
            let script = format!("ulimit -v {kb}; exec \"$@\"");
            command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_iowhy"), "explain", "hung-io"]);
            command.stdin(Stdio::null()).output().unwrap().status.success()
        })
        .unwrap()
}

/// The largest and most awkward texts of each reader.
fn awkward() -> Vec<(&'static str, Vec<u8>)> {
    let json = |start: &str, part: &str, end: &str| {
        let parts = part.repeat(((16 << 20) - 4096) / part.len());
        format!("{start}{parts}{end}").into_bytes()
    };
    let host = "{\"sysstat\": {\"hosts\": [{\"statistics\": [0";
    let rows = |header: &str, row: &dyn Fn(usize) -> String, count: usize| {
        let rows: String = (0..count).map(row).collect();
        format!("{header}\n{rows}").into_bytes()
    };
    let wide = "1.00 ".repeat(60);
    vec![
        ("objects.json", json(host, ",{\"\":0}", "]}]}}")),
        ("numbers.json", json(host, ",0", "]}]}}")),
        ("texts.json", json(host, ",\"aaaaaaaaaaaaaaaa\"", "]}]}}")),
        (
            "names.txt",
            rows(
                "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)",
                &|row| format!("0.1 name-{row:0>2000} {row} sd{row} W 1 4096 0.7\n"),
                5_000,
            ),
        ),
        (
            "subjects.txt",
            rows(
                "22:40:28 UID PID kB_rd/s kB_wr/s kB_ccwr/s iodelay Command",
                &|row| format!("22:40:{:02} 0 {row} 1 1 1 1 {row:0>4000}\n", 29 + row / 500),
                5_000,
            ),
        ),
        (
            "wide.txt",
            rows(
                &format!("Device tps {}", "x ".repeat(60)),
                &|row| format!("sd{row} 1 {wide}\n"),
                10_000,
            ),
        ),
        ("long.txt", rows("Device r/s %util", &|_| format!("{} ", "9".repeat(1 << 20)), 64)),
        ("fio_lat.log", rows("1, 1, 0, 4096", &|row| format!("{row}, 100, 1, 4096\n"), 100_000)),
    ]
}

#[test]
fn files_of_other_tools_take_no_more_than_256_mib() {
    let folder = tempfile::tempdir().unwrap();
    let most_kb = bare_kb() + READER_KB;
    for (name, content) in awkward() {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {most_kb}; exec timeout --signal=KILL 120 \"$@\"");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_iowhy"), "report"]).arg(&path);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let refusals = ["would take more than", "tells of storage", "no row below the header"];
        let is_refused = refusals.iter().any(|refusal| said.contains(refusal));
        assert!(output.status.success() || is_refused, "{name}: {}: {said}", output.status);
        assert!(!said.contains("memory allocation"), "{name}: {said}");
    }
}

/// Kilobytes of address space for iowhy's own formats: 512 MiB beside the program itself.
const OWN_KB: u64 = 512 << 10;

/// Writes the content that hurts each reader of iowhy's own formats most, as large as it is read;
/// returns its place, and the command that reads it.
fn largest(folder: &Path) -> Vec<(&'static str, Vec<&'static str>)> {
    let write =
        |path: &str, start: &str, part: &dyn Fn(usize) -> String, end: &str, most: usize| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut text = start.to_owned();
            for index in 0.. {
                let next = part(index);
                if text.len() + next.len() + end.len() > most {
                    break;
                }
                text += &next;
            }
            fs::write(path, text + end).unwrap();
        };
    let names = |_: usize| "\"\",".to_owned();
    let mib = 1 << 20;
    write("names/recording.json", "{\"format\": 1, \"limits\": [", &names, "\"\"]}", 4 * mib);
    let disks = |_: usize| "{},".to_owned();
    write("disks/recording.json", "{\"format\": 1, \"devices\": [", &disks, "{}]}", 4 * mib);
    let path = "incidents/000007/incident.json";
    write(path, "{\"format\": 1, \"findings\": [", &disks, "{}]}", 4 * mib);
    write("case/plan.json", "{\"format\": 1, \"programs\": [", &disks, "{}]}", 8 * mib);
    write("words/plan.json", "{\"format\": 1, \"affects\": [", &names, "\"\"]}", 8 * mib);
    let line = |_: usize| "0 f 0 0 0\n".to_owned();
    let head = "iowhy replay 1\nperiod 1\nlanes 1\nfile device 1\n";
    write("sequence", head, &line, "", 128 * mib);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let today = Command::new("date").args(["-u", "+%F"]).output().unwrap().stdout;
    let today = String::from_utf8(today).unwrap();
    let groups: String = (0..5_000).map(|group| format!("\"{group}\":{{}},")).collect();
    let minute = format!("{{\"time_s\":{},\"groups\":{{{groups}\"\":{{}}}}}}\n", now.as_secs());
    let day = format!("history/{}.jsonl", today.trim());
    write(&day, "", &|_| minute.clone(), "", 64 * mib);
    let rows = "{},".repeat(80_000);
    let until = now.as_secs();
    let hour = format!("{{\"time_s\":{until},\"until_s\":{},\"rows\":[{rows}{{}}]}}\n", until + 1);
    let day = format!("history/writers/hours/{}.jsonl", today.trim());
    write(&day, "", &|_| hour.clone(), "", 64 * mib);
    vec![
        ("names", vec!["report", "names"]),
        ("disks", vec!["report", "disks"]),
        ("incident", vec!["incidents", "show", "incidents/000007"]),
        ("incidents", vec!["incidents", "list", "--state", "."]),
        ("case", vec!["rerun", "case", "--on", "case"]),
        ("words", vec!["rerun", "words", "--on", "words"]),
        ("sequence", vec!["replay", "sequence", "case", "layout"]),
        ("history", vec!["history", "--state", ".", "--last", "31d"]),
        ("writers", vec!["history", "--who", "--state", ".", "--last", "31d"]),
    ]
}

#[test]
fn files_of_iowhys_own_take_no_more_than_512_mib() {
    let folder = tempfile::tempdir().unwrap();
    let most_kb = bare_kb() + OWN_KB;
    for (name, words) in largest(folder.path()) {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {most_kb}; exec timeout --signal=KILL 120 \"$@\"");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_iowhy")]).args(words);
        let output = command.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_ended = output.status.code().is_some_and(|code| code <= 1);
        assert!(is_ended && !said.contains("memory allocation"), "{name}: {said}");
        assert!(!said.contains("unexpected argument"), "{name}: {said}");
    }
}
