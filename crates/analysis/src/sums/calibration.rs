//! Scales sums of sampled rows to what the kernel counted.
//!
//! Windows in which requests are recorded see fewer of them than others: recording takes time, and
//! a full ring buffer ends it early. Where the kernel counted the requests of a device one by one,
//! the sums of their processes, files and code paths are scaled to that count.
//!
//! What does not belong here: which counts are exact (see `device::kernel_counters`).

use crate::summary::Measure;

/// The ratios of what was counted to what was recorded, of one direction of one device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Calibration {
    count: f64,
    bytes: f64,
    time: f64,
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration { count: 1.0, bytes: 1.0, time: 1.0 }
    }
}

impl Calibration {
    /// The ratios of counted to recorded requests and bytes, of which the time is that of the
    /// requests; 1 where nothing was recorded.
    pub fn new(recorded: (u64, u64), counted: (u64, u64)) -> Calibration {
        if recorded.0 == 0 {
            return Calibration::default();
        }
        let count = ratio(counted.0, recorded.0, 1.0);
        Calibration { count, bytes: ratio(counted.1, recorded.1, 1.0), time: count }
    }

    /// The same, where numbers of requests and their time are known of what was recorded and of all
    /// that was counted: slow requests are recorded more often than others, so that time is not as
    /// the number.
    pub fn of_times(self, recorded: (u64, u64), counted: (u64, u64)) -> Calibration {
        if recorded.0 == 0 || counted.0 == 0 {
            return self;
        }
        let mean = |(count, ns): (u64, u64)| ns as f64 / count as f64;
        let (recorded, counted) = (mean(recorded), mean(counted));
        let is_known = recorded > 0.0 && counted > 0.0;
        Calibration {
            time: if is_known { self.count * counted / recorded } else { self.time },
            ..self
        }
    }

    /// The ratios of a whole to the part of it that is known.
    pub fn between(part: &Measure, whole: &Measure) -> Calibration {
        let count = ratio(whole.count, part.count, 1.0);
        Calibration {
            count,
            bytes: ratio(whole.bytes, part.bytes, count),
            time: ratio(whole.time_ns, part.time_ns, count),
        }
    }

    /// The number of requests that so many recorded ones stand for.
    pub fn count(&self, recorded: u64) -> u64 {
        scaled(recorded, self.count)
    }

    /// The bytes that so many recorded ones stand for.
    pub fn bytes(&self, recorded: u64) -> u64 {
        scaled(recorded, self.bytes)
    }

    /// The ratios of requests, bytes and time.
    pub fn ratios(&self) -> (f64, f64, f64) {
        (self.count, self.bytes, self.time)
    }

    /// Scales a sum.
    pub fn apply(&self, sum: &mut Measure) {
        sum.count = self.count(sum.count);
        sum.bytes = self.bytes(sum.bytes);
        sum.time_ns = scaled(sum.time_ns, self.time);
    }
}

fn ratio(of: u64, to: u64, unknown: f64) -> f64 {
    if to == 0 { unknown } else { of as f64 / to as f64 }
}

fn scaled(value: u64, ratio: f64) -> u64 {
    if ratio == 1.0 { value } else { (value as f64 * ratio).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_scaled_to_what_was_counted() {
        let calibration = Calibration::new((50, 4000), (100, 8200));
        let mut sum = Measure { count: 25, bytes: 2000, time_ns: 30, longest_ns: 9 };
        calibration.apply(&mut sum);
        assert_eq!(sum, Measure { count: 50, bytes: 4100, time_ns: 60, longest_ns: 9 });
    }

    #[test]
    fn time_is_scaled_by_the_means() {
        let counts = Calibration::new((50, 0), (100, 0));
        assert_eq!(counts.of_times((40, 800), (100, 1000)).ratios().2, 1.0);
        assert_eq!(counts.of_times((0, 0), (100, 1000)).ratios().2, 2.0);
        assert_eq!(counts.of_times((40, 800), (100, 0)).ratios().2, 2.0);
    }

    #[test]
    fn nothing_recorded_is_scaled_to_nothing() {
        for (recorded, counted) in [((0, 0), (7, 7)), ((0, 5), (9, 1))] {
            assert_eq!(Calibration::new(recorded, counted), Calibration::default());
        }
        assert_eq!(Calibration::new((5, 0), (10, 0)).bytes(3), 3);
    }
}
