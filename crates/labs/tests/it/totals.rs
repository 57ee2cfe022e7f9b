//! One watch seen in several ways has the same figures.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, watch};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice,
};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, FioReport, Job};
use iowhy_labs::recorded::RecordedTotals;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, process};
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("totals::mixed_load_equals_diskstats", mixed_load),
        trial("totals::two_devices_are_distinguished", two_devices),
        trial("totals::throttled_in_a_cgroup", throttled),
        trial("totals::report_is_the_same_twice", same_report),
        trial("totals::live_watch_counts_the_same", live_watch),
        trial("totals::screen_and_recording_agree", screen_and_recording),
        trial("totals::duckdb_and_pandas_read_it", other_readers),
        trial("totals::recording_is_private", private),
        trial("totals::recording_of_a_size", of_a_size),
        trial("totals::fio_agrees_on_the_time", fio_agrees),
        trial("totals::flushes_are_the_kernel_s", flushes),
        trial("totals::submissions_that_come_again_are_no_errors", come_again),
        trial("totals::a_worker_s_requests_are_their_owners", passed_on),
    ]
}

/// Reads, writes, merges, flushes and discards at once; [`watch`] compares them with the device.
fn mixed_load() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 64 * MIB)?;
    disk.remount()?;
    let script = format!(
        "set -e; dd if={0} of=/dev/null bs=64k status=none; \
         dd if=/dev/zero of={0}.new bs=64k count=100 conv=fsync status=none; rm {0}.new; \
         fstrim {1}; sync -f {1}",
        file.display(),
        disk.path().display()
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]);
    let recording = watch(disk.device(), &scratch.fresh("recording"), &command)?;
    assert!(recording.requests.len() > 50, "{}", recording.overview());
    Ok(())
}

/// Two loads at once, each on its own device.
fn two_devices() -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let one = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let two = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let output = scratch.fresh("recording");
    let jobs = [(&one, "fio-one.json"), (&two, "fio-two.json")].map(|(device, report)| {
        Job::strided(device.path(), Engine::Psync, FioAccess::Read, 499, 4096)
            .command(&scratch.path().join(report))
    });
    let [first, second] = jobs;
    let (first, second) =
        (iowhy_labs::command::shown(&first?), iowhy_labs::command::shown(&second?));
    let mut record = iowhy(["record", "-d", one.name(), "-d", two.name(), "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c", &format!("{first} & {second}; wait")]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    for device in [&one, &two] {
        let found = recording
            .requests
            .iter()
            .filter(|request| recording.text(request.device) == device.name());
        recording.expect_count(device.name(), found.count(), 499);
    }
    Ok(())
}

/// Under a limit the kernel queues the bios from a worker; they are still charged to the cgroup.
fn throttled() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::block(&scratch)?;
    cgroup.limit(&device, Limit::ReadIops(200))?;
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 499, 4096);
    let command = cgroup.inside(&job.command(&scratch.fresh("fio.json"))?);
    let recording = watch(&device, &scratch.fresh("recording"), &command)?;
    recording.expect_count("throttled reads", recording.requests.len(), 499);
    for request in &recording.requests {
        assert_eq!(recording.text(request.cgroup), cgroup.name(), "{}", recording.overview());
    }
    Ok(())
}

/// Rows beyond a recording's limit are left out and counted: everything missing is counted.
fn of_a_size() -> Result<()> {
    const MOST: u64 = 1;
    const READS: u64 = 60_000;
    iowhy_labs::machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 * MIB)?;
    let fio = Job::strided(device.path(), Engine::Libaio, FioAccess::Read, READS, 4096)
        .with("iodepth", "16")
        .command(&scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "--most-mb", &MOST.to_string(), "-d", device.name(), "-o"])?;
    record.arg(&output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let (found, lost) = (recording.requests.len() as u64, recording.lost());
    assert!(found > 0 && found < READS && found + lost >= READS, "{found} and {lost} lost");
    let weight = RecordedTotals::from_folder(&output)?;
    assert!(weight.bytes <= MOST * MIB, "{} B on disk", weight.bytes);
    let is_named = printed(&result).contains("--most-mb");
    assert!(is_named, "no message: {}", printed(&result));
    Ok(())
}

