//! Waits: the time agrees with the program's own measurement, and the class is the produced one.

use crate::chains::{Program, SECONDS, compiled, throttled as watch_throttled};
use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, trial_alone, watch};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice,
};
use iowhy_labs::fio::{self, Engine, FioAccess, FioReport, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, machine, process};
use iowhy_model::{Wait, WaitClass};
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("waits::throttled_in_a_cgroup", throttled),
        trial_alone("waits::synced_under_a_limit", synced_under_a_limit),
        trial("waits::fsync_ext4", || fsync(FileSystemKind::Ext4)),
        trial("waits::fsync_xfs", || fsync(FileSystemKind::Xfs)),
        trial("waits::page_cache_misses", buffered),
        trial("waits::deep_queue_io_uring", || deep(Engine::IoUring)),
        trial("waits::deep_queue_libaio", || deep(Engine::Libaio)),
        trial("waits::standing_when_the_watch_begins", standing),
        trial("waits::time_limits_under_a_limit", || asynchronous("5")),
        trial("waits::asleep_for_own_io_when_the_watch_begins", || asynchronous("0")),
        trial("waits::can_be_left_out", left_out),
        trial("waits::stacks_of_programs_that_run", stacks_of_running),
    ]
}

/// The waits of the program with that name; each one's parts are within it.
fn waits_of<'a>(recording: &'a Recording, program: &str) -> Vec<&'a Wait> {
    let own = recording.waits.iter().filter(|wait| recording.text(wait.process) == program);
    let own: Vec<&Wait> = own.collect();
    for wait in &own {
        let parts = wait.device_ns + wait.queue_ns + wait.run_queue_ns;
        assert!(parts <= wait.duration_ns, "{wait:?}");
        assert!(wait.start_ns + wait.duration_ns <= recording.environment.end_ns, "{wait:?}");
    }
    own
}

/// Time by class, nanoseconds.
fn by_class(waits: &[&Wait]) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for wait in waits {
        let parts = wait.device_ns + wait.queue_ns + wait.run_queue_ns;
        *sums.entry(WaitClass::Device.word()).or_default() += wait.device_ns;
        *sums.entry(WaitClass::Queue.word()).or_default() += wait.queue_ns;
        *sums.entry(WaitClass::RunQueue.word()).or_default() += wait.run_queue_ns;
        *sums.entry(wait.class.word()).or_default() += wait.duration_ns - parts;
    }
    sums
}

fn time_in(sums: &BTreeMap<&'static str, u64>, class: WaitClass) -> u64 {
    sums.get(class.word()).copied().unwrap_or(0)
}

/// At least 95 % of the time has a class.
fn expect_explained(recording: &Recording, waits: &[&Wait], sums: &BTreeMap<&'static str, u64>) {
    let all: u64 = sums.values().sum();
    assert!(all > 0, "no thread waited\n{}", recording.overview());
    let unknown = time_in(sums, WaitClass::Unknown);
    assert!(unknown * 20 <= all, "{sums:?}\n{}", described(recording, waits));
}

/// Time by class and the functions in which threads slept, for messages.
fn described(recording: &Recording, waits: &[&Wait]) -> String {
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for wait in waits {
        let frames = recording.frames(wait.stack_id).join(" < ");
        let key = format!("{} {}", wait.class.word(), frames);
        let row = rows.entry(key).or_default();
        row.0 += 1;
        row.1 += wait.duration_ns;
    }
    let rows = rows.iter().map(|(key, (count, ns))| format!("{count:6} waits {ns:12} ns  {key}\n"));
    rows.collect::<String>() + &recording.shortcomings()
}

/// Block tools see requests of a millisecond; the program waits far longer for each.
fn throttled() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    // So few that the limit's delay is far above an emulated machine's time for each.
    cgroup.limit(&device, Limit::ReadIops(5))?;
    let report = scratch.fresh("fio.json");
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 19, 4096);
    let command = cgroup.inside(&job.command(&report)?);
    let recording = watch(&device, &scratch.fresh("recording"), &command)?;
    let waits = waits_of(&recording, "fio");
    let sums = by_class(&waits);
    expect_explained(&recording, &waits, &sums);
    let blocked: u64 = sums.values().sum();
    let throttled = time_in(&sums, WaitClass::CgroupThrottle);
    assert!(throttled * 10 >= blocked * 9, "{sums:?}\n{}", described(&recording, &waits));
    let latency = FioReport::read(&report)?.read.lat_ns;
    let measured = latency.mean * latency.count as f64;
    let off = (blocked as f64 - measured).abs() / measured;
    assert!(
        off < 0.02,
        "{blocked} ns blocked, fio measured {measured} ns: {sums:?}\n{}",
        described(&recording, &waits)
    );
    Ok(())
}

