//! Waits and wait chains, and what one thread says of its waits: capture and the analysis ask the
//! same.
//!
//! | where | what |
//! |---|---|
//! | [`class`] | kernel functions and the wait class of each |
//! | [`split`] | a wait's time over the stages of its requests |
//! | [`recent_waits`] | recent waits of each thread, for threads that waited for it |
//! | [`locks`] | functions of programs that wait for a lock |
//!
//! What does not belong here: which interval is a wait (crate `iowhy-capture`), and sums of many
//! (crate `iowhy-analysis`).

pub mod class;
pub mod locks;
pub mod recent_waits;
pub mod split;

use super::block::words;
use super::names::Name;
use crate::table;

words! {
    /// Wait classes: why a thread waited, from its kernel stack and its requests.
    pub enum WaitClass {
        /// For the driver and the device.
        Device = "device",
        /// For requests that waited in the block layer: scheduler, plug, dispatch.
        Queue = "queue",
        /// For its cgroup's limit (`io.max`, v1's blkio throttle, iolatency).
        CgroupThrottle = "cgroup_throttle",
        /// Because too many pages are dirty (`balance_dirty_pages`).
        DirtyThrottle = "dirty_throttle",
        /// For writeback throttling (wbt).
        Wbt = "wbt",
        /// For the cost model of its cgroup (iocost).
        Iocost = "iocost",
        /// For a free tag: the device's queue is full.
        Tag = "tag",
        /// For a journal's or log's commit.
        JournalCommit = "journal_commit",
        /// For space in a journal or log, or for a running commit.
        JournalSpace = "journal_space",
        /// For a page or buffer that is locked or under writeback.
        PageLock = "page_lock",
        /// For a page of the page cache to be read.
        PageRead = "page_read",
        /// For a mapped page to be read.
        PageFault = "page_fault",
        /// For dirty pages of a file to be written (fsync, sync).
        Fsync = "fsync",
        /// For an inode or another lock of a file system.
        FsLock = "fs_lock",
        /// For memory to be reclaimed.
        Reclaim = "reclaim",
        /// For anonymous memory to come from or go to swap.
        Swap = "swap",
        /// For the server of a file system on the network or of the hypervisor: NFS, SMB, Ceph, 9p.
        NetworkFs = "network_fs",
        /// For the process that serves a FUSE file system, or the host behind a virtiofs one.
        Fuse = "fuse",
        /// For the program that decides whether a file may be opened or read (fanotify).
        Fanotify = "fanotify",
        /// For a CPU, after it was woken.
        RunQueue = "run_queue",
        /// Not known: no function of its stack is in the table of classes.
        Unknown = "unknown",
    }
}

impl WaitClass {
    /// Returns the name on screens and in sentences.
    pub const fn phrase(self) -> &'static str {
        match self {
            WaitClass::Queue => "block layer's queue",
            WaitClass::CgroupThrottle => "cgroup limit",
            WaitClass::DirtyThrottle => "dirty page limit",
            WaitClass::Wbt => "writeback throttling",
            WaitClass::Tag => "free tag",
            WaitClass::JournalCommit => "journal commit",
            WaitClass::JournalSpace => "journal space",
            WaitClass::PageLock => "page lock",
            WaitClass::PageRead => "page read",
            WaitClass::PageFault => "page fault",
            WaitClass::FsLock => "file system lock",
            WaitClass::Reclaim => "memory reclaim",
            WaitClass::NetworkFs => "file server",
            WaitClass::Fuse => "FUSE server",
            WaitClass::Fanotify => "fanotify listener",
            WaitClass::RunQueue => "run queue",
            other => other.word(),
        }
    }

    /// The phrase for a word; another word is returned unchanged.
    pub fn phrase_of(word: &str) -> &str {
        WaitClass::from_word(word).map_or(word, |class| class.phrase())
    }
}

