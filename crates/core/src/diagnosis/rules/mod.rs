//! The causes, one file each. To add one, add its file and its name in the list below.
//!
//! A threshold is a constant with its source; "chosen" means chosen here and checked by the labs'
//! near misses and controls.

use super::claims::Claims;
use super::facts::{self, Facts};
use super::finding::{Confidence, Finding, ImpactOf, Severity};
use super::missing::Missing;
use super::rule::{Judged, LeastData, Rule, RuleVerdict, rule};
use super::subject::Subject;
use super::words;

macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        $( pub mod $name; )+

        /// Every rule, in the catalogue's order.
        pub const ALL: &[Rule] = &[$( $name::RULE ),+];
    };
}

rules! {
    cgroup_throttle,
    provider_cap,
    burst_credits,
    device_slow_tail,
    hung_io,
    readahead_waste,
    page_cache_thrash,
    caches_dropped,
    swap_io,
    major_faults,
    fsync_heavy,
    flush_cost,
    journal_commit,
    journal_full,
    dirty_throttle,
    writeback_burst,
    checkpoint_burst,
    wbt_throttle,
    iocost_throttle,
    tag_starvation,
    scheduler_overhead,
    serial_reads,
    small_writes,
    misaligned_rmw,
    split_requests,
    metadata_scan,
    bulk_scan,
    temp_file_churn,
    log_flood,
    atime_updates,
    discard_storm,
    double_caching,
    noisy_neighbour,
    raid_resync,
    dm_layer,
    multipath_failover,
    fragmentation,
    direct_buffered_mix,
    inode_lock,
    io_uring_punt,
    cpu_starvation,
    sync_storm,
    config_regression,
    lock_behind_io,
    file_lock,
    row_lock,
    memory_reclaim,
    network_filesystem,
    fuse_server,
    first_touch,
    cpu_steal,
    write_cliff,
    btrfs_maintenance,
    space_nearly_full,
    kernel_housekeeping,
    blocking_submit,
    copy_up,
    image_pull,
    xfs_contention,
    fanotify_wait,
    thin_pool,
    virtqueue,
    gc_log_stall,
    drive_health,
    link_degraded,
    device_reset,
    instance_limit,
    volume_state,
    synchronous_mount,
    core_dump,
    close_writeback,
    log_wraps,
    readahead_small,
    io_priority,
    slow_member,
    temporary_spill,
    serial_writes,
    file_system_cpu,
}

/// The rule of a cause.
pub fn rule_of(cause: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.cause == cause)
}
