//! The kernel's counters of each device, which the rows of a minute must add up to.
//!
//! A request that ends at the end of a minute may be counted in it and recorded in the next one. So
//! a difference waits for one more minute; then it is a row of its own if no record came, and rows
//! are scaled down if they have more than the kernel counted.
//!
//! What does not belong here: reading the counters (crate `iowhy-capture`).

use super::{DeviceBytes, WriterId, WriterKind, WriterSums, WriterTotals};
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Names, Scope};
use std::collections::BTreeMap;

/// Devices that are followed.
const MOST_DEVICES: usize = 256;

/// Estimates are scaled up by at most a half: the rest was not recorded.
const MOST_SCALED: i64 = 2;

/// The counters that are followed; [`field`] has the figure of each.
const METRICS: [Metric; 3] = [Metric::WriteBytes, Metric::ReadBytes, Metric::DiscardBytes];

type Counters = [u64; METRICS.len()];

/// The counters of one device.
#[derive(Clone, Copy, Debug, Default)]
struct FollowedDevice {
    /// The value of each counter up to which it is taken; `None` before the first sample.
    taken: [Option<u64>; METRICS.len()],
    latest: Counters,
    /// Bytes that the kernel counted and no record shows so far; negative if less.
    owed: [i64; METRICS.len()],
}

/// The counters of all devices.
#[derive(Clone, Debug, Default)]
pub struct ExactCounters {
    devices: BTreeMap<String, FollowedDevice>,
    /// The only devices to follow; empty for all.
    only: Vec<String>,
}

impl ExactCounters {
    /// Follows the devices `only`; all if it is empty.
    pub fn new(only: &[String]) -> ExactCounters {
        ExactCounters { devices: BTreeMap::new(), only: only.to_vec() }
    }

    /// Adds the samples of a batch.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        for sample in batch.samples.iter().filter(|sample| sample.scope == Scope::Device) {
            let metric = Metric::find(Scope::Device, names.get(sample.metric));
            let Some(place) = METRICS.iter().position(|own| Some(*own) == metric) else { continue };
            let device = names.get(sample.subject);
            if !self.only.is_empty() && !self.only.iter().any(|only| only == device) {
                continue;
            }
            if !self.devices.contains_key(device) && self.devices.len() >= MOST_DEVICES {
                continue;
            }
            let followed = self.devices.entry(device.to_owned()).or_default();
            let value = sample.value.max(0.0) as u64;
            let taken = followed.taken[place].get_or_insert(value);
            // The device was removed and another one has its name.
            *taken = (*taken).min(value);
            followed.latest[place] = value;
        }
    }

    /// Returns the bytes counted since the last call, by device; `rows` are changed to add up to
    /// them, except records that are still to come. Rows of thinned requests are estimates, and are
    /// scaled.
    pub fn settle(
        &mut self,
        rows: &mut WriterTotals,
        is_thinned: bool,
    ) -> BTreeMap<String, DeviceBytes> {
        let mut counted = BTreeMap::new();
        for (name, device) in &mut self.devices {
            let mut grown = Counters::default();
            for (place, grown) in grown.iter_mut().enumerate() {
                let taken = device.taken[place].replace(device.latest[place]);
                *grown = device.latest[place].saturating_sub(taken.unwrap_or(0));
            }
            let recorded = recorded(rows, name);
            for place in 0..METRICS.len() {
                let owed = &mut device.owed[place];
                settle_one(rows, (name, place), (grown[place], recorded[place], is_thinned), owed);
            }
            if grown != Counters::default() {
                let [written, read, discarded] = grown;
                counted.insert(name.clone(), DeviceBytes { read, written, discarded });
            }
        }
        counted
    }
}

/// Returns the bytes of a device's rows, in the order of [`METRICS`].
fn recorded(rows: &WriterTotals, device: &str) -> Counters {
    let own = rows.rows().filter(|(id, _)| id.device == device);
    own.fold(Counters::default(), |sum, (_, sums)| {
        let own = [sums.written_bytes(), sums.read_bytes, sums.discarded_bytes];
        std::array::from_fn(|place| sum[place].saturating_add(own[place]))
    })
}

