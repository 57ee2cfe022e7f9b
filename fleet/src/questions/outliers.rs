//! `iowhy-fleet outliers`: drives that are slower than their siblings, and batches of drives
//! (firmware, rack, kernel) that are slower than the others.
//!
//! Compared are hours at equal load: the same model, size, operation, and octaves of requests a
//! second and of a request's size, in the same hour, reads and writes each by themselves. The
//! logarithm of an hour's mean latency minus the median of its siblings is its excess. A drive's
//! excess is the upper quartile of its hours, so a quarter of the time is enough to be found, and
//! an hour is not. What a rack or a kernel has in common is not its drives' fault.
//!
//! What does not belong here: reading rows, and showing what was found.

use super::cells::{DriveHour, DriveHours};
use super::robust::{Spread, median, onset, quantile, upper_limit};
use std::collections::HashMap;

/// Siblings that an hour needs at least.
const LEAST_SIBLINGS: usize = 8;
/// Hours that a drive needs at least.
const LEAST_HOURS: usize = 3;
/// Drives that a batch needs at least.
const LEAST_BATCH: usize = 3;
/// The least deviation that is believed: drives of one model differ by 2 %.
const LEAST_SIGMA: f64 = 0.02;
/// A drive that is less than 25 % slower is not named.
const LEAST_DRIVE_EXCESS: f64 = 0.223;
/// A batch that is less than 10 % slower is not named.
const LEAST_BATCH_EXCESS: f64 = 0.095;
/// The share of a drive's hours that its excess is above.
const DRIVE_SHARE: f64 = 0.75;

/// How often a healthy fleet may be called sick.
pub const FALSE_ALARMS: f64 = 0.05;

/// What a batch of drives has in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BatchKind {
    /// The kernel of their hosts.
    Kernel,
    /// The firmware, of one model and size.
    Firmware,
    /// The rack of their hosts.
    Rack,
}

impl BatchKind {
    /// All of them.
    pub const ALL: [BatchKind; 3] = [BatchKind::Kernel, BatchKind::Firmware, BatchKind::Rack];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            BatchKind::Kernel => "kernel",
            BatchKind::Firmware => "firmware",
            BatchKind::Rack => "rack",
        }
    }
}

/// What is slower, by how much, and since when.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// How many times slower than its siblings, in its slow hours.
    pub factor: f64,
    /// How many deviations beyond them; it is named from `limit` on.
    pub score: f64,
    /// From how many deviations on it is named.
    pub limit: f64,
    /// The first slow hour, hours since 1970; `None` if it is slow in all that was read.
    pub since: Option<i32>,
    /// Its mean latency in the slow hours, ns.
    pub mean_ns: f64,
    /// That of its siblings, ns.
    pub siblings_ns: f64,
    /// In which operations it is slower; the figures are of the first.
    pub operations: Vec<u32>,
}

/// A drive that is slower than its siblings.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowDrive {
    /// Which of the drives.
    pub drive: u32,
    /// Drives that it was compared with.
    pub siblings: usize,
    /// How much slower.
    pub excess: Excess,
}

/// A batch that is slower than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowBatch {
    /// What they have in common.
    pub kind: BatchKind,
    /// Its name.
    pub name: u32,
    /// The model, for firmware.
    pub model: Option<u32>,
    /// Drives in it, and drives that they were compared with.
    pub drives: (usize, usize),
    /// How much slower.
    pub excess: Excess,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutlierReport {
    /// Batches, the worst first.
    pub batches: Vec<SlowBatch>,
    /// Drives, the worst first.
    pub drives: Vec<SlowDrive>,
    /// Drives that were compared.
    pub compared: usize,
    /// Drives that were not, because of too few siblings at their load or too few hours.
    pub unknown: usize,
}

/// Drives of each batch with their excess.
type BatchMembers = HashMap<u32, Vec<(u32, f64)>>;

/// What an hour is compared by, besides load, operation, model and size.
#[derive(Clone, Copy)]
struct PeerRule {
    by_firmware: bool,
    by_kernel: bool,
}

type PeerKey = (u32, i64, u32, i32, (i8, i8), Option<u32>, Option<u32>);

fn peer_key(data: &DriveHours, hour: &DriveHour, rule: PeerRule) -> PeerKey {
    let drive = &data.drives[hour.drive as usize];
    (
        drive.model,
        drive.size_bytes,
        hour.operation,
        hour.hour,
        hour.load,
        rule.by_firmware.then_some(drive.firmware),
        rule.by_kernel.then_some(hour.kernel),
    )
}

