//! Batches that are slow as a whole: kernels, firmware, racks and hosts, each against others of its
//! kind.
//!
//! Drives of a host are not independent of each other, so hosts are counted: each with the median
//! of its drives.
//!
//! What does not belong here: single drives (`outliers`).

use super::cells::DriveHours;
use super::outliers::{BatchKind, LEAST_SIGMA, SlowBatch, describe};
use super::peers::{
    HourExcess, LEAST_HOURS, LEAST_SIBLINGS, MEDIAN_VARIANCE, PeerRule, by_drive, host_hours,
    lasting_excess,
};
use super::robust::{
    LEAST_FREEDOM, Spread, median, named_up_to, tail, upper_limit, upper_probability,
};
use std::collections::HashMap;

/// Hosts that a kernel, a firmware or a rack needs at least.
const LEAST_HOSTS: usize = 3;
/// Drives that a host needs at least: a host with a single drive cannot be distinguished from it.
const LEAST_DRIVES: usize = 2;
/// The excess below which a batch is not named: 10 %, as a logarithm.
const LEAST_BATCH_EXCESS: f64 = 0.095;

/// Hosts of each batch with the excesses of their drives.
type BatchMembers = HashMap<u32, HashMap<u32, Vec<(u32, f64)>>>;

/// The values of a batch: the median of each host, and its drives.
struct BatchValues {
    hosts: Vec<f64>,
    drives: Vec<u32>,
}

impl BatchValues {
    fn new(hosts: &HashMap<u32, Vec<(u32, f64)>>) -> BatchValues {
        let middle = |drives: &Vec<(u32, f64)>| {
            let mut values: Vec<f64> = drives.iter().map(|drive| drive.1).collect();
            median(&mut values)
        };
        let mut drives: Vec<u32> = hosts.values().flatten().map(|host| host.0).collect();
        drives.sort_unstable();
        BatchValues { hosts: hosts.values().filter_map(middle).collect(), drives }
    }
}

/// Batches by kernel or firmware: the medians of their hosts against all others that could have
/// been compared with them.
pub(super) fn slow_batches(data: &DriveHours, kind: BatchKind, alarms: f64) -> Vec<SlowBatch> {
    let is_kernel = kind == BatchKind::Kernel;
    let hours = by_drive(data, PeerRule { by_firmware: is_kernel, by_kernel: !is_kernel });
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
                batch.entry(drive.host_id).or_default().push((index as u32, middle));
            }
        }
    }
    let tested: usize = groups.values().map(HashMap::len).sum();
    let mut found = Vec::new();
    for (of, batches) in groups {
        let batches: Vec<(u32, BatchValues)> =
            batches.iter().map(|(name, hosts)| (*name, BatchValues::new(hosts))).collect();
        for (name, batch) in &batches {
            let rest = || batches.iter().filter(|other| other.0 != *name);
            let others: Vec<f64> = rest().flat_map(|other| other.1.hosts.iter().copied()).collect();
            let Some((score, limit)) = batch_score(&batch.hosts, &others, tested, alarms) else {
                continue;
            };
            let own = batch.drives.iter().flat_map(|drive| &hours[*drive as usize]);
            let own: Vec<HourExcess> =
                own.filter(|hour| !is_kernel || hour.kernel == *name).copied().collect();
            found.push(SlowBatch {
                kind,
                name: *name,
                model: of.map(|batch| batch.0),
                drives: (batch.drives.len(), rest().map(|other| other.1.drives.len()).sum()),
                excess: describe(&own, score, limit, data.first_hour()),
            });
        }
    }
    found
}

/// Returns how many deviations a batch is above the others, and the limit, if it exceeds it.
fn batch_score(own: &[f64], others: &[f64], tested: usize, alarms: f64) -> Option<(f64, f64)> {
    if own.len() < LEAST_HOSTS || others.len() < LEAST_SIBLINGS {
        return None;
    }
    let (own, rest) = (Spread::new(own, LEAST_SIGMA)?, Spread::new(others, LEAST_SIGMA)?);
    let part = |spread: Spread| spread.sigma.powi(2) / spread.count as f64;
    let deviation = (MEDIAN_VARIANCE * (part(own) + part(rest))).sqrt();
    let excess = own.middle - rest.middle;
    let limit = own.limit(tested, alarms);
    let is_slow = excess >= LEAST_BATCH_EXCESS && excess / deviation >= limit;
    is_slow.then_some((excess / deviation, limit))
}

/// Racks and hosts: they differ by nature, so each is compared with the spread of all.
pub(super) struct Batches<'a> {
    pub data: &'a DriveHours,
    /// Hours of each drive with their excess over siblings.
    pub hours: &'a [Vec<HourExcess>],
    /// The rate at which any of one kind may be named in a healthy fleet.
    pub alarms: f64,
}

/// A rack or a host with the excess that its drives have in common.
struct WholeExcess {
    name: u32,
    /// The rack of a host.
    rack: u32,
    excess: f64,
    /// The deviation of the excess by chance, from the drives in it.
    chance: f64,
    drives: Vec<u32>,
}

