//! Hostile or merely large activity of a machine while it is watched: processes that end before
//! they can be identified, reused PIDs, names that change, very many files, very long paths, very
//! many stacks. Everything is recorded or counted, and memory stays bounded.

use crate::chains::compiled;
use crate::recording::Recording;
use crate::support::{finish, iowhy, labs_program, printed, trial, watch};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::workload::Workload;
use iowhy_labs::{Result, command};
use iowhy_model::{Request, WaitClass};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Sectors from one page that is read to the next.
const STRIDE: u64 = 16;

pub fn tests() -> Vec<Trial> {
    let mut tests = vec![
        trial("hostile::processes_that_end", short_lives),
        trial("hostile::numbers_used_again", || named_by_place("reuse", "reuse-", 1)),
        trial("hostile::processes_renamed", || named_by_place("rename", "rename-", 1)),
        trial("hostile::threads_that_end", threads),
        trial("hostile::namespace_and_chroot", namespace),
        trial("hostile::paths_longer_than_any_call_takes", deep),
    ];
    // These are only large: an emulated CPU takes very long for them, and no kernel differs in
    // them.
    if std::env::var_os("IOWHY_GUEST").is_none() {
        tests.extend([
            trial("hostile::overlay", overlay),
            trial("hostile::very_many_files", very_many_files),
            trial("hostile::very_many_stacks", very_many_stacks),
        ]);
    }
    tests
}

fn device(scratch: &Arc<Scratch>) -> Result<LoopDevice> {
    LoopDevice::new(scratch, Backing::Tmpfs, 64 * MIB)
}

fn disk(scratch: &Arc<Scratch>, options: &[&str]) -> Result<LabFileSystem> {
    let device = LoopDevice::new(scratch, Backing::Tmpfs, 1024 * MIB)?;
    LabFileSystem::with_options(scratch, device, FileSystemKind::Ext4, options)
}

/// The hostile program, which gcc makes for each test under a name of its own.
fn hostile(mode: &str, path: &Path, number: u64) -> Result<Command> {
    let mut command = Command::new(compiled("hostile.c", &format!("hostile-{mode}"))?);
    command.arg(mode).arg(path).arg(number.to_string());
    Ok(command)
}

/// The reads of the device by place, the first first.
fn reads(recording: &Recording) -> Vec<&Request> {
    let mut reads: Vec<&Request> = recording.requests.iter().collect();
    reads.sort_by_key(|request| request.sector);
    reads
}

/// The name of a process that has ended cannot be read.
fn short_lives() -> Result<()> {
    const PROCESSES: u64 = 300;
    let scratch = Scratch::new()?;
    let device = device(&scratch)?;
    let script = format!(
        "for i in $(seq 0 {}); do dd if={} of=/dev/null bs=4k count=1 skip=$((2 * i)) iflag=direct \
         status=none; done",
        PROCESSES - 1,
        device.path().display(),
    );
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]);
    let recording = watch(&device, &scratch.fresh("recording"), &shell)?;
    recording.expect_count("reads", recording.requests.len(), PROCESSES);
    let named = |request: &&Request| recording.text(request.process) == "dd";
    assert!(recording.requests.iter().all(|one| named(&one)), "{}", recording.overview());
    let numbers: BTreeSet<Option<u32>> = recording.requests.iter().map(|one| one.pid).collect();
    assert_eq!(numbers.len(), recording.requests.len(), "each has its own process");
    for wait in recording.waits.iter().filter(|wait| !wait.kernel_thread) {
        assert!(!recording.text(wait.process).is_empty(), "{wait:?}");
    }
    Ok(())
}

