//! The load: fio, 4 KiB random reads of a loop device over memory.

use super::Figures;
use super::watcher::{Variant, Watcher};
use crate::Result;
use crate::command;
use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Access, Engine, Job, Report};
use crate::machine::{self, CpuTicks};
use crate::scratch::Scratch;
use std::process::{Child, Stdio};
use std::sync::Arc;

const BYTES: u64 = 512 << 20;
/// The limited speed of the second figure.
const LIMIT: u64 = 10_000;

/// How fast fio reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// As fast as the CPUs allow, through io_uring.
    Full,
    /// The same through libaio, as most programs with their own queue do it: fio submits each read
    /// with a call of its own, so that an I/O costs more CPU to begin with.
    FullLibaio,
    /// 10,000 reads a second.
    Limited,
}

impl Speed {
    pub const ALL: [Speed; 3] = [Speed::Full, Speed::FullLibaio, Speed::Limited];

    pub fn name(self) -> &'static str {
        match self {
            Speed::Full => "full speed",
            Speed::FullLibaio => "full speed through libaio",
            Speed::Limited => "10k IOPS",
        }
    }
}

/// The device that is read.
pub struct Load {
    device: LoopDevice,
}

impl Load {
    pub fn new(scratch: &Arc<Scratch>) -> Result<Load> {
        let device = LoopDevice::new(scratch, Backing::Tmpfs, BYTES)?;
        // Data everywhere: a hole would be read from nowhere.
        fio::prepare(device.file(), BYTES)?;
        Ok(Load { device })
    }

    /// fio's command line for so many seconds.
    fn job(&self, speed: Speed, seconds: u64) -> Job {
        let engine = match speed {
            Speed::Full | Speed::Limited => Engine::IoUring,
            Speed::FullLibaio => Engine::Libaio,
        };
        let job = Job::new(self.device.path(), engine, Access::RandomRead, 4096)
            .direct()
            .with("iodepth", "16")
            .with("size", BYTES.to_string())
            .timed(seconds);
        match speed {
            Speed::Full | Speed::FullLibaio => job.with("numjobs", cpus().to_string()),
            Speed::Limited => job.with("rate_iops", LIMIT.to_string()),
        }
    }

    /// The job as the page shows it.
    pub fn shown(&self, speed: Speed, seconds: u64) -> Result<String> {
        let shown = command::shown(&self.job(speed, seconds).command("fio.json".as_ref())?);
        let arguments = shown.split_once(' ').map_or("", |(_, arguments)| arguments);
        let device = self.device.path().to_string_lossy();
        Ok(format!("fio {}", arguments.replace(&*device, "LOOP_DEVICE")))
    }

    /// Starts fio in the background; its figures go to `report`.
    pub fn start(&self, report: &std::path::Path, seconds: u64) -> Result<Child> {
        let mut command = self.job(Speed::Full, seconds).command(report)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context(|| "start fio".to_owned())
    }

    /// One measurement of `variant`, which is ready before fio starts and ends after it.
    pub fn measure(
        &self,
        scratch: &Scratch,
        variant: Variant,
        speed: Speed,
        seconds: u64,
    ) -> Result<Figures> {
        let watcher = Watcher::start(scratch, variant)?;
        let before = (CpuTicks::now(), watcher.cpu_seconds());
        let report = self.job(speed, seconds).run(&scratch.fresh("fio.json"))?;
        let after = (CpuTicks::now(), watcher.cpu_seconds());
        let left = watcher.stop()?;
        Ok(figures(&report, before, after, &left))
    }
}

fn figures(
    report: &Report,
    before: (CpuTicks, f64),
    after: (CpuTicks, f64),
    left: &super::watcher::Left,
) -> Figures {
    let ios = report.read.total_ios.max(1) as f64;
    let wall = ios / report.read.iops.max(1.0);
    Figures {
        iops: report.read.iops,
        latency: report.read.clat_ns.mean / 1000.0,
        busy: after.0.busy_since(before.0),
        watcher: (after.1 - before.1) / wall,
        bytes_per_io: left.bytes as f64 / ios,
        lost: left.lost,
    }
}

/// CPUs of this machine.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine in one line each, for the page.
pub fn machine_lines() -> Vec<String> {
    let first = |path: &str, key: &str| machine::line_of(path, key).unwrap_or_default();
    let memory = first("/proc/meminfo", "MemTotal");
    let kilobytes: u64 =
        memory.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        format!("Linux {}", kernel.trim()),
        format!("{} CPUs, {}", cpus(), first("/proc/cpuinfo", "model name")),
        format!("{} GiB of memory", kilobytes >> 20),
    ]
}
