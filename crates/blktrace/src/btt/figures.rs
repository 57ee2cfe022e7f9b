//! btt's figures: averages, activity ranges, live periods.

use super::seconds;
use iowhy_analysis::stages::{Average, BusyPeriods};

/// The stages that btt measures, in the order of its report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BttStage {
    /// Q to Q of a mapper.
    Q2qDm,
    /// Q to A of a mapper.
    Q2aDm,
    /// Q to C of a mapper.
    Q2cDm,
    /// Q to the next Q.
    Q2q,
    /// Q to A.
    Q2a,
    /// Q to G.
    Q2g,
    /// S to G.
    S2g,
    /// G to I.
    G2i,
    /// Q to M or F.
    Q2m,
    /// I to D.
    I2d,
    /// M or F to D.
    M2d,
    /// D to C.
    D2c,
    /// Q to C.
    Q2c,
    /// Blocks of completions.
    Blocks,
}

impl BttStage {
    /// The number of stages.
    pub const COUNT: usize = 14;
    /// The stages of mappers.
    pub const DM: [BttStage; 3] = [BttStage::Q2qDm, BttStage::Q2aDm, BttStage::Q2cDm];
    /// The stages of devices, in the order of the report.
    pub const ALL: [BttStage; 10] = [
        BttStage::Q2q,
        BttStage::Q2a,
        BttStage::Q2g,
        BttStage::S2g,
        BttStage::G2i,
        BttStage::Q2m,
        BttStage::I2d,
        BttStage::M2d,
        BttStage::D2c,
        BttStage::Q2c,
    ];

    /// btt's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            BttStage::Q2qDm => "Q2Qdm",
            BttStage::Q2aDm => "Q2Adm",
            BttStage::Q2cDm => "Q2Cdm",
            BttStage::Q2q => "Q2Q",
            BttStage::Q2a => "Q2A",
            BttStage::Q2g => "Q2G",
            BttStage::S2g => "S2G",
            BttStage::G2i => "G2I",
            BttStage::Q2m => "Q2M",
            BttStage::I2d => "I2D",
            BttStage::M2d => "M2D",
            BttStage::D2c => "D2C",
            BttStage::Q2c => "Q2C",
            BttStage::Blocks => "BLK",
        }
    }
}

/// One average per stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Averages([Average; BttStage::COUNT]);

impl Averages {
    /// The figures of `stage`.
    #[inline]
    pub fn get(&self, stage: BttStage) -> &Average {
        &self.0[stage as usize]
    }

    /// Adds a sample of `stage`.
    #[inline]
    pub fn add(&mut self, stage: BttStage, value: u64) {
        self.0[stage as usize].add(value);
    }
}

/// Returns the time between two events, in ns; btt makes 1 ns of anything less.
#[inline]
pub const fn delta(from: u64, to: u64) -> u64 {
    if from < to { to - from } else { 1 }
}

/// Periods in which events follow each other by less than a tenth of a second.
#[derive(Clone, Debug, Default)]
pub struct Ranges(pub Vec<(u64, u64)>);

impl Ranges {
    /// Periods that are kept; later ones are aggregated into the last.
    const MAX: usize = 64 << 10;

    /// Adds an event at `time`.
    #[inline]
    pub fn add(&mut self, time: u64) {
        let full = self.0.len() >= Self::MAX;
        match self.0.last_mut() {
            Some((_, end)) if time < *end => {}
            Some((_, end)) if time - *end < 100_000_000 || full => *end = time,
            _ => self.0.push((time, time)),
        }
    }
}

/// Queue and completion activity.
#[derive(Clone, Debug, Default)]
pub struct BttActivity {
    /// Activity of queueing.
    pub queue: Ranges,
    /// Activity of completion.
    pub complete: Ranges,
}

/// The mean in seconds.
pub fn mean(average: &Average) -> f64 {
    seconds(average.total) / average.count as f64
}

/// Number of periods, their mean, the mean pause between them, and the share of the time from
/// 0 to the last completion, in percent: btt's starts at 0, not at the first issue, and has no
/// mean for a single period.
pub fn live_figures(periods: &BusyPeriods) -> (u64, f64, f64, f64) {
    let (count, live, end) = periods.periods();
    match count {
        0 => (0, 0.0, 0.0, 0.0),
        1 => (1, 0.0, 0.0, 100.0),
        _ => {
            let (all, live) = (seconds(end), seconds(live));
            let pauses = (all - live) / (count - 1) as f64;
            (count, live / count as f64, pauses, 100.0 * (live / all))
        }
    }
}
