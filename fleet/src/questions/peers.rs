//! The peers of an hour of a drive: hours of equal drives at equal load, and then the common excess
//! of the other drives of its host in that hour.
//!
//! What does not belong here: the choice of those to name.

use super::cells::{DriveHour, DriveHours, FleetDrive};
use super::robust::{median, median_of_sorted};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Siblings that an hour needs at least.
pub(super) const LEAST_SIBLINGS: usize = 8;
/// Siblings that are needed if models are not known: the other drives of its host. With three, one
/// sick drive does not bend their median.
const LEAST_MATES: usize = 3;
/// Hours that a drive needs at least.
pub(super) const LEAST_HOURS: usize = 3;
/// A quarter of the hours is enough to be found …
const HOURS_SHARE: f64 = 0.25;
/// … and a single one is not.
const LEAST_SLOW_HOURS: usize = 2;
/// The variance of a median of values relative to that of their mean: π/2.
pub(super) const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;

/// The attributes of peers, besides load, operation, model and size.
#[derive(Clone, Copy)]
pub(super) struct PeerRule {
    pub by_firmware: bool,
    pub by_kernel: bool,
}

type PeerKey = (u32, i64, u32, i32, (i8, i8), Option<u32>, Option<u32>);

/// Returns the attribute that siblings share: the model, or the host if no model is known.
pub(super) fn kin(data: &DriveHours, drive: &FleetDrive) -> u32 {
    match data.names.text(drive.model).is_empty() {
        true => drive.host_id,
        false => drive.model,
    }
}

/// Returns the number of siblings that such a drive needs at least.
pub(super) fn least_siblings(data: &DriveHours, drive: &FleetDrive) -> usize {
    match data.names.text(drive.model).is_empty() {
        true => LEAST_MATES,
        false => LEAST_SIBLINGS,
    }
}

fn peer_key(data: &DriveHours, hour: &DriveHour, rule: PeerRule) -> PeerKey {
    let drive = &data.drives[hour.drive as usize];
    (
        kin(data, drive),
        drive.size_bytes,
        hour.operation,
        hour.hour,
        hour.load,
        rule.by_firmware.then_some(drive.firmware),
        rule.by_kernel.then_some(hour.kernel),
    )
}

/// Returns the neighbouring loads: a host has too few drives for each load by itself.
fn near_loads(key: &PeerKey) -> impl Iterator<Item = PeerKey> {
    let (rate, size) = key.4;
    let key = *key;
    [rate.saturating_sub(1), rate.saturating_add(1)].into_iter().map(move |rate| {
        let mut near = key;
        near.4 = (rate, size);
        near
    })
}

/// An hour of a drive.
#[derive(Clone, Copy, Default)]
pub(super) struct HourExcess {
    pub hour: i32,
    pub kernel: u32,
    /// The logarithm of the factor by which it was slower than its peers.
    pub excess: f64,
    parts: f64,
    pub requests: f64,
    pub time_ns: f64,
}

/// The excess of each hour over its siblings; `None` for one with too few.
fn excesses(data: &DriveHours, rule: PeerRule) -> Vec<Option<f64>> {
    let mut groups: HashMap<PeerKey, Vec<f64>> = HashMap::new();
    for hour in &data.hours {
        groups.entry(peer_key(data, hour, rule)).or_default().push(hour.mean_ns.ln());
    }
    let hosts: HashSet<u32> = data.drives.iter().map(|drive| drive.host_id).collect();
    let middle = |(key, values): (&PeerKey, &Vec<f64>)| {
        let is_host = hosts.contains(&key.0);
        let mut values = values.clone();
        if is_host {
            values.extend(near_loads(key).filter_map(|near| groups.get(&near)).flatten());
        }
        let enough = values.len() > if is_host { LEAST_MATES } else { LEAST_SIBLINGS };
        Some((*key, median(&mut values).filter(|_| enough)?))
    };
    let middles: HashMap<PeerKey, f64> = groups.iter().filter_map(middle).collect();
    let excess = |hour: &DriveHour| {
        middles.get(&peer_key(data, hour, rule)).map(|middle| hour.mean_ns.ln() - middle)
    };
    data.hours.iter().map(excess).collect()
}

