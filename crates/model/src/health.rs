//! Health reports of devices, and messages of the kernel's log about devices and the machine.
//!
//! What does not belong here: asking (crate `iowhy-capture`), and what the figures mean (see
//! crate `iowhy-diagnosis`).

use super::object::object;

object! {
    /// What a device reports of itself. Counters count since the device was made or attached: what
    /// happened during a watch is the difference between both ends.
    pub struct DeviceHealth {
        /// When it was asked, CLOCK_MONOTONIC nanoseconds.
        pub asked_ns: u64,
        /// NVMe: its SMART and health log.
        pub nvme: Option<NvmeHealth>,
        /// SATA and SAS: the drive's log, where smartctl is installed.
        pub drive: Option<DriveLog>,
        /// Amazon EBS and instance storage: the volume's own statistics.
        pub volume: Option<VolumeStatistics>,
        /// SCSI and SATA: the kernel's counts of its commands.
        pub commands: Option<CommandCounts>,
        /// SATA: the speed of its link and the highest one of its port, as the kernel writes them
        /// (`6.0 Gbps`).
        pub sata_link: Option<SataLink>,
        /// md: the state of the array.
        pub array: Option<ArrayState>,
        /// Device mapper: whether it is suspended, so that its requests wait.
        pub suspended: Option<bool>,
        /// Device mapper: what its targets report; those that report nothing (linear, crypt) are
        /// left out.
        pub targets: Vec<MappedTarget>,
        /// bcache: the state of its cache.
        pub bcache: Option<BcacheState>,
        /// What could not be read, and why, a sentence each.
        pub unread: Vec<String>,
    }
}

object! {
    /// The SMART and health log of an NVMe controller (log page 2), with its limits.
    pub struct NvmeHealth {
        /// Critical warnings, as bits: 1 spare blocks, 2 temperature, 4 reliability, 8 read-only,
        /// 16 backup of its cache, 32 persistent memory.
        pub critical_warning: u64,
        /// Temperature, °C.
        pub temperature_c: Option<i64>,
        /// From this temperature on the controller warns, °C; absent if it names none.
        pub warning_c: Option<i64>,
        /// From this temperature on it is critical, °C; absent if it names none.
        pub critical_c: Option<i64>,
        /// Spare blocks left, percent.
        pub spare_percent: u64,
        /// Below this the drive warns, percent.
        pub spare_threshold_percent: u64,
        /// How much of its life is used, by its vendor's estimate, percent; may exceed 100.
        pub used_percent: u64,
        /// Bytes that hosts have written to it, ever; absent if it does not say.
        pub written_bytes: Option<u64>,
        /// Errors of its medium that it could not correct.
        pub media_errors: u64,
        /// Entries of its error log, ever.
        pub error_log_entries: u64,
        /// Shutdowns without notice.
        pub unsafe_shutdowns: u64,
        /// Hours switched on.
        pub power_on_hours: u64,
        /// Time above the warning temperature, minutes.
        pub warning_minutes: u64,
        /// Time above the critical temperature, minutes.
        pub critical_minutes: u64,
        /// How often it throttled itself lightly because of heat.
        pub light_throttles: u64,
        /// How often it throttled itself heavily.
        pub heavy_throttles: u64,
        /// Time in which it throttled itself lightly, seconds.
        pub light_throttle_s: u64,
        /// Time in which it throttled itself heavily, seconds.
        pub heavy_throttle_s: u64,
        /// Its power states, the one that does most first.
        pub power_states: Vec<PowerState>,
        /// Whether it can go to sleep by itself when it is idle (APST).
        pub sleeps_by_itself: bool,
        /// How long the kernel lets it take to wake up from that, microseconds; 0 if it may not
        /// sleep, absent if that is not known.
        pub wake_limit_us: Option<u64>,
    }
}

object! {
    /// A power state of an NVMe controller.
    pub struct PowerState {
        /// The most power that it draws, milliwatts; 0 if it does not say.
        pub most_mw: u64,
        /// Whether it serves no requests in this state, and has to wake up first.
        pub asleep: bool,
        /// How long it takes at most to enter this state, microseconds.
        pub enter_us: u64,
        /// How long it takes at most to leave it, microseconds.
        pub leave_us: u64,
    }
}

