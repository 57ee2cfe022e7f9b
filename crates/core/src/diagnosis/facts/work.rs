//! Kinds of work: programs that somebody waits for, and work in the background.
//!
//! What does not belong here: who waits for whom within a program (see `analysis::waits::chains`).

use super::Facts;
use crate::analysis::summary::patterns::WaitGroup;
use crate::diagnosis::programs::{self, FileRole};

impl Facts<'_> {
    /// Whether a program works in the background, as a backup or a database's snapshot does: nobody
    /// waits for it, so its own waits hold nobody up.
    pub fn is_background(&self, group: &WaitGroup) -> bool {
        let role =
            group.file.as_deref().and_then(|file| programs::role_of(Some(&group.process), file));
        let is_own_work = role == Some(FileRole::Snapshot);
        (programs::is_maintenance(&group.process) || is_own_work) && !self.is_waited_for(group.pid)
    }

    /// Whether other programs wait for a process.
    fn is_waited_for(&self, pid: u32) -> bool {
        let chains = self.summary().chains.iter().flat_map(|chains| &chains.rows);
        let mut behind = chains.filter(|row| row.steps.first().is_some_and(|step| step.pid != pid));
        behind.any(|row| row.steps.iter().skip(1).any(|step| step.pid == pid))
    }
}
