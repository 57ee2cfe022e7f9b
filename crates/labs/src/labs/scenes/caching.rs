//! Page cache, mapped files, and large reads.

use super::*;
use crate::devices::LabFileSystem;
use crate::labs::measure::{Measure, Relief};
use crate::labs::stage;
use std::path::PathBuf;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::cause("readahead-waste", &["readahead-waste"], |stage| mapped(stage, "0")),
    Lab::near("readahead-waste-near", &["readahead-waste"], |stage| mapped(stage, "random")),
    Lab::cause("page-cache-thrash", &["page-cache-thrash"], |stage| cached(stage, 48)),
    Lab::near("page-cache-thrash-near", &["page-cache-thrash"], |stage| cached(stage, 800)),
    Lab::cause("major-faults", &["major-faults"], |stage| code(stage, 40)),
    Lab::near("major-faults-near", &["major-faults"], |stage| code(stage, 800)),
    Lab::cause("metadata-scan", &["metadata-scan"], |stage| scan(stage, false)),
    Lab::near("metadata-scan-near", &["metadata-scan"], |stage| scan(stage, true)),
    Lab::cause("bulk-scan", &["bulk-scan"], |stage| bulk(stage, true)),
    Lab::near("bulk-scan-near", &["bulk-scan"], |stage| bulk(stage, false)),
    Lab::cause("writeback-burst", &["writeback-burst"], |stage| bursts(stage, true)),
    Lab::near("writeback-burst-near", &["writeback-burst"], |stage| bursts(stage, false)),
    Lab::cause("double-caching", &["double-caching"], |stage| twice(stage, Backing::File)),
    Lab::near("double-caching-near", &["double-caching"], |stage| {
        twice(stage, Backing::DirectFile)
    }),
    Lab::cause("fragmentation", &["fragmentation"], |stage| pieces(stage, true)),
    Lab::near("fragmentation-near", &["fragmentation"], |stage| pieces(stage, false)),
    Lab::cause("direct-buffered-mix", &["direct-buffered-mix"], |stage| mix(stage, true)),
    Lab::near("direct-buffered-mix-near", &["direct-buffered-mix"], |stage| mix(stage, false)),
    Lab::cause("misaligned-rmw", &["misaligned-rmw"], |stage| parts(stage, 512)),
    Lab::near("misaligned-rmw-near", &["misaligned-rmw"], |stage| parts(stage, 4096)),
];

/// A file system with one cold file.
fn cold_file(
    stage: &mut LabStage,
    device: impl BlockDevice + 'static,
    name: &str,
    mib: u64,
) -> Result<(LabFileSystem, PathBuf)> {
    let kind = stage.dice.one(&[FileSystemKind::Ext4, FileSystemKind::Xfs]);
    let disk = stage.mounted(device, kind)?;
    let file = fio::prepare(&disk.path().join(name), mib * MIB)?;
    disk.remount()?;
    Ok((disk, file))
}

/// Random faults in a mapped file larger than the memory; `hint` is fio's advice to the kernel.
pub(super) fn mapped(stage: &mut LabStage, hint: &str) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    stage.set(&device, "read_ahead_kb", "128")?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 360)?;
    hidden.limit("read_bps", stage.dice.between(20, 60) * MIB)?;
    let memory = LabCgroup::memory(&stage.scratch, 70 * MIB)?;
    let job = |hint: &str| {
        Job::new(&file, Engine::Mmap, FioAccess::RandomRead, 4096)
            .with("size", (360 * MIB).to_string())
            .with("fadvise_hint", hint)
            .with("norandommap", "1")
    };
    stage.fio_inside(job(hint), &memory)?;
    // An open file keeps the readahead window that its device had at open: it has to be reopened.
    let random = memory.inside(&stage.command_of(job("random"))?);
    stage.instead(Measure::Faults, random);
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}

