//! What is true of the whole watch: host, kernel, clock, devices, mounts, settings. It is
//! `recording.json`.

use super::cgroup::Cgroup;
use super::filter::{Filter, hides_others};
use super::loss::{Loss, Losses};
use super::table::Table;
use super::wait::Wait;
use std::collections::BTreeMap;

/// A field of `recording.json`, for the page that documents it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type in Rust.
    pub kind: &'static str,
    /// What it holds.
    pub sentence: &'static str,
}

/// Defines an object of `recording.json`: each field's comment is its documentation there too. A
/// field that a recording lacks is read as its default, so that older ones stay readable.
macro_rules! object {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident { $( $(#[doc = $sentence:literal])+ pub $field:ident : $type:ty ),+ $(,)? }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name { $( $(#[doc = $sentence])+ pub $field: $type ),+ }

        impl $name {
            /// Its fields, in order.
            pub const FIELDS: &'static [$crate::model::environment::Field] = &[$(
                $crate::model::environment::Field {
                    name: stringify!($field),
                    kind: stringify!($type),
                    sentence: concat!($($sentence),+),
                }
            ),+];
        }
    };
}
pub(super) use object;

/// The version of the recording's layout that this iowhy writes; a reader refuses newer ones.
pub const FORMAT: u32 = 1;

object! {
    /// Everything that `recording.json` holds.
    pub struct Environment {
        /// The layout's version, [`FORMAT`].
        pub format: u32,
        /// The iowhy that wrote it.
        pub version: String,
        /// What the data came from: `live`, `blktrace`, `scripted` …
        pub source: String,
        /// The host's name.
        pub host: String,
        /// The kernel's release, as `uname -r` gives it.
        pub kernel: String,
        /// The distribution's own name.
        pub distribution: String,
        /// The machine's architecture.
        pub architecture: String,
        /// CPUs online.
        pub cpus: u32,
        /// Memory of the machine, bytes.
        pub memory_bytes: u64,
        /// Whether it is a virtual machine; absent where it does not say.
        pub is_virtual: Option<bool>,
        /// When the watch began, CLOCK_MONOTONIC nanoseconds.
        pub start_ns: u64,
        /// When it ended, CLOCK_MONOTONIC nanoseconds; 0 while it runs.
        pub end_ns: u64,
        /// What to add to CLOCK_MONOTONIC to get nanoseconds since 1970.
        pub realtime_offset_ns: i64,
        /// Whether the watch ended as planned; false in a recording whose writer died.
        pub finished: bool,
        /// Why it ended: `time`, `command`, `signal`, `disk full` …
        pub ended_by: String,
        /// The filter that was applied while recording, as the user wrote it.
        pub filter: String,
        /// The block devices.
        pub devices: Vec<Device>,
        /// The mounted file systems that have a block device or hold one's files, and those whose files
        /// a server holds: NFS, SMB, Ceph, 9p, virtiofs, FUSE.
        pub mounts: Vec<Mount>,
        /// The cgroups that were seen, and those above them, as far as they can have limits on I/O or CPUs.
        pub cgroups: Vec<Cgroup>,
        /// Settings of the machine when the watch began, by their path under /proc/sys.
        pub settings_start: BTreeMap<String, String>,
        /// The same when it ended.
        pub settings_end: BTreeMap<String, String>,
        /// What was lost.
        pub losses: Losses,
        /// Submissions that must not wait (REQ_NOWAIT, as of io_uring), found no free tag and were made
        /// again by a thread that may: neither requests nor errors.
        pub retried_submissions: u64,
        /// What watching cost.
        pub cost: Cost,
        /// What could not be seen on this machine, a sentence each.
        pub limits: Vec<String>,
        /// The tables that this watch fills where there is anything for them; empty where it was not noted,
        /// as by earlier versions.
        pub tables: Vec<String>,
    }
}

impl Environment {
    /// Whether the watch would have filled the table if there had been anything for it.
    pub fn fills(&self, table: &str) -> bool {
        self.tables.iter().any(|filled| filled == table)
    }

    /// Why nothing is known of waits where there is none; `None` where there was none.
    pub fn unknown_waits(&self) -> Option<String> {
        let lost = self.losses.waits().map(Loss::sentence).collect::<Vec<_>>().join(", ");
        if self.is_imported() {
            Some("such captures tell no waits of threads".to_owned())
        } else if !self.fills(Wait::NAME) {
            let cause = "they were left out of it (--no-waits), or are not there any more";
            Some(format!("the source has no table of waits: {cause}"))
        } else {
            (!lost.is_empty()).then(|| format!("lost: {lost}"))
        }
    }

    /// What [`Environment::source`] is of captures that another tool made.
    pub const IMPORTED: &'static str = "blktrace";

    /// Whether another tool made it: what it lacks, its reader did not choose.
    pub fn is_imported(&self) -> bool {
        self.source == Environment::IMPORTED
    }

    /// Adds a filter to the one that was applied while recording.
    pub fn keep(&mut self, filter: &Filter) {
        let filter = filter.on_disks(&self.devices);
        self.filter = format!("{} {filter}", self.filter).trim().to_owned();
    }

    /// Whether requests are left out of devices that others are there of: then nobody can say what else
    /// those devices did meanwhile, and for whom.
    pub fn hides_others(&self) -> bool {
        hides_others(&self.filter)
    }

