//! `cargo lab bench-screens`: the cost of drawing `iowhy top` with many busy processes, and the
//! time in which commands answer once their watch has ended.
//!
//! What does not belong here: the cost of a watch to the load (see [`super::capture`]).

use super::{BackgroundProcess, Benchmark, TableOutput, table_of};
use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, machine, process};
use rustix::process::Signal;
use std::fmt::Write;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long and with how many processes to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct DrawingSettings {
    /// Seconds over which CPU time is measured.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Seconds of each watch whose answer is timed.
    #[arg(long, default_value_t = 10)]
    pub watch: u64,
    /// Busy processes.
    #[arg(long, default_value_t = 500)]
    pub processes: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

const BYTES: u64 = 64 << 20;
/// Reads per second of each process: all of them show in each second.
const READS_PER_S: &str = "2";
/// Seconds after which the load ends by itself; it is ended when all was measured.
const LONGEST: u64 = 7200;
/// The time until a watch has begun, on a busy machine.
const BEGIN: Duration = Duration::from_secs(5);
/// The share of a CPU that drawing may take, and the time of an answer.
const MOST_CPU: f64 = 0.02;
const MOST_ANSWER: Duration = Duration::from_secs(1);
/// The time that an answer with a diagnosis may take.
const MOST_DIAGNOSIS: Duration = Duration::from_millis(200);
/// The number of [`COMMANDS`] with a diagnosis.
const WITH_DIAGNOSIS: usize = 3;

/// Commands that answer once, when their watch ends. Views would show an interval of ten minutes.
const COMMANDS: &[&[&str]] = &[
    &["-t", "600"],
    &["--full", "-t", "600"],
    &["--json=brief", "-t", "600"],
    &["blame", "-t", "600"],
    &["chains", "-t", "600"],
    &["stages", "-t", "600"],
    &["stat", "600"],
    &["proc", "600"],
    &["waits", "600"],
    &["files", "600"],
    &["latency", "600"],
    &["stacks", "600"],
    &["cache", "600"],
];

impl Benchmark for DrawingSettings {
    const TARGET: &'static str = "bench-screens";
    const PAGE: &'static str = "docs/top.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, BYTES)?;
        fio::prepare(device.file(), BYTES)?;
        let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 4096).direct();
        let job = job.with("numjobs", self.processes.to_string()).with("rate_iops", READS_PER_S);
        let job = job.with("size", BYTES.to_string()).timed(LONGEST);
        let _load = BackgroundProcess::start(job.command(&scratch.fresh("fio.json"))?)?;
        // All of them have to be started.
        std::thread::sleep(BEGIN);
        progress("iowhy top");
        let top = of_top(self.seconds)?;
        progress("iowhy record");
        let record = of_record(&scratch, self.seconds)?;
        let mut answers = Vec::new();
        for arguments in COMMANDS {
            progress(&format!("iowhy {}", arguments.join(" ")));
            answers.push(AnswerTime::new(arguments, self.watch)?);
        }
        table_of(|part| table(part, about, self, [top, record], &answers))
    }
}

/// Shares of one CPU.
#[derive(Clone, Copy)]
struct CpuShares {
    /// The share of the first thread, which draws the screen if there is one.
    first_thread: f64,
    process: f64,
}

impl CpuShares {
    /// Measures a running process.
    fn measure(pid: u32, seconds: u64) -> Result<CpuShares> {
        let begun = Instant::now();
        let before = on_cpu_ns(pid)?;
        std::thread::sleep(Duration::from_secs(seconds));
        let after = on_cpu_ns(pid)?;
        let wall = begun.elapsed().as_nanos().max(1) as f64;
        let share = |before: u64, after: u64| after.saturating_sub(before) as f64 / wall;
        Ok(CpuShares { first_thread: share(before.0, after.0), process: share(before.1, after.1) })
    }
}

