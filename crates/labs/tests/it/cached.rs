//! I/O through the page cache: the exact set of (file, page) and bytes, and its owner or the reason
//! for none.

use crate::recording::{Pair, Recording};
use crate::support::{labs_program, trial, watch};
use iowhy_labs::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::workload::{self, PAGE, Workload};
use iowhy_labs::{Result, command};
use iowhy_model::{Origin, RequestPart};
use libtest_mimic::Trial;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;
const PAGES: u64 = 499;
/// Bytes that a second process writes.
const RUN: u64 = 2 * MIB;
/// btrfs writes early where its metadata could get scarce: each page apart reserves 256 KiB of it.
const DEVICE: u64 = 8192 * MIB;

pub fn tests() -> Vec<Trial> {
    let mut tests = Vec::new();
    for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs, FileSystemKind::Btrfs] {
        let name = kind.name();
        tests.extend([
            trial(format!("cached::mmap_random_{name}"), move || mmap_random(kind)),
            trial(format!("cached::mmap_whole_{name}"), move || mmap_whole(kind)),
            trial(format!("cached::sendfile_{name}"), move || sendfile(kind)),
            trial(format!("cached::read_{name}"), move || buffered_read(kind)),
            trial(format!("cached::fsync_{name}"), move || fsync(kind)),
            trial(format!("cached::dirtier_{name}"), move || dirtier(kind)),
            trial(format!("cached::later_writeback_{name}"), move || later_writeback(kind)),
            trial(format!("cached::dirtied_before_and_by_another_{name}"), move || mixed(kind)),
            trial(format!("cached::two_dirtiers_{name}"), move || two_dirtiers(kind)),
            trial(format!("cached::many_dirtiers_{name}"), move || many_dirtiers(kind)),
        ]);
    }
    tests
}

/// A file system with one file of [`SIZE`] bytes that is not in the page cache.
struct UncachedFile {
    scratch: Arc<Scratch>,
    disk: LabFileSystem,
    file: PathBuf,
}

impl UncachedFile {
    fn new(kind: FileSystemKind) -> Result<UncachedFile> {
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, DEVICE)?;
        let disk = LabFileSystem::new(&scratch, device, kind)?;
        let file = fio::prepare(&disk.path().join("data"), SIZE)?;
        disk.remount()?;
        Ok(UncachedFile { scratch, disk, file })
    }

    fn watch(&self, workload: &Command) -> Result<Recording> {
        watch(self.disk.device(), &self.scratch.fresh("recording"), workload)
    }

    fn dirty(&self, fsync: bool) -> Command {
        let workload = Workload::Dirty { file: self.file.clone(), pages: PAGES, fsync };
        workload.command(labs_program())
    }

    fn syncfs(&self) -> Command {
        Workload::Syncfs { folder: self.disk.path().to_owned() }.command(labs_program())
    }
}

fn dirty_ranges() -> Vec<(u64, u64)> {
    workload::every_other_page(PAGES).map(|offset| (offset, PAGE)).collect()
}

fn expect_origin(recording: &Recording, found: &[Pair], allowed: &[Origin]) {
    for (request, _) in found {
        assert!(
            allowed.contains(&request.origin),
            "origin {}: {request:?}\n{}",
            request.origin.word(),
            recording.overview()
        );
    }
}

fn expect_owner(recording: &Recording, found: &[Pair], owner: &str) {
    for (_, part) in found {
        assert_eq!(recording.text(part.owner), owner, "{part:?}\n{}", recording.overview());
        assert!(part.owner_pid.is_some(), "{part:?}\n{}", recording.overview());
    }
}

fn mmap_random(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let log = stage.scratch.fresh("iolog");
    let job = Job::new(&stage.file, Engine::Mmap, FioAccess::RandomRead, PAGE)
        .with("size", SIZE.to_string())
        .with("number_ios", PAGES.to_string())
        .with("write_iolog", &log);
    let recording = stage.watch(&job.command(&stage.scratch.fresh("fio.json"))?)?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("mapped pages", &found, &fio::read_iolog(&log)?);
    expect_origin(&recording, &found, &[Origin::PageFault]);
    expect_owner(&recording, &found, "fio");
    Ok(())
}

fn mmap_whole(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let job =
        Job::new(&stage.file, Engine::Mmap, FioAccess::Read, PAGE).with("size", SIZE.to_string());
    let recording = stage.watch(&job.command(&stage.scratch.fresh("fio.json"))?)?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("mapped pages", &found, &[(0, SIZE)]);
    expect_origin(&recording, &found, &[Origin::PageFault, Origin::Readahead]);
    expect_owner(&recording, &found, "fio");
    Ok(())
}

fn sendfile(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let workload = Workload::Sendfile { file: stage.file.clone() };
    read_by_labs(&stage, &workload)
}

fn buffered_read(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let workload = Workload::Read { file: stage.file.clone() };
    read_by_labs(&stage, &workload)
}

fn read_by_labs(stage: &UncachedFile, workload: &Workload) -> Result<()> {
    let recording = stage.watch(&workload.command(labs_program()))?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("pages read", &found, &[(0, SIZE)]);
    expect_origin(&recording, &found, &[Origin::Read, Origin::Readahead]);
    expect_owner(&recording, &found, "iowhy-labs");
    Ok(())
}

fn fsync(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let recording = stage.watch(&stage.dirty(true))?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("pages written", &found, &dirty_ranges());
    expect_origin(&recording, &found, &[Origin::Writeback]);
    expect_owner(&recording, &found, "iowhy-labs");
    Ok(())
}

