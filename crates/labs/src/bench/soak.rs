//! `cargo lab soak`: the memory and files of the flight recorder after hours of churn and trouble.
//!
//! One daemon runs through phases of equal length: rest, churn of cgroups, processes and devices,
//! clients that stall, a full state disk, one that hangs, and rest again. It keeps its state on a
//! disk of the test. Incidents are requested in every phase. At the end of each phase, memory,
//! threads and open files of the daemon, and the files that it wrote, are counted.
//!
//! What does not belong here: its cost to a load (see [`super::recorder`]).

use super::daemon::RunningDaemon;
use super::{Benchmark, TableOutput, table_of};
use crate::devices::{
    Backing, BlockDevice as _, FileSystemKind, Hand, LabCgroup, LabFileSystem, LoopDevice,
    ServedDevice,
};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, machine};
use std::fmt::Write;
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the daemon is soaked.
#[derive(Clone, Debug, clap::Args)]
pub struct SoakSettings {
    /// Minutes of all phases together.
    #[arg(long, default_value_t = 120)]
    pub minutes: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// The disk with the daemon's state: its incidents may take half of it.
const STATE_BYTES: u64 = 256 << 20;
const MOST_INCIDENTS_MB: u64 = 96;
/// The address of its metrics: no other program's port, as far as one can know.
const METRICS: &str = "127.0.0.1:39797";
/// Clients that connect and then send nothing, at each endpoint.
const SILENT_CLIENTS: usize = 32;
/// Cgroups made and removed in a second.
const CGROUPS_PER_SECOND: u64 = 1000;
/// The growth after the first rest that a daemon may have, as a factor.
const MOST_GROWTH: f64 = 1.25;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SoakPhase {
    Rest,
    Churn,
    Clients,
    FullDisk,
    HungDisk,
    RestAgain,
}

impl SoakPhase {
    const ALL: [SoakPhase; 6] = [
        SoakPhase::Rest,
        SoakPhase::Churn,
        SoakPhase::Clients,
        SoakPhase::FullDisk,
        SoakPhase::HungDisk,
        SoakPhase::RestAgain,
    ];

    fn name(self) -> &'static str {
        match self {
            SoakPhase::Rest => "rest",
            SoakPhase::Churn => "churn: cgroups, processes, devices",
            SoakPhase::Clients => "clients that stall",
            SoakPhase::FullDisk => "full state disk",
            SoakPhase::HungDisk => "state disk hangs for 20 s of each 30",
            SoakPhase::RestAgain => "rest again",
        }
    }
}

/// The daemon and its files at one time.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: u64,
    threads: usize,
    files: usize,
    incidents: usize,
    state_bytes: u64,
    ring_bytes: u64,
    /// Share of one CPU during the phase, 0 to 1.
    cpu: f64,
    /// The number of things made, connected or filled in the phase.
    events: u64,
}

impl Benchmark for SoakSettings {
    const TARGET: &'static str = "soak";
    const PAGE: &'static str = "docs/recorder.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let disk = ServedDevice::new(&scratch, STATE_BYTES)?;
        let hand = disk.hand();
        let state = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
        let lines = format!("[watch]\nbudget = 0.5\n[metrics]\nlisten = \"{METRICS}\"\n");
        let config =
            format!("incidents-mb = {MOST_INCIDENTS_MB}\nkeep = \"2m\"\nbefore = \"1m\"\n");
        let daemon =
            RunningDaemon::start_in(&scratch, &state.path().join("state"), (&config, &lines))?;
        let each = Duration::from_secs(self.minutes * 60) / SoakPhase::ALL.len() as u32;
        let soaked = Soaked { scratch: &scratch, disk: state.path(), hand: &hand, daemon: &daemon };
        let mut rows = Vec::new();
        for phase in SoakPhase::ALL {
            let held = soaked.run(phase, each)?;
            progress(&format!("{}: {} MiB", phase.name(), held.memory >> 20));
            rows.push((phase, held));
        }
        daemon.stop()?;
        table_of(|out| table(out, about, self, &rows))
    }
}

/// The participants of the test.
struct Soaked<'a> {
    scratch: &'a Arc<Scratch>,
    /// The mount point of the state disk.
    disk: &'a Path,
    hand: &'a Hand,
    daemon: &'a RunningDaemon,
}