/// Makes the rows of one device and direction add up to the counter's growth `grown`.
fn settle_one(
    rows: &mut WriterTotals,
    (device, place): (&str, usize),
    (grown, recorded, is_thinned): (u64, u64, bool),
    owed: &mut i64,
) {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let wanted = signed(grown).saturating_add(*owed);
    let difference = wanted.saturating_sub(signed(recorded));
    let is_estimate = is_thinned && difference <= signed(recorded) / MOST_SCALED;
    if (is_estimate && difference > 0) || (difference < 0 && *owed < 0) {
        let ratio = wanted.max(0) as f64 / recorded.max(1) as f64;
        *owed = wanted.min(0);
        for (_, sums) in rows.rows_mut().filter(|(id, _)| id.device == device) {
            scale(sums, place, ratio);
        }
    } else if difference >= 0 {
        // Bytes owed from the minute before have had a minute to be recorded.
        let unseen = difference.min((*owed).max(0));
        *owed = difference - unseen;
        let mut sums = WriterSums::default();
        *field(&mut sums, place) = unseen.unsigned_abs();
        rows.add(&WriterId::for_rest(WriterKind::Unseen, device, false), &sums);
    } else {
        *owed = difference;
    }
}

/// Returns the figure that missing bytes are added to.
fn field(sums: &mut WriterSums, place: usize) -> &mut u64 {
    match place {
        0 => &mut sums.data_bytes,
        1 => &mut sums.read_bytes,
        _ => &mut sums.discarded_bytes,
    }
}

fn scale(sums: &mut WriterSums, place: usize, ratio: f64) {
    let scaled = |value: &mut u64| *value = (*value as f64 * ratio).round() as u64;
    if place == 0 {
        scaled(&mut sums.journal_bytes);
        scaled(&mut sums.metadata_bytes);
    }
    scaled(field(sums, place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    fn row(data_bytes: u64) -> (WriterId, WriterSums) {
        let id =
            WriterId { program: "db".to_owned(), device: "sda".to_owned(), ..WriterId::default() };
        (id, WriterSums { data_bytes, ..WriterSums::default() })
    }

    fn sample(counters: &mut ExactCounters, value: u64) {
        let mut script = Script::new(10);
        script.sample(0, Metric::WriteBytes, "sda", value as f64);
        counters.add(&script.batch, &script.names);
    }

    /// Returns the minutes of a device, each given as counted and recorded bytes: the bytes of its
    /// rows, and those unseen.
    fn minutes(of: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut counters = ExactCounters::new(&[]);
        let mut value = 1_000_000;
        sample(&mut counters, value);
        of.iter()
            .map(|(grown, recorded)| {
                value += grown;
                sample(&mut counters, value);
                let mut rows = WriterTotals::new(10);
                let (id, sums) = row(*recorded);
                rows.add(&id, &sums);
                let counted = counters.settle(&mut rows, false);
                assert_eq!(counted.get("sda").map_or(0, |bytes| bytes.written), *grown);
                let of_kind = |kind| {
                    let own = rows.rows().filter(|(id, _)| id.kind == kind);
                    own.map(|(_, sums)| sums.written_bytes()).sum::<u64>()
                };
                (of_kind(WriterKind::Program), of_kind(WriterKind::Unseen))
            })
            .collect()
    }

    #[test]
    fn what_was_not_recorded_is_a_row_a_minute_later() {
        assert_eq!(minutes(&[(100, 60), (100, 100), (0, 0)]), [(60, 0), (100, 40), (0, 0)]);
        // The record of the first minute's last request comes in the second.
        assert_eq!(minutes(&[(100, 60), (100, 140), (0, 0)]), [(60, 0), (140, 0), (0, 0)]);
    }

    #[test]
    fn rows_with_more_than_the_kernel_counted_are_scaled_down() {
        // The counter was read before the request was recorded.
        assert_eq!(minutes(&[(100, 140), (100, 60)]), [(140, 0), (60, 0)]);
        assert_eq!(minutes(&[(100, 140), (100, 140), (0, 0)]), [(140, 0), (60, 0), (0, 0)]);
    }

    #[test]
    fn a_device_that_begins_anew_counts_from_there() {
        let mut counters = ExactCounters::new(&["sda".to_owned()]);
        sample(&mut counters, 5_000);
        sample(&mut counters, 0);
        sample(&mut counters, 300);
        let counted = counters.settle(&mut WriterTotals::new(1), false);
        assert_eq!(counted["sda"].written, 300);
    }
}
