//! The rolling diagnosis: the rows of a watch are cut into windows of ten seconds, and each window
//! is summed up and diagnosed.
//!
//! What does not belong here: the use of the result.

use iowhy_analysis::intervals::{Cutter, EndedInterval, WantedIntervals};
use iowhy_analysis::{Summarizer, Summary};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use std::convert::Infallible;

/// The length of a window, in nanoseconds: that of a watch without options.
pub const WINDOW_NS: u64 = 10_000_000_000;

/// A window of ten seconds that has ended.
#[derive(Debug)]
pub struct EndedWindow {
    /// The figures of the window.
    pub summary: Summary,
    /// The diagnosis of the window.
    pub diagnosis: Diagnosis,
}

/// Cuts a watch into windows.
pub struct RollingDiagnosis {
    cutter: Cutter<Summarizer>,
    met: usize,
}

impl RollingDiagnosis {
    /// Makes the diagnosis of a watch whose environment is `environment` now.
    pub fn new(environment: &Environment) -> RollingDiagnosis {
        let wanted = WantedIntervals { every_ns: Some(WINDOW_NS), count: None };
        let like = Summarizer::new(environment).with_writers();
        let cutter = Cutter::new(like, wanted, environment);
        RollingDiagnosis { cutter, met: 0 }
    }

    /// Adds rows.
    pub fn add(&mut self, batch: &Batch, environment: &Environment, names: &Names) {
        self.met += batch.processes.len() + batch.stacks.len();
        self.cutter.add(batch, environment, names);
    }

    /// Returns how many processes and stacks it has met: they are kept as long as the watch.
    pub fn met(&self) -> usize {
        self.met
    }

    /// Returns the windows that were over at `until_ns`, of which no more rows come.
    pub fn ended(
        &mut self,
        until_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Vec<EndedWindow> {
        let mut ended = Vec::new();
        let mut keep = |interval: EndedInterval<Summary>| {
            let summary = interval.figures;
            let diagnosis = diagnose(&summary);
            ended.push(EndedWindow { summary, diagnosis });
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.cutter.close_until(until_ns, environment, names, &mut keep);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::{START_NS, Script};

    #[test]
    fn windows_come_when_they_are_over() {
        let mut script = Script::new(35);
        for second in 0..35 {
            let at = second * 1_000_000_000;
            script.read("sda", 4096).by(7, "cat").at(at).direct(100, 200, 3_000).add();
        }
        let environment = Environment { end_ns: 0, ..script.environment.clone() };
        let mut rolling = RollingDiagnosis::new(&environment);
        rolling.add(&script.batch, &environment, &script.names);
        let mut at = |seconds: u64| {
            let until_ns = START_NS + seconds * 1_000_000_000;
            let windows = rolling.ended(until_ns, &environment, &script.names);
            windows.iter().map(|window| window.summary.watch.requests).collect::<Vec<_>>()
        };
        assert_eq!(at(9), [0; 0]);
        assert_eq!(at(10), [10]);
        assert_eq!(at(35), [10, 10]);
    }
}
