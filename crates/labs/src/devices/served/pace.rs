//! The time at which a served device answers: its limits and latencies.

use std::time::{Duration, Instant};

/// The speed of the device. 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceSpeed {
    /// Requests per second, of any kind.
    pub iops: u64,
    /// Writes a second.
    pub write_iops: u64,
    /// Bytes read a second.
    pub read_bps: u64,
    /// Bytes written a second.
    pub write_bps: u64,
    /// The latency of each request, in addition; at any depth.
    pub latency: Duration,
    /// The time of a cache flush; later requests wait for it.
    pub flush: Duration,
    /// The time of a discard; later requests wait for it.
    pub discard: Duration,
    /// For a drive instead of a limit: its rates are up to this many per cent higher or lower from
    /// one moment to the next, and unused capacity is lost. 0 for a limit.
    pub uneven_percent: u32,
}

/// The time for which an uneven drive keeps one rate.
const MOMENT: Duration = Duration::from_millis(250);

/// The time for which a limit may be saved up: a slice of the kernel's own throttling (HZ / 10).
const BUCKET: Duration = Duration::from_millis(100);

/// The class of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestClass {
    Read,
    Write,
    Flush,
    Discard,
}

/// The times at which requests are done, one after the other at each limit.
#[derive(Debug)]
pub(super) struct Pace {
    speed: DeviceSpeed,
    /// The time at which each limit admits the next one: all requests, writes, bytes read, written.
    next: [Instant; 4],
    /// The time before which nothing is answered.
    stalled: Instant,
    /// The time at which the speed was set.
    begun: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { speed: DeviceSpeed::default(), next: [now; 4], stalled: now, begun: now }
    }

    pub(super) fn speed(&self) -> DeviceSpeed {
        self.speed
    }

    /// Changes the limits; earlier answers keep their times.
    pub(super) fn set(&mut self, speed: DeviceSpeed, now: Instant) {
        *self = Pace { speed, next: [now; 4], stalled: self.stalled, begun: now };
    }

    /// Answers nothing until that time.
    pub(super) fn stall(&mut self, until: Instant) {
        self.stalled = until;
    }

    /// Returns the current factor of a latency relative to its mean.
    fn unevenness(&self, now: Instant) -> f64 {
        let moment = now.saturating_duration_since(self.begun).as_nanos() / MOMENT.as_nanos();
        // Any number that seems random: the upper bits of a product with the golden ratio's.
        let drawn = (moment as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let part = drawn as f64 / f64::from(u32::MAX) * 2.0 - 1.0;
        1.0 + part * f64::from(self.speed.uneven_percent) / 100.0
    }

    /// Returns the time at which a request that arrives now is done.
    pub(super) fn due(&mut self, kind: RequestClass, bytes: u64, now: Instant) -> Instant {
        let uneven = self.unevenness(now);
        let DeviceSpeed { iops, write_iops, read_bps, write_bps, latency, flush, discard, .. } =
            self.speed;
        let (read, write) = match kind {
            RequestClass::Read => (bytes, 0),
            RequestClass::Write => (0, bytes),
            RequestClass::Flush | RequestClass::Discard => (0, 0),
        };
        let is_write = u64::from(kind == RequestClass::Write);
        let limits = [(1, iops), (is_write, write_iops), (read, read_bps), (write, write_bps)];
        let mut due = now.max(self.stalled);
        if let RequestClass::Flush | RequestClass::Discard = kind {
            due += if kind == RequestClass::Flush { flush } else { discard };
            self.stalled = due;
        } else {
            for (next, (amount, a_second)) in self.next.iter_mut().zip(limits) {
                if a_second > 0 && amount > 0 {
                    // Capacity that was unused, or that this process could not serve without a CPU,
                    // can be used later, up to a limit, as in a token bucket.
                    let saved = if self.speed.uneven_percent > 0 { Duration::ZERO } else { BUCKET };
                    let since = now.checked_sub(saved).unwrap_or(now);
                    let each = Duration::from_secs_f64(amount as f64 / a_second as f64 * uneven);
                    *next = (*next).max(since) + each;
                    due = due.max(*next);
                }
            }
        }
        due + latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_limit_is_kept() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert_eq!(pace.due(RequestClass::Read, 4096, now), now);
        pace.set(
            DeviceSpeed { iops: 100, write_bps: 1000, latency: MS, ..DeviceSpeed::default() },
            now,
        );
        assert_eq!(pace.due(RequestClass::Read, 4096, now), now + 11 * MS);
        assert_eq!(pace.due(RequestClass::Read, 4096, now), now + 21 * MS);
        assert_eq!(pace.due(RequestClass::Write, 500, now), now + 501 * MS);
    }

    #[test]
    fn a_drive_is_no_limit() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        let speed =
            DeviceSpeed { write_bps: 100_000, uneven_percent: 20, ..DeviceSpeed::default() };
        pace.set(speed, now);
        let took: Vec<f64> = (0..40)
            .map(|index| now + index * MOMENT)
            .map(|at| (pace.due(RequestClass::Write, 10_000, at) - at).as_secs_f64())
            .collect();
        assert!(took.iter().all(|seconds| (0.08..=0.12).contains(seconds)), "{took:?}");
        let mean = took.iter().sum::<f64>() / 40.0;
        assert!((0.095..0.105).contains(&mean), "{mean}");
        assert!(
            took.iter().any(|seconds| *seconds < 0.09)
                && took.iter().any(|seconds| *seconds > 0.11),
            "{took:?}"
        );
    }

    #[test]
    fn a_flush_and_a_discard_hold_up_what_comes_after_them() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.set(DeviceSpeed { flush: 8 * MS, ..DeviceSpeed::default() }, now);
        assert_eq!(pace.due(RequestClass::Flush, 0, now), now + 8 * MS);
        assert_eq!(pace.due(RequestClass::Read, 4096, now), now + 8 * MS);
        pace.set(DeviceSpeed { discard: 3 * MS, ..DeviceSpeed::default() }, now);
        assert_eq!(pace.due(RequestClass::Discard, 0, now), now + 11 * MS);
        assert_eq!(pace.due(RequestClass::Write, 4096, now), now + 11 * MS);
        pace.stall(now + 30 * MS);
        assert_eq!(pace.due(RequestClass::Read, 4096, now), now + 30 * MS);
    }
}
