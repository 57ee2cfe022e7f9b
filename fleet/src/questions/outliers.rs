//! `iowhy-fleet outliers`: drives that are slower than their siblings, and batches that are slow as
//! a whole: hosts, racks, firmware, kernels.
//!
//! Compared are hours at equal load: the same model, size, operation, and octaves of requests a
//! second and of a request's size, in the same hour, reads and writes each by themselves. The
//! logarithm of an hour's mean latency minus the median of its siblings is its excess. The excess
//! that the other drives of its host have in common in that hour is not the drive's fault, and is
//! subtracted: the rest is the drive's own. A drive's excess is the upper quartile of its hours, so
//! a quarter of the time is enough to be found, and an hour is not.
//!
//! What does not belong here: the siblings of an hour (`peers`), groups (`batches`), reading rows,
//! and showing the results.

use super::batches::{Batches, slow_batches};
use super::cells::DriveHours;
use super::peers::{
    HourExcess, MEDIAN_VARIANCE, OwnExcess, PeerRule, by_drive, kin, lasting_excess,
    least_siblings, own_excesses,
};
pub use super::peers::{RackHours, rack_hours};
use super::robust::{
    SharedSpread, Spread, median, named_up_to, onset, slow_side, tail, upper_limit,
    upper_probability,
};
use std::collections::HashMap;

/// The least deviation that is assumed: drives of one model differ by 2 %.
pub(super) const LEAST_SIGMA: f64 = 0.02;
/// The excess below which a drive is not named: 25 %, as a logarithm.
const LEAST_DRIVE_EXCESS: f64 = 0.223;

/// The rate at which a healthy fleet may be called sick.
pub const FALSE_ALARMS: f64 = 0.05;

/// The attribute that a batch of drives has in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BatchKind {
    /// The kernel of their hosts.
    Kernel,
    /// The firmware, of one model and size.
    Firmware,
    /// The rack of their hosts.
    Rack,
    /// The host.
    Host,
}

impl BatchKind {
    /// All kinds.
    pub const ALL: [BatchKind; 4] =
        [BatchKind::Kernel, BatchKind::Firmware, BatchKind::Rack, BatchKind::Host];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            BatchKind::Kernel => "kernel",
            BatchKind::Firmware => "firmware",
            BatchKind::Rack => "rack",
            BatchKind::Host => "host",
        }
    }
}

/// The excess of a slow drive or batch, and its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// The factor by which it is slower than its siblings, in its slow hours; a drive's beyond its
    /// host's.
    pub factor: f64,
    /// The number of deviations above them; it is named from `limit` on.
    pub score: f64,
    /// The number of deviations from which on it is named.
    pub limit: f64,
    /// The first slow hour, hours since 1970; `None` if it is slow in all that was read.
    pub since: Option<i32>,
    /// Its mean latency in the slow hours, ns.
    pub mean_ns: f64,
    /// The mean latency of its siblings, ns.
    pub siblings_ns: f64,
    /// The operations in which it is slower; the figures are of the first.
    pub operations: Vec<u32>,
}

/// A drive that is slower than its siblings.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowDrive {
    /// The index of the drive.
    pub drive: u32,
    /// Drives that it was compared with.
    pub siblings: usize,
    /// Its excess.
    pub excess: Excess,
}

/// A batch that is slower than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowBatch {
    /// The attribute that its drives have in common.
    pub kind: BatchKind,
    /// Its name; the identity of a host.
    pub name: u32,
    /// The model, for firmware.
    pub model: Option<u32>,
    /// Drives in it, and drives that they were compared with.
    pub drives: (usize, usize),
    /// Its excess.
    pub excess: Excess,
}

/// The slow drives and batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutlierReport {
    /// Batches, the worst first.
    pub batches: Vec<SlowBatch>,
    /// Drives, the worst first.
    pub drives: Vec<SlowDrive>,
    /// Drives that were compared.
    pub compared: usize,
    /// Drives that were not compared: too few siblings at their load, or too few hours.
    pub unknown: usize,
}

