//! `cargo lab bench-views`: the views beside the tools that they replace, on one load in one run.
//!
//! What does not belong here: what the figures mean (docs/views.md).

use crate::bench::machine_lines;
use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{Access, Engine, Job};
use crate::scratch::Scratch;
use crate::{Error, Result, command, iowhy, machine, page, process};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How long to look.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Seconds that every tool looks at the load.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Requests a second in each direction.
    #[arg(long, default_value_t = 1000)]
    pub rate: u64,
    /// The page whose marked part is replaced by the result.
    #[arg(long, default_value = "docs/views.md")]
    pub page: PathBuf,
    /// Only print the result.
    #[arg(long)]
    pub dry_run: bool,
}

/// One figure of two tools.
struct Line {
    figure: String,
    theirs: f64,
    ours: f64,
}

/// Runs the load and every tool, says what came out, and writes it into the page.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let load = machine::load_average();
    let lines = machine_lines().join("; ");
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 256 << 20)?;
    let job = Job::new(device.path(), Engine::Psync, Access::RandomRead, 4096)
        .direct()
        .with("rw", "randrw")
        .with("thread", "1")
        .with("rate_iops", format!("{0},{0}", settings.rate))
        .timed(settings.seconds + 8);
    let mut command = job.command(&scratch.fresh("fio"))?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut fio = command.spawn().context(|| "start fio".to_owned())?;
    thread::sleep(Duration::from_secs(2));
    let answers = answers(settings, device.name());
    let pid = fio.id();
    process::end(&mut fio);
    let table = compare(&answers?, pid)?;
    let mut part = String::new();
    write(&mut part, settings, &format!("{lines}; load average {load} before"), &table)
        .context(|| "write the table".to_owned())?;
    say(&part);
    if settings.dry_run { Ok(()) } else { page::replace(&settings.page, "bench-views", &part) }
}

/// What the tools said.
struct Answers {
    iostat: String,
    pidstat: String,
    biolatency: String,
    stat: String,
    proc: String,
    latency: String,
}

/// Asks all of them at once.
fn answers(settings: &Settings, device: &str) -> Result<Answers> {
    let seconds = settings.seconds.to_string();
    let own = iowhy::binary()?;
    let view = |name: &str, more: &[&str]| {
        let mut command = Command::new(&own);
        command.args([name, "--json"]).args(more).args([seconds.as_str(), "1"]);
        command
    };
    let tool = |name: &str, more: &[&str]| -> Result<Command> {
        let mut command = Command::new(command::find(name)?);
        command.env("LC_ALL", "C").args(more);
        Ok(command)
    };
    let commands = [
        tool("iostat", &["-x", "-d", "-y", "-o", "JSON", &seconds, "1", device])?,
        tool("pidstat", &["-d", &seconds, "1"])?,
        tool("biolatency", &["-d", device, &seconds, "1"])?,
        view("stat", &["-d", device]),
        view("proc", &[]),
        view("latency", &["-d", device]),
    ];
    let asked: Vec<_> =
        commands.map(|command| thread::spawn(|| command::output_of(command))).into_iter().collect();
    let mut answers = Vec::new();
    for thread in asked {
        let answer = thread.join().map_err(|_| Error::failed("ask a tool", "it panicked"))?;
        answers.push(answer?);
    }
    let [iostat, pidstat, biolatency, stat, proc, latency] = answers
        .try_into()
        .map_err(|_| Error::failed("ask the tools", "not all of them answered"))?;
    Ok(Answers { iostat, pidstat, biolatency, stat, proc, latency })
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).context(|| "read a tool's JSON".to_owned())
}

