//! Direct I/O whose requests are known one by one: count, bytes, process, path, offset, origin.

use crate::recording::{Pair, Recording};
use crate::support::{is_module_without_types, labs_program, trial, watch};
use iowhy_labs::Result;
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice, Zram};
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::workload::Workload;
use iowhy_model::{Operation, Origin};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::Path;

/// A prime: nothing that batches or rounds gives it by accident.
const COUNT: u64 = 997;
const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    let mut tests = Vec::new();
    for engine in Engine::DIRECT {
        tests.push(trial(format!("direct::read_{engine:?}_ext4"), move || {
            on_file_system(Backing::Tmpfs, FileSystemKind::Ext4, engine, FioAccess::Read)
        }));
    }
    tests.extend([
        trial("direct::write_psync_ext4", || {
            on_file_system(Backing::File, FileSystemKind::Ext4, Engine::Psync, FioAccess::Write)
        }),
        trial("direct::write_libaio_xfs", || {
            on_file_system(
                Backing::DirectFile,
                FileSystemKind::Xfs,
                Engine::Libaio,
                FioAccess::Write,
            )
        }),
        trial("direct::read_io_uring_xfs", || {
            on_file_system(Backing::Tmpfs, FileSystemKind::Xfs, Engine::IoUring, FioAccess::Read)
        }),
        trial("direct::read_btrfs", read_btrfs),
        trial("direct::write_libaio_btrfs", || {
            on_file_system(Backing::Tmpfs, FileSystemKind::Btrfs, Engine::Libaio, FioAccess::Write)
        }),
        trial("direct::read_raw_device", || on_raw_loop(Engine::Libaio, FioAccess::Read)),
        trial("direct::write_raw_device", || on_raw_loop(Engine::Psync, FioAccess::Write)),
        trial("direct::read_zram", || on_zram(FioAccess::Read)),
        trial("direct::write_zram", || on_zram(FioAccess::Write)),
        trial("direct::split_and_chained_ext4", || split(FileSystemKind::Ext4)),
        trial("direct::split_and_chained_xfs", || split(FileSystemKind::Xfs)),
        trial("direct::split_and_chained_btrfs", || split(FileSystemKind::Btrfs)),
    ]);
    tests
}

fn origin_of(access: FioAccess) -> (Operation, Origin) {
    match access {
        FioAccess::Read | FioAccess::RandomRead => (Operation::Read, Origin::Read),
        FioAccess::Write | FioAccess::RandomWrite => (Operation::Write, Origin::Write),
    }
}

fn on_file_system(
    backing: Backing,
    kind: FileSystemKind,
    engine: Engine,
    access: FioAccess,
) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, backing, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, kind)?.without_checksums()?;
    let file = fio::prepare(&disk.path().join("data"), 2 * COUNT * BLOCK)?;
    disk.remount()?;
    let job = strided(&file, engine, access);
    let report = scratch.fresh("fio.json");
    let recording = watch(disk.device(), &scratch.fresh("recording"), &job.command(&report)?)?;
    if is_untold(kind) {
        expect_untold(&recording, access, COUNT * BLOCK);
        return Ok(());
    }
    let found = recording.of_file(&file);
    expect_strided(&recording, &found, access, "fio");
    assert!(
        found.iter().all(|(_, part)| part.inode == inode_of(&file)),
        "{}",
        recording.overview()
    );
    Ok(())
}

fn read_btrfs() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Btrfs)?;
    let file = fio::prepare(&disk.path().join("data"), 2 * COUNT * BLOCK)?;
    disk.remount()?;
    let workload = Workload::DirectRead { file: file.clone(), pages: COUNT };
    let workload = workload.command(labs_program());
    let recording = watch(disk.device(), &scratch.fresh("recording"), &workload)?;
    if is_untold(FileSystemKind::Btrfs) {
        expect_untold(&recording, FioAccess::Read, COUNT * BLOCK);
        return Ok(());
    }
    let found = recording.of_file(&file);
    expect_strided(&recording, &found, FioAccess::Read, "iowhy-labs");
    Ok(())
}

/// Returns whether btrfs hides the file of a direct I/O: before 5.11 it is a module, whose types
/// the kernel does not describe.
fn is_untold(kind: FileSystemKind) -> bool {
    kind == FileSystemKind::Btrfs && is_module_without_types("btrfs")
}

/// Checks that direct I/O of so many bytes has no file, and that the reason is reported.
fn expect_untold(recording: &Recording, access: FioAccess, bytes: u64) {
    let (operation, _) = origin_of(access);
    let unnamed = recording.pairs().filter(|(request, part)| {
        let reason = recording.text(part.file_reason);
        request.operation == operation && reason.starts_with("anonymous memory of an owner that")
    });
    let found: u64 = unnamed.map(|(_, part)| part.bytes).sum();
    let lost = recording.lost() > 0;
    assert!(found == bytes || (lost && found < bytes), "{found} B\n{}", recording.overview());
}

