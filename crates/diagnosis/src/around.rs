//! What a finding says of its program besides what it waits for: what that program does, for whom
//! it works, and who waits for it.
//!
//! What does not belong here: how that is found (see `facts::work`).

use crate::facts::Facts;
use crate::facts::thresholds::WARNING_SHARE;
use crate::finding::{Evidence, Finding};
use crate::{programs, words};

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
        let process = self.subject.process.clone().unwrap_or_default();
        if self.claims.are_of_cpu() {
            return;
        }
        let pid = facts.main_pid(&self.subject);
        let dump = facts.dumped_by(&self.subject, pid);
        if let Some((who, verb, advice)) = &dump {
            let server = match pid {
                Some(_) => format!("{process} works"),
                None => format!("some processes of {process} work"),
            };
            self.sentence.push_str(&format!("; {server} for {who}, which {verb} the database"));
            self.fix = format!("{advice}; else {}", self.fix);
        }
        if let Some((pid, operation)) = facts.operation(&self.subject, &self.claims) {
            let who = words::process(&process, Some(pid), self.subject.container.as_deref());
            // What it does stands before what it waits for: a page has room for the beginning.
            let own = self.sentence.strip_prefix(&who).map(|rest| format!("it{rest}"));
            let rest = own.as_ref().unwrap_or(&self.sentence);
            self.sentence = format!("{who} {}: {rest}", operation.does);
            if let Some(advice) = operation.advice() {
                self.fix = format!("{advice}; else {}", self.fix);
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
                self.fix = format!("{ONE_FOR_MANY}; else {}", self.fix);
            }
        } else {
            self.sentence.push_str(&format!("; {who} {verb} for {process}"));
        }
        let what = format!("time that {who} waited for {process}");
        let (figure, unit, command) = (behind.time_ns as f64, "ns", CHAINS.to_owned());
        self.evidence.insert(0, Evidence { what, figure, unit, command });
    }
}
