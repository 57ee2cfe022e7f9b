//! The classes of stacks, as kernels from 5.10 to 7.2 show them.

use super::*;

#[test]
fn the_innermost_known_function_decides() {
    let page = ["schedule", "io_schedule", "folio_wait_bit_common", "folio_wait_writeback"];
    assert_eq!(verdict(page), StackVerdict::Storage(PageLock));
    let synced = page.into_iter().chain(["__filemap_fdatawait_range", "ext4_sync_file"]);
    assert_eq!(verdict(synced), StackVerdict::Storage(Fsync));
    let swapped = ["folio_wait_bit_common", "__folio_lock_or_retry", "do_swap_page"];
    assert_eq!(verdict(swapped), StackVerdict::Storage(Swap));
    let throttled = ["schedule_timeout", "balance_dirty_pages", "ext4_buffered_write_iter"];
    assert_eq!(verdict(throttled), StackVerdict::Storage(DirtyThrottle));
    let fault = ["io_schedule", "filemap_read_folio", "filemap_fault", "do_read_fault"];
    assert_eq!(verdict(fault), StackVerdict::Storage(PageFault));
    let swapped = ["io_schedule", "__folio_lock_or_retry", "do_swap_page", "__handle_mm_fault"];
    assert_eq!(verdict(swapped), StackVerdict::Storage(Swap));
    let locked = ["schedule", "rwsem_down_write_slowpath", "down_write", "xfs_ilock"];
    assert_eq!(verdict(locked), StackVerdict::Storage(FsLock));
}

#[test]
fn a_page_of_a_served_file_system_is_its_server_s() {
    let read = ["io_schedule", "filemap_update_page", "filemap_read", "fuse_file_read_iter"];
    assert_eq!(verdict(read), StackVerdict::Storage(Fuse));
    let read = ["io_schedule", "folio_wait_bit_common", "filemap_read", "nfs_file_read"];
    assert_eq!(verdict(read), StackVerdict::Storage(NetworkFs));
    let read = ["io_schedule", "filemap_update_page", "filemap_read", "ext4_file_read_iter"];
    assert_eq!(verdict(read), StackVerdict::Storage(PageRead));
    let asked = ["schedule", "request_wait_answer", "__fuse_simple_request", "fuse_lookup_name"];
    assert_eq!(verdict(asked), StackVerdict::Storage(Fuse));
    let synced = ["folio_wait_writeback", "__filemap_fdatawait_range", "nfs_file_fsync"];
    assert_eq!(verdict(synced), StackVerdict::Storage(NetworkFs));
    for asked in [
        ["rpc_wait_bit_killable", "__rpc_execute", "nfs4_proc_getattr"],
        ["wait_for_response", "compound_send_recv", "SMB2_open"],
        ["ceph_mdsc_wait_request", "ceph_mdsc_do_request", "ceph_lookup"],
        ["p9_client_rpc", "p9_client_walk", "v9fs_vfs_lookup"],
    ] {
        assert_eq!(verdict(asked), StackVerdict::Storage(NetworkFs), "{asked:?}");
    }
    // The lock of a file is held by a thread of this machine.
    let locked = ["rwsem_down_write_slowpath", "inode_lock", "fuse_file_write_iter"];
    assert_eq!(verdict(locked), StackVerdict::Storage(FsLock));
    // A server waits for work.
    let idle = ["schedule", "fuse_dev_do_read", "fuse_dev_read", "vfs_read"];
    assert_eq!(verdict(idle), StackVerdict::Elsewhere);
}

