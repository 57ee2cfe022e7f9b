//! Cells, points and flames of a watch with a budget, scaled to what the kernel counted, by the
//! same ratios as the tables.
//!
//! What does not belong here: the ratios (`sums::calibration`).

use super::cells::CellSums;
use super::flames::FlameTree;
use super::points::ChosenRequest;
use super::{ChartKind, Charts};
use crate::summary::{ByDirection, Direction};
use crate::sums::calibration::Calibration;
use iowhy_model::Name;
use rustc_hash::FxHashMap;

/// The ratios of each device.
pub(crate) type Calibrations = FxHashMap<Option<Name>, ByDirection<Calibration>>;

/// The ratios by the numbers of devices and kinds.
struct NumberedRatios {
    by_device: Vec<ByDirection<Calibration>>,
    kinds: Vec<Direction>,
}

impl NumberedRatios {
    fn get(&self, device: u16, kind: u8) -> Calibration {
        let direction = self.kinds.get(usize::from(kind)).copied().unwrap_or(Direction::Other);
        self.by_device
            .get(usize::from(device))
            .map_or_else(Calibration::default, |calibrations| calibrations[direction])
    }
}

/// Rounds scaled figures so that their sum is right: what one lost to rounding, the next gets.
#[derive(Clone, Copy, Default)]
struct RoundedSum {
    rest: f64,
}

impl RoundedSum {
    fn scale(&mut self, value: u64, ratio: f64) -> u64 {
        let exact = value as f64 * ratio + self.rest;
        let whole = exact.round().max(0.0);
        self.rest = exact - whole;
        whole as u64
    }
}

/// A sum for each figure of a cell.
#[derive(Clone, Copy, Default)]
struct RoundedCell {
    count: RoundedSum,
    bytes: RoundedSum,
    time: RoundedSum,
    stages: [RoundedSum; 5],
}

impl RoundedCell {
    fn scale(&mut self, sums: &mut CellSums, ratio: &Calibration) {
        let (count, bytes, time) = ratio.ratios();
        sums.measure.count = self.count.scale(sums.measure.count, count);
        sums.measure.bytes = self.bytes.scale(sums.measure.bytes, bytes);
        sums.measure.time_ns = self.time.scale(sums.measure.time_ns, time);
        for (rest, stage) in self.stages.iter_mut().zip(&mut sums.stages) {
            *stage = rest.scale(*stage, time);
        }
    }
}

impl Charts {
    /// Scales what counts requests; waits are not counted by the kernel.
    pub(crate) fn scale(&mut self, ratios: &Calibrations) {
        let of_device =
            |name: &Option<Name>| ratios.get(name).copied().unwrap_or_else(ByDirection::default);
        let ratios = NumberedRatios {
            by_device: self.devices.iter().map(of_device).collect(),
            kinds: self
                .kinds
                .iter()
                .map(|ChartKind { operation, .. }| (*operation).into())
                .collect(),
        };
        for cells in [&mut self.requests, &mut self.in_flight] {
            let mut rests: FxHashMap<(u16, u8), RoundedCell> = FxHashMap::default();
            for (key, sums) in cells {
                let rest = rests.entry((key.device, key.kind)).or_default();
                rest.scale(sums, &ratios.get(key.device, key.kind));
            }
        }
        for point in &mut self.chosen.by_chance {
            let ChosenRequest { device, kind, .. } = *point;
            point.stands_for *= ratios.get(device, kind).ratios().0;
        }
        scale_flames(&mut self.request_flames, &ratios);
    }
}

fn scale_flames(flames: &mut FlameTree, ratios: &NumberedRatios) {
    let sum = |flames: &FlameTree| {
        flames.leaves.iter().fold(0_u64, |sum, leaf| sum.saturating_add(leaf.time_ns))
    };
    let before = sum(flames);
    let mut rest = RoundedSum::default();
    for leaf in &mut flames.leaves {
        leaf.time_ns = rest.scale(leaf.time_ns, ratios.get(leaf.device, leaf.kind).ratios().2);
    }
    // Branches that are left out are scaled as the others.
    let ratio = if before > 0 { sum(flames) as f64 / before as f64 } else { 1.0 };
    flames.time_ns = (flames.time_ns as f64 * ratio).round() as u64;
}
