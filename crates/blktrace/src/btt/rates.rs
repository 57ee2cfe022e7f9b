//! Figures of btt's files of rates: mean latencies by period (`-L`), seeks per second (`-m`), and
//! the requests that unplugs released (`-u`).
//!
//! What does not belong here: the files (see [`super::files`]).

/// Rows of the histogram of unplugs: below 5 requests, below 10, and so on; 100 and more.
const UNPLUG_STEPS: usize = 21;

/// Seconds that seeks are counted over.
const SEEK_PERIOD_S: f64 = 1.0;

/// The mean of latencies of a period, which begins with its first latency.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeriodicMean {
    first_s: f64,
    last_s: f64,
    sum_s: f64,
    count: u64,
}

impl PeriodicMean {
    /// Adds a latency; if that begins the next period, returns the middle and the mean of the last.
    pub fn add(&mut self, now_s: f64, latency_s: f64, period_s: f64) -> Option<(f64, f64)> {
        let ended = if now_s - self.first_s >= period_s { self.end() } else { None };
        if self.count == 0 {
            self.first_s = now_s;
        }
        self.last_s = now_s;
        self.sum_s += latency_s;
        self.count += 1;
        ended
    }

    /// Ends the period: its middle and its mean, seconds; nothing without a latency.
    pub fn end(&mut self) -> Option<(f64, f64)> {
        let PeriodicMean { first_s, last_s, sum_s, count } = std::mem::take(self);
        (count > 0).then(|| (first_s + (last_s - first_s) / 2.0, sum_s / count as f64))
    }
}

/// Seeks per second; a period begins with its first seek.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeekRate {
    first_s: f64,
    last_s: f64,
    count: u64,
}

impl SeekRate {
    /// Adds a seek; if that begins the next period, returns the beginning and the rate of the last.
    pub fn add(&mut self, now_s: f64) -> Option<(f64, f64)> {
        let ended = if now_s - self.first_s >= SEEK_PERIOD_S { self.end() } else { None };
        if self.count == 0 {
            self.first_s = now_s;
        }
        self.last_s = now_s;
        self.count += 1;
        ended
    }

    /// Ends the period: its beginning and its rate; nothing without a seek.
    pub fn end(&mut self) -> Option<(f64, f64)> {
        let SeekRate { first_s, last_s, count } = std::mem::take(self);
        let length_s = last_s - first_s;
        let is_one = count == 1 || length_s < f64::EPSILON;
        let rate = if is_one { count as f64 } else { count as f64 / length_s };
        (count > 0).then_some((first_s, rate))
    }
}

/// The number of unplugs, by the number of requests that they released.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnplugSteps(pub [u64; UNPLUG_STEPS]);

impl UnplugSteps {
    /// Adds an unplug.
    pub fn add(&mut self, requests: u64) {
        let step = usize::try_from(requests / 5).unwrap_or(usize::MAX).min(UNPLUG_STEPS - 1);
        if let Some(count) = self.0.get_mut(step) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_ends_with_the_first_value_after_it() {
        let mut mean = PeriodicMean::default();
        assert_eq!(mean.add(1.0, 0.2, 0.5), None, "a period begins with its first value");
        assert_eq!(mean.add(1.4, 0.4, 0.5), None);
        let (middle, value) = mean.add(1.5, 0.6, 0.5).unwrap();
        assert!((middle - 1.2).abs() < 1e-9 && (value - 0.3).abs() < 1e-9);
        assert_eq!(mean.end(), Some((1.5, 0.6)));
        assert_eq!(mean.end(), None);
    }

    #[test]
    fn seeks_and_unplugs_are_counted() {
        let mut rate = SeekRate::default();
        assert_eq!((rate.add(2.0), rate.add(2.5)), (None, None));
        assert_eq!(rate.add(3.0), Some((2.0, 4.0)), "two seeks in half a second");
        assert_eq!(rate.end(), Some((3.0, 1.0)));
        let mut steps = UnplugSteps::default();
        [0, 4, 5, 99, 100, u64::MAX].into_iter().for_each(|time| steps.add(time));
        assert_eq!((steps.0[0], steps.0[1], steps.0[19], steps.0[20]), (2, 1, 1, 2));
    }
}
