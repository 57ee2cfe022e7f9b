//! The metrics of `samples`: each is one line here, with its word, scope, unit and sentence. The
//! sampler, the views and the documentation follow from that line.
//!
//! What does not belong here: reading the kernel's files (crate `iowhy-capture`).

use super::sample::Scope;
pub use super::table::Unit;

/// The behaviour of a metric's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The value only grows; its change is meaningful.
    Counter,
    /// The value goes up and down.
    Gauge,
}

/// The definition of a metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricInfo {
    /// The metric's word in the column `metric`: an interface, since people write SQL on it.
    pub word: &'static str,
    /// The metric's scope.
    pub scope: Scope,
    /// Whether it only grows.
    pub shape: Shape,
    /// The unit of its values.
    pub unit: Unit,
    /// One sentence for readers of the recording.
    pub sentence: &'static str,
}

macro_rules! metrics {
    ($( $scope:ident { $(
        $metric:ident = $word:literal $shape:ident $unit:ident $sentence:literal;
    )+ } )+) => {
        /// A counter or a gauge that is read at intervals.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Metric { $($( #[doc = $sentence] $metric ),+),+ }

        impl Metric {
            /// Every metric, in the order of its definition.
            pub const ALL: &'static [Metric] = &[$($( Metric::$metric ),+),+];

            /// Returns the metric's definition.
            pub const fn info(self) -> MetricInfo {
                match self { $($( Metric::$metric => MetricInfo {
                    word: $word,
                    scope: Scope::$scope,
                    shape: Shape::$shape,
                    unit: Unit::$unit,
                    sentence: $sentence,
                } ),+),+ }
            }

            /// Whether it is derived from requests, so that a filter makes it incomplete.
            pub const fn is_of_all_requests(self) -> bool {
                matches!(
                    self,
                    Metric::UnderWay
                        | Metric::UnderWayAge
                        | Metric::OldestAge
                        | Metric::OldestIssued
                )
            }

            /// The metric of that scope and word; `None` for one that this version does not know.
            pub fn find(scope: Scope, word: &str) -> Option<Metric> {
                match (scope, word) {
                    $($( (Scope::$scope, $word) => Some(Metric::$metric), )+)+
                    _ => None,
                }
            }
        }
    };
}

