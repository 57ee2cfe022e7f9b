//! Checks for every kernel and processor, in three short guests: each read and its wait; the
//! causes, owners, files, calls and stages of three simple programs; stacks, and two of the
//! documents' investigations.
//!
//! What does not belong here: the kernels, and features of some of them (see [`crate::kernels`]).

mod programs;

use crate::kernels::{eprint_line, expect_declared, recording, succeeded};
use crate::recording::Recording;
use crate::support::words;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use iowhy_labs::kernels::{CHECK, MODULES};
use iowhy_labs::vm::{Architecture, DiskLimits, Guest, GuestDisk, GuestOutcome, Kernel};
use iowhy_model::{FileActivity, Operation, Request, Wait, WaitClass};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

pub use programs::programs;

/// The time that one guest may take: an emulated one on a host that builds meanwhile.
const PATIENCE: Duration = Duration::from_secs(400);

/// Boots, checks that `check` has the declared claims, and that a short watch has each request and
/// the waits for them.
pub fn reads(kernel: Kernel) -> Result<()> {
    const READS: usize = 97;
    let name = kernel.name;
    let script = format!(
        "set -e; {CHECK}; disk=$(readlink /dev/disk/plain)
        iowhy record -d $disk -o /out/recording -- \\
        dd if=/dev/disk/plain of=/dev/null bs=4k count={READS} iflag=direct status=none
        iowhy report /out/recording
        iowhy record -d $disk --events --page-cache -t 0.3 -o /out/more; iowhy report /out/more
        iowhy opens -t 0.3"
    );
    // Slow enough that a reader has to sleep.
    let disk = GuestDisk::memory("plain", 64 << 20).limited(DiskLimits::iops(100));
    let mut guest = Guest::new(kernel).disk(disk).patience(PATIENCE);
    for module in MODULES {
        guest = guest.module(module);
    }
    let outcome = guest.run(&script)?;
    eprint_line(&format!("Linux {name}: up after {:.1} s", outcome.booted.as_secs_f64()));
    expect_declared(&outcome, name)?;
    // A program that loads for a watch of everything, as `check` tried it, may not load for one of
    // one device.
    let words = words(&outcome.said);
    assert!(!words.contains("could not be used"), "{}", outcome.said);
    let recording = recording(&outcome)?;
    assert_eq!(recording.requests.len(), READS, "{}", recording.overview());
    let sizes: BTreeSet<u64> = recording.requests.iter().map(|request| request.bytes).collect();
    assert_eq!(sizes, BTreeSet::from([4096]), "{}", recording.overview());
    let waits = recording.waits.iter().filter(|wait| recording.text(wait.process) == "dd");
    let (known, all) = (waits.clone().filter(|wait| wait.device.is_some()).count(), waits.count());
    assert!(known == all && all > READS / 2, "{known} of {all} waits have a device");
    Ok(())
}

/// The bytes of both writers, and the limit of one in each second: so low that the delay of a busy
/// host is small compared with a request.
const BLOCK: u64 = 64 << 10;
const WRITTEN: u64 = 16 * BLOCK;
const LIMIT: u64 = 256 << 10;
const FLUSH: Duration = Duration::from_millis(400);

/// A program that writes a file and makes it durable, one that a cgroup's limit holds, and one that
/// writes to a drive that is slow to flush.
pub fn causes(kernel: Kernel) -> Result<()> {
    let script = format!(
        "set -e; mkfs.ext4 -qF /dev/disk/files; mkdir /tmp/files; mount /dev/disk/files /tmp/files
        disk=$(readlink /dev/disk/files); limited=/sys/fs/cgroup/limited; mkdir $limited
        echo \"$(cat /sys/block/${{disk##*/}}/dev) wbps={LIMIT}\" >$limited/io.max
        iowhy record -d $disk -o /out/recording -- sh -c '
        dd if=/dev/zero of=/tmp/files/written bs=64k count=16 conv=fsync status=none
        echo $$ >/sys/fs/cgroup/limited/cgroup.procs
        exec dd if=/dev/zero of=/tmp/files/limited bs=64k count=16 oflag=direct status=none'
        iowhy report --json /out/recording >/out/limited.json
        iowhy stages --json /out/recording >/out/stages.json
        iowhy record -d $(readlink /dev/disk/flushed) -o /out/flushed -- \\
        dd if=/dev/zero of=/dev/disk/flushed bs=4k count=12 oflag=direct,dsync status=none
        iowhy report --json /out/flushed >/out/flushed.json"
    );
    let architecture = kernel.architecture;
    let guest = Guest::new(kernel)
        .patience(PATIENCE)
        .disk(GuestDisk::memory("files", 64 << 20))
        .disk(GuestDisk::slow_to_flush("flushed", 16 << 20, FLUSH));
    let outcome = guest.run(&script)?;
    succeeded(&outcome);
    let watched = recording(&outcome)?;
    files_and_owners(&watched);
    calls(&watched);
    limit(&watched, &json(&outcome, "limited.json")?);
    stacks(&watched, architecture);
    stages(&watched, &json(&outcome, "stages.json")?);
    flushes(&json(&outcome, "flushed.json")?)
}

