//! Other kernels, in guests: every test that needs a kernel, what `iowhy check` claims there, and disks
//! whose trouble lies outside the guest. Only where `IOWHY_KERNELS` names some (`make test-kernels`).

use crate::bare::NO_KERNEL;
use crate::guests;
use crate::recording::Recording;
use crate::stacked;
use iowhy_core::model::{Operation, Request};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use iowhy_labs::vm::{Disk, Guest, Kernel, Limits, Outcome};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tests that need no other kernel: they read files, or look at the sources.
const ELSEWHERE: &[&str] =
    &["architecture::", "labs::", "blktrace::", "blktrace_defects::", "bad_captures::", "locate::"];

/// What a guest has no use for or no room for, as a skipped test says it.
const SKIPS: &[&str] = &["missing: duckdb and pandas in python3", "missing: gcc"];

/// A program that a kernel does not have, and why.
struct Lost {
    kernel: &'static str,
    program: &'static str,
    reason: &'static str,
}

/// All that older kernels cannot give. What is not listed here must be there.
const LOST: &[Lost] = &[
    without_fault("5.10", "on_file_fault", "this kernel has no mm_filemap_fault"),
    without_fault("5.10", "on_file_mapped", "this kernel has no mm_filemap_map_pages"),
    without_fault("6.1", "on_file_fault", "this kernel has no mm_filemap_fault"),
    without_fault("6.1", "on_file_mapped", "this kernel has no mm_filemap_map_pages"),
];

/// Page faults on files have had tracepoints since some kernel after 6.1; 6.12 has them.
const fn without_fault(kernel: &'static str, program: &'static str, reason: &'static str) -> Lost {
    Lost { kernel, program, reason }
}

pub fn tests() -> Vec<Trial> {
    let names = std::env::var("IOWHY_KERNELS").unwrap_or_default();
    let kernels = names.split_whitespace().map(str::to_owned);
    kernels.flat_map(|name| tests_on(&name)).collect()
}

fn tests_on(name: &str) -> Vec<Trial> {
    let test = |what: &str, run: fn(Kernel) -> Result<()>| {
        let kernel = name.to_owned();
        Trial::test(format!("kernels::{name}::{what}"), move || {
            // A kernel that cannot be fetched is a failure: nothing is skipped here.
            let fetched = Kernel::fetch(&kernel, &mut |line| eprint_line(line));
            fetched.and_then(run).map_err(|error| error.to_string().into())
        })
    };
    vec![
        test("check_claims_what_is_there", check),
        test("root_tests", root_tests),
        test("throttled_outside_in_mid_run", throttled),
        test("delayed_and_failing_outside", sick),
        test("lockdown_is_told", locked),
    ]
}

#[allow(clippy::print_stderr, reason = "a test's progress")]
fn eprint_line(line: &str) {
    eprintln!("{line}");
}

fn json(path: &Path) -> Result<serde_json::Value> {
    let text = std::fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).context(|| format!("read {}", path.display()))
}

fn succeeded(outcome: &Outcome) {
    assert_eq!(outcome.status, 0, "the guest's command failed:\n{}", outcome.said);
}