    /// How long the watch lasted, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

object! {
    /// A block device and its settings.
    pub struct Device {
        /// The kernel's name.
        pub name: String,
        /// The major number.
        pub major: u32,
        /// The minor number.
        pub minor: u32,
        /// The whole disk's name for a partition.
        pub partition_of: Option<String>,
        /// Size in bytes.
        pub bytes: u64,
        /// The vendor's model name, where there is one.
        pub model: Option<String>,
        /// How it is attached, much like lsblk's TRAN: sata, sas, usb, mmc, virtio, xen, hyperv, fc, iscsi; of NVMe
        /// its transport (pcie, tcp, rdma …); pci where a controller is all that is known.
        pub transport: Option<String>,
        /// Whether it has no request queue (zram, device mapper): only bios are seen.
        pub bio_based: bool,
        /// Devices that it stands on, by name.
        pub below: Vec<String>,
        /// The file behind a loop device.
        pub backing_file: Option<String>,
        /// Requests in flight when the watch began: reads and writes, from sysfs.
        pub in_flight_start: Option<(u64, u64)>,
        /// The same when it ended.
        pub in_flight_end: Option<(u64, u64)>,
        /// /proc/diskstats when the watch began; empty where not read.
        pub stat_start: Vec<u64>,
        /// The same when it ended.
        pub stat_end: Vec<u64>,
        /// Settings under /sys/block/NAME when the watch began: scheduler, nr_requests …
        pub settings_start: BTreeMap<String, String>,
        /// The same when it ended.
        pub settings_end: BTreeMap<String, String>,
        /// Those that were seen to change meanwhile, in the order in which they were; nothing of a device
        /// that came later.
        pub settings_changed: Vec<SettingChange>,
    }
}

object! {
    /// A setting of a device that became another while the watch ran.
    pub struct SettingChange {
        /// Its name.
        pub setting: String,
        /// Its value until then.
        pub before: String,
        /// Its value from then on.
        pub after: String,
        /// When it was last seen to have the old value, CLOCK_MONOTONIC nanoseconds.
        pub since_ns: u64,
        /// When it was first seen to have the new one, CLOCK_MONOTONIC nanoseconds.
        pub by_ns: u64,
    }
}

/// A setting's value: of those that list what could be chosen (`none [mq-deadline] kyber`) what is.
pub fn chosen(setting: &str) -> &str {
    let inside = setting.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(setting, |(name, _)| name)
}

impl Device {
    /// Its number as the kernel and blktrace write it: `major << 20 | minor`.
    pub const fn number(&self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }
}

object! {
    /// A mounted file system.
    pub struct Mount {
        /// The major number of its device as mountinfo gives it (anonymous for btrfs).
        pub major: u32,
        /// The minor number.
        pub minor: u32,
        /// The part of the file system that is mounted.
        pub root: String,
        /// Where it is mounted.
        pub path: String,
        /// The type: ext4, xfs, btrfs …
        pub kind: String,
        /// What was mounted: a device's path, mostly.
        pub source: String,
        /// The mount's and the file system's options, joined.
        pub options: String,
        /// Of FUSE, the process that serves it, as `name (number)`; absent where that is not known.
        pub server: Option<String>,
        /// Size when the watch began, bytes, of file systems on a block device.
        pub bytes: Option<u64>,
        /// What of it was free for programs without privileges, bytes.
        pub free_bytes: Option<u64>,
    }
}

impl Mount {
    /// Whether it is on the whole disk of that name and number, or on one of its partitions.
    pub fn is_on(&self, disk: &str, number: (u32, u32)) -> bool {
        let source = self.source.strip_prefix("/dev/");
        (self.major, self.minor) == number || source.is_some_and(|name| is_part_of(disk, name))
    }
}

/// Whether the kernel calls the disk, or a partition of it, so: `sda1` of `sda`, `loop1p2` of `loop1`.
pub(crate) fn is_part_of(disk: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let is_numbered = disk.ends_with(|letter: char| letter.is_ascii_digit());
    let number = if is_numbered { rest.strip_prefix('p') } else { Some(rest) };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    rest.is_empty() || number.is_some_and(is_number)
}

object! {
    /// What watching cost the machine.
    pub struct Cost {
        /// CPU time of iowhy's own process, ns.
        pub cpu_ns: u64,
        /// CPU time of its BPF programs, ns, where the kernel counts it.
        pub bpf_ns: Option<u64>,
        /// Memory of its BPF maps, bytes.
        pub map_bytes: u64,
        /// The largest resident anonymous memory of iowhy's process, bytes.
        pub memory_bytes: u64,
        /// CPUs of the machine, to make shares of.
        pub cpus: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_on_its_own_disk_alone() {
        let is_on = |source: &str, disk: &str| {
            Mount { source: source.to_owned(), ..Mount::default() }.is_on(disk, (7, 1))
        };
        for (source, disk) in
            [("/dev/sda", "sda"), ("/dev/sda12", "sda"), ("/dev/nvme0n1p3", "nvme0n1")]
        {
            assert!(is_on(source, disk), "{source} is on {disk}");
        }
        for (source, disk) in
            [("/dev/loop10", "loop1"), ("/dev/sdab", "sda"), ("/dev/dm-12", "dm-1"), ("sda", "sda")]
        {
            assert!(!is_on(source, disk), "{source} is not on {disk}");
        }
        assert!(Mount { major: 7, minor: 1, ..Mount::default() }.is_on("loop1", (7, 1)));
    }
}
