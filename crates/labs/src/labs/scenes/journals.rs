//! Journals, syncs, locks and logs.

use super::*;
use crate::labs::measure::Measure;
use crate::labs::stage;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("fsync-heavy", &["fsync-heavy"], |stage| syncing(stage, "1")),
    Lab::near("fsync-heavy-near", &["fsync-heavy"], |stage| syncing(stage, "0")),
    Lab::cause("journal-commit", &["journal-commit"], |stage| commits(stage, true)),
    Lab::near("journal-commit-near", &["journal-commit"], |stage| commits(stage, false)),
    Lab::cause("journal-full", &["journal-full"], |stage| journal(stage, "size=4")),
    Lab::near("journal-full-near", &["journal-full"], |stage| journal(stage, "size=128")),
    Lab::cause("wbt-throttle", &["wbt-throttle"], |stage| wbt(stage, "300")),
    Lab::near("wbt-throttle-near", &["wbt-throttle"], |stage| wbt(stage, "0")),
    Lab::cause("inode-lock", &["inode-lock"], |stage| appending(stage, true)),
    Lab::near("inode-lock-near", &["inode-lock"], |stage| appending(stage, false)),
    Lab::cause("sync-storm", &["sync-storm"], |stage| syncfs(stage, true)),
    Lab::near("sync-storm-near", &["sync-storm"], |stage| syncfs(stage, false)),
    Lab::cause("log-flood", &["log-flood"], |stage| logging(stage, 1, "app.log")),
    Lab::near("log-flood-near", &["log-flood"], |stage| logging(stage, 400, "app.log")),
    Lab::cause("atime-updates", &["atime-updates"], |stage| atime(stage, "strictatime")),
    Lab::near("atime-updates-near", &["atime-updates"], |stage| atime(stage, "noatime")),
    Lab::cause("discard-storm", &["discard-storm"], |stage| discard(stage, "discard")),
    Lab::near("discard-storm-near", &["discard-storm"], |stage| discard(stage, "nodiscard")),
    Lab::cause("lock-behind-io", &["lock-behind-io"], |stage| lock(stage, true)),
    Lab::near("lock-behind-io-near", &["lock-behind-io"], |stage| lock(stage, false)),
];