fn cached(stage: &mut LabStage, mib: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 120)?;
    hidden.limit("read_bps", stage.dice.between(60, 120) * MIB)?;
    let memory = LabCgroup::memory(&stage.scratch, mib * MIB)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::RandomRead, 65_536)
        .with("size", (120 * MIB).to_string())
        .with("invalidate", "0")
        .with("norandommap", "1");
    stage.fio_inside(job, &memory)?;
    let lift = memory.lifting_memory();
    let relief = Relief::new(Measure::Calls, |_| lift());
    // The complete file is read once more.
    stage.relief = Some(relief.noticed_in(Duration::from_secs(5)));
    std::thread::sleep(Duration::from_secs(4));
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}

/// A library whose functions are called at random.
pub(super) fn code(stage: &mut LabStage, mib: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = format!("lib{}.so", stage.dice.name());
    let (disk, file) = cold_file(stage, device, &name, 100)?;
    if mib <= 100 {
        // Fast enough that pages are evicted and read again within the watch.
        stage.uneven(&hidden, 3000, 6000);
    }
    let memory = LabCgroup::memory(&stage.scratch, mib * MIB)?;
    let program = include_str!("../../../programs/code.py");
    let mut python = std::process::Command::new(crate::command::find("python3")?);
    python.args(["-c", program]).arg(&file);
    stage.start(memory.inside(&python))?;
    if mib > 100 {
        std::thread::sleep(Duration::from_secs(4));
    }
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}

/// A cold file system with a tree of small files, whose inodes are read one by one.
pub(super) fn tree(
    stage: &mut LabStage,
    device: impl BlockDevice + 'static,
    files: u64,
    bytes: u64,
) -> Result<LabFileSystem> {
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let make = given(
        include_str!("../../../programs/tree_make.py"),
        &[("files", &files), ("bytes", &bytes)],
    );
    script(&make, disk.path())?;
    disk.remount()?;
    let setting = format!("/sys/fs/ext4/{}/inode_readahead_blks", disk.device().name());
    stage.set_file(setting.into(), "1")?;
    Ok(disk)
}

/// Walks a tree of small files, whose inodes or whose data it reads.
pub(super) fn scan(stage: &mut LabStage, reads: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let many = if reads { (2_000, 100_000) } else { (24_000, 1) };
    let disk = tree(stage, device, many.0, many.1)?;
    stage.uneven(&hidden, 60, 110);
    let walk =
        given(include_str!("../../../programs/scan_walk.py"), &[("reads", &u8::from(reads))]);
    stage.python(&walk, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

/// A backup, with or without a reader that waits behind it.
fn bulk(stage: &mut LabStage, others: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    for index in 0..10 {
        fio::prepare(&disk.path().join(format!("dump{index}")), 50 * MIB)?;
    }
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(28, 45) * MIB)?;
    let script = r#"cat "$1"/dump* >/dev/null; sleep 60"#;
    stage.shell(script, &[disk.path()])?;
    if others {
        let job = Job::new(&table, Engine::Psync, FioAccess::RandomRead, 8192)
            .direct()
            .with("size", (100 * MIB).to_string());
        stage.fio(job)?;
    }
    stage.keep(disk);
    Ok(())
}

/// A reader, and a writer whose pages are written back in bursts or steadily.
fn bursts(stage: &mut LabStage, bursts: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let table = fio::prepare(&disk.path().join("table"), 100 * MIB)?;
    let log = fio::prepare(&disk.path().join("data"), 100 * MIB)?;
    disk.remount()?;
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    stage.uneven(&hidden, 500, 800);
    let job = Job::new(&table, Engine::Psync, FioAccess::RandomRead, 8192)
        .direct()
        .with("size", (100 * MIB).to_string())
        .with("rate_iops", "150");
    stage.fio(job)?;
    let chunk = if bursts { 250 } else { 12 };
    let pause = if bursts { 1.6 } else { 0.08 };
    let program =
        given(include_str!("../../../programs/bursts.py"), &[("chunk", &chunk), ("pause", &pause)]);
    stage.python(&program, &[&log])?;
    stage.keep(disk);
    Ok(())
}

fn twice(stage: &mut LabStage, backing: Backing) -> Result<()> {
    let device = crate::devices::LoopDevice::new(&stage.scratch, backing, 200 * MIB)?;
    stage.watched = device.name().to_owned();
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 65_536)
        .direct()
        .with("size", (190 * MIB).to_string())
        .with("iodepth", "4")
        .with("rate_iops", stage.dice.between(2000, 4000).to_string());
    stage.fio(job)?;
    stage.keep(device);
    Ok(())
}

