//! Threads contend for the lock of one file or directory.

use super::*;
use crate::programs;
use facts::Waited;
use iowhy_analysis::summary::patterns::{WaitStack, Waker};

rule!(
    "inode-lock",
    "inode lock contention",
    "The kernel lets only one thread at a time write to a file (its inode lock), except for some \
     direct writes to space that is already allocated. Threads that append to one file, or create \
     files in one directory, are serialized however fast the device is.",
    "The waits are for different files at once: then they are for the device or the journal.",
    place: FileSystem,
    needs: [Waits],
    bound: [
        "of the blocked time, or of the request time: the waits at the lock",
        "what waits there would wait at the device instead",
    ],
);

/// The lock that the kernel functions of the waits belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lock {
    /// Of one file or directory.
    Inode,
    /// Of a file system that was frozen on purpose.
    Frozen,
    /// Of a metadata block of the file system, such as an XFS allocation group's.
    Buffer,
    /// Of a node of a btrfs tree, or of a range of it.
    Tree,
}

/// The advice about logrotate's copytruncate.
const OF_ROTATION: &str = "logrotate: rotate by rename (`create`, and `postrotate` to have the \
                           program open its log again) instead of `copytruncate`, which copies the \
                           log while the program writes it; else ";
const OF_HOLDER: &str = "let the other program work in smaller steps, or while nobody uses the \
                         file: copying with shared blocks (reflink), truncating, punching holes, \
                         renaming, large buffered writes and, on XFS, reads hold the lock; so do \
                         writes \
                         to a part of a page that must first be read (write whole pages); a file \
                         in many small extents makes them long (`filefrag FILE`; on XFS an extent \
                         size hint, `xfs_io -c 'extsize 1m' FOLDER`, before it is written)";

/// The advice about the program that holds the lock.
fn of_holder(holder: &Waker) -> String {
    let own = if holder.process == "logrotate" { OF_ROTATION } else { "" };
    format!("{own}{OF_HOLDER}")
}

const WITHOUT_HOLDER: &str = "while the other program does not run the waits end; if they stay, \
                              another one holds the lock";

/// Functions that wait for a frozen file system.
const FROZEN: &[&str] =
    &["percpu_rwsem_wait", "__percpu_down_read", "sb_start_write*", "__sb_start_write*"];
const BUFFER: &[&str] = &["xfs_buf_lock"];
const TREE: &[&str] =
    &["btrfs_tree_lock*", "btrfs_tree_read_lock*", "btrfs_lock_root_node", "lock_extent*"];

impl Lock {
    /// The one with most of the time; a file's if stacks do not show it.
    fn new(facts: &Facts<'_>, whole_ns: u64) -> Lock {
        let most = |functions: &[&str]| {
            let is = |wait_stack: &WaitStack| {
                wait_stack.class == WaitClass::FsLock
                    && facts::has_function(&wait_stack.functions, functions)
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
                format!("threads of {who} contend for file system locks")
            }
            Lock::Inode => format!("threads of {who} contend for the lock{file}"),
            Lock::Buffer => format!(
                "threads of {who} contend for metadata blocks of the file system{on}, such as an \
                 allocation group's"
            ),
            Lock::Tree => {
                format!("threads of {who} contend for the file system's trees{on}")
            }
        }
    }