fn simple_recording(scratch: &std::sync::Arc<Scratch>, output: &Path) -> Result<Recording> {
    let device = LoopDevice::new(scratch, Backing::Tmpfs, 64 * MIB)?;
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 97, 4096);
    watch(&device, output, &job.command(&scratch.fresh("fio.json"))?)
}

fn json(command: Command) -> Result<serde_json::Value> {
    let result = finish(command)?;
    assert!(result.status.success(), "{}", printed(&result));
    serde_json::from_slice(&result.stdout).context(|| "read iowhy's JSON".to_owned())
}

fn report(recording: &Path) -> Result<serde_json::Value> {
    let mut command = iowhy(["report", "--json"])?;
    command.arg(recording);
    json(command)
}

fn same_report() -> Result<()> {
    let scratch = Scratch::new()?;
    let output = scratch.fresh("recording");
    let recording = simple_recording(&scratch, &output)?;
    let first = report(&output)?;
    assert_eq!(first, report(&output)?);
    assert_eq!(first["watch"]["requests"], recording.requests.len(), "{first:#}");
    Ok(())
}

/// Waits until a process has attached programs, and attaches no further ones.
fn wait_until_it_watches(pid: u32) {
    let attached = || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("bpf_link")).count()
    };
    let mut before = 0;
    // An emulated machine takes long to load them.
    for _ in 0..60 {
        std::thread::sleep(Duration::from_secs(1));
        let now = attached();
        if now > 0 && now == before {
            return;
        }
        before = now;
    }
}

/// Seconds after which a watch ends that is interrupted when its load is over: on an emulated
/// machine the load may take long.
const AT_MOST: &str = "120";

/// A watch that sees requests.
fn watching(mut watch: Command) -> Result<Child> {
    watch.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = watch.spawn().context(|| "start iowhy".to_owned())?;
    wait_until_it_watches(child.id());
    Ok(child)
}

/// The output of a watch that is interrupted now.
fn interrupted(child: Child) -> Result<Output> {
    process::signal(&child, Signal::INT);
    let result = child.wait_with_output().context(|| "wait for iowhy".to_owned())?;
    assert!(result.status.success(), "{}", printed(&result));
    Ok(result)
}

/// A watch that is shown at once counts as a recording does.
fn live_watch() -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let child = watching(iowhy(["--every", "-t", AT_MOST, "--json", "-d", device.name()])?)?;
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 997, 4096);
    let ran = job.run(&scratch.fresh("fio.json"));
    let result = interrupted(child)?;
    ran?;
    let shown: serde_json::Value =
        serde_json::from_slice(&result.stdout).context(|| "read iowhy's JSON".to_owned())?;
    let figure = |name: &str| shown["watch"][name].as_u64().unwrap_or(0);
    assert_eq!(figure("requests") + figure("lost_requests"), 997, "{shown:#}");
    assert_eq!(figure("bytes"), (997 - figure("lost_requests")) * 4096, "{shown:#}");
    assert_eq!(shown["devices"][0]["device"], device.name(), "{shown:#}");
    Ok(())
}

/// Returns the counts of a report: all, of each device and direction, and of each active process.
fn counts(report: &serde_json::Value) -> BTreeMap<String, [u64; 2]> {
    let of =
        |row: &serde_json::Value| ["requests", "bytes"].map(|key| row[key].as_u64().unwrap_or(0));
    let rows = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut counts = BTreeMap::from([("all".to_owned(), of(&report["watch"]))]);
    for device in rows(&report["devices"]) {
        for direction in ["read", "write", "flush", "discard"] {
            let key = format!("{} {direction}", device["device"].as_str().unwrap_or_default());
            counts.insert(key, of(&device["directions"][direction]));
        }
    }
    for row in rows(&report["processes"]["rows"]) {
        counts.insert(format!("{} {}", row["process"], row["pid"]), of(&row));
    }
    counts
}

