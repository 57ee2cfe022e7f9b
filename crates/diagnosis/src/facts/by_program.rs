//! Waits divided among programs: many processes of one name are one, unless anything may run under
//! that name.
//!
//! What does not belong here: who made whom wait (see [`super::behind`]).

use super::Waited;
use crate::subject::Subject;
use crate::{programs, words};
use iowhy_analysis::summary::patterns::WaitGroup;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The waits of one program.
pub struct ProgramWaits<'a> {
    /// Its waits.
    pub waited: Waited<'a>,
    /// The program; a process only if it has a single one.
    pub subject: Subject,
    /// `md5sum (7)`, `12 processes of md5sum`.
    pub who: String,
}

impl ProgramWaits<'_> {
    /// Returns the verb of its sentence.
    pub fn wait(&self) -> &'static str {
        if self.subject.pid.is_some() { "waits" } else { "wait" }
    }
}

impl<'a> Waited<'a> {
    /// Returns the waits of each program, the one that waits longest first.
    pub fn by_program(&self) -> Vec<ProgramWaits<'a>> {
        let mut of: Vec<Vec<&'a WaitGroup>> = Vec::new();
        let named = |group: &'a WaitGroup| (Some(group.pid), group.process.as_str());
        for group in &self.groups {
            let is_of = |own: &&mut Vec<&'a WaitGroup>| {
                own.first().is_some_and(|first| programs::are_of_one(named(first), named(group)))
            };
            match of.iter_mut().find(is_of) {
                Some(own) => own.push(group),
                None => of.push(vec![group]),
            }
        }
        let mut found: Vec<ProgramWaits<'a>> = of.into_iter().map(ProgramWaits::new).collect();
        found.sort_by_key(|program| Reverse(program.waited.time_ns));
        found
    }
}

impl<'a> ProgramWaits<'a> {
    fn new(groups: Vec<&'a WaitGroup>) -> ProgramWaits<'a> {
        let pids: BTreeSet<u32> = groups.iter().map(|group| group.pid).collect();
        let waited = Waited::from_groups(groups);
        let mut subject = waited.subject();
        let who = match pids.len() {
            0 | 1 => words::who(&subject),
            several => {
                subject.pid = None;
                format!("{several} processes of {}", subject.process.as_deref().unwrap_or(""))
            }
        };
        ProgramWaits { waited, subject, who }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::script::{MS, Script};

    #[test]
    fn many_processes_of_one_name_are_one_program() {
        let mut script = Script::new(10);
        for pid in 10..40 {
            script.wait((pid, "md5sum"), WaitClass::Device, 200 * MS, 200 * MS, 0);
        }
        script.wait((7, "web"), WaitClass::Device, 900 * MS, 900 * MS, 0);
        for pid in [8, 9] {
            script.wait((pid, "python3"), WaitClass::Device, 100 * MS, 100 * MS, 0);
        }
        let summary = script.summary();
        let facts = Facts::new(&summary);
        let of: Vec<_> = facts.waits(|_| true).by_program();
        let said: Vec<(&str, &str, u64)> =
            of.iter().map(|it| (it.who.as_str(), it.wait(), it.waited.time_ns / MS)).collect();
        assert_eq!(said[0], ("30 processes of md5sum", "wait", 6000));
        assert_eq!(said[1], ("web (7)", "waits", 900));
        // Two scripts are two programs.
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(of[0].subject.pid.is_none() && of[1].subject.pid == Some(7));
    }
}