    const fn fix(self) -> &'static str {
        match self {
            Lock::Frozen => {
                "find the backup or snapshot that froze it, and let it finish; if it is gone: \
                 `fsfreeze --unfreeze MOUNTPOINT` (if thawed too early, the copy is inconsistent)"
            }
            Lock::Inode => {
                "use one file per writer (one directory per writer if files are created); or \
                 direct I/O to space allocated and written beforehand, which XFS and ext4 run in \
                 parallel"
            }
            Lock::Buffer => {
                "allocate in larger steps (fallocate, an extent size hint: `xfs_io -c 'extsize \
                 16m' FOLDER`); more allocation groups need a new file system (mkfs.xfs -d \
                 agcount=, which erases it)"
            }
            Lock::Tree => {
                "reduce concurrent small changes (files, snapshots, quotas off); use one subvolume \
                 per program, since each has its own tree"
            }
        }
    }

    const fn check(self) -> &'static str {
        match self {
            Lock::Frozen => {
                "once it is thawed the waits end; if they stay, something else blocks the writers"
            }
            _ => {
                "with one writer the waits end and the throughput stays; if it falls, the lock was \
                 not the limit"
            }
        }
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let all = facts.waits_for(WaitClass::FsLock);
    let lock = Lock::new(facts, all.time_ns);
    let waited = match lock {
        Lock::Inode => Some(queue(facts, &all)).filter(|it| it.waits > 0).unwrap_or(all),
        _ => all,
    };
    // Threads that use different files may wait for file system locks that belong to no file.
    let mut files = waited.groups.iter().map(|group| &group.file);
    let first = files.next();
    let is_one = files.all(|file| Some(file) == first);
    let threads: u64 = waited.groups.iter().map(|group| group.threads).fold(0, u64::saturating_add);
    let mut subject = waited.subject();
    let waker = waited.waker();
    let holder = waker.filter(|it| lock == Lock::Inode && is_another(it, &waited));
    // A single thread waits for no other: then the file system's own work holds its file's lock.
    clear_if(waited.class_ns == 0 || threads < 2 && lock != Lock::Frozen && holder.is_none())?;
    if !is_one {
        subject.file = None;
    }
    let sentence = match (lock, waker, holder) {
        (Lock::Frozen, Some(waker), _) => {
            format!("{}; {} thaws it", lock.sentence(&subject), waker.process)
        }
        (_, _, Some(holder)) => held(&subject, holder),
        _ => lock.sentence(&subject),
    };
    let is_seen = lock == Lock::Frozen || lock == Lock::Inode && subject.file.is_some();
    let finding = Finding::of_class(facts, &waited, sentence);
    // Without the lock all of them submit to the device at once, which may be the next limit.
    let finding = if lock == Lock::Frozen { finding } else { finding.upper_bound() };
    Ok(finding
        .about(subject)
        .sure(if is_seen { Confidence::Certain } else { Confidence::Likely })
        .shown("blocked time for the lock", waited.class_ns as f64, "ns", "iowhy waits")
        .also("waiting threads", threads as f64, "threads")
        .also("longest wait", waited.longest_ns() as f64, "ns")
        .fix(holder.map_or_else(|| lock.fix().to_owned(), of_holder))
        .check(if holder.is_some() { WITHOUT_HOLDER } else { lock.check() })
        .into())
}

/// The largest share of a waiter's time that another script waits itself for the lock that it is
/// said to hold. Chosen: workers of one program wait alike.
const HOLDERS_OWN: f64 = 0.25;

/// Whether who ends most waits is another program than the one that waits longest.
fn is_another(waker: &Waker, waited: &Waited<'_>) -> bool {
    let Some(first) = waited.groups.first() else { return false };
    let waiter = (Some(first.pid), first.process.as_str());
    if programs::are_of_one(waiter, (Some(waker.pid), &waker.process)) {
        return false;
    }
    let of = |pid: u32| -> u64 {
        let own = waited.groups.iter().filter(|group| group.pid == pid);
        own.map(|group| group.time_ns).fold(0, u64::saturating_add)
    };
    let waits_alike = of(waker.pid) as f64 > HOLDERS_OWN * of(first.pid) as f64;
    first.process != waker.process || !waits_alike
}

/// The sentence about a lock that another program holds.
fn held(subject: &Subject, holder: &Waker) -> String {
    let who = words::who(subject);
    let of = subject.file.as_ref().map_or(" of a file or directory", |_| "");
    let file = subject.file.clone().map(|file| format!(" of {file}")).unwrap_or_default();
    format!(
        "{who} waits for the lock{of}{file}{}, which {} ({}) holds meanwhile",
        words::on(subject),
        holder.process,
        holder.pid
    )
}