/// The excess of each hour; `None` for one with too few siblings.
fn excesses(data: &DriveHours, rule: PeerRule) -> Vec<Option<f64>> {
    let mut groups: HashMap<PeerKey, Vec<f64>> = HashMap::new();
    for hour in &data.hours {
        groups.entry(peer_key(data, hour, rule)).or_default().push(hour.mean_ns.ln());
    }
    let middle = |(key, mut values): (PeerKey, Vec<f64>)| {
        let enough = values.len() > LEAST_SIBLINGS;
        Some((key, median(&mut values).filter(|_| enough)?))
    };
    let middles: HashMap<PeerKey, f64> = groups.into_iter().filter_map(middle).collect();
    let excess = |hour: &DriveHour| {
        middles.get(&peer_key(data, hour, rule)).map(|middle| hour.mean_ns.ln() - middle)
    };
    data.hours.iter().map(excess).collect()
}

/// For each drive its hours in order, with their excess and what they took.
fn by_drive(data: &DriveHours, excesses: &[Option<f64>]) -> Vec<Vec<HourExcess>> {
    let mut drives: Vec<HashMap<i32, HourExcess>> = vec![HashMap::new(); data.drives.len()];
    for (hour, excess) in data.hours.iter().zip(excesses) {
        let Some(excess) = excess else { continue };
        let sum = drives[hour.drive as usize].entry(hour.hour).or_default();
        sum.hour = hour.hour;
        sum.kernel = hour.kernel;
        sum.excess += excess;
        sum.parts += 1.0;
        sum.requests += hour.requests;
        sum.time_ns += hour.requests * hour.mean_ns;
    }
    let in_order = |hours: HashMap<i32, HourExcess>| {
        let mut hours: Vec<HourExcess> = hours.into_values().collect();
        hours.iter_mut().for_each(|hour| hour.excess /= hour.parts);
        hours.sort_by_key(|hour| hour.hour);
        hours
    };
    drives.into_iter().map(in_order).collect()
}

/// An hour of a drive.
#[derive(Clone, Copy, Default)]
struct HourExcess {
    hour: i32,
    kernel: u32,
    excess: f64,
    parts: f64,
    requests: f64,
    time_ns: f64,
}

/// The excess of a drive; `None` with too few hours.
fn drive_excess(hours: &[HourExcess]) -> Option<f64> {
    let mut values: Vec<f64> = hours.iter().map(|hour| hour.excess).collect();
    quantile(&mut values, DRIVE_SHARE).filter(|_| hours.len() >= LEAST_HOURS)
}

/// Since when and by how much, of hours of one or several drives. `first`: the first hour that was
/// read; what begins later is slow since it began.
fn describe(hours: &[HourExcess], score: f64, limit: f64, first: i32) -> Excess {
    let mut by_hour: HashMap<i32, Vec<f64>> = HashMap::new();
    for hour in hours {
        by_hour.entry(hour.hour).or_default().push(hour.excess);
    }
    let mut series: Vec<(i32, f64)> = by_hour
        .into_iter()
        .filter_map(|(hour, mut values)| Some((hour, median(&mut values)?)))
        .collect();
    series.sort_by_key(|it| it.0);
    let values: Vec<f64> = series.iter().map(|it| it.1).collect();
    let since = onset(&values).and_then(|(at, _, _)| series.get(at)).or(series.first());
    let since = since.map(|it| it.0).filter(|hour| *hour > first);
    let slow = hours.iter().filter(|hour| since.is_none_or(|since| hour.hour >= since));
    let (mut excess, mut requests, mut time_ns) = (Vec::new(), 0.0, 0.0);
    for hour in slow {
        excess.push(hour.excess);
        requests += hour.requests;
        time_ns += hour.time_ns;
    }
    let factor = median(&mut excess).unwrap_or(0.0).exp();
    let mean_ns = time_ns / requests.max(1.0);
    let operations = Vec::new();
    Excess { factor, score, limit, since, mean_ns, siblings_ns: mean_ns / factor, operations }
}

/// Compares drives and batches, each operation by itself. `alarms` is how often a healthy fleet may
/// be called sick.
pub fn find(data: &DriveHours, alarms: f64) -> OutlierReport {
    let mut operations: Vec<u32> = data.hours.iter().map(|hour| hour.operation).collect();
    operations.sort_unstable();
    operations.dedup();
    let mut report = OutlierReport::default();
    let mut known = vec![false; data.drives.len()];
    for operation in &operations {
        let hours = data.hours.iter().filter(|hour| hour.operation == *operation);
        let part = DriveHours { hours: hours.copied().collect(), ..data.clone() };
        let mut found = find_in(&part, alarms / operations.len() as f64, &mut known);
        let of = |excess: &mut Excess| excess.operations.push(*operation);
        found.drives.iter_mut().for_each(|it| of(&mut it.excess));
        found.batches.iter_mut().for_each(|it| of(&mut it.excess));
        found.drives.into_iter().for_each(|it| report.add_drive(it));
        found.batches.into_iter().for_each(|it| report.add_batch(it));
    }
    report.compared = known.iter().filter(|known| **known).count();
    report.unknown = known.len() - report.compared;
    report.batches.sort_by(|a, b| {
        b.excess.factor.total_cmp(&a.excess.factor).then_with(|| a.name.cmp(&b.name))
    });
    report.drives.sort_by(|a, b| {
        b.excess.score.total_cmp(&a.excess.score).then_with(|| a.drive.cmp(&b.drive))
    });
    report
}

