//! A device's busy time, divided among the requests in the order in which it completed them.
//!
//! The time of a request at the device holds its wait behind others there. Of a device that serves
//! one request at a time, the time since the completion before is what the request itself took. Of
//! one that serves many, it is the mean time between completions. Either way the sum is the time
//! in which a request was at the device.
//!
//! What does not belong here: who waited meanwhile (see `analysis::waits::blame`).

use crate::summary::Interval;
use crate::sums::request_times::Life;

/// The latest completion of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceOrder {
    latest_ns: u64,
}

impl ServiceOrder {
    /// Returns how long the device worked on the next request in the recording, nanoseconds: from
    /// its issue or the latest completion; 0 if it completed before one that was recorded earlier.
    #[inline]
    pub fn complete(&mut self, life: &Life) -> u64 {
        let ended_ns = life.ended_ns();
        let at_device_ns = life.intervals[Interval::D2c].or(life.whole_ns).unwrap_or(0);
        let from_ns = ended_ns.saturating_sub(at_device_ns).max(self.latest_ns);
        self.latest_ns = self.latest_ns.max(ended_ns);
        ended_ns.saturating_sub(from_ns)
    }
}
