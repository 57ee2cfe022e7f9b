//! The watchers of the load: none, iowhy, perf, bpftrace.

use crate::command;
use crate::error::Context;
use crate::machine;
use crate::recorded::RecordedTotals;
use crate::scratch::Scratch;
use crate::{LabError, Result, iowhy, process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A one-line biosnoop: one line per request, as people type it.
const SNOOP: &str = include_str!("../../../programs/snoop.bt");

/// The watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// `iowhy record` with its defaults, a budget among them.
    Iowhy,
    /// `iowhy record --every`: without a budget.
    Every,
    /// Requests only.
    Requests,
    /// All but the waits of threads.
    NoWaits,
    /// Everything except wait chains.
    NoChains,
    /// All but what programs do with files.
    NoFiles,
    /// All but the samples of each second.
    NoSamples,
    /// All but stacks.
    NoStacks,
    /// `perf record` of two tracepoints.
    Perf,
    /// A bpftrace one-liner.
    Bpftrace,
}

impl Variant {
    /// All variants, with those that are measured where only the total matters.
    pub const ALL: &[Variant] = &[
        Variant::Iowhy,
        Variant::Every,
        Variant::Requests,
        Variant::NoWaits,
        Variant::NoChains,
        Variant::NoFiles,
        Variant::NoSamples,
        Variant::NoStacks,
        Variant::Perf,
        Variant::Bpftrace,
    ];
    pub const WHOLE: &[Variant] =
        &[Variant::Iowhy, Variant::Every, Variant::Requests, Variant::Perf, Variant::Bpftrace];

    /// The variants that are measured with loads that do no I/O.
    pub const WITHIN_AND_EVERY: &[Variant] = &[Variant::Iowhy, Variant::Every];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Iowhy => "iowhy",
            Variant::Every => "iowhy --every",
            Variant::Requests => "iowhy, requests alone",
            Variant::NoWaits => "iowhy --no-waits",
            Variant::NoChains => "iowhy --no-chains",
            Variant::NoFiles => "iowhy --no-files",
            Variant::NoSamples => "iowhy --no-samples",
            Variant::NoStacks => "iowhy --stacks 0",
            Variant::Perf => "perf",
            Variant::Bpftrace => "bpftrace",
        }
    }

    /// Its description on the page.
    pub fn meaning(self) -> &'static str {
        match self {
            Variant::Iowhy => "`iowhy record`, its defaults, recording on a disk",
            Variant::Every => "`iowhy record --every`: without a budget",
            Variant::Requests => {
                "`--every --no-waits --no-files --no-samples`: every request, who, what and stacks"
            }
            Variant::NoWaits => "`--every --no-waits`",
            Variant::NoChains => "`--every --no-chains`: waits, but not who waited for whom",
            Variant::NoFiles => "`--every --no-files`: no system calls, io_uring or faults",
            Variant::NoSamples => "`--every --no-samples`",
            Variant::NoStacks => "`--every --stacks 0`",
            Variant::Perf => "`perf record -a -e block:block_rq_issue -e block:block_rq_complete`",
            Variant::Bpftrace => "a bpftrace snoop: one printed line per request",
        }
    }

    /// Its flags; `None` if it is not iowhy.
    fn leaves_out(self) -> Option<&'static [&'static str]> {
        match self {
            Variant::Iowhy => Some(&[]),
            Variant::Every => Some(&["--every"]),
            Variant::Requests => Some(&["--every", "--no-waits", "--no-files", "--no-samples"]),
            Variant::NoWaits => Some(&["--every", "--no-waits"]),
            Variant::NoChains => Some(&["--every", "--no-chains"]),
            Variant::NoFiles => Some(&["--every", "--no-files"]),
            Variant::NoSamples => Some(&["--every", "--no-samples"]),
            Variant::NoStacks => Some(&["--every", "--stacks", "0"]),
            Variant::Perf | Variant::Bpftrace => None,
        }
    }

    /// Whether it is iowhy, which reports its losses.
    pub fn is_iowhy(self) -> bool {
        self.leaves_out().is_some()
    }

    /// Returns its command, which writes to `output`.
    fn command(self, output: &Path) -> Result<Command> {
        if let Some(options) = self.leaves_out() {
            let mut command = Command::new(iowhy::binary()?);
            command.arg("record").args(options).arg("-o").arg(output);
            return Ok(command);
        }
        let mut command = Command::new(command::find(self.name())?);
        if self == Variant::Perf {
            let events = ["-e", "block:block_rq_issue", "-e", "block:block_rq_complete"];
            command.args(["record", "-q", "-a"]).args(events);
        } else {
            command.args(["-e", SNOOP]);
        }
        command.arg("-o").arg(output);
        Ok(command)
    }
}

/// A running variant, which is ended when it is dropped.
pub struct RunningVariant {
    variant: Variant,
    child: Child,
    output: PathBuf,
}

/// The files of a variant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    pub bytes: u64,
    /// Number of recorded requests; 0 if it is not known.
    pub requests: u64,
    pub lost: u64,
}

impl RunningVariant {
    /// Starts it and waits until it watches.
    pub fn start(scratch: &Scratch, variant: Variant) -> Result<RunningVariant> {
        let output = scratch.fresh(variant.name());
        let mut command = variant.command(&output)?;
        let messages = scratch.fresh("messages");
        let file = File::create(&messages).context(|| format!("make {}", messages.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().context(|| format!("start {}", variant.name()))?;
        let mut watcher = RunningVariant { variant, child, output };
        watcher.wait_until_ready(&messages)?;
        Ok(watcher)
    }

    /// Waits until all of its programs are attached: at most two seconds after the first output.
    fn wait_until_ready(&mut self, messages: &Path) -> Result<()> {
        let start = Instant::now();
        while !self.output.exists() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(2));
        let Some(status) = self.child.try_wait().ok().flatten() else {
            return Ok(());
        };
        let said = fs::read_to_string(messages).unwrap_or_default();
        let cause = format!("it ended with {status}: {}", said.trim());
        Err(LabError::failed(format!("start {}", self.variant.name()), cause))
    }

    /// CPU time of its process so far.
    pub fn cpu_seconds(&self) -> f64 {
        machine::cpu_seconds_of(self.child.id()).unwrap_or(0.0)
    }

    /// Returns the bytes of its output file so far; 0 for a watcher that writes a folder.
    pub fn written(&self) -> u64 {
        fs::metadata(&self.output).map_or(0, |about| if about.is_file() { about.len() } else { 0 })
    }

    /// Ends it as Ctrl-C would, and measures its files.
    pub fn stop(mut self) -> Result<Left> {
        process::end(&mut self.child);
        let left = if self.variant.is_iowhy() {
            let weight = RecordedTotals::from_folder(&self.output)?;
            Left { bytes: weight.bytes, requests: weight.requests, lost: weight.lost }
        } else {
            Left { bytes: self.written(), ..Left::default() }
        };
        let _gone = fs::remove_dir_all(&self.output).or_else(|_| fs::remove_file(&self.output));
        Ok(left)
    }
}

impl Drop for RunningVariant {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}
