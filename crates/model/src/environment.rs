//! The environment of a watch: host, kernel, clock, devices, mounts, settings. It is stored as
//! `recording.json`.

use super::cgroup::Cgroup;
use super::clock::WallClock;
use super::filter::{Filter, hides_others};
use super::health::HostMessage;
use super::loss::{Loss, Losses};
use super::object::object;
use super::shared::Shared;
use super::table::Table;
use super::wait::Wait;
use std::collections::BTreeMap;

pub use super::device::{Device, SettingChange, chosen, is_part_of};

/// The version of the recording's layout that this version of iowhy writes; a reader refuses newer
/// ones.
pub const FORMAT: u32 = 1;

/// A window in which requests are recorded or left out: a jiffy, of which most kernels have 250 a
/// second.
const WINDOW_NS: u64 = 4_000_000;

object! {
    /// The content of `recording.json`.
    pub struct Environment {
        /// The layout's version, [`FORMAT`].
        pub format: u32,
        /// The version of iowhy that wrote it.
        pub version: String,
        /// The source of the data: `live`, `blktrace`, `ftrace`, `iostat`, `scripted` …
        pub source: String,
        /// The host's name.
        pub host: String,
        /// The kernel's release, as in `uname -r`.
        pub kernel: String,
        /// The distribution's name.
        pub distribution: String,
        /// The machine's architecture.
        pub architecture: String,
        /// CPUs online.
        pub cpus: u32,
        /// Memory of the machine, bytes.
        pub memory_bytes: u64,
        /// Whether it is a virtual machine; absent if it is not known.
        pub is_virtual: Option<bool>,
        /// Who made the machine or its hypervisor, and the product's name, as its firmware names
        /// them: of a cloud's machine usually the cloud and the type of the instance; empty if it
        /// is not known.
        pub machine: String,
        /// When the watch began, CLOCK_MONOTONIC nanoseconds.
        pub start_ns: u64,
        /// The same as a time of day, RFC 3339 with the host's offset from UTC; absent where only
        /// the capture's own clock is known. For people: programs add `realtime_offset_ns` to
        /// `start_ns`.
        pub start_time: Option<String>,
        /// When it ended, CLOCK_MONOTONIC nanoseconds; 0 while it runs.
        pub end_ns: u64,
        /// The difference between nanoseconds since 1970 and CLOCK_MONOTONIC.
        pub realtime_offset_ns: i64,
        /// Offset of the host's local time from UTC when the watch began, seconds, east positive;
        /// absent if it is not known.
        pub utc_offset_s: Option<i32>,
        /// Whether the watch ended as planned; false if its writer was killed.
        pub finished: bool,
        /// Why it ended: `time`, `command`, `signal`, `disk full` …
        pub ended_by: String,
        /// The filter that was applied while recording, as the user wrote it.
        pub filter: String,
        /// Whether names are replaced by placeholders (`--redact`).
        pub redacted: bool,
        /// The block devices.
        pub devices: Shared<Vec<Device>>,
        /// The mounted file systems on a block device or with a file that backs one, and those of a
        /// file server: NFS, SMB, Ceph, 9p, virtiofs, FUSE.
        pub mounts: Shared<Vec<Mount>>,
        /// The cgroups that were seen and their ancestors, if they can have limits on I/O or CPUs.
        pub cgroups: Shared<Vec<Cgroup>>,
        /// Settings of the machine when the watch began, by path under /proc/sys.
        pub settings_start: Shared<BTreeMap<String, String>>,
        /// The same when it ended.
        pub settings_end: Shared<BTreeMap<String, String>>,
        /// The losses.
        pub losses: Losses,
        /// Submissions with REQ_NOWAIT (as by io_uring) that found no free tag and were repeated by
        /// a thread that may wait: neither requests nor errors.
        pub retried_submissions: u64,
        /// The cost of the watch.
        pub cost: Cost,
        /// How the budget thinned what was recorded, and from when on; empty where all was
        /// recorded.
        pub thinning: Vec<Thinning>,
        /// From the first to the last request that was left out within a budget that would have
        /// let it through, because the ring buffer was filling up, ns; 0 if there was none.
        pub ring_sampled_ns: u64,
        /// Requests as the kernel's programs counted them, whatever was recorded; empty where they
        /// did not.
        pub exact_counts: Vec<ExactCount>,
        /// What could not be collected on this machine, a sentence each.
        pub limits: Vec<String>,
        /// What the kernel's log says of the machine, in summaries of other tools; the first tasks
        /// and servers, if there are many.
        pub host_messages: Vec<HostMessage>,
        /// The tables that this watch records if there is data for them; empty in recordings of
        /// earlier versions, which did not store it.
        pub tables: Vec<String>,
    }
}

