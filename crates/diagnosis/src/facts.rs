//! Queries of a summary by rules. Pure: nothing here judges.

use super::missing::Missing;
use super::subject::Subject;
use iowhy_analysis::summary::patterns::{DevicePatterns, WaitGroup, WaitStack};
use iowhy_analysis::summary::{
    ChainRow, CodePathRow, DeviceSummary, Direction, DirectionSummary, Interval, ProcessRow,
    StageTime, Summary, UsedRow,
};
use iowhy_model::environment::is_part_of;
use iowhy_model::path_patterns::without_numbers;
use iowhy_model::{Origin, WaitClass};
use std::cell::OnceCell;
use std::collections::BTreeMap;

pub mod behind;
pub mod beside;
pub mod by_program;
pub mod calls;
mod gain;
pub mod health;
mod kinds;
pub mod memory;
pub mod moment;
mod near;
pub mod neighbours;
pub mod over_time;
mod roles;
pub mod shape;
mod since;
pub mod stacked;
pub mod syncs;
pub mod targets;
pub mod thresholds;
mod waited;
mod work;
pub mod writers;
mod writing;

pub use behind::BehindProgram;
pub use beside::{OtherWork, has_name};
pub use gain::Gain;
pub use memory::MemoryHolder;
pub use near::WARNING_THREADS;
pub use over_time::OverTime;
pub use stacked::WaitsByStack;
pub use waited::Waited;

/// The share of requests without a record above which figures are too low to be sure.
const LOSSY: f64 = 0.05;
/// The share above which figures may come from the few requests that happen to have a record.
const MOSTLY_LOST: f64 = 0.5;

/// Transports of local drives; the others are a network or a hypervisor.
const ATTACHED: &[&str] = &["pcie", "sata", "sas", "usb", "mmc", "pci"];
/// Models of network volumes that a card presents as a drive, even on bare metal: the names of
/// Amazon's, Google's and Alibaba's in `nvme list`.
const VOLUMES: &[&str] =
    &["Amazon Elastic Block Store", "nvme_card", "Alibaba Cloud Elastic Block Storage"];
/// Transports of hypervisors that hardly anyone but clouds runs.
const OF_CLOUDS: &[&str] = &["hyperv", "xen"];
/// The greatest depth of stacked devices.
const LAYERS: usize = 8;

/// The least share of bytes that continue where an earlier request ended, of one who reads or
/// writes in order. Chosen.
pub const SEQUENTIAL: f64 = 0.5;
/// The least bytes per second of a copy, a backup or a scan. Chosen.
pub const BULK_PER_S: f64 = 4e6;
/// The size of a page, bytes.
pub const PAGE: f64 = 4096.0;

/// The provider of a device to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seller {
    /// A cloud, which sells it with a limit.
    Cloud,
    /// A hypervisor, which may limit it.
    Hypervisor,
    /// Unknown: it may be the machine's own.
    Unknown,
}

/// Queries for rules.
#[derive(Debug)]
pub struct Facts<'a> {
    summary: &'a Summary,
    blocked_ns: u64,
    over_time: OverTime,
    /// The counted writes of each process to each file.
    writes: OnceCell<BTreeMap<(u32, String), u64>>,
}

impl<'a> Facts<'a> {
    /// Returns the facts of a summary.
    pub fn new(summary: &'a Summary) -> Facts<'a> {
        let blocked_ns = summary.ledger.as_ref().map_or(0, |ledger| ledger.blocked_ns);
        Facts {
            summary,
            blocked_ns,
            over_time: over_time::over_time(summary),
            writes: OnceCell::new(),
        }
    }

    /// Returns the summary itself.
    pub fn summary(&self) -> &'a Summary {
        self.summary
    }

