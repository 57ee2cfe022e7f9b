//! Loads that change settings of the whole machine, or need devices that only guests have.
//!
//! A guest has the disk [`DISK`], which QEMU makes slow, and nothing else does I/O in it: so the
//! whole machine is watched.

use super::{ClassLoad, ClassScene, ClockAgreement, OwnClock, RunsOn};
use crate::devices::{BlockDevice, FileSystemKind, GivenDevice, LabCgroup, LabFileSystem};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::labs::stage::LabStage;
use crate::vm::{DiskLimits, GuestDisk};
use crate::{LabError, Result, command};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The disk's name in a guest.
pub const DISK: &str = "slow";

/// The disk that these loads share, one after the other.
pub fn disk() -> GuestDisk {
    let limits = DiskLimits { iops: 200, bytes: 4 * MIB, ..DiskLimits::default() };
    GuestDisk::memory(DISK, 512 * MIB).limited(limits)
}

const fn guest(
    name: &'static str,
    what: &'static str,
    classes: &'static [&'static str],
    least: f64,
    build: fn(&mut LabStage) -> Result<ClassScene>,
) -> ClassLoad {
    ClassLoad { name, what, place: RunsOn::Guest, classes, least, clock: EMULATED, build }
}

/// A guest's CPUs are emulated: a call that copies or sorts takes as long as one that waits.
const EMULATED: ClockAgreement = ClockAgreement::Shown("emulated CPU");
/// Programs that do not measure their calls.
const NO_CLOCK: ClockAgreement = ClockAgreement::Shown("it has none");

/// The loads.
pub const LOADS: &[ClassLoad] = &[
    guest(
        "dirty-bytes",
        "buffered writes with `vm.dirty_bytes` of 4 MiB",
        &["dirty_throttle"],
        0.95,
        dirty,
    ),
    guest(
        "bfq-32",
        "32 readers under bfq on a device that serves one request at a time",
        &["queue"],
        0.9,
        |stage| bfq(stage, Engine::Psync),
    ),
    ClassLoad {
        clock: ClockAgreement::Shown("32 I/Os at once"),
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
        "direct reads in a cgroup whose cost model allows 20 per second",
        &["iocost"],
        0.9,
        iocost,
    ),
    ClassLoad {
        clock: NO_CLOCK,
        ..guest(
            "swap-in",
            "40 MiB of memory filled, then read, in a cgroup with 32 MiB",
            &["swap"],
            0.8,
            swap_in,
        )
    },
    ClassLoad {
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

fn fio_scene(stage: &mut LabStage, job: &Job) -> Result<ClassScene> {
    let report = stage.scratch.fresh("fio.json");
    let command = job.command(&report)?;
    Ok(ClassScene { command, process: "fio", measured: OwnClock::Fio(report) })
}

fn dirty(stage: &mut LabStage) -> Result<ClassScene> {
    let disk = LabFileSystem::new(&stage.scratch, GivenDevice::named(DISK)?, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 16 * MIB)?;
    let settings = Path::new("/proc/sys/vm");
    // The kernel ignores the ratio if bytes are set, and setting a ratio removes the bytes.
    for (ratio, bytes, value) in [
        ("dirty_ratio", "dirty_bytes", 4 * MIB),
        ("dirty_background_ratio", "dirty_background_bytes", 2 * MIB),
    ] {
        let before = fs::read_to_string(settings.join(ratio)).unwrap_or_default();
        stage.set_file(settings.join(ratio), before.trim())?;
        stage.set_file(settings.join(bytes), &value.to_string())?;
    }
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, 64 << 10)
        .with("size", (16 * MIB).to_string())
        .with("loops", "2");
    stage.keep(disk);
    fio_scene(stage, &job)
}

/// 32 direct reads at once, by as many threads or by one.
fn bfq(stage: &mut LabStage, engine: Engine) -> Result<ClassScene> {
    let device = GuestNullBlk::new("5000000", "1")?;
    stage.set(&device, "scheduler", "bfq")?;
    stage.set(&device, "nr_requests", "64")?;
    // It lets new processes go first otherwise, and others wait for a tag.
    stage.set(&device, "iosched/low_latency", "0")?;
    let job = Job::new(device.path(), engine, FioAccess::RandomRead, PAGE)
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

fn iocost(stage: &mut LabStage) -> Result<ClassScene> {
    let device = GuestNullBlk::new("10000", "64")?;
    let settings = Path::new("/sys/fs/cgroup");
    if !settings.join("io.cost.qos").exists() {
        return Err(LabError::unsupported("iocost", "CONFIG_BLK_CGROUP_IOCOST=y"));
    }
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name()))
        .context(|| "find the disk's number".to_owned())?;
    let number = number.trim();
    let cgroup = LabCgroup::block(&stage.scratch)?;
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
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, PAGE)
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

