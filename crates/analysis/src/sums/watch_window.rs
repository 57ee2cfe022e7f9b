//! The interval that a watch covers, and rates and shares over it.
//!
//! What does not belong here: intervals of a watch (see `intervals::cutter`).

/// Beginning and end of the watch, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WatchWindow {
    pub start_ns: u64,
    pub end_ns: u64,
}

impl WatchWindow {
    pub fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    pub fn seconds(self) -> f64 {
        self.duration_ns() as f64 / 1e9
    }

    /// `amount` per second of the watch; no number (null in JSON) if the watch has no length.
    pub fn per_s(self, amount: u64) -> f64 {
        self.rate(amount).unwrap_or(f64::NAN)
    }

    /// `amount` per second of the watch; `None` if the watch has no length.
    pub fn rate(self, amount: u64) -> Option<f64> {
        (self.duration_ns() > 0).then(|| amount as f64 / self.seconds())
    }

    /// `time_ns` as a share of the watch; `None` if the watch has no length.
    pub fn share(self, time_ns: u64) -> Option<f64> {
        (self.duration_ns() > 0).then(|| time_ns as f64 / self.duration_ns() as f64)
    }

    /// The part of the time since `since_ns` that is in the watch.
    pub fn since(self, since_ns: u64) -> u64 {
        self.end_ns.saturating_sub(since_ns.max(self.start_ns))
    }
}
