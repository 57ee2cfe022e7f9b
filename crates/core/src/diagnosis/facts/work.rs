//! Kinds of work: programs that somebody waits for, and work in the background.
//!
//! What does not belong here: who waits for whom within a program (see `analysis::waits::chains`).

use super::Facts;
use crate::analysis::patterns::WaitGroup;
use crate::diagnosis::programs;

impl Facts<'_> {
    /// Whether a program works in the background, as a backup does: nobody waits for it, so its own
    /// waits hold nobody up.
    pub fn is_background(&self, group: &WaitGroup) -> bool {
        programs::is_maintenance(&group.process) && !self.is_waited_for(group.pid)
    }

    /// Whether other programs wait for a process.
    fn is_waited_for(&self, pid: u32) -> bool {
        let chains = self.summary().chains.iter().flat_map(|chains| &chains.rows);
        let mut behind = chains.filter(|row| row.steps.first().is_some_and(|it| it.pid != pid));
        behind.any(|row| row.steps.iter().skip(1).any(|step| step.pid == pid))
    }
}