impl OutlierReport {
    /// A drive that is slow in several operations is one, with the one that stands out most.
    fn add_drive(&mut self, new: SlowDrive) {
        match self.drives.iter_mut().find(|known| known.drive == new.drive) {
            Some(known) if known.excess.score < new.excess.score => {
                let others = std::mem::take(&mut known.excess.operations);
                *known = new;
                known.excess.operations.extend(others);
            }
            Some(known) => known.excess.operations.extend(new.excess.operations),
            None => self.drives.push(new),
        }
    }

    fn add_batch(&mut self, new: SlowBatch) {
        let is_same = |known: &&mut SlowBatch| {
            (known.kind, known.name, known.model) == (new.kind, new.name, new.model)
        };
        match self.batches.iter_mut().find(is_same) {
            Some(known) if known.excess.score < new.excess.score => {
                let others = std::mem::take(&mut known.excess.operations);
                *known = new;
                known.excess.operations.extend(others);
            }
            Some(known) => known.excess.operations.extend(new.excess.operations),
            None => self.batches.push(new),
        }
    }
}

fn find_in(data: &DriveHours, alarms: f64, known: &mut [bool]) -> OutlierReport {
    let levels = BatchKind::ALL.len() as f64 + 1.0;
    let alarms = alarms / levels;
    let mut report = OutlierReport::default();
    for kind in [BatchKind::Kernel, BatchKind::Firmware] {
        report.batches.extend(slow_batches(data, kind, alarms));
    }
    let rule = PeerRule { by_firmware: true, by_kernel: true };
    let hours = by_drive(data, &excesses(data, rule));
    let mut own: Vec<Option<f64>> = hours.iter().map(|hours| drive_excess(hours)).collect();
    known.iter_mut().zip(&own).for_each(|(known, own)| *known |= own.is_some());
    let compared = own.iter().flatten().count();
    let racks = slow_racks(data, &hours, &own, alarms);
    for (rack, common) in &racks {
        for (drive, excess) in data.drives.iter().zip(own.iter_mut()) {
            if drive.rack == rack.name {
                *excess = excess.map(|excess| excess - common);
            }
        }
    }
    report.batches.extend(racks.into_iter().map(|(rack, _)| rack));
    report.drives = slow_drives(data, &hours, &own, compared, alarms);
    report
}

fn slow_drives(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    own: &[Option<f64>],
    compared: usize,
    alarms: f64,
) -> Vec<SlowDrive> {
    let mut groups: HashMap<(u32, u32, i64), Vec<(u32, f64)>> = HashMap::new();
    for (index, (drive, excess)) in data.drives.iter().zip(own).enumerate() {
        let key = (drive.model, drive.firmware, drive.size_bytes);
        groups.entry(key).or_default().extend(excess.map(|excess| (index as u32, excess)));
    }
    let mut found = Vec::new();
    for members in groups.values().filter(|members| members.len() > LEAST_SIBLINGS) {
        let values: Vec<f64> = members.iter().map(|it| it.1).collect();
        let Some(spread) = Spread::of(&values, LEAST_SIGMA) else { continue };
        let limit = spread.limit(compared, alarms);
        for (drive, excess) in members {
            let score = (excess - spread.middle) / spread.sigma;
            if score >= limit && excess - spread.middle >= LEAST_DRIVE_EXCESS {
                let excess = describe(&hours[*drive as usize], score, limit, data.first_hour());
                found.push(SlowDrive { drive: *drive, siblings: members.len() - 1, excess });
            }
        }
    }
    found
}