object! {
    /// The health log of a SATA or SAS drive. Counts count since the drive was made.
    pub struct DriveLog {
        /// Whether the drive expects to go on working: its own verdict.
        pub passed: Option<bool>,
        /// Temperature, °C.
        pub temperature_c: Option<i64>,
        /// From this temperature on it is critical, °C; absent if it names none.
        pub critical_c: Option<i64>,
        /// Hours switched on.
        pub power_on_hours: Option<u64>,
        /// Sectors that were replaced by spare ones; of SAS drives the grown defect list.
        pub reallocated_sectors: Option<u64>,
        /// Sectors that could not be read, and wait for a write to be replaced.
        pub pending_sectors: Option<u64>,
        /// Sectors that the drive's own scan could not read.
        pub uncorrectable_sectors: Option<u64>,
        /// Errors that it reported to the host because it could not correct them.
        pub reported_errors: Option<u64>,
        /// Errors of the link: cable, connector, port.
        pub interface_errors: Option<u64>,
        /// How much of its life is used, by its vendor's estimate, percent; only of solid-state
        /// drives that say so.
        pub used_percent: Option<u64>,
        /// Bytes that hosts have written to it, ever.
        pub written_bytes: Option<u64>,
    }
}

object! {
    /// The statistics of an Amazon EBS volume (log page 0xD0), since it was attached; of instance
    /// storage the same, which has no limits of its own: those of the volume are 0 there.
    pub struct VolumeStatistics {
        /// Reads.
        pub reads: u64,
        /// Writes.
        pub writes: u64,
        /// Bytes read.
        pub read_bytes: u64,
        /// Bytes written.
        pub write_bytes: u64,
        /// Time of all reads, microseconds.
        pub read_us: u64,
        /// Time of all writes, microseconds.
        pub write_us: u64,
        /// Time in which more I/O was submitted than the volume's IOPS limit lets through,
        /// microseconds.
        pub volume_iops_exceeded_us: u64,
        /// The same for the volume's limit of throughput.
        pub volume_throughput_exceeded_us: u64,
        /// The same for the instance's IOPS limit.
        pub instance_iops_exceeded_us: u64,
        /// The same for the instance's limit of throughput.
        pub instance_throughput_exceeded_us: u64,
        /// Requests that wait at the volume.
        pub queue_length: u64,
    }
}

object! {
    /// The kernel's counts of a SCSI device's commands.
    pub struct CommandCounts {
        /// Commands that completed.
        pub done: u64,
        /// Commands that completed with an error.
        pub errors: u64,
        /// Commands that timed out; absent on older kernels.
        pub timeouts: Option<u64>,
    }
}

object! {
    /// The link of a SATA device.
    pub struct SataLink {
        /// Its speed.
        pub speed: String,
        /// The highest speed of the port.
        pub most: String,
    }
}

object! {
    /// The state of an md array.
    pub struct ArrayState {
        /// Members that are missing.
        pub degraded: u64,
        /// What it does apart from serving requests: idle, resync, recover, check, repair, reshape.
        pub action: String,
        /// Sectors that differed between members in the last check.
        pub mismatched_sectors: u64,
    }
}

object! {
    /// What a target of a device-mapper device reports.
    pub struct MappedTarget {
        /// Its type: thin-pool, thin, snapshot, cache, multipath, raid; others with their status
        /// alone.
        pub target: String,
        /// The kernel's status line, shortened if it is long.
        pub status: String,
        /// What is wrong with it, in the kernel's words: `Fail`, `Error`, `ro`,
        /// `out_of_data_space`, `needs_check`, `Invalid`, `Overflow`, `Merge failed`; null if
        /// nothing is.
        pub trouble: Option<String>,
        /// Thin pool, cache: blocks in use; snapshot: sectors in use.
        pub used: Option<u64>,
        /// The same: all that there are.
        pub total: Option<u64>,
        /// Thin pool, cache: metadata blocks in use.
        pub metadata_used: Option<u64>,
        /// The same: all that there are.
        pub metadata_total: Option<u64>,
        /// Thin pool: whether writes wait for space when it is full, at most a minute by default;
        /// otherwise they fail at once.
        pub waits_for_space: Option<bool>,
        /// Cache: blocks that are not on the lower device yet.
        pub dirty: Option<u64>,
        /// Cache: reads and writes that it served, since it was set up.
        pub hits: Option<u64>,
        /// Cache: those that it did not.
        pub misses: Option<u64>,
        /// Multipath: its paths.
        pub paths: Vec<MultipathPath>,
        /// RAID: members that failed.
        pub failed_members: Option<u64>,
    }
}

