//! Reads of a program that it waits for, behind many that it has asked for without waiting: a cache
//! that is filled after a restart, read-ahead of its own, a queue that is too deep.
//!
//! What does not belong here: reads of other programs (see `rules::noisy_neighbour`), and what the
//! kernel reads ahead.

use super::group::GroupedWaits;
use super::kind::BottleneckKind;
use crate::facts::thresholds::MOST;
use crate::facts::{self, Facts};
use iowhy_analysis::summary::Direction;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::Origin;

/// The least share of the device's time that the program's own reads take. Chosen.
const OWN: f64 = 0.8;
/// The least reads in flight that nobody waits for, on average, and how many for each thread that
/// waits. Chosen: fewer are a program that overlaps its reads a little.
const DEEP: f64 = 8.0;
const FOR_EACH: f64 = 4.0;

/// The reads of a program that none of its threads waits for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OwnBacklog {
    /// How many are in flight, on average.
    depth: f64,
}

impl OwnBacklog {
    /// Those that the first program of these waits has in flight; `None` if they are few.
    pub fn of(facts: &Facts<'_>, group: &GroupedWaits<'_>) -> Option<OwnBacklog> {
        if group.kind != BottleneckKind::Read {
            return None;
        }
        let (device, top) = (group.device?, group.programs.first()?);
        // One large read is many requests, too: who asks without waiting asks by another call.
        let is_own = |other: &WaitGroup| {
            other.process == top.process && other.container.as_deref() == top.container
        };
        let asks_ahead = facts.waits(|other| {
            is_own(other)
                && other.device.as_ref() == Some(&device.device)
                && BottleneckKind::new(facts, other) == BottleneckKind::Async
        });
        if asks_ahead.time_ns == 0 {
            return None;
        }
        let all_ns = facts::device_time_ns(device) as f64;
        // What the kernel reads ahead belongs to a read that is waited for.
        let ahead = [Origin::Readahead, Origin::PageFault];
        let ahead = ahead.map(|origin| facts::origin_of(device, origin).0);
        let ahead_ns = ahead.into_iter().fold(0, u64::saturating_add);
        let rows = device.processes.iter().filter(|row| {
            let subject = &row.subject;
            subject.process == top.process && subject.container.as_deref() == top.container
        });
        let reads = rows.map(|row| row.usage.directions[Direction::Read].time_ns);
        let own_ns = reads.fold(0, u64::saturating_add) as f64;
        let watch_ns = facts.duration_ns().max(1) as f64;
        let waiting = top.waited.time_ns as f64 / watch_ns;
        let depth = own_ns / watch_ns - waiting;
        let is_deep = depth >= DEEP && depth >= FOR_EACH * waiting;
        let is_most = own_ns >= OWN * all_ns && (ahead_ns as f64) < MOST * all_ns;
        (is_deep && is_most).then_some(OwnBacklog { depth })
    }

    /// Returns the end of a sentence about the program.
    pub fn words(&self, process: &str) -> String {
        format!(
            "; {process} has {:.0} other reads in flight, for which no thread waits",
            self.depth
        )
    }
}

/// The advice for any program.
pub const FIX: &str = "let it ask for less at a time beside its clients: what it reads in the \
                       background (a cache that is filled after a restart, read-ahead) with a \
                       shallow queue or a limited rate";
