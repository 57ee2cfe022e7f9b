//! The gain of a program if it did not wait for storage: nothing where its thread then waits for
//! another one that works, as two threads do that meet at a barrier.
//!
//! What does not belong here: how much of a device's time a cause explains (see `rules`).

use super::Facts;
use super::thresholds::MOST;
use crate::words;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::Metric;
use serde::Serialize;

/// The least share of a group's time that is one thread's, for what follows its waits to count:
/// threads that work for clients of other machines sleep, too, and those clients wait for them.
/// Chosen.
const ONE_THREAD: f64 = 0.8;
/// The share of a process's waits for which its other threads wait, from which it is held up by
/// them whatever follows. Chosen.
const WAITED_FOR: f64 = 0.1;

/// The longest time between two sleeps of a thread for the one that waits for storage, as a share
/// of the watch, for the two to work in rounds. Chosen: ten rounds at least.
const APART: f64 = 0.1;
/// The least mean wait, nanoseconds, for the sleeps behind them to be recorded: twice the shortest
/// sleep that is.
const LEAST_WAIT_NS: u64 = 2_000_000;
/// The most of its waits, or of its time, that one gains from a faster device for which that is
/// nothing. Chosen.
const NOTHING: f64 = 0.1;

/// The least sleeps of threads that wait for a process again and again: one that waits until
/// another thread ends sleeps once. Chosen.
const ROUNDS: u64 = 3;

/// The program that would gain most if what a finding claims took no time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gain {
    /// Its name; `None` if it is not known.
    pub process: Option<String>,
    /// The share of its own time that it would not lose, 0 to 1: of the time of one thread, without
    /// waits that are hidden behind other work. Work without pauses would take that much less time.
    pub share: f64,
    /// That time, nanoseconds: of all of its threads together where it is known, else of each.
    pub time_ns: u64,
    /// The length of the watch, of which it is lost, nanoseconds.
    pub watch_ns: u64,
    /// The number of its processes that lose it; 0 if it is not known.
    pub processes: u64,
}

impl Gain {
    /// Returns the gain of a program of so many processes; a share above 1, of several threads, is
    /// all of its time.
    pub(crate) fn new(
        facts: &Facts<'_>,
        process: Option<&str>,
        share: f64,
        processes: u64,
    ) -> Gain {
        let watch_ns = facts.duration_ns();
        Gain {
            process: process.map(str::to_owned),
            share: share.clamp(0.0, 1.0),
            time_ns: (share.max(0.0) * watch_ns as f64) as u64,
            watch_ns,
            processes,
        }
    }
}

/// The wait that a person notices whatever the pace, nanoseconds. Chosen: a second, as for a single
/// sync (sync-storm).
const FELT_NS: u64 = 1_000_000_000;

/// The wait that a person at a terminal notices, nanoseconds. Chosen: an answer within a tenth of a
/// second seems immediate.
const FELT_BY_HAND_NS: u64 = 100_000_000;

