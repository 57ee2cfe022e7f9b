//! The cost of one operation of a lab's load, by the kernel's own counters: once with the cause,
//! once after it was removed. The difference is the impact that iowhy should find.
//!
//! Both are measured while iowhy watches, so both include its overhead. Measurement starts after
//! the watch has begun and ends shortly before it ends, so neither includes its startup and
//! shutdown.

use super::stage::LabStage;
use crate::Result;
use crate::error::Context;
use crate::process;
use std::fs;
use std::time::{Duration, Instant};

/// The time that a load needs by default to show that its cause was removed.
const NOTICE: Duration = Duration::from_millis(700);

/// If an operation costs more without the cause than this multiple of its cost with it, something
/// else interfered. Below that the cause costs nothing. Chosen.
const SLOWER: f64 = 1.1;

/// The definition of an operation, and of its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Bytes of the watched device, for a closed-loop load: the time between them.
    Bytes,
    /// Requests of the watched device: the duration of each.
    Requests,
    /// Reads and writes (system calls) of a single-threaded load that does nothing else: the time
    /// between them, less the CPU time of its process.
    Calls,
    /// Faults of the load's mapped files: the time between them, less the CPU time of its
    /// processes.
    Faults,
    /// Operations that the program itself counts (transactions, commands): the time between them.
    Own,
}

/// Removes a cause.
type Action = dyn FnOnce(&mut LabStage) -> Result<()>;

/// The removal of a cause while the load continues, and the measure of its impact.
pub struct Relief {
    /// The measure with and without the cause.
    pub measure: Measure,
    /// Removes the cause.
    pub action: Box<Action>,
    /// The time that the load needs until its cost without the cause can be measured.
    pub notice: Duration,
}

impl Relief {
    /// A relief that takes effect at once.
    pub fn new(
        measure: Measure,
        action: impl FnOnce(&mut LabStage) -> Result<()> + 'static,
    ) -> Relief {
        Relief { measure, action: Box::new(action), notice: NOTICE }
    }

    /// A relief that takes effect after `notice`.
    pub fn noticed_in(self, notice: Duration) -> Relief {
        Relief { notice, ..self }
    }
}

/// Fields of a device's counters (Documentation/block/stat.rst): sectors read and written; reads,
/// writes, discards and flushes; the milliseconds of each.
const SECTORS: &[usize] = &[2, 6];
const REQUESTS: &[usize] = &[0, 4, 11, 15];
const TIMES: &[usize] = &[3, 7, 14, 16];

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug)]
pub struct CounterReading {
    at: Instant,
    operations: u64,
    /// Milliseconds: for calls and faults the CPU time of the load, for requests their durations.
    time_ms: f64,
}

impl Measure {
    /// Reads the counters of the stage's device or of its processes.
    pub fn read(self, stage: &LabStage) -> Result<CounterReading> {
        let (device, pids) = (stage.device(), &stage.measured_pids());
        let at = Instant::now();
        let (operations, time_ms) = match self {
            Measure::Own => (stage.own_count()?, 0.0),
            Measure::Bytes => (sum_of(device, SECTORS)?, 0.0),
            Measure::Requests => (sum_of(device, REQUESTS)?, sum_of(device, TIMES)? as f64),
            Measure::Calls => with_cpu(pids, process::calls),
            Measure::Faults => with_cpu(pids, process::major_faults),
        };
        Ok(CounterReading { at, operations, time_ms })
    }

    /// Milliseconds per operation between two snapshots; `None` if there were no operations.
    pub fn cost(self, before: &CounterReading, after: &CounterReading) -> Option<f64> {
        let operations =
            after.operations.checked_sub(before.operations).filter(|count| *count > 0)? as f64;
        let time = after.time_ms - before.time_ms;
        let whole = (after.at - before.at).as_secs_f64() * 1e3;
        Some(match self {
            Measure::Requests => time / operations,
            Measure::Bytes | Measure::Calls | Measure::Faults | Measure::Own => {
                (whole - time).max(0.0) / operations
            }
        })
    }
}

/// The sum of some fields of a device's counters.
fn sum_of(device: &str, fields: &[usize]) -> Result<u64> {
    let path = format!("/sys/block/{device}/stat");
    let text = fs::read_to_string(&path).context(|| format!("read {path}"))?;
    let values: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Ok(fields.iter().map(|at| values.get(*at).copied().unwrap_or(0)).sum())
}

/// Operations of these processes, and their CPU time.
fn with_cpu(pids: &[u32], of: fn(u32) -> Option<u64>) -> (u64, f64) {
    let each = pids.iter().filter_map(|pid| Some((of(*pid)?, process::cpu_ms(*pid)?)));
    each.fold((0, 0.0), |sum, process| (sum.0 + process.0, sum.1 + process.1))
}

/// Returns the share of an operation's cost that vanished with the cause, or why it is unknown.
pub fn vanished(with: Option<f64>, without: Option<f64>) -> std::result::Result<f64, String> {
    match (with, without) {
        (None, _) => Err("the load did no operations".to_owned()),
        (_, None) => Err("the load did no operations without the cause".to_owned()),
        (Some(with), Some(without)) if without > SLOWER * with => Err(format!(
            "an operation took {with:.3} ms with the cause and {without:.3} ms without it"
        )),
        (Some(with), Some(without)) => Ok((1.0 - without / with.max(f64::MIN_POSITIVE)).max(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, operations: u64, time_ms: f64) -> CounterReading {
        CounterReading { at, operations, time_ms }
    }

    #[test]
    fn a_cost_is_the_time_of_one_operation() {
        let begun = Instant::now();
        let ended = begun + Duration::from_secs(2);
        let (before, after) = (reading(begun, 100, 50.0), reading(ended, 300, 450.0));
        assert_eq!(
            Measure::Bytes.cost(&reading(begun, 100, 0.0), &reading(ended, 300, 0.0)),
            Some(10.0)
        );
        assert_eq!(Measure::Requests.cost(&before, &after), Some(2.0));
        assert_eq!(Measure::Calls.cost(&before, &after), Some(8.0));
        assert_eq!(Measure::Calls.cost(&after, &after), None);
        // The counters of a process that has ended are gone.
        assert_eq!(Measure::Calls.cost(&after, &before), None);
    }

    #[test]
    fn what_cannot_be_told_is_no_number() {
        assert_eq!(vanished(Some(4.0), Some(1.0)), Ok(0.75));
        assert!(vanished(Some(1.0), Some(2.0)).is_err());
        assert!(vanished(None, Some(2.0)).is_err() && vanished(Some(1.0), None).is_err());
    }
}
