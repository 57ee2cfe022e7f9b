//! `cargo lab bench-calls`: the cost of a system call untraced, with an empty program, and with
//! iowhy.
//!
//! What does not belong here: the cost for a load (see the rest of [`super`]).

use super::{BackgroundProcess, Benchmark, TableOutput, table_of};
use crate::devices::DebugFs;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, machine};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct CallSettings {
    /// How often each tracer is measured; the best of all counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// Calls between two readings of the clock, and number of repetitions per tracer.
const CALLS: u32 = 20_000;
const TIMES: usize = 60;
/// Time for a tracer to attach, and for iowhy to measure the rate of calls and select its level.
const SETTLES: Duration = Duration::from_millis(3500);

/// The tracer of system calls.
#[derive(Clone, Copy)]
enum CallTracer {
    Untraced,
    /// bpftrace, with programs that do nothing.
    Empty(&'static str),
    /// iowhy, with these arguments.
    Iowhy(&'static [&'static str]),
}

/// The tracers in the order of the table, and their names on the page.
const TRACERS: [(&str, CallTracer); 5] = [
    ("untraced", CallTracer::Untraced),
    (
        "an empty program at the end of each call",
        CallTracer::Empty("tracepoint:raw_syscalls:sys_exit { }"),
    ),
    (
        "an empty pair at beginning and end",
        CallTracer::Empty(
            "tracepoint:raw_syscalls:sys_exit { } tracepoint:raw_syscalls:sys_enter { }",
        ),
    ),
    ("iowhy, within its budget", CallTracer::Iowhy(&[])),
    ("iowhy --every: calls counted and timed", CallTracer::Iowhy(&["--every"])),
];

/// The best of each tracer: `getppid`, `pread`, `stat`, nanoseconds.
type Best = [[f64; 3]; TRACERS.len()];

impl Benchmark for CallSettings {
    const TARGET: &'static str = "bench-calls";
    const PAGE: &'static str = "docs/files.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, _progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        // debugfs brings tracefs, which bpftrace and perf need; iowhy does not.
        let _debugfs = DebugFs::new()?;
        let scratch = Scratch::new()?;
        let path = scratch.fresh("cached");
        fs::write(&path, [0; 4096]).context(|| format!("write {}", path.display()))?;
        let mut best: Best = [[f64::INFINITY; 3]; TRACERS.len()];
        for _ in 0..self.rounds.max(1) {
            for (best, (_, tracer)) in best.iter_mut().zip(TRACERS) {
                let running = tracer.start(&scratch)?;
                let now = nanoseconds(&path)?;
                drop(running);
                for (best, now) in best.iter_mut().zip(now) {
                    *best = best.min(now);
                }
            }
        }
        table_of(|part| table(part, about, self, &best))
    }
}

impl CallTracer {
    fn start(self, scratch: &Scratch) -> Result<Option<BackgroundProcess>> {
        let command = match self {
            CallTracer::Untraced => return Ok(None),
            CallTracer::Empty(program) => {
                let mut command = Command::new(command::find("bpftrace")?);
                command.args(["-e", program]);
                command
            }
            CallTracer::Iowhy(arguments) => {
                let mut command = Command::new(iowhy::binary()?);
                command.args(["record", "--no-waits", "--no-samples"]).args(arguments);
                command.arg("-o").arg(scratch.fresh("recording"));
                command
            }
        };
        let shown = command::shown(&command);
        let mut tracer = BackgroundProcess::start(command)?;
        // Calls at full rate, so that iowhy knows it.
        let start = Instant::now();
        while start.elapsed() < SETTLES {
            let _parent = rustix::process::getppid();
        }
        match tracer.0.try_wait() {
            Ok(None) => Ok(Some(tracer)),
            ended => Err(LabError::failed(format!("run {shown}"), format!("it ended: {ended:?}"))),
        }
    }
}

/// The best time of each call.
fn nanoseconds(path: &Path) -> Result<[f64; 3]> {
    let file = File::open(path).context(|| format!("open {}", path.display()))?;
    let mut byte = [0];
    Ok([
        best_of(|| {
            let _parent = rustix::process::getppid();
        }),
        best_of(|| {
            // The content does not matter.
            let _read = rustix::io::pread(&file, &mut byte, 0);
        }),
        best_of(|| {
            let _known = rustix::fs::stat(path);
        }),
    ])
}

fn best_of(mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..TIMES {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    best
}

fn table(part: &mut String, about: &str, settings: &CallSettings, best: &Best) -> std::fmt::Result {
    writeln!(
        part,
        "{about}. One thread calls without a pause; the best of {TIMES} times {CALLS} calls, {} \
         times for each row. Command: `make bench-calls`.\n",
        settings.rounds
    )?;
    writeln!(part, "| a call takes, ns | `getppid` | cached 1-byte `pread` | `stat` |")?;
    writeln!(part, "|---|--:|--:|--:|")?;
    for ((name, _), best) in TRACERS.iter().zip(best) {
        let [getppid, pread, stat] = best;
        writeln!(part, "| {name} | {getppid:.0} | {pread:.0} | {stat:.0} |")?;
    }
    let above = |ours: usize, floor: usize| {
        let more = |call: usize| best[ours][call] - best[floor][call];
        format!("{:+.0}, {:+.0}, {:+.0}", more(0), more(1), more(2))
    };
    writeln!(
        part,
        "| counted, above an empty program at the end | {} |",
        above(3, 1).replace(", ", " | ")
    )?;
    writeln!(
        part,
        "| counted and timed, above an empty pair | {} |",
        above(4, 2).replace(", ", " | ")
    )
}
