//! What watches the load: nothing, iowhy, perf, bpftrace.

use crate::command;
use crate::error::Context;
use crate::machine;
use crate::recorded::Weight;
use crate::scratch::Scratch;
use crate::{Error, Result, iowhy, process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A one-line biosnoop: one line per request, as people type it.
const SNOOP: &str = r#"
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; @who[args->dev, args->sector] = comm; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
  printf("%-16s %d %s %d %d %d us\n", @who[args->dev, args->sector], args->dev, args->rwbs, args->sector,
    args->nr_sector, (nsecs - @start[args->dev, args->sector]) / 1000);
  delete(@start[args->dev, args->sector]); delete(@who[args->dev, args->sector]); }
"#;

/// What watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Nothing.
    Base,
    /// `iowhy record` with its defaults.
    Iowhy,
    /// The same without the waits of threads.
    Requests,
    /// The same without what programs do with files.
    NoFiles,
    /// `perf record` of two tracepoints.
    Perf,
    /// A bpftrace one-liner.
    Bpftrace,
}

impl Variant {
    pub const ALL: [Variant; 6] = [
        Variant::Base,
        Variant::Iowhy,
        Variant::Requests,
        Variant::NoFiles,
        Variant::Perf,
        Variant::Bpftrace,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Base => "untraced",
            Variant::Iowhy => "iowhy",
            Variant::Requests => "iowhy --no-waits",
            Variant::NoFiles => "iowhy --no-files",
            Variant::Perf => "perf",
            Variant::Bpftrace => "bpftrace",
        }
    }

    /// What the page says about it.
    pub fn meaning(self) -> &'static str {
        match self {
            Variant::Base => "nothing watches",
            Variant::Iowhy => "`iowhy record`, its defaults, recording on a disk",
            Variant::Requests => "`iowhy record --no-waits`: requests, but not where threads wait",
            Variant::NoFiles => "`iowhy record --no-files`: no system calls, io_uring or faults",
            Variant::Perf => "`perf record -a -e block:block_rq_issue -e block:block_rq_complete`",
            Variant::Bpftrace => "a bpftrace snoop: one printed line per request",
        }
    }

    /// Its command; what it writes goes to `output`.
    fn command(self, output: &Path) -> Result<Option<Command>> {
        let mut command = match self {
            Variant::Base => return Ok(None),
            Variant::Iowhy | Variant::Requests | Variant::NoFiles => Command::new(iowhy::binary()?),
            Variant::Perf => Command::new(command::find("perf")?),
            Variant::Bpftrace => Command::new(command::find("bpftrace")?),
        };
        match self {
            Variant::Base | Variant::Iowhy => command.args(["record", "-o"]).arg(output),
            Variant::Requests => command.args(["record", "--no-waits", "-o"]).arg(output),
            Variant::NoFiles => command.args(["record", "--no-files", "-o"]).arg(output),
            Variant::Perf => {
                let events = ["-e", "block:block_rq_issue", "-e", "block:block_rq_complete"];
                command.args(["record", "-q", "-a"]).args(events).arg("-o").arg(output)
            }
            Variant::Bpftrace => command.args(["-e", SNOOP, "-o"]).arg(output),
        };
        Ok(Some(command))
    }
}

/// A running variant; ended on drop whatever happens.
pub struct Watcher {
    variant: Variant,
    child: Option<Child>,
    output: PathBuf,
}

/// What a variant left on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    pub bytes: u64,
    pub lost: u64,
}

impl Watcher {
    /// Starts it and waits until it watches.
    pub fn start(scratch: &Scratch, variant: Variant) -> Result<Watcher> {
        let output = scratch.fresh(variant.name());
        let mut watcher = Watcher { variant, child: None, output };
        if let Some(mut command) = variant.command(&watcher.output)? {
            let messages = scratch.fresh("messages");
            let file =
                File::create(&messages).context(|| format!("make {}", messages.display()))?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
            let started = command.spawn().context(|| format!("start {}", variant.name()))?;
            watcher.child = Some(started);
            watcher.wait_until_ready(&messages)?;
        }
        Ok(watcher)
    }

    /// All of them have attached within two seconds of their output's first byte.
    fn wait_until_ready(&mut self, messages: &Path) -> Result<()> {
        let start = Instant::now();
        while !self.output.exists() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(2));
        let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        match ended {
            None => Ok(()),
            Some(status) => {
                let said = fs::read_to_string(messages).unwrap_or_default();
                let cause = format!("it ended with {status}: {}", said.trim());
                Err(Error::failed(format!("start {}", self.variant.name()), cause))
            }
        }
    }

    /// The number of its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// CPU time of its process so far.
    pub fn cpu_seconds(&self) -> f64 {
        self.pid().and_then(machine::cpu_seconds_of).unwrap_or(0.0)
    }

    /// Ends it as Ctrl-C would, and weighs what it left.
    pub fn stop(mut self) -> Result<Left> {
        self.end();
        let about = fs::metadata(&self.output);
        let left = match (self.variant, about) {
            (Variant::Base, _) => Left::default(),
            (Variant::Iowhy | Variant::Requests | Variant::NoFiles, _) => {
                let weight = Weight::of(&self.output)?;
                Left { bytes: weight.bytes, lost: weight.lost }
            }
            (_, about) => Left { bytes: about.map_or(0, |about| about.len()), lost: 0 },
        };
        let _gone = fs::remove_dir_all(&self.output).or_else(|_| fs::remove_file(&self.output));
        Ok(left)
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::end(&mut child);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}
