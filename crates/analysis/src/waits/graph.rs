//! The wait-for graph of threads: who slept for whom when, with each moment charged to the last one
//! in the row.
//!
//! A thread that waits for one that waits itself waits for whatever that one waits for: the time is
//! handed on along the edges (cascaded), as in wPerf (OSDI '18).
//!
//! What does not belong here: which sleep was for which thread (crate `iowhy-capture`).

use std::collections::BTreeMap;

/// Maximum number of threads on the way from one that waits to the last one.
const MOST_HOPS: usize = 8;

/// The target of a thread's wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaitTarget {
    /// Another thread, by its number.
    Thread(u32),
    /// Storage: it waits for nobody.
    Storage,
}

/// An interval in which a thread waited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockedSpan {
    /// The beginning, nanoseconds.
    pub start_ns: u64,
    /// The end, nanoseconds.
    pub end_ns: u64,
    /// For what.
    pub on: WaitTarget,
}

/// The time of one thread's waits, by what they were for in the end.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WaitEnds {
    /// For storage, of its own or of a thread that it waited for, nanoseconds.
    pub storage_ns: u64,
    /// For threads that worked meanwhile, nanoseconds by thread.
    pub threads: BTreeMap<u32, u64>,
    /// For threads that waited for this one in turn, or beyond too many others, nanoseconds.
    pub circle_ns: u64,
}

/// Intervals of waits by thread.
#[derive(Clone, Debug, Default)]
pub struct WaitGraph {
    /// In the order of time; those of one thread do not overlap.
    waits: BTreeMap<u32, Vec<BlockedSpan>>,
}

impl WaitGraph {
    /// The graph of these waits, each with the number of its thread. A thread waits for one thing
    /// at a time: of spans that overlap, the one that began later is cut.
    pub fn new(waits: impl IntoIterator<Item = (u32, BlockedSpan)>) -> WaitGraph {
        let mut by_thread: BTreeMap<u32, Vec<BlockedSpan>> = BTreeMap::new();
        for (thread, span) in waits {
            by_thread.entry(thread).or_default().push(span);
        }
        for spans in by_thread.values_mut() {
            spans.sort_unstable();
            let mut free_ns = 0;
            for span in spans.iter_mut() {
                span.start_ns = span.start_ns.max(free_ns);
                free_ns = free_ns.max(span.end_ns);
            }
            spans.retain(|span| span.start_ns < span.end_ns);
        }
        WaitGraph { waits: by_thread }
    }

