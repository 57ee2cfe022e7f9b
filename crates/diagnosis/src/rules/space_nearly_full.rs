//! On a nearly full file system writers wait until it finds free space.

use super::*;
use iowhy_model::command::shell_word;
use iowhy_model::environment::Mount;

/// Functions that wait until space is freed or found.
pub(super) const TICKETS: &[&str] = &[
    "handle_reserve_ticket",
    "wait_reserve_ticket",
    "btrfs_reserve_metadata_bytes",
    "__reserve_bytes",
];
/// Functions of ext4 and XFS for a write that finds no space at first. `ext4_nonda_switch` writes
/// everything back if free space is less than twice the dirty data.
const RETRIES: &[&str] = &[
    "ext4_nonda_switch",
    "ext4_should_retry_alloc",
    "ext4_mb_discard_preallocations*",
    "xfs_blockgc_free_*",
    "xfs_blockgc_flush_*",
    "xfs_flush_inodes",
];
/// Functions of ext4 that read the bitmap of a group of blocks, to look for free ones in it.
const SEARCHES: &[&str] = &[
    "ext4_read_block_bitmap*",
    "ext4_wait_block_bitmap",
    "ext4_mb_prefetch*",
    "ext4_mb_init_cache",
];
/// The function in which ext4 looks for blocks for new data; bitmaps are read to free blocks, too.
const ALLOCATES: &[&str] = &["ext4_mb_new_blocks*"];
/// The largest free share of a nearly full file system: ext4 reserves 5 % and btrfs's manual
/// advises balance below 10 %.
pub(super) const FREE: f64 = 0.10;

/// The largest free share that is worth a warning however short the waits are: ENOSPC is near.
/// Chosen.
const LAST: f64 = 0.02;

rule!(
    "space-nearly-full",
    "nearly full file system",
    "A file system without free space at hand has to find some before each write: btrfs makes \
     writers wait for a ticket while it flushes and commits to make space for metadata, ext4 \
     discards its preallocations and commits the journal, XFS writes everything back and trims its \
     preallocations. Where free space is in small pieces, ext4 reads the bitmap of one group of \
     blocks after another until it finds enough, and again after each mount. Writes and syncs then \
     take hundreds of milliseconds, long before one fails with ENOSPC.",
    "The same waits occur with much free space.",
    place: Memory,
    needs: [Waits],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|it| {
        let has = |functions: &[&str]| facts::has_function(&it.functions, functions);
        has(TICKETS) || has(RETRIES) || has(SEARCHES) && has(ALLOCATES)
    });
    clear_if(stacked.time_ns == 0)?;
    let subject = stacked.subject();
    let mount = subject.device.as_deref().and_then(|name| fullest(facts, name));
    let free = mount.and_then(free_share);
    let is_btrfs = stacked.time_in(TICKETS) > 0;
    let is_search = 2 * stacked.time_in(SEARCHES) > stacked.time_ns;
    // btrfs may have space for data and none for metadata, which statfs does not show. Of a file
    // system that is not known the stack alone proves nothing: ext4 writes back before an
    // allocation while much is dirty.
    let is_full = free.is_some_and(|free| free <= FREE);
    clear_if(!is_full && !is_btrfs && !is_search)?;
    clear_if(is_btrfs && super::file_system_cpu::reserving(facts).is_some())?;
    let place = mount.map_or_else(|| "its file system".to_owned(), |mount| mount.path.clone());
    let left =
        free.map_or_else(String::new, |free| format!(", with {} free", words::percent(free)));
    let search = match is_search {
        true => ": it reads the bitmap of one group of blocks after another",
        false => "",
    };
    let sentence =
        format!("{} waits until {place} finds space to write{left}{search}", words::who(&subject));
    let is_last = free.is_some_and(|free| free <= LAST);
    let mut finding = Finding::of_blocked(facts, stacked.time_ns, sentence)
        .about(subject)
        .at_least(if is_last { Severity::Warning } else { Severity::Info })
        .sure(if is_full { Confidence::Certain } else { Confidence::Likely })
        .shown("blocked time for space", stacked.time_ns as f64, "ns", "iowhy waits --by stack")
        .shown("longest wait", stacked.longest_ns as f64, "ns", "iowhy waits");
    if let Some(free) = free {
        let command = format!("df {}", shell_word(&place));
        finding = finding.shown("free space", free * 100.0, "%", command);
    }
    let fix = if is_search {
        "free space in larger pieces (`e2freefrag DEVICE` shows them): remove or move large files, \
         keep a tenth and more free; leave it mounted, since what was read is forgotten at each \
         unmount (automounters: a longer timeout)"
    } else if is_btrfs {
        "`btrfs filesystem usage MOUNTPOINT`: if the device is fully allocated, compact nearly \
         empty block groups (`btrfs balance start -dusage=10 MOUNTPOINT`), delete snapshots and \
         large files; keep some gigabytes unallocated"
    } else {
        "free or add space (`df`, `du -x -d1`); keep a tenth free"
    };
    let check = if is_search {
        "write again without an unmount in between: what was read of the bitmaps is cached, and \
         the waits are shorter; if they are as long, it is the device"
    } else {
        "with a tenth free (btrfs: some gigabytes unallocated) the waits end; if they stay, it is \
         the journal or the device"
    };
    Ok(finding.fix(fix).check(check).into())
}