object! {
    /// A path of a device-mapper multipath device.
    pub struct MultipathPath {
        /// The path's device, by name, or by number if it has none.
        pub device: String,
        /// Whether the kernel uses it; otherwise it has failed.
        pub active: bool,
        /// How often it has failed.
        pub failures: u64,
    }
}

object! {
    /// The cache of a bcache device.
    pub struct BcacheState {
        /// `no cache` if none is attached, `clean`, `dirty`, `inconsistent`.
        pub state: String,
        /// How it caches: writethrough, writeback, writearound, none.
        pub mode: String,
        /// Data that is not on the backing device yet, bytes, rounded as the kernel prints it.
        pub dirty_bytes: Option<u64>,
        /// Whether the cache's device is so slow that requests are sent past it at the moment.
        pub congested: Option<bool>,
        /// Share of the cache that holds no dirty data, percent.
        pub available_percent: Option<u64>,
        /// Requests that it served, since the device was registered; the kernel adds them up every
        /// 22 seconds.
        pub hits: Option<u64>,
        /// Those that it did not.
        pub misses: Option<u64>,
    }
}

object! {
    /// A message of the kernel's log about a device, logged during the watch.
    pub struct KernelMessage {
        /// Time in the kernel's log, nanoseconds since boot; its clock may differ from
        /// CLOCK_MONOTONIC by milliseconds.
        pub logged_ns: u64,
        /// What happened: `reset`, `timeout`, `error`, `link` or `other`.
        pub kind: String,
        /// Its text, shortened if it is long.
        pub text: String,
    }
}

object! {
    /// What the kernel's log says of the whole machine, in the summaries of other tools: tasks that
    /// hang, file servers that do not answer, memory that ran out.
    pub struct HostMessage {
        /// What happened: `hung_task`, `server_silent` or `out_of_memory`.
        pub kind: String,
        /// The task that hangs or was killed; empty if the message names none.
        pub process: String,
        /// The disk that its name or its work belongs to, by name or as `253:0`; empty if neither
        /// tells.
        pub device: String,
        /// The first message, shortened if it is long.
        pub text: String,
        /// How often it was logged.
        pub count: u64,
        /// The functions of the kernel that the task was in, innermost first.
        pub frames: Vec<String>,
    }
}

/// Words of messages, and what they tell of. The first that fits decides.
const KINDS: &[(&str, &[&str])] = &[
    ("reset", &["reset", "disabling device", "removing after probe failure"]),
    ("timeout", &["timeout", "timed out", "timing out"]),
    ("link", &["link down", "link is slow", "limiting sata link", "link up"]),
    ("error", &["error", "failed", "offline", "exception", "rejecting i/o", "abort"]),
];

/// Parts of messages that tell of a setting or of what a device lacks, not of an event: `Shutdown
/// timeout set to 8 seconds` at each boot, `[sdb] Asking for cache data failed` of nearly every USB
/// stick, `operation not supported error, … (WRITE_ZEROES)` of a device without it.
const SETTINGS: &[&str] = &[
    "timeout set to",
    "timeout is set to",
    "timeout value",
    "timeout=",
    "asking for cache data failed",
    "no caching mode page",
    "assuming drive cache",
    "test wp failed, assume write enabled",
    "operation not supported error",
    "write same failed",
    "write zeroes failed",
];

/// Messages whose parts, all of one row together, tell of no trouble of the device.
const HARMLESS: &[&[&str]] = &[
    // A device that says that it discards or zeroes ranges, and refuses it.
    &["critical target error", "discard"],
    &["critical target error", "write_zeroes"],
    &["critical target error", "write_same"],
    &["critical target error", "secure_erase"],
    // The device answered: the sense data in the lines behind says what.
    &["failed result:", "hostbyte=did_ok", "driverbyte=driver_sense"],
    // It was taken away, and has nothing left to write or to stop.
    &["synchronize cache", "failed", "did_no_connect"],
    &["start/stop unit failed", "did_no_connect"],
];

impl KernelMessage {
    /// Characters kept of a message.
    pub const MOST_TEXT: usize = 240;
    /// The kind of a message that tells of nothing known.
    pub const OTHER: &'static str = "other";

    /// A message with this text, which is shortened if it is long.
    pub fn new(logged_ns: u64, text: &str) -> KernelMessage {
        KernelMessage {
            logged_ns,
            kind: KernelMessage::kind_of(text).to_owned(),
            text: text.chars().take(KernelMessage::MOST_TEXT).collect(),
        }
    }