/// One process makes the pages dirty, another one has them written: they belong to the first.
fn dirtier(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let job = Job::strided_buffered(&stage.file, PAGES, PAGE);
    let mut both = Command::new("/bin/sh");
    both.args([
        "-c",
        &format!(
            "{} && {}",
            shell(&job.command(&stage.scratch.fresh("fio.json"))?),
            shell(&stage.syncfs())
        ),
    ]);
    let recording = stage.watch(&both)?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("pages written", &found, &dirty_ranges());
    expect_origin(&recording, &found, &[Origin::Writeback]);
    expect_owner(&recording, &found, "fio");
    Ok(())
}

fn shell(command: &Command) -> String {
    command::shown(command).split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

/// Pages dirtied before the watch have no owner, and the reason says so; in particular the process
/// that requested the writeback is not their owner.
fn later_writeback(kind: FileSystemKind) -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let stage = UncachedFile::new(kind)?;
    command::output_of(stage.dirty(false))?;
    // Five seconds later the kernel may write them: of a device without a share of the recent
    // writeback next to nothing may be dirty.
    std::thread::sleep(Duration::from_secs(1));
    // A process that holds the file open for writing may have dirtied it: a hint, not an owner.
    let held = std::fs::OpenOptions::new().append(true).open(&stage.file);
    let held = held.context(|| format!("open {}", stage.file.display()))?;
    let recording = stage.watch(&stage.syncfs())?;
    let found = recording.of_file(&stage.file);
    recording.expect_ranges("pages written", &found, &dirty_ranges());
    expect_origin(&recording, &found, &[Origin::Writeback]);
    for (_, part) in &found {
        assert_eq!(part.owner_pid, None, "{}", recording.overview());
        let reason = recording.text(part.owner_reason);
        let hint = format!("({})", std::process::id());
        let names_writer = reason.starts_with("dirtied before the watch; open for writing by ");
        assert!(names_writer && reason.ends_with(&hint), "{reason}\n{}", recording.overview());
    }
    drop(held);
    Ok(())
}

/// Writes [`RUN`] at that place of the file.
fn overwrite(stage: &UncachedFile, at: u64) -> String {
    format!(
        "dd if=/dev/zero of='{}' bs=4096 count={} seek={} conv=notrunc status=none",
        stage.file.display(),
        RUN / PAGE,
        at / PAGE
    )
}

fn bytes_of<'a>(found: &[Pair<'a>], chosen: impl Fn(&RequestPart) -> bool) -> u64 {
    found.iter().filter(|(_, part)| chosen(part)).map(|(_, part)| part.bytes).sum()
}

/// Some pages of a file are dirty when the watch begins, others are dirtied by another process
/// during it: the first have no owner, and only the others belong to that process.
fn mixed(kind: FileSystemKind) -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let stage = UncachedFile::new(kind)?;
    command::output_of(stage.dirty(false))?;
    let mut both = Command::new("/bin/sh");
    both.args(["-c", &format!("{} && {}", overwrite(&stage, SIZE / 2), shell(&stage.syncfs()))]);
    let recording = stage.watch(&both)?;
    let found = recording.of_file(&stage.file);
    assert_eq!(bytes_of(&found, |_| true), PAGES * PAGE + RUN, "{}", recording.overview());
    for (_, part) in &found {
        // Of very many pieces of one request the last have no offset: those are of the first.
        let before = part.file_offset.is_none_or(|offset| offset < SIZE / 2);
        let owner = recording.text(part.owner);
        assert_eq!(owner, if before { "" } else { "dd" }, "{part:?}\n{}", recording.overview());
    }
    Ok(())
}

/// Two processes dirty pages of one file: the writes are shared between them.
fn two_dirtiers(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let job = Job::strided_buffered(&stage.file, PAGES, PAGE);
    let fio = shell(&job.command(&stage.scratch.fresh("fio.json"))?);
    let mut both = Command::new("/bin/sh");
    let (dd, sync) = (overwrite(&stage, SIZE / 2), shell(&stage.syncfs()));
    both.args(["-c", &format!("{fio} && {dd} && {sync}")]);
    let recording = stage.watch(&both)?;
    let found = recording.of_file(&stage.file);
    let by = |name: &str| bytes_of(&found, |part| recording.text(part.owner) == name);
    let (fio, dd) = (by("fio"), by("dd"));
    let all = bytes_of(&found, |_| true);
    for (name, own, written) in [("fio", fio, PAGES * PAGE), ("dd", dd, RUN)] {
        let off = own.abs_diff(written);
        assert!(off <= all / 20, "{name}: {own} of {written} B\n{}", recording.overview());
    }
    Ok(())
}

/// More processes of one program than are distinguished dirty one file: all that is written is the
/// program's, though not all of it has a process.
fn many_dirtiers(kind: FileSystemKind) -> Result<()> {
    let stage = UncachedFile::new(kind)?;
    let writers: Vec<String> = (0..13).map(|index| overwrite(&stage, index * SIZE / 16)).collect();
    let mut all = Command::new("/bin/sh");
    let (writers, sync) = (writers.join(" && "), shell(&stage.syncfs()));
    all.args(["-c", &format!("sync -f '{0}' && {writers} && {sync}", stage.file.display())]);
    let recording = stage.watch(&all)?;
    let found = recording.of_file(&stage.file);
    let written = bytes_of(&found, |_| true);
    let of_program = bytes_of(&found, |part| recording.text(part.owner) == "dd");
    let of_processes = bytes_of(&found, |part| part.owner_pid.is_some());
    assert!(written > 0 && of_program == written, "{of_program}\n{}", recording.overview());
    assert!(0 < of_processes && of_processes < written, "{}", recording.overview());
    assert_eq!(recording.lost_at("dirtiers"), 0, "{}", recording.overview());
    Ok(())
}