table! {
    /// One row for each interval in which a thread was off CPU because of storage.
    pub struct Wait in "waits" {
        wait_id: u64 [None] "Identifies the wait in this recording.",
        start_ns: u64 [Nanoseconds] "When the thread left the CPU; for a wait that began before \
                                     the watch, the beginning of the watch.",
        duration_ns: u64 [Nanoseconds] "Until it ran again, or the watch ended: the sum of \
                                        device_ns, queue_ns, run_queue_ns and the remainder, which \
                                        belongs to class.",
        censored: bool [None] "Whether it was open at the beginning or the end of the watch: its \
                               duration is a lower bound.",
        class: WaitClass [None] "What it waited for in the remainder, when it did not wait for \
                                 requests: device, queue, cgroup_throttle, dirty_throttle, wbt, \
                                 iocost, tag, journal_commit, journal_space, page_lock, page_read, \
                                 page_fault, fsync, fs_lock, reclaim, swap, network_fs, fuse, \
                                 fanotify or unknown.",
        device_ns: u64 [Nanoseconds] "The part in which its requests were with the driver and the \
                                      device.",
        queue_ns: u64 [Nanoseconds] "The part in which they were only queued in the block layer.",
        run_queue_ns: u64 [Nanoseconds] "The part in which the thread waited for a CPU after it \
                                         was woken.",
        cpu_wait_before_ns: Option<u64> [Nanoseconds] "Time that the runnable thread waited for a \
                                                       CPU since its last sleep that may have been \
                                                       for storage, which is part of no wait; null \
                                                       for its first wait, and if the kernel does \
                                                       not count it.",
        pid: u32 [None] "The process.",
        tid: u32 [None] "The thread.",
        process: Option<Name> [None] "The process's name.",
        kernel_thread: bool [None] "Whether the thread is the kernel's own.",
        cgroup: Option<Name> [None] "Its cgroup: the v2 path, or v1's blkio path.",
        container: Option<Name> [None] "The container or systemd unit of the cgroup by its best \
                                        name: pod:NAMESPACE/POD/CONTAINER, docker:NAME, \
                                        jenkins.service; the beginning of its id if no name is \
                                        known.",
        pod: Option<Name> [None] "The Kubernetes pod, from files of the node; null outside a pod, \
                                  or if no file has its uid.",
        namespace: Option<Name> [None] "The pod's namespace.",
        container_name: Option<Name> [None] "The container's name, or the virtual machine's.",
        unit: Option<Name> [None] "The innermost systemd unit of the cgroup's path, or its slice \
                                   if it has none.",
        syscall: Option<u32> [None] "The number of the system call that it was in; null in faults \
                                     and in the kernel.",
        file: Option<Name> [None] "The file that was passed to the system call, if any.",
        volume: Option<Name> [None] "The Kubernetes, Docker or Podman volume that the file is on; \
                                     for a claim (PVC) the volume bound to it.",
        device: Option<Name> [None] "The disk of the request that it waited for, else of the file; \
                                     null if neither is known.",
        stack_id: Option<u64> [None] "Its kernel stack, if one was taken.",
        user_stack_id: Option<u64> [None] "Its user stack, if one was taken.",
        waker_tid: Option<u32> [None] "The thread that woke it; null if a completion did.",
        weight: Option<u32> [Count] "How many waits this one stands for, itself included, where \
                                     the budget (--budget) left some out; null where it stands \
                                     for itself alone.",
    }
}

impl Wait {
    /// Returns the number of waits that this row stands for.
    #[inline]
    pub fn stands_for(&self) -> u64 {
        self.weight.map_or(1, |weight| u64::from(weight).max(1))
    }
}

words! {
    /// The evidence for the thread that another one waited for.
    pub enum KnownBy {
        /// The thread ended the wait.
        Woken = "woken",
        /// The thread holds the lock, according to the lock's memory.
        Owner = "owner",
        /// The thread is likely the one: it shares the process or pipe, and waited for storage for
        /// as long.
        Likely = "likely",
    }
}

