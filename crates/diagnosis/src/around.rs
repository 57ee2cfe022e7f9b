//! What a finding says of its program besides what it waits for: what that program does, for whom
//! it works, and who waits for it.
//!
//! What does not belong here: who waits for whom (see `facts::work`).

use crate::bottleneck::bound;
use crate::bottleneck::kind::BottleneckKind;
use crate::facts::Facts;
use crate::facts::thresholds::{MOST, WARNING_SHARE};
use crate::finding::{Evidence, Finding, Severity};
use crate::programs::{self, AwaitedCalls, Operation};
use crate::words;
use iowhy_analysis::summary::ChainRow;
use std::collections::BTreeMap;

/// The least share of a name's waits for one process to be all of them. Chosen.
const NEARLY_ALL: f64 = 0.8;

/// The view that shows it.
const CHAINS: &str = "iowhy chains";

/// The advice about a thread for which several clients wait, for any program.
const ONE_FOR_MANY: &str = "let other threads do what waits for the disk, so that clients who do \
                            not need it are answered meanwhile (Node.js: fs.promises or streams, \
                            not readFileSync; Python's asyncio: to_thread; nginx: aio threads)";

impl Finding {
    /// Says what the program does that this is about, and shows the other program that waits
    /// longest for it.
    pub(super) fn say_what_is_around(&mut self, facts: &Facts<'_>) {
        if self.claims.are_of_cpu() {
            return;
        }
        let process = self.subject.process.clone().unwrap_or_default();
        let pid = facts.main_pid(&self.subject);
        let dump = facts.dumped_by(&self.subject, pid);
        if let Some((who, verb, advice)) = &dump {
            let server = match pid {
                Some(_) => format!("{process} works"),
                None => format!("some processes of {process} work"),
            };
            self.sentence.push_str(&format!("; {server} for {who}, which {verb} the database"));
            self.advise_first(advice);
        }
        let operation =
            || self.operation(facts, pid).or_else(|| self.reading_operation(facts, pid?));
        if let Some((pid, operation)) = dump.is_none().then(operation).flatten() {
            let who = words::process(&process, Some(pid), self.subject.container.as_deref());
            // What it does stands before what it waits for: a page has room for the beginning.
            let own = self.sentence.strip_prefix(&who).map(|rest| format!("it{rest}"));
            let rest = own.as_ref().unwrap_or(&self.sentence);
            self.sentence = format!("{who} {}: {rest}", operation.does);
            if let Some(advice) = operation.advice() {
                self.advise_first(advice);
            }
            if operation.is_statement && self.waits_for_full_device(facts, pid) {
                self.allow(Severity::Warning);
            }
        }
        let is_said = self.evidence.iter().any(|shown| shown.command.starts_with(CHAINS));
        let behind = pid.filter(|_| !is_said).and_then(|pid| facts.longest_behind(pid));
        let is_dump = |who: &String| dump.as_ref().is_some_and(|(dump, ..)| dump == who);
        let least_ns = WARNING_SHARE * facts.duration_ns() as f64;
        let Some(behind) = behind.filter(|it| it.time_ns as f64 >= least_ns && !is_dump(&it.who))
        else {
            return;
        };
        let (who, verb) = (&behind.who, behind.verb);
        if behind.threads > 1 {
            let threads = behind.threads;
            self.sentence
                .push_str(&format!("; {threads} threads of {who} wait for one of {process}"));
            if programs::of(Some(&process), None).is_none() {
                self.advise_first(ONE_FOR_MANY);
            }
        } else {
            self.sentence.push_str(&format!("; {who} {verb} for {process}"));
        }
        let what = format!("time that {who} waited for {process}");
        let (figure, unit, command) = (behind.time_ns as f64, "ns", CHAINS.to_owned());
        self.evidence.insert(0, Evidence { what, figure, unit, command });
    }

    /// Whether one process waits most of the watch for a device that can do no more: a client
    /// that waits for its statement waits for that, however short each wait is.
    fn waits_for_full_device(&self, facts: &Facts<'_>, pid: u32) -> bool {
        let Some(device) = facts.device_of(&self.subject) else { return false };
        let its =
            facts.waits(|group| group.pid == pid && group.device.as_ref() == Some(&device.device));
        bound::is_saturated(device) && its.time_ns as f64 >= MOST * facts.duration_ns() as f64
    }

