//! How much of a request's time on an upper device passes while its own requests on the devices below
//! are served: the rest is spent in the layer itself.
//!
//! What does not belong here: which layer that is (see [`crate::diagnosis`]).

use crate::analysis::life::{Life, Stand};
use crate::model::Request;
use rustc_hash::FxHashMap;

/// Upper requests of which lower ones are remembered: more than are in flight at once.
const MOST: usize = 1 << 16;
/// Lower requests that are kept apart for each: pieces beyond are taken for one with the last.
const PIECES: usize = 64;

/// Requests of a device whose own lower requests are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// How many.
    pub requests: u64,
    /// Their time (Q2C), nanoseconds.
    pub time_ns: u64,
    /// The part of it in which at least one of their own lower requests was on its way, nanoseconds.
    pub below_ns: u64,
}

/// Adds up requests as they come; those below complete before those above.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Spans of lower requests, by the request above.
    below: FxHashMap<u64, Vec<(u64, u64)>>,
    layers: Vec<Layer>,
}

impl Tally {
    /// Adds a request of the device in `slot`.
    #[inline]
    pub fn add(&mut self, slot: usize, request: &Request, life: &Life) {
        if self.below.is_empty() && request.parent_id.is_none() || life.stand != Stand::Whole {
            return;
        }
        let span = (life.queued_ns, life.ended_ns());
        if let Some(spans) = self.below.remove(&request.request_id) {
            self.add_upper(slot, span, spans);
        }
        let Some(parent) = request.parent_id else { return };
        if self.below.len() >= MOST {
            self.below.clear();
        }
        let spans = self.below.entry(parent).or_default();
        let is_full = spans.len() >= PIECES;
        match spans.last_mut().filter(|_| is_full) {
            Some(last) => *last = (last.0.min(span.0), last.1.max(span.1)),
            None => spans.push(span),
        }
    }

    fn add_upper(&mut self, slot: usize, (from, to): (u64, u64), mut spans: Vec<(u64, u64)>) {
        if self.layers.len() <= slot {
            self.layers.resize_with(slot + 1, Layer::default);
        }
        let Some(layer) = self.layers.get_mut(slot) else { return };
        spans.sort_unstable();
        let (mut below_ns, mut at) = (0_u64, from);
        for (queued, ended) in spans {
            let (queued, ended) = (queued.max(at), ended.min(to));
            below_ns = below_ns.saturating_add(ended.saturating_sub(queued));
            at = at.max(ended);
        }
        layer.requests += 1;
        layer.time_ns = layer.time_ns.saturating_add(to.saturating_sub(from));
        layer.below_ns = layer.below_ns.saturating_add(below_ns);
    }

    /// What is known of the device in `slot`.
    pub fn layer(&self, slot: usize) -> Layer {
        self.layers.get(slot).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    /// The layer of dm-0, whose one request of 100 µs is served by these on sda: when they begin, and
    /// how long they take, microseconds.
    fn layer(lower: &[(i64, u64)]) -> Layer {
        let mut script = Script::new(10);
        let upper = script.batch.requests.len() as u64 + lower.len() as u64 + 1;
        for (at, takes) in lower {
            let read = script.read("sda", 4096).at(at * 1000).parent(upper);
            read.direct(0, 0, takes * 1000).add();
        }
        let id = script.read("dm-0", 4096).at(0).bio(100_000).add();
        assert_eq!(id, upper);
        let patterns = script.summary().patterns;
        let of = patterns.devices.iter().find(|it| it.device == "dm-0");
        of.map(|it| it.layer).unwrap_or_default()
    }

    #[test]
    fn time_below_counts_once() {
        assert_eq!(layer(&[(20, 50)]), Layer { requests: 1, time_ns: 100_000, below_ns: 50_000 });
        // Pieces at the same time, one after the other, and one that outlasts the request above.
        assert_eq!(layer(&[(0, 50), (10, 30)]).below_ns, 50_000);
        assert_eq!(layer(&[(60, 20), (0, 20)]).below_ns, 40_000);
        assert_eq!(layer(&[(90, 50)]).below_ns, 10_000);
        // Of a request whose lower ones are not known, nothing is.
        assert_eq!(layer(&[]), Layer::default());
    }
}