fn compare(answers: &Answers, pid: u32) -> Result<Vec<Line>> {
    let theirs = json(&answers.iostat)?;
    let theirs = &theirs["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
    let ours = json(&answers.stat)?;
    let ours = &ours["figures"][0];
    let of = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let mut lines = Vec::new();
    let mut line = |figure: &str, theirs: f64, ours: f64| {
        lines.push(Line { figure: figure.to_owned(), theirs, ours });
    };
    for (letter, direction) in [("r", "read"), ("w", "write")] {
        let own = &ours["directions"][direction];
        let name = |figure: &str| figure.replacen('*', letter, 1);
        let pair = |figure: &str| of(&theirs[name(figure)]);
        line(&format!("iostat {}", name("*/s")), pair("*/s"), of(&own["requests_per_s"]));
        let kilobytes = of(&own["bytes_per_s"]) / 1024.0;
        line(&format!("iostat {}", name("*kB/s")), pair("*kB/s"), kilobytes);
        let await_ms = of(&own["await_ns"]) / 1e6;
        line(&format!("iostat {}", name("*_await")), pair("*_await"), await_ms);
        let counted = &ours["kernel"]["directions"][direction];
        let theirs = of(&counted["wait_ns"]) / 1e6 / of(&counted["requests"]);
        let figure = format!("the kernel's counters in iowhy's interval: {}", name("*_await"));
        line(&figure, theirs, await_ms);
    }
    let busy = of(&ours["util_share"]) * 100.0;
    let counted = of(&ours["kernel"]["util_share"]) * 100.0;
    line("the kernel's counters in iowhy's interval: %util", counted, busy);
    line("iostat aqu-sz", of(&theirs["aqu-sz"]), of(&ours["aqu_sz"]));
    line("iostat %util", of(&theirs["util"]), busy);
    processes(answers, pid, &mut line)?;
    let histogram = json(&answers.latency)?;
    let group = &histogram["figures"]["groups"][0];
    let requests = of(&group["stage"]["requests"]);
    let (counted, median) = biolatency(&answers.biolatency);
    line("biolatency, requests", counted, requests);
    line("biolatency, upper end of the median's row, µs", median, median_row(group));
    Ok(lines)
}

/// fio's rows of pidstat and of `iowhy proc`.
fn processes(answers: &Answers, pid: u32, line: &mut impl FnMut(&str, f64, f64)) -> Result<()> {
    let number = pid.to_string();
    let rows = answers.pidstat.lines().filter(|row| !row.starts_with("Average"));
    let fio = rows.filter(|row| row.split_whitespace().any(|word| word == number));
    let theirs = fio.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        // Time, UID, PID, kB_rd/s, kB_wr/s, kB_ccwr/s, iodelay, Command.
        let at = |back: usize| words.get(words.len().wrapping_sub(back))?.parse::<f64>().ok();
        (at(5).unwrap_or(0.0), at(4).unwrap_or(0.0))
    });
    let theirs = theirs.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let figures = json(&answers.proc)?;
    let rows = figures["figures"].as_array().cloned().unwrap_or_default();
    let own = rows.iter().filter(|row| row["pid"] == pid);
    let sum = |name: &str| -> f64 {
        own.clone().filter_map(|row| row[name].as_f64()).sum::<f64>() / 1024.0
    };
    line("pidstat kB_rd/s of fio", theirs.0, sum("read_bytes_per_s"));
    line("pidstat kB_wr/s of fio", theirs.1, sum("write_bytes_per_s"));
    Ok(())
}

/// How many requests biolatency counted, and where the row of the median ends, µs.
fn biolatency(text: &str) -> (f64, f64) {
    let rows: Vec<(f64, f64)> = text
        .lines()
        .filter_map(|row| {
            let (range, rest) = row.split_once(':')?;
            let (_, to) = range.split_once("->")?;
            let count = rest.split('|').next()?.trim().parse::<f64>().ok()?;
            Some((to.trim().parse::<f64>().ok()? + 1.0, count))
        })
        .collect();
    let all: f64 = rows.iter().map(|row| row.1).sum();
    (all, median_of(&rows))
}

/// The same of iowhy's histogram.
fn median_row(group: &Value) -> f64 {
    let buckets = group["histogram"].as_array().cloned().unwrap_or_default();
    let row =
        |bucket: &Value| Some((bucket["to_ns"].as_f64()? / 1000.0, bucket["requests"].as_f64()?));
    median_of(&buckets.iter().filter_map(row).collect::<Vec<_>>())
}

fn median_of(rows: &[(f64, f64)]) -> f64 {
    let all: f64 = rows.iter().map(|row| row.1).sum();
    let mut seen = 0.0;
    for (to, count) in rows {
        seen += count;
        if seen * 2.0 >= all {
            return *to;
        }
    }
    f64::NAN
}

fn write(
    part: &mut String,
    settings: &Settings,
    machine: &str,
    table: &[Line],
) -> std::fmt::Result {
    let Settings { seconds, rate, .. } = settings;
    writeln!(
        part,
        "{machine}. fio reads and writes {rate} random blocks of 4 KiB a second each, one at a time, \
         on a loop device in memory; every tool looks at {seconds} s of it, all at once. They do not \
         begin at the same instant, which is most of what differs. Command: `make bench-views`.\n"
    )?;
    writeln!(part, "| figure | theirs | iowhy | difference |\n|---|--:|--:|--:|")?;
    for Line { figure, theirs, ours } in table {
        let difference = match *theirs {
            0.0 => "-".to_owned(),
            theirs => format!("{:+.1} %", (ours / theirs - 1.0) * 100.0),
        };
        writeln!(part, "| {figure} | {theirs:.3} | {ours:.3} | {difference} |")?;
    }
    writeln!(
        part,
        "\niostat's `%util` counts clock ticks from getting a request; iowhy's is the time between \
         issue and completion, to the nanosecond. biolatency's rows are powers of two of \
         microseconds, iowhy's of nanoseconds (131 µs for 128)."
    )
}