    /// The threads that waited.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.waits.keys().copied()
    }

    /// Returns the time of those waits of a thread that were for `target`, by what they were for in
    /// the end.
    pub fn ends_through(&self, thread: u32, target: u32) -> WaitEnds {
        let mut ends = WaitEnds::default();
        for span in self.of(thread).iter().filter(|span| span.on == WaitTarget::Thread(target)) {
            self.follow(*span, &mut vec![thread], &mut ends);
        }
        ends
    }

    /// The waits of a thread, in the order of time.
    pub fn of(&self, thread: u32) -> &[BlockedSpan] {
        self.waits.get(&thread).map_or(&[][..], Vec::as_slice)
    }

    fn follow(&self, span: BlockedSpan, way: &mut Vec<u32>, ends: &mut WaitEnds) {
        let length = span.end_ns - span.start_ns;
        let target = match span.on {
            WaitTarget::Storage => {
                ends.storage_ns = ends.storage_ns.saturating_add(length);
                return;
            }
            WaitTarget::Thread(target) => target,
        };
        if way.contains(&target) || way.len() >= MOST_HOPS {
            ends.circle_ns = ends.circle_ns.saturating_add(length);
            return;
        }
        way.push(target);
        let mut worked_ns = length;
        for next in self.of_target(span.on, span.start_ns, span.end_ns) {
            worked_ns -= next.end_ns - next.start_ns;
            self.follow(next, way, ends);
        }
        way.pop();
        if worked_ns > 0 {
            let time = ends.threads.entry(target).or_default();
            *time = time.saturating_add(worked_ns);
        }
    }

    /// The waits of a target between two times, cut to them.
    fn of_target(
        &self,
        on: WaitTarget,
        start_ns: u64,
        end_ns: u64,
    ) -> impl Iterator<Item = BlockedSpan> {
        let spans = match on {
            WaitTarget::Thread(thread) => self.of(thread),
            WaitTarget::Storage => &[],
        };
        let first = spans.partition_point(|span| span.end_ns <= start_ns);
        let within = spans.iter().skip(first).take_while(move |span| span.start_ns < end_ns);
        within.map(move |span| BlockedSpan {
            start_ns: span.start_ns.max(start_ns),
            end_ns: span.end_ns.min(end_ns),
            on: span.on,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::WaitTarget::{Storage, Thread};
    use super::*;
    use std::collections::BTreeSet;

    /// The time of one edge.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    struct EdgeTime {
        /// The time for which the thread waited for the target, nanoseconds.
        raw_ns: u64,
        /// The part of it in which the target did not wait itself, nanoseconds.
        own_ns: u64,
    }

    /// Views of the whole graph, by which its rules are checked.
    impl WaitGraph {
        /// The time of each edge.
        fn edges(&self) -> BTreeMap<(u32, WaitTarget), EdgeTime> {
            let mut edges: BTreeMap<(u32, WaitTarget), EdgeTime> = BTreeMap::new();
            for (thread, spans) in &self.waits {
                for span in spans {
                    let edge = edges.entry((*thread, span.on)).or_default();
                    edge.raw_ns = edge.raw_ns.saturating_add(span.end_ns - span.start_ns);
                }
            }
            for (thread, span) in self.cascaded() {
                let edge = edges.entry((thread, span.on)).or_default();
                edge.own_ns = edge.own_ns.saturating_add(span.end_ns - span.start_ns);
            }
            edges
        }

        /// The parts of the waits in which their target did not wait itself.
        fn cascaded(&self) -> Vec<(u32, BlockedSpan)> {
            let mut parts = Vec::new();
            for (thread, spans) in &self.waits {
                for span in spans {
                    let mut from_ns = span.start_ns;
                    for of_target in self.of_target(span.on, span.start_ns, span.end_ns) {
                        if of_target.start_ns > from_ns {
                            let part = BlockedSpan {
                                start_ns: from_ns,
                                end_ns: of_target.start_ns,
                                ..*span
                            };
                            parts.push((*thread, part));
                        }
                        from_ns = of_target.end_ns;
                    }
                    if from_ns < span.end_ns {
                        parts.push((*thread, BlockedSpan { start_ns: from_ns, ..*span }));
                    }
                }
            }
            parts
        }

        /// Returns the time of a thread's waits by what they were for in the end: every nanosecond
        /// of them once.
        fn ends_of(&self, thread: u32) -> WaitEnds {
            let mut ends = WaitEnds::default();
            for span in self.of(thread) {
                self.follow(*span, &mut vec![thread], &mut ends);
            }
            ends
        }

        /// The sets of threads that wait for each other and for nothing else, without edges of less
        /// than `least_ns`, by their lowest number.
        fn knots(&self, least_ns: u64) -> Vec<Vec<u32>> {
            let heavy = self.edges().into_iter().filter(|(_, time)| time.raw_ns >= least_ns.max(1));
            let mut next: BTreeMap<u32, BTreeSet<WaitTarget>> = BTreeMap::new();
            for ((thread, on), _) in heavy {
                next.entry(thread).or_default().insert(on);
            }
            let reached: BTreeMap<u32, BTreeSet<WaitTarget>> =
                next.keys().map(|thread| (*thread, reached_from(*thread, &next))).collect();
            let mut knots: Vec<Vec<u32>> = Vec::new();
            for (thread, all) in &reached {
                // All that it leads to leads back, and nothing to storage or to one that works.
                let is_back = |on: &WaitTarget| match on {
                    WaitTarget::Storage => false,
                    WaitTarget::Thread(other) => reached.get(other).is_some_and(|of| of == all),
                };
                let is_first = !knots.iter().any(|knot| knot.contains(thread));
                if is_first && all.contains(&WaitTarget::Thread(*thread)) && all.iter().all(is_back)
                {
                    let members = all.iter().filter_map(|on| match on {
                        WaitTarget::Thread(thread) => Some(*thread),
                        WaitTarget::Storage => None,
                    });
                    knots.push(members.collect());
                }
            }
            knots
        }
    }

    /// All that a thread waits for, directly or behind others.
    fn reached_from(
        thread: u32,
        next: &BTreeMap<u32, BTreeSet<WaitTarget>>,
    ) -> BTreeSet<WaitTarget> {
        let mut found: BTreeSet<WaitTarget> = BTreeSet::new();
        let mut left = vec![thread];
        while let Some(thread) = left.pop() {
            for on in next.get(&thread).into_iter().flatten() {
                if let (true, WaitTarget::Thread(other)) = (found.insert(*on), on) {
                    left.push(*other);
                }
            }
        }
        found
    }

    fn span(start_ns: u64, end_ns: u64, on: WaitTarget) -> BlockedSpan {
        BlockedSpan { start_ns, end_ns, on }
    }

    /// A small random graph: waits of six threads for each other or for storage.
    fn random(seed: u64) -> Vec<(u32, BlockedSpan)> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut number = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let count = 1 + number(40);
        (0..count)
            .map(|_| {
                let thread = number(6) as u32;
                let on = match number(7) as u32 {
                    6 => Storage,
                    other if other == thread => Storage,
                    other => Thread(other),
                };
                let start_ns = number(1000);
                (thread, span(start_ns, start_ns + number(200), on))
            })
            .collect()
    }

    /// Figure 4 of the paper: the user waits 100 ms for the parser, which waits 80 of them for the
    /// network.
    #[test]
    fn figure_4() {
        const MS: u64 = 1_000_000;
        let (user, parser, network) = (1, 2, 3);
        let graph = WaitGraph::new([
            (user, span(0, 100 * MS, Thread(parser))),
            (parser, span(10 * MS, 90 * MS, Thread(network))),
        ]);
        let edges = graph.edges();
        assert_eq!(edges[&(user, Thread(parser))].own_ns, 20 * MS);
        assert_eq!(edges[&(user, Thread(parser))].raw_ns, 100 * MS);
        assert_eq!(edges[&(parser, Thread(network))].own_ns, 80 * MS);
        let ends = graph.ends_of(user);
        assert_eq!(ends.threads, BTreeMap::from([(parser, 20 * MS), (network, 80 * MS)]));
        assert_eq!((ends.storage_ns, ends.circle_ns), (0, 0));
    }

    #[test]
    fn an_edge_never_gets_more_than_its_wait() {
        for seed in 1..500 {
            for (edge, time) in WaitGraph::new(random(seed)).edges() {
                assert!(time.own_ns <= time.raw_ns, "{seed}: {edge:?} {time:?}");
                assert!(edge.1 != Storage || time.own_ns == time.raw_ns, "{seed}: {edge:?}");
            }
        }
    }

    #[test]
    fn what_was_handed_on_is_not_handed_on_again() {
        for seed in 1..500 {
            let graph = WaitGraph::new(random(seed));
            let again = WaitGraph::new(graph.cascaded());
            let own = |graph: &WaitGraph| -> Vec<_> {
                let edges = graph.edges().into_iter().filter(|(_, time)| time.own_ns > 0);
                edges.map(|(edge, time)| (edge, time.own_ns)).collect()
            };
            assert_eq!(own(&graph), own(&again), "{seed}");
        }
    }

    #[test]
    fn every_nanosecond_ends_once_at_something_that_an_edge_leads_to() {
        for seed in 1..500 {
            let graph = WaitGraph::new(random(seed));
            let edges = graph.edges();
            let mut next: BTreeMap<u32, BTreeSet<WaitTarget>> = BTreeMap::new();
            for (thread, on) in edges.keys() {
                next.entry(*thread).or_default().insert(*on);
            }
            for thread in graph.threads() {
                let ends = graph.ends_of(thread);
                let reached = reached_from(thread, &next);
                assert!(ends.threads.keys().all(|end| reached.contains(&Thread(*end))), "{seed}");
                assert!(ends.storage_ns == 0 || reached.contains(&Storage), "{seed}");
                let own = edges.iter().filter(|(edge, _)| edge.0 == thread);
                let raw_ns: u64 = own.map(|(_, time)| time.raw_ns).sum();
                let all = ends.threads.values().sum::<u64>() + ends.storage_ns + ends.circle_ns;
                assert_eq!(all, raw_ns, "{seed}: thread {thread}");
            }
        }
    }

    #[test]
    fn threads_that_wait_for_each_other_are_a_knot() {
        let graph = WaitGraph::new([
            (1, span(0, 50, Thread(2))),
            (2, span(50, 100, Thread(1))),
            (3, span(0, 90, Thread(1))),
            // One that waits for storage, too, is not bound by the others alone.
            (4, span(0, 50, Thread(5))),
            (5, span(50, 100, Thread(4))),
            (5, span(100, 130, Storage)),
        ]);
        assert_eq!(graph.knots(1), [vec![1, 2]]);
        assert_eq!(graph.knots(40), [vec![1, 2], vec![4, 5]], "little of it is for storage");
        assert!(graph.knots(60).is_empty());
    }

    #[test]
    fn a_circle_ends() {
        let graph = WaitGraph::new([(1, span(0, 100, Thread(2))), (2, span(0, 80, Thread(1)))]);
        let ends = graph.ends_of(1);
        assert_eq!((ends.circle_ns, &ends.threads[&2]), (80, &20));
        assert_eq!(graph.knots(1), [vec![1, 2]]);
    }

    #[test]
    fn a_thread_waits_for_one_thing_at_a_time() {
        let graph = WaitGraph::new([(1, span(0, 100, Storage)), (1, span(50, 120, Thread(2)))]);
        let ends = graph.ends_of(1);
        assert_eq!((ends.storage_ns, &ends.threads[&2]), (100, &20));
        assert!(WaitGraph::new([(1, span(9, 3, Storage))]).edges().is_empty());
    }
}
