//! The wait class of a kernel stack: the only table of kernel functions.
//!
//! The innermost function in the table decides. Generic wait functions (`schedule`, `io_schedule`,
//! `folio_wait_bit_common`, `rwsem_down_write_slowpath`) are not in it: their callers determine the
//! class. If a kernel renames a function, the class is `unknown`, which is shown.

use crate::WaitClass::{self, *};

/// The meaning of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackVerdict {
    /// A wait for storage.
    Storage(WaitClass),
    /// An uninterruptible wait for something else: a child after vfork, a debugger …
    Elsewhere,
    /// No function of the stack is in the table.
    Unknown,
}

/// Functions by class. A name that ends in `*` is a prefix. Sources: the kernel's 5.10 to 7.2
/// trees, and stacks seen on 6.18.
const FUNCTIONS: &[(WaitClass, &[&str])] = &[
    // ext4 lets a writer wait for the writeback of all that is dirty before it promises more space
    // than is free.
    (DirtyThrottle, &["balance_dirty_pages*", "dmu_tx_delay", "ext4_nonda_switch"]),
    (Fanotify, &["fanotify_get_response", "fanotify_handle_event"]),
    (Fuse, FUSE),
    (NetworkFs, NETWORK),
    (Wbt, &["wbt_wait"]),
    (Iocost, &["ioc_rqos_throttle", "iocg_wait*"]),
    (
        CgroupThrottle,
        &["blkcg_maybe_throttle_current", "__blkcg_maybe_throttle_*", "blkcg_iolatency_throttle"],
    ),
    (Tag, &["blk_mq_get_tag", "__blk_mq_get_driver_tag"]),
    (Queue, &["blk_queue_enter", "__bio_queue_enter", "blk_mq_freeze_queue_wait*"]),
    (
        JournalSpace,
        &[
            "start_this_handle",
            "add_transaction_credits",
            "wait_transaction_locked",
            "__jbd2_log_wait_for_space",
            "jbd2_log_do_checkpoint",
            "xlog_grant_head_*",
            "xfs_log_reserve",
            "xlog_state_get_iclog_space",
            "wait_current_trans*",
            "txg_wait_open",
            "dmu_tx_wait",
            "handle_reserve_ticket",
            "wait_reserve_ticket",
            "jbd2_journal_lock_updates",
        ],
    ),
    (
        JournalCommit,
        &[
            "jbd2_log_wait_commit",
            "jbd2_complete_transaction",
            "jbd2_journal_commit_transaction",
            "do_get_write_access",
            "jbd2_journal_get_write_access",
            "ext4_fc_commit",
            "jbd2_fc_begin_commit",
            "jbd2_journal_destroy",
            "jbd2_journal_flush",
            "jbd2_journal_force_commit*",
            "ext4_force_commit",
            "f2fs_write_checkpoint",
            "f2fs_issue_checkpoint",
            "xlog_wait_on_iclog*",
            "xlog_cil_*",
            "xfs_log_force*",
            "btrfs_commit_transaction*",
            "btrfs_sync_log",
            "wait_for_commit",
            "wait_log_commit",
            "xfs_iunpin*",
            "__xfs_iunpin_wait",
            "txg_wait_synced*",
            "zil_commit*",
        ],
    ),
    (
        Swap,
        &[
            "swap_read_*",
            "swap_readpage*",
            "swapin_*",
            "do_swap_page",
            "swap_writepage*",
            "__swap_writepage*",
            "swap_cluster_readahead",
            "swap_vma_readahead",
            "read_swap_cache_async",
            "__read_swap_cache_async",
            "shmem_swapin*",
            "shmem_swap_alloc_folio",
            "shmem_unuse*",
            "try_to_unuse",
            "zswap_writeback_entry",
        ],
    ),
    (
        Reclaim,
        &[
            "reclaim_throttle",
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node*",
            "shrink_lruvec",
            "mem_cgroup_handle_over_high",
            "__mem_cgroup_handle_over_high",
            "__alloc_pages_slowpath*",
            "congestion_wait",
            "try_to_compact_pages",
            "compact_zone*",
            "__alloc_pages_direct_compact",
            "too_many_isolated",
            "wait_iff_congested",
            "xfs_reclaim_inodes*",
            "migrate_pages*",
            "migration_entry_wait*",
        ],
    ),
    (
        FsLock,
        &[
            "ext4_buffered_write_iter",
            "ext4_dio_write_iter",
            "ext4_file_write_iter",
            "generic_file_write_iter",
            "shmem_file_write_iter",
            "f2fs_file_write_iter",
            "exfat_file_write_iter",
            "ntfs_file_write_iter",
            "ext4_map_blocks",
            "ext4_truncate",
            "ext4_setattr",
            "xfs_ilock*",
            "xfs_buf_lock",
            "xfs_file_write_*",
            "btrfs_inode_lock",
            "btrfs_tree_lock*",
            "btrfs_tree_read_lock*",
            "btrfs_lock_root_node",
            "lock_extent*",
            "inode_lock*",
            "inode_dio_wait",
            "iterate_dir",
            "lookup_slow",
            "open_last_lookups",
            "filename_create",
            "do_unlinkat",
            "do_rmdir",
            "do_renameat2",
            "lock_rename",
            "chmod_common",
            "vfs_truncate",
            "sb_start_write*",
            "__sb_start_write*",
            "zfs_range*",
            "percpu_rwsem_wait",
            "super_lock*",
            "__super_lock*",
            "grab_super*",
            "deactivate_super",
            "thaw_super*",
            "freeze_super*",
        ],
    ),
    (
        PageFault,
        &["filemap_fault", "do_read_fault", "do_shared_fault", "do_cow_fault", "filemap_map_pages"],
    ),
    (
        PageRead,
        &[
            "filemap_update_page",
            "filemap_get_pages",
            "filemap_read*",
            "page_cache_ra_*",
            "page_cache_sync_ra",
            "force_page_cache_ra",
            "filemap_splice_read",
            "generic_file_buffered_read",
            "do_read_cache_page",
            "do_read_cache_folio",
            "filemap_read_folio",
        ],
    ),
    (
        Fsync,
        &[
            "__filemap_fdatawait_range",
            "filemap_fdatawait_*",
            "file_write_and_wait_range",
            "filemap_write_and_wait_range",
            "vfs_fsync_range",
            "do_fsync",
            "sync_inodes_sb",
            "sync_filesystem",
            "__sync_filesystem",
            "iterate_supers",
            "__writeback_single_inode",
            "do_writepages",
        ],
    ),
    (Fsync, WRITEBACK),
    (
        PageLock,
        &[
            "folio_wait_writeback",
            "folio_wait_stable",
            "__folio_lock*",
            "wait_on_page_writeback",
            "__lock_page*",
            "__lock_buffer",
            "wait_for_stable_page",
        ],
    ),
    (
        Device,
        &[
            "__iomap_dio_rw",
            "iomap_dio_rw",
            "blkdev_direct_IO*",
            "__blkdev_direct_IO*",
            "blkdev_read_iter",
            "blkdev_write_iter",
            "blkdev_issue_*",
            "submit_bio_wait",
            "__blkdev_issue_*",
            "__wait_on_buffer",
            "bh_read*",
            "__bh_read*",
            "ext4_wait_block_bitmap",
            "ext4_read_block_bitmap*",
            "ext4_mb_init_group",
            "ext4_mb_load_buddy*",
            "zio_wait",
            "dbuf_read*",
            "arc_read*",
            "__bread_gfp",
            "__ext4_get_inode_loc*",
            "ext4_bread*",
            "ext4_wait_block_bitmap",
            "ext4_read_block_bitmap*",
            "__ext4_sb_bread*",
            "ext4_read_bh*",
            "xfs_buf_iowait",
            "xfs_buf_read_map",
            "read_extent_buffer_pages*",
            "btrfs_read_extent_buffer*",
            "btrfs_direct_*",
            "btrfs_dio_*",
            "sync_dirty_buffer",
            "__sync_dirty_buffer",
            "blk_execute_rq",
            "read_events",
            "exit_aio",
            "io_cqring_wait*",
            "loop_process_work",
        ],
    ),
];

