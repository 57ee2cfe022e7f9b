//! The journal is full, and all changes wait for a checkpoint.

use super::journal_commit::JournalKind;
use super::synchronous_mount::{ORDERED, data_journal_of};
use super::*;

/// Functions that wait for space in ext4's journal, and for nothing else.
const JOURNAL: &[&str] = &["__jbd2_log_wait_for_space", "jbd2_log_do_checkpoint"];
/// Functions that wait for space in XFS's log.
const LOG: &[&str] = &["xlog_grant_head_wait", "xlog_grant_head_check"];

rule!(
    "journal-full",
    "full journal",
    "A journal is a ring. Before its oldest part can be reused, the blocks it describes must be \
     written to their final location (a checkpoint). If changes arrive faster than that, or the \
     journal is small, every change of the file system waits until the checkpoint is done. In XFS \
     a log of any size causes the same wait if its oldest change cannot be written, for example \
     behind a locked buffer.",
    "The waits are for a commit, and the journal has space (journal-commit).",
    place: Limit,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let ((journal_ns, of_journal), (log_ns, of_log)) =
        (facts.waits_in(JOURNAL), facts.waits_in(LOG));
    let (time_ns, waits) = (journal_ns + log_ns, of_journal + of_log);
    if time_ns == 0 {
        return Ok(of_kernel(facts).map_or(RuleVerdict::Clear, RuleVerdict::from));
    }
    let waited = facts.waits_for(iowhy_model::WaitClass::JournalSpace);
    let subject = Subject { file: None, ..waited.subject() };
    let sentence = format!(
        "the journal{} is full: {} waits for a checkpoint of its oldest changes",
        words::on(&subject),
        words::who(&subject),
    );
    let is_seen = journal_ns >= log_ns;
    let mount = facts.device_of(&subject).and_then(|device| data_journal_of(facts, device));
    let less = mount.map(|mount| {
        format!(
            "mount {} with {ORDERED}: with data=journal all data goes through the journal, too; \
             else ",
            mount.path
        )
    });
    let kind = if is_seen { JournalKind::Ext4 } else { JournalKind::Xfs };
    Ok(Finding::of_blocked(facts, time_ns, sentence)
        .claiming(Claims::of_waits(&waited))
        .about(subject)
        .sure(if is_seen { Confidence::Certain } else { Confidence::Likely })
        .shown("blocked time for journal space", time_ns as f64, "ns", "iowhy waits")
        .also("waits for journal space", waits as f64 / facts.seconds(), "1/s")
        .fix(format!("{}{}", less.unwrap_or_default(), fix(kind)))
        .check(check(kind))
        .into())
}

/// A checkpoint that only kernel threads wait for, a flusher or the journal's: their writes stall
/// meanwhile.
fn of_kernel(facts: &Facts<'_>) -> Option<Finding> {
    let (time_ns, waits) = facts.kernel_waits_in(JOURNAL);
    if time_ns == 0 {
        return None;
    }
    let waited = facts.kernel_waits(|it| it.class == iowhy_model::WaitClass::JournalSpace);
    let subject = Subject { file: None, ..waited.subject() };
    let sentence = format!(
        "the journal{} is full: {} waits for a checkpoint of its oldest changes",
        words::on(&subject),
        words::who(&subject),
    );
    let share = time_ns as f64 / facts.duration_ns().max(1) as f64;
    Some(
        Finding::of_share(ImpactOf::DeviceTime, share, share, sentence)
            .about(subject)
            .at_most(Severity::Warning)
            .shown(
                "the kernel's blocked time for journal space",
                time_ns as f64,
                "ns",
                "iowhy waits",
            )
            .also("waits for journal space", waits as f64 / facts.seconds(), "1/s")
            .fix(
                "back up first, then enlarge the journal (ext4: unmounted, after `e2fsck -f \
                 DEVICE`: `tune2fs -O ^has_journal DEVICE`, then `tune2fs -J size=1024 DEVICE`), \
                 or put it on another device; create, rename and remove fewer files at once",
            )
            .check(
                "`dumpe2fs -h DEVICE` (XFS: log in `xfs_info MOUNTPOINT`): a journal of a gigabyte \
                 or more is seldom the limit",
            ),
    )
}

fn fix(kind: JournalKind) -> &'static str {
    match kind {
        JournalKind::Xfs => {
            "create, rename and remove fewer files at once; enlarge the log only by recreating the \
             file system (mkfs.xfs -l size=, which erases it: back up first), or put it on another \
             device"
        }
        _ => {
            "create, rename and remove fewer files at once; enlarge the journal: back up first, \
             then, unmounted, `e2fsck -f DEVICE`, `tune2fs -O ^has_journal DEVICE`, `tune2fs -J \
             size=1024 DEVICE`; or put the journal on another device"
        }
    }
}

fn check(kind: JournalKind) -> &'static str {
    match kind {
        JournalKind::Xfs => {
            "log in `xfs_info MOUNTPOINT`: one of a gigabyte or more is seldom too small; then \
             find what holds its oldest change (`iowhy stacks` of xfsaild)"
        }
        _ => "`dumpe2fs -h DEVICE`: a journal of a gigabyte or more is seldom the limit",
    }
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::Script;

    fn found(function: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "rm"), WaitClass::JournalSpace, 5_000_000_000, 0, 0);
        script.stacked(&[function]);
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "journal-full")
    }

    #[test]
    fn a_log_that_cannot_move_may_be_large() {
        let ext4 = found("__jbd2_log_wait_for_space").unwrap();
        assert!(ext4.confidence == Confidence::Certain && ext4.fix.contains("back up first"));
        let xfs = found("xlog_grant_head_wait").unwrap();
        assert!(xfs.confidence == Confidence::Likely && !xfs.fix.contains("tune2fs"), "{xfs:?}");
        assert_eq!(found("jbd2_log_wait_commit"), None);
    }
}
