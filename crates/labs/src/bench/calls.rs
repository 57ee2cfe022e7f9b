//! `cargo lab bench-calls`: the cost of a system call untraced, with an empty program, and with
//! iowhy.
//!
//! What does not belong here: the cost for a load (see the rest of [`super`]).

use super::machine_lines;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, machine, page, process};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct CallSettings {
    /// How often each watcher comes; the best of all counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// The page whose marked part is replaced by the result.
    #[arg(long, default_value = "docs/files.md")]
    pub page: PathBuf,
    /// Only print the result.
    #[arg(long)]
    pub dry_run: bool,
}

/// Calls between two readings of the clock, and number of repetitions per watcher.
const CALLS: u32 = 20_000;
const TIMES: usize = 60;
/// Time for a watcher to attach, and for iowhy to measure the rate of calls and select its level.
const SETTLES: Duration = Duration::from_millis(3500);

/// The tracer of system calls.
#[derive(Clone, Copy)]
enum Looks {
    Nobody,
    /// bpftrace, with programs that do nothing.
    Empty(&'static str),
    /// iowhy, with these arguments.
    Iowhy(&'static [&'static str]),
}

/// The tracers in the order of the table, and their names on the page.
const WATCHERS: [(&str, Looks); 5] = [
    ("untraced", Looks::Nobody),
    (
        "an empty program at the end of each call",
        Looks::Empty("tracepoint:raw_syscalls:sys_exit { }"),
    ),
    (
        "an empty pair at beginning and end",
        Looks::Empty("tracepoint:raw_syscalls:sys_exit { } tracepoint:raw_syscalls:sys_enter { }"),
    ),
    ("iowhy, within its budget", Looks::Iowhy(&[])),
    ("iowhy --every: calls counted and timed", Looks::Iowhy(&["--every"])),
];

/// The best of each watcher: `getppid`, `pread`, `stat`, nanoseconds.
type Best = [[f64; 3]; WATCHERS.len()];

/// Measures, and writes the table into the page.
pub fn run(settings: &CallSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let path = scratch.fresh("cached");
    fs::write(&path, [0; 4096]).context(|| format!("write {}", path.display()))?;
    let mut best: Best = [[f64::INFINITY; 3]; WATCHERS.len()];
    for _ in 0..settings.rounds.max(1) {
        for (best, (_, looks)) in best.iter_mut().zip(WATCHERS) {
            let watcher = looks.start(&scratch)?;
            let now = nanoseconds(&path)?;
            drop(watcher);
            for (best, now) in best.iter_mut().zip(now) {
                *best = best.min(now);
            }
        }
    }
    let mut part = String::new();
    table(&mut part, settings, &best).context(|| "write the table".to_owned())?;
    say(&part);
    if settings.dry_run { Ok(()) } else { page::replace(&settings.page, "bench-calls", &part) }
}

/// Ended on drop.
struct CallWatcher(Child);

impl Drop for CallWatcher {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}

impl Looks {
    fn start(self, scratch: &Scratch) -> Result<Option<CallWatcher>> {
        let mut command = match self {
            Looks::Nobody => return Ok(None),
            Looks::Empty(program) => {
                let mut command = Command::new(command::find("bpftrace")?);
                command.args(["-e", program]);
                command
            }
            Looks::Iowhy(arguments) => {
                let mut command = Command::new(iowhy::binary()?);
                command.args(["record", "--no-waits", "--no-samples"]).args(arguments);
                command.arg("-o").arg(scratch.fresh("recording"));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context(|| format!("start {}", command::shown(&command)))?;
        let mut watcher = CallWatcher(child);
        // Calls at full rate, so that iowhy knows it.
        let start = Instant::now();
        while start.elapsed() < SETTLES {
            let _parent = rustix::process::getppid();
        }
        match watcher.0.try_wait() {
            Ok(None) => Ok(Some(watcher)),
            ended => {
                let cause = format!("it ended: {ended:?}");
                Err(LabError::failed(format!("run {}", command::shown(&command)), cause))
            }
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

fn table(part: &mut String, settings: &CallSettings, best: &Best) -> std::fmt::Result {
    writeln!(
        part,
        "{}. One thread calls without a pause; the best of {TIMES} times {CALLS} calls, {} times \
         for each row. Command: `make bench-calls`.\n",
        machine_lines().join("; "),
        settings.rounds
    )?;
    writeln!(part, "| a call takes, ns | `getppid` | cached 1-byte `pread` | `stat` |")?;
    writeln!(part, "|---|--:|--:|--:|")?;
    for ((name, _), best) in WATCHERS.iter().zip(best) {
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
