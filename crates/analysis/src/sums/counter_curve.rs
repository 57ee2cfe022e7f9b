//! The growth of the kernel's counters of a device over a watch, from reading to reading: what
//! completed is exact at each reading, and grows evenly in between.
//!
//! What does not belong here: reading counters (crate `iowhy-capture`), and their figures over the
//! whole watch (`device::kernel_counters`).

use crate::summary::{ByDirection, Direction, Samples, Series};
use iowhy_model::Metric;

/// The least share of what was counted over the watch that readings must have seen: of a device
/// that came or went meanwhile they lack a part.
const LEAST_SEEN: f64 = 0.9;

/// A counter's growth, at each of its readings.
#[derive(Clone, Debug)]
struct CounterCurve {
    /// Time, CLOCK_MONOTONIC nanoseconds, and the growth since the first reading.
    points: Vec<(u64, f64)>,
    /// Makes its growth what was counted over the whole watch.
    scale: f64,
}

impl CounterCurve {
    /// The curve of a counter that grew by `counted` over the watch; `None` if its readings do not
    /// show that.
    fn new(series: &Series, counted: u64) -> Option<CounterCurve> {
        let mut grown = 0.0;
        let mut before = series.points.first()?.1;
        let mut points: Vec<(u64, f64)> = Vec::with_capacity(series.points.len());
        for (time_ns, value) in &series.points {
            // A device that comes again counts from 0.
            grown += (value - before).max(0.0);
            before = *value;
            points.push((*time_ns, grown));
        }
        let is_seen = points.len() > 1 && grown >= LEAST_SEEN * counted as f64;
        let scale = if grown > 0.0 { counted as f64 / grown } else { 0.0 };
        is_seen.then_some(CounterCurve { points, scale })
    }

    /// The growth until `time_ns`.
    fn at(&self, time_ns: u64) -> f64 {
        let next = self.points.partition_point(|(at_ns, _)| *at_ns < time_ns);
        let grown =
            match (next.checked_sub(1).and_then(|at| self.points.get(at)), self.points.get(next)) {
                (Some(before), Some(after)) => {
                    let part = (time_ns - before.0) as f64 / (after.0 - before.0).max(1) as f64;
                    before.1 + (after.1 - before.1) * part
                }
                (Some(last), None) => last.1,
                (None, _) => 0.0,
            };
        grown * self.scale
    }
}

/// Requests and bytes of one direction of a device, as the kernel counted them over the watch.
#[derive(Clone, Debug)]
pub(crate) struct CountedOverTime {
    requests: CounterCurve,
    bytes: CounterCurve,
}

impl CountedOverTime {
    /// The requests and the bytes that had completed by `time_ns`, CLOCK_MONOTONIC nanoseconds.
    pub fn until(&self, time_ns: u64) -> (f64, f64) {
        (self.requests.at(time_ns), self.bytes.at(time_ns))
    }

    /// The usual time between two readings, nanoseconds.
    pub fn step_ns(&self) -> u64 {
        let points = self.requests.points.windows(2);
        let mut steps: Vec<u64> = points.map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied().unwrap_or(0)
    }

    /// The requests and the bytes that completed between two times.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> (f64, f64) {
        let (from, to) = (self.until(from_ns), self.until(to_ns));
        (to.0 - from.0, to.1 - from.1)
    }
}

/// The counters of a direction; the kernel counts no bytes of flushes.
const COUNTERS: [(Direction, Metric, Metric); 3] = [
    (Direction::Read, Metric::Reads, Metric::ReadBytes),
    (Direction::Write, Metric::Writes, Metric::WriteBytes),
    (Direction::Discard, Metric::Discards, Metric::DiscardBytes),
];

/// The directions of a device of which the kernel's counters were read during the watch; `counted`
/// are the requests and bytes of the whole watch, to which they add up.
pub(crate) fn counted_over_time(
    samples: &Samples,
    device: &str,
    counted: &ByDirection<(u64, u64)>,
) -> ByDirection<Option<CountedOverTime>> {
    let mut found = ByDirection::<Option<CountedOverTime>>::default();
    for (direction, requests, bytes) in COUNTERS {
        let whole = counted[direction];
        let curve = |metric, counted| CounterCurve::new(samples.get(metric, device)?, counted);
        if let (Some(requests), Some(bytes)) = (curve(requests, whole.0), curve(bytes, whole.1)) {
            found[direction] = Some(CountedOverTime { requests, bytes });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn series(metric: Metric, points: &[(u64, f64)]) -> Series {
        let last = points.last().map_or(0.0, |point| point.1);
        Series {
            metric,
            subject: "sda".to_owned(),
            first: points.first().map_or(0.0, |point| point.1),
            last,
            change: None,
            min: None,
            mean: None,
            max: None,
            points: points.to_vec(),
        }
    }

    fn of(points: &[(u64, f64)], counted: (u64, u64)) -> Option<CountedOverTime> {
        let bytes: Vec<_> = points.iter().map(|(at, value)| (*at, value * 4096.0)).collect();
        let rows = vec![series(Metric::Reads, points), series(Metric::ReadBytes, &bytes)];
        let mut whole = ByDirection::default();
        whole[Direction::Read] = counted;
        let mut samples = Samples { rows, left_out: 0 };
        samples.rows.sort_by_key(|row| row.metric);
        counted_over_time(&samples, "sda", &whole).0.into_iter().next().flatten()
    }

    #[test]
    fn what_completed_is_exact_at_each_reading_and_even_in_between() {
        let points = [(S, 100.0), (2 * S, 100.0), (3 * S, 500.0), (4 * S, 500.0)];
        let found = of(&points, (400, 400 * 4096)).unwrap();
        assert_eq!(found.between(S, 2 * S), (0.0, 0.0));
        assert_eq!(found.between(2 * S, 3 * S), (400.0, 400.0 * 4096.0));
        assert_eq!(found.between(2 * S, 2 * S + S / 4).0, 100.0);
        assert_eq!(found.between(0, 10 * S).0, 400.0);
    }

    #[test]
    fn readings_add_up_to_what_was_counted_or_say_nothing() {
        let points = [(S, 0.0), (3 * S, 390.0)];
        let grown = of(&points, (400, 400 * 4096)).unwrap().between(0, 9 * S).0;
        assert!((grown - 400.0).abs() < 1e-9, "{grown}");
        assert!(of(&points, (4_000, 4_000 * 4096)).is_none());
        assert!(of(&points[..1], (0, 0)).is_none() && of(&[], (0, 0)).is_none());
    }

    #[test]
    fn a_device_that_comes_again_counts_from_nothing() {
        let points = [(S, 900.0), (2 * S, 1_000.0), (3 * S, 0.0), (4 * S, 100.0)];
        let found = of(&points, (200, 200 * 4096)).unwrap();
        assert_eq!(found.between(S, 2 * S).0, 100.0);
        assert_eq!(found.between(2 * S, 3 * S).0, 0.0);
        assert_eq!(found.between(3 * S, 4 * S).0, 100.0);
    }
}