    /// Returns the duration of the watch, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.summary.watch.duration_ns
    }

    /// Returns the duration of the watch, seconds; never 0.
    pub fn seconds(&self) -> f64 {
        (self.duration_ns() as f64 / 1e9).max(1e-3)
    }

    /// Returns the blocked time of programs' threads, nanoseconds.
    pub fn blocked_ns(&self) -> u64 {
        self.blocked_ns
    }

    /// Returns the blocked time without waits known to be for other devices, nanoseconds: the basis
    /// for judging one device, however many threads wait elsewhere.
    pub fn blocked_near(&self, device: &str) -> u64 {
        let groups = self.summary.patterns.waits.iter();
        let elsewhere =
            groups.filter(|group| group.device.as_deref().is_some_and(|other| other != device));
        self.blocked_ns
            .saturating_sub(elsewhere.map(|group| group.time_ns).fold(0, u64::saturating_add))
    }

    /// Returns by how many steps losses lower the confidence: one if the watch is lossy or cut off,
    /// two if both or if most is lost.
    pub fn doubts(&self) -> usize {
        let lost = self.lost_share().map_or(0, |share| if share > MOSTLY_LOST { 2 } else { 1 });
        lost + usize::from(!self.summary.watch.finished)
    }

    /// Whether too many waits lack their stack, or are lost, to be sure of the sums of their
    /// classes.
    pub fn loses_waits(&self) -> bool {
        let lost: u64 =
            self.summary.losses.waits().map(|loss| loss.count).fold(0, u64::saturating_add);
        let kept: u64 = self
            .summary
            .patterns
            .waits
            .iter()
            .map(|group| group.waits)
            .fold(0, u64::saturating_add);
        let left_out = self.summary.watch.left_out_waits;
        let all = kept.saturating_add(left_out).saturating_add(lost);
        lost as f64 > LOSSY * all as f64
    }

    /// Returns the share of requests without a record, if it matters. Their devices are unknown, so
    /// it is a share of all requests seen, including those that a filter left out.
    pub fn lost_share(&self) -> Option<f64> {
        let watch = &self.summary.watch;
        let seen = watch.requests.saturating_add(watch.left_out_requests);
        let all = seen.saturating_add(watch.lost_requests);
        let share = watch.lost_requests as f64 / all.max(1) as f64;
        (share > LOSSY).then_some(share)
    }

    /// Returns an error unless waits were recorded.
    pub fn need_waits(&self) -> Result<(), Missing> {
        match self.summary.ledger {
            Some(_) => Ok(()),
            None => Err(Missing("waits of threads are not in the data".to_owned())),
        }
    }

    /// Returns an error unless requests have owners.
    pub fn need_processes(&self) -> Result<(), Missing> {
        if self.summary.processes.is_absent() && self.summary.watch.requests > 0 {
            return Err(Missing("processes are not in the data".to_owned()));
        }
        Ok(())
    }

    /// Returns an error unless requests have files.
    pub fn need_files(&self) -> Result<(), Missing> {
        if self.summary.files.is_absent() && self.summary.watch.requests > 0 {
            return Err(Missing("files are not in the data".to_owned()));
        }
        Ok(())
    }

    /// Returns an error if devices were watched for fewer bins of half a second than these.
    pub fn need_bins(&self, bins: usize) -> Result<(), Missing> {
        let needed = bins as f64 * 0.5e9;
        if (self.duration_ns() as f64) < needed && !self.devices().is_empty() {
            let needed = super::words::time(needed);
            return Err(Missing(format!("the watch is shorter than {needed}")));
        }
        Ok(())
    }

    /// Returns an error unless code paths were sampled.
    pub fn need_stacks(&self) -> Result<(), Missing> {
        if self.summary.code_paths.sampled_requests == 0 && self.summary.watch.requests > 0 {
            return Err(Missing("kernel stacks are not in the data".to_owned()));
        }
        Ok(())
    }

    /// Returns an error unless stages are known from Q on.
    pub fn need_queueing(&self) -> Result<(), Missing> {
        let mut intervals = self.devices().iter().flat_map(|device| &device.directions.0);
        if intervals.any(|interval| interval.intervals[Interval::Q2c].is_some())
            || self.devices().is_empty()
        {
            return Ok(());
        }
        Err(Missing("queueing times of requests are not in the data".to_owned()))
    }

    /// Returns the chains of threads that wait for a thread that waits for storage.
    pub fn chains(&self) -> impl Iterator<Item = &'a ChainRow> + use<'a> {
        self.summary.chains.iter().flat_map(|chains| &chains.rows)
    }

    /// Returns the devices, most time first.
    pub fn devices(&self) -> &'a [DeviceSummary] {
        &self.summary.devices
    }

    /// Returns the matching device with the most request time.
    pub fn busiest(&self, fits: impl Fn(&DeviceSummary) -> bool) -> Option<&'a DeviceSummary> {
        let time = |device: &&DeviceSummary| device_time_ns(device);
        self.devices().iter().filter(|device| fits(device)).max_by_key(time)
    }

    /// Returns the usage patterns of a device.
    pub fn patterns(&self, device: &str) -> Option<&'a DevicePatterns> {
        self.summary.patterns.devices.iter().find(|patterns| patterns.device == device)
    }

    /// Returns the waits that match.
    pub fn waits(&self, fits: impl Fn(&WaitGroup) -> bool) -> Waited<'a> {
        Waited::from_groups(
            self.summary.patterns.waits.iter().filter(|group| fits(group)).collect(),
        )
    }

    /// Returns the waits of one class.
    pub fn waits_for(&self, class: WaitClass) -> Waited<'a> {
        self.waits(|group| group.class == class)
    }

    /// Returns the matching waits of kernel threads, which are not part of the blocked time.
    pub fn kernel_waits(&self, fits: impl Fn(&WaitGroup) -> bool) -> Waited<'a> {
        let groups = self.summary.patterns.kernel_waits.iter();
        Waited::from_groups(groups.filter(|group| fits(group)).collect())
    }

    /// Returns time (nanoseconds) and number of kernel threads' waits whose stack contains one of
    /// `functions`.
    pub fn kernel_waits_in(&self, functions: &[&str]) -> (u64, u64) {
        let stacks = self.summary.patterns.kernel_wait_stacks.iter();
        let stacks = stacks.filter(|stack| has_function(&stack.functions, functions));
        stacks.fold((0, 0), |sum, stack| (sum.0 + stack.time_ns, sum.1 + stack.waits))
    }

    /// Returns time (nanoseconds) and number of waits whose kernel stack contains one of
    /// `functions`.
    pub fn waits_in(&self, functions: &[&str]) -> (u64, u64) {
        self.waits_with(|stack| has_function(&stack.functions, functions))
    }

    /// Returns time (nanoseconds) and number of waits whose kernel stack matches.
    pub fn waits_with(&self, fits: impl Fn(&WaitStack) -> bool) -> (u64, u64) {
        let stacks = self.summary.patterns.wait_stacks.iter().filter(|stack| fits(stack));
        stacks.fold((0, 0), |sum, stack| (sum.0 + stack.time_ns, sum.1 + stack.waits))
    }

    /// Returns the code paths of requests that go through one of the kernel's `functions`.
    pub fn paths(&self, functions: &[&str]) -> Vec<&'a UsedRow<CodePathRow>> {
        let rows = self.summary.code_paths.table.rows.iter();
        rows.filter(|row| has_function(&row.subject.kernel, functions)).collect()
    }

    /// Returns the code paths of one device's requests through one of the kernel's `functions`;
    /// their shares are of that device's requests.
    pub fn paths_on(&self, device: &str, functions: &[&str]) -> Vec<&'a UsedRow<CodePathRow>> {
        let rows = self.patterns(device).map_or(&[][..], |patterns| &patterns.code_paths).iter();
        rows.filter(|row| has_function(&row.subject.kernel, functions)).collect()
    }

    /// Returns the share of the request time that goes through one of the kernel's `functions`.
    pub fn path_share(&self, functions: &[&str]) -> f64 {
        self.paths(functions).iter().map(|row| row.usage.time_share).sum()
    }

    /// Returns a device setting when the watch began, such as `queue/nr_requests`.
    pub fn setting(&self, device: &DeviceSummary, name: &str) -> Option<&'a str> {
        let found = self.devices().iter().find(|known| known.device == device.device)?;
        found.settings.get(name).map(String::as_str)
    }

    /// Returns a setting as a number.
    pub fn number(&self, device: &DeviceSummary, name: &str) -> Option<f64> {
        self.setting(device, name)?.trim().parse().ok()
    }

    /// Whether the device is known to rotate, so that it is seeks that take its time.
    pub fn rotates(&self, device: &DeviceSummary) -> bool {
        self.setting(device, "queue/rotational") == Some("1")
    }

    /// Returns the last known value of a setting, as a number.
    pub fn latest_number(&self, device: &DeviceSummary, name: &str) -> Option<f64> {
        let mut changed = self.summary.changed_settings.iter().rev();
        let last = changed.find(|change| {
            change.setting == name && change.device.as_deref() == Some(device.device.as_str())
        });
        match last {
            Some(change) => change.after.trim().parse().ok().filter(|new: &f64| new.is_finite()),
            None => self.number(device, name),
        }
    }

    /// Whether the device is a local drive of a physical machine, or uses such drives only. As far
    /// as known, it is then neither shared nor limited by a provider. `false` if unknown.
    pub fn is_own_drive(&self, device: &DeviceSummary) -> bool {
        let is_physical = self.summary.environment.is_virtual == Some(false);
        is_physical && self.is_built_in(&device.device, LAYERS)
    }

    /// Returns who provides the device to this machine, and may limit it.
    pub fn seller(&self, device: &DeviceSummary) -> Seller {
        let model = device.model.as_deref().unwrap_or_default();
        let Some(transport) = device.transport.as_deref() else { return Seller::Unknown };
        if VOLUMES.iter().any(|volume| model.contains(volume)) || OF_CLOUDS.contains(&transport) {
            return Seller::Cloud;
        }
        match self.summary.environment.is_virtual {
            Some(true) => Seller::Hypervisor,
            _ => Seller::Unknown,
        }
    }

    fn is_built_in(&self, name: &str, layers: usize) -> bool {
        let devices = &self.summary.environment.devices;
        let known = |name: &str| devices.iter().find(move |device| device.name == name);
        let Some(device) = known(name) else { return false };
        let disk = device.partition_of.as_deref().and_then(known).unwrap_or(device);
        if !disk.below.is_empty() {
            let is_own = |below: &String| self.is_built_in(below, layers - 1);
            return layers > 0 && disk.below.iter().all(is_own);
        }
        let model = disk.model.as_deref().unwrap_or_default();
        let is_sold = VOLUMES.iter().any(|volume| model.contains(volume));
        disk.transport.as_deref().is_some_and(|transport| ATTACHED.contains(&transport)) && !is_sold
    }

    /// Whether a device, such as an array or a volume, is above a disk, directly or with other
    /// devices in between.
    pub fn stands_on(&self, upper: &str, disk: &str) -> bool {
        let devices = &self.summary.environment.devices;
        let mut reached = vec![upper];
        for _ in 0..LAYERS {
            let below = devices.iter().filter(|device| reached.contains(&device.name.as_str()));
            let next: Vec<&str> =
                below.flat_map(|disk| disk.below.iter().map(|name| self.disk_of(name))).collect();
            if next.contains(&disk) {
                return true;
            }
            reached = next;
        }
        false
    }

    /// Returns the whole disk of a partition; any other device itself.
    fn disk_of<'b>(&'b self, name: &'b str) -> &'b str {
        let mut devices = self.summary.environment.devices.iter();
        let whole = devices
            .find(|device| device.name == name)
            .and_then(|device| device.partition_of.as_deref());
        whole.unwrap_or(name)
    }

    /// Returns the share of page cache reads from a device that repeat earlier reads of this watch:
    /// those pages were evicted in between.
    pub fn pages_again(&self, device: &str) -> f64 {
        let access = self.patterns(device).map(|patterns| &patterns.access);
        access.map_or(0.0, |access| access.pages_again as f64 / access.watched_pages.max(1) as f64)
    }

    /// Returns the mounted file systems of a device.
    pub fn mounts(&self, device: &DeviceSummary) -> Vec<&'a iowhy_model::environment::Mount> {
        let mounts = self.summary.environment.mounts.iter();
        let number = (device.major, device.minor);
        mounts.filter(|mount| mount.is_on(&device.device, number)).collect()
    }

    /// Returns the mount that holds a file, or files of one pattern: the longest path that is a
    /// beginning of theirs.
    pub fn mount_of_file(&self, file: &str) -> Option<&'a iowhy_model::environment::Mount> {
        let begins = |path: &str| {
            let path = path.trim_end_matches('/');
            file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        };
        let holds = |path: &str| begins(path) || begins(&without_numbers(path));
        let mounts = self.summary.environment.mounts.iter();
        mounts.filter(|mount| holds(&mount.path)).max_by_key(|mount| mount.path.len())
    }

    /// Returns the file system type on a device, or on its upper devices, if it is the same for
    /// all.
    pub fn file_system(&self, device: &str) -> Option<&'a str> {
        let environment = &self.summary.environment;
        let holds = |mount: &&iowhy_model::environment::Mount| {
            let number = |name: &str| {
                let known = environment.devices.iter().find(|device| device.name == name);
                known.map_or((u32::MAX, 0), |known| (known.major, known.minor))
            };
            let stands = |upper: &iowhy_model::environment::Device| {
                upper.below.iter().any(|below| is_part_of(device, below))
                    && mount.is_on(&upper.name, (upper.major, upper.minor))
            };
            mount.is_on(device, number(device)) || environment.devices.iter().any(stands)
        };
        let mut kinds = environment.mounts.iter().filter(holds).map(|mount| mount.kind.as_str());
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }

    /// Returns the matching process with most of a device's time.
    pub fn top_process(
        &self,
        device: &'a DeviceSummary,
        fits: impl Fn(&UsedRow<ProcessRow>) -> bool,
    ) -> Option<&'a UsedRow<ProcessRow>> {
        device.processes.iter().find(|row| fits(row))
    }

    /// Returns changes and rhythms over time.
    pub fn over_time(&self) -> &OverTime {
        &self.over_time
    }

    /// Returns the periodic program that moves most of a device's bytes.
    pub fn burst(&self, device: &str) -> Option<&over_time::ProgramBurst> {
        self.over_time.bursts.iter().find(|burst| burst.device == device)
    }
}