impl Batches<'_> {
    /// Returns the deviation of drives within their hosts.
    fn sigma(&self) -> f64 {
        let drive = |hours: &Vec<HourExcess>| lasting_excess(hours.iter().map(|hour| hour.excess));
        let mut hosts: HashMap<u32, Vec<f64>> = HashMap::new();
        for (drive, excess) in self.data.drives.iter().zip(self.hours.iter().map(drive)) {
            hosts.entry(drive.host_id).or_default().extend(excess);
        }
        let mut distances = Vec::new();
        for values in hosts.values_mut() {
            let Some(middle) = median(values) else { continue };
            // Around a median of few values, the distances are too small.
            let count = values.len() as f64;
            let near = if count > 1.0 { (count / (count - 1.0)).sqrt() } else { 1.0 };
            distances.extend(values.iter().map(|value| (value - middle) * near));
        }
        Spread::new(&distances, LEAST_SIGMA).map_or(LEAST_SIGMA, |spread| spread.sigma)
    }

    /// Returns the excess that the drives of each host have in common, without those of `but`.
    fn hosts(&self, sigma: f64, but: impl Fn(u32) -> bool) -> Vec<WholeExcess> {
        let mut hosts: HashMap<u32, (u32, Vec<f64>, Vec<u32>)> = HashMap::new();
        for ((host, _), hour) in host_hours(self.data, self.hours, &but) {
            hosts.entry(host).or_default().1.push(hour.common(sigma));
        }
        for (index, drive) in self.data.drives.iter().enumerate() {
            let index = index as u32;
            let is_known = !self.hours[index as usize].is_empty() && !but(index);
            if let Some(host) = hosts.get_mut(&drive.host_id).filter(|_| is_known) {
                host.0 = drive.rack;
                host.2.push(index);
            }
        }
        let whole = |(name, (rack, hours, drives)): (u32, (u32, Vec<f64>, Vec<u32>))| {
            let excess = lasting_excess(hours.into_iter())?;
            let chance = sigma * (MEDIAN_VARIANCE / drives.len().max(1) as f64).sqrt();
            Some(WholeExcess { name, rack, excess, chance, drives })
        };
        let mut hosts: Vec<WholeExcess> = hosts.into_iter().filter_map(whole).collect();
        hosts.sort_by_key(|host| host.name);
        hosts
    }

    /// Returns racks whose hosts are slower than those of the others, with their common excess.
    pub fn slow_racks(&self) -> Vec<(SlowBatch, f64)> {
        let hosts = self.hosts(self.sigma(), |_| false);
        let values: Vec<f64> = hosts.iter().map(|host| host.excess).collect();
        let Some(spread) = Spread::new(&values, LEAST_SIGMA) else { return Vec::new() };
        let mut racks: HashMap<u32, Vec<&WholeExcess>> = HashMap::new();
        for host in &hosts {
            if !self.data.names.text(host.rack).is_empty() {
                racks.entry(host.rack).or_default().push(host);
            }
        }
        racks.retain(|_, hosts| hosts.len() >= LEAST_HOSTS);
        let whole = |(rack, hosts): (u32, Vec<&WholeExcess>)| {
            let mut values: Vec<f64> = hosts.iter().map(|host| host.excess).collect();
            let chance = spread.sigma * (MEDIAN_VARIANCE / values.len() as f64).sqrt();
            let drives = hosts.iter().flat_map(|host| host.drives.iter().copied()).collect();
            Some(WholeExcess { name: rack, rack, excess: median(&mut values)?, chance, drives })
        };
        self.beyond(BatchKind::Rack, racks.into_iter().filter_map(whole).collect())
    }

    /// Returns hosts that are slower than the others, beyond the common excess of their rack,
    /// without drives that are slow by themselves.
    pub fn slow_hosts(
        &self,
        of_rack: impl Fn(u32) -> f64,
        is_slow: impl Fn(u32) -> bool,
    ) -> Vec<SlowBatch> {
        let mut hosts = self.hosts(self.sigma(), is_slow);
        hosts.retain(|host| host.drives.len() >= LEAST_DRIVES);
        hosts.iter_mut().for_each(|host| host.excess -= of_rack(host.rack));
        self.beyond(BatchKind::Host, hosts).into_iter().map(|found| found.0).collect()
    }

    /// Returns those that are above the others of their kind, with their excess.
    fn beyond(&self, kind: BatchKind, all: Vec<WholeExcess>) -> Vec<(SlowBatch, f64)> {
        let values: Vec<f64> = all.iter().map(|whole| whole.excess).collect();
        let spread =
            Spread::new(&values, LEAST_SIGMA).filter(|spread| spread.count > LEAST_SIBLINGS);
        let Some(spread) = spread else { return Vec::new() };
        let score = |whole_excess: &WholeExcess| {
            (whole_excess.excess - spread.middle) / spread.sigma.max(whole_excess.chance)
        };
        let scores: Vec<f64> = all.iter().map(score).collect();
        let freedom = spread.freedom.max(LEAST_FREEDOM);
        let wider = tail(&scores, freedom);
        let probability = |score: &f64| upper_probability(freedom, score / wider);
        let probabilities: Vec<f64> = scores.iter().map(probability).collect();
        let limit = wider * upper_limit(freedom, named_up_to(&probabilities, self.alarms));
        let drives: usize = all.iter().map(|whole| whole.drives.len()).sum();
        let mut found = Vec::new();
        for (it, score) in all.iter().zip(&scores) {
            let excess = it.excess - spread.middle;
            if *score < limit || excess < LEAST_BATCH_EXCESS {
                continue;
            }
            let own = it.drives.iter().flat_map(|drive| &self.hours[*drive as usize]);
            let own: Vec<HourExcess> = own.copied().collect();
            let batch = SlowBatch {
                kind,
                name: it.name,
                model: None,
                drives: (it.drives.len(), drives - it.drives.len()),
                excess: describe(&own, *score, limit, self.data.first_hour()),
            };
            found.push((batch, excess));
        }
        found.sort_by(|a, b| b.0.excess.score.total_cmp(&a.0.excess.score));
        found
    }
}
