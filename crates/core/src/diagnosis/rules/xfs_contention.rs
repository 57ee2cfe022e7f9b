//! Threads wait for XFS's own bookkeeping: inodes that memory reclaim must write, pinned inodes,
//! headers of allocation groups.

use super::*;
use facts::Stacked;

/// Memory reclaim that writes inodes, or waits for those that the log holds.
const INODES: &[&str] = &[
    "xfs_reclaim_inode*",
    "xfs_iunpin*",
    "__xfs_iunpin_wait",
    "xfs_iflush*",
    "xfs_fs_free_cached_objects",
];
/// The list of what the log still holds, which must be written before inodes are free.
const AIL: &[&str] = &["xfs_ail_push*", "xfsaild*", "xfs_inode_item_push"];
/// Headers of free space and of inodes, of which each allocation group has one.
const GROUPS: &[&str] = &[
    "xfs_alloc_read_agf",
    "xfs_read_agf",
    "xfs_alloc_fix_freelist",
    "xfs_ialloc_read_agi",
    "xfs_read_agi",
    "xfs_dialloc*",
];
/// A buffer that another thread has locked.
const LOCKED: &[&str] = &["xfs_buf_lock", "xfs_buf_find_lock"];

rule!(
    "xfs-contention",
    "XFS's inode reclaim or allocation groups",
    "XFS keeps changed inodes in memory until its log lets them go (the AIL). When memory runs out \
     first, a task that needs a page must wait until such inodes are written. And each allocation \
     group has one header of its free space and one of its inodes, which one transaction at a time \
     may change: many threads that make, lengthen or remove files in few groups stand in a queue \
     there.",
    "Waits for the same inode's lock (inode-lock), or for room in the log (journal-full).",
    needs: [Waits],
    symptoms: ["inode-lock", "memory-reclaim"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let inodes = facts.stacked_where(|it| {
        facts::has_function(&it.functions, INODES) || facts::has_function(&it.functions, AIL)
    });
    let groups = facts.stacked_where(|it| {
        facts::has_function(&it.functions, GROUPS) && facts::has_function(&it.functions, LOCKED)
    });
    let of_groups = groups.time_ns > inodes.time_ns;
    let stacked = if of_groups { groups } else { inodes };
    if stacked.time_ns == 0 {
        return Ok(Verdict::Clear);
    }
    Ok(finding(facts, &stacked, of_groups).into())
}

fn finding(facts: &Facts<'_>, stacked: &Stacked<'_>, of_groups: bool) -> Finding {
    let subject = Subject { file: None, ..stacked.subject() };
    let on = words::on(&subject);
    let (what, fix) = if of_groups {
        (
            "waits for the header of an allocation group that another thread is changing",
            "allocate more at a time (an extent size hint: `xfs_io -c 'extsize 16m' DIRECTORY` for \
             files made in it later; fallocate), fewer threads that make and remove files at once, \
             different directories for them (XFS puts each directory into a group of its own); a \
             file system that was grown from a small one has many small groups, one that is small \
             has few: `xfs_info MOUNTPOINT` says agcount; keep some space free",
        )
    } else {
        (
            "waits until changed inodes are written, so that memory can be freed",
            "more memory for the page and inode caches, or fewer files touched at once (a scan, a \
             backup); a faster log device; Linux 5.9 and later no longer wait for inodes in \
             direct reclaim",
        )
    };
    Finding::of_blocked(
        facts,
        stacked.time_ns,
        format!("{} {what} (XFS{on})", words::who(&subject)),
    )
    .about(subject)
    .sure(Confidence::Certain)
    .shown(
        "waits with XFS's bookkeeping in their stack",
        stacked.time_ns as f64,
        "ns",
        "iowhy waits",
    )
    .shown("how often", stacked.waits as f64 / facts.seconds(), "1/s", "iowhy waits")
    .shown("longest", stacked.longest_ns as f64, "ns", "iowhy waits")
    .fix(fix)
    .check(
        "`iowhy waits --by stack`: with fewer threads at once these functions vanish \
             from it; if they stay, one alone waits for the device",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Severity, diagnose};
    use crate::model::WaitClass;
    use crate::script::Script;

    const S: u64 = 1_000_000_000;

    fn found(class: WaitClass, frames: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "elasticsearch"), class, 6 * S, 0, 0);
        script.stacked(frames);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "xfs-contention")
    }

    #[test]
    fn inodes_and_groups_are_told_apart() {
        let stack = [
            "xfs_iunpin_wait",
            "xfs_reclaim_inode",
            "xfs_reclaim_inodes_ag",
            "super_cache_scan",
            "shrink_node",
        ];
        let inodes = found(WaitClass::Reclaim, &stack).unwrap();
        assert!(inodes.sentence.contains("changed inodes"), "{}", inodes.sentence);
        assert_eq!((inodes.severity, inodes.confidence), (Severity::Critical, Confidence::Certain));
        let stack = [
            "down",
            "xfs_buf_lock",
            "xfs_buf_get_map",
            "xfs_read_agf",
            "xfs_alloc_read_agf",
            "xfs_free_extent",
        ];
        assert!(found(WaitClass::FsLock, &stack).unwrap().sentence.contains("allocation group"));
    }

    #[test]
    fn the_same_header_read_from_disk_or_another_lock_is_not_it() {
        let read = ["xfs_buf_iowait", "xfs_buf_read_map", "xfs_read_agf", "xfs_alloc_read_agf"];
        assert_eq!(found(WaitClass::Device, &read), None);
        let inode = ["rwsem_down_write_slowpath", "xfs_ilock", "xfs_file_write_iter"];
        assert_eq!(found(WaitClass::FsLock, &inode), None);
    }
}