/// The process of a read, by its place: each has its own name, and all (nearly) the same number.
fn named_by_place(mode: &str, prefix: &str, most_numbers: usize) -> Result<()> {
    const READS: u64 = 97;
    let scratch = Scratch::new()?;
    let device = device(&scratch)?;
    let command = hostile(mode, device.path(), READS)?;
    let recording = watch(&device, &scratch.fresh("recording"), &command)?;
    recording.expect_count("reads", recording.requests.len(), READS);
    for request in reads(&recording) {
        let name = format!("{prefix}{}", request.sector / STRIDE);
        assert_eq!(recording.text(request.process), name, "{request:?}");
    }
    let numbers: BTreeSet<Option<u32>> = recording.requests.iter().map(|one| one.pid).collect();
    // Another process may get a PID in between.
    assert!(numbers.len() <= most_numbers + 5, "{numbers:?}");
    Ok(())
}

fn threads() -> Result<()> {
    const THREADS: u64 = 97;
    let scratch = Scratch::new()?;
    let device = device(&scratch)?;
    let command = hostile("threads", device.path(), THREADS)?;
    let recording = watch(&device, &scratch.fresh("recording"), &command)?;
    recording.expect_count("reads", recording.requests.len(), THREADS);
    let tids: BTreeSet<Option<u32>> = recording.requests.iter().map(|one| one.tid).collect();
    assert_eq!(tids.len(), recording.requests.len());
    for request in &recording.requests {
        assert_eq!(recording.text(request.process), "hostile-threads", "{request:?}");
    }
    Ok(())
}

/// A process with its own mounts and root: its files have the names that the machine knows.
fn namespace() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, &[])?;
    let root = disk.path().join("root");
    std::fs::create_dir(&root).context(|| "make a root".to_owned())?;
    let elsewhere = scratch.fresh("elsewhere");
    std::fs::create_dir(&elsewhere).context(|| "make a place for it".to_owned())?;
    command::find("perl")?;
    // In the new namespace the disk is at another place too, and that place is the root.
    let script = format!(
        "mount --bind {root} {elsewhere} && perl -e 'chroot \"{elsewhere}\"; chdir \"/\"; \
         open(my $f, \">\", \"/file\") or die; print $f \"x\" x 65536; close $f'",
        root = root.display(),
        elsewhere = elsewhere.display(),
    );
    let mut shell = Command::new(command::find("unshare")?);
    shell.args(["--mount", "--pid", "--fork", "/bin/sh", "-c", &script]);
    let both = format!("{} && sync -f {}", crate::guests::shell(&shell), disk.path().display());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &both]);
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    expect_written(&recording, &root.join("file"), 65536);
    Ok(())
}

/// The requests of a file have all of its bytes.
fn expect_written(recording: &Recording, file: &Path, bytes: u64) {
    let pairs = recording.of_file(file);
    let found: u64 = pairs.iter().map(|(_, part)| part.bytes).sum();
    assert_eq!(found, bytes, "{}: {}", file.display(), recording.overview());
}

/// Data that is written through an overlay reaches the disk as a file of the layer above.
fn overlay() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, &[])?;
    let folder = |name: &str| -> Result<PathBuf> {
        let path = disk.path().join(name);
        std::fs::create_dir(&path).context(|| format!("make {}", path.display()))?;
        Ok(path)
    };
    let (lower, upper, work, merged) =
        (folder("lower")?, folder("upper")?, folder("work")?, folder("merged")?);
    fio::prepare(&lower.join("below"), MIB)?;
    disk.remount()?;
    let script = format!(
        "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {m} || exit 1\n\
         cat {m}/below >/dev/null; head -c 65536 /dev/zero >{m}/above; sync {m}/above",
        lower.display(),
        upper.display(),
        work.display(),
        m = merged.display(),
    );
    let mut shell = Command::new(command::find("unshare")?);
    shell.args(["--mount", "/bin/sh", "-c", &script]);
    let recording = watch(disk.device(), &scratch.fresh("recording"), &shell)?;
    expect_written(&recording, &upper.join("above"), 65536);
    expect_written(&recording, &lower.join("below"), MIB);
    Ok(())
}

