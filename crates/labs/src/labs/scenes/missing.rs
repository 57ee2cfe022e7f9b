//! Causes without a queue of their own: memory, servers, permissions, copies, housekeeping.

use super::*;
use crate::error::Context;
use crate::labs::expected::Expected;
use crate::labs::stage;
use std::fs;
use std::path::{Path, PathBuf};

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("memory-reclaim", &["memory-reclaim"], |stage| limited(stage, true)),
    Lab::near("memory-reclaim-near", &["memory-reclaim"], |stage| limited(stage, false)),
    Lab::cause("fuse-server", &["fuse-server"], |stage| served(stage, 25)),
    Lab::near("fuse-server-near", &["fuse-server"], |stage| served(stage, 0)),
    Lab::cause("copy-up", &["copy-up"], |stage| copied(stage, true)),
    Lab::near("copy-up-near", &["copy-up"], |stage| copied(stage, false)),
    Lab::cause("fanotify-wait", &["fanotify-wait"], |stage| permitted(stage, "0.08")),
    Lab::near("fanotify-wait-near", &["fanotify-wait"], |stage| permitted(stage, "0")),
    Lab::cause("blocking-submit", &["blocking-submit"], |stage| submitted(stage, true)),
    Lab::near("blocking-submit-near", &["blocking-submit"], |stage| submitted(stage, false)),
    Lab::cause("write-cliff", &["write-cliff"], |stage| cliff(stage, true)),
    Lab::near("write-cliff-near", &["write-cliff"], |stage| cliff(stage, false)),
    Lab::cause("space-nearly-full", &["space-nearly-full"], |stage| rotated(stage, true)),
    Lab::near("space-nearly-full-near", &["space-nearly-full"], |stage| rotated(stage, false)),
    Lab::cause("btrfs-maintenance", &["btrfs-maintenance"], |stage| scrubbed(stage, true)),
    Lab::near("btrfs-maintenance-near", &["btrfs-maintenance"], |stage| scrubbed(stage, false)),
];

/// Writes a file over and over, more than a small cgroup holds.
const WRITER: &str = include_str!("../../../programs/writer.py");

/// A writer whose page cache is charged to a cgroup with little memory, or with enough.
fn limited(stage: &mut LabStage, tight: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(300)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    hidden.limit("write_bps", stage.dice.between(10, 20) * MIB)?;
    let cgroup = LabCgroup::memory(&stage.scratch, if tight { 24 * MIB } else { 700 * MIB })?;
    let writer = stage::python(WRITER, &[disk.path()])?;
    stage.start(cgroup.inside(&writer))?;
    stage.expected = Expected::fix(&["memory.limit_in_bytes", "memory.max"]).by("python3");
    stage.keep(cgroup);
    stage.keep(disk);
    Ok(())
}

/// Reads the served file itself.
const FUSE_READER: &str = include_str!("../../../programs/fuse_reader.py");

/// A program that reads from a FUSE file system whose server answers slowly, or at once.
fn served(stage: &mut LabStage, milliseconds: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(64)?;
    let about = format!("/sys/block/{}/loop/backing_file", device.name());
    let file = fs::read_to_string(&about).context(|| format!("read {about}"))?;
    hidden.latency(Duration::from_millis(milliseconds));
    stage.python(FUSE_READER, &[Path::new(file.trim())])?;
    stage.watched = String::new();
    stage.expected = Expected::default().by("python3");
    stage.keep(device);
    Ok(())
}

/// Touches each file of the merged folder.
const TOUCHER: &str = include_str!("../../../programs/toucher.py");

/// The first change of files in a lower layer, or the second.
fn copied(stage: &mut LabStage, first: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let folder = |name: &str| -> Result<PathBuf> {
        let path = disk.path().join(name);
        fs::create_dir(&path).context(|| format!("make {}", path.display()))?;
        Ok(path)
    };
    let (lower, upper, work) = (folder("lower")?, folder("upper")?, folder("work")?);
    let size = if first { 6 * MIB } else { 4096 };
    for n in 0..40 {
        fio::prepare(&lower.join(format!("f{n}")), size)?;
    }
    disk.remount()?;
    let merged = stage.scratch.fresh("merged");
    fs::create_dir(&merged).context(|| format!("make {}", merged.display()))?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let arguments = ["-t", "overlay", "overlay", "-o", &options];
    let arguments = arguments.iter().map(AsRef::as_ref).chain([merged.as_os_str()]);
    crate::command::run("mount", arguments)?;
    if !first {
        for n in 0..40 {
            let path = merged.join(format!("f{n}"));
            let open = fs::OpenOptions::new().append(true).open(&path);
            open.map(drop).context(|| format!("open {}", path.display()))?;
        }
    }
    hidden.limit("write_bps", stage.dice.between(8, 14) * MIB)?;
    stage.python(TOUCHER, &[&merged])?;
    stage.keep(disk);
    stage.keep(Merged(merged));
    Ok(())
}

/// An overlay, unmounted on drop.
struct Merged(PathBuf);