impl Facts<'_> {
    /// Whether a program waits at its own pace: one thread, which again and again does something
    /// else for longer than it waits, never for as long as is felt, while nobody waits for it.
    pub fn is_paced(&self, group: &WaitGroup) -> bool {
        let is_one = group.foremost_ns as f64 >= ONE_THREAD * group.time_ns as f64;
        let may_be = is_one
            && group.bouts >= ROUNDS
            && group.longest_ns < self.felt_ns(group)
            && 2 * group.time_ns < group.span_ns;
        // Sums over all groups come last: they are asked for each group.
        if !may_be {
            return false;
        }
        // Many processes of one program, such as a database's sessions, wait one after the other.
        let is_same = |other: &WaitGroup| {
            other.process == group.process && other.container == group.container
        };
        let all_ns = self.waits(is_same).time_ns;
        all_ns < group.span_ns / 2 && self.waited_for_ns(group.pid) < WAITED_FOR * all_ns as f64
    }

    /// Returns the wait from which somebody notices it, whatever the pace, nanoseconds.
    fn felt_ns(&self, group: &WaitGroup) -> u64 {
        let is_usual = group.time_ns >= FELT_BY_HAND_NS.saturating_mul(group.calls.max(1));
        if is_usual && self.is_interactive(group.pid) { FELT_BY_HAND_NS } else { FELT_NS }
    }

    /// Returns the share of these waits for storage that their process would gain without them: 1
    /// unless they are one thread's, and most of them were hidden behind other work of the process.
    pub fn gained_share(&self, group: &WaitGroup) -> f64 {
        let pid = group.pid;
        if group.threads > 1 && (group.foremost_ns as f64) < ONE_THREAD * group.time_ns as f64 {
            return 1.0;
        }
        let own = self.of_process(Metric::HiddenWait, pid);
        let hidden_ns: f64 = own.filter_map(|series| series.change).sum();
        if let Some(share) = self.critical_share(pid, hidden_ns) {
            return share;
        }
        if hidden_ns <= 0.0 {
            return 1.0;
        }
        let all_ns = self.waits(|group| group.pid == pid).time_ns.max(1) as f64;
        let hidden = (hidden_ns / all_ns).min(1.0);
        if hidden < MOST || self.waited_for_ns(pid) >= WAITED_FOR * all_ns {
            return 1.0;
        }
        1.0 - hidden
    }

    /// Returns the share of a process's waits for storage that is on its critical path: in which a
    /// thread slept that works in rounds with the one that waits. `None` if no two threads do, or
    /// if the process works for clients, each of which waits for a thread of its own.
    fn critical_share(&self, pid: u32, hidden_ns: f64) -> Option<f64> {
        if self.is_serving(pid) {
            return None;
        }
        let awaited = &self.summary().patterns.awaited;
        let thread = awaited.iter().find(|thread| thread.pid == pid)?;
        let (watch_ns, waited_ns) = (self.duration_ns() as f64, thread.waited_ns as f64);
        // What holds for one thread says nothing of another one, and sleeps that are as short as
        // waits of this length are not recorded.
        let own = self.waits(|group| group.pid == pid);
        let waits: u64 = own.groups.iter().map(|group| group.waits).sum();
        let is_seen = waited_ns >= ONE_THREAD * own.time_ns as f64
            && own.time_ns >= waits.saturating_mul(LEAST_WAIT_NS);
        if !is_seen {
            return None;
        }
        // Time of which nothing is known is no time that is not gained.
        let is_throughout = thread.longest_apart_ns as f64 <= APART * watch_ns
            && thread.span_ns as f64 >= (1.0 - 2.0 * APART) * watch_ns
            && thread.reached_ns as f64 >= WAITED_FOR * waited_ns;
        // Where the one that waits sleeps for the others, too, it depends on whose turn is longer.
        let is_mutual = hidden_ns >= MOST * waited_ns;
        let are_rounds = thread.sleeps >= ROUNDS && (is_throughout || is_mutual);
        // Waits are hidden behind work only as long as the process works: threads of a runtime
        // that has nothing to run sleep, and not for the one that waits. A thread that waits for
        // another process or machine works without a CPU.
        let others_ns = (own.time_ns as f64 - waited_ns).max(0.0);
        let cpu = self.cpu_share(Metric::ProcessCpu, pid).filter(|_| self.has_no_peers(pid));
        let worked = cpu.map(|share| share * watch_ns + others_ns + hidden_ns);
        let at_least_ns = worked.map_or(0.0, |worked_ns| waited_ns - worked_ns);
        let gained_ns = (thread.reached_ns as f64).max(at_least_ns);
        are_rounds.then(|| (gained_ns / waited_ns.max(1.0)).clamp(0.0, 1.0))
    }

    /// Whether a process has no connection to others but its standard streams.
    fn has_no_peers(&self, pid: u32) -> bool {
        const STREAMS: f64 = 2.0;
        let mut own = self.of_process(Metric::WorkPeers, pid);
        own.next().is_some_and(|series| series.max.unwrap_or(series.last) <= STREAMS)
    }

    /// Returns why a faster device would not help the program of these waits, as half a sentence;
    /// `None` if it would.
    pub fn not_helped(&self, group: &WaitGroup) -> Option<String> {
        let gained = self.gained_share(group);
        // A small part of short waits is as little as hardly any of long ones.
        let all = self.waits(|own| own.pid == group.pid);
        let span_ns = all.groups.iter().map(|own| own.span_ns).max().unwrap_or(0);
        let of_time = gained * all.time_ns as f64 / span_ns.max(1) as f64;
        if gained >= NOTHING && (gained >= MOST || of_time >= NOTHING) {
            return None;
        }
        let own = self.of_process(Metric::SleptForOwn, group.pid);
        let slept_ns: f64 = own.filter_map(|series| series.change).sum();
        // Those of several threads may be more than the watch.
        let watch_ns = self.duration_ns() as f64;
        let long = match slept_ns > 0.0 && slept_ns <= watch_ns {
            true => format!(" {} of {}", words::time(slept_ns), words::time(watch_ns)),
            false => String::new(),
        };
        Some(format!("a faster disk would not help: its threads wait for each other{long}"))
    }

    /// Returns the longest that a thread of a process waits for its other threads, while those wait
    /// for storage, nanoseconds.
    fn waited_for_ns(&self, pid: u32) -> f64 {
        let rows = self.chains();
        let own = rows.filter(|row| {
            row.sleeps >= ROUNDS && row.steps.iter().skip(1).any(|step| step.pid == pid)
        });
        let each = own.map(|row| {
            let threads = row.steps.first().map_or(1, |first| first.threads.max(1));
            row.time_ns as f64 / threads as f64
        });
        each.sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::{START_NS, Script};
    use iowhy_model::{Metric, WaitClass};

    const MS: u64 = 1_000_000;

    /// The share that a process gains which reads for 6 s, of which `hidden_ms` are hidden, and for
    /// which another thread waits so many times, a second each.
    fn gained(hidden_ms: u64, sleeps: u64) -> f64 {
        let mut script = Script::new(10);
        script.wait((1, "db"), WaitClass::PageRead, 6000 * MS, 6000 * MS, 0);
        for _ in 0..sleeps {
            script.chain(&[(2, "client"), (1, "db")], 1000 * MS, 1000 * MS);
        }
        let subject = process_subject(1, "db");
        script.sample(0, Metric::HiddenWait, &subject, 0.0);
        script.sample(MS, Metric::HiddenWait, &subject, (hidden_ms * MS) as f64);
        let summary = script.summary();
        let group = &summary.patterns.waits[0];
        Facts::new(&summary).gained_share(group)
    }

    #[test]
    fn what_is_hidden_behind_other_work_gains_nothing() {
        assert!(gained(6000, 0) < 0.01);
        assert!((gained(4500, 0) - 0.25).abs() < 0.01);
    }

    #[test]
    fn what_others_wait_for_is_gained() {
        assert_eq!(gained(6000, 5), 1.0, "the threads of a pool wait for work afterwards");
        assert!(gained(6000, 1) < 0.01, "a thread that waits for its end");
        assert_eq!(gained(0, 0), 1.0);
        assert_eq!(gained(1000, 0), 1.0);
    }

    /// The share that a process gains which reads for `read` ms in each round of the watch, while
    /// another thread of it computes for `work` ms and then sleeps for it; `before` changes what
    /// was seen.
    fn in_rounds(read: u64, work: u64, before: impl Fn(&mut Script)) -> f64 {
        let mut script = Script::new(10);
        for index in 0..10_000 / read {
            script.wait((1, "db"), WaitClass::PageRead, read * MS, read * MS, 0);
            let at = START_NS + index * read * MS;
            script.batch.waits.last_mut().unwrap().start_ns = at;
            script.chain(&[(2, "db"), (1, "db")], (read - work) * MS, (read - work) * MS);
            let from = script.batch.wait_chains.len() - 2;
            script.batch.wait_chains[from..].iter_mut().for_each(|row| {
                row.start_ns = at + work * MS;
            });
        }
        before(&mut script);
        let summary = script.summary();
        Facts::new(&summary).gained_share(&summary.patterns.waits[0])
    }

    /// Two threads meet at a barrier in each round: one reads, the other computes.
    #[test]
    fn at_a_barrier_the_one_that_is_last_counts() {
        assert!((in_rounds(17, 4, |_| {}) - 13.0 / 17.0).abs() < 0.01);
        assert!((in_rounds(23, 18, |_| {}) - 5.0 / 23.0).abs() < 0.01);
        // Where the reader is first it sleeps afterwards: all of its waits are hidden.
        assert!(gained(6000, 0) < 0.01);
    }

    #[test]
    fn waits_are_hidden_only_while_the_process_works() {
        let cpu = |share: f64, peers: f64| {
            move |script: &mut Script| {
                let subject = process_subject(1, "db");
                script.sample(0, Metric::ProcessCpu, &subject, 0.0);
                script.sample(0, Metric::WorkPeers, &subject, peers);
                script.sample(8000 * MS, Metric::ProcessCpu, &subject, share * (8000 * MS) as f64);
            }
        };
        assert!((in_rounds(23, 18, cpu(18.0 / 23.0, 1.0)) - 5.0 / 23.0).abs() < 0.01);
        assert!((in_rounds(23, 18, cpu(0.1, 1.0)) - 0.9).abs() < 0.01, "idle threads of a runtime");
        assert!((in_rounds(23, 18, cpu(0.1, 9.0)) - 5.0 / 23.0).abs() < 0.01, "others may work");
    }

    #[test]
    fn clients_wait_for_a_thread_of_their_own() {
        let serving = |script: &mut Script| {
            script.sample(1, Metric::WorkClients, &process_subject(1, "db"), 1.0);
        };
        assert_eq!(in_rounds(17, 16, serving), 1.0);
        assert_eq!(in_rounds(17, 16, |_| {}), 1.0, "of most waits nothing is known");
        let seldom = |script: &mut Script| script.batch.wait_chains.truncate(2 * 20);
        assert_eq!(in_rounds(17, 16, seldom), 1.0, "the other thread did something else");
        let by_turns = |script: &mut Script| {
            seldom(script);
            let subject = process_subject(1, "db");
            script.sample(0, Metric::HiddenWait, &subject, 0.0);
            script.sample(MS, Metric::HiddenWait, &subject, (9000 * MS) as f64);
        };
        assert!(in_rounds(17, 16, by_turns) < 0.01, "mostly it was the first to be ready");
    }

    /// What is said of a program that reads four times for half a second, so many seconds apart,
    /// while its other threads work for `hidden` ms of these two seconds.
    fn not_helped(hidden: u64, apart: u64) -> Option<String> {
        let mut script = Script::new(10);
        for round in 0..4 {
            script.wait((1, "db"), WaitClass::PageRead, 500 * MS, 500 * MS, 0);
            script.batch.waits.last_mut().unwrap().start_ns += round * apart * 1000 * MS;
        }
        let subject = process_subject(1, "db");
        for (at, hidden, slept) in [(0, 0, 0), (MS, hidden, 8000)] {
            script.sample(at, Metric::HiddenWait, &subject, (hidden * MS) as f64);
            script.sample(at, Metric::SleptForOwn, &subject, (slept * MS) as f64);
        }
        let summary = script.summary();
        Facts::new(&summary).not_helped(&summary.patterns.waits[0])
    }

    #[test]
    fn it_is_said_why_a_faster_disk_would_not_help() {
        let expected = "a faster disk would not help: its threads wait for each other 8.00 s of \
                        10.0 s";
        assert_eq!(not_helped(2000, 1).as_deref(), Some(expected));
        assert_eq!(not_helped(1700, 3).as_deref(), Some(expected), "3 % of its time");
        assert_eq!(not_helped(1500, 1), None, "an eighth of its time");
    }

    /// Whether a program that syncs a hundred times, for a part of each 100 ms, has its own pace;
    /// others wait for it this often.
    fn is_paced(each_ms: u64, apart_ms: u64, sleeps: u64) -> bool {
        let mut script = Script::new(10);
        for round in 0..100 {
            script.wait((1, "db"), WaitClass::Fsync, each_ms * MS, each_ms * MS, 0);
            let wait = script.batch.waits.last_mut().unwrap();
            wait.start_ns += round * apart_ms * MS;
            wait.syscall = Some(74);
        }
        for _ in 0..sleeps {
            script.chain(&[(2, "client"), (1, "db")], 1000 * MS, 1000 * MS);
        }
        let summary = script.summary();
        Facts::new(&summary).is_paced(&summary.patterns.waits[0])
    }

    #[test]
    fn a_person_at_a_terminal_notices_shorter_waits() {
        let is_paced = |each_ms: u64, terminal: f64| {
            let mut script = Script::new(10);
            for round in 0..10 {
                script.wait((1, "vi"), WaitClass::Fsync, each_ms * MS, each_ms * MS, 0);
                let wait = script.batch.waits.last_mut().unwrap();
                wait.start_ns += round * 1000 * MS;
                wait.syscall = Some(74);
            }
            script.sample(1, Metric::WorkTerminal, &process_subject(1, "vi"), terminal);
            let summary = script.summary();
            Facts::new(&summary).is_paced(&summary.patterns.waits[0])
        };
        assert!(is_paced(250, 0.0) && is_paced(50, 1.0));
        assert!(!is_paced(250, 1.0));
    }

    #[test]
    fn who_does_something_else_most_of_the_time_has_its_own_pace() {
        assert!(is_paced(20, 100, 0));
        assert!(!is_paced(60, 100, 0), "it waits more than half of the time");
        assert!(!is_paced(20, 21, 0), "it syncs all the time");
        assert!(!is_paced(20, 100, 5), "others wait for it");
    }
}
