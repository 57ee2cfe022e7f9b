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
     can go on: creating, renaming and removing files, updates of inodes, and every fsync. In ordered \
     mode the commit first writes the data that others appended to their files, however much that is, \
     so that a small fsync waits for somebody else's large write.",
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
        .fix("keep bulk writers and what must be durable on different file systems; let commits have less to write (smaller vm.dirty_background_bytes and vm.dirty_bytes, for the whole machine); ext4, for many small fsyncs: `tune2fs -O fast_commit DEVICE`, unmounted")
        .check("pause the largest writer: if the waits stay as long, it is not its data; ext4: `cat /proc/fs/jbd2/*/info` tells what a commit takes on average since the mount, and how much of it is others' data (flushing data)")
        .into())
}