impl Soaked<'_> {
    fn run(&self, phase: SoakPhase, time: Duration) -> Result<Held> {
        let (begun, cpu_before) = (Instant::now(), self.daemon.cpu_seconds()?);
        let (is_over, events) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|threads| {
            let trouble = threads.spawn(|| self.trouble(phase, &is_over, &events));
            while begun.elapsed() < time {
                // An incident that cannot be kept is an error that the daemon survives.
                let _refused = self.ask_for_incident();
                std::thread::sleep((time / 4).min(Duration::from_secs(60)));
            }
            is_over.store(true, Relaxed);
            trouble.join().map_err(|_| LabError::failed("soak", "a thread panicked"))?
        })?;
        let cpu = (self.daemon.cpu_seconds()? - cpu_before) / begun.elapsed().as_secs_f64();
        self.held(cpu, events.into_inner())
    }

    fn trouble(&self, phase: SoakPhase, is_over: &AtomicBool, events: &AtomicU64) -> Result<()> {
        match phase {
            SoakPhase::Rest | SoakPhase::RestAgain => Ok(()),
            SoakPhase::Churn => self.churn(is_over, events),
            SoakPhase::Clients => self.stall_clients(is_over, events),
            SoakPhase::FullDisk => self.fill(is_over, events),
            SoakPhase::HungDisk => self.hang(is_over, events),
        }
    }

    fn churn(&self, is_over: &AtomicBool, events: &AtomicU64) -> Result<()> {
        let parent = LabCgroup::block(self.scratch)?;
        let begun = Instant::now();
        while !is_over.load(Relaxed) {
            let made = events.fetch_add(1, Relaxed) + 1;
            let child = parent.path().join(format!("c{made}"));
            fs::create_dir(&child).context(|| format!("make {}", child.display()))?;
            fs::remove_dir(&child).context(|| format!("remove {}", child.display()))?;
            if made.is_multiple_of(CGROUPS_PER_SECOND) {
                self.churn_devices(&parent)?;
                let due = Duration::from_secs(made / CGROUPS_PER_SECOND);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        Ok(())
    }

    /// A device that comes, is read by a program of another cgroup, and goes.
    fn churn_devices(&self, cgroup: &LabCgroup) -> Result<()> {
        let device = LoopDevice::new(self.scratch, Backing::Tmpfs, 4 << 20)?;
        let mut command = Command::new("dd");
        command.arg(format!("if={}", device.path().display()));
        command.args(["of=/dev/null", "bs=64k", "iflag=direct"]);
        cgroup.inside(&command).stderr(Stdio::null()).status().context(|| "run dd".to_owned())?;
        Ok(())
    }

    fn stall_clients(&self, is_over: &AtomicBool, events: &AtomicU64) -> Result<()> {
        let control = self.daemon.runtime.join("control.sock");
        while !is_over.load(Relaxed) {
            let of_metrics: Vec<_> =
                (0..SILENT_CLIENTS).flat_map(|_| TcpStream::connect(METRICS)).collect();
            let of_control: Vec<_> =
                (0..SILENT_CLIENTS).flat_map(|_| UnixStream::connect(&control)).collect();
            events.fetch_add((of_metrics.len() + of_control.len()) as u64, Relaxed);
            std::thread::sleep(Duration::from_secs(2));
        }
        Ok(())
    }

    fn fill(&self, is_over: &AtomicBool, events: &AtomicU64) -> Result<()> {
        let filler = self.disk.join("filler");
        while !is_over.load(Relaxed) {
            let file = fs::OpenOptions::new().create(true).append(true).open(&filler);
            let mut file = file.context(|| format!("open {}", filler.display()))?;
            while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {
                events.fetch_add(1, Relaxed);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        fs::remove_file(&filler).context(|| format!("remove {}", filler.display()))
    }

    fn hang(&self, is_over: &AtomicBool, events: &AtomicU64) -> Result<()> {
        while !is_over.load(Relaxed) {
            self.hand.stall(Duration::from_secs(20));
            events.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_secs(30));
        }
        self.hand.open();
        Ok(())
    }

    fn ask_for_incident(&self) -> Result<()> {
        let mut command = self.daemon.command(&["capture", "a soak"])?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context(|| "ask for an incident".to_owned())?;
        Ok(())
    }

    fn held(&self, cpu: f64, events: u64) -> Result<Held> {
        let state = &self.daemon.state;
        let process = Path::new("/proc").join(self.daemon.pid().to_string());
        let incidents = fs::read_dir(state.join("incidents")).map_or(0, Iterator::count);
        Ok(Held {
            memory: self.daemon.memory("VmRSS")?,
            threads: fs::read_dir(process.join("task")).map_or(0, Iterator::count),
            files: fs::read_dir(process.join("fd")).map_or(0, Iterator::count),
            incidents,
            state_bytes: bytes_below(state),
            ring_bytes: bytes_below(&self.daemon.runtime.join("ring")),
            cpu,
            events,
        })
    }
}

/// Returns the bytes of all files below a directory; files that vanish meanwhile count nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |about| about.len()),
    };
    entries.flatten().map(size).sum()
}

fn table(
    out: &mut String,
    about: &str,
    settings: &SoakSettings,
    rows: &[(SoakPhase, Held)],
) -> std::fmt::Result {
    let minutes = settings.minutes as f64 / SoakPhase::ALL.len() as f64;
    writeln!(out, "{about}.")?;
    writeln!(
        out,
        "One daemon, phases of {minutes:.1} minutes; in each four incidents are asked for, or \
         one a minute.\n"
    )?;
    out.push_str("| phase | events | memory | threads | open files | incidents | state | ring | ");
    out.push_str("CPU |\n|---|---|---|---|---|---|---|---|---|\n");
    let mb = |bytes: u64| bytes as f64 / 1e6;
    for (phase, held) in rows {
        writeln!(
            out,
            "| {} | {} | {} MiB | {} | {} | {} | {:.1} MB | {:.1} MB | {:.1} % |",
            phase.name(),
            held.events,
            held.memory >> 20,
            held.threads,
            held.files,
            held.incidents,
            mb(held.state_bytes),
            mb(held.ring_bytes),
            100.0 * held.cpu
        )?;
    }
    let (Some((_, first)), Some((_, last))) = (rows.first(), rows.last()) else { return Ok(()) };
    let grown = last.memory as f64 / first.memory.max(1) as f64;
    let is_kept =
        grown <= MOST_GROWTH && last.threads <= first.threads && last.files <= first.files;
    let verdict = if is_kept { "reached" } else { "not reached" };
    writeln!(
        out,
        "\nAfter all of it: {grown:.2} times the memory of the first rest, {} more threads, {} \
         more open files (at most {MOST_GROWTH} times, none, none: {verdict}).",
        last.threads as i64 - first.threads as i64,
        last.files as i64 - first.files as i64
    )
}
