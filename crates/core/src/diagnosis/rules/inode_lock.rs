//! Threads wait for each other at the lock of one file or directory.

use super::*;
use crate::model::WaitClass;

/// Functions that wait for a file system that was frozen on purpose.
const FROZEN: &[&str] = &["percpu_rwsem_wait", "__percpu_down_read", "sb_start_write*", "__sb_start_write*"];

rule!(
    "inode-lock",
    "threads queue for one file's lock",
    "The kernel lets one thread at a time write to a file (its inode's lock), except for some direct \
     writes into space that is there already. Threads that append to one file, or create files in one \
     directory, go one by one however fast the device is.",
    "Waits for different files at once: then the device or the journal is what they wait for.",
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::FsLock);
    if waited.class_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let subject = waited.subject();
    let (frozen_ns, _) = facts.waits_in(FROZEN);
    let frozen = frozen_ns * 2 > waited.time_ns;
    // One thread alone waits for no other: what holds its file's lock is the file system's own work.
    let threads: u64 = waited.groups.iter().map(|group| group.threads).sum();
    if threads < 2 && !frozen {
        return Ok(Verdict::Clear);
    }
    let file = subject.file.clone().map(|file| format!(" of {file}")).unwrap_or_default();
    let sentence = if frozen {
        format!("the file system{} is frozen: {} waits to write", words::on(&subject), words::who(&subject))
    } else {
        format!("threads of {} wait for each other at the lock{file}", words::who(&subject))
    };
    let fix = if frozen {
        "find the backup or snapshot that froze it, and let it end; if it is gone: `fsfreeze --unfreeze MOUNTPOINT` (thawed too early, its copy is not consistent)"
    } else {
        "a file for each writer (a folder for each where files are made); or direct I/O into space that is allocated and written beforehand, which XFS and ext4 let run at once"
    };
    let check = if frozen {
        "once it is thawed the waits end; if they stay, something else stops the writers"
    } else {
        "with one writer the waits end and the throughput stays; if it falls, the lock was not the limit"
    };
    let finding = Finding::of_blocked(facts, waited.class_ns, sentence);
    // Without the lock all of them ask the device at once, which may be the next limit.
    let finding = if frozen { finding } else { finding.upper_bound() };
    Ok(finding
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits for the lock", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("threads of the first process", waited.threads() as f64, "threads", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix(fix)
        .check(check)
        .into())
}
