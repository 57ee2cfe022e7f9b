//! Splits a wait over the stages of the requests that it waited for.

/// The times of a request that a wait needs, CLOCK_MONOTONIC ns; 0 if it did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The time at which it was queued, nanoseconds.
    pub queued_ns: u64,
    /// The time at which it was last issued to the driver, nanoseconds.
    pub issued_ns: u64,
    /// The time at which it completed, nanoseconds.
    pub completed_ns: u64,
}

/// The parts of a wait, which add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSplit {
    /// At least one of the requests was with the driver and the device.
    pub device_ns: u64,
    /// None was, but at least one was queued.
    pub queue_ns: u64,
    /// The thread was runnable and waited for a CPU.
    pub run_queue_ns: u64,
    /// The remainder before any of the requests was queued.
    pub before_ns: u64,
    /// The other remainder.
    pub rest_ns: u64,
}

/// The state of a wait's requests during a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// At least one was with the driver and the device.
    Served,
    /// None was, but at least one was queued.
    Queued,
    /// None was queued yet.
    NotYet,
    /// None was in flight, or there were none.
    Nothing,
}

/// Splits the wait from `start_ns` to `end_ns`, in which the thread was woken at `woken_ns` (0: it
/// was not).
pub fn split(start_ns: u64, woken_ns: u64, end_ns: u64, spans: &[Span]) -> WaitSplit {
    let end_ns = end_ns.max(start_ns);
    let woken_ns = if woken_ns == 0 { end_ns } else { woken_ns.clamp(start_ns, end_ns) };
    let mut split = WaitSplit { run_queue_ns: end_ns - woken_ns, ..WaitSplit::default() };
    walk(start_ns, woken_ns, spans, |doing, from_ns, to_ns| {
        let part = match doing {
            Doing::Served => &mut split.device_ns,
            Doing::Queued => &mut split.queue_ns,
            Doing::NotYet => &mut split.before_ns,
            Doing::Nothing => &mut split.rest_ns,
        };
        *part += to_ns - from_ns;
    });
    split
}

/// Passes each part from `start_ns` to `woken_ns` with the state of the requests. Parts follow each
/// other without a gap; two in a row may have the same state.
pub fn walk(start_ns: u64, woken_ns: u64, spans: &[Span], mut each: impl FnMut(Doing, u64, u64)) {
    let clip = |time: u64| time.clamp(start_ns, woken_ns);
    let issued = |span: &Span| if span.issued_ns == 0 { span.completed_ns } else { span.issued_ns };
    let queued = |span: &Span| if span.queued_ns == 0 { issued(span) } else { span.queued_ns };
    if let [span] = spans {
        // Most waits wait for one request, whose edges are in order.
        let [queued, issued, completed] = [queued(span), issued(span), span.completed_ns].map(clip);
        if queued <= issued && issued <= completed {
            let parts = [
                (Doing::NotYet, start_ns, queued),
                (Doing::Queued, queued, issued),
                (Doing::Served, issued, completed),
                (Doing::Nothing, completed, woken_ns),
            ];
            let parts = parts.into_iter().filter(|(_, from, to)| from < to);
            parts.for_each(|(doing, from, to)| each(doing, from, to));
            return;
        }
    }
    // Each kind of edge is nearly sorted, which makes a run-based sort fast.
    let mut edges = Vec::with_capacity(spans.len() * 3);
    edges.extend(spans.iter().map(|span| (clip(queued(span)), 1, 0)));
    edges.extend(spans.iter().map(|span| (clip(issued(span)), -1, 1)));
    edges.extend(spans.iter().map(|span| (clip(span.completed_ns), 0, -1)));
    edges.sort_by_key(|(time, ..)| *time);
    let (mut last, mut queued, mut at_device, mut begun) = (start_ns, 0, 0, false);
    for (time, queue_change, device_change) in edges.into_iter().chain([(woken_ns, 0, 0)]) {
        let doing = match (at_device > 0, queued > 0, begun) {
            (true, ..) => Doing::Served,
            (_, true, _) => Doing::Queued,
            (_, _, false) if !spans.is_empty() => Doing::NotYet,
            _ => Doing::Nothing,
        };
        if time > last {
            each(doing, last, time);
        }
        begun |= queue_change > 0;
        queued += queue_change;
        at_device += device_change;
        last = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Span = Span { queued_ns: 120, issued_ns: 150, completed_ns: 190 };

    fn sum(split: WaitSplit) -> u64 {
        split.device_ns + split.queue_ns + split.run_queue_ns + split.before_ns + split.rest_ns
    }

    #[test]
    fn a_direct_read_waits_for_queue_device_and_cpu() {
        let found = split(100, 192, 200, &[ONE]);
        let expected =
            WaitSplit { before_ns: 20, queue_ns: 30, device_ns: 40, rest_ns: 2, run_queue_ns: 8 };
        assert_eq!(found, expected);
    }

    #[test]
    fn parts_add_up_whatever_the_requests() {
        let early = Span { queued_ns: 10, issued_ns: 20, completed_ns: 130 };
        let late = Span { queued_ns: 180, issued_ns: 0, completed_ns: 900 };
        let odd = Span { queued_ns: 0, issued_ns: 0, completed_ns: 150 };
        for spans in [&[][..], &[early], &[early, ONE, late], &[odd, odd]] {
            for woken in [0, 50, 150, 500] {
                assert_eq!(sum(split(100, woken, 200, spans)), 100, "{spans:?} {woken}");
            }
        }
        assert_eq!(sum(split(200, 0, 100, &[ONE])), 0);
    }

    #[test]
    fn the_device_goes_before_the_queue() {
        let other = Span { queued_ns: 100, issued_ns: 110, completed_ns: 160 };
        let found = split(100, 0, 200, &[ONE, other]);
        assert_eq!((found.queue_ns, found.device_ns, found.rest_ns), (10, 80, 10));
    }
}