/// Writeback that a thread starts, and waits for, itself: in a sync, and also when it closes a
/// file, unmounts, freezes, or dumps core. The names of the file systems are here, because the
/// common functions around them are often left by a tail call.
const WRITEBACK: &[&str] = &[
    "filemap_fdatawrite*",
    "__filemap_fdatawrite*",
    "filemap_writeback",
    "filemap_flush*",
    "write_cache_pages",
    "writeback_iter",
    "generic_writepages",
    "mpage_writepages",
    "iomap_writepages",
    "blkdev_writepages",
    "ext4_writepages",
    "ext4_do_writepages",
    "ext4_alloc_da_blocks",
    "xfs_vm_writepages",
    "xfs_flush_unmap_range",
    "btrfs_writepages",
    "extent_writepages",
    "extent_write_cache_pages",
    "btrfs_wait_ordered_*",
    "btrfs_start_ordered_extent*",
    "btrfs_start_delalloc_*",
    "f2fs_write_*_pages",
    "f2fs_wait_on_*",
    "f2fs_sync_*",
    "write_inode_now",
    "sync_inode*",
    "sync_blockdev*",
    "writeback_sb_inodes",
    "writeback_single_inode",
    "writeback_inodes_*",
    "inode_wait_for_writeback",
    "__inode_wait_for_writeback",
    "xfs_ail_push_all_sync",
    "xfs_buftarg_drain",
    "xfs_buftarg_wait",
    "xfs_wait_buftarg",
    "xfs_log_quiesce",
    "xfs_log_unmount",
    "xfs_unmountfs",
    "xfs_fs_put_super",
    "ext4_put_super",
    "btrfs_put_super",
    "close_ctree",
];