/// Returns the mounted file system of the device with the smallest free share.
fn fullest<'a>(facts: &Facts<'a>, device: &str) -> Option<&'a Mount> {
    let device = facts.devices().iter().find(|it| it.device == device)?;
    let share = |mount: &&Mount| free_share(mount).unwrap_or(1.0);
    facts.mounts(device).into_iter().min_by(|a, b| share(a).total_cmp(&share(b)))
}

fn free_share(mount: &Mount) -> Option<f64> {
    let (free, all) = mount.free_bytes.zip(mount.bytes)?;
    (all > 0).then(|| free as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, Script};

    #[test]
    fn a_search_for_blocks_is_told_from_freeing_them() {
        let search = ["ext4_read_block_bitmap_nowait", "ext4_mb_prefetch", "ext4_mb_new_blocks"];
        let found = found(&search, Some(60)).unwrap();
        assert!(found.sentence.contains("the bitmap of one group of blocks after another"));
        assert!(found.fix.contains("e2freefrag") && found.check.contains("unmount"), "{found:?}");
        let freeing = ["ext4_read_block_bitmap_nowait", "ext4_mb_init_cache", "ext4_free_blocks"];
        assert_eq!(super::tests::found(&freeing, Some(60)), None);
    }

    fn found(frames: &[&str], free: Option<u64>) -> Option<Finding> {
        waited(frames, free, 6 * S)
    }

    /// The same with this much blocked time.
    fn waited(frames: &[&str], free: Option<u64>, blocked_ns: u64) -> Option<Finding> {
        waited_at("/srv", frames, free, blocked_ns)
    }

    fn waited_at(
        path: &str,
        frames: &[&str],
        free: Option<u64>,
        blocked_ns: u64,
    ) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.mounts.push(Mount {
            path: path.to_owned(),
            source: "/dev/sda".to_owned(),
            bytes: Some(1000),
            free_bytes: free,
            ..Mount::default()
        });
        script.write("sda", 4096).by(7, "rsync").direct(0, 0, 1000).add();
        script.wait((7, "rsync"), WaitClass::JournalSpace, blocked_ns, 0, 0);
        script.stacked(frames);
        let device = script.names.intern("sda");
        script.batch.waits[0].device = Some(device);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "space-nearly-full")
    }

    const TICKET: &[&str] =
        &["handle_reserve_ticket", "__reserve_bytes", "btrfs_reserve_metadata_bytes"];

    #[test]
    fn a_ticket_is_a_wait_for_space() {
        let full = found(TICKET, Some(100)).unwrap();
        assert_eq!((full.severity, full.confidence), (Severity::Critical, Confidence::Certain));
        assert!(
            full.sentence.contains("/srv") && full.sentence.contains("10 %"),
            "{}",
            full.sentence
        );
        assert_eq!(found(TICKET, Some(101)).unwrap().confidence, Confidence::Likely);
        assert_eq!(found(TICKET, None).unwrap().confidence, Confidence::Likely);
    }

    #[test]
    fn a_shell_reads_the_mount_as_one_word() {
        let found = waited_at("/srv $(id)", TICKET, Some(7), 6 * S).unwrap();
        let mut commands = found.evidence.iter().map(|evidence| evidence.command.as_str());
        assert!(commands.any(|command| command == "df '/srv $(id)'"), "{:?}", found.evidence);
    }

    #[test]
    fn the_last_space_is_worth_a_warning_however_short_the_waits_are() {
        let last = waited(TICKET, Some(7), S / 5).unwrap();
        assert_eq!(last.severity, Severity::Warning);
        assert_eq!(waited(TICKET, Some(50), S / 5).unwrap().severity, Severity::Info);
    }

    #[test]
    fn with_space_a_retry_is_none() {
        let retry = [
            "wait_transaction_locked",
            "jbd2_journal_force_commit_nested",
            "ext4_should_retry_alloc",
        ];
        assert!(found(&retry, Some(20)).is_some());
        assert_eq!(found(&retry, Some(500)), None);
        assert_eq!(found(&["wait_current_trans", "start_transaction"], Some(20)), None);
    }
}