/// Batches by kernel or firmware: the medians of their drives against all other drives that could
/// have been compared with them.
fn slow_batches(data: &DriveHours, kind: BatchKind, alarms: f64) -> Vec<SlowBatch> {
    let is_kernel = kind == BatchKind::Kernel;
    let rule = PeerRule { by_firmware: is_kernel, by_kernel: !is_kernel };
    let hours = by_drive(data, &excesses(data, rule));
    // A drive's hours under one kernel are a member of that kernel's batch.
    let mut groups: HashMap<Option<(u32, i64)>, BatchMembers> = HashMap::new();
    for (index, (drive, hours)) in data.drives.iter().zip(&hours).enumerate() {
        let mut parts: HashMap<u32, Vec<f64>> = HashMap::new();
        for hour in hours {
            let name = if is_kernel { hour.kernel } else { drive.firmware };
            parts.entry(name).or_default().push(hour.excess);
        }
        let of = (!is_kernel).then_some((drive.model, drive.size_bytes));
        for (name, mut values) in parts {
            if let Some(middle) = median(&mut values).filter(|_| values.len() >= LEAST_HOURS) {
                let batch = groups.entry(of).or_default().entry(name).or_default();
                batch.push((index as u32, middle));
            }
        }
    }
    let tested: usize = groups.values().map(HashMap::len).sum();
    let mut found = Vec::new();
    for (of, batches) in groups {
        for (name, members) in &batches {
            let others: Vec<f64> = batches
                .iter()
                .filter(|(other, _)| *other != name)
                .flat_map(|(_, members)| members.iter().map(|it| it.1))
                .collect();
            let Some((score, limit)) = batch_score(members, &others, tested, alarms) else {
                continue;
            };
            let own = members.iter().flat_map(|(drive, _)| &hours[*drive as usize]);
            let own: Vec<HourExcess> =
                own.filter(|hour| !is_kernel || hour.kernel == *name).copied().collect();
            found.push(SlowBatch {
                kind,
                name: *name,
                model: of.map(|it| it.0),
                drives: (members.len(), others.len()),
                excess: describe(&own, score, limit, data.first_hour()),
            });
        }
    }
    found
}

/// How many deviations a batch is beyond the others, and how many it must be, if it is.
fn batch_score(
    members: &[(u32, f64)],
    others: &[f64],
    tested: usize,
    alarms: f64,
) -> Option<(f64, f64)> {
    if members.len() < LEAST_BATCH || others.len() < LEAST_SIBLINGS {
        return None;
    }
    let values: Vec<f64> = members.iter().map(|it| it.1).collect();
    let (own, rest) = (Spread::of(&values, LEAST_SIGMA)?, Spread::of(others, LEAST_SIGMA)?);
    // A median of n values deviates 1.2533 times as much as their mean.
    let part = |spread: Spread| spread.sigma.powi(2) / spread.count as f64;
    let deviation = 1.2533 * (part(own) + part(rest)).sqrt();
    let excess = own.middle - rest.middle;
    let limit = own.limit(tested, alarms);
    let is_slow = excess >= LEAST_BATCH_EXCESS && excess / deviation >= limit;
    is_slow.then_some((excess / deviation, limit))
}

/// Racks whose drives are slower than those of the others, with what they have in common. Racks
/// differ by nature, so a rack is compared with the spread of racks.
fn slow_racks(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    own: &[Option<f64>],
    alarms: f64,
) -> Vec<(SlowBatch, f64)> {
    let mut racks: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
    for (index, (drive, excess)) in data.drives.iter().zip(own).enumerate() {
        if !data.names.text(drive.rack).is_empty() {
            racks.entry(drive.rack).or_default().extend(excess.map(|it| (index as u32, it)));
        }
    }
    racks.retain(|_, members| members.len() >= LEAST_BATCH);
    let middle = |members: &[(u32, f64)]| {
        let mut values: Vec<f64> = members.iter().map(|it| it.1).collect();
        median(&mut values).unwrap_or(0.0)
    };
    let middles: Vec<f64> = racks.values().map(|members| middle(members)).collect();
    let everything: Vec<f64> = own.iter().flatten().copied().collect();
    let of_racks = Spread::of(&middles, 0.0).filter(|it| it.count > LEAST_SIBLINGS);
    let (Some(spread), Some(all)) = (of_racks, Spread::of(&everything, LEAST_SIGMA)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (rack, members) in &racks {
        let chance = 1.2533 * all.sigma / (members.len() as f64).sqrt();
        let excess = middle(members) - spread.middle;
        let score = excess / spread.sigma.max(chance);
        let freedom = 0.37 * (spread.count - 1) as f64;
        let limit = upper_limit(freedom.max(2.0), alarms / racks.len() as f64);
        if score < limit || excess < LEAST_BATCH_EXCESS {
            continue;
        }
        let own = members.iter().flat_map(|(drive, _)| &hours[*drive as usize]);
        let own: Vec<HourExcess> = own.copied().collect();
        let drives = (members.len(), everything.len() - members.len());
        let excess_of = describe(&own, score, limit, data.first_hour());
        let batch = SlowBatch {
            kind: BatchKind::Rack,
            name: *rack,
            model: None,
            drives,
            excess: excess_of,
        };
        found.push((batch, excess));
    }
    found.sort_by(|a, b| b.0.excess.score.total_cmp(&a.0.excess.score));
    found
}
