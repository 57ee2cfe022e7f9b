//! Writers are slowed down because too many pages are dirty.

use super::super::programs;
use super::*;
use crate::analysis::Direction;
use crate::analysis::patterns::WaitGroup;
use crate::model::WaitClass;
use facts::Waited;

/// Bytes a second from which on a program writes in bulk: only its throughput matters. Chosen.
const BULK_PER_S: f64 = 4e6;
/// For how long of its device's writing a limit of dirty pages must last to be none that is set too low: the
/// flusher wakes up every 5 s (vm.dirty_writeback_centisecs).
const ENOUGH_S: f64 = 5.0;
/// How many threads must wait besides, on average. As for a warning.
const OTHERS: f64 = super::super::finding::WARNING_THREADS;

rule!(
    "dirty-throttle",
    "too many dirty pages",
    "A buffered write only changes memory, until the dirty pages (changed, and not yet on disk) reach \
     the limit (vm.dirty_ratio, vm.dirty_bytes, or the cgroup's share). Then balance_dirty_pages puts \
     every writer to sleep until the device has caught up, in proportion to how much it writes. Programs \
     that write little but on the same device or cgroup sleep with them.",
    "Writers that wait in fsync instead: they chose to wait for the device.",
    needs: [Waits],
    // A commit queues at the device behind what the writer has filled it with.
    symptoms: ["journal-commit"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::DirtyThrottle);
    if waited.class_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let subject = waited.subject();
    let sentence = format!(
        "{} writes faster than the device takes it: the limit of dirty pages puts it to sleep",
        words::who(&subject),
    );
    let settings = &facts.summary().environment.settings_start;
    let setting = |name: &str| settings.get(name).map_or("?", String::as_str).to_owned();
    let hurts = hurts(facts, &waited);
    Ok(Finding::of_blocked(facts, waited.class_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        // Who only writes in bulk is throttled to what the device takes, which is as it should be.
        .at_most(if hurts { Severity::Critical } else { Severity::Info })
        .shown("sleep for the limit", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .shown("how often", waited.waits as f64 / facts.seconds(), "1/s", "iowhy cache")
        .fix(format!(
            "write less or more slowly; a cgroup with more memory (version 2); higher limits only where the device is \
             fast enough for them, since syncs then wait for more: `sysctl vm.dirty_bytes=N`, of the whole machine \
             (now vm.dirty_ratio {}, vm.dirty_bytes {}; the one that is 0 does not count)",
            setting("vm/dirty_ratio"),
            setting("vm/dirty_bytes"),
        ))
        .check("`iowhy cache 1`: dirty pages stay near the limit while it happens; far below it, it is the limit of its cgroup (file_dirty in memory.stat) or something else")
        .into())
}

/// Whether the throttling is more than what any bulk writer gets: a program that writes little sleeps, or
/// one whose latency matters; others wait; or the limit is too low for the device.
fn hurts(facts: &Facts<'_>, waited: &Waited<'_>) -> bool {
    let is_slept = |pid: u32| waited.groups.iter().any(|it| it.pid == pid);
    let device = waited.subject().device;
    let others = facts.waits(|it| {
        let near = it.device.is_none() || device.is_none() || it.device == device;
        !is_slept(it.pid) && near
    });
    let known = |it: &&WaitGroup| programs::of(Some(it.process.as_str()), it.file.as_deref()).is_some();
    others.time_ns as f64 >= OTHERS * facts.duration_ns() as f64
        || waited.groups.iter().any(known)
        || waited.groups.iter().any(|it| !is_bulk(facts, it.pid))
        || is_low(facts, device.as_deref())
}

/// Whether a process writes in bulk; `false` where nobody counted its writes.
fn is_bulk(facts: &Facts<'_>, pid: u32) -> bool {
    let rows = facts.summary().activity.iter().flat_map(|it| &it.rows);
    let bytes: u64 = rows.filter(|row| row.pid == pid).map(|row| row.counts.write_bytes).sum();
    bytes as f64 >= BULK_PER_S * facts.seconds()
}

/// Whether somebody has set a limit of bytes that the device writes within seconds.
fn is_low(facts: &Facts<'_>, device: Option<&str>) -> bool {
    let settings = &facts.summary().environment.settings_start;
    let limit = settings.get("vm/dirty_bytes").and_then(|it| it.trim().parse::<f64>().ok());
    let on = facts.devices().iter().find(|it| Some(it.device.as_str()) == device);
    let written = on.map_or(0.0, |it| facts::of(it, Direction::Write).bytes_per_s);
    limit.is_some_and(|limit| limit > 0.0 && limit < ENOUGH_S * written)
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Severity, diagnose};
    use crate::model::file::Counts;
    use crate::model::{FileActivity, Origin, WaitClass};
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// A program that writes so many bytes in ten seconds and sleeps nine of them for dirty pages, beside
    /// one that waits for `other_ms`; with a limit of dirty bytes.
    fn severity(name: &str, bytes: u64, other_ms: u64, limit: &str) -> Severity {
        let mut script = Script::new(10);
        let limit = ("vm/dirty_bytes".to_owned(), limit.to_owned());
        script.environment.settings_start = [limit].into();
        for index in 0..300 {
            let write = script.write("sda", 1 << 20).by(9, "kworker").at((index * 33 * MS) as i64);
            write.origin(Origin::Writeback).direct(500, 500, 30 * MS).add();
        }
        let counts = Counts { writes: 100, write_bytes: bytes, ..Counts::default() };
        let (file, own) = (script.names.intern("/data/copy"), script.names.intern(name));
        let row = FileActivity { file: Some(file), files: Some(1), ..FileActivity::of(1, 7, &counts) };
        script.batch.files.push(FileActivity { process: Some(own), ..row });
        script.wait((7, name), WaitClass::DirtyThrottle, 9000 * MS, 0, 0);
        script.wait((8, "db"), WaitClass::PageRead, other_ms * MS, other_ms * MS, 0);
        for wait in &mut script.batch.waits {
            wait.device = Some(script.batch.requests[0].device);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "dirty-throttle").unwrap().severity
    }

    #[test]
    fn a_copy_is_throttled_as_it_should_be() {
        assert_eq!(severity("cp", 300 << 20, 0, "0"), Severity::Info);
        assert_eq!(severity("cp", 300 << 20, 400, "0"), Severity::Info, "hardly anybody else waits");
    }

    #[test]
    fn who_writes_little_or_makes_others_wait_is_hurt() {
        // A plain write of 512 bytes that takes 12.7 ms.
        assert_eq!(severity("dd", 403_000, 0, "0"), Severity::Critical);
        assert_eq!(severity("cp", 300 << 20, 4000, "0"), Severity::Critical);
        assert_eq!(severity("postgres", 300 << 20, 0, "0"), Severity::Critical);
    }

    #[test]
    fn a_limit_that_is_too_low_hurts() {
        assert_eq!(severity("cp", 300 << 20, 0, "16777216"), Severity::Critical);
        assert_eq!(severity("cp", 300 << 20, 0, "1073741824"), Severity::Info);
    }
}
