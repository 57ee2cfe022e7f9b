//! Tests on devices that only guests have, or that would change the whole machine; they run there
//! (`make test-kernels`) and nowhere else.

use crate::recording::Recording;
use crate::support::{finish, iowhy, is_guest, printed, trial, trial_alone, watch};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, GivenDevice, LabCgroup, LabFileSystem, LoopDevice,
    MappedDevice,
};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, process};
use iowhy_model::{Origin, Request, WaitClass};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The empty disks of the guest in which these tests run; each test has its own, so that two can
/// run.
pub const DISKS: &[&str] = &["plain", "below", "written", "swapped", "traced"];
/// The size of each, bytes.
pub const DISK_BYTES: u64 = 512 << 20;
const MIB: u64 = 1 << 20;
const READS: u64 = 199;

pub fn tests() -> Vec<Trial> {
    if !is_guest() {
        return Vec::new();
    }
    vec![
        trial("guests::virtio_disk", || every_read(&GivenDevice::named("plain")?, Some("virtio"))),
        trial("guests::nvme_disk", || every_read(&GivenDevice::named("nvme")?, Some("pcie"))),
        trial("guests::null_blk", || every_read(&GivenDevice::loaded("null_blk", "nullb0")?, None)),
        trial("guests::device_mapper_links", mapped),
        trial("guests::writeback_belongs_to_its_cgroup", cgroup_writeback),
        trial("guests::swap_is_named", swap),
        trial("guests::blktrace_sees_the_same", blktrace_beside),
        trial_alone("guests::a_watch_keeps_nobody_from_unmounting", unmounting),
    ]
}

/// Each read is one request, on every kind of device, and the recording has the device's transport.
fn every_read(device: &GivenDevice, transport: Option<&str>) -> Result<()> {
    let scratch = Scratch::new()?;
    let job = Job::strided(device.path(), Engine::Libaio, FioAccess::Read, READS, 4096);
    let command = job.command(&scratch.fresh("fio.json"))?;
    let recording = watch(device, &scratch.fresh("recording"), &command)?;
    recording.expect_count("reads", recording.requests.len(), READS);
    for request in &recording.requests {
        assert_eq!(recording.text(request.process), "fio", "{}", recording.overview());
    }
    let known = recording.environment.devices.iter().find(|known| known.name == device.name());
    assert_eq!(known.and_then(|device| device.transport.as_deref()), transport);
    assert_eq!(recording.environment.is_virtual, Some(true));
    Ok(())
}

/// Requests below the device mapper serve those above, or the reason why that is not known is
/// reported.
fn mapped() -> Result<()> {
    let scratch = Scratch::new()?;
    let mapped = MappedDevice::linear(GivenDevice::named("below")?)?;
    let job = Job::strided(mapped.path(), Engine::Psync, FioAccess::Read, READS, 4096);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-d", mapped.name(), "-d", mapped.below().name(), "-o"])?;
    record.arg(&output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let on = |name: &str| -> BTreeMap<u64, &Request> {
        let own = recording.requests.iter().filter(|one| recording.text(one.device) == name);
        own.map(|request| (request.sector, request)).collect()
    };
    let (upper, lower) = (on(mapped.name()), on(mapped.below().name()));
    assert_eq!(
        (upper.len() as u64, lower.len() as u64),
        (READS, READS),
        "{}",
        recording.overview()
    );
    for (sector, request) in lower {
        match request.parent_id {
            Some(parent) => assert_eq!(parent, upper[&sector].request_id),
            None => assert!(
                is_without_module_types() && !recording.text(request.parent_reason).is_empty(),
                "{request:?}"
            ),
        }
    }
    Ok(())
}

/// Before 5.11 the types of modules, of which the device mapper is one, are not described.
fn is_without_module_types() -> bool {
    !Path::new("/sys/kernel/btf/dm_mod").exists()
}

/// On cgroup v2 the writeback of a worker is charged to the cgroup that made the pages dirty.
fn cgroup_writeback() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = LabFileSystem::new(&scratch, GivenDevice::named("written")?, FileSystemKind::Ext4)?;
    let cgroup = LabCgroup::memory(&scratch, 256 * MIB)?;
    let file = disk.path().join("data");
    let mut writer = Command::new("dd");
    writer.args(["if=/dev/zero", "bs=1M", "count=16", "status=none"]);
    writer.arg(format!("of={}", file.display()));
    let script = format!("{}; sync -f {}", shell(&cgroup.inside(&writer)), disk.path().display());
    let mut both = Command::new("/bin/sh");
    both.args(["-c", &script]);
    let recording = watch(disk.device(), &scratch.fresh("recording"), &both)?;
    let pairs = recording.of_file(&file);
    let bytes: u64 = pairs.iter().map(|(_, part)| part.bytes).sum();
    assert_eq!(bytes, 16 * MIB, "{}", recording.overview());
    for (request, part) in pairs {
        assert_eq!(recording.text(request.cgroup), cgroup.name(), "{}", recording.overview());
        assert_eq!(recording.text(part.owner), "dd", "{}", recording.overview());
    }
    Ok(())
}