    /// Returns what the one process that this is about does, if the functions that its reads come
    /// from show it most of the time, and nearly all waits of its name for the device are its own.
    fn reading_operation(&self, facts: &Facts<'_>, pid: u32) -> Option<(u32, &'static Operation)> {
        let (process, device) = (self.subject.process.as_ref()?, self.subject.device.as_ref()?);
        let named =
            facts.waits(|group| group.process == *process && group.device.as_ref() == Some(device));
        let its = named.groups.iter().filter(|group| group.pid == pid);
        let its_ns = its.map(|group| group.time_ns).fold(0, u64::saturating_add);
        if (its_ns as f64) < NEARLY_ALL * named.time_ns as f64 {
            return None;
        }
        let paths = &facts.patterns(device)?.code_paths;
        let (mut all_ns, mut shown) = (0_u64, BTreeMap::new());
        for row in paths.iter().filter(|row| row.subject.process.as_ref() == Some(process)) {
            let time_ns = row.usage.time_ns;
            all_ns = all_ns.saturating_add(time_ns);
            let operation = Operation::of(process, &row.subject.user);
            let reads = operation.filter(|it| it.waits == Some(AwaitedCalls::Reads));
            if let Some(operation) = reads {
                let known = shown.entry(operation.does).or_insert((operation, 0_u64));
                known.1 = known.1.saturating_add(time_ns);
            }
        }
        let (operation, time_ns) = shown.into_values().max_by_key(|(_, time_ns)| *time_ns)?;
        (time_ns.saturating_mul(2) >= all_ns).then_some((pid, operation))
    }

    /// Returns a process of this finding's program for which others wait, and what it is or does,
    /// if the functions it waits in show it most of the time, and half of the claimed waits are of
    /// processes that do it; of several, others wait for them as long as for a warning. `pid` is
    /// the one process that this is about.
    fn operation(&self, facts: &Facts<'_>, pid: Option<u32>) -> Option<(u32, &'static Operation)> {
        let is_of = |row: &&ChainRow| {
            row.steps.last().is_some_and(|step| match pid {
                Some(pid) => step.pid == pid,
                None => {
                    Some(&step.process) == self.subject.process.as_ref()
                        && row.device == self.subject.device
                }
            })
        };
        let (mut all_ns, mut shown) = (0_u64, BTreeMap::new());
        for row in facts.chains().filter(is_of) {
            all_ns = all_ns.saturating_add(row.time_ns);
            let Some(step) = row.steps.last() else { continue };
            if let Some(operation) = Operation::of(&step.process, &step.user_stack) {
                let new = || (operation, 0_u64, BTreeMap::new());
                let known = shown.entry(operation.does).or_insert_with(new);
                known.1 = known.1.saturating_add(row.time_ns);
                let its_ns: &mut u64 = known.2.entry(step.pid).or_default();
                *its_ns = its_ns.saturating_add(row.time_ns);
            }
        }
        let (operation, time_ns, processes) =
            shown.into_values().max_by_key(|(_, time_ns, _)| *time_ns)?;
        let is_of_calls = |kind: BottleneckKind| match operation.waits {
            Some(AwaitedCalls::Reads) => kind == BottleneckKind::Read,
            Some(AwaitedCalls::Syncs) => kind == BottleneckKind::Sync,
            None => true,
        };
        let share = self.claims.share_of_waits(facts, |group| {
            processes.contains_key(&group.pid) && is_of_calls(BottleneckKind::new(facts, group))
        });
        let least_ns = WARNING_SHARE * facts.duration_ns() as f64;
        let is_felt = pid.is_some() || time_ns as f64 >= least_ns;
        let is_most = share >= MOST && time_ns.saturating_mul(2) >= all_ns;
        let (its_pid, _) = processes.into_iter().max_by_key(|(_, its_ns)| *its_ns)?;
        (is_felt && is_most).then_some((its_pid, operation))
    }
}
