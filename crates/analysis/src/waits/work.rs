//! Kinds of work: whether anybody waits for what a process does.
//!
//! - *Serving*: it has sockets that listen or connections that it accepted, or a serving process
//!   slept until it went on.
//! - *Foreground*: it is in the foreground of its terminal, or another process waits for its end,
//!   or slept until it went on.
//! - *Background*: none of these, and nobody at the other end of a pipe or a connection; or it was
//!   started at a set time.
//!
//! What was not recorded is not known: then a process has no kind.
//!
//! What does not belong here: what a kind counts in the diagnosis (crate `iowhy-diagnosis`).

use crate::summary::{Work, WorkKind};
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::metric::process_of;
use iowhy_model::source::Batch;
use iowhy_model::{KnownBy, Metric, Name, Names, Sample, Scope, WaitChain};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of processes whose kind is decided, and of pairs of which one waited for the
/// other.
const MOST_PROCESSES: usize = 1 << 14;
/// Maximum number of processes on the way from a client to the last one that it waits for.
const MOST_STEPS: usize = 8;

/// Observations of one process; `None` where nobody looked.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WorkEvidence {
    /// Sockets that listen and connections that it accepted.
    pub clients: Option<u64>,
    /// Other connections, and pipes.
    pub peers: Option<u64>,
    /// Whether it is in the foreground of its terminal.
    pub terminal: Option<bool>,
    /// The process that waits for its end; 0 for none.
    pub waiter: Option<u32>,
    /// Its ancestor that starts jobs at set times; 0 for none.
    pub scheduler: Option<u32>,
}

/// Another process that slept until this one went on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkSleeper<'a> {
    /// The process that slept.
    pub pid: u32,
    /// Its own kind, as far as it is known.
    pub kind: Option<WorkKind>,
    /// Its name.
    pub name: &'a str,
}

