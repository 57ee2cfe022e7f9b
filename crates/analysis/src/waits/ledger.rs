//! Blocked time by process and class. The parts add up to the waits, to the nanosecond.

use crate::summary::{ClassRow, Ledger, LedgerWaiter, Measure, ProcessLedger, ProgramWaiter};
use crate::sums::wait_parts::parts_of;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Wait, WaitClass};
use std::collections::BTreeMap;

/// Maximum number of processes; waits of further ones are aggregated.
const MOST_PROCESSES: usize = 4096;
/// Maximum number of processes named for each class.
const MOST_NAMED: usize = 3;
/// Maximum number of listed processes.
const MOST_LISTED: usize = 50;

/// Adds up waits as they come.
#[derive(Clone, Debug, Default)]
pub struct LedgerTally {
    processes: CappedMap<(u32, Option<Name>), WaitedByClass, MOST_PROCESSES>,
    others: WaitedByClass,
    kernel: Measure,
    censored: Measure,
    begun: bool,
}

/// The waits of a process, or of all.
#[derive(Clone, Debug, Default)]
struct WaitedByClass {
    /// Whole waits.
    all: Measure,
    /// Their parts, of the few classes that there are.
    classes: Vec<(WaitClass, Measure)>,
}

impl WaitedByClass {
    fn class_mut(&mut self, class: WaitClass) -> &mut Measure {
        let known = self.classes.iter().position(|(known, _)| *known == class);
        let at = known.unwrap_or_else(|| {
            self.classes.push((class, Measure::default()));
            self.classes.len() - 1
        });
        &mut self.classes[at].1
    }

    fn class(&self, class: WaitClass) -> Measure {
        let known = self.classes.iter().find(|(known, _)| *known == class);
        known.map(|(_, measure)| *measure).unwrap_or_default()
    }

    fn add(&mut self, wait: &Wait) {
        self.all.add_wait(wait, wait.duration_ns);
        for (class, time_ns) in parts_of(wait) {
            self.class_mut(class).add_wait(wait, time_ns);
        }
    }

    /// The sum of its classes, nanoseconds: a recording may contain any number.
    fn total_ns(&self) -> u64 {
        self.classes.iter().map(|(_, sum)| sum.time_ns).fold(0, u64::saturating_add)
    }
}

impl LedgerTally {
    /// Adds a wait. Those of kernel threads are separate, since they work for others.
    pub fn add(&mut self, wait: &Wait) {
        self.begun = true;
        if wait.kernel_thread {
            self.kernel.add_wait(wait, wait.duration_ns);
            return;
        }
        if wait.censored {
            self.censored.add_wait(wait, wait.duration_ns);
        }
        let key = (wait.pid, wait.process);
        self.processes.or_default(key).unwrap_or(&mut self.others).add(wait);
    }

    /// The ledger; `None` without waits, which may not have been collected.
    pub fn ledger(&self, names: &Names) -> Option<Ledger> {
        if !self.begun {
            return None;
        }
        let mut all = WaitedByClass::default();
        for account in self.processes.values().chain([&self.others]) {
            all.all.add(&account.all);
            account.classes.iter().for_each(|(class, sum)| all.class_mut(*class).add(sum));
        }
        let blocked_ns = all.total_ns();
        let unknown_ns = all.class(WaitClass::Unknown).time_ns;
        all.classes.compact_sort_by_key(|(class, sum)| (std::cmp::Reverse(sum.time_ns), *class));
        let timed = all.classes.iter().filter(|(_, sum)| sum.time_ns > 0);
        let classes =
            timed.map(|(class, sum)| self.class(*class, sum, blocked_ns, names)).collect();
        Some(Ledger {
            blocked_ns,
            explained_share: (blocked_ns > 0).then(|| share(blocked_ns - unknown_ns, blocked_ns)),
            kernel_threads_ns: self.kernel.time_ns,
            censored_waits: self.censored.count,
            classes,
            processes: self.listed(names),
            by_pid: self.by_pid(),
        })
    }

