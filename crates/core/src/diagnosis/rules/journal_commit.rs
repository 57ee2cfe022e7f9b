//! Threads wait for the journal's commit.

use super::*;
use crate::model::WaitClass;
use facts::calls::{SYNC_ALL, SYNC_FILE};

/// The mean wait from which on commits are slow: a commit is a few writes and a flush, single
/// milliseconds on SSDs and tens on disks; commits that wait for others' data take far longer.
const SLOW_NS: f64 = 50_000_000.0;

rule!(
    "journal-commit",
    "waiting for the journal",
    "A file system's changes go into one running transaction. While it commits, nothing that needs it \
     can go on: creating, renaming and removing files, updates of inodes, and every fsync. The commit \
     waits for the blocks that it must write, and, where data is ordered before metadata (ext4 with \
     data=ordered, for data that was allocated in this transaction), for that data too. The more \
     others change, the longer a small fsync waits. btrfs commits its trees in the same way.",
    "Short commits: then the number of syncs is the cause (fsync-heavy).",
    needs: [Waits],
    symptoms: ["noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let of_journal = [WaitClass::JournalCommit, WaitClass::JournalSpace];
    let is_sync = |call| facts.is_call(call, SYNC_FILE) || facts.is_call(call, SYNC_ALL);
    let all = facts.waits(|group| of_journal.contains(&group.class));
    let others = facts.waits(|group| of_journal.contains(&group.class) && !is_sync(group.syscall));
    let slow = all.mean_ns() >= SLOW_NS;
    let held = others.time_ns * 2 >= all.time_ns;
    if all.time_ns == 0 || !(slow || held) {
        return Ok(Verdict::Clear);
    }
    let subject = Subject { file: None, ..all.subject() };
    let kind = kind_on(facts, subject.device.as_deref());
    let sentence = format!(
        "{} waits for the file system's journal{}: {} for each wait, up to {}",
        words::who(&subject),
        words::on(&subject),
        words::time(all.mean_ns()),
        words::time(all.longest_ns() as f64),
    );
    Ok(Finding::of_blocked(facts, all.time_ns, sentence)
        .about(subject)
        .shown("waits for the journal", all.time_ns as f64, "ns", "iowhy waits")
        .shown("of them outside fsync", others.time_ns as f64 / all.time_ns as f64 * 100.0, "%", "iowhy waits")
        .shown("longest", all.longest_ns() as f64, "ns", "iowhy waits")
        .fix(fix(kind))
        .check(check(kind))
        .into())
}

/// The type of the file system on a device; empty where it is not known.
fn kind_on<'a>(facts: &Facts<'a>, device: Option<&str>) -> &'a str {
    let device = facts.devices().iter().find(|it| Some(it.device.as_str()) == device);
    let mounts = device.map(|it| facts.mounts(it)).unwrap_or_default();
    mounts.first().map_or("", |mount| mount.kind.as_str())
}

fn fix(kind: &str) -> &'static str {
    match kind {
        "btrfs" => {
            "give it free space (`btrfs filesystem usage`), remove snapshots that nobody needs, switch \
             quotas off where nobody reads them (`btrfs quota disable MOUNTPOINT`); keep databases on \
             another file system"
        }
        _ => {
            "find who writes most (`iowhy blame`) and move it, or what must be durable, to another file \
             system; let commits have less to write (smaller vm.dirty_background_bytes, for the whole \
             machine)"
        }
    }
}

fn check(kind: &str) -> &'static str {
    match kind {
        "ext4" | "ext3" => {
            "pause the largest writer: if the waits stay as long, it is not its data; `cat \
             /proc/fs/jbd2/*/info` shows what a commit takes on average since the mount, and how much \
             of it is others' data (flushing data)"
        }
        _ => "pause the largest writer: if the waits stay as long, it is not its data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_of_the_file_system() {
        for kind in ["ext4", "xfs", "btrfs", ""] {
            assert!(!fix(kind).contains("fast_commit") && !fix(kind).contains("tune2fs"), "{kind}");
        }
        assert!(fix("btrfs").contains("quotas") && !fix("ext4").contains("quotas"));
        assert!(check("ext4").contains("jbd2") && !check("xfs").contains("jbd2"));
    }
}