/// Returns the subject of a finding about a process on a device.
pub fn subject_of(device: &str, row: Option<&UsedRow<ProcessRow>>) -> Subject {
    let process = row.map(|row| &row.subject);
    Subject {
        device: Some(device.to_owned()),
        process: process.map(|row| row.process.clone()),
        pid: process.and_then(|row| row.pid),
        container: process.and_then(|row| row.container.clone()),
        file: None,
    }
}

/// Returns the total time of a device's requests, nanoseconds.
pub fn device_time_ns(device: &DeviceSummary) -> u64 {
    device.origins.iter().map(|row| row.usage.all_time_ns()).fold(0, u64::saturating_add)
}

/// Returns time (nanoseconds), number and bytes of a device's requests of one origin.
pub fn origin_of(device: &DeviceSummary, origin: Origin) -> (u64, u64, u64) {
    let found = device.origins.iter().find(|row| row.subject.origin == origin);
    found.map_or((0, 0, 0), |row| (row.usage.all_time_ns(), row.usage.requests, row.usage.bytes))
}

/// Returns one direction of a device.
pub fn of(device: &DeviceSummary, direction: Direction) -> &DirectionSummary {
    &device.directions[direction]
}

/// Returns one stage of one direction.
pub fn stage(device: &DeviceSummary, direction: Direction, at: Interval) -> Option<StageTime> {
    device.directions[direction].intervals[at]
}