/// A command line for a shell.
pub fn shell(command: &Command) -> String {
    let quoted =
        |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A program with too little memory: it waits for swap, by name.
fn swap() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = GivenDevice::named("swapped")?;
    command::run("mkswap", [disk.path()])?;
    command::run("swapon", [disk.path()])?;
    let cgroup = LabCgroup::memory(&scratch, 48 * MIB)?;
    let mut eater = Command::new("perl");
    // Twice over 96 MiB: pages that were swapped out have to come back.
    eater.args([
        "-e",
        "my $x = 'a' x (96 << 20); for (1, 2) { \
        for (my $i = 0; $i < length $x; $i += 4096) { substr($x, $i, 1) = 'b' } }",
    ]);
    let result = watch(&disk, &scratch.fresh("recording"), &cgroup.inside(&eater));
    command::run("swapoff", [disk.path()])?;
    let recording = result?;
    let swapped = recording.requests.iter().filter(|one| one.origin == Origin::Swap).count();
    assert!(swapped > 100 && swapped == recording.requests.len(), "{}", recording.overview());
    let waits = recording.waits.iter().filter(|wait| recording.text(wait.process) == "perl");
    assert!(waits.clone().any(|wait| wait.class == WaitClass::Swap || wait.device_ns > 0));
    Ok(())
}

/// blktrace runs with iowhy on the same I/O: both have the same events.
fn blktrace_beside() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = GivenDevice::named("traced")?;
    let _debugfs = iowhy_labs::devices::DebugFs::new()?;
    let folder = scratch.fresh("blktrace");
    std::fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    let job = Job::strided(disk.path(), Engine::Libaio, FioAccess::Read, READS, 4096);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let script = format!(
        "blktrace -d {} -D {} -o trace >/dev/null & sleep 2; {}; sleep 1; kill -INT $!; wait",
        disk.path().display(),
        folder.display(),
        shell(&fio),
    );
    let recording = scratch.fresh("recording");
    let mut record = iowhy(["record", "--events", "-d", disk.name(), "-o"])?;
    record.arg(&recording).args(["--", "/bin/sh", "-c", &script]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let (ours, theirs) = (events(&[&recording])?, events(&[&folder.join("trace")])?);
    assert_eq!(theirs.len() as u64, READS, "{}", printed(&result));
    // Events that iowhy's programs missed on this kernel are counted.
    let kept = Recording::open(&recording)?.lost_at("programs_events");
    let missing = |(sector, theirs): (&u64, &Vec<String>)| {
        let ours = ours.get(sector).map_or(&[][..], Vec::as_slice);
        let is_missing = |name: &&String| !ours.contains(name);
        let rest: Vec<&String> = theirs.iter().filter(|name| ours.contains(name)).collect();
        assert_eq!(rest, ours.iter().collect::<Vec<_>>(), "at {sector}");
        theirs.iter().filter(is_missing).count() as u64
    };
    assert!(ours.keys().all(|sector| theirs.contains_key(sector)), "{ours:?}");
    let missing: u64 = theirs.iter().map(missing).sum();
    assert!(missing <= kept, "{missing} missing beside {kept} counted: {ours:?}\n{theirs:?}");
    Ok(())
}

/// A guest has no root disk: what is mounted here is the first file system on a block device, from
/// which iowhy may find the kernel's list of them.
fn unmounting() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", "120", "-o"])?;
    record.arg(&output).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = record.spawn().context(|| "start iowhy".to_owned())?;
    let begun = Instant::now();
    // The folder is made when the watch has begun.
    while !output.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let watched = output.exists();
    let unmounted = disk.unmount();
    process::end(&mut running);
    assert!(watched, "the watch did not begin");
    unmounted
}

/// The actions of each sector that was read, in order, without what a kernel may leave out.
fn events(source: &[&Path]) -> Result<BTreeMap<u64, Vec<String>>> {
    let mut events = iowhy(["events", "-q"])?;
    events.args(source);
    let text = command::output_of(events)?;
    let mut actions: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(action), Some(flags)) = (words.get(5), words.get(6)) else { continue };
        let sector = words.get(7).and_then(|word| word.parse().ok());
        if let Some(sector) = sector
            && flags.starts_with('R')
            && ["Q", "G", "I", "D", "C"].contains(action)
        {
            actions.entry(sector).or_default().push((*action).to_owned());
        }
    }
    Ok(actions)
}
