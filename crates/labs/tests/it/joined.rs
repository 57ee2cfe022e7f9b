//! Data that is joined to a request in addition to its file and process: the code path that
//! submitted it, its upper request, its origin, whether its file was deleted; and settings that
//! change meanwhile.

use crate::chains::compiled;
use crate::recording::Recording;
use crate::support::{finish, iowhy, is_module_without_types, printed, trial, watch};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine};
use iowhy_model::{Operation, Origin, Request};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const READS: u64 = 61;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("joined::code_path_of_a_buffered_read", code_path),
        trial("joined::code_path_of_a_program_of_its_own", own_code_path),
        trial("joined::loop_device_over_a_file", loop_over_a_file),
        trial("joined::discards_of_fstrim", discards),
        trial("joined::files_without_a_name", deleted),
        trial("joined::setting_that_changes", setting_changes),
    ]
}

fn shell(script: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script]);
    shell
}

/// ext4 in memory.
fn disk(scratch: &Arc<Scratch>) -> Result<LabFileSystem> {
    let device = LoopDevice::new(scratch, Backing::Tmpfs, 256 * MIB)?;
    LabFileSystem::new(scratch, device, FileSystemKind::Ext4)
}

/// The functions through which `cat` asked for a file: those of the page cache, of the file system,
/// and of the block layer; and the same as folded lines and as a drawing.
fn code_path() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch)?;
    let file = fio::prepare(&disk.path().join("data"), 4 * MIB)?;
    disk.remount()?;
    let output = scratch.fresh("recording");
    let mut cat = Command::new("cat");
    cat.arg(&file);
    let recording = watch(disk.device(), &output, &cat)?;
    let of_cat =
        recording.requests.iter().filter(|request| recording.text(request.process) == "cat");
    let stacks: Vec<Vec<&str>> = of_cat
        .map(|of_cat| recording.frames(of_cat.stack_id))
        .filter(|frames| !frames.is_empty())
        .collect();
    assert!(!stacks.is_empty(), "{}", recording.overview());
    let has =
        |part: &str| stacks.iter().any(|frames| frames.iter().any(|frame| frame.contains(part)));
    for part in ["submit_bio", "ext4_", "page_cache", "vfs_read"] {
        assert!(has(part), "no {part} in {stacks:#?}");
    }
    let of_calls =
        stacks.iter().filter(|frames| frames.iter().any(|frame| frame.contains("vfs_read")));
    for frames in of_calls {
        let place = |part: &str| frames.iter().position(|frame| frame.contains(part));
        assert!(place("submit_bio") < place("vfs_read"), "the innermost stands first: {frames:?}");
    }
    drawn(&output, &scratch.fresh("flame"))
}

/// A request's functions in the program and in the kernel: those that read the device, by name.
fn own_code_path() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
    let mut reads = Command::new(compiled("named.c", "named-reads")?);
    reads.arg(device.path());
    let output = scratch.fresh("recording");
    let recording = watch(&device, &output, &reads)?;
    let own = recording
        .requests
        .iter()
        .filter(|request| recording.text(request.process) == "named-reads");
    let stacks: Vec<(Vec<&str>, Vec<&str>)> = own
        .map(|request| {
            (recording.frames(request.stack_id), recording.frames(request.user_stack_id))
        })
        .filter(|(kernel, user)| !kernel.is_empty() && !user.is_empty())
        .collect();
    let place = |frames: &[&str], part: &str| frames.iter().position(|frame| frame.contains(part));
    let whole = stacks.iter().find(|(_, user)| place(user, "reads_for_the_lab").is_some());
    let Some((kernel, user)) = whole else {
        let printed = recording.stacks.iter().filter(|stack| stack.user);
        let printed: Vec<&str> = printed.map(|stack| recording.text(stack.reason)).collect();
        panic!("no function of the program: {stacks:#?}, {printed:?}, {}", recording.overview());
    };
    assert!(place(user, "reads_for_the_lab") < place(user, "main"), "{user:?}");
    assert!(place(user, "main").is_some(), "{user:?}");
    assert!(place(kernel, "submit_bio").is_some(), "{kernel:?}");
    assert!(place(kernel, "blkdev_").is_some(), "a read of the device itself: {kernel:?}");
    // The folded stack has this order: from the system call outwards.
    let mut folded = iowhy(["stacks", "--folded"])?;
    folded.arg(&output);
    let folded = command::output_of(folded)?;
    let line = folded.lines().find(|line| line.contains("reads_for_the_lab")).unwrap_or_default();
    assert!(line.find("reads_for_the_lab") < line.find("submit_bio"), "{folded}");
    Ok(())
}

