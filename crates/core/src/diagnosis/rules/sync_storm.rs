//! Somebody writes back whole file systems, and everybody waits.

use super::*;
use crate::model::WaitClass;
use facts::calls::{SYNC_ALL, SYNC_FILE};

/// Waits in sync or syncfs a second from which on it is a habit: one sync has several waits. Chosen.
const SYNCS_PER_S: f64 = 2.0;

rule!(
    "sync-storm",
    "sync of whole file systems",
    "sync(2) and syncfs(2) write everything that is dirty, whoever wrote it, commit the journal and \
     flush the device's cache. A script or agent that calls them every second makes all others' commits \
     and fsyncs wait, and takes away what the page cache saves.",
    "fsync of single files, however many (fsync-heavy).",
    needs: [Waits],
    // Where writeback is throttled, the sync waits for that, too: within its own time.
    symptoms: [
        "journal-commit", "fsync-heavy", "writeback-burst", "flush-cost", "noisy-neighbour", "wbt-throttle",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let syncing = facts.waits(|group| facts.is_call(group.syscall, SYNC_ALL));
    let rate = syncing.waits as f64 / facts.seconds();
    if rate < SYNCS_PER_S {
        return Ok(Verdict::Clear);
    }
    let subject = Subject { file: None, ..syncing.subject() };
    let behind = [WaitClass::JournalCommit, WaitClass::JournalSpace, WaitClass::PageLock];
    // Who waits for a device on which nothing was written back waits for something else.
    let synced = |device: &String| syncing.groups.iter().any(|it| it.device.as_ref() == Some(device));
    let others = facts.waits(|group| {
        Some(group.pid) != subject.pid
            && group.device.as_ref().is_none_or(synced)
            && !facts.is_call(group.syscall, SYNC_ALL)
            && (behind.contains(&group.class) || facts.is_call(group.syscall, SYNC_FILE))
    });
    let sentence = format!(
        "{} writes back whole file systems again and again (sync): {} waits a second",
        words::who(&subject),
        words::number(rate),
    );
    let flags = words::flags(&subject);
    Ok(Finding::of_blocked(facts, syncing.time_ns + others.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("its waits in sync or syncfs", rate, "1/s", format!("iowhy waits{flags}"))
        .shown("their time", syncing.time_ns as f64, "ns", format!("iowhy waits{flags}"))
        .shown("others wait for commits and pages meanwhile", others.time_ns as f64, "ns", "iowhy waits")
        .fix("stop the caller, or let it call fsync on its own files")
        .check("where it may stand still, stop it or what starts it for ten seconds (`kill -STOP PID`, then `kill -CONT PID`, as `ps` shows it now): if the others wait as long, it was not the sync")
        .into())
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::diagnose;
    use crate::model::WaitClass;
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// The impact of syncfs on sda, ten times a second, beside somebody who waits for the journal on `device`.
    fn impact(device: Option<&str>) -> f64 {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(0, 0, MS).add();
        for _ in 0..100 {
            script.wait((7, "agent"), WaitClass::Fsync, 10 * MS, 0, 0);
            let sda = script.names.intern("sda");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.syscall, wait.device) = (Some(306), Some(sda));
        }
        script.wait((8, "db"), WaitClass::JournalCommit, 3000 * MS, 0, 0);
        let device = device.map(|name| script.names.intern(name));
        script.batch.waits.last_mut().unwrap().device = device;
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "sync-storm").unwrap().impact
    }

    #[test]
    fn who_waits_for_another_device_does_not_wait_for_the_sync() {
        assert_eq!((impact(Some("sda")), impact(None)), (1.0, 1.0));
        assert_eq!(impact(Some("sdb")), 0.25);
    }
}