/// Describes the excess and beginning of hours of one or several drives. `first` is the first hour
/// that was read; hours that begin later are slow from their beginning on.
pub(super) fn describe(hours: &[HourExcess], score: f64, limit: f64, first: i32) -> Excess {
    let mut by_hour: HashMap<i32, Vec<f64>> = HashMap::new();
    for hour in hours {
        by_hour.entry(hour.hour).or_default().push(hour.excess);
    }
    let mut series: Vec<(i32, f64)> = by_hour
        .into_iter()
        .filter_map(|(hour, mut values)| Some((hour, median(&mut values)?)))
        .collect();
    series.sort_by_key(|pair| pair.0);
    let values: Vec<f64> = series.iter().map(|pair| pair.1).collect();
    let since = onset(&values).and_then(|(at, _, _)| series.get(at)).or(series.first());
    let since = since.map(|since| since.0).filter(|hour| *hour > first);
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

/// Compares drives and batches, each operation by itself. `alarms` is the rate at which a healthy
/// fleet may be called sick.
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
        found.drives.iter_mut().for_each(|drive| of(&mut drive.excess));
        found.batches.iter_mut().for_each(|batch| of(&mut batch.excess));
        found.drives.into_iter().for_each(|drive| report.add_drive(drive));
        found.batches.into_iter().for_each(|batch| report.add_batch(batch));
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
    /// Adds a drive. One that is slow in several operations is one, with the most significant of
    /// them.
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
    let hours = by_drive(data, rule);
    let batches = Batches { data, hours: &hours, alarms };
    let racks = batches.slow_racks();
    let of_rack =
        |rack: u32| racks.iter().find(|known| known.0.name == rack).map_or(0.0, |rack| rack.1);
    let own = own_excesses(data, &hours, |drive| of_rack(drive.rack));
    known.iter_mut().zip(&own).for_each(|(known, own)| *known |= own.lasting.is_some());
    report.drives = slow_drives(data, &hours, &own, alarms);
    let slow: Vec<u32> = report.drives.iter().map(|slow| slow.drive).collect();
    report.batches.extend(batches.slow_hosts(of_rack, |drive| slow.contains(&drive)));
    report.batches.extend(racks.into_iter().map(|(rack, _)| rack));
    report
}

/// A drive and the number of deviations above its siblings, before the spread of healthy drives is
/// known.
struct DriveScore {
    drive: u32,
    siblings: usize,
    excess: f64,
    score: f64,
    /// The score that gives the spread of healthy drives.
    healthy: f64,
    /// The least deviation that is assumed, as a score.
    least: f64,
    freedom: f64,
}

/// A drive among its siblings.
struct GroupMember {
    drive: u32,
    /// The excess that is tested, and the one that gives the spread of healthy drives.
    excess: f64,
    healthy: f64,
    /// The factor by which it deviates more than a drive whose host is known exactly.
    deviation: f64,
}

fn slow_drives(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    own: &[OwnExcess],
    alarms: f64,
) -> Vec<SlowDrive> {
    let mut scores = drive_scores(data, hours, own);
    even_out(data, own, &mut scores);
    let all: Vec<f64> = scores.iter().map(|score| score.healthy).collect();
    let mut freedoms: Vec<f64> = scores.iter().map(|score| score.freedom).collect();
    let Some(freedom) = median(&mut freedoms) else { return Vec::new() };
    let wider = tail(&all, freedom).max(slow_side(&all, freedom));
    // A drive that is hardly slower is not worth a name, at any certainty.
    let probability = |drive_score: &DriveScore| match drive_score.excess >= LEAST_DRIVE_EXCESS {
        true => upper_probability(drive_score.freedom, drive_score.score / wider),
        false => 1.0,
    };
    let probabilities: Vec<f64> = scores.iter().map(probability).collect();
    let named_up_to = named_up_to(&probabilities, alarms);
    let slow = |(score, probability): (&DriveScore, &f64)| {
        let limit = wider * upper_limit(score.freedom, named_up_to);
        let is_slow = *probability <= named_up_to;
        is_slow.then(|| {
            let hours = &own[score.drive as usize].hours;
            let excess = describe(hours, score.score, limit, data.first_hour());
            SlowDrive { drive: score.drive, siblings: score.siblings, excess }
        })
    };
    scores.iter().zip(&probabilities).filter_map(slow).collect()
}

