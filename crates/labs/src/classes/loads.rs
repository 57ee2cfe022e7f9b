//! Loads that change nothing outside their own devices and cgroups.
//!
//! Most use a device that is slow because of a limit below it, so that waits are long compared with
//! the CPU time of a system call, and blocked time can be compared with the program's own clock.

use super::{ClassLoad, ClassScene, ClockAgreement, OwnClock, RunsOn};
use crate::devices::{BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::labs::stage::LabStage;
use crate::workload::Workload;
use crate::{Result, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

const fn host(
    name: &'static str,
    what: &'static str,
    classes: &'static [&'static str],
    least: f64,
    build: fn(&mut LabStage) -> Result<ClassScene>,
) -> ClassLoad {
    ClassLoad {
        name,
        what,
        place: RunsOn::Host,
        classes,
        least,
        clock: ClockAgreement::Agrees,
        build,
    }
}

/// The loads.
pub const LOADS: &[ClassLoad] = &[
    host("sync-random-read", "direct random reads, one at a time", &["device"], 0.95, |stage| {
        direct(stage, Engine::Psync, 1)
    }),
    host("io-uring", "the same through io_uring", &["device"], 0.95, |stage| {
        direct(stage, Engine::IoUring, 1)
    }),
    ClassLoad {
        clock: ClockAgreement::Shown("32 I/Os at once"),
        ..host("io-uring-32", "the same, 32 at a time", &["device"], 0.95, |stage| {
            direct(stage, Engine::IoUring, 32)
        })
    },
    host(
        "cgroup-throttled-writer",
        "direct writes in a cgroup with a limit of 100 per second",
        &["cgroup_throttle"],
        0.95,
        throttled,
    ),
    host("page-cache-misses", "buffered random reads on ext4", &["page_read"], 0.95, misses),
    host(
        "mmap-under-pressure",
        "faults on a mapping of 64 MiB in a cgroup with 32 MiB",
        &["page_fault"],
        0.95,
        mapped,
    ),
    host(
        "fsync-ext4",
        "writes of 4 KiB on ext4, an fsync after each",
        // If there is nothing to commit, it ends with a flush of the device's cache.
        &["journal_commit", "fsync", "device"],
        0.95,
        |stage| syncs(stage, FileSystemKind::Ext4),
    ),
    host("fsync-xfs", "the same on xfs", &["journal_commit", "fsync"], 0.95, |stage| {
        syncs(stage, FileSystemKind::Xfs)
    }),
    host(
        "metadata-scan",
        "stat of 2,000 files in 200 folders on ext4, nothing cached",
        &["device"],
        0.95,
        scan,
    ),
    host(
        "dirty-throttle",
        "buffered writes with a limit of 4 MiB of dirty pages for the device",
        &["dirty_throttle"],
        0.95,
        dirty,
    ),
    // Of each sync the last pages, 96 at most, are only waited for.
    host("wbt", "random buffered writes, an fsync after 1,024", &["wbt"], 0.8, wbt),
    host("tag", "16 readers of a device that has 4 tags", &["tag"], 0.7, tags),
    host(
        "inode-lock",
        "8 writers of one file; each write reads the block first",
        &["fs_lock"],
        0.8,
        locked,
    ),
    ClassLoad {
        clock: ClockAgreement::Shown("it has none"),
        ..host(
            "journal-space",
            "creation of files on ext4 with a journal of 4 MiB",
            // The rest waits until the commit that frees space has released a block.
            &["journal_space"],
            0.5,
            journal,
        )
    },
];

/// A direct random job on a slow device.
fn direct(stage: &mut LabStage, engine: Engine, depth: u64) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.iops(100 * depth)?;
    let job = Job::new(device.path(), engine, FioAccess::RandomRead, PAGE)
        .direct()
        .with("size", (256 * MIB).to_string())
        .with("iodepth", depth.to_string())
        .with("number_ios", (300 * depth).to_string());
    stage.keep(hidden);
    stage.keep(device);
    fio_scene(stage, &job)
}

/// Makes the scene of a fio job, which measures its own waits.
fn fio_scene(stage: &mut LabStage, job: &Job) -> Result<ClassScene> {
    let report = stage.scratch.fresh("fio.json");
    let command = job.command(&report)?;
    Ok(ClassScene { command, process: "fio", measured: OwnClock::Fio(report) })
}

fn throttled(stage: &mut LabStage) -> Result<ClassScene> {
    let device = stage.fast(64)?;
    let cgroup = LabCgroup::block(&stage.scratch)?;
    cgroup.limit(&device, Limit::WriteIops(100))?;
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Write, 300, PAGE);
    let mut scene = fio_scene(stage, &job)?;
    scene.command = cgroup.inside(&scene.command);
    stage.keep(device);
    stage.keep(cgroup);
    Ok(scene)
}

/// Makes a slow disk with a file that is not in memory. It gets slow once that is so.
fn cold_file(stage: &mut LabStage, mib: u64, iops: u64) -> Result<(LabFileSystem, PathBuf)> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), mib * MIB)?;
    disk.remount()?;
    hidden.iops(iops)?;
    stage.keep(hidden);
    Ok((disk, file))
}

fn misses(stage: &mut LabStage) -> Result<ClassScene> {
    let (disk, file) = cold_file(stage, 64, 100)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::RandomRead, PAGE)
        .with("size", (64 * MIB).to_string())
        .with("number_ios", "300");
    stage.keep(disk);
    fio_scene(stage, &job)
}

