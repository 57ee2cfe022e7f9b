//! Tests of the page's text, and of the layout of its data: the script's tests read the same
//! sample.

use super::{PageInput, data, page};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use iowhy_analysis::Filtered;
use iowhy_analysis::charts::ChartTally;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::diagnose;
use iowhy_diagnosis::redact::{KEY_BYTES, RedactedRows, Redactor};
use iowhy_model::environment::{ExactCount, Thinning};
use iowhy_model::script::Script;
use iowhy_model::{Filter, Metric, Operation, Status, WaitClass};
use std::io::Read;
use std::path::Path;

/// The requests that `web/test/data.test.ts` adds up.
fn sample() -> Script {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "cat").at(0).direct(0, 0, 1_000_000).file("/srv/a").add();
    script.read("sda", 65_536).by(1, "cat").at(1_000_000_000).direct(0, 0, 2_000_000).add();
    script.write("sdb", 8192).by(2, "dd").at(2_000_000_000).direct(0, 0, 300_000_000).add();
    script.read("sdb", 512).by(2, "dd").at(4_000_000_000).status(Status::InFlight).add();
    script.wait((2, "dd"), WaitClass::DirtyThrottle, 3_000_000, 2_000_000, 0);
    script
}

/// A watch of which one request in 8 and one wait in 4 was recorded, and slow requests all; with
/// stacks.
fn thinned() -> Script {
    let mut script = Script::new(10);
    for second in 0..4_i64 {
        let read = script.read("sda", 4096).by(1, "cat").at(second * 2_000_000_000);
        let file = if second < 2 { "/srv/a" } else { "/srv/b" };
        read.direct(0, 0, 1_000_000).file(file).stacks(&["submit_bio"], &["main"], 1).add();
        script.batch.requests.last_mut().unwrap().weight = Some(8);
    }
    let write = script.write("sda", 8192).by(2, "dd").at(1_000_000_000);
    write.direct(0, 0, 300_000_000).stacks(&["submit_bio"], &["copy"], 1).add();
    script.wait((2, "dd"), WaitClass::DirtyThrottle, 3_000_000, 2_000_000, 0);
    script.batch.waits[0].weight = Some(4);
    let level = |from_ns, requests_one_in, waits_one_in| Thinning {
        from_ns,
        requests_one_in,
        waits_one_in,
        calls: true,
        call_times: true,
        resting: false,
    };
    let start_ns = script.environment.start_ns;
    script.environment.thinning =
        vec![level(start_ns, 1, 1), level(start_ns + 5_000_000_000, 8, 4)];
    script
}

