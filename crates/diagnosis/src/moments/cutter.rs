//! Batches into moments: each second its own summary, and the longer windows that are judged.

use super::{JudgedWindow, Moment, MomentSpan};
use crate::diagnose;
use iowhy_analysis::Summarizer;
use iowhy_analysis::intervals::{Cutter, EndedInterval, Pass, WantedIntervals};
use iowhy_analysis::summary::Summary;
use iowhy_model::environment::Cost;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use std::convert::Infallible;
use std::sync::Arc;

/// Moments in a window that causes are judged by.
pub(super) const WINDOW: u64 = 10;
/// Moments after which an open window is judged; until then the one before it stands.
const YOUNG: u64 = 5;
/// The first one of a watch is judged earlier: there is none before it.
const FIRST: u64 = 3;

/// A summary with the details behind its lines.
#[derive(Clone)]
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
    sums: [SumCutter; 3],
    cost: MomentCost,
}

/// The present cost of watching.
#[derive(Default)]
struct MomentCost {
    /// CPU time, BPF programs included, and when it was read, nanoseconds.
    read: (u64, u64),
    /// The share of all CPUs since it was read before that.
    share: Option<f64>,
}

impl MomentCost {
    /// The share of all CPUs in the time until now; the last one until the time is read again.
    fn share(&mut self, cost: &Cost, cpus: u32, until_ns: u64) -> Option<f64> {
        let cpu_ns = cost.cpu_ns.saturating_add(cost.bpf_ns.unwrap_or(0));
        let (before_ns, then_ns) = self.read;
        if cpu_ns > before_ns && until_ns > then_ns {
            // The cost of loading the programs is not part of it.
            if before_ns > 0 {
                let passed_ns = (until_ns - then_ns) as f64;
                let of_one = (cpu_ns - before_ns) as f64 / passed_ns;
                self.share = Some((of_one / f64::from(cpus.max(1))).min(1.0));
            }
            self.read = (cpu_ns, until_ns);
        }
        self.share
    }
}

/// Adds up moments of one length.
struct SumCutter {
    span: MomentSpan,
    every_ns: Option<u64>,
    cutter: Cutter<MomentPass>,
    /// The last that is over.
    last: Option<Moment>,
}

impl SumCutter {
    fn new(span: MomentSpan, every_ns: u64, environment: &Environment) -> SumCutter {
        let every_ns = span.moments().map(|count| count.saturating_mul(every_ns));
        let wanted = WantedIntervals { every_ns, count: None };
        let pass = MomentPass(Summarizer::new(environment));
        SumCutter { span, every_ns, cutter: Cutter::new(pass, wanted, environment), last: None }
    }

    fn close_until(&mut self, until_ns: u64, environment: &Environment, names: &Names) {
        let mut latest = None;
        let mut keep = |interval| {
            latest = Some(interval);
            DONE
        };
        let Ok(()) = self.cutter.close_until(until_ns, environment, names, &mut keep);
        self.last = latest.map(of).or(self.last.take());
    }

    /// The sum that is open once half of it is over, until then the one before.
    fn sum(&self, until_ns: u64, environment: &Environment, names: &Names) -> Option<Moment> {
        let age_ns = until_ns.saturating_sub(self.cutter.next_start_ns());
        let is_young = self.every_ns.is_some_and(|every_ns| age_ns < every_ns / 2);
        if let Some(last) = self.last.as_ref().filter(|_| is_young) {
            return Some(last.clone());
        }
        self.cutter.peek(until_ns, environment, names).map(of)
    }
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
            sums: [MomentSpan::Ten, MomentSpan::Minute, MomentSpan::All]
                .map(|span| SumCutter::new(span, every_ns, environment)),
            cost: MomentCost::default(),
        }
    }

    /// Adds rows, whose texts are in `names`: the same table for every batch.
    pub fn add(&mut self, batch: &Batch, environment: &Environment, names: &Names) {
        self.moments.add(batch, environment, names);
        self.windows.add(batch, environment, names);
        self.sums.iter_mut().for_each(|sum| sum.cutter.add(batch, environment, names));
    }

    /// The sum of the moments of a span until now; `None` for a single moment, and before the first
    /// row.
    pub fn sum(
        &mut self,
        span: MomentSpan,
        until_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Option<Moment> {
        let found = self.sums.iter().find(|sum| sum.span == span)?;
        let sum = found.sum(until_ns, environment, names)?;
        Some(Moment { judged: self.judged.clone(), cost_share: self.cost.share, ..sum })
    }

    /// The latest time that a row spoke of, CLOCK_MONOTONIC nanoseconds.
    pub fn latest_ns(&self) -> u64 {
        self.moments.latest_ns()
    }

    /// Returns the moments that were over at `until_ns`, of which no more rows will come, each with
    /// the diagnosis of the seconds until now.
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
        for sum in &mut self.sums {
            sum.close_until(until_ns, environment, names);
        }
        let cost_share = self.cost.share(&environment.cost, environment.cpus, until_ns);
        let moment = |interval| Moment { judged: self.judged.clone(), cost_share, ..of(interval) };
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

/// The answer to a cutter, since nothing here fails.
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