/// Decides the kind of work of a process from what was seen of it and of `sleepers`, who slept
/// until it went on, the longest first; `name_of` names the other processes. `None` if it is not
/// known.
pub fn kind_of(
    seen: &WorkEvidence,
    sleepers: &[WorkSleeper<'_>],
    name_of: impl Fn(u32) -> String,
) -> Option<Work> {
    let is = |kind, reason: String| Some(Work { kind, reason });
    let other = |pid: Option<u32>| pid.filter(|pid| *pid != 0);
    if seen.clients.is_some_and(|clients| clients > 0) {
        return is(WorkKind::Serving, "other programs connect to it".to_owned());
    }
    let serves = |sleeper: &&WorkSleeper<'_>| sleeper.kind == Some(WorkKind::Serving);
    if let Some(it) = sleepers.iter().find(serves) {
        let reason = format!("{} ({}), which serves, waits for it", it.name, it.pid);
        return is(WorkKind::Serving, reason);
    }
    if seen.terminal == Some(true) {
        return is(WorkKind::Foreground, "it is in the foreground of a terminal".to_owned());
    }
    if let Some(pid) = other(seen.scheduler) {
        let reason = format!("{} ({pid}) started it at a set time", name_of(pid));
        return is(WorkKind::Background, reason);
    }
    if let Some(pid) = other(seen.waiter) {
        return is(WorkKind::Foreground, format!("{} ({pid}) waits for it to end", name_of(pid)));
    }
    if let Some(it) = sleepers.iter().find(|sleeper| sleeper.kind != Some(WorkKind::Background)) {
        return is(WorkKind::Foreground, format!("{} ({}) waits for it", it.name, it.pid));
    }
    let is_alone = seen.clients == Some(0)
        && seen.peers == Some(0)
        && seen.terminal == Some(false)
        && seen.waiter == Some(0);
    let reason = "nothing waits for it: no client, terminal, pipe or parent".to_owned();
    is_alone.then_some(Work { kind: WorkKind::Background, reason })
}

/// Adds up what was seen of processes.
#[derive(Clone, Debug, Default)]
pub struct WorkTally {
    seen: CappedMap<u32, (Name, WorkEvidence), MOST_PROCESSES>,
    /// The time for which one process slept until another went on, nanoseconds.
    slept: CappedMap<(u32, u32), u64, MOST_PROCESSES>,
    names: CappedMap<u32, Name, MOST_PROCESSES>,
    /// The metric of each word, `None` for those of other tables.
    metrics: FxHashMap<Name, Option<Metric>>,
    /// The last row of a chain, which the next one may continue.
    before: Option<WaitChain>,
}

impl WorkTally {
    /// Adds rows, whose texts are in `names`.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        for process in &batch.processes {
            self.names.insert(process.pid, process.process);
        }
        for sample in batch.samples.iter().filter(|sample| sample.scope == Scope::Process) {
            self.add_sample(sample, names);
        }
        batch.wait_chains.iter().for_each(|row| self.add_row(row));
    }

    fn add_sample(&mut self, sample: &Sample, names: &Names) {
        let find = || Metric::find(Scope::Process, names.get(sample.metric)).filter(is_of_work);
        let Some(metric) = *self.metrics.entry(sample.metric).or_insert_with(find) else { return };
        let Some((pid, _)) = process_of(names.get(sample.subject)) else { return };
        let value = sample.value as u64;
        let Some((subject, seen)) =
            self.seen.or_insert_with(pid, || (sample.subject, WorkEvidence::default()))
        else {
            return;
        };
        // The number was reused, or it runs another program now.
        if std::mem::replace(subject, sample.subject) != sample.subject {
            *seen = WorkEvidence::default();
        }
        match metric {
            // One that had a client at any time serves.
            Metric::WorkClients => seen.clients = Some(seen.clients.unwrap_or(0).max(value)),
            Metric::WorkPeers => seen.peers = Some(seen.peers.unwrap_or(0).max(value)),
            Metric::WorkTerminal => seen.terminal = Some(value > 0),
            Metric::WorkWaiter => seen.waiter = Some(value as u32),
            _ => seen.scheduler = Some(value as u32),
        }
    }

    /// Adds a row of a chain: the one before it slept until this one went on, unless it was for the
    /// lock of a file or of the kernel, whose holder works for itself.
    fn add_row(&mut self, row: &WaitChain) {
        let before = self.before.replace(row.clone());
        if let Some(name) = row.process {
            self.names.insert(row.pid, name);
        }
        let Some(before) = before.filter(|before| {
            (before.chain_id, before.path, before.hop.checked_add(1))
                == (row.chain_id, row.path, Some(row.hop))
        }) else {
            return;
        };
        let is_of_lock = before.lock.is_some() || before.wait_id.is_some();
        if before.pid == row.pid || is_of_lock || row.known_by == Some(KnownBy::Likely) {
            return;
        }
        if let Some(sum) = self.slept.or_default((row.pid, before.pid)) {
            *sum = sum.saturating_add(row.storage_ns);
        }
    }

    /// Returns the kind of work of each process of which it is known, by its number.
    pub fn finish(&self, names: &Names) -> BTreeMap<u32, Work> {
        let mut sleepers: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        for ((pid, sleeper), slept_ns) in self.slept.iter() {
            sleepers.entry(*pid).or_default().push((*slept_ns, *sleeper));
        }
        sleepers
            .values_mut()
            .for_each(|own| own.compact_sort_by_key(|sleeper| (u64::MAX - sleeper.0, sleeper.1)));
        let mut pids: Vec<u32> = self.seen.keys().chain(sleepers.keys()).copied().collect();
        pids.sort_unstable();
        pids.dedup();
        let name_of =
            |pid: u32| self.names.get(&pid).map_or("process", |name| names.get(*name)).to_owned();
        let mut found: BTreeMap<u32, Work> = BTreeMap::new();
        let nothing = WorkEvidence::default();
        // Who a serving process waits for serves, too, and so on.
        for _ in 0..MOST_STEPS {
            let decide = |pid: &u32| {
                let seen = self.seen.get(pid).map_or(&nothing, |(_, seen)| seen);
                let own = sleepers.get(pid).map_or(&[][..], Vec::as_slice);
                let of = own.iter().map(|(_, other)| WorkSleeper {
                    pid: *other,
                    kind: found.get(other).map(|work| work.kind),
                    name: self.names.get(other).map_or("process", |name| names.get(*name)),
                });
                Some((*pid, kind_of(seen, &of.collect::<Vec<_>>(), name_of)?))
            };
            let next: BTreeMap<u32, Work> = pids.iter().filter_map(decide).collect();
            if next == found {
                break;
            }
            found = next;
        }
        found
    }
}

