//! Threads wait for XFS internals: inodes that memory reclaim must write, pinned inodes, headers of
//! allocation groups.

use super::*;
use facts::WaitsByStack;

/// Functions of memory reclaim that write inodes, or wait for those pinned by the log.
const INODES: &[&str] = &[
    "xfs_reclaim_inode*",
    "xfs_iunpin*",
    "__xfs_iunpin_wait",
    "xfs_iflush*",
    "xfs_fs_free_cached_objects",
];
/// Functions of the AIL, the list of logged items that must be written before inodes are freed.
const AIL: &[&str] = &["xfs_ail_push*", "xfsaild*", "xfs_inode_item_push"];
/// Functions that lock the free space and inode headers of an allocation group.
const GROUPS: &[&str] = &[
    "xfs_alloc_read_agf",
    "xfs_read_agf",
    "xfs_alloc_fix_freelist",
    "xfs_ialloc_read_agi",
    "xfs_read_agi",
    "xfs_dialloc*",
];
/// Functions that wait for a buffer locked by another thread.
const LOCKED: &[&str] = &["xfs_buf_lock", "xfs_buf_find_lock"];

rule!(
    "xfs-contention",
    "XFS inode reclaim or allocation group contention",
    "XFS keeps dirty inodes in memory until its log releases them (the AIL). If memory runs out \
     first, a thread that needs a page waits until such inodes are written. Each allocation group \
     also has one header for free space and one for inodes, which only one transaction at a time \
     may change: many threads that create, extend or remove files in few groups queue up there.",
    "The waits are for one inode's lock (inode-lock), or for log space (journal-full).",
    place: Limit,
    needs: [Waits],
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
    clear_if(stacked.time_ns == 0)?;
    Ok(finding(facts, &stacked, of_groups).into())
}

fn finding(facts: &Facts<'_>, stacked: &WaitsByStack<'_>, of_groups: bool) -> Finding {
    let subject = Subject { file: None, ..stacked.subject() };
    let on = words::on(&subject);
    let (what, fix) = if of_groups {
        (
            "waits for the header of an allocation group that another thread is changing",
            "allocate more at a time (an extent size hint: `xfs_io -c 'extsize 16m' DIRECTORY` for \
             files created in it later; fallocate), let fewer threads create and remove files at \
             once, in different directories (XFS puts each directory in a group of its own); a \
             file system grown from a small one has many small groups, a small one has few: \
             `xfs_info MOUNTPOINT` shows agcount; keep some space free",
        )
    } else {
        (
            "waits until dirty inodes are written, so that memory can be reclaimed",
            "provide more memory for the page and inode caches, or access fewer files at once (a \
             scan, a backup); use a faster log device; Linux 5.9 and later no longer wait for \
             inodes in direct reclaim",
        )
    };
    Finding::of_blocked(
        facts,
        stacked.time_ns,
        format!("{} {what} (XFS{on})", words::who(&subject)),
    )
    .about(subject)
    .sure(Confidence::Certain)
    .shown("blocked time in XFS internals", stacked.time_ns as f64, "ns", "iowhy waits")
    .also("waits in XFS internals", stacked.waits as f64 / facts.seconds(), "1/s")
    .also("longest wait", stacked.longest_ns as f64, "ns")
    .fix(fix)
    .check(
        "`iowhy waits --by stack`: with fewer concurrent threads these functions disappear from \
             it; if they stay, a single thread waits for the device",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, Script};

    fn found(class: WaitClass, frames: &[&str]) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "elasticsearch"), class, 6 * S, 0, 0);
        script.stacked(frames);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "xfs-contention")
    }

    #[test]
    fn inodes_and_groups_are_distinguished() {
        let stack = [
            "xfs_iunpin_wait",
            "xfs_reclaim_inode",
            "xfs_reclaim_inodes_ag",
            "super_cache_scan",
            "shrink_node",
        ];
        let inodes = found(WaitClass::Reclaim, &stack).unwrap();
        assert!(inodes.sentence.contains("dirty inodes"), "{}", inodes.sentence);
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