/// A watch of ten seconds with 40 reads in each, of which 1 of 64 was recorded: two by chance.
fn counted() -> Script {
    let mut script = Script::new(10);
    for (second, pid) in [(2_i64, 1), (7, 2)] {
        let read = script.read("sda", 4096).by(pid, ["cat", "dd"][pid as usize - 1]);
        read.at(second * 1_000_000_000).direct(0, 0, 1_000_000).file("/srv/a").add();
        script.batch.requests.last_mut().unwrap().weight = Some(64);
    }
    for second in 0..=10_u64 {
        let (at, reads) = (second * 1_000_000_000, 40.0 * second as f64);
        script.counter(Metric::Reads, "sda", at, 700.0 + reads);
        script.counter(Metric::ReadBytes, "sda", at, reads * 4096.0);
    }
    let device = &script.batch.requests[0];
    script.environment.exact_counts = vec![ExactCount {
        major: device.major,
        minor: device.minor,
        operation: "read".to_owned(),
        requests: 400,
        bytes: 400 << 12,
        errors: Some(0),
        timed: 400,
        latency_ns: 400_000_000,
    }];
    script.environment.thinning = vec![Thinning {
        from_ns: script.environment.start_ns,
        requests_one_in: 64,
        waits_one_in: 1,
        calls: true,
        call_times: true,
        resting: false,
    }];
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
fn the_samples_of_the_scripts_tests_are_what_is_written() {
    let scripts =
        [("sample.txt", sample()), ("thinned.txt", thinned()), ("counted.txt", counted())];
    for (name, script) in scripts {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/test").join(name);
        let written = with_page(&script, |page| data::encode(&[(None, page)]).unwrap());
        if std::env::var_os("WRITE_SAMPLE").is_some() {
            std::fs::write(&path, format!("{written}\n")).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let hint = "the layout changed: raise SCHEMA on both sides where readers must know, then \
                    run this test with WRITE_SAMPLE=1";
        assert!(unpacked(&kept) == unpacked(&written), "{name}: {hint}");
    }
}

#[test]
fn a_thinned_watch_says_that_its_charts_are_estimated() {
    let text = with_page(&thinned(), |input| page(input).unwrap());
    assert!(text.contains("estimated sums in columns of"), "{text}");
    assert!(text.contains("at times only 1 of 8 requests and 1 of 4 waits recorded"));
    assert!(text.contains("all 5 recorded requests"));
    let all = with_page(&sample(), |input| page(input).unwrap());
    assert!(all.contains("exact sums in columns of") && !all.contains("estimated sums"));
}

#[test]
fn moments_say_what_changed() {
    let written = with_page(&thinned(), |page| data::encode(&[(None, page)]).unwrap());
    let bytes = unpacked(&written);
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let marks = head["sides"][0]["marks"].as_array().unwrap();
    let text = "recorded from here on: 1 of 8 requests, 1 of 4 waits";
    let [mark] = marks.as_slice() else { panic!("{marks:?}") };
    assert_eq!((mark["at_s"].as_f64(), mark["text"].as_str()), (Some(5.0), Some(text)));
}

#[test]
fn the_first_burst_of_a_program_is_marked() {
    let mut script = Script::new(10);
    for burst in 0..5_i64 {
        for number in 0..200_i64 {
            let at = 500_000_000 + burst * 2_000_000_000 + number * 500_000;
            script.read("sda", 1 << 20).by(7, "db").at(at).direct(0, 0, 400_000).add();
        }
    }
    let written = with_page(&script, |page| data::encode(&[(None, page)]).unwrap());
    let bytes = unpacked(&written);
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let marks = head["sides"][0]["marks"].as_array().unwrap();
    let of_burst: Vec<_> = marks.iter().filter(|mark| mark["kind"] == "burst").collect();
    let [mark] = of_burst.as_slice() else { panic!("{marks:?}") };
    let at_s = mark["at_s"].as_f64().unwrap();
    assert!((at_s - 0.5).abs() < 0.2, "{mark}");
    assert!(mark["text"].as_str().unwrap().contains("db (7) does I/O in bursts on sda"), "{mark}");
}

#[test]
fn redacted_pages_have_no_name_of_the_source() {
    let mut script = Script::new(10);
    for number in 0..40_i64 {
        let read = script.read("sda", 4096).by(7, "secretproc").at(number * 200_000_000);
        let read = read.direct(0, 0, 90_000_000).file("/secret/file");
        let read = read.cgroup("/secret-unit.service", "secret-unit.service");
        read.stacks(&["submit_bio"], &["main"], 1).add();
    }
    script.wait((7, "secretproc"), WaitClass::FsLock, 5_000_000_000, 2_000_000_000, 0);
    script.environment.host = "secrethost".to_owned();
    let mut rows = RedactedRows::new(Redactor::new([7; KEY_BYTES]));
    let names = std::mem::take(&mut script.names);
    rows.batch(&mut script.batch, &names, &mut script.names);
    script.environment = rows.environment(&script.environment);
    let text = with_page(&script, |input| page(input).unwrap());
    let (_, data) = text.split_once("id=\"iowhy-data\">").unwrap();
    let data = unpacked(data.split_once("</script>").unwrap().0);
    let data = String::from_utf8_lossy(&data);
    for secret in ["secretproc", "/secret", "secret-unit", "secrethost"] {
        assert!(!text.contains(secret) && !data.contains(secret), "{secret}");
    }
    assert!(data.contains("submit_bio"), "functions are no names");
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
        let own = |source: &str| {
            source == "'none'" || source == "data:" || source.starts_with("'sha256-")
        };
        assert!(sources.all(own), "{directive}");
    }
    assert!(!text.contains(" style=\"") && !text.contains(" onclick"));
}

/// A random number of each row, the same in every run.
fn scattered(row: u64, of: u64) -> u64 {
    let mixed = (row.wrapping_add(of)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

#[test]
fn no_watch_makes_a_page_of_more_than_five_megabytes() {
    let mut script = Script::new(36_000);
    for row in 0..60_000_u64 {
        let number = |of: u64, most: u64| scattered(row, of * 7_919) % most;
        let device = format!("device-{}", number(1, 40));
        let process = format!("program-{}", number(2, 900));
        let operation = [Operation::Read, Operation::Write][number(3, 2) as usize];
        let file = format!("/srv/{}/{}", number(4, 5_000), "a long name ".repeat(6));
        let frame = format!("{}{}", "function<of, many, types>::".repeat(4), number(5, 4_000));
        let (at, took) = (number(6, 35_000) as i64, 1_000 << number(7, 20));
        let request = script.request(&device, operation).bytes(512 << number(8, 12));
        let request = request.by(number(2, 900) as u32 + 1, &process);
        let request = request.at(at * 1_000_000_000).sector(number(9, 1 << 31));
        let request = request.direct(took / 7, took / 3, took + number(10, 1_000)).file(&file);
        request.stacks(&["submit_bio", &frame], &["main", &frame], 1).add();
        if row % 3 == 0 {
            let who = (number(2, 900) as u32 + 1, process.as_str());
            script.wait(who, WaitClass::ALL[number(11, 20) as usize], took, took / 2, took / 9);
            let wait = script.batch.waits.last_mut().unwrap();
            wait.start_ns += at as u64 * 1_000_000_000;
        }
    }
    let mut tally = ChartTally::new(&script.environment);
    tally.add(&script.batch, &script.names);
    let charts = tally.finish(&script.environment, &script.names);
    // Tables are short whatever the watch: those of an empty one do.
    let (summary, names) = (&Script::new(10).summary(), &script.names);
    let diagnosis = &diagnose(summary);
    let input = PageInput { summary, diagnosis, charts: &charts, names, source: None };
    let megabytes = page(&input).unwrap().len() as f64 / 1e6;
    assert!((0.5..5.0).contains(&megabytes), "{megabytes}");
}

/// A page for a ticket says the same as the page, and a steady rate has no comb.
#[test]
fn a_page_for_a_ticket_is_small_and_even() {
    let mut script = Script::new(10);
    for index in 0..10_000_i64 {
        script.read("sda", 4096).by(1, "cat").at(index * 1_000_000).direct(0, 0, 100_000).add();
    }
    let text = with_page(&script, super::share);
    assert!(text.len() <= super::MOST_SHARED_BYTES && !text.contains("<script"));
    let (_, figure) = text.split_once("Requests per second over the watch").unwrap();
    let (_, path) = figure.split_once("<path d=\"").unwrap();
    let (path, _) = path.split_once('"').unwrap();
    let heights = path.split('v').skip(1).map(|bar| bar.split_once('h').unwrap().0);
    let heights: Vec<f64> = heights.map(|height| -height.parse::<f64>().unwrap()).collect();
    let inner = &heights[1..heights.len() - 1];
    let (least, most) =
        inner.iter().fold((f64::MAX, 0.0_f64), |(a, b), value| (a.min(*value), b.max(*value)));
    assert!(heights.len() > 100 && most / least < 1.2, "{least} to {most}");
}