fn fsync(kind: FileSystemKind) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, kind)?;
    let file = fio::prepare(&disk.path().join("data"), 4 * MIB)?;
    let job = Job::new(&file, Engine::Psync, FioAccess::Write, 4096)
        .with("size", (4 * MIB).to_string())
        .with("fsync", "1");
    let command = job.command(&scratch.fresh("fio.json"))?;
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    let waits = waits_of(&recording, "fio");
    let sums = by_class(&waits);
    expect_explained(&recording, &waits, &sums);
    let committing = time_in(&sums, WaitClass::JournalCommit);
    assert!(committing > 0, "{sums:?}\n{}", described(&recording, &waits));
    let wanted = file.to_str().expect("tests name their files in UTF-8");
    let named = waits.iter().filter(|wait| recording.text(wait.file) == wanted).count();
    assert!(
        named * 10 >= waits.len() * 9,
        "{named} of {} know their file\n{}",
        waits.len(),
        described(&recording, &waits)
    );
    Ok(())
}

fn buffered() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 64 * MIB)?;
    disk.remount()?;
    let job = Job::new(&file, Engine::Psync, FioAccess::RandomRead, 4096)
        .with("size", (64 * MIB).to_string())
        .with("number_ios", "997");
    let command = job.command(&scratch.fresh("fio.json"))?;
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    let waits = waits_of(&recording, "fio");
    let sums = by_class(&waits);
    expect_explained(&recording, &waits, &sums);
    let read = waits.iter().any(|wait| wait.class == WaitClass::PageRead);
    let at_device = time_in(&sums, WaitClass::Device) > 0;
    assert!(read && at_device, "{sums:?}\n{}", described(&recording, &waits));
    Ok(())
}

/// A sync waits for writeback that a worker of the limit queues later.
fn synced_under_a_limit() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    cgroup.limit(&device, Limit::WriteIops(10))?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), MIB)?;
    let job = Job::strided(&file, Engine::Psync, FioAccess::Write, 29, 4096);
    let job = job.with("direct", "0").with("fdatasync", "1");
    let command = cgroup.inside(&job.command(&scratch.fresh("fio.json"))?);
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    let waits = waits_of(&recording, "fio");
    let sums = by_class(&waits);
    let blocked: u64 = sums.values().sum();
    let throttled = time_in(&sums, WaitClass::CgroupThrottle);
    let shown = || described(&recording, &waits);
    assert!(blocked > 2_000_000_000, "{sums:?}\n{}", shown());
    assert!(throttled * 10 >= blocked * 8, "{sums:?}\n{}", shown());
    Ok(())
}

/// A thread that waits for any of many sleeps interruptibly, and the kernel does not call it I/O.
fn deep(engine: Engine) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    cgroup.limit(&device, Limit::ReadIops(40))?;
    let job = Job::strided(device.path(), engine, FioAccess::Read, 59, 4096).with("iodepth", "8");
    let command = cgroup.inside(&job.command(&scratch.fresh("fio.json"))?);
    let recording = watch(&device, &scratch.fresh("recording"), &command)?;
    let waits = waits_of(&recording, "fio");
    let sums = by_class(&waits);
    expect_explained(&recording, &waits, &sums);
    let blocked: u64 = sums.values().sum();
    assert!(blocked > 500_000_000, "{sums:?}\n{}", described(&recording, &waits));
    Ok(())
}

/// A thread that hangs all the time makes no event at all.
fn standing() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
    let lower = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
    let output = scratch.path().join("watched");
    let mut record = iowhy(["record", "-t", "2", "-o"])?;
    record.arg(&output);
    let frozen = lower.freeze()?;
    let mut touch = Command::new("touch");
    touch.arg(lower.path().join("new")).stderr(Stdio::null());
    let mut touch = touch.spawn().expect("touch can be started");
    std::thread::sleep(Duration::from_secs(1));
    let result = finish(record);
    drop(frozen);
    process::wait_or_kill(&mut touch, Duration::from_secs(10));
    let result = result?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let waits = waits_of(&recording, "touch");
    assert_eq!(waits.len(), 1, "{waits:?}\n{}", recording.shortcomings());
    let wait = waits[0];
    assert!(wait.censored && wait.duration_ns > 1_900_000_000, "{wait:?}");
    assert_eq!(wait.class, WaitClass::FsLock, "{wait:?}");
    Ok(())
}

