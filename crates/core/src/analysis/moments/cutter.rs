//! Batches into moments: each second its own summary, and the longer windows that are judged.

use super::{JudgedWindow, Moment};
use crate::analysis::Summarizer;
use crate::analysis::intervals::{Cutter, EndedInterval, Pass, WantedIntervals};
use crate::analysis::summary::Summary;
use crate::diagnosis::diagnose;
use crate::model::{Environment, Names};
use crate::source::Batch;
use std::convert::Infallible;
use std::sync::Arc;

/// How many moments a window has that causes are judged by.
pub(super) const WINDOW: u64 = 10;
/// A window that is open is judged once it is so many moments long; until then the one before it
/// stands.
const YOUNG: u64 = 5;
/// The first one of a watch is judged earlier: there is none before it.
const FIRST: u64 = 3;

/// A summary with what is behind its lines.
pub(super) struct MomentPass(pub Summarizer);

impl Pass for MomentPass {
    type Figures = Summary;

    fn begin(&self, environment: &Environment) -> MomentPass {
        MomentPass(Summarizer::new(environment).with_breakdown())
    }

    fn add(&mut self, batch: &Batch, names: &Names) {
        self.0.add(batch, names);
    }

    fn finish(self, environment: &Environment, names: &Names) -> Summary {
        self.0.finish(environment, names)
    }
}

/// Makes moments of the batches of one source.
pub struct MomentCutter {
    every_ns: u64,
    moments: Cutter<MomentPass>,
    windows: Cutter<Summarizer>,
    judged: Option<Arc<JudgedWindow>>,
}

impl MomentCutter {
    /// Cuts a source whose environment is `environment` now into moments of `every_ns`.
    pub fn new(every_ns: u64, environment: &Environment) -> MomentCutter {
        let wanted = |every_ns| WantedIntervals { every_ns: Some(every_ns), count: None };
        let pass = || Summarizer::new(environment);
        let window_ns = every_ns.saturating_mul(WINDOW);
        MomentCutter {
            every_ns,
            moments: Cutter::new(MomentPass(pass()), wanted(every_ns), environment),
            windows: Cutter::new(pass(), wanted(window_ns), environment),
            judged: None,
        }
    }

    /// Adds rows, whose texts are in `names`: the same table for every batch.
    pub fn add(&mut self, batch: &Batch, environment: &Environment, names: &Names) {
        self.moments.add(batch, environment, names);
        self.windows.add(batch, environment, names);
    }

    /// The latest time that a row spoke of, CLOCK_MONOTONIC nanoseconds.
    pub fn latest_ns(&self) -> u64 {
        self.moments.latest_ns()
    }

    /// The moments that were over at `until_ns`, of which no more rows will come, each with what
    /// the seconds until now were judged to suffer from.
    pub fn close_until(
        &mut self,
        until_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Vec<Moment> {
        let mut ended = Vec::new();
        let mut push = |interval| {
            ended.push(interval);
            DONE
        };
        let Ok(()) = self.moments.close_until(until_ns, environment, names, &mut push);
        if ended.is_empty() {
            return Vec::new();
        }
        self.judge(until_ns, environment, names);
        let passed_ns = until_ns.saturating_sub(environment.start_ns).max(1);
        let cpu_share = environment.cost.steady_cpu_share(passed_ns);
        let moment = |interval| Moment { judged: self.judged.clone(), cpu_share, ..of(interval) };
        ended.into_iter().map(moment).collect()
    }

    fn judge(&mut self, until_ns: u64, environment: &Environment, names: &Names) {
        let mut latest = None;
        let mut keep = |interval| {
            latest = Some(interval);
            DONE
        };
        let Ok(()) = self.windows.close_until(until_ns, environment, names, &mut keep);
        let age_ns = until_ns.saturating_sub(self.windows.next_start_ns());
        let least = if self.judged.is_some() { YOUNG } else { FIRST };
        if latest.is_none() && age_ns >= self.every_ns.saturating_mul(least) {
            latest = self.windows.peek(until_ns, environment, names);
        }
        if let Some(window) = latest {
            self.judged = Some(Arc::new(judged(&window)));
        }
    }
}

/// What a cutter is answered, since nothing here fails.
pub(super) const DONE: Result<(), Infallible> = Ok(());

pub(super) fn of(interval: EndedInterval<Summary>) -> Moment {
    let span = (interval.environment.start_ns, interval.environment.end_ns);
    Moment::new(interval.figures, span)
}

pub(super) fn judged(window: &EndedInterval<Summary>) -> JudgedWindow {
    JudgedWindow {
        start_ns: window.environment.start_ns,
        end_ns: window.environment.end_ns,
        diagnosis: diagnose(&window.figures),
    }
}