/// Returns the sum of a stage over all directions, nanoseconds.
pub fn stage_sum(device: &DeviceSummary, at: Interval) -> u64 {
    device
        .directions
        .0
        .iter()
        .filter_map(|direction| direction.intervals[at])
        .map(|stage| stage.sum_ns)
        .fold(0, u64::saturating_add)
}

/// Returns the time that requests spent in the scheduler (I2D), including those still in it,
/// nanoseconds.
pub fn scheduled_ns(device: &DeviceSummary) -> u64 {
    stage_sum(device, Interval::I2d).saturating_add(device.in_scheduler.time_ns)
}

/// Whether a stack contains one of `functions`; a trailing `*` matches any ending.
pub fn has_function(stack: &[String], functions: &[&str]) -> bool {
    stack.iter().any(|frame| {
        let frame = frame.split('.').next().unwrap_or(frame);
        functions.iter().any(|function| match function.strip_suffix('*') {
            Some(beginning) => frame.starts_with(beginning),
            None => frame == *function,
        })
    })
}

/// Returns the share of the request time before the driver (Q2D), for one direction.
pub fn queue_share(device: &DeviceSummary, direction: Direction) -> f64 {
    let sum = |at| stage(device, direction, at).map_or(0, |stage| stage.sum_ns);
    sum(Interval::Q2d) as f64 / sum(Interval::Q2c).max(1) as f64
}

/// Returns the bytes read from a device per second.
pub fn read_per_s(facts: &Facts<'_>, device: &str) -> f64 {
    let found = facts.devices().iter().find(|known| known.device == device);
    found.map_or(0.0, |known| known.directions[Direction::Read].bytes_per_s)
}
