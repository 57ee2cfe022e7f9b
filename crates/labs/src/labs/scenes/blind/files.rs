//! File systems, locks, caches, programs.

use super::*;
use crate::command;
use crate::devices::LabFileSystem;
use std::path::Path;
use std::process::Command;

/// The labs.
pub const LABS: &[Lab] = &[
    blind("blind-convoy", &["lock-behind-io"], convoy),
    blind("blind-appenders", &["inode-lock"], appenders),
    blind("blind-small-journal", &["journal-full"], small_journal),
    blind("blind-holes", &["fragmentation"], holes),
    blind("blind-records", &["misaligned-rmw"], records),
    blind("blind-strict-atime", &["atime-updates"], strict_atime),
    blind("blind-logger", &["log-flood"], logger),
    blind("blind-two-ways", &["direct-buffered-mix"], two_ways),
    blind("blind-columns", &["readahead-waste"], columns),
    blind("blind-find", &["metadata-scan"], find),
    blind("blind-sqlite", &["fsync-heavy"], sqlite),
    blind("blind-syncfs", &["sync-storm"], syncfs),
    blind("blind-tar", &["bulk-scan"], tar),
];

/// One thread fsyncs its state with a lock held; dozens of others need the lock only to count.
fn convoy(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    hidden.limit("write_bps", stage.dice.between(3, 6) * MIB)?;
    let (threads, bytes) = (stage.dice.between(24, 40), stage.dice.between(300, 700) * KIB);
    let file = stage.dice.name();
    let program = given(
        include_str!("../../../../programs/convoy.py"),
        &[("file", &file), ("bytes", &bytes), ("threads", &threads)],
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["lock"]).on(&name).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Several processes append to the same file with direct I/O.
fn appenders(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    stage.uneven(&hidden, 180, 400);
    let (block, file) = (stage.dice.one(&[4, 8, 16]) * KIB, stage.dice.name());
    let program = given(
        include_str!("../../../../programs/appenders.py"),
        &[("block", &block), ("file", &file)],
    );
    for _ in 0..stage.dice.between(4, 6) {
        stage.python(&program, &[disk.path()])?;
    }
    stage.expected = Expected::fix(&["prealloc", "xfs"]).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Programs rename and chmod files all the time, on a file system with the smallest journal.
fn small_journal(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = LabFileSystem::with_options(
        &stage.scratch,
        device,
        FileSystemKind::Ext4,
        &["-J", "size=4", "-i", "8192"],
    )?;
    hidden.limit("write_iops", stage.dice.between(250, 500))?;
    let files = stage.dice.between(3000, 5000);
    let program =
        given(include_str!("../../../../programs/small_journal.py"), &[("files", &files)]);
    for _ in 0..3 {
        stage.python(&program, &[disk.path()])?;
    }
    stage.expected = Expected::fix(&["journal"]).on(&name);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A large file is written into the holes of a full file system, then read sequentially.
fn holes(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = LabFileSystem::with_options(
        &stage.scratch,
        device,
        FileSystemKind::Ext4,
        &["-i", "8192", "-m", "0"],
    )?;
    let (size, large) = (stage.dice.one(&[12, 16, 20]) * KIB, stage.dice.name());
    let make = given(
        include_str!("../../../../programs/holes_make.py"),
        &[("size", &size), ("large", &large)],
    );
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    disk.remount()?;
    hidden.iops(stage.dice.between(180, 350))?;
    let mut reader = Command::new("dd");
    let file = disk.path().join(&large);
    reader.args(["of=/dev/null", "bs=1M", &format!("if={}", file.display())]);
    stage.start(reader)?;
    stage.expected =
        Expected::fix(&["defrag", "free space", "room"]).on(&name).by("dd").file(&large);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Records of an unaligned size are overwritten at random offsets of a cold file.
fn records(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let file = stage.dice.name();
    fio::prepare(&disk.path().join(&file), 300 * MIB)?;
    disk.remount()?;
    stage.uneven(&hidden, 160, 360);
    let bytes = stage.dice.between(300, 1100);
    let program = given(
        include_str!("../../../../programs/records.py"),
        &[("file", &file), ("bytes", &bytes)],
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["align"]).on(&name).by("python3").file(&file);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// Thousands of small cached files are read repeatedly on a file system that updates atime on each
/// read.
fn strict_atime(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let files = stage.dice.between(6000, 9000);
    let make =
        given(include_str!("../../../../programs/strict_atime_make.py"), &[("files", &files)]);
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    command::run("sync", [Path::new("-f"), disk.path()])?;
    command::run("mount", [Path::new("-oremount,strictatime,commit=1"), disk.path()])?;
    hidden.limit("write_iops", stage.dice.between(90, 200))?;
    let program = include_str!("../../../../programs/strict_atime.py");
    stage.python(program, &[disk.path()])?;
    stage.expected = Expected::fix(&["relatime", "noatime"]).on(&name);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A service that logs far too much, with fdatasync every few lines, concurrently with a reader.
fn logger(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let data = fio::prepare(&disk.path().join(stage.dice.name()), 64 * MIB)?;
    hidden.iops(stage.dice.between(250, 450))?;
    let log = "var/log/".to_owned() + &stage.dice.name() + ".log";
    let (bytes, lines) = (stage.dice.between(120, 300), stage.dice.between(20, 60));
    let program = given(
        include_str!("../../../../programs/logger.py"),
        &[("log", &log), ("bytes", &bytes), ("lines", &lines)],
    );
    stage.python(&program, &[disk.path()])?;
    let reader = Job::new(&data, Engine::Psync, FioAccess::RandomRead, 4 * KIB)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("rate_iops", "60");
    stage.fio(reader)?;
    stage.expected = Expected::fix(&["rate"]).on(&name).by("python3").file(&log);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// One program accesses a file through the page cache, another the same file with direct I/O.
fn two_ways(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let file = stage.dice.name();
    let data = fio::prepare(&disk.path().join(&file), 96 * MIB)?;
    stage.uneven(&hidden, 250, 500);
    let buffered = Job::new(&data, Engine::Psync, FioAccess::RandomWrite, 4 * KIB)
        .with("size", (96 * MIB).to_string())
        .with("rate_iops", stage.dice.between(300, 600).to_string());
    let direct = Job::new(&data, Engine::Psync, FioAccess::RandomWrite, 16 * KIB)
        .direct()
        .with("size", (96 * MIB).to_string());
    stage.fio(buffered)?;
    stage.fio(direct)?;
    let fix = ["choose", "either", "one way", "not both", "o_direct"];
    stage.expected = Expected::fix(&fix).on(&name).file(&file);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A column store: single bytes are read from a hundred mapped files, with too little memory.
fn columns(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let files = stage.dice.between(90, 130);
    for index in 0..files {
        fio::prepare(&disk.path().join(format!("column{index}.d")), 4 * MIB)?;
    }
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(20, 40) * MIB)?;
    let memory = LabCgroup::memory(&stage.scratch, stage.dice.between(72, 110) * MIB)?;
    let program = given(include_str!("../../../../programs/columns.py"), &[("files", &files)]);
    let mut python = Command::new(command::find("python3")?);
    python.args(["-c", &program]).arg(disk.path());
    stage.start(memory.inside(&python))?;
    stage.expected = Expected::fix(&["madv_random", "read_ahead_kb"]).on(&name).by("python3");
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A `find` through a cold tree, on XFS.
fn find(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let (files, folders) = (stage.dice.between(26_000, 34_000), stage.dice.between(300, 500));
    let make = given(
        include_str!("../../../../programs/find_make.py"),
        &[("files", &files), ("folders", &folders)],
    );
    command::run("python3", ["-c".as_ref(), make.as_ref(), disk.path().as_os_str()])?;
    disk.remount()?;
    hidden.iops(stage.dice.between(60, 110))?;
    let mut find = Command::new("find");
    find.arg(disk.path()).args(["-type", "f", "-size", "+1000k", "-mtime", "+9"]);
    stage.start(find)?;
    let fix = ["schedule", "ionice", "vfs_cache_pressure", "less often", "space it out"];
    stage.expected = Expected::fix(&fix).on(&name).by("find");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A database that commits each row separately.
fn sqlite(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    stage.uneven(&hidden, 250, 500);
    let (file, bytes) = (stage.dice.name(), stage.dice.between(20, 200));
    let program = given(
        include_str!("../../../../programs/sqlite.py"),
        &[("file", &file), ("bytes", &bytes)],
    );
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["group", "batch"]).on(&name).by("python3");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// One process calls `sync -f` in a loop while a service appends to its files.
fn syncfs(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    hidden.limit("write_iops", stage.dice.between(100, 220))?;
    let (bytes, files) = (stage.dice.between(2000, 9000), stage.dice.between(40, 120));
    let program = given(
        include_str!("../../../../programs/syncfs.py"),
        &[("files", &files), ("bytes", &bytes)],
    );
    stage.python(&program, &[disk.path()])?;
    stage.shell("while :; do sync -f \"$1\"; done", &[disk.path()])?;
    stage.expected = Expected::fix(&["stop", "caller", "fsync"]).on(&name).by("sync");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}

/// A nightly archive job runs at noon, concurrently with a light reader.
fn tar(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let data = fio::prepare(&disk.path().join(stage.dice.name()), 64 * MIB)?;
    let tree = disk.path().join("home");
    for index in 0..stage.dice.between(180, 260) {
        let folder = tree.join((index % 13).to_string());
        let made = std::fs::create_dir_all(&folder);
        crate::error::Context::context(made, || format!("make {}", folder.display()))?;
        fio::prepare(&folder.join(index.to_string()), 2 * MIB)?;
    }
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(18, 28) * MIB)?;
    let reader = Job::new(&data, Engine::Psync, FioAccess::RandomRead, 4 * KIB)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("rate_iops", stage.dice.between(100, 200).to_string());
    stage.fio(reader)?;
    stage.shell("tar -cf - \"$1\" | cat >/dev/null", &[&tree])?;
    let fix = ["ionice", "weight", "schedule", "dontneed"];
    stage.expected = Expected::fix(&fix).on(&name).by("tar");
    stage.keep(hidden);
    stage.keep(disk);
    Ok(())
}
