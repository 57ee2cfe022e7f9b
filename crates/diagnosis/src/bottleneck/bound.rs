//! The bound of a group of waits: what most of its time is spent on, and whether the waits are
//! slow.
//!
//! What does not belong here: sentences about the waits (see [`super::report`]).

use super::group::GroupedWaits;
use super::kind::BottleneckKind;
use crate::facts::by_program::WaitingProgram;
use crate::facts::{self, Facts};
use crate::programs::{self, FileRole};
use iowhy_analysis::summary::{DeviceSummary, Direction, Interval};
use iowhy_model::{Origin, WaitClass};
use std::collections::BTreeMap;

/// The least mean wait of a slow sync: etcd's manual requires a 99th percentile of the WAL's fsync
/// below 10 ms, and a mean of half as much is the limit of that.
pub const SLOW_SYNC_NS: f64 = 5_000_000.0;
/// The least mean of any other slow wait: providers promise "single-digit milliseconds" for volumes
/// (AWS gp2, gp3).
pub const SLOW_NS: f64 = 10_000_000.0;
/// The same on a rotating disk: a seek and a rotation take up to 15 ms.
pub const SLOW_ROTATING_NS: f64 = 20_000_000.0;
/// The least mean wait at which a saturated device matters: any flash device answers within 1 ms.
pub const FELT_NS: f64 = 1_000_000.0;
/// The least share of the interval with requests in flight for a saturated device, if requests also
/// wait for each other: iostat's man page calls it saturated near 100 %.
pub const SATURATED: f64 = 0.90;
/// The least mean depth while busy at which requests wait for each other. Chosen.
pub const DEEP: f64 = 1.5;
/// The least share of the waits spent behind other requests or for a tag, for a queue. Chosen.
const QUEUED: f64 = 0.2;

/// The bound of a group of waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// As text.
    pub by: String,
    /// The share of the waits that it takes.
    pub share: f64,
}

/// Returns what most of a group's time is spent on.
pub fn bound(group: &GroupedWaits<'_>) -> Bound {
    let mut parts: BTreeMap<WaitClass, u64> = BTreeMap::new();
    for it in &group.waited.groups {
        *parts.entry(WaitClass::Device).or_default() += it.device_ns;
        *parts.entry(WaitClass::Queue).or_default() += it.queue_ns;
        *parts.entry(WaitClass::RunQueue).or_default() += it.run_queue_ns;
        *parts.entry(it.class).or_default() += it.class_ns();
    }
    let total = parts.values().copied().fold(0_u64, u64::saturating_add).max(1);
    let most = parts.into_iter().max_by_key(|(_, time)| *time);
    let (class, time) = most.unwrap_or((WaitClass::Unknown, 0));
    Bound { by: words_of(class, group.device), share: time as f64 / total as f64 }
}

fn words_of(class: WaitClass, device: Option<&DeviceSummary>) -> String {
    let name = device.map_or("the device", |device| device.device.as_str());
    match class {
        WaitClass::Device => match device {
            Some(it) if is_saturated(it) => format!("{name} (saturated)"),
            Some(it) if depth(it) <= DEEP => format!("{name}, one request at a time"),
            _ => name.to_owned(),
        },
        WaitClass::Queue => format!("the queue of {name}"),
        WaitClass::Tag => format!("free tags of {name}"),
        WaitClass::CgroupThrottle => "the I/O limit of the cgroup".to_owned(),
        WaitClass::DirtyThrottle => "the dirty page limit".to_owned(),
        WaitClass::JournalCommit => "journal commits".to_owned(),
        WaitClass::JournalSpace => "space in the journal".to_owned(),
        WaitClass::FsLock => "a file system lock".to_owned(),
        WaitClass::Fsync => "writeback of dirty pages".to_owned(),
        WaitClass::Swap => "swap".to_owned(),
        WaitClass::Reclaim => "memory reclaim".to_owned(),
        WaitClass::RunQueue => "the CPU (run queue)".to_owned(),
        WaitClass::Unknown => "an unknown reason".to_owned(),
        other => other.phrase().to_owned(),
    }
}

/// Returns the mean requests in flight while the device is busy.
pub fn depth(device: &DeviceSummary) -> f64 {
    device.busy_depth_mean.unwrap_or(device.in_flight_mean)
}

/// Whether it is busy nearly all the time with requests that wait for each other.
pub fn is_saturated(device: &DeviceSummary) -> bool {
    let held = facts::stage_sum(device, Interval::Q2d) as f64;
    let all = facts::stage_sum(device, Interval::Q2c).max(1) as f64;
    let queues = depth(device) >= DEEP || held / all >= QUEUED;
    device.util_share.unwrap_or(0.0) >= SATURATED && queues
}