/// Of FUSE and virtiofs, whose requests are FUSE's; `fuse_dev_*` is the server's own side, which
/// waits for work.
const FUSE: &[&str] = &[
    "request_wait_answer",
    "fuse_simple_request",
    "__fuse_simple_request",
    "fuse_send_*",
    "fuse_get_req",
    "fuse_wait_on_page_writeback",
    "fuse_wait_on_folio_writeback",
    "fuse_flush",
    "fuse_sync_writes",
    "virtio_fs_*",
];

/// Of file systems whose server is another machine, or the hypervisor: NFS, SMB, Ceph, 9p, AFS, and
/// what they share (sunrpc, netfs).
const NETWORK: &[&str] = &[
    "rpc_wait_bit_killable",
    "rpc_execute",
    "__rpc_execute",
    "rpc_run_task",
    "rpc_call_sync",
    "rpc_wait_for_completion_task",
    "__rpc_wait_for_completion_task",
    "nfs_*",
    "nfs3_*",
    "nfs4_*",
    "nfs41_*",
    "pnfs_*",
    "cifs_*",
    "smb2_*",
    "SMB2_*",
    "wait_for_response",
    "compound_send_recv",
    "wait_for_free_credits",
    "ceph_*",
    "p9_client_*",
    "p9_virtio_*",
    "v9fs_*",
    "netfs_*",
    "afs_*",
];

/// Prefixes of these file systems' functions that wait for a page or for writeback.
const AROUND: &[(WaitClass, &[&str])] = &[
    (Fuse, &["fuse_*"]),
    (NetworkFs, &["nfs_*", "nfs4_*", "cifs_*", "ceph_*", "v9fs_*", "netfs_*"]),
];

/// The server's side of FUSE: it waits for work, not for storage.
const IDLE_SERVER: &[&str] =
    &["fuse_dev_do_read", "fuse_dev_read", "fuse_dev_splice_read", "fuse_uring_*"];

/// Functions that sleep uninterruptibly for something that is not storage.
const ELSEWHERE: &[&str] = &[
    "kernel_clone",
    "wait_for_vfork_done",
    "ptrace_stop",
    "do_coredump",
    "coredump_wait",
    "synchronize_rcu*",
    "__wait_rcu_gp",
    "wait_rcu_exp_gp",
    "synchronize_srcu*",
    "perf_event_*",
    "bpf_*",
    "tracepoint_probe_*",
    "text_poke_*",
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_mprotect_pkey",
    "exit_mm",
    "cgroup_*",
    "rtnl_lock",
    "unix_stream_*",
    "n_tty_*",
    "tty_*",
    "msleep*",
    "lock_next_vma",
    "lock_mm_and_find_vma",
    "page_reporting_process",
    "affine_move_task",
    "__lru_add_drain_all",
];

/// Functions that wait for another thread to do or end something, which is storage if a function
/// around them is: an unmount stops the journal's thread, which writes until then.
const FOR_ANOTHER: &[&str] = &["kthread_stop*", "__kthread_stop*"];