/// Time on a CPU of the first thread and of all threads, nanoseconds.
fn on_cpu_ns(pid: u32) -> Result<(u64, u64)> {
    let of_thread = |thread: &std::path::Path| -> Option<u64> {
        let text = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let threads = format!("/proc/{pid}/task");
    let entries = std::fs::read_dir(&threads).context(|| format!("read {threads}"))?;
    let all = entries.flatten().filter_map(|entry| of_thread(&entry.path())).sum();
    let first = of_thread(format!("{threads}/{pid}").as_ref());
    let ended = || LabError::failed("measure the CPU time of iowhy", "it ended");
    Ok((first.ok_or_else(ended)?, all))
}

/// `iowhy top` in its own terminal; ended on drop.
struct TopTerminal {
    socket: String,
}

impl TopTerminal {
    fn start() -> Result<TopTerminal> {
        let binary = iowhy::binary()?.to_string_lossy().into_owned();
        let terminal = TopTerminal { socket: format!("iowhy-bench-{}", std::process::id()) };
        let size = ["-x", "120", "-y", "40"];
        let start = ["-u", "-f", "/dev/null", "new-session", "-d"];
        terminal.tmux(&[&start[..], &size, &[&binary, "top"]].concat())?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut tmux = Command::new(command::find("tmux")?);
        tmux.args(["-L", &self.socket]).args(arguments).env("LC_ALL", "C.UTF-8");
        command::output_of(tmux)
    }

    /// The number of the process in it.
    fn pid(&self) -> Result<u32> {
        let text = self.tmux(&["list-panes", "-t", ":0", "-F", "#{pane_pid}"])?;
        let number = text.trim().parse();
        number.map_err(|_| LabError::failed("find the process of iowhy top", text))
    }
}

impl Drop for TopTerminal {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to end.
        let _ = self.tmux(&["kill-server"]);
    }
}

fn of_top(seconds: u64) -> Result<CpuShares> {
    let terminal = TopTerminal::start()?;
    std::thread::sleep(BEGIN);
    CpuShares::measure(terminal.pid()?, seconds)
}

fn of_record(scratch: &Scratch, seconds: u64) -> Result<CpuShares> {
    let mut record = Command::new(iowhy::binary()?);
    record.args(["record", "-t", "600", "-o"]).arg(scratch.fresh("recording"));
    let record = BackgroundProcess::start(record)?;
    std::thread::sleep(BEGIN);
    CpuShares::measure(record.0.id(), seconds)
}

/// The time in which a command answers after its watch was ended with Ctrl-C.
struct AnswerTime {
    command: String,
    first: Duration,
    last: Duration,
}

impl AnswerTime {
    fn new(arguments: &[&str], seconds: u64) -> Result<AnswerTime> {
        let mut watch = Command::new(iowhy::binary()?);
        watch.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let shown = arguments.iter().filter(|argument| !matches!(**argument, "-t" | "600"));
        let command = format!("iowhy {}", shown.copied().collect::<Vec<_>>().join(" "));
        let mut child = watch.spawn().context(|| format!("start {command}"))?;
        std::thread::sleep(BEGIN + Duration::from_secs(seconds));
        let ended = Instant::now();
        process::signal(&child, Signal::INT);
        let mut first = None;
        if let Some(mut output) = child.stdout.take() {
            let mut piece = [0; 4096];
            while let Ok(1..) = output.read(&mut piece) {
                first.get_or_insert_with(|| ended.elapsed());
            }
        }
        let last = ended.elapsed();
        process::wait_or_kill(&mut child, BEGIN);
        let first = first.ok_or_else(|| LabError::failed("time an answer", command.clone()))?;
        Ok(AnswerTime { command: command.trim_end().to_owned(), first, last })
    }
}

fn table(
    out: &mut String,
    about: &str,
    settings: &DrawingSettings,
    [top, record]: [CpuShares; 2],
    answers: &[AnswerTime],
) -> std::fmt::Result {
    let DrawingSettings { seconds, watch, processes, .. } = settings;
    writeln!(out, "{about}; {processes} processes with {READS_PER_S} reads per second each.\n")?;
    writeln!(out, "| over {seconds} s | of a CPU | goal |\n|---|--:|---|")?;
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let reached = |is: bool| if is { "reached" } else { "not reached" };
    let drawing = reached(top.first_thread < MOST_CPU);
    writeln!(
        out,
        "| `iowhy top`: drawing | {} | below 2 %: {drawing} |",
        percent(top.first_thread)
    )?;
    writeln!(out, "| `iowhy top` in all | {} | |", percent(top.process))?;
    writeln!(out, "| `iowhy record` in all | {} | |", percent(record.process))?;
    writeln!(out, "\nFrom the end of a watch of {watch} s (Ctrl-C) to the answer:\n")?;
    writeln!(out, "| command | first output | all of it | goal |\n|---|--:|--:|---|")?;
    for (index, answer) in answers.iter().enumerate() {
        let ms = |time: Duration| format!("{} ms", time.as_millis());
        let AnswerTime { command, first, last } = answer;
        let most = if index < WITH_DIAGNOSIS { MOST_DIAGNOSIS } else { MOST_ANSWER };
        let (most, goal) = (ms(most), reached(*first < most));
        writeln!(out, "| `{command}` | {} | {} | {most}: {goal} |", ms(*first), ms(*last))?;
    }
    Ok(())
}