/// Returns for each drive its hours in order, with their excess over siblings and their time.
pub(super) fn by_drive(data: &DriveHours, rule: PeerRule) -> Vec<Vec<HourExcess>> {
    let mut drives: Vec<HashMap<i32, HourExcess>> = vec![HashMap::new(); data.drives.len()];
    for (hour, excess) in data.hours.iter().zip(excesses(data, rule)) {
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

/// Returns the excess over time: the value that a quarter of its hours reach, and two of them at
/// least; `None` with too few hours.
pub(super) fn lasting_excess(hours: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = hours.collect();
    if values.len() < LEAST_HOURS {
        return None;
    }
    values.sort_by(|a, b| b.total_cmp(a));
    let slow = (values.len() as f64 * HOURS_SHARE).ceil() as usize;
    values.get(slow.max(LEAST_SLOW_HOURS) - 1).copied()
}

/// The excesses of the drives of a host in an hour.
pub(super) struct HostHour {
    /// Their excesses, sorted.
    excesses: Vec<f64>,
}

impl HostHour {
    /// Returns the excess that all have in common. Of two, the lower: one slow drive is no slow
    /// host.
    pub fn common(&self, sigma: f64) -> f64 {
        let count = self.excesses.len();
        match count % 2 {
            1 => median_of_sorted(&self.excesses),
            // The lower of the two in the middle is too low, by this on average.
            _ => self.excesses[count / 2 - 1] + MEDIAN_VARIANCE.sqrt() * sigma / count as f64,
        }
    }

    /// Returns the median of the drives other than the one with this excess; `None` if there are
    /// none.
    fn others(&self, excess: f64) -> Option<f64> {
        let mut others = self.excesses.clone();
        if let Ok(at) = others.binary_search_by(|value| value.total_cmp(&excess)) {
            others.remove(at);
        }
        (!others.is_empty()).then(|| median_of_sorted(&others))
    }
}

/// Hosts' hours: by the host's identity and the hour.
pub(super) type HostHours = HashMap<(u32, i32), HostHour>;

/// Returns the excesses of the drives of each host in each hour, without the drives of `but`.
pub(super) fn host_hours(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    but: impl Fn(u32) -> bool,
) -> HostHours {
    let mut found: HostHours = HashMap::new();
    for (index, (drive, hours)) in data.drives.iter().zip(hours).enumerate() {
        for hour in hours.iter().filter(|_| !but(index as u32)) {
            let of_host = found.entry((drive.host_id, hour.hour));
            let of_host = of_host.or_insert_with(|| HostHour { excesses: Vec::new() });
            of_host.excesses.push(hour.excess);
        }
    }
    found.values_mut().for_each(|hour| hour.excesses.sort_by(f64::total_cmp));
    found
}

/// A drive's own excess: without that of its host.
#[derive(Clone, Default)]
pub(super) struct OwnExcess {
    pub hours: Vec<HourExcess>,
    /// The excess over time; `None` with too few hours.
    pub lasting: Option<f64>,
    /// The excess over that of its mates alone, which gives the spread of healthy drives of a host.
    pub beside_mates: Option<f64>,
    /// Other drives of the host that it was compared with, in half of its hours.
    pub mates: usize,
}

/// Returns each drive's excess without that of the other drives of its host. Fewer than three
/// others can be bent by one that is fast, so they explain only slowness. `common` is the excess
/// that drives without any others share with other hosts, such as those of their rack.
pub(super) fn own_excesses(
    data: &DriveHours,
    hours: &[Vec<HourExcess>],
    common: impl Fn(&FleetDrive) -> f64,
) -> Vec<OwnExcess> {
    let of_hosts = host_hours(data, hours, |_| false);
    let own = |(drive, hours): (&FleetDrive, &Vec<HourExcess>)| {
        let (mut own, mut mates, mut beside) = (hours.clone(), Vec::new(), Vec::new());
        for hour in &mut own {
            let of_host = of_hosts.get(&(drive.host_id, hour.hour));
            let others = of_host.and_then(|of_host| of_host.others(hour.excess));
            let count = of_host.map_or(0, |of_host| of_host.excesses.len() - 1);
            mates.push(count as f64);
            let Some(others) = others else {
                hour.excess -= common(drive);
                continue;
            };
            beside.push(hour.excess - others);
            hour.excess -= if count < LEAST_MATES { others.max(0.0) } else { others };
        }
        OwnExcess {
            lasting: lasting_excess(own.iter().map(|hour| hour.excess)),
            beside_mates: lasting_excess(beside.into_iter()),
            mates: median(&mut mates).unwrap_or(0.0) as usize,
            hours: own,
        }
    };
    data.drives.iter().zip(hours).map(own).collect()
}

/// By rack and hour: the median excess of its drives over siblings.
pub type RackHours = BTreeMap<u32, BTreeMap<i32, f64>>;

/// Returns the factor by which drives of each rack are slower than equal drives of the fleet, hour
/// by hour.
pub fn rack_hours(data: &DriveHours) -> RackHours {
    let hours = by_drive(data, PeerRule { by_firmware: true, by_kernel: true });
    let mut racks: BTreeMap<u32, BTreeMap<i32, Vec<f64>>> = BTreeMap::new();
    for (drive, hours) in data.drives.iter().zip(&hours) {
        for hour in hours {
            let cell = racks.entry(drive.rack).or_default().entry(hour.hour).or_default();
            cell.push(hour.excess);
        }
    }
    let middle = |(hour, mut values): (i32, Vec<f64>)| Some((hour, median(&mut values)?));
    racks
        .into_iter()
        .map(|(rack, hours)| (rack, hours.into_iter().filter_map(middle).collect()))
        .collect()
}