fn drawn(recording: &Path, picture: &Path) -> Result<()> {
    let mut folded = iowhy(["stacks", "--folded"])?;
    folded.arg(recording);
    let folded = command::output_of(folded)?;
    let line = folded.lines().find(|line| line.contains("submit_bio")).unwrap_or_default();
    let (path, weight) = line.rsplit_once(' ').unwrap_or_default();
    assert!(path.contains(';') && weight.parse::<u64>().is_ok(), "a folded line: {folded}");
    let (outer, inner) = (path.find("vfs_read"), path.find("submit_bio"));
    assert!(outer.is_none() || outer < inner, "the outermost stands first: {path}");
    let mut svg = iowhy(["stacks", "--svg"])?;
    svg.arg(picture).arg(recording);
    command::output_of(svg)?;
    let text = fs::read_to_string(picture).unwrap_or_default();
    assert!(text.contains("<svg") && text.contains("submit_bio"), "{}", text.len());
    Ok(())
}

/// A loop device over a file on a disk: the disk's requests are linked to the loop device's.
fn loop_over_a_file() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = disk(&scratch)?;
    let upper = LoopDevice::inside(&scratch, disk.path(), 16 * MIB)?;
    // Data that was only allocated is not read from below.
    let fill = format!("of={}", upper.path().display());
    command::run(
        "dd",
        ["if=/dev/zero", &fill, "bs=1M", "count=16", "oflag=direct", "status=none"],
    )?;
    command::run("sync", ["-f".as_ref(), disk.path()])?;
    let output = scratch.fresh("recording");
    let lower = disk.device().name().to_owned();
    let job = Job::strided(upper.path(), Engine::Psync, FioAccess::Read, READS, BLOCK);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let mut record = iowhy(["record", "-d", upper.name(), "-d", &lower, "-o"])?;
    record.arg(&output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    recording.check_each();
    let reads = |device: &str| -> Vec<&Request> {
        let own =
            recording.requests.iter().filter(|request| recording.text(request.device) == device);
        own.filter(|request| request.operation == Operation::Read).collect()
    };
    let above: BTreeMap<u64, &Request> =
        reads(upper.name()).into_iter().map(|read| (read.request_id, read)).collect();
    let of_file: BTreeSet<u64> =
        recording.of_file(upper.file()).iter().map(|(request, _)| request.request_id).collect();
    let below: Vec<&Request> =
        reads(&lower).into_iter().filter(|read| of_file.contains(&read.request_id)).collect();
    recording.expect_count("reads above", above.len(), READS);
    recording.expect_count("reads below", below.len(), READS);
    if is_module_without_types("loop") {
        let printed = |request: &&Request| {
            request.parent_id.is_none()
                && recording.text(request.parent_reason).contains(upper.name())
        };
        assert!(below.iter().all(printed), "{}", recording.overview());
        return Ok(());
    }
    let mut tied = BTreeSet::new();
    for request in &below {
        let Some(parent) = request.parent_id.and_then(|id| above.get(&id)) else { continue };
        assert_eq!(parent.bytes, request.bytes, "{parent:?} {request:?}");
        assert!(parent.start_ns <= request.start_ns, "{parent:?} {request:?}");
        assert!(tied.insert(parent.request_id), "each is tied to one: {parent:?}");
    }
    recording.expect_count("reads tied to the one above", tied.len(), READS);
    Ok(())
}