fn mapped(stage: &mut LabStage) -> Result<ClassScene> {
    let (disk, file) = cold_file(stage, 64, 100)?;
    let cgroup = LabCgroup::memory(&stage.scratch, 32 * MIB)?;
    let job = Job::new(&file, Engine::Mmap, FioAccess::RandomRead, PAGE)
        .with("size", (64 * MIB).to_string())
        .with("number_ios", "300");
    let mut scene = fio_scene(stage, &job)?;
    scene.command = cgroup.inside(&scene.command);
    stage.keep(disk);
    stage.keep(cgroup);
    Ok(scene)
}

fn syncs(stage: &mut LabStage, kind: FileSystemKind) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, kind)?;
    let file = fio::prepare(&disk.path().join("data"), 4 * MIB)?;
    // So few that the CPU time of fio's calls is small compared with their waits.
    hidden.iops(50)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, PAGE)
        .with("size", (4 * MIB).to_string())
        .with("number_ios", "120")
        .with("fsync", "1");
    stage.keep(hidden);
    stage.keep(disk);
    fio_scene(stage, &job)
}

fn scan(stage: &mut LabStage) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    for folder in 0..200 {
        let folder = disk.path().join(format!("d{folder}"));
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        for file in 0..10 {
            let file = folder.join(format!("f{file}"));
            fs::write(&file, "x").context(|| format!("write {}", file.display()))?;
        }
    }
    disk.remount()?;
    hidden.iops(100)?;
    let clock = stage.scratch.fresh("clock");
    let scan = Workload::Scan { folder: disk.path().to_owned(), clock: clock.clone() };
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    let command = scan.command(&labs_program(&own));
    stage.keep(hidden);
    stage.keep(disk);
    Ok(ClassScene { command, process: "iowhy-labs", measured: OwnClock::File(clock) })
}

/// Returns this program; in a test, the one in the same directory.
fn labs_program(own: &Path) -> PathBuf {
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("iowhy-labs"));
    beside.into_iter().find(|path| path.is_file()).unwrap_or_else(|| own.to_owned())
}

/// The device itself has a small limit of dirty pages, independent of the machine's.
fn dirty(stage: &mut LabStage) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(512)?;
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name()))
        .context(|| format!("find the number of {}", device.name()))?;
    let settings = Path::new("/sys/class/bdi").join(number.trim());
    if !settings.join("max_bytes").exists() {
        return Err(crate::LabError::unsupported("bdi's max_bytes", "it came with Linux 6.2"));
    }
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 32 * MIB)?;
    // A value in bytes may be refused when it is restored: the amount of memory has changed by
    // then.
    stage.set_file(settings.join("max_ratio"), "100")?;
    stage.set_file(settings.join("strict_limit"), "1")?;
    stage.set_file(settings.join("max_bytes"), &(4 * MIB).to_string())?;
    hidden.limit("write_bps", 4 * MIB)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, 64 << 10)
        .with("size", (24 * MIB).to_string());
    stage.keep(hidden);
    stage.keep(disk);
    fio_scene(stage, &job)
}

fn wbt(stage: &mut LabStage) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(512)?;
    stage.set(&device, "wbt_lat_usec", "2000")?;
    hidden.iops(800)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomWrite, PAGE)
        .with("size", (256 * MIB).to_string())
        // The last one makes the sync before it happen.
        .with("number_ios", "2049")
        .with("fsync", "1024");
    stage.keep(hidden);
    stage.keep(device);
    fio_scene(stage, &job)
}

fn tags(stage: &mut LabStage) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(256)?;
    stage.set(&device, "scheduler", "mq-deadline")?;
    stage.set(&device, "nr_requests", "4")?;
    hidden.iops(200)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, PAGE)
        .direct()
        .with("size", (256 * MIB).to_string())
        .with("thread", "1")
        .with("numjobs", "16")
        .with("number_ios", "40");
    stage.keep(hidden);
    stage.keep(device);
    fio_scene(stage, &job)
}

/// Blocks smaller than a page are read before they are written, with the inode's lock held.
fn locked(stage: &mut LabStage) -> Result<ClassScene> {
    let (disk, file) = cold_file(stage, 64, 100)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::RandomWrite, 512)
        .with("size", (64 * MIB).to_string())
        .with("thread", "1")
        .with("numjobs", "8")
        .with("number_ios", "40");
    stage.keep(disk);
    fio_scene(stage, &job)
}

/// Four processes create files; each needs space in the journal for its changes.
fn journal(stage: &mut LabStage) -> Result<ClassScene> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = LabFileSystem::with_options(
        &stage.scratch,
        device,
        FileSystemKind::Ext4,
        &["-J", "size=4"],
    )?;
    hidden.limit("write_bps", 3 * MIB)?;
    let mut command = Command::new(command::find("perl")?);
    command.arg("-e").arg(
        "for (1 .. 3) { fork or last } mkdir \"$ARGV[0]/$$\"; \
         for my $i (1 .. 4000) { open(my $f, '>', \"$ARGV[0]/$$/$i\") or die; close $f } \
         1 while wait > 0",
    );
    command.arg(disk.path());
    stage.keep(hidden);
    stage.keep(disk);
    Ok(ClassScene { command, process: "perl", measured: OwnClock::None })
}
