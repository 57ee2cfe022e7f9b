//! What processes do with files: calls, bytes and time, per process and file.
//!
//! What does not belong here: which requests a file's bytes became (see [`super::request`]).

use super::block::words;
use super::names::Name;
use crate::table;

words! {
    /// What a file is, of those that are followed.
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
    /// What the file is whose mode the kernel keeps so.
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
    /// One row for what one process did with one file in about a second of the watch.
    pub struct FileActivity in "files" {
        start_ns: u64 [Nanoseconds] "When the first of it was seen.",
        pid: u32 [None] "The process; 0 where the kernel's table had no slot.",
        process: Option<Name> [None] "The process's name.",
        cgroup: Option<Name> [None] "Its cgroup: the v2 path, or v1's blkio path.",
        container: Option<Name> [None] "The container or systemd unit derived from the cgroup.",
        file: Option<Name> [None] "The file's path as seen from the root mount; of many files the pattern of their paths, with N for a number and * for any name; null where none is known.",
        files: Option<u64> [Count] "How many files that is; null where the kernel only told the directory in which something was asked for by name: /dir/*.",
        file_type: Option<FileKind> [None] "What it is: file, directory or block_device; of a pattern what all of them are; null where not known.",
        inode: Option<u64> [None] "The file's inode number; null for a pattern.",
        inode_device: Option<u64> [None] "The device number of the file's file system: major << 20 | minor.",
        device: Option<Name> [None] "The whole disk that its file system is on; null where it is on none, or on several.",
        opens: u64 [Count] "Opens that worked.",
        creates: u64 [Count] "Those of them that made the file.",
        reads: u64 [Count] "Calls that read from it, and reads by io_uring.",
        writes: u64 [Count] "Calls that wrote to it, and writes by io_uring.",
        read_bytes: u64 [Bytes] "What the reads gave the program, from the page cache or a device.",
        write_bytes: u64 [Bytes] "What the program wrote, into the page cache or to a device.",
        fsyncs: u64 [Count] "Calls that make it durable: fsync, fdatasync, syncfs; sync_file_range makes nothing durable.",
        stats: u64 [Count] "Calls that only ask about it: stat, statx, access, readlink.",
        scans: u64 [Count] "Calls that list a directory's entries; a listing takes at least two.",
        renames: u64 [Count] "Times it was given another name; under the name that it had.",
        unlinks: u64 [Count] "Times that a name of it was removed, directories included.",
        failures: u64 [Count] "Calls that failed, of any of these kinds; they count nowhere else.",
        faults: u64 [Count] "Page faults on mappings of it.",
        fault_bytes: u64 [Bytes] "The ranges that those faults looked at: at most this much was mapped.",
        timed_calls: u64 [Count] "How many of these calls were timed; where it is less than all, times are of these alone.",
        read_ns: u64 [Nanoseconds] "Time in timed reads.",
        write_ns: u64 [Nanoseconds] "Time in timed writes.",
        fsync_ns: u64 [Nanoseconds] "Time in timed fsyncs.",
        other_ns: u64 [Nanoseconds] "Time in all other timed calls.",
        lifetime_ns: Option<u64> [Nanoseconds] "How long the file lived, if it was created and removed during the watch; of many files the mean.",
    }
}

/// What can be added up of a [`FileActivity`], column by column.
macro_rules! counts {
    ($($field:ident),+ $(,)?) => {
        /// The counts, bytes and times of a [`FileActivity`], or of many together; each as there.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        #[allow(missing_docs, reason = "each is the column of that name")]
        pub struct Counts { $( pub $field: u64 ),+ }

        impl Counts {
            /// Adds `other`.
            pub fn add(&mut self, other: &Counts) {
                $( self.$field = self.$field.saturating_add(other.$field); )+
            }

            /// What is left without `part`.
            pub fn minus(&self, part: &Counts) -> Counts {
                Counts { $( $field: self.$field.saturating_sub(part.$field) ),+ }
            }
        }

        impl FileActivity {
            /// What was counted.
            pub fn counts(&self) -> Counts {
                Counts { $( $field: self.$field ),+ }
            }

            /// A row of `process` that holds `counts`, as far as that says anything.
            pub fn of(start_ns: u64, pid: u32, counts: &Counts) -> FileActivity {
                FileActivity {
                    start_ns,
                    pid,
                    process: None,
                    cgroup: None,
                    container: None,
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
    /// All calls, those that failed included.
    pub fn calls(&self) -> u64 {
        let data = self.opens + self.reads + self.writes + self.fsyncs;
        data + self.stats + self.scans + self.renames + self.unlinks + self.failures
    }

    /// Time in all calls, nanoseconds; of those that were not timed, as long as the others took.
    /// `None` where none was timed.
    pub fn time_ns(&self) -> Option<u64> {
        let timed = self.read_ns + self.write_ns + self.fsync_ns + self.other_ns;
        let share = self.calls().max(self.timed_calls) as f64 / self.timed_calls as f64;
        (self.timed_calls > 0).then_some((timed as f64 * share) as u64)
    }
}
