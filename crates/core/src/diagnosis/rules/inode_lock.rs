//! Threads wait for each other at the lock of one file or directory.

use super::*;
use crate::analysis::patterns::{WaitGroup, WaitStack};
use crate::model::WaitClass;
use facts::Waited;

rule!(
    "inode-lock",
    "threads queue for one file's lock",
    "The kernel lets one thread at a time write to a file (its inode's lock), except for some direct \
     writes into space that is there already. Threads that append to one file, or create files in one \
     directory, go one by one however fast the device is.",
    "Waits for different files at once: then the device or the journal is what they wait for.",
    needs: [Waits],
);

/// Which lock the kernel functions of the waits are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lock {
    /// Of one file or directory.
    Inode,
    /// Of a file system that was frozen on purpose.
    Frozen,
    /// Of a block of the file system's own, such as an XFS allocation group's.
    Buffer,
    /// Of a node of a btrfs tree, or of a range of it.
    Tree,
}

/// Functions that wait for a file system that was frozen on purpose.
const FROZEN: &[&str] =
    &["percpu_rwsem_wait", "__percpu_down_read", "sb_start_write*", "__sb_start_write*"];
const BUFFER: &[&str] = &["xfs_buf_lock"];
const TREE: &[&str] =
    &["btrfs_tree_lock*", "btrfs_tree_read_lock*", "btrfs_lock_root_node", "lock_extent*"];

impl Lock {
    /// The one with most of the time; a file's where stacks do not tell.
    fn of(facts: &Facts<'_>, whole_ns: u64) -> Lock {
        let most = |functions: &[&str]| {
            let is = |it: &WaitStack| {
                it.class == WaitClass::FsLock && facts::has_function(&it.functions, functions)
            };
            facts.waits_with(is).0 * 2 > whole_ns
        };
        match () {
            () if most(FROZEN) => Lock::Frozen,
            () if most(BUFFER) => Lock::Buffer,
            () if most(TREE) => Lock::Tree,
            () => Lock::Inode,
        }
    }

    fn sentence(self, subject: &Subject) -> String {
        let (who, on) = (words::who(subject), words::on(subject));
        let file = subject.file.clone().map(|file| format!(" of {file}")).unwrap_or_default();
        match self {
            Lock::Frozen => format!("the file system{on} is frozen: {who} waits to write"),
            Lock::Inode if file.is_empty() => {
                format!("threads of {who} wait for each other at locks of the file system")
            }
            Lock::Inode => format!("threads of {who} wait for each other at the lock{file}"),
            Lock::Buffer => format!(
                "threads of {who} wait for each other at blocks of the file system{on} itself, such as an \
                 allocation group's"
            ),
            Lock::Tree => {
                format!("threads of {who} wait for each other at the file system's trees{on}")
            }
        }
    }

    const fn fix(self) -> &'static str {
        match self {
            Lock::Frozen => {
                "find the backup or snapshot that froze it, and let it end; if it is gone: `fsfreeze \
                 --unfreeze MOUNTPOINT` (thawed too early, its copy is not consistent)"
            }
            Lock::Inode => {
                "a file for each writer (a folder for each where files are made); or direct I/O into \
                 space that is allocated and written beforehand, which XFS and ext4 let run at once"
            }
            Lock::Buffer => {
                "allocate in larger steps (fallocate, an extent size hint: `xfs_io -c 'extsize 16m' \
                 FOLDER`); more allocation groups only where the file system is made anew (mkfs.xfs -d \
                 agcount=, which erases it)"
            }
            Lock::Tree => {
                "fewer small changes at once (files, snapshots, quotas off); a subvolume for each \
                 program, since each has a tree of its own"
            }
        }
    }

    const fn check(self) -> &'static str {
        match self {
            Lock::Frozen => {
                "once it is thawed the waits end; if they stay, something else stops the writers"
            }
            _ => {
                "with one writer the waits end and the throughput stays; if it falls, the lock was not \
                 the limit"
            }
        }
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let all = facts.waits_for(WaitClass::FsLock);
    let lock = Lock::of(facts, all.time_ns);
    let waited = match lock {
        Lock::Inode => Some(queue(facts, &all)).filter(|it| it.waits > 0).unwrap_or(all),
        _ => all,
    };
    // Threads at different files may wait for locks of the file system that are not a file's.
    let mut files = waited.groups.iter().map(|it| &it.file);
    let first = files.next();
    let is_one = files.all(|it| Some(it) == first);
    let threads: u64 = waited.groups.iter().map(|group| group.threads).sum();
    // One thread alone waits for no other: what holds its file's lock is the file system's own work.
    if waited.class_ns == 0 || threads < 2 && lock != Lock::Frozen {
        return Ok(Verdict::Clear);
    }
    let mut subject = waited.subject();
    if !is_one {
        subject.file = None;
    }
    let sentence = lock.sentence(&subject);
    let is_seen = lock == Lock::Frozen || lock == Lock::Inode && subject.file.is_some();
    let finding = Finding::of_blocked(facts, waited.class_ns, sentence);
    // Without the lock all of them ask the device at once, which may be the next limit.
    let finding = if lock == Lock::Frozen { finding } else { finding.upper_bound() };
    Ok(finding
        .about(subject)
        .sure(if is_seen { Confidence::Certain } else { Confidence::Likely })
        .shown("waits for the lock", waited.class_ns as f64, "ns", "iowhy waits")
        .shown("threads that wait", threads as f64, "threads", "iowhy waits")
        .shown("longest", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix(lock.fix())
        .check(lock.check())
        .into())
}