impl Environment {
    /// Whether the watch records the table if there is data for it.
    pub fn fills(&self, table: &str) -> bool {
        self.tables.iter().any(|filled| filled == table)
    }

    /// Returns the reason why waits are not known, if there are none in the data; `None` if no
    /// thread waited.
    pub fn unknown_waits(&self) -> Option<String> {
        let lost = self.losses.waits().map(Loss::sentence).collect::<Vec<_>>().join(", ");
        if self.is_imported() {
            Some("such captures have no waits of threads".to_owned())
        } else if !self.fills(Wait::NAME) {
            let cause = "it was recorded without them (--no-waits), or they were deleted";
            Some(format!("the source has no table of waits: {cause}"))
        } else {
            (!lost.is_empty()).then(|| format!("lost: {lost}"))
        }
    }

    /// Whether requests were sampled at any time.
    pub fn is_sampled(&self) -> bool {
        self.requests_one_in().is_some() || self.ring_sampled_ns > 0
    }

    /// Returns the fewest requests that were recorded at any time, as one in so many; `None` if all
    /// were.
    pub fn requests_one_in(&self) -> Option<u32> {
        let most = self.thinning.iter().map(|level| level.requests_one_in).max()?;
        (most > 1).then_some(most)
    }

    /// Returns the windows of a CPU in which requests were recorded while others were left out:
    /// estimates rest on that number; `None` if all were recorded, or the ring buffer decided.
    pub fn recorded_windows(&self) -> Option<u64> {
        self.requests_one_in()?;
        let until = self.thinning.iter().skip(1).map(|level| level.from_ns).chain([self.end_ns]);
        let windows = self.thinning.iter().zip(until).map(|(level, until_ns)| {
            let length_ns = until_ns.saturating_sub(level.from_ns.max(self.start_ns));
            length_ns / WINDOW_NS * u64::from(self.cpus.max(1))
                / u64::from(level.requests_one_in.max(1))
        });
        Some(windows.sum())
    }

    /// Returns the standard error of estimates of a steady load, as a share of them; `None`
    /// likewise.
    pub fn estimates_error(&self) -> Option<f64> {
        Some(1.0 / (self.recorded_windows()?.max(1) as f64).sqrt())
    }

    /// Whether calls on files were not counted for a part of the watch.
    pub fn lacks_calls(&self) -> bool {
        self.thinning.iter().any(|level| !level.calls)
    }

    /// The share of the watch in which calls on files were counted, 0 to 1.
    pub fn calls_share(&self) -> f64 {
        let until = self.thinning.iter().skip(1).map(|level| level.from_ns).chain([self.end_ns]);
        let uncounted = self.thinning.iter().zip(until).filter(|(level, _)| !level.calls);
        let uncounted_ns: u64 =
            uncounted.map(|(level, until_ns)| until_ns.saturating_sub(level.from_ns)).sum();
        1.0 - (uncounted_ns as f64 / self.duration_ns().max(1) as f64).min(1.0)
    }

    /// The same of waits.
    pub fn waits_one_in(&self) -> Option<u32> {
        let most = self.thinning.iter().map(|level| level.waits_one_in).max()?;
        (most > 1).then_some(most)
    }

    /// The values of [`Environment::source`] for captures of other tools.
    pub const IMPORTED: &'static str = "blktrace";

    /// Whether another tool made it, so that the user did not choose what it lacks.
    pub fn is_imported(&self) -> bool {
        !matches!(self.source.as_str(), "" | "live" | "scripted")
    }