/// Evens out the scores. Drives of one host may spread more than those of another, because of the
/// host's other work: scores are divided by the spread of the drives of the own host, moderated by
/// that of all hosts. If models are not known, scores are so already.
fn even_out(data: &DriveHours, own: &[OwnExcess], scores: &mut [DriveScore]) {
    let host_of = |score: &DriveScore| {
        let drive = &data.drives[score.drive as usize];
        let has_model = !data.names.text(drive.model).is_empty();
        (has_model && own[score.drive as usize].mates > 0).then_some(drive.host_id)
    };
    let mut hosts: HashMap<u32, (f64, Vec<f64>)> = HashMap::new();
    for score in scores.iter() {
        if let Some(host) = host_of(score) {
            let (least, values) = hosts.entry(host).or_default();
            *least = score.least.max(*least);
            values.push(score.healthy);
        }
    }
    let spread = |(host, (least, values)): (&u32, &(f64, Vec<f64>))| {
        Some((*host, Spread::new(values, *least)?))
    };
    let spreads: HashMap<u32, Spread> = hosts.iter().filter_map(spread).collect();
    let all: Vec<Spread> = spreads.values().copied().collect();
    let Some(shared) = SharedSpread::known(&all) else { return };
    for score in scores {
        let spread = host_of(score).and_then(|host| spreads.get(&host));
        let Some((spread, freedom)) = spread.map(|spread| shared.moderated(*spread)) else {
            continue;
        };
        score.score /= spread.sigma;
        score.healthy /= spread.sigma;
        // The uncertainties of both add up.
        score.freedom = 1.0 / (1.0 / score.freedom + 1.0 / freedom);
    }
}

/// Returns the scores of drives of one model, firmware and size: with other drives in their host by
/// their own excess; alone in their host, which cannot be distinguished from them, by all of it.
fn drive_scores(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    own: &[OwnExcess],
) -> Vec<DriveScore> {
    let mut scores = Vec::new();
    for alone in [false, true] {
        let mut groups: HashMap<(u32, u32, i64), Vec<GroupMember>> = HashMap::new();
        for (index, (drive, own)) in data.drives.iter().zip(own).enumerate() {
            let key = (kin(data, drive), drive.firmware, drive.size_bytes);
            let member = member(index as u32, &hours[index], own, alone);
            groups.entry(key).or_default().extend(member);
        }
        let spread = |members: &Vec<GroupMember>| {
            let values: Vec<f64> =
                members.iter().map(|member| member.healthy / member.deviation).collect();
            Spread::new(&values, LEAST_SIGMA)
        };
        groups.retain(|_, members| {
            let drive = members.first().map(|member| &data.drives[member.drive as usize]);
            drive.is_some_and(|drive| members.len() > least_siblings(data, drive))
        });
        let spreads: Vec<Spread> = groups.values().filter_map(spread).collect();
        let shared = SharedSpread::from_groups(&spreads);
        for members in groups.values() {
            let Some(group) = spread(members) else { continue };
            let (moderated, freedom) = shared.moderated(group);
            let sigma = moderated.sigma.max(LEAST_SIGMA);
            let tested =
                members.iter().filter(|member| (own[member.drive as usize].mates == 0) == alone);
            scores.extend(tested.map(|tested| {
                let from_middle = |excess: f64| excess - group.middle * tested.deviation;
                DriveScore {
                    drive: tested.drive,
                    siblings: members.len() - 1,
                    excess: from_middle(tested.excess),
                    score: from_middle(tested.excess) / (tested.deviation * sigma),
                    healthy: from_middle(tested.healthy) / (tested.deviation * sigma),
                    least: LEAST_SIGMA / (tested.deviation * sigma),
                    freedom,
                }
            }));
        }
    }
    scores.sort_by_key(|score| score.drive);
    scores
}

/// Returns a drive for the comparison with others; if it is `alone`, with all of its excess.
fn member(drive: u32, hours: &[HourExcess], own: &OwnExcess, alone: bool) -> Option<GroupMember> {
    if !alone {
        let (excess, healthy) = (own.lasting?, own.beside_mates?);
        let deviation = mates_deviation(own.mates);
        return (own.mates > 0).then_some(GroupMember { drive, excess, healthy, deviation });
    }
    let excess = match own.mates {
        0 => own.lasting?,
        _ => lasting_excess(hours.iter().map(|hour| hour.excess))?,
    };
    Some(GroupMember { drive, excess, healthy: excess, deviation: 1.0 })
}

/// Returns the factor by which a drive deviates more from the median of so many others than from
/// the value that they estimate.
fn mates_deviation(mates: usize) -> f64 {
    (1.0 + MEDIAN_VARIANCE / (mates as f64 - 1.0 + MEDIAN_VARIANCE)).sqrt()
}
