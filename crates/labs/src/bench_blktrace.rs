//! `cargo lab bench-blktrace`: captures that are known to the byte, analysed by iowhy and by
//! blkparse and btt in one run, whole processes side by side: the same text, the same figures, time
//! and memory.
//!
//! What does not belong here: making the captures (see [`crate::captures`]).

use crate::captures::{self, Mix};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Error, Result, command, iowhy};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much to measure.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Settings {
    /// Thousands of events of each capture.
    #[arg(long, default_value_t = 10_000)]
    pub thousands: u64,
    /// How often each program is run; the fastest run counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
}

/// One capture, by hand.
#[derive(Clone, Debug, clap::Args)]
pub struct Capture {
    /// The folder to write it into.
    pub folder: PathBuf,
    /// About how many events.
    #[arg(long, default_value_t = 20_000)]
    pub events: u64,
    /// Devices.
    #[arg(long, default_value_t = 3)]
    pub devices: u32,
    /// CPUs.
    #[arg(long, default_value_t = 4)]
    pub cpus: u32,
    /// Q G I D C only.
    #[arg(long)]
    pub plain: bool,
}

impl Capture {
    /// Writes it.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn write(&self) -> Result<()> {
        let mix = if self.plain { Mix::Plain } else { Mix::Rich };
        let (events, devices, cpus) = (self.events, self.devices, self.cpus);
        let settings =
            captures::Settings { events, devices, cpus, mix, ..captures::Settings::default() };
        fs::create_dir_all(&self.folder).context(|| format!("make {}", self.folder.display()))?;
        captures::generate(&self.folder, settings)
            .map(|_| ())
            .context(|| format!("write a capture into {}", self.folder.display()))
    }
}

/// What one program took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    time: Duration,
    /// The most anonymous memory that was seen, in KiB.
    memory: u64,
}

/// Measures both kinds of capture and says what came out.
///
/// # Errors
/// A program that is missing or fails.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let scratch = Scratch::new()?;
    let events = settings.thousands * 1000;
    let plain = captures::Settings {
        events,
        devices: 1,
        cpus: 4,
        mix: Mix::Plain,
        ..captures::Settings::default()
    };
    let rich = captures::Settings { devices: 40, mix: Mix::Unsplit, ..plain };
    for (title, capture) in
        [("Q G I D C, 1 device, 4 CPUs", plain), ("everything, 40 devices", rich)]
    {
        let folder = scratch.path().join(format!("capture{}", capture.devices));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let records = captures::generate(&folder, capture)
            .context(|| format!("write a capture into {}", folder.display()))?;
        say(&format!("\n### {title}: {records} records\n"));
        compare(&folder, capture, settings.rounds, say)?;
        fs::remove_dir_all(&folder).context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

fn compare(
    folder: &Path,
    capture: captures::Settings,
    rounds: usize,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let names: Vec<_> = (0..capture.devices).map(captures::device_name).collect();
    let given = |program: &Path, first: &[&str], flag: Option<&str>| {
        let mut command = Command::new(program);
        command.current_dir(folder).args(first);
        for name in &names {
            command.args(flag).arg(name);
        }
        command
    };
    let (blkparse, btt) = (command::find("blkparse")?, command::find("btt")?);
    let iowhy = iowhy::binary()?;
    let measure =
        |make: &dyn Fn() -> Command, output: &str| best(make, &folder.join(output), rounds);
    let dump = measure(&|| given(&blkparse, &["-q", "-O", "-d", "dump"], Some("-i")), "null")?;
    let pair = || {
        let mut command = Command::new(&btt);
        command.current_dir(folder).args(["-i", "dump", "-o", "btt"]);
        command
    };
    let paired = measure(&pair, "null")?;
    let text = measure(&|| given(&blkparse, &["-o", "theirs"], Some("-i")), "null")?;
    let stages = measure(&|| given(&iowhy, &["stages"], None), "stages")?;
    let compatible = measure(&|| given(&iowhy, &["stages", "--btt-compat"], None), "figures")?;
    let events = measure(&|| given(&iowhy, &["events", "--blkparse-compat"], None), "ours")?;
    let both = Cost { time: dump.time + paired.time, memory: dump.memory.max(paired.memory) };
    say("| program | time | against | memory |\n|---|---|---|---|");
    row(say, "blkparse -d, then btt", both, both);
    row(say, "iowhy stages", stages, both);
    row(say, "iowhy stages --btt-compat", compatible, both);
    row(say, "blkparse", text, text);
    row(say, "iowhy events --blkparse-compat", events, text);
    say(&format!(
        "\nfigures {}, text {}",
        verdict(folder, "figures", "btt.avg")?,
        verdict(folder, "ours", "theirs")?
    ));
    Ok(())
}

fn row(say: &mut dyn FnMut(&str), program: &str, cost: Cost, against: Cost) {
    let times = against.time.as_secs_f64() / cost.time.as_secs_f64();
    let (seconds, memory) = (cost.time.as_secs_f64(), cost.memory as f64 / 1024.0);
    say(&format!("| {program} | {seconds:.2} s | {times:.1} x | {memory:.0} MiB |"));
}

fn verdict(folder: &Path, ours: &str, theirs: &str) -> Result<String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).context(|| format!("read {}", path.display()))
    };
    let (ours, theirs) = (read(ours)?, read(theirs)?);
    if ours == theirs {
        return Ok("equal to the byte".to_owned());
    }
    let lines =
        |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (ours, theirs) = (lines(&ours), lines(&theirs));
    let differing = ours.iter().zip(&theirs).filter(|(our, their)| our != their).count();
    Ok(format!("differ in {} lines", differing + ours.len().abs_diff(theirs.len())))
}

/// The fastest of `rounds` runs.
fn best(make: &dyn Fn() -> Command, output: &Path, rounds: usize) -> Result<Cost> {
    let mut best: Option<Cost> = None;
    for _ in 0..rounds.max(1) {
        let cost = once(make(), output)?;
        best = Some(match best {
            Some(other) => {
                Cost { time: other.time.min(cost.time), memory: other.memory.max(cost.memory) }
            }
            None => cost,
        });
    }
    best.ok_or_else(|| Error::failed("measure", "nothing was run"))
}

fn once(mut command: Command, output: &Path) -> Result<Cost> {
    let shown = command::shown(&command);
    let file = File::create(output).context(|| format!("write {}", output.display()))?;
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()
        .context(|| format!("run {shown}"))?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut memory = 0;
    loop {
        memory = memory.max(anonymous(&status));
        if let Some(ended) = child.try_wait().context(|| format!("wait for {shown}"))? {
            let cost = Cost { time: began.elapsed(), memory };
            return if ended.success() {
                Ok(cost)
            } else {
                Err(Error::failed(format!("run {shown}"), ended))
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Anonymous memory of a process in KiB; 0 once it has ended.
fn anonymous(status: &Path) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
