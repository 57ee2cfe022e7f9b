//! Requests of devices by column, as the kernel counted them: where a budget left rows out, rates
//! drawn from rows would have gaps and peaks that the device did not have.
//!
//! What does not belong here: what only rows have (processes, files, latency).

use super::{ChartLayer, Charts};
use crate::summary::{ByDirection, DeviceSummary, Direction, Summary};
use crate::sums::counter_curve::{CountedOverTime, counted_over_time};
use iowhy_model::{Name, Names};
use std::cmp::Reverse;

/// Cells, at most: the busiest devices come first, and rates of others are drawn from rows.
const MOST_CELLS: usize = 60_000;

/// Requests of one device and direction in one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedCell {
    /// The column of time.
    pub column: u16,
    /// The device.
    pub device: u16,
    /// Their direction.
    pub direction: Direction,
    /// Whether a device above submitted them, or the kernel for others: the share of these is the
    /// recorded requests'.
    pub layer: ChartLayer,
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Charts {
    /// Adds what the kernel counted of each device over the watch of `summary`.
    pub(crate) fn count(&mut self, summary: &Summary, names: &Names) {
        let mut devices: Vec<&DeviceSummary> = summary.devices.iter().collect();
        devices.sort_by_key(|device| Reverse(requests(device)));
        for device in devices {
            let is_own = |name: &Option<Name>| {
                name.is_some_and(|name| names.get(name) == device.device.as_str())
            };
            let Some(slot) = self.devices.iter().position(is_own) else { continue };
            let whole = device.directions.map(|figures| (figures.requests, figures.bytes));
            let counted = counted_over_time(&summary.samples, &device.device, &whole);
            let mut cells = Vec::new();
            for (direction, counted) in counted.iter() {
                if let Some(counted) = counted {
                    self.cells_of(slot as u16, direction, counted, &mut cells);
                }
            }
            if self.counted.len() + cells.len() > MOST_CELLS {
                return;
            }
            self.counted.append(&mut cells);
        }
    }

    fn cells_of(
        &self,
        device: u16,
        direction: Direction,
        counted: &CountedOverTime,
        cells: &mut Vec<CountedCell>,
    ) {
        let share = self.top_share(device, direction);
        // Differences of rounded sums: no request is lost to rounding.
        let until = |time_ns: u64| {
            let (count, bytes) = counted.until(self.start_ns.saturating_add(time_ns));
            let rounded = |sums: [f64; 2]| sums.map(|sum| sum.round() as u64);
            let top = [count * share.0, bytes * share.1];
            (rounded(top), rounded([count - top[0], bytes - top[1]]))
        };
        let columns = self.length_ns.div_ceil(self.column_ns.max(1)).min(1 << 16);
        let mut before = until(0);
        for column in 0..columns {
            // Beyond the end, since the last reading comes when the watch is over.
            let is_last = column + 1 == columns;
            let end_ns =
                if is_last { u64::MAX } else { (column + 1).saturating_mul(self.column_ns) };
            let now = until(end_ns);
            let layers = [(ChartLayer::Top, before.0, now.0), (ChartLayer::Lower, before.1, now.1)];
            for (layer, before, now) in layers {
                let (count, bytes) =
                    (now[0].saturating_sub(before[0]), now[1].saturating_sub(before[1]));
                if count > 0 || bytes > 0 {
                    let column = column as u16;
                    cells.push(CountedCell { column, device, direction, layer, count, bytes });
                }
            }
            before = now;
        }
    }

    /// The share of requests and bytes of a device that no device above submitted.
    fn top_share(&self, device: u16, direction: Direction) -> (f64, f64) {
        let (mut top, mut all) = ((0.0, 0.0), (0.0, 0.0));
        for (key, sums) in self.requests.iter().filter(|(key, _)| key.device == device) {
            let Some(kind) = self.kinds.get(usize::from(key.kind)) else { continue };
            if Direction::from(kind.operation) != direction {
                continue;
            }
            let sums = (sums.measure.count as f64, sums.measure.bytes as f64);
            all = (all.0 + sums.0, all.1 + sums.1);
            if kind.layer == ChartLayer::Top {
                top = (top.0 + sums.0, top.1 + sums.1);
            }
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
        (share(top.0, all.0), share(top.1, all.1))
    }
}

fn requests(device: &DeviceSummary) -> u64 {
    let ByDirection(directions) = &device.directions;
    directions.iter().fold(0, |sum, figures| sum.saturating_add(figures.requests))
}
