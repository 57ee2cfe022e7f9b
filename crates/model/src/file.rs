//! File activity: calls, bytes and time, per process and file.
//!
//! What does not belong here: the requests of a file (see [`super::request`]).

mod fold;

pub use fold::fold;

use super::block::words;
use super::names::Name;
use crate::table;

words! {
    /// The types of files that are traced.
    pub enum FileKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A block device.
        BlockDevice = "block_device",
    }
}

impl FileKind {
    /// The type of a file, by the kernel's mode.
    pub const fn of_mode(mode: u32) -> Option<FileKind> {
        match mode & 0o170_000 {
            0o100_000 => Some(FileKind::File),
            0o040_000 => Some(FileKind::Directory),
            0o060_000 => Some(FileKind::BlockDevice),
            _ => None,
        }
    }
}

table! {
    /// One row for the calls of one process on one file in about a second of the watch.
    pub struct FileActivity in "files" {
        start_ns: u64 [Nanoseconds] "The time of the first call.",
        pid: u32 [None] "The process; 0 if the kernel's table had no slot.",
        process: Option<Name> [None] "The process's name.",
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
        file: Option<Name> [None] "The file's path as seen from the root mount; for many files the \
                                   pattern of their paths, with N for a number and * for any name; \
                                   null if it is not known.",
        volume: Option<Name> [None] "The Kubernetes, Docker or Podman volume that the file is on; \
                                     null for a pattern over several; for a claim (PVC) the volume \
                                     bound to it.",
        files: Option<u64> [Count] "The number of files; null if only the directory of a name that \
                                    was looked up is known: /dir/*.",
        file_type: Option<FileKind> [None] "The type: file, directory or block_device; for a \
                                            pattern the type of all its files; null if it is not \
                                            known.",
        inode: Option<u64> [None] "The file's inode number; null for a pattern.",
        inode_device: Option<u64> [None] "The device number of the file's file system: major << 20 \
                                          | minor.",
        device: Option<Name> [None] "The disk that its file system is on; null if it is on none, \
                                     or on several.",
        opens: u64 [Count] "Successful opens.",
        creates: u64 [Count] "Opens that created the file.",
        reads: u64 [Count] "Calls that read from it, and reads by io_uring.",
        writes: u64 [Count] "Calls that wrote to it, and writes by io_uring.",
        read_bytes: u64 [Bytes] "Bytes that reads returned, from the page cache or a device.",
        write_bytes: u64 [Bytes] "Bytes that the program wrote, into the page cache or to a \
            device.",
        fsyncs: u64 [Count] "Calls that make it durable: fsync, fdatasync, syncfs; sync_file_range \
                             makes nothing durable.",
        stats: u64 [Count] "Calls that only query it: stat, statx, access, readlink.",
        scans: u64 [Count] "Calls that list a directory's entries; a listing takes at least two.",
        renames: u64 [Count] "Renames, counted under the old name.",
        unlinks: u64 [Count] "Removals of one of its names, directories included.",
        failures: u64 [Count] "Failed calls of any of these kinds; they are counted nowhere else.",
        faults: u64 [Count] "Page faults on mappings of it.",
        fault_bytes: u64 [Bytes] "The ranges that those faults examined: an upper bound of what \
                                  was mapped.",
        timed_calls: u64 [Count] "The number of calls that were timed; if it is below the number \
                                  of calls, times are those of the timed calls only.",
        read_ns: u64 [Nanoseconds] "Time in timed reads.",
        write_ns: u64 [Nanoseconds] "Time in timed writes.",
        fsync_ns: u64 [Nanoseconds] "Time in timed fsyncs.",
        other_ns: u64 [Nanoseconds] "Time in all other timed calls.",
        lifetime_ns: Option<u64> [Nanoseconds] "The file's lifetime, if it was created and removed \
                                                during the watch; for many files the mean.",
    }
}

/// The summable columns of a [`FileActivity`].
macro_rules! counts {
    ($($field:ident),+ $(,)?) => {
        /// The counts, bytes and times of a [`FileActivity`], or the sums of many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[allow(missing_docs, reason = "each is described by the column of that name")]
        pub struct Counts { $( pub $field: u64 ),+ }

        impl Counts {
            /// Adds `other`.
            pub fn add(&mut self, other: &Counts) {
                $( self.$field = self.$field.saturating_add(other.$field); )+
            }

            /// Subtracts `part`.
            pub fn minus(&self, part: &Counts) -> Counts {
                Counts { $( $field: self.$field.saturating_sub(part.$field) ),+ }
            }
        }

        impl FileActivity {
            /// The counts of a row.
            pub fn counts(&self) -> Counts {
                Counts { $( $field: self.$field ),+ }
            }

            /// A row of `process` with `counts`.
            pub fn of(start_ns: u64, pid: u32, counts: &Counts) -> FileActivity {
                FileActivity {
                    start_ns,
                    pid,
                    process: None,
                    cgroup: None,
                    container: None,
                    pod: None,
                    namespace: None,
                    container_name: None,
                    unit: None,
                    volume: None,
                    file: None,
                    files: None,
                    file_type: None,
                    inode: None,
                    inode_device: None,
                    device: None,
                    lifetime_ns: None,
                    $( $field: counts.$field ),+
                }
            }
        }
    };
}

counts!(
    opens,
    creates,
    reads,
    writes,
    read_bytes,
    write_bytes,
    fsyncs,
    stats,
    scans,
    renames,
    unlinks,
    failures,
    faults,
    fault_bytes,
    timed_calls,
    read_ns,
    write_ns,
    fsync_ns,
    other_ns,
);

impl Counts {
    /// All calls, failed ones included.
    pub fn calls(&self) -> u64 {
        let data = [self.opens, self.reads, self.writes, self.fsyncs];
        let names = [self.stats, self.scans, self.renames, self.unlinks, self.failures];
        data.into_iter().chain(names).fold(0, u64::saturating_add)
    }

    /// Time in all calls, nanoseconds, scaled from the timed ones. `None` if none was timed.
    pub fn time_ns(&self) -> Option<u64> {
        let parts = [self.read_ns, self.write_ns, self.fsync_ns, self.other_ns];
        let timed = parts.into_iter().fold(0, u64::saturating_add);
        let share = self.calls().max(self.timed_calls) as f64 / self.timed_calls as f64;
        (self.timed_calls > 0).then_some((timed as f64 * share) as u64)
    }
}
