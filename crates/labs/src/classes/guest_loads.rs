//! Loads that change settings of the whole machine, or need devices that only guests have.
//!
//! A guest has the disk [`DISK`], which QEMU makes slow, and nothing else does I/O in it: so the whole
//! machine is watched.

use super::{Clock, Load, OwnClock, Place, Scene};
use crate::devices::{BlockDevice, Cgroup, FileSystem, Given, Kind};
use crate::error::Context;
use crate::fio::{self, Access, Engine, Job};
use crate::labs::stage::Stage;
use crate::vm::{Disk, Limits};
use crate::{Error, Result, command};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The disk's name in a guest.
pub const DISK: &str = "slow";

/// The disk that these loads share, one after the other.
pub fn disk() -> Disk {
    let limits = Limits { iops: 200, bytes: 4 * MIB, ..Limits::default() };
    Disk::memory(DISK, 512 * MIB).limited(limits)
}

const fn guest(
    name: &'static str,
    what: &'static str,
    classes: &'static [&'static str],
    least: f64,
    build: fn(&mut Stage) -> Result<Scene>,
) -> Load {
    Load { name, what, place: Place::Guest, classes, least, clock: EMULATED, build }
}

/// A guest's CPUs are emulated: a call that copies or sorts takes as long as one that waits.
const EMULATED: Clock = Clock::Shown("emulated CPU");
/// Programs that do not measure their calls.
const NO_CLOCK: Clock = Clock::Shown("it has none");

/// The loads.
pub const LOADS: &[Load] = &[
    guest(
        "dirty-bytes",
        "buffered writes with `vm.dirty_bytes` of 4 MiB",
        &["dirty_throttle"],
        0.95,
        dirty,
    ),
    guest(
        "bfq-32",
        "32 readers under bfq, of which the device serves one at a time",
        &["queue"],
        0.9,
        |stage| bfq(stage, Engine::Psync),
    ),
    Load {
        clock: Clock::Shown("32 I/Os at once"),
        ..guest(
            "bfq-32-libaio",
            "the same by one thread: one of its reads is always at the device",
            &["device"],
            0.9,
            |stage| bfq(stage, Engine::Libaio),
        )
    },
    guest(
        "iocost",
        "direct reads in a cgroup whose model allows 20 a second",
        &["iocost"],
        0.9,
        iocost,
    ),
    Load {
        clock: NO_CLOCK,
        ..guest(
            "swap-in",
            "40 MiB of memory filled, then read, in a cgroup with 32 MiB",
            &["swap"],
            0.8,
            swap_in,
        )
    },
    Load {
        clock: NO_CLOCK,
        ..guest(
            "reclaim",
            "up to 32 MiB of memory filled in a cgroup whose `memory.high` is 24 MiB",
            &["reclaim"],
            0.95,
            over_high,
        )
    },
];

fn fio_scene(stage: &mut Stage, job: &Job) -> Result<Scene> {
    let report = stage.scratch.fresh("fio.json");
    let command = job.command(&report)?;
    Ok(Scene { command, process: "fio", measured: OwnClock::Fio(report) })
}

fn dirty(stage: &mut Stage) -> Result<Scene> {
    let disk = FileSystem::new(&stage.scratch, Given::named(DISK)?, Kind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 16 * MIB)?;
    let settings = Path::new("/proc/sys/vm");
    // Where bytes are set there is no ratio, and a ratio ends what was set in bytes.
    for (ratio, bytes, value) in [
        ("dirty_ratio", "dirty_bytes", 4 * MIB),
        ("dirty_background_ratio", "dirty_background_bytes", 2 * MIB),
    ] {
        let before = fs::read_to_string(settings.join(ratio)).unwrap_or_default();
        stage.set_file(settings.join(ratio), before.trim())?;
        stage.set_file(settings.join(bytes), &value.to_string())?;
    }
    let job = Job::new(&file, Engine::Psync, Access::Write, 64 << 10)
        .with("size", (16 * MIB).to_string())
        .with("loops", "2");
    stage.keep(disk);
    fio_scene(stage, &job)
}

/// 32 direct reads at once, by as many threads or by one.
fn bfq(stage: &mut Stage, engine: Engine) -> Result<Scene> {
    let device = NullBlk::new("5000000", "1")?;
    stage.set(&device, "scheduler", "bfq")?;
    stage.set(&device, "nr_requests", "64")?;
    // It lets new processes go first otherwise, and others wait for a tag.
    stage.set(&device, "iosched/low_latency", "0")?;
    let job = Job::new(device.path(), engine, Access::RandomRead, PAGE)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("thread", "1");
    let job = match engine {
        Engine::Psync => job.with("numjobs", "32").with("number_ios", "20"),
        _ => job.with("iodepth", "32").with("number_ios", "640"),
    };
    stage.keep(device);
    fio_scene(stage, &job)
}