/// Every program can be used, but for those that are known to be impossible, for the stated reason.
fn check(kernel: Kernel) -> Result<()> {
    let name = kernel.name;
    let outcome = Guest::new(kernel)
        .module("loop")
        .module("btrfs")
        .module("xfs")
        .run("iowhy check --json >/out/check.json && iowhy check")?;
    succeeded(&outcome);
    let check = json(&outcome.out().join("check.json"))?;
    let programs = check["programs"].as_array().cloned().unwrap_or_default();
    assert!(programs.len() > 20, "{}", outcome.said);
    let found: Vec<(&str, &str)> = programs
        .iter()
        .filter(|program| program["usable"] != true)
        .map(|program| {
            (
                program["program"].as_str().unwrap_or_default(),
                program["reason"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let known: Vec<(&str, &str)> = LOST
        .iter()
        .filter(|lost| lost.kernel == name)
        .map(|lost| (lost.program, lost.reason))
        .collect();
    assert_eq!(found, known, "{}", outcome.said);
    Ok(())
}

/// This program itself, in the guest, with every test that a kernel can change.
fn root_tests(kernel: Kernel) -> Result<()> {
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    let labs = PathBuf::from(env!("CARGO_BIN_EXE_iowhy-labs"));
    let skips: String = ELSEWHERE.iter().map(|name| format!(" --skip {name}")).collect();
    let only = std::env::var("IOWHY_ONLY").unwrap_or_default();
    let script = format!(
        "mkdir -p {}; IOWHY_BIN=/usr/bin/iowhy IOWHY_GUEST={} /usr/bin/it --test-threads=2 {skips} {only}",
        env!("CARGO_TARGET_TMPDIR"),
        kernel.name,
    );
    let mut guest = Guest::new(kernel)
        .memory(3072)
        .patience(Duration::from_secs(1500))
        .file("/usr/bin/it", own)
        .file(&labs, &labs);
    for module in ["loop", "zram", "xfs", "btrfs"] {
        guest = guest.module(module);
    }
    for disk in guests::DISKS {
        guest = guest.disk(Disk::memory(disk, guests::DISK_BYTES));
    }
    for disk in stacked::disks() {
        guest = guest.disk(disk);
    }
    let outcome = guest.disk(Disk::memory("nvme", guests::DISK_BYTES).nvme()).run(&script)?;
    succeeded(&outcome);
    let skipped: Vec<&str> = outcome
        .said
        .lines()
        .filter(|line| line.contains("ignored, "))
        .filter(|line| !SKIPS.iter().any(|skip| line.contains(skip)))
        .collect();
    assert!(skipped.is_empty(), "skipped for no known reason: {skipped:#?}");
    Ok(())
}

/// The guest's /out/recording.
fn recording(outcome: &Outcome) -> Result<Recording> {
    succeeded(outcome);
    Recording::open(&outcome.out().join("recording"))
}

/// Milliseconds at the device, the shortest first, of requests that `chosen` takes.
fn at_device_ms(recording: &Recording, chosen: impl Fn(&Request) -> bool) -> Vec<u64> {
    let requests = recording.requests.iter().filter(|request| chosen(request));
    let mut times: Vec<u64> =
        requests.filter_map(|request| Some(request.d2c_ns? / 1_000_000)).collect();
    times.sort_unstable();
    times
}

/// Reads at a disk that QEMU makes slower while iowhy watches: the guest's kernel sees nothing but a
/// device that takes longer.
fn throttled(kernel: Kernel) -> Result<()> {
    // What dd reads is not merged: each read is waited for before the next.
    let script = "disk=$(readlink /dev/disk/slow)
        iowhy record -d $disk -o /out/recording -- sh -c '
        dd if=/dev/disk/slow of=/dev/null bs=4k count=100 iflag=direct status=none
        echo slower; sleep 5
        dd if=/dev/disk/slow of=/dev/null bs=8k count=40 iflag=direct status=none'";
    let mut running = Guest::new(kernel).disk(Disk::memory("slow", 64 << 20)).start(script)?;
    running.wait_for("slower")?;
    running.limit("slow", Limits::iops(10))?;
    let recording = recording(&running.finish()?)?;
    let (before, after) = (
        at_device_ms(&recording, |request| request.bytes == 4096),
        at_device_ms(&recording, |request| request.bytes == 8192),
    );
    assert_eq!((before.len(), after.len()), (100, 40), "{}", recording.overview());
    let middle = after[20];
    assert!(middle >= 80 && before[50] < 80, "before {before:?}, after {after:?}");
    Ok(())
}

/// Delays and errors that only the device has.
fn sick(kernel: Kernel) -> Result<()> {
    let disk = Disk::nbdkit(
        "sick",
        64 << 20,
        &["error", "delay"],
        &["rdelay=20ms", "error-pwrite=EIO", "error-pwrite-rate=100%"],
    );
    let script = "disk=$(readlink /dev/disk/sick)
        iowhy record -d $disk -o /out/recording -- sh -c '
        dd if=/dev/disk/sick of=/dev/null bs=4k count=20 iflag=direct status=none
        ! dd if=/dev/zero of=/dev/disk/sick bs=4k count=1 oflag=direct status=none'";
    let recording = recording(&Guest::new(kernel).disk(disk).run(script)?)?;
    let reads = at_device_ms(&recording, |request| request.operation == Operation::Read);
    assert!(reads.len() == 20 && reads[0] >= 20, "{reads:?}\n{}", recording.overview());
    let failed: Vec<_> = recording.requests.iter().filter_map(|request| request.error).collect();
    assert_eq!(failed, [-5], "{}", recording.overview());
    Ok(())
}

/// Under confidentiality lockdown nobody may read the kernel's memory: one line says so, and what is
/// left, whether securityfs is mounted or not.
fn locked(kernel: Kernel) -> Result<()> {
    let watches =
        "iowhy record -t 1 -o /out/recording; echo \"status $?\"; iowhy -t 1; echo \"status $?\"";
    let script = format!(
        "{watches}; mount -t securityfs securityfs /sys/kernel/security; {watches}; iowhy check"
    );
    let outcome = Guest::new(kernel).argument("lockdown=confidentiality").run(&script)?;
    let lines = |text: &str| outcome.said.lines().filter(|line| line.contains(text)).count();
    let told = "iowhy: failed to load BPF programs: lockdown is \"confidentiality\"; the kernel's \
        counters, recordings and captures can still be read";
    assert_eq!((lines(told), lines("iowhy: ")), (4, 4), "{}", outcome.said);
    assert_eq!(lines(&format!("status {NO_KERNEL}")), 4, "{}", outcome.said);
    // The kernel's counters are shown.
    assert_eq!(lines("DEVICES"), 2, "{}", outcome.said);
    let words = outcome.said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("only /proc/diskstats is left"), "{}", outcome.said);
    Ok(())
}