    /// Notes [`Environment::start_time`], which follows from the clocks.
    pub fn note_start_time(&mut self) {
        self.start_time =
            WallClock::from_environment(self).map(|clock| clock.rfc3339(self.start_ns));
    }

    /// Adds a filter to the one that was applied while recording, unless that is a part of it.
    pub fn keep(&mut self, filter: &Filter) {
        let filter = filter.on_disks(&self.devices);
        if !format!(" {} ", self.filter).contains(&format!(" {filter} ")) {
            self.filter = format!("{} {filter}", self.filter).trim().to_owned();
        }
    }

    /// Whether some requests of the recorded devices are left out. The other load of those devices
    /// is then not known.
    pub fn hides_others(&self) -> bool {
        hides_others(&self.filter)
    }

    /// Duration of the watch, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

object! {
    /// How much was recorded from a time on.
    pub struct Thinning {
        /// From when on, CLOCK_MONOTONIC nanoseconds.
        pub from_ns: u64,
        /// One in how many requests was recorded, slow ones apart; 1 for all.
        pub requests_one_in: u32,
        /// One in how many waits was recorded; 1 for all.
        pub waits_one_in: u32,
        /// Whether system calls on files were counted.
        pub calls: bool,
        /// Whether they were timed.
        pub call_times: bool,
        /// Whether nothing was kept of requests that were not chosen: slow ones among them have no
        /// submitter, and the kernel's own time of their start.
        pub resting: bool,
    }
}

object! {
    /// Requests of one operation on one disk, counted one by one.
    pub struct ExactCount {
        /// The disk's major number.
        pub major: u32,
        /// Its minor number.
        pub minor: u32,
        /// The operation, as in the table `requests`.
        pub operation: String,
        /// Requests that completed; of bio-based devices bios.
        pub requests: u64,
        /// Their bytes.
        pub bytes: u64,
        /// Those that ended with an error; null where they were not counted.
        pub errors: Option<u64>,
        /// Those of which the kernel kept the start.
        pub timed: u64,
        /// Their time from the kernel's start of them (G) to completion, nanoseconds.
        pub latency_ns: u64,
    }
}

impl ExactCount {
    /// Adds those of another operation.
    pub fn add(&mut self, other: &ExactCount) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.errors = self.errors.zip(other.errors).map(|(own, other)| own.saturating_add(other));
        self.timed = self.timed.saturating_add(other.timed);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
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
        /// Its mount point.
        pub path: String,
        /// The type: ext4, xfs, btrfs …
        pub kind: String,
        /// Its source, usually a device's path.
        pub source: String,
        /// The mount's and the file system's options, joined.
        pub options: String,
        /// For FUSE, the process that serves it, as `name (PID)`; absent if it is not known.
        pub server: Option<String>,
        /// Size when the watch began, bytes, of file systems on a block device.
        pub bytes: Option<u64>,
        /// Free space for unprivileged programs, bytes.
        pub free_bytes: Option<u64>,
    }
}

impl Mount {
    /// Whether it is mounted with this option, such as `sync` or `data=journal`.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|given| given == option)
    }

    /// Whether it is on the disk with that name and number, or on one of its partitions. A number
    /// of zeros is not known: summaries of other tools tell names alone.
    pub fn is_on(&self, disk: &str, number: (u32, u32)) -> bool {
        let source = self.source.strip_prefix("/dev/");
        number != (0, 0) && (self.major, self.minor) == number
            || source.is_some_and(|name| is_part_of(disk, name))
    }
}

object! {
    /// The cost of a watch.
    pub struct Cost {
        /// CPU time of iowhy's own process, ns.
        pub cpu_ns: u64,
        /// The part of `cpu_ns` that it took until the programs were attached, ns.
        pub start_cpu_ns: u64,
        /// The time in which the rest of `cpu_ns` and `bpf_ns` were spent, ns: the watch, and
        /// reading what remained at its end. 0 in older recordings.
        pub spent_ns: u64,
        /// CPU time of its BPF programs, ns, if the kernel counts it.
        pub bpf_ns: Option<u64>,
        /// Memory of its BPF maps, bytes.
        pub map_bytes: u64,
        /// The largest resident anonymous memory of iowhy's process, bytes.
        pub memory_bytes: u64,
        /// Number of CPUs of the machine.
        pub cpus: u32,
        /// User stacks that were copied because their programs keep no frame pointers.
        pub copied_stacks: u64,
        /// Time that copying them took in the kernel, ns: part of `bpf_ns`.
        pub copy_ns: u64,
    }
}