metrics! {
    System {
        MemoryFree = "meminfo.MemFree" Gauge Bytes "Unused memory.";
        MemoryAvailable = "meminfo.MemAvailable" Gauge Bytes
            "Memory available to programs without swapping, as the kernel estimates it.";
        Buffers = "meminfo.Buffers" Gauge Bytes
            "Page cache of block devices themselves: file systems' metadata.";
        Cached = "meminfo.Cached" Gauge Bytes "Page cache of files, with shared memory.";
        SharedMemory = "meminfo.Shmem" Gauge Bytes
            "Shared memory and tmpfs: part of Cached, but not of any disk.";
        Anonymous = "meminfo.AnonPages" Gauge Bytes "Memory of programs that is not backed by a \
            file.";
        SlabReclaimable = "meminfo.SReclaimable" Gauge Bytes
            "Reclaimable kernel memory, mostly inodes and dentries.";
        SwapFree = "meminfo.SwapFree" Gauge Bytes "Unused swap.";
        Dirty = "vmstat.nr_dirty" Gauge Bytes
            "File pages that were modified and not yet written.";
        Writeback = "vmstat.nr_writeback" Gauge Bytes "File pages under writeback.";
        DirtyThreshold = "vmstat.nr_dirty_threshold" Gauge Bytes
            "Dirty pages from which writers are throttled, as the kernel computes it from \
             vm.dirty_ratio or vm.dirty_bytes and the memory that could be dirtied.";
        DirtyBackgroundThreshold = "vmstat.nr_dirty_background_threshold" Gauge Bytes
            "Dirty pages from which background writeback runs, computed in the same way.";
        Dirtied = "vmstat.nr_dirtied" Counter Bytes "Pages that programs made dirty.";
        Written = "vmstat.nr_written" Counter Bytes "Dirty pages that were written.";
        FilePages = "vmstat.nr_file_pages" Gauge Bytes
            "The page cache: pages of files, of block devices and of shared memory.";
        PagedIn = "vmstat.pgpgin" Counter Bytes
            "Bytes that all block devices read, swap included; stacked devices are counted on each \
             level.";
        PagedOut = "vmstat.pgpgout" Counter Bytes
            "Bytes that all block devices wrote, swap included; stacked devices are counted on \
             each level.";
        SwappedIn = "vmstat.pswpin" Counter Bytes "Anonymous memory that was swapped in.";
        SwappedOut = "vmstat.pswpout" Counter Bytes "Anonymous memory that was swapped out.";
        Faults = "vmstat.pgfault" Counter Count "Page faults, major and minor.";
        MajorFaults = "vmstat.pgmajfault" Counter Count
            "Page faults that needed a read from a device.";
        RefaultsFile = "vmstat.workingset_refault_file" Counter Bytes
            "File pages that were read again soon after they were reclaimed: the page cache is too \
             small for the working set.";
        RefaultsAnonymous = "vmstat.workingset_refault_anon" Counter Bytes
            "Anonymous pages that were swapped in soon after they were swapped out.";
        Activated = "vmstat.pgactivate" Counter Bytes
            "Pages that were used again and moved to the active list.";
        ScannedBackground = "vmstat.pgscan_kswapd" Counter Bytes
            "Pages that kswapd scanned.";
        ScannedDirect = "vmstat.pgscan_direct" Counter Bytes
            "Pages that programs scanned themselves to get memory (direct reclaim).";
        ReclaimedBackground = "vmstat.pgsteal_kswapd" Counter Bytes "Pages that kswapd reclaimed.";
        ReclaimedDirect = "vmstat.pgsteal_direct" Counter Bytes
            "Pages that programs reclaimed themselves (direct reclaim).";
        ReclaimedFile = "vmstat.pgsteal_file" Counter Bytes "File pages that were reclaimed, by \
                                                             kswapd or by programs.";
        InodesReclaimed = "vmstat.pginodesteal" Counter Bytes
            "File pages that programs reclaimed together with their inodes.";
        InodesReclaimedBackground = "vmstat.kswapd_inodesteal" Counter Bytes
            "File pages that kswapd reclaimed together with their inodes.";
        ActivatedFile = "vmstat.workingset_activate_file" Counter Bytes
            "File pages that came back so soon that they were activated at once.";
        RestoredFile = "vmstat.workingset_restore_file" Counter Bytes
            "File pages that came back and had been active when they were reclaimed: the page \
             cache loses pages that are needed.";
        CacheDropped = "vmstat.drop_pagecache" Counter Count
            "Writes to /proc/sys/vm/drop_caches that emptied the page cache.";
        PageCacheAdded = "page_cache.added" Counter Bytes "Pages added to the page cache, each \
                                                           counted by iowhy (`--page-cache`), \
                                                           without shared memory.";
        PageCacheRemoved = "page_cache.removed" Counter Bytes
            "Pages removed from the page cache for any reason, counted in the same way.";
        CpuUser = "stat.user" Counter Nanoseconds "CPU time of programs, on all CPUs together.";
        CpuSystem = "stat.system" Counter Nanoseconds "CPU time of the kernel, with interrupts.";
        CpuIdle = "stat.idle" Counter Nanoseconds "Time in which a CPU was idle and no thread that \
                                                   slept there waited for I/O.";
        CpuIoWait = "stat.iowait" Counter Nanoseconds "Idle time of CPUs on which a thread went to \
                                                       sleep for I/O. Busy CPUs hide it, and it \
                                                       does not show how long threads wait.";
        CpuSteal = "stat.steal" Counter Nanoseconds "Time in which the hypervisor ran other \
            guests.";
        Running = "stat.procs_running" Gauge Count "Threads that are running or runnable.";
        Blocked = "stat.procs_blocked" Gauge Count "Threads that wait for I/O (in_iowait).";
        PressureIoSome = "pressure.io.some" Counter Nanoseconds
            "Time in which at least one task waited for I/O.";
        PressureIoFull = "pressure.io.full" Counter Nanoseconds
            "Time in which all non-idle tasks waited for I/O.";
        PressureMemorySome = "pressure.memory.some" Counter Nanoseconds
            "Time in which at least one task waited for memory.";
        PressureMemoryFull = "pressure.memory.full" Counter Nanoseconds
            "Time in which all non-idle tasks waited for memory.";
        PressureCpuSome = "pressure.cpu.some" Counter Nanoseconds
            "Time in which at least one task waited for a CPU.";
        ProcessesUnread = "iowhy.processes_unread" Gauge Count
            "Processes that iowhy had no time to poll; they are polled later.";
        ProcessesUntold = "iowhy.processes_untold" Gauge Count
            "Processes that did I/O and have no row at this time; their next row contains it.";
        CgroupsUnread = "iowhy.cgroups_unread" Gauge Count
            "Cgroups that iowhy had no time to poll; they are polled later.";
    }
    Device {
        Reads = "diskstats.reads" Counter Count "Reads completed.";
        ReadsMerged = "diskstats.reads_merged" Counter Count
            "Reads merged into others before they were queued.";
        ReadBytes = "diskstats.read_bytes" Counter Bytes "Bytes read.";
        ReadTime = "diskstats.read_ns" Counter Nanoseconds "Time from getting a request to \
                                                            completion of reads; the kernel counts \
                                                            it in milliseconds.";
        Writes = "diskstats.writes" Counter Count
            "Writes completed; a flush request counts as an empty write.";
        WritesMerged = "diskstats.writes_merged" Counter Count "Writes merged into others.";
        WriteBytes = "diskstats.write_bytes" Counter Bytes "Bytes written.";
        WriteTime = "diskstats.write_ns" Counter Nanoseconds "The same time of writes.";
        InFlight = "diskstats.in_flight" Gauge Count "Requests in flight.";
        BusyTime = "diskstats.busy_ns" Counter Nanoseconds
            "Time with at least one request in flight, in steps of a clock tick.";
        QueueTime = "diskstats.queue_ns" Counter Nanoseconds "Time of all requests that completed.";
        Discards = "diskstats.discards" Counter Count "Discards completed.";
        DiscardsMerged = "diskstats.discards_merged" Counter Count "Discards merged into others.";
        DiscardBytes = "diskstats.discard_bytes" Counter Bytes "Bytes discarded.";
        DiscardTime = "diskstats.discard_ns" Counter Nanoseconds "The same time of discards.";
        Flushes = "diskstats.flushes" Counter Count "Cache flushes that the device completed.";
        FlushTime = "diskstats.flush_ns" Counter Nanoseconds "Their time.";
        UnderWay = "under_way.requests" Gauge Count
            "Requests that are queued or in flight, as iowhy sees them.";
        UnderWayAge = "under_way.age_ns" Gauge Nanoseconds "The sum of their ages; together with \
                                                            the time of completed requests it \
                                                            yields the exact mean in flight.";
        OldestAge = "under_way.oldest_ns" Gauge Nanoseconds "The age of the oldest of them.";
        OldestIssued = "under_way.oldest_issued_ns" Gauge Nanoseconds
            "Time since the issue of the request that has been with the driver longest.";
    }
    Process {
        LogicalRead = "io.rchar" Counter Bytes
            "Bytes that read calls returned, including those from the page cache, pipes and \
             sockets.";
        LogicalWrite = "io.wchar" Counter Bytes "Bytes that write calls wrote, including those to \
            pipes and sockets.";
        ReadCalls = "io.syscr" Counter Count "Read calls.";
        WriteCalls = "io.syscw" Counter Count "Write calls.";
        CausedRead = "io.read_bytes" Counter Bytes "Device reads that it caused, readahead \
                                                    included; readahead by others is theirs.";
        CausedWrite = "io.write_bytes" Counter Bytes "Pages that it made dirty and direct writes: \
                                                      what devices have to write for it, now or \
                                                      later.";
        CancelledWrite = "io.cancelled_write_bytes" Counter Bytes
            "Dirty pages that it discarded (by truncating or deleting) before they were written.";
        ProcessMajorFaults = "stat.majflt" Counter Count
            "Page faults that needed a read from a device.";
        ProcessMemory = "statm.anonymous" Gauge Bytes
            "Resident memory that no file backs; of the processes with most of it.";
        ProcessMemoryLimit = "memory.limit" Gauge Bytes
            "The smallest limit on memory of its cgroup and those above it; of the same processes, \
             and of those that wait for storage.";
        ProcessMemoryGroup = "memory.limit_cgroup" Gauge Count
            "The inode of the cgroup that has this limit: processes with the same one share it.";
        ProcessCpu = "stat.cpu_ns" Counter Nanoseconds "CPU time of its threads, in clock ticks; \
                                                        of processes that wait for storage, now \
                                                        and then, and of those in cgroups whose \
                                                        limit of CPU time was reached.";
        ProcessSystemCpu = "stat.system_ns" Counter Nanoseconds
            "CPU time of its threads within the kernel, in clock ticks; of processes that wait for \
             storage, now and then.";
        HeldBack = "cgroup.cpu_throttled_ns" Counter Nanoseconds
            "Time in which its cgroup was throttled by its own or an ancestor's CPU limit, on all \
             CPUs together; the same for all of its processes.";
        DelayedByIo = "stat.delayacct_blkio_ns" Counter Nanoseconds
            "Time that it waited for block I/O, from delay accounting: 0 unless \
             kernel.task_delayacct is on.";
        HiddenWait = "waits.hidden_ns" Counter Nanoseconds
            "Its threads' waits for storage after which they slept for another thread of it that \
             worked all the while: without them the process would not have been faster.";
        SleptForOwn = "waits.slept_for_own_ns" Counter Nanoseconds
            "How long its threads slept for another thread of it after these waits.";
        WorkClients = "work.clients" Gauge Count
            "Its sockets that listen, and the connections that it has accepted.";
        WorkListeners = "work.listeners" Gauge Count
            "Those of them that listen: where a server works for each client in a process of its \
             own, or copies itself to write a snapshot, only the first process has any.";
        WorkPeers = "work.peers" Gauge Count
            "Its other connections, and pipes: a program at their other end may wait for it.";
        WorkTerminal = "work.terminal" Gauge Count
            "1 if it is in the foreground of its terminal, else 0.";
        WorkWaiter = "work.waiter" Gauge Count
            "The process that sleeps until it ends (wait4, waitid); 0 if none does.";
        WorkScheduler = "work.scheduler" Gauge Count
            "Its ancestor that starts jobs at set times (cron, at); 0 if it has none.";
    }
    Cgroup {
        CgroupRead = "io.rbytes" Counter Bytes
            "Bytes read by it and the cgroups below, over all devices.";
        CgroupWrite = "io.wbytes" Counter Bytes "Bytes written by them; buffered writes count only \
                                                 on cgroup v2 and file systems that support it.";
        CgroupReads = "io.rios" Counter Count "Reads of them.";
        CgroupWrites = "io.wios" Counter Count "Writes of them.";
        CgroupDiscarded = "io.dbytes" Counter Bytes "Bytes discarded by them.";
        CgroupFile = "memory.file" Gauge Bytes "Page cache charged to them.";
        CgroupAnonymous = "memory.anon" Gauge Bytes "Anonymous memory charged to them.";
        CgroupDirty = "memory.file_dirty" Gauge Bytes "Their dirty pages.";
        CgroupWriteback = "memory.file_writeback" Gauge Bytes "Their pages under writeback.";
        CgroupRefaults = "memory.workingset_refault_file" Counter Bytes
            "Their file pages that were read again soon after they were reclaimed: their memory is \
             too small for the working set.";
        CgroupScanned = "memory.pgscan" Counter Bytes
            "Their pages that were scanned for reclaim; only on cgroup v2.";
        CgroupReclaimed = "memory.pgsteal" Counter Bytes
            "Their pages that were reclaimed; only on cgroup v2.";
        CgroupRestored = "memory.workingset_restore_file" Counter Bytes
            "Their file pages that came back and had been active when they were reclaimed.";
        CgroupMajorFaults = "memory.pgmajfault" Counter Count
            "Their page faults that had to read from a device.";
        CgroupNumber = "memory.cgroup" Gauge Count
            "The inode of the cgroup of memory: what `memory.limit_cgroup` of a process says.";
        CgroupHeldBack = "cpu.throttled_ns" Counter Nanoseconds
            "Time in which they were throttled by their CPU limit (cpu.max, or version 1's \
             cpu.cfs_quota_us), on all CPUs together.";
        CgroupIoSome = "io.pressure.some" Counter Nanoseconds
            "Time in which at least one of their tasks waited for I/O.";
        CgroupIoFull = "io.pressure.full" Counter Nanoseconds
            "Time in which all of their non-idle tasks waited for I/O.";
        CgroupMemorySome = "memory.pressure.some" Counter Nanoseconds
            "Time in which at least one of their tasks waited for memory.";
    }
}

