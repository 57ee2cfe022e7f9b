//! The load: fio, 4 KiB random reads of a loop device over memory.

use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Access, Engine, Job};
use crate::machine::{self, CpuTicks, DiskStats};
use crate::scratch::Scratch;
use crate::{Error, Result, command, process};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

const BYTES: u64 = 512 << 20;
/// The limited speed of the second figure.
const LIMIT: u64 = 10_000;
/// fio is ended when all was measured; it would go on for so many seconds.
const LONGEST: u64 = 7200;

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
        self.start_at(Speed::Full, report, seconds)
    }

    fn start_at(&self, speed: Speed, report: &std::path::Path, seconds: u64) -> Result<Child> {
        let mut command = self.job(speed, seconds).command(report)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context(|| "start fio".to_owned())
    }

    /// Starts fio for as long as it is wanted.
    pub fn run(&self, scratch: &Scratch, speed: Speed) -> Result<Running<'_>> {
        let fio = self.start_at(speed, &scratch.fresh("fio.json"), LONGEST)?;
        let running = Running { load: self, fio };
        std::thread::sleep(Duration::from_secs(2));
        Ok(running)
    }
}

/// fio at work; ended on drop.
pub struct Running<'load> {
    load: &'load Load,
    fio: Child,
}

/// What the device and the CPUs did for some seconds, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// I/Os that ended.
    pub ios: u64,
    /// The same per second of wall time.
    pub iops: f64,
    /// Busy CPU time of the whole machine, 0 to 1.
    pub busy: f64,
}

impl Running<'_> {
    /// Looks on for so many seconds.
    pub fn window(&mut self, seconds: u64) -> Result<Window> {
        let look = || -> Result<_> {
            Ok((DiskStats::of(self.load.device.name())?, CpuTicks::now(), machine::monotonic_ns()))
        };
        let before = look()?;
        std::thread::sleep(Duration::from_secs(seconds));
        let after = look()?;
        if self.fio.try_wait().is_ok_and(|status| status.is_some()) {
            return Err(Error::failed("keep the device busy", "fio ended"));
        }
        let ios = after.0.since(before.0).reads;
        Ok(Window {
            ios,
            iops: ios as f64 * 1e9 / (after.2 - before.2).max(1) as f64,
            busy: after.1.busy_since(before.1),
        })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        process::end(&mut self.fio);
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
