//! The part of a request's time on an upper device in which its own requests on lower devices are
//! served; the rest is spent in the layer itself.
//!
//! What does not belong here: which layer that is (crate `iowhy-diagnosis`).

use crate::summary::patterns::LayerTimes;
use crate::sums::request_times::{Life, Stand};
use iowhy_model::Request;
use iowhy_model::bounded_map::RestartingMap;

/// Maximum number of upper requests with known lower ones: more than are in flight at once.
const MOST: usize = 1 << 16;
/// Maximum number of lower requests of each; further pieces are merged with the last.
const PIECES: usize = 64;

/// Sums requests as they arrive; lower ones complete before upper ones.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerTally {
    /// Spans of lower requests, by the request above.
    below: RestartingMap<u64, Vec<(u64, u64)>, MOST>,
    layers: Vec<LayerTimes>,
}

impl LayerTally {
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
        let spans = self.below.or_default(parent);
        let is_full = spans.len() >= PIECES;
        match spans.last_mut().filter(|_| is_full) {
            Some(last) => *last = (last.0.min(span.0), last.1.max(span.1)),
            None => spans.push(span),
        }
    }

    fn add_upper(&mut self, slot: usize, (from, to): (u64, u64), mut spans: Vec<(u64, u64)>) {
        if self.layers.len() <= slot {
            self.layers.resize_with(slot + 1, LayerTimes::default);
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

    /// The result for the device in `slot`.
    pub fn layer(&self, slot: usize) -> LayerTimes {
        self.layers.get(slot).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    /// The layer of dm-0, whose one request of 100 µs is served by these on sda: when they begin,
    /// and how long they take, microseconds.
    fn layer(lower: &[(i64, u64)]) -> LayerTimes {
        let mut script = Script::new(10);
        let upper = script.batch.requests.len() as u64 + lower.len() as u64 + 1;
        for (at, takes) in lower {
            let read = script.read("sda", 4096).at(at * 1000).parent(upper);
            read.direct(0, 0, takes * 1000).add();
        }
        let id = script.read("dm-0", 4096).at(0).bio(100_000).add();
        assert_eq!(id, upper);
        let patterns = script.summary().patterns;
        let of = patterns.devices.iter().find(|device| device.device == "dm-0");
        of.map(|device| device.layer).unwrap_or_default()
    }

    #[test]
    fn time_below_counts_once() {
        assert_eq!(
            layer(&[(20, 50)]),
            LayerTimes { requests: 1, time_ns: 100_000, below_ns: 50_000 }
        );
        // Pieces at the same time, one after the other, and one that outlasts the request above.
        assert_eq!(layer(&[(0, 50), (10, 30)]).below_ns, 50_000);
        assert_eq!(layer(&[(60, 20), (0, 20)]).below_ns, 40_000);
        assert_eq!(layer(&[(90, 50)]).below_ns, 10_000);
        // A request without known lower requests does not count.
        assert_eq!(layer(&[]), LayerTimes::default());
    }
}