/// The time that a limit of three writes a second delays one at most, ns: it counts in slices of
/// its own.
const HELD_BACK_NS: u64 = 1_000_000_000;

/// The time that a program needs to begin its next write and to sleep again, at most, on a busy
/// machine, ns.
const AWAKE_NS: u64 = 100_000_000;

/// A thread that waits for asynchronous writes under a cgroup's limit, perhaps a few milliseconds
/// at a time, does so from the beginning of the watch until the limit lets the last one go. Later
/// writes are still throttled when the watch ends, and no kernel reports such a write before it is
/// released.
fn asynchronous(limit_ms: &'static str) -> Result<()> {
    let aio = compiled("aio.c", &format!("waits-aio-{limit_ms}"))?;
    let program: Program = Box::new(move |file| {
        let mut command = Command::new(&aio);
        command.arg(file).arg(SECONDS.to_string()).arg(limit_ms);
        command
    });
    let recording = watch_throttled(&program, 3, Duration::from_secs(1), |_| Ok(()))?;
    let waits = waits_of(&recording, &format!("waits-aio-{limit_ms}"));
    let sums = by_class(&waits);
    let first = waits.iter().min_by_key(|wait| wait.start_ns).expect("it waits all the time");
    let until_ns = waits.iter().map(|wait| wait.start_ns + wait.duration_ns).max().unwrap_or(0);
    // Waits are watched a little later than requests, as the programs are attached.
    let watched = until_ns - first.start_ns;
    let after = recording.environment.end_ns - until_ns;
    let described = || format!("{sums:?}\n{}", described(&recording, &waits));
    assert!(watched + after > 1_500_000_000, "{watched}, {after} ns: {}", described());
    assert!(
        watched > 1_000_000_000 && after < HELD_BACK_NS,
        "{watched}, {after} ns: {}",
        described()
    );
    let blocked: u64 = sums.values().sum();
    assert!(blocked * 10 > watched * 9, "{blocked} of {watched} ns: {}", described());
    let asleep = blocked - time_in(&sums, WaitClass::RunQueue);
    let throttled = time_in(&sums, WaitClass::CgroupThrottle);
    assert!(throttled * 10 > asleep * 8, "{throttled} of {asleep} ns: {}", described());
    // Without a time limit it is awake only after a write has ended: then, or asleep as the watch
    // begins.
    let woken = limit_ms == "0" && !first.censored;
    assert!(!woken || ended_just_before(&recording, first), "{}\n{first:?}", described());
    Ok(())
}

/// Returns whether a recorded write to its device ended shortly before this wait began.
fn ended_just_before(recording: &Recording, wait: &Wait) -> bool {
    // A kernel worker submits the I/O that a limit has delayed.
    let ends = recording.requests.iter().filter(|request| Some(request.device) == wait.device);
    let mut ends = ends.filter_map(|request| Some(request.start_ns + request.q2c_ns?));
    ends.any(|end_ns| (end_ns..end_ns + AWAKE_NS).contains(&wait.start_ns))
}

fn left_out() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let output = scratch.path().join("watched");
    let mut record = iowhy(["record", "--no-waits", "-t", "1", "-o"])?;
    record.arg(&output);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    assert!(Recording::open(&output)?.waits.is_empty());
    Ok(())
}

/// fio's stacks are often walked wrongly, into shared memory that is no file: the other frames
/// still have their names, and no stack is reported as of a process that has ended.
fn stacks_of_running() -> Result<()> {
    let scratch = Scratch::new()?;
    let report = scratch.fresh("report");
    let program: Program = Box::new(move |file| {
        let job = Job::new(file, Engine::Psync, FioAccess::RandomWrite, 4096).direct();
        let job = job.with("thread", "1").with("size", "8m").timed(SECONDS);
        job.command(&report).expect("fio is installed")
    });
    let recording = watch_throttled(&program, 50, Duration::from_secs(1), |_| Ok(()))?;
    let own = waits_of(&recording, "fio").into_iter().filter_map(|wait| wait.user_stack_id);
    let own: BTreeSet<u64> = own.collect();
    assert!(!own.is_empty(), "no wait of fio has a stack");
    let stacks = recording.stacks.iter().filter(|stack| own.contains(&stack.stack_id));
    let printed: BTreeSet<&str> = stacks.map(|stack| recording.text(stack.reason)).collect();
    assert!(!printed.iter().any(|reason| reason.contains("ended")), "{printed:?}");
    Ok(())
}