fn strided(file: &Path, engine: Engine, access: FioAccess) -> Job {
    let job = Job::strided(file, engine, access, COUNT, BLOCK);
    if engine == Engine::Psync { job } else { job.with("iodepth", "8") }
}

/// Each of `found` is one of the I/Os of [`Job::strided`].
fn expect_strided(recording: &Recording, found: &[Pair], access: FioAccess, process: &str) {
    recording.expect_count("direct I/Os", found.len(), COUNT);
    let expected: Vec<(u64, u64)> = (0..COUNT).map(|index| (index * 2 * BLOCK, BLOCK)).collect();
    recording.expect_ranges("direct I/Os", found, &expected);
    for (request, _) in found {
        assert_eq!(
            (request.operation, request.origin),
            origin_of(access),
            "{}",
            recording.overview()
        );
        assert_eq!(request.bytes, BLOCK, "{}", recording.overview());
    }
    expect_process(recording, found, process);
}

/// Checks that one process did all of it, and that it is the process's own data.
fn expect_process(recording: &Recording, found: &[Pair], process: &str) {
    for (request, part) in found {
        let names = [request.process, part.owner].map(|name| recording.text(name));
        assert_eq!(names, [process; 2], "{request:?} {part:?}\n{}", recording.overview());
        assert_eq!(part.owner_pid, request.pid, "{part:?}\n{}", recording.overview());
    }
    let processes: BTreeSet<_> = found.iter().map(|(request, _)| request.pid).collect();
    assert_eq!(processes.len(), 1, "{processes:?}\n{}", recording.overview());
}

fn inode_of(file: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(file).ok().map(|about| about.ino())
}

fn on_raw_loop(engine: Engine, access: FioAccess) -> Result<()> {
    let scratch = Scratch::new()?;
    on_raw(&scratch, &LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?, engine, access)
}

fn on_zram(access: FioAccess) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = Zram::new(&scratch, 64 * MIB)?;
    // A page of zram that was never written is not read from anywhere; the bio comes all the same.
    on_raw(&scratch, &device, Engine::Psync, access)
}

/// On the device itself there is no file system: the file is the device's node, or none.
fn on_raw(
    scratch: &Scratch,
    device: &dyn BlockDevice,
    engine: Engine,
    access: FioAccess,
) -> Result<()> {
    let job = strided(device.path(), engine, access);
    let report = scratch.fresh("fio.json");
    let recording = watch(device, &scratch.fresh("recording"), &job.command(&report)?)?;
    let (operation, origin) = origin_of(access);
    let node = device.path().to_str().unwrap_or_default();
    let mut found: Vec<Pair> =
        recording.pairs().filter(|(request, _)| request.origin == origin).collect();
    found.sort_by_key(|(request, _)| request.sector);
    recording.expect_count("direct I/Os", found.len(), COUNT);
    for (request, part) in &found {
        let what = (request.operation, request.bytes, request.sector * 512 % (2 * BLOCK));
        assert_eq!(what, (operation, BLOCK, 0), "{request:?}\n{}", recording.overview());
        let file = recording.text(part.file);
        assert!(file == node || part.file.is_none(), "{file}\n{}", recording.overview());
    }
    let sectors: BTreeSet<u64> = found.iter().map(|(request, _)| request.sector).collect();
    assert_eq!(sectors.len(), found.len(), "each sector once");
    expect_process(&recording, &found, "fio");
    Ok(())
}

/// Direct writes of 8 MiB, which the kernel splits into requests and chains their bios.
fn split(kind: FileSystemKind) -> Result<()> {
    const BIG: u64 = 8 * MIB;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, kind)?.without_checksums()?;
    let file = fio::prepare(&disk.path().join("data"), 4 * BIG)?;
    disk.remount()?;
    let job =
        Job::new(&file, Engine::Psync, FioAccess::Write, BIG).with("size", (4 * BIG).to_string());
    let report = scratch.fresh("fio.json");
    let recording =
        watch(disk.device(), &scratch.fresh("recording"), &job.direct().command(&report)?)?;
    if is_untold(kind) {
        expect_untold(&recording, FioAccess::Write, 4 * BIG);
        return Ok(());
    }
    let found = recording.of_file(&file);
    recording.expect_ranges("split writes", &found, &[(0, 4 * BIG)]);
    for (request, _) in &found {
        assert_eq!(
            (request.operation, request.origin),
            (Operation::Write, Origin::Write),
            "{request:?}\n{}",
            recording.overview()
        );
    }
    expect_process(&recording, &found, "fio");
    Ok(())
}