/// Functions that only wait for buffers to be read or written, whatever calls them.
const OF_BUFFERS: &[&str] = &["bit_wait_io", "out_of_line_wait_on_bit"];

/// Reasons of waits for a page, innermost first: reading or locking it for a fault is a fault,
/// writing it for a sync is a sync.
const FOR_A_PAGE: &[(&str, WaitClass)] = &[
    ("filemap_fault", PageFault),
    ("do_swap_page", Swap),
    ("shmem_swapin*", Swap),
    ("shmem_unuse*", Swap),
    ("try_to_unuse", Swap),
    ("__filemap_fdatawait_range", Fsync),
    ("file_write_and_wait_range", Fsync),
    ("filemap_write_and_wait_range", Fsync),
    ("shrink_folio_list", Reclaim),
    ("shrink_page_list", Reclaim),
];

/// The meaning of a stack, innermost function first.
pub fn verdict<'a>(frames: impl IntoIterator<Item = &'a str>) -> StackVerdict {
    let mut frames = frames.into_iter();
    let verdict = innermost(&mut frames);
    let StackVerdict::Storage(PageRead | PageLock | PageFault | Fsync) = verdict else {
        return verdict;
    };
    let around: Vec<&str> = frames.map(name_of).collect();
    let served = AROUND.iter().find(|(_, functions)| {
        around.iter().any(|name| functions.iter().any(|function| stands_for(function, name)))
    });
    if let Some((class, _)) = served {
        return StackVerdict::Storage(*class);
    }
    if !matches!(verdict, StackVerdict::Storage(PageRead | PageLock)) {
        return verdict;
    }
    let reason = around.iter().find_map(|name| {
        let is_one = |(function, _): &&(&str, WaitClass)| stands_for(function, name);
        FOR_A_PAGE.iter().find(is_one).map(|(_, class)| *class)
    });
    reason.map_or(verdict, StackVerdict::Storage)
}

/// The class of a wait for pages of a file on a file system of this type, as a mount names it:
/// `fuse.sshfs`. A server fills and writes the pages of some, and their own functions need not be
/// on the stack: the kernel leaves them by a tail call.
pub fn class_on(class: WaitClass, file_system: &str) -> WaitClass {
    let server = match file_system {
        "virtiofs" | "fuse" | "fuseblk" => Fuse,
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "9p" | "afs" => NetworkFs,
        kind if kind.starts_with("fuse.") || kind.starts_with("fuseblk.") => Fuse,
        _ => return class,
    };
    if matches!(class, PageRead | PageLock | PageFault | Fsync | Unknown) { server } else { class }
}

/// The meaning of the innermost known function; `frames` are consumed up to it.
fn innermost<'a>(frames: &mut impl Iterator<Item = &'a str>) -> StackVerdict {
    let mut otherwise = StackVerdict::Unknown;
    for frame in frames {
        let name = name_of(frame);
        if IDLE_SERVER.iter().any(|function| stands_for(function, name)) {
            return StackVerdict::Elsewhere;
        }
        for (class, functions) in FUNCTIONS {
            if functions.iter().any(|function| stands_for(function, name)) {
                return StackVerdict::Storage(*class);
            }
        }
        if ELSEWHERE.iter().any(|function| stands_for(function, name)) {
            return StackVerdict::Elsewhere;
        }
        if OF_BUFFERS.contains(&name) {
            otherwise = StackVerdict::Storage(Device);
        }
        if FOR_ANOTHER.iter().any(|function| stands_for(function, name)) {
            otherwise = StackVerdict::Elsewhere;
        }
    }
    otherwise
}

/// The function without the suffix of a compiler's clone.
fn name_of(frame: &str) -> &str {
    frame.split('.').next().unwrap_or(frame)
}

fn stands_for(function: &str, name: &str) -> bool {
    match function.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => function == name,
    }
}

impl WaitClass {
    /// Whether a wait of this class is for another thread, which wakes the threads that wait for
    /// it.
    pub fn is_for_thread(self) -> bool {
        matches!(self, FsLock | JournalCommit | JournalSpace)
    }

    /// Whether a wait of this class is for requests, so that it is split over their stages; others
    /// are not for requests.
    pub fn is_for_requests(self) -> bool {
        matches!(self, Device | Queue | PageLock | PageRead | PageFault | Fsync | Swap | Unknown)
    }
}

#[cfg(test)]
mod tests;