/// Returns the longest waits for the lock of one file or of files of one pattern, by at least two
/// threads of any process or for another program. If no file is known, those of one process.
fn queue<'a>(facts: &Facts<'a>, all: &Waited<'a>) -> Waited<'a> {
    let mut best = Waited::default();
    for first in &all.groups {
        let same = |wait_group: &WaitGroup| {
            let is_same = match &first.file {
                Some(file) => wait_group.file.as_ref() == Some(file),
                None => wait_group.file.is_none() && wait_group.pid == first.pid,
            };
            wait_group.class == WaitClass::FsLock && is_same
        };
        let waited = facts.waits(same);
        let threads: u64 =
            waited.groups.iter().map(|group| group.threads).fold(0, u64::saturating_add);
        let waker = waited.waker();
        let is_held = waker.is_some_and(|waker| is_another(waker, &waited));
        if (threads >= 2 || is_held) && waited.class_ns > best.class_ns {
            best = waited;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{S, Script};

    /// Threads that wait three seconds each for a file's lock, in a kernel function.
    fn found(threads: &[(u32, Option<&str>)], function: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.read("sda", 4096).direct(0, 0, 1000).add();
        for (tid, file) in threads {
            script.wait((7, "app"), WaitClass::FsLock, 3 * S, 0, 0);
            script.stacked(&[function]);
            let (sda, file) =
                (script.names.intern("sda"), file.map(|file| script.names.intern(file)));
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.pid, wait.tid) = (*tid, *tid);
            (wait.file, wait.device) = (file, Some(sda));
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "inode-lock")
    }

    #[test]
    fn two_threads_of_one_file_queue() {
        let of = |file| Some(file);
        let same = found(&[(7, of("/a")), (8, of("/a"))], "ext4_buffered_write_iter").unwrap();
        assert_eq!(same.confidence, Confidence::Certain);
        assert!(same.sentence.ends_with("for the lock of /a"), "{}", same.sentence);
        let several = found(&[(7, of("/a")), (8, of("/b"))], "ext4_buffered_write_iter").unwrap();
        assert_eq!(several.confidence, Confidence::Likely);
        assert!(several.sentence.ends_with("for file system locks"), "{}", several.sentence);
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

    /// A writer that waits for a file's lock, woken each time by another process of `wakers`.
    fn held(wakers: &[(u32, &str)]) -> Option<Finding> {
        held_from("guest", wakers)
    }

    /// The same of a writer of that name.
    fn held_from(name: &str, wakers: &[(u32, &str)]) -> Option<Finding> {
        let mut script = Script::new(10);
        for (pid, waker) in wakers {
            script.wait((*pid, waker), WaitClass::PageRead, S / 100, S / 100, 0);
        }
        for (pid, _) in wakers {
            script.wait((7, name), WaitClass::FsLock, 2 * S, 0, 0);
            script.stacked(&["rwsem_down_write_slowpath", "down_write", "xfs_ilock"]);
            script.waited_on("sda", "/vm.img", 18);
            script.batch.waits.last_mut().unwrap().waker_tid = Some(*pid);
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "inode-lock")
    }

    /// Two workers of a script that wait for each other alike.
    fn workers() -> Finding {
        let mut script = Script::new(10);
        for (pid, other) in [(7, 8), (8, 7)] {
            script.wait((pid, "python3"), WaitClass::FsLock, 2 * S, 0, 0);
            script.stacked(&["rwsem_down_write_slowpath", "down_write", "xfs_ilock"]);
            script.waited_on("sda", "/app.log", 1);
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.pid, wait.tid, wait.waker_tid) = (pid, pid, Some(other));
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "inode-lock").unwrap()
    }

    #[test]
    fn who_holds_it_is_who_wakes() {
        let by_copies = held(&[(8, "cp"), (9, "cp"), (10, "cp")]).unwrap();
        let said = "for the lock of /vm.img on sda, which cp (8) holds meanwhile";
        assert!(by_copies.sentence.ends_with(said), "{}", by_copies.sentence);
        assert!(by_copies.fix.contains("reflink"), "{}", by_copies.fix);
        // No program has the majority, or it is the waiter's own.
        assert_eq!(held(&[(8, "cp"), (9, "mv")]), None);
        assert_eq!(held(&[(7, "guest")]), None);
        // Two processes of a server are one program, two scripts of an interpreter are not.
        assert_eq!(held(&[(8, "guest")]), None);
        let other = held_from("python3", &[(8, "python3")]).unwrap();
        assert!(other.sentence.contains("which python3 (8) holds"), "{}", other.sentence);
        assert!(super::tests::workers().sentence.starts_with("threads of python3"));
    }
}
