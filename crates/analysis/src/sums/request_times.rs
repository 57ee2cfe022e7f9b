//! The times of one request: which are known, and what follows from them.

use crate::summary::ByInterval;
use iowhy_model::{Operation, Request, Status};

/// The relation of a request to the watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    /// All of it was observed.
    Whole,
    /// Begun before the watch and ended during it: its times are lower bounds.
    BegunBefore,
    /// Not ended: its times are lower bounds.
    Open,
}

/// A request's times; `None` if they are not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub stand: Stand,
    /// The time at which it was queued, or the earliest time known, nanoseconds.
    pub queued_ns: u64,
    pub intervals: ByInterval<Option<u64>>,
    /// From getting a request to completion, which the kernel's counters and iostat call its wait;
    /// from queueing if G is not known (bio-based devices have no requests).
    pub g2c_ns: Option<u64>,
    /// From `queued_ns` to completion: Q2C, or the sum of the stages that are known.
    pub whole_ns: Option<u64>,
}

impl Life {
    #[inline]
    pub fn from_request(request: &Request) -> Life {
        let Request { q2g_ns, g2i_ns, i2d_ns, g2d_ns, d2c_ns, q2c_ns, .. } = *request;
        let g2d_or_i = g2d_ns.or_else(|| sum(g2i_ns, i2d_ns));
        let q2d_ns = match (q2c_ns, d2c_ns) {
            (Some(q2c), Some(d2c)) => Some(q2c.saturating_sub(d2c)),
            _ => sum(q2g_ns, g2d_or_i),
        };
        let g2c_ns = match q2c_ns {
            Some(q2c) => Some(q2c.saturating_sub(q2g_ns.unwrap_or(0))),
            // Requests of the kernel itself are allocated and issued at once.
            None if request.pid.is_none() && request.operation == Operation::Flush => d2c_ns,
            None => sum(g2d_or_i, d2c_ns),
        };
        Life {
            stand: stand(request.status),
            queued_ns: request.start_ns,
            intervals: ByInterval([q2g_ns, g2i_ns, i2d_ns, g2d_ns, q2d_ns, d2c_ns, q2c_ns]),
            g2c_ns,
            whole_ns: request.known_ns(),
        }
    }

    /// Since when it is in the scheduler; `None` if it was never inserted, or has been issued.
    #[inline]
    pub fn inserted_ns(&self) -> Option<u64> {
        let ByInterval([q2g_ns, g2i_ns, i2d_ns, _, q2d_ns, d2c_ns, _]) = self.intervals;
        if i2d_ns.or(q2d_ns).or(d2c_ns).is_some() {
            return None;
        }
        Some(self.queued_ns.saturating_add(q2g_ns?).saturating_add(g2i_ns?))
    }

    /// Returns the time at which it completed, nanoseconds; if that is not known, its latest known
    /// time.
    #[inline]
    pub fn ended_ns(&self) -> u64 {
        self.queued_ns.saturating_add(self.whole_ns.unwrap_or(0))
    }
}

fn stand(status: Status) -> Stand {
    match status {
        Status::Complete | Status::Error => Stand::Whole,
        Status::BegunBefore => Stand::BegunBefore,
        Status::InFlight => Stand::Open,
    }
}

fn sum(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    Some(first?.saturating_add(second?))
}
