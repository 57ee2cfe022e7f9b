//! A recording or a capture as moments: all of them, and one of the whole.

use super::cutter::{DONE, MomentPass, WINDOW, judged, of};
use super::{History, JudgedWindow, Moment};
use crate::diagnose;
use iowhy_analysis::Summarizer;
use iowhy_analysis::intervals::{Cutter, Pass, WantedIntervals};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use std::sync::Arc;

/// Lengths of moments, seconds: the first of which a history holds enough.
const LENGTHS: [u64; 10] = [1, 2, 5, 10, 30, 60, 300, 600, 3600, 86_400];
/// The longest time after the end of an interval at which a recording may have rows of it,
/// nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

/// Makes moments of a source that has an end.
pub struct RecordedMoments {
    whole: MomentPass,
    moments: Cutter<MomentPass>,
    windows: Cutter<Summarizer>,
    ended: Vec<Moment>,
    judged: Vec<Arc<JudgedWindow>>,
}

impl RecordedMoments {
    /// For a source whose environment is `environment` now.
    pub fn new(environment: &Environment) -> RecordedMoments {
        let seconds = environment.duration_ns().div_ceil(1_000_000_000);
        let enough = |length: &&u64| seconds.div_ceil(**length) <= History::MOMENTS as u64;
        let length = LENGTHS.iter().find(enough).copied().unwrap_or(seconds);
        let wanted = |length: u64| WantedIntervals {
            every_ns: Some(length.saturating_mul(1_000_000_000)),
            count: None,
        };
        let pass = MomentPass(Summarizer::new(environment));
        RecordedMoments {
            whole: pass.begin(environment),
            moments: Cutter::new(pass, wanted(length), environment).leaving_out_empty(),
            windows: Cutter::new(
                Summarizer::new(environment),
                wanted(length.saturating_mul(WINDOW)),
                environment,
            )
            .leaving_out_empty(),
            ended: Vec::new(),
            judged: Vec::new(),
        }
    }

    /// Adds rows, whose texts are in `names`; between two rounds of a recording (`is_settled`) none
    /// that is earlier will come.
    pub fn add(
        &mut self,
        batch: &Batch,
        is_settled: bool,
        environment: &Environment,
        names: &Names,
    ) {
        self.whole.add(batch, names);
        self.moments.add(batch, environment, names);
        self.windows.add(batch, environment, names);
        if is_settled {
            let until_ns = self.moments.latest_ns().saturating_sub(LATE_NS);
            let mut end = |interval| {
                self.ended.push(of(interval));
                DONE
            };
            let Ok(()) = self.moments.close_until(until_ns, environment, names, &mut end);
            let mut end = |window| {
                self.judged.push(Arc::new(judged(&window)));
                DONE
            };
            let Ok(()) = self.windows.close_until(until_ns, environment, names, &mut end);
        }
    }

    /// Returns the moment of the whole with its diagnosis, and all moments, each with that of the
    /// window that it is in.
    pub fn finish(mut self, environment: &Environment, names: &Names) -> (Moment, Vec<Moment>) {
        let mut end = |interval| {
            self.ended.push(of(interval));
            DONE
        };
        let Ok(_) = self.moments.finish(environment, names, &mut end);
        let mut end = |window| {
            self.judged.push(Arc::new(judged(&window)));
            DONE
        };
        let Ok(_) = self.windows.finish(environment, names, &mut end);
        for moment in &mut self.ended {
            let covers = |arc: &&Arc<JudgedWindow>| {
                arc.start_ns <= moment.start_ns
                    && moment.start_ns < arc.end_ns.max(arc.start_ns + 1)
            };
            moment.judged = self.judged.iter().find(covers).or(self.judged.last()).cloned();
        }
        let summary = self.whole.finish(environment, names);
        let (start_ns, end_ns) = (environment.start_ns, environment.end_ns);
        let diagnosis = diagnose(&summary);
        let judged = Some(Arc::new(JudgedWindow { start_ns, end_ns, diagnosis }));
        (Moment { judged, ..Moment::new(summary, (start_ns, end_ns)) }, self.ended)
    }
}
