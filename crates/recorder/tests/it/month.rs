//! Thirty days in scripted time: nothing grows but the history, and that is bounded.

use crate::host::{ALONE, HOUR_S, ScriptedHost, healthy};
use iowhy_model::script::Script;
use iowhy_model::{Environment, Names};
use iowhy_recorder::rolling::{RollingDiagnosis, WINDOW_NS};
use std::sync::PoisonError;

/// Anonymous memory of this process, bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A watch for each hour of thirty days, of which a minute and a half is scripted: time goes on by
/// an hour, so all that is kept by time is kept for as long. Every watch has names of its own.
#[test]
fn thirty_days_leave_ring_and_memory_as_they_were() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut host = ScriptedHost::new(folder.path());
    let mut after_a_day = (0, 0);
    for hour in 0..30 * 24_u64 {
        let mut fill = |script: &mut Script, window: u64| {
            healthy(script, window);
            let name = format!("job-{hour}-{}", window.min(9));
            script.read("sda", 4096).by(hour as u32 + 100, &name).direct(1, 2, 300_000).add();
        };
        host.watch(hour * HOUR_S, 9, &mut fill);
        if hour == 24 {
            after_a_day = (memory(), host.ring.bytes());
        }
    }
    let (memory_bytes, ring_bytes) = after_a_day;
    assert!(ring_bytes > 0 && host.ring.bytes() <= 2 * ring_bytes, "{} bytes", host.ring.bytes());
    let directories = std::fs::read_dir(folder.path().join("ring")).unwrap().count();
    assert!(directories <= 2, "{directories} generations in the ring");
    let grown = memory().saturating_sub(memory_bytes);
    assert!(grown < 8 << 20, "grown by {grown} bytes from {memory_bytes}");
    assert!(host.kept.is_empty(), "{:?}", host.kept);
}

/// A guest that was stopped for eight hours: its clock goes on, and no rows come. Every window is
/// judged, without a cause, and the rows after it are in theirs.
#[test]
fn hours_without_rows_are_windows_without_findings() {
    let mut script = Script::new(10);
    healthy(&mut script, 0);
    let environment = Environment { end_ns: 0, ..script.environment.clone() };
    let mut rolling = RollingDiagnosis::new(&environment);
    rolling.add(&script.batch, &environment, &script.names);
    let gap = 8 * HOUR_S / 10;
    let until_ns = environment.start_ns + gap * WINDOW_NS;
    let windows = rolling.ended(until_ns, &environment, &script.names);
    assert_eq!(windows.len() as u64, gap);
    let requests: Vec<u64> = windows.iter().map(|window| window.summary.watch.requests).collect();
    assert_eq!((requests[0], requests[1..].iter().sum::<u64>()), (50, 0));
    let serious = |window: &iowhy_recorder::rolling::EndedWindow| {
        use iowhy_diagnosis::Severity;
        window.diagnosis.findings.iter().any(|finding| finding.severity > Severity::Info)
    };
    assert!(!windows.iter().any(serious));
    let mut later = script.batch.clone();
    later.requests.iter_mut().for_each(|request| request.start_ns += gap * WINDOW_NS);
    rolling.add(&later, &environment, &Names::clone(&script.names));
    let ended = rolling.ended(until_ns + WINDOW_NS, &environment, &script.names);
    assert_eq!(ended.iter().map(|window| window.summary.watch.requests).collect::<Vec<_>>(), [50]);
}
