//! The journal is full, so that everybody waits for a checkpoint.

use super::*;

/// Functions that wait for room in the journal or log.
const SPACE: &[&str] = &[
    "__jbd2_log_wait_for_space",
    "jbd2_log_do_checkpoint",
    "xlog_grant_head_wait",
    "xlog_grant_head_check",
];

rule!(
    "journal-full",
    "a full journal",
    "A journal is a ring. Before its oldest part can be used again, what it describes must be written \
     to its place (a checkpoint). When changes arrive faster than that, or the journal is small, \
     everything that changes the file system stops until the checkpoint is done.",
    "Waits for a commit with room in the journal (journal-commit).",
    needs: [Waits],
    symptoms: ["journal-commit"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let (time_ns, waits) = facts.waits_in(SPACE);
    if time_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let waited = facts.waits_for(crate::model::WaitClass::JournalSpace);
    let subject = Subject { file: None, ..waited.subject() };
    let sentence = format!(
        "the journal{} is full: {} waits until old parts of it are written to their place",
        words::on(&subject),
        words::who(&subject),
    );
    Ok(Finding::of_blocked(facts, time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits for room in the journal", time_ns as f64, "ns", "iowhy waits")
        .shown("how often", waits as f64 / facts.seconds(), "1/s", "iowhy waits")
        .fix("a larger journal: ext4, unmounted and after `e2fsck -f DEVICE`: `tune2fs -O ^has_journal DEVICE`, then `tune2fs -J size=1024 DEVICE`; XFS only where it is made anew (mkfs.xfs -l size=, which erases it); or a journal on another device; fewer files made, renamed and removed at once")
        .check("`dumpe2fs -h DEVICE` (XFS: log in `xfs_info MOUNTPOINT`): a journal of a gigabyte or more is seldom the limit")
        .into())
}