table! {
    /// One row for each thread of a wait chain: a thread that slept, the thread that it waited for,
    /// and so on to the one that waited for storage. Rows of one path are consecutive, in the order
    /// of hops. These sleeps are not in `waits`, except those whose first row has a `wait_id`.
    pub struct WaitChain in "wait_chains" {
        chain_id: u64 [None] "Identifies the first sleep of the chain in this recording.",
        path: u32 [None] "Number of the path in its chain, from 0: the thread that it waited for \
                          can have waited for several things in turn.",
        hop: u32 [Count] "0 for the thread that slept, 1 for the one that it waited for, and so \
                          on; the last row of a path waited for storage.",
        start_ns: u64 [Nanoseconds] "When the sleep of the chain's first thread began, or the \
                                     beginning of the watch if that was later.",
        duration_ns: u64 [Nanoseconds] "Its duration until that thread was woken, or the watch \
                                        ended.",
        storage_ns: u64 [Nanoseconds] "The part in which the last thread of this path waited for \
                                       storage. Paths of one chain do not overlap: their sum is at \
                                       most duration_ns.",
        censored: bool [None] "Whether the sleep was open at the beginning or the end of the \
                               watch: its duration is a lower bound.",
        known_by: Option<KnownBy> [None] "How it is known that the previous thread waited for this \
                                          one: woken (this one ended its sleep), owner (it holds \
                                          the lock), likely; null for the first.",
        pid: u32 [None] "The process.",
        tid: u32 [None] "The thread.",
        process: Option<Name> [None] "The process's name.",
        thread: Option<Name> [None] "The thread's name.",
        cgroup: Option<Name> [None] "Its cgroup: the v2 path, or v1's blkio path.",
        container: Option<Name> [None] "The container or systemd unit of the cgroup by its best \
                                        name: pod:NAMESPACE/POD/CONTAINER, docker:NAME, \
                                        jenkins.service; the beginning of its id if no name is \
                                        known.",
        pod: Option<Name> [None] "The Kubernetes pod, from files of the node; null outside a pod, \
                                  or if no file has its uid.",
        namespace: Option<Name> [None] "The pod's namespace.",
        container_name: Option<Name> [None] "The container's name, or the virtual machine's.",
        unit: Option<Name> [None] "The innermost systemd unit of the cgroup's path, or its slice \
                                   if it has none.",
        syscall: Option<u32> [None] "The number of the system call that it slept in; null in \
                                     faults and in the kernel.",
        class: Option<WaitClass> [None] "What the last thread of the path waited for; null for the \
                                         others.",
        device: Option<Name> [None] "The disk of that wait, if it is known.",
        file: Option<Name> [None] "The file of that wait, if it is known.",
        volume: Option<Name> [None] "The volume that this file is on.",
        waits: Option<u64> [Count] "Number of the last thread's waits for storage meanwhile; null \
                                    for the others.",
        wait_id: Option<u64> [None] "In the last row the longest of those waits; in the first row \
                                     the same sleep, if it is itself a wait for storage.",
        stack_id: Option<u64> [None] "The kernel stack of that wait.",
        user_stack_id: Option<u64> [None] "The user stack of this thread's sleep or wait, if one \
                                           was taken.",
        lock: Option<Name> [None] "The file whose lock (flock, fcntl) this thread slept for, or \
                                   asked for again and again; null if it slept for something else.",
    }
}

table! {
    /// The requests that a wait waited for.
    pub struct WaitRequest in "wait_requests" {
        wait_id: u64 [None] "The wait.",
        request_id: u64 [None] "A request that was in flight during it, of the same thread or the \
                                one whose completion ended the wait.",
        overlap_ns: u64 [Nanoseconds] "How long both lasted at once.",
    }
}

impl Wait {
    /// Returns the class that took most of the wait: a stage of its requests, a CPU, or its own
    /// class.
    pub fn main_class(&self) -> WaitClass {
        let known = self.device_ns + self.queue_ns + self.run_queue_ns;
        let parts = [
            (self.duration_ns.saturating_sub(known), self.class),
            (self.device_ns, WaitClass::Device),
            (self.queue_ns, WaitClass::Queue),
        ];
        parts.into_iter().max_by_key(|(time, _)| *time).map_or(self.class, |(_, class)| class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_words() {
        assert!(WaitClass::ALL.iter().all(|class| !class.phrase().contains('_')));
        assert_eq!(WaitClass::phrase_of("page_fault"), "page fault");
        assert_eq!(WaitClass::phrase_of("q2c"), "q2c");
    }
}