/// Fills its memory no faster than the disk takes it, so that the kernel does not kill it, and then
/// touches each page.
const EATER: &str = "my (@x, $n);
    for (1 .. 40) { push @x, 'a' x ((1 << 20) + $_); select(undef, undef, undef, 0.4) if $_ > 24 }
    for my $x (@x) { $n += ord(substr($x, $_ * 4096, 1)) for 0 .. 255 }";

/// perl with more memory than its cgroup has, and a slow disk to swap to.
fn swap_in(stage: &mut LabStage) -> Result<ClassScene> {
    let swap = SlowSwap::new()?;
    let cgroup = LabCgroup::memory(&stage.scratch, 32 * MIB)?;
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-e", EATER]);
    let command = cgroup.inside(&perl);
    stage.keep(swap);
    stage.keep(cgroup);
    Ok(ClassScene { command, process: "perl", measured: OwnClock::None })
}

/// Allocates more than its limit, little by little, for some seconds: each time the kernel lets it
/// wait longer.
const GLUTTON: &str = "my @x;
    for (1 .. 512) { push @x, 'a' x ((1 << 16) + $_); last if time - $^T > 6 }";

/// perl has to wait for memory beyond the limit, since nothing can be reclaimed.
fn over_high(stage: &mut LabStage) -> Result<ClassScene> {
    let cgroup = LabCgroup::memory(&stage.scratch, 256 * MIB)?;
    let limit = cgroup.path().join("memory.high");
    fs::write(&limit, (24 * MIB).to_string()).context(|| format!("write {}", limit.display()))?;
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-e", GLUTTON]);
    let command = cgroup.inside(&perl);
    stage.keep(cgroup);
    Ok(ClassScene { command, process: "perl", measured: OwnClock::None })
}

/// The slow disk as swap, until it is dropped.
struct SlowSwap(GivenDevice);

impl SlowSwap {
    fn new() -> Result<SlowSwap> {
        let disk = GivenDevice::named(DISK)?;
        command::run("mkswap", [disk.path()])?;
        command::run("swapon", [disk.path()])?;
        Ok(SlowSwap(disk))
    }
}

impl Drop for SlowSwap {
    fn drop(&mut self) {
        let _gone = command::run("swapoff", [self.0.path()]);
    }
}

/// A device of null_blk, removed on drop.
#[derive(Debug)]
struct GuestNullBlk {
    folder: PathBuf,
    node: PathBuf,
}

/// The directory of null_blk's devices.
const NULL_BLK: &str = "/sys/kernel/config/nullb";

impl GuestNullBlk {
    /// A device with a given service time in nanoseconds and a given number of requests at a time.
    fn new(nanoseconds: &str, at_once: &str) -> Result<GuestNullBlk> {
        command::run("modprobe", ["null_blk"])?;
        if !Path::new(NULL_BLK).exists() {
            command::run("mount", ["-t", "configfs", "configfs", "/sys/kernel/config"])?;
        }
        let before = block_devices();
        let folder = Path::new(NULL_BLK).join(format!("iowhy{}", std::process::id()));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let mut device = GuestNullBlk { folder, node: PathBuf::new() };
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
        let name = new.ok_or_else(|| LabError::failed("make a null_blk device", "none came"))?;
        device.node = Path::new("/dev").join(name);
        Ok(device)
    }
}

fn block_devices() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

impl BlockDevice for GuestNullBlk {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for GuestNullBlk {
    fn drop(&mut self) {
        let _gone = fs::remove_dir(&self.folder);
    }
}