fn discards() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch)?;
    let output = scratch.fresh("recording");
    let script = format!("fstrim {}", disk.path().display());
    let recording = watch(disk.device(), &output, &shell(&script))?;
    let own = recording.requests.iter().filter(|request| request.operation == Operation::Discard);
    let own: Vec<&Request> = own.collect();
    let bytes: u64 = own.iter().map(|request| request.bytes).sum();
    assert!(bytes > 64 * MIB, "most of an empty disk: {}", recording.overview());
    for request in own {
        assert_eq!(request.origin, Origin::Discard, "{request:?}");
        assert_eq!(recording.text(request.process), "fstrim", "{request:?}");
        assert!(recording.text(request.rwbs).starts_with('D'), "{request:?}");
    }
    Ok(())
}

/// Writes to a file that was deleted before the watch are marked; writes to another are not.
fn deleted() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch)?;
    let (kept, gone) = (disk.path().join("kept"), disk.path().join("gone"));
    let held = File::create(&gone).context(|| "make a file".to_owned())?;
    fs::remove_file(&gone).context(|| "remove it".to_owned())?;
    let nameless = format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd());
    let dd = "dd if=/dev/zero bs=64k count=16 conv=fsync,notrunc status=none";
    let script = format!("set -e; {dd} of={nameless}; {dd} of={}", kept.display());
    let recording = watch(disk.device(), &scratch.fresh("recording"), &shell(&script))?;
    let bytes = |deleted: bool, name: &str| -> u64 {
        let own = recording.pairs().filter(|(_, part)| {
            let path = PathBuf::from(recording.text(part.file));
            part.deleted == deleted && path.file_name().is_some_and(|last| last == name)
        });
        own.map(|(_, part)| part.bytes).sum()
    };
    let all =
        (bytes(true, "gone"), bytes(false, "gone"), bytes(true, "kept"), bytes(false, "kept"));
    let lost = recording.lost() > 0;
    assert!(all == (MIB, 0, 0, MIB) || lost, "{all:?} {}", recording.overview());
    assert!(all.0 > 0 && all.1 == 0 && all.2 == 0, "{all:?} {}", recording.overview());
    Ok(())
}

/// A setting that changes during the watch, back and forth, is recorded with its values and times.
fn setting_changes() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
    let setting = format!("/sys/block/{}/queue/read_ahead_kb", device.name());
    scratch.set(Path::new(&setting), "128")?;
    let output = scratch.fresh("recording");
    let script = format!("echo 32 > {setting}; sleep 2.5; echo 68 > {setting}");
    let recording = watch(&device, &output, &shell(&script))?;
    let about = recording.environment.devices.iter().find(|known| known.name == device.name());
    let about = about.expect("the watched device is described");
    let of = |settings: &BTreeMap<String, String>| settings.get("queue/read_ahead_kb").cloned();
    assert_eq!(of(&about.settings_start).as_deref(), Some("128"));
    assert_eq!(of(&about.settings_end).as_deref(), Some("68"));
    let [first, second] = about.settings_changed.as_slice() else {
        panic!("{:#?}", about.settings_changed)
    };
    let values = [&first.before, &first.after, &second.before, &second.after];
    assert_eq!(values, ["128", "32", "32", "68"]);
    // A poll has a beginning and an end: a value seen by its end had not been set when the previous
    // poll began.
    let start_ns = recording.environment.start_ns;
    let between = about.settings_changed.iter().map(|change| (change.since_ns, change.by_ns));
    assert!(
        between.clone().all(|(since, by)| start_ns <= since && since < by),
        "{start_ns} {about:?}"
    );
    assert!(first.since_ns < second.since_ns && first.by_ns < second.by_ns, "{about:?}");
    let mut report = iowhy(["report"])?;
    report.arg(&output).env("COLUMNS", "200");
    let text = printed(&finish(report)?);
    let printed = text.lines().find(|line| line.contains("read_ahead_kb changed about"));
    let printed = printed.unwrap_or_default();
    assert!(
        ["128", "32", "into the watch", device.name()].iter().all(|word| printed.contains(word)),
        "{text}"
    );
    scratch.restore();
    Ok(())
}