fn is_of_work(metric: &Metric) -> bool {
    matches!(
        metric,
        Metric::WorkClients
            | Metric::WorkPeers
            | Metric::WorkTerminal
            | Metric::WorkWaiter
            | Metric::WorkScheduler
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::metric::process_subject;
    use iowhy_model::script::Script;

    /// The evidence of a process that nothing waits for.
    const ALONE: WorkEvidence = WorkEvidence {
        clients: Some(0),
        peers: Some(0),
        terminal: Some(false),
        waiter: Some(0),
        scheduler: Some(0),
    };

    fn kind(seen: &WorkEvidence, sleepers: &[WorkSleeper<'_>]) -> Option<WorkKind> {
        kind_of(seen, sleepers, |pid| format!("p{pid}")).map(|work| work.kind)
    }

    #[test]
    fn who_waits_decides() {
        assert_eq!(kind(&ALONE, &[]), Some(WorkKind::Background));
        let with_clients = WorkEvidence { clients: Some(2), ..ALONE };
        assert_eq!(kind(&with_clients, &[]), Some(WorkKind::Serving));
        let in_terminal = WorkEvidence { terminal: Some(true), ..ALONE };
        assert_eq!(kind(&in_terminal, &[]), Some(WorkKind::Foreground));
        let waited_for = WorkEvidence { waiter: Some(7), ..ALONE };
        assert_eq!(kind(&waited_for, &[]), Some(WorkKind::Foreground));
        let at_night = WorkEvidence { scheduler: Some(9), peers: Some(1), ..waited_for.clone() };
        assert_eq!(kind(&at_night, &[]), Some(WorkKind::Background));
        let reason = kind_of(&waited_for, &[], |pid| format!("p{pid}")).unwrap().reason;
        assert_eq!(reason, "p7 (7) waits for it to end");
    }

    #[test]
    fn what_nobody_looked_for_is_not_known() {
        assert_eq!(kind(&WorkEvidence::default(), &[]), None);
        for unknown in [
            WorkEvidence { clients: None, ..ALONE },
            WorkEvidence { waiter: None, ..ALONE },
            WorkEvidence { terminal: None, ..ALONE },
            WorkEvidence { peers: Some(1), ..ALONE },
        ] {
            assert_eq!(kind(&unknown, &[]), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_background_process_makes_no_other_one_matter() {
        let sleeper = |kind| [WorkSleeper { pid: 4, kind, name: "other" }];
        assert_eq!(kind(&ALONE, &sleeper(None)), Some(WorkKind::Foreground));
        assert_eq!(kind(&ALONE, &sleeper(Some(WorkKind::Serving))), Some(WorkKind::Serving));
        let behind = sleeper(Some(WorkKind::Background));
        assert_eq!(kind(&ALONE, &behind), Some(WorkKind::Background));
    }

    /// A chain of one thread of each of these processes.
    fn chain(script: &mut Script, pids: &[u32]) {
        let from = script.batch.wait_chains.len();
        let threads: Vec<(u32, &str)> = pids.iter().map(|pid| (*pid, "main")).collect();
        script.chain(&threads, 1_000, 1_000);
        script.batch.wait_chains[from..].iter_mut().for_each(|row| row.pid = row.tid);
    }

    #[test]
    fn who_a_server_waits_for_serves() {
        let mut script = Script::new(10);
        chain(&mut script, &[5, 6, 7]);
        chain(&mut script, &[8, 9]);
        script.sample(1, Metric::WorkClients, &process_subject(5, "db"), 1.0);
        let works = script.summary().work;
        assert_eq!(works[&5].kind, WorkKind::Serving);
        assert_eq!(works[&7].kind, WorkKind::Serving);
        assert_eq!(works[&7].reason, "db (6), which serves, waits for it");
        assert_eq!(works[&9].kind, WorkKind::Foreground);
        assert!(!works.contains_key(&8), "nothing is known of who waits for it");
    }

    #[test]
    fn who_holds_a_lock_works_for_itself() {
        let mut script = Script::new(10);
        chain(&mut script, &[5, 6]);
        script.batch.wait_chains[0].lock = Some(script.names.intern("/run/lock"));
        chain(&mut script, &[7, 8]);
        script.batch.wait_chains[2].wait_id = Some(1);
        assert!(script.summary().work.is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut script = Script::new(10);
        script.sample(1, Metric::WorkClients, &process_subject(5, "db"), 1.0);
        script.sample(2, Metric::WorkWaiter, &process_subject(5, "cp"), 3.0);
        assert_eq!(script.summary().work[&5].kind, WorkKind::Foreground);
    }

    #[test]
    fn processes_that_wait_for_each_other_end() {
        let mut script = Script::new(10);
        chain(&mut script, &[5, 6]);
        chain(&mut script, &[6, 5]);
        let works = script.summary().work;
        assert!(works.values().all(|work| work.kind == WorkKind::Foreground), "{works:?}");
    }
}