/// Returns the least mean of a slow wait of this kind on this device, nanoseconds.
fn limit(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> f64 {
    match group.kind {
        BottleneckKind::Sync => SLOW_SYNC_NS,
        _ if group.device.is_some_and(|device| facts.rotates(device)) => SLOW_ROTATING_NS,
        _ => SLOW_NS,
    }
}

/// Whether the waits are slow by the field's standards, and therefore worth a warning. A writer
/// that is only throttled by the dirty page limit is paced to its device's speed, as intended.
pub fn is_slow(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let waited = &group.waited;
    let paced: u64 = waited
        .groups
        .iter()
        .filter(|group| group.class == WaitClass::DirtyThrottle)
        .map(|group| group.class_ns())
        .fold(0, u64::saturating_add);
    if 2 * paced > waited.time_ns {
        return false;
    }
    if is_bulk(facts, group) {
        return false;
    }
    let mean = mean_ns(group);
    let is_felt = mean >= FELT_NS && is_contended(group) && !is_by_itself(facts, group);
    mean >= limit(facts, group) || is_felt || spills(facts, group)
}

/// Returns the mean wait, nanoseconds; of asynchronous I/O the mean time of the device's requests:
/// the program sleeps only until the next of many completes.
fn mean_ns(group: &GroupedWaits<'_>) -> f64 {
    let mean = group.waited.mean_ns();
    match (group.kind, group.device) {
        (BottleneckKind::Async, Some(device)) => mean.max(request_ns(device)),
        _ => mean,
    }
}

/// Returns the mean time of a device's requests, nanoseconds.
pub fn request_ns(device: &DeviceSummary) -> f64 {
    let stages =
        device.directions.0.iter().filter_map(|direction| direction.intervals[Interval::Q2c]);
    let (sum, count) =
        stages.fold((0, 0), |all, stage| (all.0 + stage.sum_ns, all.1 + stage.requests));
    sum as f64 / count.max(1) as f64
}

/// Whether all programs copy (see [`Facts::is_copied_by`]), but for those that work in the
/// background beside them.
fn is_bulk(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let Some(device) = group.device else { return false };
    let is_felt = |program: &&WaitingProgram<'_>| {
        !program.waited.groups.iter().all(|group| facts.is_background(group))
    };
    let copies = |program: &WaitingProgram<'_>| {
        facts.is_copied_by(device, program.process, program.file().as_deref())
    };
    match group.programs.iter().any(|program| is_felt(&program)) {
        true => group.programs.iter().filter(is_felt).all(copies),
        false => !group.programs.is_empty() && group.programs.iter().all(copies),
    }
}

/// Returns the first program and the role of the files it waits for.
fn role<'a>(group: &GroupedWaits<'a>) -> Option<(&'a str, FileRole)> {
    let program = group.programs.first()?;
    let role = programs::role_of(Some(program.process), &program.file()?)?;
    Some((program.process, role))
}

/// Whether commits have the device to themselves: as many as it takes, like a database under full
/// load. `false` if the log is unknown.
fn is_by_itself(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let (Some(device), Some((process, FileRole::WriteAheadLog))) = (group.device, role(group))
    else {
        return false;
    };
    let log_ns =
        facts.written(process, &[FileRole::WriteAheadLog]).map_or(0, |written| written.time_ns);
    let all = facts::stage(device, Direction::Write, Interval::Q2c);
    // The file system's journal is written for the commits.
    let of_system =
        [Origin::Journal, Origin::Metadata].map(|origin| facts::origin_of(device, origin).0);
    let of_files_ns = all.map_or(0, |stage| stage.sum_ns).saturating_sub(of_system.iter().sum());
    group.kind == BottleneckKind::Sync && log_ns > 0 && 2 * log_ns >= of_files_ns
}

/// Whether a program waits most of the time for its temporary files, on a saturated device: with
/// more memory it would not write them.
fn spills(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> bool {
    let is_temporary = role(group).is_some_and(|(_, role)| role == FileRole::Temporary);
    let is_most = 2 * group.waited.time_ns >= facts.duration_ns();
    is_temporary && is_most && group.device.is_some_and(is_saturated)
}

/// Whether several threads wait for each other's requests on a saturated device. A thread that
/// takes completions chose its own depth, and waits for no other thread.
fn is_contended(group: &GroupedWaits<'_>) -> bool {
    let threads: u64 =
        group.programs.iter().map(|program| program.threads).fold(0, u64::saturating_add);
    group.kind != BottleneckKind::Async && threads >= 2 && group.device.is_some_and(is_saturated)
}