/// The waits for the lock of one file or of files of one pattern, of whichever processes: those that
/// took longest, of which at least two threads wait. Where no file is known, those of one process.
fn queue<'a>(facts: &Facts<'a>, all: &Waited<'a>) -> Waited<'a> {
    let mut best = Waited::default();
    for first in &all.groups {
        let same = |it: &WaitGroup| {
            let is_same = match &first.file {
                Some(file) => it.file.as_ref() == Some(file),
                None => it.file.is_none() && it.pid == first.pid,
            };
            it.class == WaitClass::FsLock && is_same
        };
        let waited = facts.waits(same);
        let threads: u64 = waited.groups.iter().map(|group| group.threads).sum();
        if threads >= 2 && waited.class_ns > best.class_ns {
            best = waited;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Confidence, Finding, diagnose};
    use crate::model::{Stack, WaitClass};
    use crate::script::Script;

    const S: u64 = 1_000_000_000;

    /// Threads that wait three seconds each for the lock of a file, in a kernel function.
    fn found(threads: &[(u32, Option<&str>)], function: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(0, 0, 1000).add();
        let frames = vec![script.names.intern(function)];
        let stack = Stack { stack_id: 1, user: false, frames, complete: true, reason: None };
        script.batch.stacks.push(stack);
        for (tid, file) in threads {
            script.wait((7, "app"), WaitClass::FsLock, 3 * S, 0, 0);
            let (sda, file) = (script.names.intern("sda"), file.map(|it| script.names.intern(it)));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.pid, wait.tid) = (*tid, *tid);
            (wait.file, wait.device, wait.stack_id) = (file, Some(sda), Some(1));
        }
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "inode-lock")
    }

    #[test]
    fn two_threads_of_one_file_queue() {
        let of = |file| Some(file);
        let same = found(&[(7, of("/a")), (8, of("/a"))], "ext4_buffered_write_iter").unwrap();
        assert_eq!(same.confidence, Confidence::Certain);
        assert!(same.sentence.ends_with("at the lock of /a"), "{}", same.sentence);
        let several = found(&[(7, of("/a")), (8, of("/b"))], "ext4_buffered_write_iter").unwrap();
        assert_eq!(several.confidence, Confidence::Likely);
        assert!(several.sentence.ends_with("at locks of the file system"), "{}", several.sentence);
        assert_eq!(found(&[(7, of("/a"))], "ext4_buffered_write_iter"), None);
    }

    #[test]
    fn other_locks_have_other_words() {
        let two = [(7, Some("/a")), (8, Some("/b"))];
        let tree = found(&two, "btrfs_tree_read_lock_nested").unwrap();
        assert!(tree.sentence.contains("trees") && tree.fix.contains("subvolume"), "{tree:?}");
        assert_eq!(tree.confidence, Confidence::Likely);
        let group = found(&two, "xfs_buf_lock").unwrap();
        assert!(group.sentence.contains("allocation group"), "{}", group.sentence);
        let frozen = found(&two[..1], "percpu_rwsem_wait").unwrap();
        assert!(frozen.sentence.contains("is frozen"), "{}", frozen.sentence);
    }
}