    /// The kind of a message with this text.
    pub fn kind_of(text: &str) -> &'static str {
        let text = text.to_ascii_lowercase();
        let fits = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let is_harmless = |parts: &&[&str]| parts.iter().all(|part| text.contains(part));
        if fits(SETTINGS) || HARMLESS.iter().any(is_harmless) {
            return KernelMessage::OTHER;
        }
        let known = KINDS.iter().find(|(_, words)| fits(words));
        known.map_or(KernelMessage::OTHER, |(kind, _)| kind)
    }

    /// Whether the text has the name as a word.
    pub fn names(text: &str, name: &str) -> bool {
        text.match_indices(name).any(|(at, _)| {
            let is_part = |neighbour: Option<char>| {
                neighbour.is_some_and(|character| character.is_ascii_alphanumeric())
            };
            let (before, behind) = (&text[..at], &text[at + name.len()..]);
            !is_part(before.chars().next_back()) && !is_part(behind.chars().next())
        })
    }
}

impl NvmeHealth {
    /// Returns how long the drive may take to wake up from a state that it enters by itself,
    /// microseconds; `None` if it enters none, or if the kernel's limit is not known. The kernel
    /// lets it use each state from which it wakes up within the limit.
    pub fn wakes_within_us(&self) -> Option<u64> {
        let limit = self.wake_limit_us.filter(|_| self.sleeps_by_itself)?;
        let used = self
            .power_states
            .iter()
            .filter(|power_state| power_state.asleep && power_state.leave_us <= limit);
        used.map(|power_state| power_state.leave_us).max()
    }

    /// The bit of [`NvmeHealth::critical_warning`] for too few spare blocks.
    pub const FEW_SPARES: u64 = 1;
    /// The bit for a temperature above or below a limit.
    pub const TEMPERATURE: u64 = 2;
    /// The bit for lost reliability.
    pub const UNRELIABLE: u64 = 4;
    /// The bit for a drive that takes no writes any more.
    pub const READ_ONLY: u64 = 8;
    /// The bit for a cache that would be lost without power.
    pub const NO_BACKUP: u64 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_lacks_is_no_trouble() {
        for text in [
            "sd 1:0:0:0: [sdx] Asking for cache data failed",
            "sd 1:0:0:0: [sdx] No Caching mode page found",
            "sd 1:0:0:0: [sdx] Assuming drive cache: write through",
            "sd 1:0:0:0: [sdx] Test WP failed, assume Write Enabled",
            "operation not supported error, dev sdx, sector 8 op 0x9:(WRITE_ZEROES) flags 0x800",
            "operation not supported error, dev sdx, sector 8 op 0x3:(DISCARD) flags 0x800",
            "critical target error, dev sdx, sector 8 op 0x3:(DISCARD) flags 0x4000",
            "sdx: WRITE SAME failed. Manually zeroing.",
            "sd 1:0:0:0: [sdx] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT",
            "sd 1:0:0:0: [sdx] tag#1 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
        ] {
            assert_eq!(KernelMessage::kind_of(text), KernelMessage::OTHER, "{text}");
        }
        for text in [
            "critical target error, dev sdx, sector 8 op 0x1:(WRITE) flags 0x4000",
            "critical medium error, dev sdx, sector 8 op 0x3:(DISCARD) flags 0x4000",
            "sd 1:0:0:0: [sdx] Synchronize Cache(10) failed: Result: hostbyte=DID_ERROR",
            "sd 1:0:0:0: [sdx] tag#1 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK",
            "sd 1:0:0:0: [sdx] tag#1 Sense Key : Medium Error [current]",
            "I/O error, dev sdx, sector 8 op 0x1:(WRITE) flags 0x800",
        ] {
            assert_eq!(KernelMessage::kind_of(text), "error", "{text}");
        }
    }

    #[test]
    fn a_drive_wakes_up_from_what_it_may_use() {
        let state = |asleep, leave_us| PowerState { asleep, leave_us, ..PowerState::default() };
        let of = |sleeps_by_itself, wake_limit_us| {
            let power_states = vec![state(false, 200_000), state(true, 500), state(true, 45_000)];
            let log = NvmeHealth {
                power_states,
                sleeps_by_itself,
                wake_limit_us,
                ..NvmeHealth::default()
            };
            log.wakes_within_us()
        };
        assert_eq!(of(true, Some(100_000)), Some(45_000));
        assert_eq!(of(true, Some(44_999)), Some(500));
        assert_eq!((of(true, Some(0)), of(true, None)), (None, None));
        assert_eq!(of(false, Some(100_000)), None);
    }
}
