//! Limits the size of a recording. A disk with 100,000 IOPS fills more than 100 MB per minute:
//! beyond the limit, whole batches of requests and waits are dropped, which the recording's losses
//! contain. Samples are still written, so the devices' counters stay complete.
//!
//! What does not belong here: encoding rows (see `encode`).

use crate::Losses;
use crate::source::Batch;

/// Bytes of a row in a segment, a little more than measured (docs/recording.md): requests, their
/// parts, waits, which request a wait was for.
const REQUEST: u64 = 20;
const PART: u64 = 7;
const WAIT: u64 = 24;
const LINK: u64 = 5;
/// The share of the budget for tables that are bounded otherwise, in tenths.
const OTHERS: u64 = 1;

/// Decides which batches fit into a recording's limit.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Bytes that may be written now.
    left: u64,
    /// The maximum of unused bytes, bytes.
    most: u64,
    /// Bytes that are added per second.
    per_second: u64,
    /// The time up to which they have been added, CLOCK_MONOTONIC nanoseconds.
    at_ns: u64,
    requests: u64,
    waits: u64,
}

impl Budget {
    /// A recording of at most so many bytes in any minute from `now_ns`; half of it may come at
    /// once.
    pub fn per_minute(bytes: u64, now_ns: u64) -> Budget {
        let bytes = bytes / 10 * (10 - OTHERS);
        let most = bytes / 2;
        Budget { left: most, most, per_second: most / 60, at_ns: now_ns, requests: 0, waits: 0 }
    }

    /// Whether the batch fits; if not, the rest of it without its requests and waits.
    pub fn thinned(&mut self, batch: &Batch, now_ns: u64) -> Option<Batch> {
        let tenths = now_ns.saturating_sub(self.at_ns) / 100_000_000;
        self.at_ns += tenths * 100_000_000;
        self.left = self.left.saturating_add(self.per_second / 10 * tenths).min(self.most);
        let bytes = REQUEST * batch.requests.len() as u64
            + PART * batch.parts.len() as u64
            + WAIT * batch.waits.len() as u64
            + LINK * batch.wait_requests.len() as u64;
        if bytes <= self.left {
            self.left -= bytes;
            return None;
        }
        self.requests += batch.requests.len() as u64;
        self.waits += batch.waits.len() as u64;
        let mut rest = batch.clone();
        rest.requests.clear();
        rest.parts.clear();
        rest.waits.clear();
        rest.wait_requests.clear();
        Some(rest)
    }

    /// Adds the rows that were left out.
    pub fn losses(&self, losses: &mut Losses) {
        let meaning = "requests left out of the recording, which would be too large (--most-mb)";
        losses.add("too_large_requests", self.requests, meaning, true);
        let meaning = "waits left out of the recording, which would be too large (--most-mb)";
        losses.add("too_large_waits", self.waits, meaning, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use crate::{Operation, WaitClass};

    const SECOND: u64 = 1_000_000_000;

    /// A batch of so many requests.
    fn batch(requests: usize) -> Batch {
        let mut script = Script::new(1);
        script.wait((7, "cat"), WaitClass::Device, 100, 100, 0);
        script.request("sda", Operation::Read).add();
        let request = script.batch.requests[0].clone();
        script.batch.requests = vec![request; requests];
        script.batch
    }

    #[test]
    fn a_minute_stays_within_its_bytes_and_the_rest_is_counted() {
        let (mut budget, batch) = (Budget::per_minute(10_000_000, 0), batch(4_000));
        let mut kept = 0;
        for tenth in 0..600 {
            kept += u64::from(budget.thinned(&batch, tenth * SECOND / 10).is_none());
        }
        let bytes = kept * 4_000 * REQUEST;
        assert!((7_000_000..9_000_000).contains(&bytes), "{bytes}");
        let mut losses = Losses::default();
        budget.losses(&mut losses);
        assert_eq!(losses.requests(), (600 - kept) * 4_000);
    }

    #[test]
    fn what_is_left_of_a_batch_has_no_requests_and_no_waits() {
        let mut budget = Budget::per_minute(1_000, 0);
        let rest = budget.thinned(&batch(1_000), 0).unwrap();
        assert!(rest.requests.is_empty() && rest.waits.is_empty() && rest.parts.is_empty());
        assert!(budget.thinned(&batch(1), 0).is_none());
    }
}