#[test]
fn memory_zfs_and_permission_have_their_classes() {
    let compact = ["migrate_pages", "compact_zone", "try_to_compact_pages"];
    assert_eq!(verdict(compact), StackVerdict::Storage(Reclaim));
    let over = ["schedule_timeout_killable", "__mem_cgroup_handle_over_high"];
    assert_eq!(verdict(over), StackVerdict::Storage(Reclaim));
    let pool = ["io_schedule", "cv_wait_common", "__cv_wait_io", "zio_wait", "dmu_buf_hold"];
    assert_eq!(verdict(pool), StackVerdict::Storage(Device));
    let synced = ["cv_wait_common", "txg_wait_synced_impl", "zil_commit_impl"];
    assert_eq!(verdict(synced), StackVerdict::Storage(JournalCommit));
    let asked = ["schedule", "fanotify_get_response", "fanotify_handle_event"];
    assert_eq!(verdict(asked), StackVerdict::Storage(Fanotify));
    let bitmap = ["bit_wait_io", "ext4_wait_block_bitmap", "ext4_mb_init_group", "ext4_map_blocks"];
    assert_eq!(verdict(bitmap), StackVerdict::Storage(Device));
}

#[test]
fn memory_of_tmpfs_comes_from_swap_as_other_memory_does() {
    for stack in [
        // 6.18: a fault on shared memory.
        &[
            "io_schedule",
            "folio_wait_bit_common",
            "__folio_lock",
            "shmem_swapin_folio",
            "shmem_get_folio_gfp",
            "shmem_fault",
        ][..],
        // 5.10: a read of a file in tmpfs.
        &[
            "io_schedule",
            "wait_on_page_bit_common",
            "__lock_page",
            "shmem_swapin_page.isra.0",
            "shmem_getpage_gfp",
            "shmem_file_read_iter",
        ],
        &["io_schedule", "swap_readpage", "swap_cluster_readahead", "shmem_swapin"],
        // swapoff
        &["io_schedule", "folio_wait_bit_common", "folio_wait_writeback", "try_to_unuse"],
        &["io_schedule", "__folio_lock", "shmem_swapin_folio", "shmem_unuse_inode"],
    ] {
        assert_eq!(verdict(stack.iter().copied()), StackVerdict::Storage(Swap), "{stack:?}");
    }
    // A page of a file that shares memory is not swap's.
    let read = ["io_schedule", "__folio_lock", "filemap_fault", "__do_fault"];
    assert_eq!(verdict(read), StackVerdict::Storage(PageFault));
}

#[test]
fn a_page_s_server_is_known_by_the_mount_where_the_stack_has_none_of_its_functions() {
    let read = [
        "schedule",
        "io_schedule",
        "folio_wait_bit_common",
        "filemap_get_pages",
        "filemap_read",
        "vfs_read",
        "__x64_sys_read",
    ];
    assert_eq!(verdict(read), StackVerdict::Storage(PageRead));
    for (kind, class) in [
        ("fuse", Fuse),
        ("fuse.sshfs", Fuse),
        ("fuseblk", Fuse),
        ("virtiofs", Fuse),
        ("nfs4", NetworkFs),
        ("cifs", NetworkFs),
        ("ceph", NetworkFs),
        ("9p", NetworkFs),
        ("ext4", PageRead),
        ("fusectl", PageRead),
        ("", PageRead),
    ] {
        assert_eq!(class_on(PageRead, kind), class, "{kind}");
    }
    // The lock of a file, and what limits a cgroup, are not its server's.
    assert_eq!(class_on(FsLock, "fuse"), FsLock);
    assert_eq!(class_on(DirtyThrottle, "nfs"), DirtyThrottle);
}