/// Two watches of one device at once, of which one shows and the other records, count the same:
/// all, by device and direction, and by process.
fn screen_and_recording() -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", AT_MOST, "-d", device.name(), "-o"])?;
    record.arg(&output);
    let recorder = watching(record)?;
    let screen = watching(iowhy(["--every", "-t", AT_MOST, "--json", "-d", device.name()])?)?;
    let ran = [(FioAccess::Read, 499), (FioAccess::Write, 251)].map(|(access, count)| {
        let job = Job::strided(device.path(), Engine::Psync, access, count, 4096);
        job.run(&scratch.fresh("fio.json"))
    });
    let (_, shown) = (interrupted(recorder)?, interrupted(screen)?);
    ran.into_iter().collect::<Result<Vec<_>>>()?;
    let shown: serde_json::Value =
        serde_json::from_slice(&shown.stdout).context(|| "read iowhy's JSON".to_owned())?;
    let recorded = report(&output)?;
    let lost =
        |summary: &serde_json::Value| summary["watch"]["lost_requests"].as_u64().unwrap_or(0);
    // Each request that one of them lost may be missing anywhere.
    let (lost, all) = (lost(&shown) + lost(&recorded), counts(&recorded));
    assert!(lost <= 20, "{lost} lost of 750");
    let keys = [&all, &counts(&shown)].map(|them| them.keys().cloned().collect::<Vec<_>>());
    assert_eq!(keys[0], keys[1], "recorded and shown, {lost} lost\n{recorded:#}\n{shown:#}");
    for (key, other) in counts(&shown) {
        let [requests, bytes] = all[&key];
        assert!(requests.abs_diff(other[0]) <= lost, "{key}: {requests} {other:?}, {lost} lost");
        assert!(bytes.abs_diff(other[1]) <= lost * 4096, "{key}: {bytes} {other:?}, {lost} lost");
    }
    assert!(all.values().filter(|sums| sums[0] + lost >= 251).count() >= 4, "{all:?}");
    Ok(())
}

/// Other programs read the recording as it is.
fn other_readers() -> Result<()> {
    const SCRIPT: &str = "import sys, duckdb, pandas
query = f\"select count(*), sum(bytes) from '{sys.argv[1]}/requests/*.parquet'\"
count, total = duckdb.sql(query).fetchone()
frame = pandas.read_parquet(sys.argv[1] + '/requests')
print(count, total, len(frame), frame['bytes'].sum())";
    let python = iowhy_labs::command::find("python3")?;
    let mut import = Command::new(&python);
    if !finish({
        import.args(["-c", "import duckdb, pandas"]);
        import
    })?
    .status
    .success()
    {
        return Err(LabError::missing("duckdb and pandas in python3", "scripts/python-env"));
    }
    let scratch = Scratch::new()?;
    let output = scratch.fresh("recording");
    let recording = simple_recording(&scratch, &output)?;
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).arg(&output);
    let (count, bytes) = (
        recording.requests.len(),
        recording.requests.iter().map(|request| request.bytes).sum::<u64>(),
    );
    let expected = format!("{count} {bytes} {count} {bytes}");
    assert_eq!(iowhy_labs::command::output_of(command)?.trim(), expected);
    Ok(())
}

/// A recording can hold names of files and processes of others.
fn private() -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new()?;
    let output = scratch.fresh("recording");
    simple_recording(&scratch, &output)?;
    let about = std::fs::metadata(&output).context(|| "look at the recording".to_owned())?;
    assert_eq!(about.mode() & 0o077, 0, "mode {:o}", about.mode());
    Ok(())
}

/// A synchronous reader's own latencies contain the requests' times, and little more.
fn fio_agrees() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let report = scratch.fresh("fio.json");
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 997, 4096);
    let recording = watch(&device, &scratch.fresh("recording"), &job.command(&report)?)?;
    let figures = FioReport::read(&report)?.read.lat_ns;
    let requests: u64 = recording.requests.iter().filter_map(|request| request.q2c_ns).sum();
    let program = figures.mean * figures.count as f64;
    assert!(
        (requests as f64) < program,
        "requests took {requests} ns, longer than the program waited for them, {program} ns"
    );
    Ok(())
}

