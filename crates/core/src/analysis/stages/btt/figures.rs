//! btt's figures: averages, activity ranges, live periods.

use super::seconds;

/// Smallest, largest, sum and number of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average {
    /// Number of samples.
    pub count: u64,
    /// The smallest, ns.
    pub min: u64,
    /// The largest, ns.
    pub max: u64,
    /// Their sum, ns.
    pub total: u64,
}

impl Average {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.total = self.total.wrapping_add(value);
        self.count += 1;
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &Average) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.total = self.total.wrapping_add(other.total);
            self.count += other.count;
        }
    }

    /// The mean in seconds.
    pub fn mean(&self) -> f64 {
        seconds(self.total) / self.count as f64
    }
}

/// The stages that btt measures, in the order of its report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
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

impl Stage {
    /// How many there are.
    pub const COUNT: usize = 14;
    /// The stages of mappers.
    pub const DM: [Stage; 3] = [Stage::Q2qDm, Stage::Q2aDm, Stage::Q2cDm];
    /// The stages of devices, in the order of the report.
    pub const ALL: [Stage; 10] = [
        Stage::Q2q,
        Stage::Q2a,
        Stage::Q2g,
        Stage::S2g,
        Stage::G2i,
        Stage::Q2m,
        Stage::I2d,
        Stage::M2d,
        Stage::D2c,
        Stage::Q2c,
    ];

    /// btt's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Q2qDm => "Q2Qdm",
            Stage::Q2aDm => "Q2Adm",
            Stage::Q2cDm => "Q2Cdm",
            Stage::Q2q => "Q2Q",
            Stage::Q2a => "Q2A",
            Stage::Q2g => "Q2G",
            Stage::S2g => "S2G",
            Stage::G2i => "G2I",
            Stage::Q2m => "Q2M",
            Stage::I2d => "I2D",
            Stage::M2d => "M2D",
            Stage::D2c => "D2C",
            Stage::Q2c => "Q2C",
            Stage::Blocks => "BLK",
        }
    }
}

/// One average per stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Averages([Average; Stage::COUNT]);

impl Averages {
    /// The figures of `stage`.
    #[inline]
    pub fn get(&self, stage: Stage) -> &Average {
        &self.0[stage as usize]
    }

    /// Adds a sample of `stage`.
    #[inline]
    pub fn add(&mut self, stage: Stage, value: u64) {
        self.0[stage as usize].add(value);
    }
}

/// The time between two events; btt makes 1 ns of anything less.
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
pub struct Activity {
    /// Of queueing.
    pub queue: Ranges,
    /// Of completion.
    pub complete: Ranges,
}

/// Periods in which at least one request is at the device: the union of all D to C.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Disjoint and in order.
    open: Vec<(u64, u64)>,
    settled: u64,
    settled_time: u64,
    end: u64,
}

impl Live {
    /// Periods that a later request may still join to one.
    const MAX: usize = 256 << 10;

    /// Adds a request from `issue` to `complete`.
    #[inline]
    pub fn add(&mut self, issue: u64, complete: u64) {
        let (mut from, mut to) = (issue, complete);
        self.end = self.end.max(to);
        // The common case: it ends last, so only the newest periods can touch it.
        if self.open.last().is_none_or(|(_, end)| *end <= to) {
            while let Some((start, _)) = self.open.pop_if(|(_, end)| *end >= from) {
                from = from.min(start);
            }
            self.open.push((from, to));
            return self.settle();
        }
        let first = self.open.partition_point(|(_, end)| *end < from);
        let last = self.open.partition_point(|(start, _)| *start <= to);
        if let Some(joined) = self.open.get(first..last)
            && let (Some((start, _)), Some((_, end))) = (joined.first(), joined.last())
        {
            (from, to) = (from.min(*start), to.max(*end));
        }
        if first == self.open.len() {
            self.open.push((from, to));
        } else {
            self.open.splice(first..last.max(first), [(from, to)]);
        }
        self.settle();
    }

    /// Gives up joining the older half where there are too many.
    fn settle(&mut self) {
        if self.open.len() <= Self::MAX {
            return;
        }
        for (from, to) in self.open.drain(..Self::MAX / 2) {
            self.settled += 1;
            self.settled_time += to - from;
        }
    }

    /// Number of periods, the time in them, and the time from 0 to the last completion, ns.
    pub fn periods(&self) -> (u64, u64, u64) {
        let count = self.settled + self.open.len() as u64;
        let live = self.open.iter().fold(self.settled_time, |sum, (from, to)| sum + (to - from));
        (count, live, self.end)
    }

    /// Number of periods, their mean, the mean pause between them, and the share of the time from
    /// 0 to the last completion, in percent: btt's starts at 0, not at the first issue, and has no
    /// mean for a single period.
    pub fn figures(&self) -> (u64, f64, f64, f64) {
        let (count, live, end) = self.periods();
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
}