#[test]
fn writeback_is_storage_whatever_starts_it() {
    for stack in [
        // close of a file that replaced another (auto_da_alloc)
        &[
            "folio_wait_bit_common",
            "__filemap_get_folio",
            "ext4_writepages",
            "filemap_flush",
            "ext4_release_file",
            "__fput",
        ][..],
        &["schedule", "write_cache_pages", "xfs_vm_writepages", "filemap_flush", "xfs_release"],
        &["schedule", "extent_write_cache_pages", "btrfs_writepages", "filp_close"],
        // umount
        &["schedule", "wb_wait_for_completion", "__sync_filesystem", "generic_shutdown_super"],
        &[
            "schedule",
            "schedule_timeout",
            "__wait_for_common",
            "kthread_stop",
            "close_ctree",
            "generic_shutdown_super",
            "cleanup_mnt",
        ],
        &["schedule", "schedule_timeout", "xfs_ail_push_all_sync", "xfs_unmount_flush_inodes"],
        &["schedule", "__inode_wait_for_writeback", "evict", "dispose_list", "evict_inodes"],
        // ioctl: a freeze, a clone, a defragmentation, a flush of a device's buffers
        &["schedule", "wait_sb_inodes", "sync_inodes_sb", "sync_filesystem", "freeze_super"],
        &[
            "schedule",
            "btrfs_start_ordered_extent_nowriteback",
            "btrfs_wait_ordered_range",
            "btrfs_remap_file_range",
            "do_vfs_ioctl",
        ],
        &["schedule", "filemap_write_and_wait_range", "ext4_move_extents", "ext4_ioctl"],
        &["schedule", "sync_blockdev", "blkdev_ioctl"],
        // a core dump
        &["folio_wait_bit_common", "write_cache_pages", "filemap_flush", "do_coredump"],
    ] {
        assert_eq!(verdict(stack.iter().copied()), StackVerdict::Storage(Fsync), "{stack:?}");
    }
    let stopped = ["schedule", "kthread_stop", "jbd2_journal_destroy", "ext4_put_super"];
    assert_eq!(verdict(stopped), StackVerdict::Storage(JournalCommit));
    let throttled = ["io_schedule", "balance_dirty_pages", "dump_user_range", "do_coredump"];
    assert_eq!(verdict(throttled), StackVerdict::Storage(DirtyThrottle));
    // Not storage: a thread that is stopped by itself, and the dump's wait for other threads.
    let stopped = ["schedule", "__wait_for_common", "kthread_stop", "some_driver_remove"];
    assert_eq!(verdict(stopped), StackVerdict::Elsewhere);
    assert_eq!(verdict(["schedule", "coredump_wait", "do_coredump"]), StackVerdict::Elsewhere);
}

#[test]
fn who_waits_for_space_is_throttled_and_who_commits_is_not() {
    let before_an_allocation = [
        "schedule",
        "wb_wait_for_completion",
        "__writeback_inodes_sb_nr",
        "try_to_writeback_inodes_sb",
        "ext4_nonda_switch",
        "ext4_da_write_begin",
    ];
    assert_eq!(verdict(before_an_allocation), StackVerdict::Storage(DirtyThrottle));
    let of_a_commit = [
        "schedule",
        "wb_wait_for_completion",
        "__writeback_inodes_sb_nr",
        "try_to_writeback_inodes_sb",
        "btrfs_commit_transaction",
        "btrfs_sync_file",
    ];
    assert_ne!(verdict(of_a_commit), StackVerdict::Storage(DirtyThrottle));
}

#[test]
fn older_kernels_have_other_names() {
    let read = ["io_schedule", "wait_on_page_bit_killable", "generic_file_buffered_read"];
    assert_eq!(verdict(read), StackVerdict::Storage(PageRead));
    let fault = ["io_schedule", "__lock_page_or_retry", "filemap_fault", "__do_fault"];
    assert_eq!(verdict(fault), StackVerdict::Storage(PageFault));
    let throttled = ["io_schedule_timeout", "balance_dirty_pages_ratelimited"];
    assert_eq!(verdict(throttled), StackVerdict::Storage(DirtyThrottle));
}

#[test]
fn a_clone_of_a_function_is_the_function() {
    assert_eq!(verdict(["wbt_wait.isra.0"]), StackVerdict::Storage(Wbt));
    assert_eq!(verdict(["wait_for_vfork_done"]), StackVerdict::Elsewhere);
    assert_eq!(verdict(["bit_wait_io", "new_lookup"]), StackVerdict::Storage(Device));
    assert_eq!(
        verdict(["bit_wait_io", "do_get_write_access"]),
        StackVerdict::Storage(JournalCommit)
    );
    assert_eq!(verdict(["renamed_by_a_newer_kernel"]), StackVerdict::Unknown);
    assert_eq!(verdict([]), StackVerdict::Unknown);
}
