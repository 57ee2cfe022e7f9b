//! Adjusts the free parameters of a plan, the pauses, to what a run of it shows: the recording of
//! the run is planned like the original's, and its jobs are compared by name.
//!
//! What does not belong here: running it.

use crate::plan::{JobEngine, LoadPlan, PlannedJob};
use crate::planning::from_stream::set_think;

/// Rates that differ by less are close enough.
const CLOSE: f64 = 0.05;
/// The largest change of a depth or a number of threads in one round.
const MOST_LANES: u32 = 256;

/// The outcome of a round of fitting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FitRound {
    /// Jobs whose rate was compared.
    pub compared: usize,
    /// Jobs that were changed.
    pub changed: usize,
}

/// Changes the pauses of `plan` so that its rates approach the original's; `run` is the plan that a
/// recording of its run gives, with names kept.
pub fn adjust(plan: &mut LoadPlan, run: &LoadPlan) -> FitRound {
    let mut round = FitRound::default();
    for program in &mut plan.programs {
        for job in &mut program.jobs {
            let Some(got) = rate_of(job, run) else { continue };
            round.compared += 1;
            let off = (got - job.per_s) / job.per_s.max(1e-9);
            if off.abs() > CLOSE && job.per_s > 0.0 && got > 0.0 {
                adjust_job(job, got);
                round.changed += 1;
            }
        }
    }
    round
}

/// The rate of a job in the plan of its run.
fn rate_of(job: &PlannedJob, run: &LoadPlan) -> Option<f64> {
    let jobs = run.programs.iter().flat_map(|program| &program.jobs);
    let mine = |planned: &&PlannedJob| match job.raw {
        true => planned.raw && planned.disk == job.disk || planned.name.contains("device"),
        false => {
            let rest = planned.name.split_once(job.name.as_str()).map(|parts| parts.1);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        }
    };
    let found: Vec<f64> = jobs.filter(mine).map(|job| job.per_s).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

fn adjust_job(job: &mut PlannedJob, got: f64) {
    let wanted = job.per_s;
    // A thread pauses with all that it could have in flight.
    let threads = f64::from(job.threads.max(1));
    let now_us = job.think_us / job.think_after.max(1) as f64;
    let pause_us = now_us + threads * 1e6 * (1.0 / wanted - 1.0 / got);
    if pause_us >= 0.0 {
        // A burst keeps its length.
        match job.think_after > 1 && job.think_us > 20_000.0 {
            true => job.think_us = pause_us * job.think_after as f64,
            false => set_think(job, pause_us),
        }
        return;
    }
    (job.think_us, job.think_after) = (0.0, 1);
    if now_us < 1.0 {
        // A job that never pauses and is too slow still: more at once.
        let more = |lanes: u32| (f64::from(lanes) * (wanted / got).min(2.0)).round() as u32;
        match job.engine {
            JobEngine::Libaio | JobEngine::IoUring => job.depth = more(job.depth).min(MOST_LANES),
            JobEngine::Psync | JobEngine::Mmap => {
                job.threads = more(job.threads).min(MOST_LANES / 4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedProgram;

    fn plan(name: &str, per_s: f64, think_us: f64) -> LoadPlan {
        let job = PlannedJob {
            name: name.to_owned(),
            per_s,
            think_us,
            think_after: 1,
            threads: 1,
            depth: 1,
            ..PlannedJob::default()
        };
        let program = PlannedProgram { jobs: vec![job], ..PlannedProgram::default() };
        LoadPlan { programs: vec![program], ..LoadPlan::default() }
    }

    fn fitted(per_s: f64, think_us: f64, got: f64) -> PlannedJob {
        let mut wanted = plan("program-a-files-a-write", per_s, think_us);
        let run = plan("x_program-a-files-a-write.N.N-write", got, 0.0);
        assert_eq!(adjust(&mut wanted, &run).compared, 1);
        wanted.programs[0].jobs[0].clone()
    }

    #[test]
    fn a_pause_makes_up_for_the_difference() {
        // 100 a second take 10 ms each; 125 take 8 ms: 2 ms more.
        assert!((fitted(100.0, 5000.0, 125.0).think_us - 7000.0).abs() < 1.0);
        assert!((fitted(100.0, 5000.0, 80.0).think_us - 2500.0).abs() < 1.0);
        assert_eq!(fitted(100.0, 5000.0, 102.0).think_us, 5000.0, "close enough");
    }

    #[test]
    fn what_never_pauses_gets_more_threads() {
        let job = fitted(100.0, 0.0, 50.0);
        assert_eq!((job.think_us, job.threads), (0.0, 2));
    }

    #[test]
    fn other_jobs_are_not_taken_for_it() {
        let mut wanted = plan("program-a-files-a", 10.0, 0.0);
        assert_eq!(adjust(&mut wanted, &plan("program-a-files-aa", 5.0, 0.0)).compared, 0);
    }
}