/// A hundred thousand files: rows stay few, and missing ones are reported.
fn very_many_files() -> Result<()> {
    const FILES: u64 = 100_000;
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, &["-N", "120000"])?;
    let folder = disk.path().join("many");
    std::fs::create_dir(&folder).context(|| "make a folder".to_owned())?;
    let command = Workload::Touch { folder, files: FILES }.command(labs_program());
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    // So many a second, and one more for each process.
    let most = (recording.environment.duration_ns() / 1_000_000_000 + 2) * 2_100;
    let rows = recording.files.len() as u64;
    assert!(rows < most, "{rows} rows, more than {most}");
    // Removals are recorded one by one or by directory. What was done with files without a slot is
    // counted for each file; it tells no device, so a watch of one leaves it out: docs/files.md.
    let sum = |field: fn(&iowhy_model::FileActivity) -> u64| -> u64 {
        recording.files.iter().map(field).sum()
    };
    assert_eq!(sum(|row| row.unlinks), FILES);
    let items = &recording.environment.losses.items;
    let lost: u64 = items.iter().filter(|item| item.place == "uses").map(|item| item.count).sum();
    let creates = sum(|row| row.creates);
    assert!(creates <= FILES && creates + lost >= FILES, "{creates} creates, {lost} lost");
    expect_bounded(&recording);
    Ok(())
}

/// iowhy's own memory.
fn expect_bounded(recording: &Recording) {
    const MOST: u64 = 400 * MIB;
    let memory = recording.environment.cost.memory_bytes;
    assert!(memory > 0 && memory < MOST, "{} MiB", memory / MIB);
}

/// A file whose path is too long for a system call.
fn deep() -> Result<()> {
    const DEPTH: u64 = 40;
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, &[])?;
    let command = hostile("deep", disk.path(), DEPTH)?;
    let output = scratch.fresh("recording");
    let recording = watch(disk.device(), &output, &command)?;
    let long = |text: &str| text.len() > 4096 || text.contains('…');
    let pairs: Vec<_> = recording.pairs().collect();
    let whole = pairs.iter().any(|(_, part)| long(recording.text(part.file)));
    let lost = &recording.environment.losses.items;
    let counted = lost.iter().any(|loss| loss.place == "paths" && loss.count > 0);
    assert!(whole || counted, "{}", recording.overview());
    for view in ["report", "files", "waits"] {
        let mut show = iowhy([view])?;
        show.arg(&output);
        let result = finish(show)?;
        assert!(result.status.success(), "{}", printed(&result));
    }
    Ok(())
}

/// Each read has another stack: stacks are kept up to a limit, which is reported, and the waits of
/// others are still known.
fn very_many_stacks() -> Result<()> {
    const STACKS: u64 = 60_000;
    let scratch = Scratch::new()?;
    let disk = disk(&scratch, &[])?;
    let file = fio::prepare(&disk.path().join("data"), 16 * MIB)?;
    disk.remount()?;
    let stacks = hostile("stacks", &file, STACKS)?;
    let after = hostile("rename", &file, 200)?;
    // Two at once may fill the ring: once that has been read, others are seen again.
    let script = format!(
        "{} & {}; wait; sleep 3; {}",
        crate::guests::shell(&stacks),
        crate::guests::shell(&stacks),
        crate::guests::shell(&after),
    );
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "--stacks", "1000000", "-d", disk.device().name(), "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c", &script]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let lost = &recording.environment.losses.items;
    // On a busy machine the ring fills up before the limit is reached.
    let places = ["stacks", "ring_details"];
    let is_of_stacks = |place: &str| places.contains(&place);
    assert!(lost.iter().any(|loss| is_of_stacks(&loss.place) && loss.count > 0), "{lost:?}");
    assert!(recording.stacks.len() <= 40_000, "{} stacks", recording.stacks.len());
    expect_bounded(&recording);
    let late = |name: &str| name.starts_with("rename-") || name == "hostile-rename";
    let waits = recording.waits.iter().filter(|wait| late(recording.text(wait.process)));
    let unknown = waits.clone().filter(|wait| wait.class == WaitClass::Unknown).count();
    assert!(waits.count() > 0 && unknown == 0, "{unknown} are unknown; {lost:?}");
    Ok(())
}
