//! The summary of a scripted watch.
//!
//! What does not belong here: its rows (see [`iowhy_model::script`]).

use crate::pass::Summarizer;
use crate::summary::Summary;
use iowhy_model::script::Script;

/// The summary of rows that were made up.
pub trait ScriptSummary {
    /// The summary of the rows.
    fn summary(&self) -> Summary;

    /// The summary of the rows, given in batches of `size` requests.
    fn summary_in_batches(&self, size: usize) -> Summary;
}

impl ScriptSummary for Script {
    fn summary(&self) -> Summary {
        self.summary_in_batches(usize::MAX)
    }

    fn summary_in_batches(&self, size: usize) -> Summary {
        let mut summarizer = Summarizer::new(&self.environment);
        for batch in self.source(size).batches {
            summarizer.add(&batch, &self.names);
        }
        summarizer.finish(&self.environment, &self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::KnownBy;

    #[test]
    fn threads_behind_a_wait_are_one_step_of_a_chain() {
        let mut script = Script::new(10);
        let id = script.write("sda", 4096).direct(0, 1_000, 4_000).add();
        script.sleep((7, "db"), 0, 6_000).call(74).requests(&[id]).add();
        script.behind(8, 2, "worker", &["pthread_mutex_lock"], KnownBy::Owner);
        assert_eq!(script.summary().chains.unwrap().rows[0].steps[0].threads, 2);
    }
}