    fn by_pid(&self) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        for ((pid, _), account) in self.processes.iter() {
            let own: &mut u64 = sums.entry(*pid).or_default();
            *own = own.saturating_add(account.total_ns());
        }
        sums
    }

    fn class(&self, class: WaitClass, sum: &Measure, blocked_ns: u64, names: &Names) -> ClassRow {
        let waiter =
            |((pid, name), account): (&(u32, Option<Name>), &WaitedByClass)| LedgerWaiter {
                pid: *pid,
                process: text(*name, names),
                time_ns: account.class(class).time_ns,
            };
        let waiters = self.processes.iter().map(waiter);
        let mut most: Vec<LedgerWaiter> = waiters.filter(|waiter| waiter.time_ns > 0).collect();
        most.compact_sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then(a.pid.cmp(&b.pid)));
        let programs = by_program(&most);
        most.truncate(MOST_NAMED);
        ClassRow {
            class: class.word(),
            time_ns: sum.time_ns,
            time_share: share(sum.time_ns, blocked_ns),
            waits: sum.count,
            longest_ns: sum.longest_ns,
            most,
            programs,
            behind: None,
        }
    }

    fn listed(&self, names: &Names) -> Vec<ProcessLedger> {
        let mut rows: Vec<ProcessLedger> = self
            .processes
            .iter()
            .map(|((pid, name), account)| ProcessLedger {
                pid: *pid,
                process: text(*name, names),
                time_ns: account.total_ns(),
                waits: account.all.count,
                classes: WaitClass::ALL
                    .iter()
                    .map(|class| (class.word(), account.class(*class).time_ns))
                    .filter(|(_, time)| *time > 0)
                    .collect(),
            })
            .collect();
        rows.compact_sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then(a.pid.cmp(&b.pid)));
        rows.truncate(MOST_LISTED);
        rows
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn text(name: Option<Name>, names: &Names) -> String {
    name.map(|name| names.get(name).to_owned()).unwrap_or_default()
}

/// The programs of these processes that waited longest.
fn by_program(waiters: &[LedgerWaiter]) -> Vec<ProgramWaiter> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for waiter in waiters {
        let (processes, time_ns) = sums.entry(&waiter.process).or_default();
        *processes += 1;
        *time_ns = time_ns.saturating_add(waiter.time_ns);
    }
    let program = |(process, (processes, time_ns)): (&str, (u64, u64))| ProgramWaiter {
        process: process.to_owned(),
        processes,
        time_ns,
    };
    let mut programs: Vec<ProgramWaiter> = sums.into_iter().map(program).collect();
    programs
        .compact_sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.process.cmp(&b.process)));
    programs.truncate(MOST_NAMED);
    programs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn classes_add_up_to_the_waits() {
        let mut script = Script::new(10);
        script.wait((7, "cat"), WaitClass::PageRead, 100, 60, 15);
        script.wait((7, "cat"), WaitClass::Unknown, 40, 0, 0);
        script.wait((8, "dd"), WaitClass::DirtyThrottle, 500, 0, 100);
        let ledger = script.summary().ledger.expect("there are waits");
        assert_eq!(ledger.blocked_ns, 640);
        assert_eq!(ledger.classes.iter().map(|row| row.time_ns).sum::<u64>(), 640);
        assert_eq!(ledger.classes[0].class, "dirty_throttle");
        assert_eq!(ledger.classes[0].most[0].process, "dd");
        let programs = &ledger.classes[0].programs;
        assert_eq!(programs[0].process, "dd");
        let listed: u64 = programs.iter().map(|program| program.time_ns).sum();
        assert_eq!(listed, ledger.classes[0].time_ns, "{programs:?}");
        assert_eq!(ledger.explained_share, Some(600.0 / 640.0));
        let cat = &ledger.processes[1];
        assert_eq!((cat.pid, cat.time_ns, cat.waits), (7, 140, 2));
        assert_eq!(cat.classes.iter().map(|(_, time)| time).sum::<u64>(), 140);
    }

    #[test]
    fn threads_of_the_kernel_are_distinguished() {
        let mut script = Script::new(10);
        script.wait((9, "kworker/0:1"), WaitClass::Tag, 100, 0, 0);
        script.batch.waits[0].kernel_thread = true;
        let ledger = script.summary().ledger.expect("there is a wait");
        assert_eq!((ledger.blocked_ns, ledger.kernel_threads_ns), (0, 100));
        assert_eq!(ledger.explained_share, None);
    }

    #[test]
    fn a_source_without_waits_has_no_ledger() {
        assert_eq!(Script::new(10).summary().ledger, None);
    }
}
