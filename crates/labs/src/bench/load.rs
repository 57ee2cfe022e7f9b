//! The load: fio, 4 KiB random reads of a loop device over memory.

use super::cpus;
use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::machine::{self, CpuTicks, DiskStats};
use crate::scratch::Scratch;
use crate::{LabError, Result, command, process};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

const BYTES: u64 = 512 << 20;
/// The share of busy CPU time from which on all CPUs are busy, and the most jobs that are tried.
const ALL_BUSY: f64 = 0.99;
const MOST_JOBS: usize = 16;
/// Seconds after which fio ends by itself; it is ended when all was measured.
const LONGEST: u64 = 7200;

/// The speed of fio's reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadSpeed {
    /// As fast as the CPUs allow, through io_uring.
    Full,
    /// As fast as the CPUs allow, through libaio, as most programs with their own queue do it: fio
    /// submits each read with a call of its own, so that an I/O costs more CPU to begin with.
    FullLibaio,
    /// As fast as the CPUs allow, with pread(2), one read at a time in each job.
    FullPread,
    /// So many reads a second, through io_uring.
    Limited(u64),
}

impl ReadSpeed {
    /// A speed at which most disks are used.
    pub const USUAL: ReadSpeed = ReadSpeed::Limited(10_000);
    pub const ALL: [ReadSpeed; 4] =
        [ReadSpeed::Full, ReadSpeed::FullLibaio, ReadSpeed::FullPread, ReadSpeed::USUAL];

    /// Returns whether it is bounded by the CPUs alone.
    pub fn is_full(self) -> bool {
        matches!(self, ReadSpeed::Full | ReadSpeed::FullLibaio | ReadSpeed::FullPread)
    }

    pub fn name(self) -> String {
        match self {
            ReadSpeed::Full => "full speed".to_owned(),
            ReadSpeed::FullLibaio => "full speed through libaio".to_owned(),
            ReadSpeed::FullPread => "full speed through pread".to_owned(),
            ReadSpeed::Limited(speed) => format!("{}k IOPS", speed / 1000),
        }
    }
}

/// The device that is read.
pub struct FioLoad {
    device: LoopDevice,
}

impl FioLoad {
    pub fn new(scratch: &Arc<Scratch>) -> Result<FioLoad> {
        let device = LoopDevice::new(scratch, Backing::Tmpfs, BYTES)?;
        // Data everywhere: a hole would be read from nowhere.
        fio::prepare(device.file(), BYTES)?;
        Ok(FioLoad { device })
    }

    /// Makes fio's job for so many seconds, with `jobs` processes if the CPUs are the bound.
    fn job(&self, speed: ReadSpeed, seconds: u64, jobs: usize) -> Job {
        let engine = match speed {
            ReadSpeed::Full | ReadSpeed::Limited(_) => Engine::IoUring,
            ReadSpeed::FullLibaio => Engine::Libaio,
            ReadSpeed::FullPread => Engine::Psync,
        };
        let job = Job::new(self.device.path(), engine, FioAccess::RandomRead, 4096)
            .direct()
            .with("iodepth", "16")
            .with("size", BYTES.to_string())
            .timed(seconds);
        match speed {
            ReadSpeed::Full | ReadSpeed::FullLibaio | ReadSpeed::FullPread => {
                job.with("numjobs", jobs.to_string())
            }
            ReadSpeed::Limited(speed) => job.with("rate_iops", speed.to_string()),
        }
    }

    /// The job as the page shows it.
    pub fn shown(&self, speed: ReadSpeed, seconds: u64, jobs: usize) -> Result<String> {
        let job = self.job(speed, seconds, jobs);
        let shown = command::shown(&job.command("fio.json".as_ref())?);
        let arguments = shown.split_once(' ').map_or("", |(_, arguments)| arguments);
        let device = self.device.path().to_string_lossy();
        Ok(format!("fio {}", arguments.replace(&*device, "LOOP_DEVICE")))
    }

    /// Starts fio in the background; its figures go to `report`.
    pub fn start(&self, report: &std::path::Path, seconds: u64) -> Result<Child> {
        self.start_at(ReadSpeed::Full, report, seconds, cpus())
    }

    fn start_at(
        &self,
        speed: ReadSpeed,
        report: &std::path::Path,
        seconds: u64,
        jobs: usize,
    ) -> Result<Child> {
        let mut command = self.job(speed, seconds, jobs).command(report)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context(|| "start fio".to_owned())
    }

    /// Starts fio until it is dropped, with more processes until no CPU is idle: idle time would
    /// hide the cost of a watch.
    pub fn run(&self, scratch: &Scratch, speed: ReadSpeed) -> Result<RunningFio<'_>> {
        let mut jobs = cpus();
        loop {
            let fio = self.start_at(speed, &scratch.fresh("fio.json"), LONGEST, jobs)?;
            let mut running = RunningFio { load: self, fio, jobs };
            std::thread::sleep(Duration::from_secs(2));
            if !speed.is_full() || jobs >= cpus() * MOST_JOBS || running.window(1)?.busy >= ALL_BUSY
            {
                return Ok(running);
            }
            jobs *= 2;
        }
    }
}

/// fio at work; ended on drop.
pub struct RunningFio<'load> {
    load: &'load FioLoad,
    fio: Child,
    /// Its processes.
    pub jobs: usize,
}

/// The kernel's counters of the device and the CPUs over some seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadWindow {
    /// I/Os that ended, or calls.
    pub ios: u64,
    /// I/Os or calls per second of wall time.
    pub iops: f64,
    /// Busy CPU time of the whole machine, 0 to 1.
    pub busy: f64,
}

/// A load whose speed can be measured while it runs.
pub trait MeasuredLoad {
    /// Measures for a number of seconds.
    ///
    /// # Errors
    /// Fails if the load has ended.
    fn window(&mut self, seconds: u64) -> Result<LoadWindow>;
}

/// The clock and the CPUs' counters when a measurement begins.
pub struct WindowBegin {
    ticks: CpuTicks,
    at_ns: u64,
}

impl WindowBegin {
    pub fn now() -> WindowBegin {
        WindowBegin { ticks: CpuTicks::now(), at_ns: machine::monotonic_ns() }
    }

    /// Returns the measurement of the interval that ends now, with `ios` I/Os.
    pub fn end(&self, ios: u64) -> LoadWindow {
        let length_ns = machine::monotonic_ns().saturating_sub(self.at_ns).max(1);
        LoadWindow {
            ios,
            iops: ios as f64 * 1e9 / length_ns as f64,
            busy: CpuTicks::now().busy_since(self.ticks),
        }
    }
}

impl MeasuredLoad for RunningFio<'_> {
    fn window(&mut self, seconds: u64) -> Result<LoadWindow> {
        let begin = WindowBegin::now();
        let before = DiskStats::for_device(self.load.device.name())?;
        std::thread::sleep(Duration::from_secs(seconds));
        let ios = DiskStats::for_device(self.load.device.name())?.since(before).reads;
        if self.fio.try_wait().is_ok_and(|status| status.is_some()) {
            return Err(LabError::failed("keep the device busy", "fio ended"));
        }
        Ok(begin.end(ios))
    }
}

impl Drop for RunningFio<'_> {
    fn drop(&mut self) {
        process::end(&mut self.fio);
    }
}
