//! Healthy and merely busy loads: nothing above "info" may be found.

use super::*;
use crate::error::Context;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::control("control-idle", idle),
    Lab::control("control-benchmark-read", |stage| benchmark(stage, FioAccess::RandomRead, 32)),
    Lab::control("control-benchmark-write", |stage| benchmark(stage, FioAccess::RandomWrite, 32)),
    Lab::control("control-benchmark-qd1", |stage| benchmark(stage, FioAccess::RandomRead, 1)),
    Lab::control("control-benchmark-deep", deep),
    Lab::control("control-database", database),
    Lab::control("control-backup", backup),
    Lab::control("control-fast-backup", fast_backup),
    Lab::control("control-stream-write", stream_write),
    Lab::control("control-web-server", web_server),
    Lab::control("control-compile", compile),
    Lab::control("control-cc", cc),
    Lab::control("control-paced", paced),
    Lab::control("control-package", package),
    Lab::control("control-checkout", checkout),
    Lab::control("control-save-now-and-then", |stage| python_on(stage, FileSystemKind::Ext4, SAVE)),
    Lab::control("control-group-commit", |stage| {
        python_on(stage, FileSystemKind::Xfs, GROUP_COMMIT)
    }),
    Lab::control("control-small-log", |stage| python_on(stage, FileSystemKind::Ext4, SMALL_LOG)),
    Lab::control("control-video", |stage| reader(stage, VIDEO)),
    Lab::control("control-mapped-in-order", |stage| reader(stage, MAPPED)),
    Lab::control("control-search-in-memory", |stage| reader(stage, SEARCH)),
    Lab::control("control-copy-once", copy_once),
    Lab::control("control-cache-misses", cache_misses),
    Lab::control("control-readers-in-parallel", parallel),
];

/// A document is saved every second, durably.
const SAVE: &str = include_str!("../../../programs/save.py");
/// Two hundred transactions are made durable with one sync, five times a second.
const GROUP_COMMIT: &str = include_str!("../../../programs/group_commit.py");
/// A few lines a second.
const SMALL_LOG: &str = include_str!("../../../programs/small_log.py");
/// A stream that is watched as fast as it plays.
const VIDEO: &str = include_str!("../../../programs/video.py");
/// A mapped file that is read from its beginning to its end, a little at a time.
const MAPPED: &str = include_str!("../../../programs/mapped.py");
/// A search through a file that is in memory after the first time.
const SEARCH: &str = include_str!("../../../programs/search.py");

fn idle(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(64)?;
    stage.keep(device);
    Ok(())
}

fn benchmark(stage: &mut LabStage, access: FioAccess, depth: u64) -> Result<()> {
    let device = stage.fast(256)?;
    let engine =
        if depth == 1 { Engine::Psync } else { stage.dice.one(&[Engine::Libaio, Engine::IoUring]) };
    let job = Job::new(device.path(), engine, access, stage.dice.one(&[4096, 8192, 16_384]))
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth.to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Large blocks at a good depth, and a log that is committed in groups.
fn database(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(768)?;
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let data = fio::prepare(&disk.path().join("data"), 256 * MIB)?;
    let log = fio::prepare(&disk.path().join("wal"), 64 * MIB)?;
    let reader = Job::new(&data, Engine::IoUring, FioAccess::RandomRead, 16_384)
        .direct()
        .with("size", (256 * MIB).to_string())
        .with("iodepth", "32");
    stage.fio(reader)?;
    let writer = Job::new(&log, Engine::Psync, FioAccess::Write, 256 << 10)
        .with("size", (64 * MIB).to_string())
        .with("fsync", "4")
        .with("rate_iops", "100");
    stage.fio(writer)?;
    stage.keep(disk);
    Ok(())
}

fn backup(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(768)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    for index in 0..20 {
        fio::prepare(&disk.path().join(format!("file{index}")), 24 * MIB)?;
    }
    disk.remount()?;
    let script =
        r#"for f in "$1"/file*; do cat "$f" | head -c 20m >/dev/null; sleep 0.3; done; sleep 60"#;
    stage.shell(script, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

fn stream_write(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(512)?;
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::Write, MIB)
        .direct()
        .with("size", (400 * MIB).to_string())
        .with("iodepth", "4");
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A web server with everything in memory after the first request, and a modest log.
fn web_server(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    fio::prepare(&disk.path().join("page"), 8 * MIB)?;
    let program = include_str!("../../../programs/web_server.py");
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// Many small files are read once, and results written.
fn compile(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let program = include_str!("../../../programs/compile.py");
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

fn paced(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(256)?;
    let job = Job::new(device.path(), Engine::IoUring, FioAccess::RandomRead, 4096)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(1000, 4000).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A device that needs a millisecond for each request, at any depth.
fn deep(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.latency(Duration::from_micros(stage.dice.between(600, 1200)));
    let job = Job::new(device.path(), Engine::IoUring, FioAccess::RandomRead, 8192)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", stage.dice.between(4, 8).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// A backup without other loads, on a device at its limit.
fn fast_backup(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(900)?;
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    for index in 0..8 {
        fio::prepare(&disk.path().join(format!("file{index}")), 64 * MIB)?;
    }
    disk.remount()?;
    stage.shell(r#"sleep 2; cat "$1"/file* >/dev/null; sleep 60"#, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A compiler that compiles the same program again and again.
fn cc(stage: &mut LabStage) -> Result<()> {
    let cc = crate::command::find("cc")?;
    let device = stage.fast(256)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) \
                  { puts(\"hello\"); return 0; }\n";
    let path = disk.path().join("hello.c");
    std::fs::write(&path, source).context(|| format!("write {}", path.display()))?;
    let script = r#"cd "$1"; while :; do "$2" -O1 -c hello.c -o hello.o; done"#;
    stage.shell(script, &[disk.path(), &cc])?;
    stage.keep(disk);
    Ok(())
}

/// Files are unpacked and made durable together at the end, as package managers do.
fn package(stage: &mut LabStage) -> Result<()> {
    let program = include_str!("../../../programs/package.py");
    python_on(stage, FileSystemKind::Ext4, program)
}

/// A tree that is written once and then read, all in memory.
fn checkout(stage: &mut LabStage) -> Result<()> {
    let program = include_str!("../../../programs/checkout.py");
    python_on(stage, FileSystemKind::Xfs, program)
}

/// A program on a file system of a device that is not the limit.
fn python_on(stage: &mut LabStage, kind: FileSystemKind, program: &str) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, kind)?;
    stage.python(program, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A program that reads one cold file.
fn reader(stage: &mut LabStage, program: &str) -> Result<()> {
    let device = stage.fast(512)?;
    let kind = stage.dice.one(&[FileSystemKind::Ext4, FileSystemKind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let file = fio::prepare(&disk.path().join(stage.dice.name()), 120 * MIB)?;
    disk.remount()?;
    stage.python(program, &[&file])?;
    stage.keep(disk);
    Ok(())
}

fn copy_once(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    for index in 0..40 {
        fio::prepare(&disk.path().join(format!("photo{index}")), 3 * MIB)?;
    }
    disk.remount()?;
    stage.shell(r#"sleep 3; mkdir "$1"/to; cp "$1"/photo* "$1"/to; sleep 60"#, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A cache in front of a healthy disk: some reads miss it, a few at once.
fn cache_misses(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    hidden.latency(Duration::from_micros(stage.dice.between(150, 400)));
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 16_384)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(100, 400).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Several threads that read without delaying each other.
fn parallel(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(256)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 8192)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("numjobs", "4")
        .with("rate_iops", stage.dice.between(200, 900).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}
