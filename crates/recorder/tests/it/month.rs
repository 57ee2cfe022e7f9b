//! Thirty days in scripted time: nothing grows but the history, and that is bounded.

use crate::host::{HOUR_S, ScriptedHost, healthy};

/// Anonymous memory of this process, bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A watch for each hour of thirty days, of which four minutes are scripted: time goes on by an
/// hour, so all that is kept by time is kept for as long. Every watch has names of its own.
#[test]
fn thirty_days_leave_ring_and_memory_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = ScriptedHost::new(folder.path());
    let mut after_a_day = (0, 0);
    for hour in 0..30 * 24_u64 {
        let mut fill = |script: &mut iowhy_core::script::Script, window: u64| {
            healthy(script, window);
            let name = format!("job-{hour}-{}", window.min(24));
            script.read("sda", 4096).by(hour as u32 + 100, &name).direct(1, 2, 300_000).add();
        };
        host.watch(hour * HOUR_S, 24, &mut fill);
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