pub(super) fn syncing(stage: &mut LabStage, every: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let kind = stage.dice.one(&[FileSystemKind::Ext4, FileSystemKind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let name = stage.dice.name();
    let file = fio::prepare(&disk.path().join(name), 32 * MIB)?;
    // Less than the load, so that each sync has an effect.
    stage.uneven(&hidden, 200, 450);
    let job = |every: &str| {
        Job::new(&file, Engine::Psync, FioAccess::Write, 4096)
            .with("size", (32 * MIB).to_string())
            .with("fsync", every)
    };
    stage.fio(job(every).with("rate_iops", "500"))?;
    let together = stage.command_of(job("10"))?;
    stage.instead(Measure::Calls, together);
    stage.keep(disk);
    Ok(())
}

/// Small changes that are synced now and then, concurrently with a heavy writer, or alone.
fn commits(stage: &mut LabStage, beside: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    // Writeback throttling would be a second cause.
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    if beside {
        hidden.limit("write_bps", stage.dice.between(12, 25) * MIB)?;
        let program = include_str!("../../../programs/commits_bulk.py");
        stage.python(program, &[disk.path()])?;
    }
    let program = include_str!("../../../programs/commits_small.py");
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Many changes of metadata, with a small or an ordinary journal.
pub(super) fn journal(stage: &mut LabStage, size: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = crate::devices::LabFileSystem::with_options(
        &stage.scratch,
        device,
        FileSystemKind::Ext4,
        &["-J", size],
    )?;
    hidden.limit("write_bps", stage.dice.between(6, 12) * MIB)?;
    let program = include_str!("../../../programs/journal.py");
    for index in ["a", "b", "c"] {
        stage.python(program, &[disk.path(), index.as_ref()])?;
    }
    stage.keep(disk);
    Ok(())
}

/// A buffered writer concurrent with a reader.
fn wbt(stage: &mut LabStage, target: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    stage.set(&device, "wbt_lat_usec", target)?;
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    stage.uneven(&hidden, 200, 500);
    stage.fio(
        Job::new(&table, Engine::Psync, FioAccess::RandomRead, 4096)
            .direct()
            .with("size", (100 * MIB).to_string()),
    )?;
    let data = fio::prepare(&disk.path().join("data"), 100 * MIB)?;
    let writer = Job::new(&data, Engine::Psync, FioAccess::RandomWrite, 4096)
        .with("size", (100 * MIB).to_string())
        .with("fsync", "256");
    stage.fio(writer)?;
    stage.keep(disk);
    Ok(())
}

/// Threads that append to one file, or each to its own.
pub(super) fn appending(stage: &mut LabStage, one: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    // The device serves all at once: only the lock serializes them.
    let latency = Duration::from_micros(stage.dice.between(1500, 3500));
    stage.uneven_latency(&hidden, latency);
    let threads = stage.dice.between(4, 10);
    let program = |one: bool| {
        given(
            include_str!("../../../programs/appending.py"),
            &[("one", &u8::from(one)), ("threads", &threads)],
        )
    };
    stage.python(&program(one), &[disk.path()])?;
    stage.instead(Measure::Calls, stage::python(&program(false), &[disk.path()])?);
    stage.keep(disk);
    Ok(())
}

pub(super) fn syncfs(stage: &mut LabStage, storm: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    stage.uneven(&hidden, 150, 300);
    let writer = include_str!("../../../programs/syncfs_writer.py");
    stage.python(writer, &[disk.path()])?;
    if storm {
        let program = include_str!("../../../programs/syncfs_storm.py");
        stage.python(program, &[disk.path()])?;
    }
    stage.keep(disk);
    Ok(())
}

/// A log that is made durable after so many lines.
pub(super) fn logging(stage: &mut LabStage, lines: u64, name: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let folder = disk.path().join("var/log");
    hidden.limit("write_iops", stage.dice.between(400, 800))?;
    let program =
        given(include_str!("../../../programs/logging.py"), &[("name", &name), ("lines", &lines)]);
    stage.python(&program, &[&folder])?;
    stage.keep(disk);
    Ok(())
}

/// Many small files are read.
fn atime(stage: &mut LabStage, option: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let make = include_str!("../../../programs/atime_make.py");
    script(make, disk.path())?;
    disk.remount()?;
    let options = format!("remount,{option},commit=1");
    crate::command::run(
        "mount",
        ["-o".as_ref(), std::ffi::OsStr::new(&options), disk.path().as_os_str()],
    )?;
    // All files are in memory by then: only writes remain.
    script(include_str!("../../../programs/atime_read_once.py"), disk.path())?;
    hidden.limit("write_bps", stage.dice.between(700, 1400) << 10)?;
    let program = include_str!("../../../programs/atime_read.py");
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Old files are removed, a few at a time, from a disk that stalls during each discard, as many do.
fn discard(stage: &mut LabStage, option: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let make = include_str!("../../../programs/discard_make.py");
    script(make, disk.path())?;
    disk.remount()?;
    let options = format!("remount,{option},commit=1");
    crate::command::run(
        "mount",
        ["-o".as_ref(), std::ffi::OsStr::new(&options), disk.path().as_os_str()],
    )?;
    let mut dice = stage.dice.clone();
    stage.again(10, move || {
        hidden.discard(Duration::from_micros(dice.between(2000, 5000)));
        300
    });
    let program = include_str!("../../../programs/discard.py");
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// One thread writes and syncs while it holds a lock that forty others want, or after releasing it.
pub(super) fn lock(stage: &mut LabStage, held: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    hidden.limit("write_bps", stage.dice.between(10, 20) * MIB)?;
    let threads = stage.dice.between(20, 40);
    let program = given(
        include_str!("../../../programs/lock.py"),
        &[("held", &u8::from(held)), ("threads", &threads)],
    );
    stage.python(&program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}