/// A report of a recording as JSON.
fn report_of(recording: &Path) -> Result<serde_json::Value> {
    let mut report = iowhy(["report", "--json"])?;
    report.arg(recording);
    let output = finish(report)?;
    assert!(output.status.success(), "{}", printed(&output));
    serde_json::from_slice(&output.stdout).context(|| "read the report".to_owned())
}

fn device_of<'a>(report: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let devices = report["devices"].as_array().expect("a report has devices");
    devices.iter().find(|device| device["device"] == name).expect("the device is in its report")
}

/// Flushes of programs, counted once: in all, and at the device.
fn flushes() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomWrite, 4096)
        .with("size", (16 * MIB).to_string())
        .with("number_ios", "400")
        .with("fsync", "1");
    let output = scratch.fresh("recording");
    let recording = watch(&device, &output, &job.command(&scratch.fresh("fio.json"))?)?;
    let report = report_of(&output)?;
    let flush = &device_of(&report, device.name())["directions"]["flush"];
    let kernel = &device_of(&report, device.name())["kernel"]["directions"]["flush"];
    let counted = kernel["requests"].as_u64().unwrap_or(0);
    let off = recording.lost() + counted / 100;
    // fio submits none after its last write.
    assert!(counted >= 399, "{kernel}");
    for found in [&flush["requests"], &flush["intervals"]["d2c"]["requests"]] {
        let found = found.as_u64().unwrap_or(0);
        assert!(found.abs_diff(counted) <= off, "{found} of {counted}: {flush}");
    }
    Ok(())
}

/// Submissions of io_uring that find no tag and are repeated are one request each, and none has
/// failed.
fn come_again() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::DirectFile, 64 * MIB)?;
    let queue = Path::new("/sys/block").join(device.name()).join("queue/nr_requests");
    std::fs::write(&queue, "4").context(|| format!("write {}", queue.display()))?;
    let job = Job::new(device.path(), Engine::IoUring, FioAccess::RandomRead, 4096)
        .direct()
        .with("iodepth", "32")
        .with("size", (64 * MIB).to_string())
        .with("number_ios", "5000");
    let output = scratch.fresh("recording");
    // It compares the requests with the kernel's counters.
    let recording = watch(&device, &output, &job.command(&scratch.fresh("fio.json"))?)?;
    let failed = recording.requests.iter().filter(|request| request.error.is_some()).count();
    assert_eq!(failed, 0, "{}", recording.overview());
    let retried = recording.environment.retried_submissions;
    assert!(retried > 0, "no submission came again: {}", recording.overview());
    Ok(())
}

/// Writes that a program leaves to the flusher of a loop device, and that device's worker writes to
/// the disk below, are the program's there, too.
fn passed_on() -> Result<()> {
    iowhy_labs::machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::DirectFile, 256 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), 32 * MIB)?;
    disk.remount()?;
    let script = format!(
        "dd if=/dev/zero of={0} bs=64k count=400 conv=notrunc status=none; sync -f {0}",
        file.display()
    );
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c", &script]);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let report = report_of(&output)?;
    let devices = report["devices"].as_array().expect("a report has devices");
    let below = devices.iter().filter(|device| device["device"] != disk.device().name());
    let lower = below.max_by_key(|row| row["lower_requests"].as_u64()).cloned().unwrap_or_default();
    if lower["lower_requests"].as_u64().unwrap_or(0) == 0 {
        return Err(LabError::unsupported(
            "requests below tied to a loop device's",
            "run it on 5.11 or later",
        ));
    }
    let rows = lower["processes"].as_array().into_iter().flatten();
    let own = rows.filter(|row| row["process"] == "dd");
    let bytes: u64 = own.filter_map(|row| row["bytes"].as_u64()).sum();
    // Of 25 MiB; records may be lost.
    assert!(bytes >= 24 * MIB, "{lower:#}");
    Ok(())
}