fn iocost(stage: &mut Stage) -> Result<Scene> {
    let device = NullBlk::new("10000", "64")?;
    let settings = Path::new("/sys/fs/cgroup");
    if !settings.join("io.cost.qos").exists() {
        return Err(Error::unsupported("iocost", "CONFIG_BLK_CGROUP_IOCOST=y"));
    }
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name()))
        .context(|| "find the disk's number".to_owned())?;
    let number = number.trim();
    let cgroup = Cgroup::block(&stage.scratch)?;
    let write = |file: &str, value: String| {
        let path = settings.join(file);
        fs::write(&path, &value).context(|| format!("write {value} to {}", path.display()))
    };
    let speeds =
        "rbps=1000000000 rseqiops=20 rrandiops=20 wbps=1000000000 wseqiops=20 wrandiops=20";
    write("io.cost.model", format!("{number} ctrl=user model=linear {speeds}"))?;
    write(
        "io.cost.qos",
        format!("{number} enable=1 ctrl=user rpct=0.00 wpct=0.00 min=100.00 max=100.00"),
    )?;
    let model = CostModel(number.to_owned());
    let job = Job::new(device.path(), Engine::Psync, Access::RandomRead, PAGE)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("number_ios", "80");
    let mut scene = fio_scene(stage, &job)?;
    scene.command = cgroup.inside(&scene.command);
    stage.keep(device);
    stage.keep(model);
    stage.keep(cgroup);
    Ok(scene)
}

/// A cost model, switched off on drop.
struct CostModel(String);

impl Drop for CostModel {
    fn drop(&mut self) {
        let _gone = fs::write("/sys/fs/cgroup/io.cost.qos", format!("{} enable=0", self.0));
    }
}

/// Fills its memory no faster than the disk takes it, lest the kernel kill it, and then touches each page.
const EATER: &str = "my (@x, $n);
    for (1 .. 40) { push @x, 'a' x ((1 << 20) + $_); select(undef, undef, undef, 0.4) if $_ > 24 }
    for my $x (@x) { $n += ord(substr($x, $_ * 4096, 1)) for 0 .. 255 }";

/// perl with more memory than its cgroup has, and a slow disk to swap to.
fn swap_in(stage: &mut Stage) -> Result<Scene> {
    let swap = Swap::new()?;
    let cgroup = Cgroup::memory(&stage.scratch, 32 * MIB)?;
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-e", EATER]);
    let command = cgroup.inside(&perl);
    stage.keep(swap);
    stage.keep(cgroup);
    Ok(Scene { command, process: "perl", measured: OwnClock::None })
}

/// Takes more than it may have, little by little, for some seconds: each time the kernel lets it wait longer.
const GLUTTON: &str = "my @x;
    for (1 .. 512) { push @x, 'a' x ((1 << 16) + $_); last if time - $^T > 6 }";

/// perl is made to wait for what it takes beyond the limit, with nothing that could be reclaimed.
fn over_high(stage: &mut Stage) -> Result<Scene> {
    let cgroup = Cgroup::memory(&stage.scratch, 256 * MIB)?;
    let limit = cgroup.path().join("memory.high");
    fs::write(&limit, (24 * MIB).to_string()).context(|| format!("write {}", limit.display()))?;
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-e", GLUTTON]);
    let command = cgroup.inside(&perl);
    stage.keep(cgroup);
    Ok(Scene { command, process: "perl", measured: OwnClock::None })
}

/// The slow disk as swap, until it is dropped.
struct Swap(Given);

impl Swap {
    fn new() -> Result<Swap> {
        let disk = Given::named(DISK)?;
        command::run("mkswap", [disk.path()])?;
        command::run("swapon", [disk.path()])?;
        Ok(Swap(disk))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _gone = command::run("swapoff", [self.0.path()]);
    }
}

/// A device of null_blk, removed on drop.
#[derive(Debug)]
struct NullBlk {
    folder: PathBuf,
    node: PathBuf,
}

/// Where null_blk's devices are made.
const NULL_BLK: &str = "/sys/kernel/config/nullb";

impl NullBlk {
    /// One that takes so many nanoseconds for a request, of which it serves so many at a time.
    fn new(nanoseconds: &str, at_once: &str) -> Result<NullBlk> {
        command::run("modprobe", ["null_blk"])?;
        if !Path::new(NULL_BLK).exists() {
            command::run("mount", ["-t", "configfs", "configfs", "/sys/kernel/config"])?;
        }
        let before = block_devices();
        let folder = Path::new(NULL_BLK).join(format!("iowhy{}", std::process::id()));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let mut device = NullBlk { folder, node: PathBuf::new() };
        for (setting, value) in [
            ("size", "256"),
            ("irqmode", "2"),
            ("completion_nsec", nanoseconds),
            ("hw_queue_depth", at_once),
            ("submit_queues", "1"),
            ("power", "1"),
        ] {
            let path = device.folder.join(setting);
            fs::write(&path, value).context(|| format!("write {value} to {}", path.display()))?;
        }
        let new = block_devices().difference(&before).next().cloned();
        let name = new.ok_or_else(|| Error::failed("make a null_blk device", "none came"))?;
        device.node = Path::new("/dev").join(name);
        Ok(device)
    }
}

fn block_devices() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

impl BlockDevice for NullBlk {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for NullBlk {
    fn drop(&mut self) {
        let _gone = fs::remove_dir(&self.folder);
    }
}