/// The columns of /proc/diskstats after the device's name, each with the factor to the metric's
/// unit.
pub const DISKSTATS: [(Metric, u64); 17] = [
    (Metric::Reads, 1),
    (Metric::ReadsMerged, 1),
    (Metric::ReadBytes, 512),
    (Metric::ReadTime, 1_000_000),
    (Metric::Writes, 1),
    (Metric::WritesMerged, 1),
    (Metric::WriteBytes, 512),
    (Metric::WriteTime, 1_000_000),
    (Metric::InFlight, 1),
    (Metric::BusyTime, 1_000_000),
    (Metric::QueueTime, 1_000_000),
    (Metric::Discards, 1),
    (Metric::DiscardsMerged, 1),
    (Metric::DiscardBytes, 512),
    (Metric::DiscardTime, 1_000_000),
    (Metric::Flushes, 1),
    (Metric::FlushTime, 1_000_000),
];

/// The subject of a process's samples: its number, a space and its name.
pub fn process_subject(pid: u32, name: &str) -> String {
    format!("{pid} {name}")
}

/// Splits a [`process_subject`] into PID and name.
pub fn process_of(subject: &str) -> Option<(u32, &str)> {
    let (pid, name) = subject.split_once(' ')?;
    Some((pid.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_back() {
        for metric in Metric::ALL {
            let info = metric.info();
            assert_eq!(Metric::find(info.scope, info.word), Some(*metric));
            assert!(info.sentence.ends_with('.'), "{}", info.word);
        }
        assert_eq!(Metric::find(Scope::Device, "meminfo.MemFree"), None);
    }

    #[test]
    fn a_subject_leads_back_to_its_process() {
        assert_eq!(process_of(&process_subject(7, "a b")), Some((7, "a b")));
        assert_eq!(process_of("sda"), None);
    }
}
