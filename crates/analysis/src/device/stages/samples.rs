//! The stages between Q and C, and what was measured of each.

use hdrhistogram::Histogram;

/// A stage of a request's or bio's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// From one Q of a device to the next.
    Q2q,
    /// Requests: from the earliest Q to G: limits, tags.
    Q2g,
    /// Requests: from G to I.
    G2i,
    /// Requests: from I to D, the first one in captures: the scheduler.
    I2d,
    /// Requests without I: from G to D, the first one in captures: plug and dispatch.
    G2d,
    /// Requests: from the last D to C: the device.
    D2c,
    /// Requests: from the earliest Q to C.
    Q2c,
    /// Requests: from I or G to the first D, while the cache was flushed before their data.
    Preflush,
    /// Requests: the flush of the cache behind their data, the end of D2C.
    Postflush,
    /// Requests that the driver requeued: from the first D to the last.
    Requeue,
    /// Bios: from Q to their merge into a request.
    Q2m,
    /// Bios: from the last D to C.
    BioD2c,
    /// Bios: from Q to C.
    BioQ2c,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 13] = [
        Stage::Q2q,
        Stage::Q2g,
        Stage::G2i,
        Stage::I2d,
        Stage::G2d,
        Stage::D2c,
        Stage::Q2c,
        Stage::Preflush,
        Stage::Postflush,
        Stage::Requeue,
        Stage::Q2m,
        Stage::BioD2c,
        Stage::BioQ2c,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Q2q => "Q2Q",
            Stage::Q2g => "Q2G",
            Stage::G2i => "G2I",
            Stage::I2d => "I2D",
            Stage::G2d => "G2D",
            Stage::D2c => "D2C",
            Stage::Q2c => "Q2C",
            Stage::Preflush => "pre-flush",
            Stage::Postflush => "post-flush",
            Stage::Requeue => "requeues",
            Stage::Q2m => "Q2M",
            Stage::BioD2c => "D2C of bios",
            Stage::BioQ2c => "Q2C of bios",
        }
    }
}

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
        self.add_many(value, 1);
    }

    /// Adds the same sample `times` times.
    #[inline]
    pub fn add_many(&mut self, value: u64, times: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.total = self.total.wrapping_add(value.wrapping_mul(times));
        self.count += times;
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
}

/// One stage's samples.
#[derive(Clone, Debug, Default)]
pub struct StageSamples {
    /// Number, smallest, largest, sum; exact.
    pub average: Average,
    /// For percentiles, within 1 %; absent beyond [`MAX_HISTOGRAMS`] devices.
    histogram: Option<Box<Histogram<u32>>>,
}

/// Maximum number of devices with their own percentiles.
pub const MAX_HISTOGRAMS: usize = 64;
/// The longest time that a histogram distinguishes: an hour.
const LONGEST: u64 = 3_600_000_000_000;

impl StageSamples {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    #[inline]
    pub(super) fn add_many(&mut self, value: u64, times: u64) {
        self.average.add_many(value, times);
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record_n(value, u32::try_from(times).unwrap_or(u32::MAX));
        }
    }

    fn new(histogram: bool) -> StageSamples {
        let made = || Histogram::new_with_bounds(1, LONGEST, 2).ok().map(Box::new);
        StageSamples { average: Average::default(), histogram: histogram.then(made).flatten() }
    }

    /// The value below which `percent` of the samples lie, ns.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref().filter(|histogram| !histogram.is_empty())?;
        let value = histogram.value_at_percentile(percent);
        Some(value.clamp(self.average.min, self.average.max))
    }

    fn merge(&mut self, other: &StageSamples) {
        self.average.merge(&other.average);
        if let (Some(own), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Both have the same bounds, so nothing can be out of range.
            let _ = own.add(&**other);
        }
    }
}

/// One [`StageSamples`] per stage.
#[derive(Clone, Debug)]
pub struct StageSet([StageSamples; Stage::ALL.len()]);

impl StageSet {
    pub(super) fn new(histograms: bool) -> StageSet {
        // Bios are counted beside requests; their percentiles hardly ever differ.
        let wanted = |index: usize| histograms && index < Stage::BioD2c as usize;
        StageSet(std::array::from_fn(|index| StageSamples::new(wanted(index))))
    }

    /// The samples of `stage`.
    #[inline]
    pub fn get(&self, stage: Stage) -> &StageSamples {
        &self.0[stage as usize]
    }

    #[inline]
    pub(super) fn add(&mut self, stage: Stage, value: u64) {
        self.add_many(stage, value, 1);
    }

    #[inline]
    pub(super) fn add_many(&mut self, stage: Stage, value: u64, times: u64) {
        self.0[stage as usize].add_many(value, times);
    }

    /// Adds the samples of `other`.
    pub fn merge(&mut self, other: &StageSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| own.merge(other));
    }
}

/// Distances between successive ranges, in sectors.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    last: Option<(u64, u64)>,
    /// The number of ranges that began where the one before ended, or touched it.
    pub near: u64,
    /// Absolute distances of the others.
    pub far: StageSamples,
}

impl Distances {
    pub(super) fn new(histograms: bool) -> Distances {
        Distances { far: StageSamples::new(histograms), ..Distances::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if let Some((last_start, last_end)) = self.last.replace((start, end)) {
            if start <= last_end && end >= last_start {
                self.near += 1;
            } else {
                self.far.add(if start > last_end { start - last_end } else { last_start - start });
            }
        }
    }

    /// The median distance: 0 where at least half of the ranges touch.
    pub fn median(&self) -> u64 {
        let all = self.near + self.far.average.count;
        if self.near * 2 >= all {
            return 0;
        }
        let share = (all as f64 / 2.0 - self.near as f64) / self.far.average.count as f64;
        self.far.percentile(100.0 * share).unwrap_or(0)
    }
}