pub fn json(outcome: &GuestOutcome, name: &str) -> Result<Value> {
    let path = outcome.out().join(name);
    let text = std::fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).context(|| format!("understand {}", path.display()))
}

/// Every byte of both files was written by dd, whichever thread queued it.
fn files_and_owners(watched: &Recording) {
    for file in ["/tmp/files/written", "/tmp/files/limited"] {
        let pairs = watched.of_file(Path::new(file));
        watched.expect_ranges(file, &pairs, &[(0, WRITTEN)]);
        let owners: BTreeSet<&str> =
            pairs.iter().map(|(_, part)| watched.text(part.owner)).collect();
        assert_eq!(owners, BTreeSet::from(["dd"]), "{file}\n{}", watched.overview());
    }
}

/// System calls by the processor's own numbers: each was counted once, for the right file.
fn calls(watched: &Recording) {
    let of = |file: &str| -> Vec<&FileActivity> {
        watched.files.iter().filter(|row| watched.text(row.file) == file).collect()
    };
    let sum = |rows: &[&FileActivity], count: fn(&FileActivity) -> u64| -> u64 {
        rows.iter().map(|row| count(row)).sum()
    };
    for (file, syncs) in [("/tmp/files/written", 1), ("/tmp/files/limited", 0)] {
        let rows = of(file);
        let found = (
            sum(&rows, |row| row.opens),
            sum(&rows, |row| row.writes),
            sum(&rows, |row| row.write_bytes),
            sum(&rows, |row| row.fsyncs),
        );
        assert_eq!(found, (1, WRITTEN / BLOCK, WRITTEN, syncs), "{file}: {rows:#?}");
    }
}

/// The limit is the first cause, and most of the limited writer's time.
fn limit(watched: &Recording, report: &Value) {
    assert_eq!(report["findings"][0]["cause"], "cgroup-throttle", "{:#}", report["findings"]);
    let held = waits_of_dd(watched).filter(|wait| wait.class == WaitClass::CgroupThrottle);
    let held_ns: u64 = held.map(|wait| wait.duration_ns).sum();
    let least = Duration::from_secs(WRITTEN / LIMIT).as_nanos() as u64 / 2;
    assert!(held_ns >= least, "held for {held_ns} ns\n{}", watched.overview());
    for wait in waits_of_dd(watched) {
        let parts = wait.device_ns + wait.queue_ns + wait.run_queue_ns;
        assert!(parts <= wait.duration_ns, "{wait:?}");
    }
}

fn waits_of_dd(watched: &Recording) -> impl Iterator<Item = &Wait> {
    watched.waits.iter().filter(|wait| watched.text(wait.process) == "dd")
}

/// Checks that the kernel's stacks of the limited writer's waits begin at its sleep, by each path
/// from the tracepoint to iowhy's program; its own begin in the C library's call.
fn stacks(watched: &Recording, architecture: Architecture) {
    let held = waits_of_dd(watched).filter(|wait| wait.class == WaitClass::CgroupThrottle);
    for wait in held {
        let (kernel, user) = (watched.frames(wait.stack_id), watched.frames(wait.user_stack_id));
        assert_eq!(kernel.first(), Some(&"__schedule"), "{kernel:?}");
        if user.is_empty() && architecture == Architecture::Aarch64 {
            // There the reader comes after the program's end, and the row has that reason.
            let row =
                watched.stacks.iter().find(|stack| Some(stack.stack_id) == wait.user_stack_id);
            let reason = row.map_or("", |row| watched.text(row.reason));
            assert!(!reason.is_empty(), "no frames and no reason: {wait:?}");
            eprint_line(&format!("user stacks were not looked at: {reason}"));
            return;
        }
        assert!(user.first().is_some_and(|frame| frame.contains("write")), "{user:?}");
    }
}

/// Stages are computed of every request that was queued: all but the flushes that the kernel sent
/// for others.
fn stages(watched: &Recording, stages: &Value) {
    let is_made =
        |request: &&Request| request.operation == Operation::Flush && request.q2c_ns.is_none();
    let queued = watched.requests.iter().filter(|request| !is_made(request));
    let done = queued.filter(|request| request.d2c_ns.is_some()).count();
    assert_eq!(stages["stages"]["d2c"]["count"], done, "{:#}", stages["stages"]);
}

fn flushes(report: &Value) -> Result<()> {
    let first = &report["findings"][0];
    assert_eq!(first["cause"], "flush-cost", "{:#}", report["findings"]);
    Ok(())
}
