//! Tests of the page's text, and of the layout of its data: the script's tests read the same
//! sample.

use super::{PageInput, data, page};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use iowhy_core::analysis::Filtered;
use iowhy_core::diagnosis::diagnose;
use iowhy_core::model::{Filter, Status, WaitClass};
use iowhy_core::script::Script;
use std::io::Read;
use std::path::Path;

/// What `web/test/data.test.ts` adds up.
fn sample() -> Script {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "cat").at(0).direct(0, 0, 1_000_000).file("/srv/a").add();
    script.read("sda", 65_536).by(1, "cat").at(1_000_000_000).direct(0, 0, 2_000_000).add();
    script.write("sdb", 8192).by(2, "dd").at(2_000_000_000).direct(0, 0, 300_000_000).add();
    script.read("sdb", 512).by(2, "dd").at(4_000_000_000).status(Status::InFlight).add();
    script.wait((2, "dd"), WaitClass::DirtyThrottle, 3_000_000, 2_000_000, 0);
    script
}

fn with_page<T>(script: &Script, each: impl FnOnce(&PageInput<'_>) -> T) -> T {
    let mut filtered =
        Filtered::new(&script.environment, &Filter::default()).with_charts(&script.environment);
    filtered.add(&script.batch, &script.names, script.environment.end_ns);
    let summaries = filtered.finish(&script.environment, &script.names);
    let diagnosis = diagnose(summaries.judged());
    let charts = summaries.charts.as_ref().unwrap();
    let source = Some("rec");
    let (summary, names) = (&summaries.shown, &script.names);
    each(&PageInput { summary, diagnosis: &diagnosis, charts, names, source })
}

fn unpacked(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let packed = STANDARD.decode(text.trim()).unwrap();
    ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_sample_of_the_scripts_tests_is_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/test/sample.txt");
    let written = with_page(&sample(), |page| data::encode(&[(None, page)]).unwrap());
    if std::env::var_os("WRITE_SAMPLE").is_some() {
        std::fs::write(&path, format!("{written}\n")).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let hint = "the layout changed: raise SCHEMA on both sides where readers must know, then run \
                this test with WRITE_SAMPLE=1";
    assert!(unpacked(&kept) == unpacked(&written), "{hint}");
}

#[test]
fn hostile_names_are_texts() {
    let hostile = [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "\u{202e}gpj.exe",
        "a\0b\x1b[2J",
        "`rm -rf /`",
        "&lt;b&gt;",
    ];
    let mut script = Script::new(10);
    for (at, name) in hostile.into_iter().enumerate() {
        let pid = at as u32 + 1;
        script.read(name, 4096).by(pid, name).direct(0, 0, 9_000_000_000).file(name).add();
        script.wait((pid, name), WaitClass::FsLock, 5_000_000_000, 2_000_000_000, 0);
    }
    let long = format!("/{}", "x".repeat(10_000));
    script.read("sda", 4096).by(99, "long").direct(0, 0, 1_000).file(&long).add();
    script.environment.host = hostile[0].to_owned();
    script.environment.filter = hostile[1].to_owned();
    let text = with_page(&script, |input| page(input).unwrap());
    assert_eq!(text.matches("<script").count(), 2, "the data and the page's own");
    assert!(!text.contains("<img") && !text.contains("alert(1)</"));
    let strange = |char: char| char != '\n' && (char.is_control() || char == '\u{202e}');
    assert!(!text.contains(strange));
    assert!(text.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

#[test]
fn an_empty_watch_has_a_page() {
    let text = with_page(&Script::new(10), |input| page(input).unwrap());
    assert!(text.contains("<h1>") && text.contains("all 0 requests"));
}

#[test]
fn the_policy_allows_the_pages_own_script_alone() {
    let text = with_page(&sample(), |input| page(input).unwrap());
    let (_, policy) = text.split_once("Content-Security-Policy\" content=\"").unwrap();
    let (policy, _) = policy.split_once('"').unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    for directive in policy.split(';') {
        let mut sources = directive.split_whitespace().skip(1);
        let own = |it: &str| it == "'none'" || it == "data:" || it.starts_with("'sha256-");
        assert!(sources.all(own), "{directive}");
    }
    assert!(!text.contains(" style=\"") && !text.contains(" onclick"));
}