impl Drop for Merged {
    fn drop(&mut self) {
        for _ in 0..20 {
            if crate::command::run("umount", [&self.0]).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Allows each open of a mount, after a delay.
const LISTENER: &str = include_str!("../../../programs/listener.py");

/// Opens files and reads them.
const OPENER: &str = include_str!("../../../programs/opener.py");

/// A program whose opens must be allowed by another one, which is slow or fast.
fn permitted(stage: &mut LabStage, seconds: &str) -> Result<()> {
    let device = stage.fast(128)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    for n in 0..40 {
        fio::prepare(&disk.path().join(format!("f{n}")), 16_384)?;
    }
    stage.python(LISTENER, &[disk.path(), Path::new(seconds)])?;
    stage.python(OPENER, &[disk.path()])?;
    // An open is a wait for no device.
    stage.watched = String::new();
    stage.expected = Expected::fix(&["listener"]).by("python3");
    stage.keep(disk);
    Ok(())
}

/// Submits eight direct writes at a time with io_submit (x86-64's numbers), at the end of a file
/// that it empties now and then, or within it.
const SUBMITTER: &str = include_str!("../../../programs/submitter.py");

/// Asynchronous writes that make a file longer, or overwrite it.
fn submitted(stage: &mut LabStage, append: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let file = disk.path().join(stage.dice.name());
    fio::prepare(&file, if append { 4096 } else { 64 * MIB })?;
    let latency = Duration::from_micros(stage.dice.between(3000, 6000));
    stage.uneven_latency(&hidden, latency);
    let how = Path::new(if append { "append" } else { "within" });
    stage.python(SUBMITTER, &[&file, how])?;
    stage.expected = Expected::default().by("python3");
    stage.keep(disk);
    Ok(())
}

/// Writes collapse in the watch, with pauses, while reads go on; or they are limited all the time.
fn cliff(stage: &mut LabStage, falls: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.latency(Duration::from_millis(2));
    let half = |at: u64| (at * 100 * MIB).to_string();
    let job = |access| {
        Job::new(device.path(), Engine::Psync, access, 65_536)
            .direct()
            .with("size", (100 * MIB).to_string())
    };
    stage.fio(job(FioAccess::RandomWrite).with("offset", half(0)))?;
    stage.fio(job(FioAccess::RandomRead).with("offset", half(1)).with("rate_iops", "30"))?;
    let speed = |write_iops| crate::devices::DeviceSpeed {
        write_iops,
        latency: Duration::from_millis(2),
        ..crate::devices::DeviceSpeed::default()
    };
    if falls {
        // Two writes in three seconds are less than one a second, which a speed cannot express:
        // pauses come with one a second as well.
        stage.in_watch((3, 5), move || {
            hidden.set(speed(1));
            NEVER_MS
        });
    } else {
        hidden.set(speed(40));
    }
    stage.keep(device);
    Ok(())
}

/// Writes four logs repeatedly, each removed before it is written anew.
const ROTATOR: &str = include_str!("../../../programs/rotator.py");

/// A program that writes its logs anew, on a file system with hardly more room than they need, or
/// with much.
fn rotated(stage: &mut LabStage, full: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(400)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    // The kernel's part of the space may be used by this program, too.
    let free = stage.dice.between(24, 28) * MIB;
    let space = rustix::fs::statvfs(disk.path()).map_err(std::io::Error::from);
    let space = space.context(|| format!("ask for the space of {}", disk.path().display()))?;
    if full {
        fio::prepare(&disk.path().join("bulk"), space.f_bfree * space.f_frsize - free)?;
    }
    hidden.limit("write_bps", stage.dice.between(20, 40) * MIB)?;
    stage.python(ROTATOR, &[disk.path()])?;
    stage.expected = Expected::fix(&["space"]).by("python3");
    stage.keep(disk);
    Ok(())
}

/// A reader on btrfs during a scrub, or without one.
fn scrubbed(stage: &mut LabStage, scrub: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, FileSystemKind::Btrfs)?.without_checksums()?;
    let table = fio::prepare(&disk.path().join("table"), 64 * MIB)?;
    fio::prepare(&disk.path().join("bulk"), 500 * MIB)?;
    hidden.limit("read_bps", stage.dice.between(20, 30) * MIB)?;
    let job = Job::new(&table, Engine::Psync, FioAccess::RandomRead, 4096)
        .direct()
        .with("size", (64 * MIB).to_string());
    stage.fio(job)?;
    if scrub {
        stage.shell("while :; do btrfs scrub start -B \"$1\"; done", &[disk.path()])?;
        let point = disk.path().to_owned();
        stage.keep(disk);
        stage.keep(Scrub(point));
    } else {
        stage.keep(disk);
    }
    Ok(())
}

/// A scrub, cancelled on drop.
struct Scrub(PathBuf);

impl Drop for Scrub {
    fn drop(&mut self) {
        let arguments = ["scrub", "cancel"].iter().map(AsRef::as_ref);
        let _ended = crate::command::run("btrfs", arguments.chain([self.0.as_os_str()]));
    }
}