/// Reads a file that was written into the holes of a full file system, or into an empty one.
fn pieces(stage: &mut LabStage, full: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(200)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let make = include_str!("../../../programs/pieces_make.py");
    let holes = include_str!("../../../programs/pieces_holes.py");
    let write = include_str!("../../../programs/pieces_write.py");
    let programs: &[&str] = if full { &[make, holes, write] } else { &[write] };
    for program in programs {
        script(program, disk.path())?;
        disk.remount()?;
    }
    stage.set(disk.device(), "read_ahead_kb", "128")?;
    // Fragments cost seeks; flash has none.
    stage.set(disk.device(), "rotational", "1")?;
    stage.uneven(&hidden, 120, 260);
    stage.shell(r#"sleep 1; cat "$1"/table >/dev/null; sleep 60"#, &[disk.path()])?;
    stage.keep(disk);
    Ok(())
}

pub(super) fn mix(stage: &mut LabStage, both: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(700)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let table = fio::prepare(&disk.path().join("table"), 200 * MIB)?;
    let other = fio::prepare(&disk.path().join("other"), 200 * MIB)?;
    disk.remount()?;
    stage.uneven(&hidden, 500, 900);
    let direct = Job::new(&table, Engine::Psync, FioAccess::RandomWrite, 4096)
        .direct()
        .with("size", (200 * MIB).to_string());
    stage.fio(direct)?;
    let buffered =
        Job::new(if both { &table } else { &other }, Engine::Psync, FioAccess::Read, 16_384)
            .with("size", (200 * MIB).to_string())
            .with("rate_iops", "250");
    stage.fio(buffered)?;
    stage.keep(disk);
    Ok(())
}

/// Synchronous writes of `bytes` bytes at random offsets of a cold file.
fn parts(stage: &mut LabStage, bytes: u64) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let name = stage.dice.name();
    let (disk, file) = cold_file(stage, device, &name, 300)?;
    stage.uneven(&hidden, 200, 500);
    let program =
        |bytes: u64| given(include_str!("../../../programs/parts.py"), &[("bytes", &bytes)]);
    stage.python(&program(bytes), &[&file])?;
    stage.instead(Measure::Calls, stage::python(&program(4096), &[&file])?);
    stage.keep(disk);
    Ok(())
}

/// A column store that only writes: hundreds of mapped files, under a memory limit.
pub(super) fn phantom_reads(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    stage.set(&device, "read_ahead_kb", "128")?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let files = stage.dice.between(180, 320);
    let make = given(include_str!("../../../programs/phantom_reads_make.py"), &[("files", &files)]);
    script(&make, disk.path())?;
    disk.remount()?;
    hidden.limit("read_bps", stage.dice.between(20, 50) * MIB)?;
    let memory = LabCgroup::memory(&stage.scratch, 64 * MIB)?;
    let program = given(include_str!("../../../programs/phantom_reads.py"), &[("files", &files)]);
    let mut python = std::process::Command::new(crate::command::find("python3")?);
    python.args(["-c", &program]).arg(disk.path());
    stage.start(memory.inside(&python))?;
    stage.keep(memory);
    stage.keep(disk);
    Ok(())
}