impl Cost {
    /// CPU time after the start, as a share of the time of one CPU in `spent_ns`; of a recording
    /// without it in `watched_ns`. `None` if nothing was measured.
    pub fn steady_cpu_share(&self, watched_ns: u64) -> Option<f64> {
        let steady_ns = self.cpu_ns.saturating_sub(self.start_cpu_ns);
        share(steady_ns, if self.spent_ns > 0 { self.spent_ns } else { watched_ns })
    }

    /// The same together with the BPF programs, as a share of all CPUs: never above 1.
    pub fn steady_share(&self, watched_ns: u64, cpus: u32) -> Option<f64> {
        let programs_ns = self.bpf_ns.unwrap_or(0);
        let whole = Cost { cpu_ns: self.cpu_ns.saturating_add(programs_ns), ..self.clone() };
        let of_one = whole.steady_cpu_share(watched_ns)?;
        Some((of_one / f64::from(self.cpus.max(cpus).max(1))).min(1.0))
    }
}

fn share(cpu_ns: u64, time_ns: u64) -> Option<f64> {
    (cpu_ns > 0 && time_ns > 0).then(|| cpu_ns as f64 / time_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_divided_by_the_time_in_which_it_was_spent() {
        const S: u64 = 1_000_000_000;
        // An incident of two minutes, cut out of an hour.
        let cost = Cost { cpu_ns: 73 * S, start_cpu_ns: S, spent_ns: 3600 * S, ..Cost::default() };
        assert_eq!(cost.steady_cpu_share(120 * S), Some(0.02));
        assert_eq!(cost.steady_share(120 * S, 2), Some(0.01));
        // To start is no part of it, however short the watch.
        let brief = Cost { cpu_ns: S, start_cpu_ns: S, spent_ns: S / 10, ..Cost::default() };
        assert_eq!(brief.steady_share(S / 10, 2), None);
        // Older recordings do not have the time.
        let older = Cost { cpu_ns: 30 * S, cpus: 2, ..Cost::default() };
        assert_eq!(older.steady_share(S, 2), Some(1.0));
        assert_eq!(older.steady_share(30 * S, 2), Some(0.5));
    }

    #[test]
    fn what_was_kept_already_is_said_once() {
        let mut environment = Environment::default();
        let device = |name: &str| Filter { devices: vec![name.to_owned()], ..Filter::default() };
        for name in ["sda1", "sda", "sda"] {
            environment.keep(&device(name));
        }
        assert_eq!(environment.filter, "--device sda1 --device sda");
        environment.keep(&Filter::default());
        assert_eq!(environment.filter, "--device sda1 --device sda");
    }

    #[test]
    fn estimates_rest_on_windows() {
        let level = |from_ns: u64, requests_one_in: u32| Thinning {
            from_ns,
            requests_one_in,
            ..Thinning::default()
        };
        let second = 1_000_000_000;
        let mut watch = Environment { cpus: 2, end_ns: 10 * second, ..Environment::default() };
        assert_eq!(watch.recorded_windows(), None);
        watch.thinning = vec![level(0, 8)];
        assert_eq!((watch.recorded_windows(), watch.estimates_error()), (Some(625), Some(0.04)));
        watch.thinning = vec![level(0, 1), level(8 * second, 64)];
        assert_eq!(watch.recorded_windows(), Some(4_000 + 15));
        // A damaged recording.
        watch.thinning = vec![level(9 * second, 0), level(second, u32::MAX)];
        assert_eq!(watch.estimates_error(), Some(1.0));
    }

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
        let unnumbered = Mount { source: "/dev/vda".to_owned(), ..Mount::default() };
        assert!(unnumbered.is_on("vda", (0, 0)) && !unnumbered.is_on("loop1", (0, 0)));
    }
}
