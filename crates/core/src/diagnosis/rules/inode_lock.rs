//! Threads wait for each other at the lock of one file or directory.

use super::*;
use crate::analysis::patterns::WaitGroup;
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
    let count = |of: &dyn Fn(&WaitGroup) -> bool| -> u64 {
        waited.groups.iter().filter(|group| of(group)).map(|group| group.threads).sum()
    };
    if count(&|_| true) < 2 && !frozen {
        return Ok(Verdict::Clear);
    }
    // Threads at different files may wait for locks of the file system that are not a file's.
    let is_one = subject.file.is_some() && count(&|group| group.file == subject.file) >= 2;
    let file = subject.file.clone().map(|file| format!(" of {file}")).unwrap_or_default();
    let sentence = if frozen {
        format!("the file system{} is frozen: {} waits to write", words::on(&subject), words::who(&subject))
    } else {
        let lock = if is_one { format!("the lock{file}") } else { "locks of the file system".to_owned() };
        format!("threads of {} wait for each other at {lock}", words::who(&subject))
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
        .sure(if is_one || frozen { Confidence::Certain } else { Confidence::Likely })
        .shown("waits for the lock", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("threads of the first process", waited.threads() as f64, "threads", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix(fix)
        .check(check)
        .into())
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Confidence, Finding, diagnose};
    use crate::model::WaitClass;
    use crate::script::Script;

    /// Threads that wait at locks for three seconds each, at these files.
    fn found(files: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        for (pid, file) in (7..).zip(files) {
            script.wait((pid, "app"), WaitClass::FsLock, 3_000_000_000, 0, 0);
            let file = script.names.intern(file);
            script.batch.waits.last_mut().unwrap().file = Some(file);
        }
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "inode-lock")
    }

    #[test]
    fn one_file_s_lock_is_seen_and_others_are_guessed() {
        let one = found(&["/log", "/log"]).unwrap();
        assert_eq!(one.confidence, Confidence::Certain);
        assert!(one.sentence.ends_with("at the lock of /log"), "{}", one.sentence);
        let several = found(&["/a", "/b"]).unwrap();
        assert_eq!(several.confidence, Confidence::Likely);
        assert!(several.sentence.ends_with("at locks of the file system"), "{}", several.sentence);
        assert_eq!(found(&["/log"]), None);
    }
}
