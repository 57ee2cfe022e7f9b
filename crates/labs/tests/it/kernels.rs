//! Other kernels, in guests: every test that needs a kernel, the claims of `iowhy check` there, and
//! disks whose trouble lies outside the guest. Only if `IOWHY_KERNELS` names some (`make
//! test-kernels`).

use crate::bare::NO_KERNEL;
use crate::chains::{COMPILED, compiled};
use crate::guests;
use crate::recording::Recording;
use crate::small_check;
use crate::stacked;
use crate::support::{labs_program, words};
use iowhy_labs::Result;
use iowhy_labs::classes::guest_loads;
use iowhy_labs::error::Context;
use iowhy_labs::kernels::{CHECK, Claims, MODULES};
use iowhy_labs::vm::architecture::ARM64_SUFFIX;
use iowhy_labs::vm::{DiskLimits, Guest, GuestDisk, GuestOutcome, Kernel};
use iowhy_model::health::DeviceHealth;
use iowhy_model::{Operation, Origin, Request};
use libtest_mimic::Trial;
use std::time::Duration;

/// Tests that need no other kernel: of files, sources, messages, the end of a watch, and the use of
/// recorded data.
const ELSEWHERE: &[&str] = &[
    "architecture::",
    "bad_captures::",
    "bad_input::",
    "bare::",
    "blktrace::",
    "blktrace_defects::",
    "diff::",
    "filters::",
    "labs::",
    "locate::",
    "never_answer",
    "probe::",
    "secret::",
    "side_by_side::",
    "signals::",
];

/// Things that a guest does not need or cannot hold, as a skipped test reports them.
const SKIPS: &[&str] = &[
    "missing: python3",
    "missing: go",
    "missing: java",
    "missing: jcmd",
    "missing: linear",
    "missing: bcache",
];

/// Steps that take seconds elsewhere take a minute in a guest: dirty pages of a test must not be
/// written meanwhile, for their age or, as of btrfs before 6.14, because the file system has
/// written nothing yet and so has no share of dirty memory. From 7.x on khugepaged reads pages next
/// to those that a program has mapped. Files in memory cannot be read past the page cache before
/// 6.6, so files that lie on disk elsewhere do so here, too.
const AS_TESTS_NEED_IT: &str =
    "mkfs.ext4 -qE lazy_itable_init=0 /dev/disk/scratch && mount /dev/disk/scratch /var/tmp &&
    chmod 1777 /var/tmp || exit 1
    echo 60000 >/proc/sys/vm/dirty_expire_centisecs
    echo 60000 >/proc/sys/vm/dirty_writeback_centisecs
    echo never >/sys/kernel/mm/transparent_hugepage/enabled";

/// Room for the files that tests write on disk, two at a time.
const SCRATCH_BYTES: u64 = 2 << 30;

/// The time that the tests of one guest may take.
const ROOT_PATIENCE: Duration = Duration::from_secs(3600);

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
    // This program itself is of this machine's processor, and so are the other disks' programs.
    let small = [
        test("small_check", small_check::reads),
        test("small_check_of_causes", small_check::causes),
        test("small_check_of_programs", small_check::programs),
    ];
    if name.ends_with(ARM64_SUFFIX) {
        return small.into();
    }
    let large = [
        test("check_claims_what_is_there", check),
        test("root_tests", root_tests),
        test("throttled_outside_in_mid_run", throttled),
        test("delayed_and_failing_outside", sick),
        test("lockdown_is_told", locked),
        test("a_drive_that_overheats_is_said", overheating),
        test("an_ata_drive_is_asked_by_smartctl", asked_by_smartctl),
        test("a_cpu_goes_and_the_clock_jumps", disturbed),
    ];
    small.into_iter().chain(large).collect()
}

#[allow(clippy::print_stderr, reason = "a test's progress")]
pub fn eprint_line(line: &str) {
    eprintln!("{line}");
}

pub fn succeeded(outcome: &GuestOutcome) {
    assert_eq!(outcome.status, 0, "the guest's command failed:\n{}", outcome.said);
}

/// The claims of `iowhy check` are the declared ones: every program can be used, except those that
/// are known to be impossible, for the stated reason.
fn check(kernel: Kernel) -> Result<()> {
    let name = kernel.name;
    let guest = MODULES.iter().fold(Guest::new(kernel), |guest, module| guest.module(module));
    let outcome = guest.run(&format!("{CHECK} && iowhy check"))?;
    expect_declared(&outcome, name)
}

pub fn expect_declared(outcome: &GuestOutcome, name: &str) -> Result<()> {
    let claims = Claims::from_outcome(outcome)?;
    assert!(claims.programs.len() > 20, "{}", outcome.said);
    let surprises = claims.surprises(name);
    assert!(surprises.is_empty(), "{surprises:#?}\n{}", outcome.said);
    Ok(())
}

/// Runs this program, in the guest, with every test that a kernel can change.
fn root_tests(kernel: Kernel) -> Result<()> {
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    let skips: String = ELSEWHERE.iter().map(|name| format!(" --skip {name}")).collect();
    let only = std::env::var("IOWHY_ONLY").unwrap_or_default();
    let script = format!(
        "mkdir -p {}; {AS_TESTS_NEED_IT}
        IOWHY_BIN=/usr/bin/iowhy IOWHY_GUEST={} /usr/bin/it --test-threads=2 {skips} {only}",
        env!("CARGO_TARGET_TMPDIR"),
        kernel.name,
    );
    let name = kernel.name;
    let mut guest = Guest::new(kernel)
        .memory(3072)
        .patience(ROOT_PATIENCE)
        .file("/usr/bin/it", own)
        .file(labs_program(), labs_program());
    for (source, name) in COMPILED {
        let program = compiled(source, name)?;
        guest = guest.file(program.clone(), program);
    }
    for module in ["loop", "zram", "xfs", "btrfs"] {
        guest = guest.module(module);
    }
    for disk in guests::DISKS {
        guest = guest.disk(GuestDisk::memory(disk, guests::DISK_BYTES));
    }
    for disk in stacked::disks() {
        guest = guest.disk(disk);
    }
    guest = guest.disk(guest_loads::disk()).disk(GuestDisk::memory("scratch", SCRATCH_BYTES));
    let guest = guest.disk(GuestDisk::memory("nvme", guests::DISK_BYTES).nvme());
    // Other kernels' guests may speak at the same time.
    let outcome = guest.run_saying(&script, &mut |line| eprint_line(&format!("{name}: {line}")))?;
    succeeded(&outcome);
    let skipped: Vec<&str> = outcome
        .said
        .lines()
        .filter(|line| line.contains("ignored, ") || line.contains("ignored ("))
        .filter(|line| !SKIPS.iter().any(|skip| line.contains(skip)))
        .collect();
    assert!(skipped.is_empty(), "skipped for no known reason: {skipped:#?}");
    Ok(())
}

/// An NVMe drive's own report is recorded at both ends, and a warning from the middle of the watch
/// on is the first finding. Reading the report is no request.
fn overheating(kernel: Kernel) -> Result<()> {
    const READS: usize = 600;
    let script = format!(
        "disk=$(readlink /dev/disk/hot)
        iowhy record -d $disk -o /out/recording -- sh -c 'echo begun; \\
        dd if=/dev/disk/hot of=/dev/null bs=4k count={READS} iflag=direct status=none'
        iowhy report /out/recording"
    );
    let disk = GuestDisk::memory("hot", 64 << 20).nvme().limited(DiskLimits::iops(100));
    let mut running = Guest::new(kernel).disk(disk).start(&script)?;
    running.wait_for("begun")?;
    std::thread::sleep(Duration::from_secs(1));
    running.warn("hot", 2)?;
    let outcome = running.finish()?;
    eprint_line(&outcome.said);
    let recording = recording(&outcome)?;
    assert_eq!(recording.requests.len(), READS, "{}", recording.overview());
    let devices = recording.environment.devices.iter();
    let drive = devices.clone().find(|device| device.transport.is_some()).expect("the NVMe disk");
    let log = |health: &Option<DeviceHealth>| {
        let health = health.as_ref().expect("it was asked");
        health.nvme.clone().unwrap_or_else(|| panic!("{:?}", health.unread))
    };
    let (start, end) = (log(&drive.health_start), log(&drive.health_end));
    assert_eq!((start.critical_warning, end.critical_warning), (0, 2));
    // QEMU's drive has 50 °C, and warns from 70 °C on.
    assert_eq!((end.temperature_c, end.warning_c), (Some(50), Some(70)));
    let words = words(&outcome.said);
    assert!(words.contains("warns that its temperature is outside its limits"), "{}", outcome.said);
    assert!(words.contains("critical warning: temperature"), "{}", outcome.said);
    Ok(())
}

/// Debian's smartctl on an ATA disk with SMART: its attributes are in the recording, at both ends.
fn asked_by_smartctl(kernel: Kernel) -> Result<()> {
    const READS: usize = 100;
    let script = format!(
        "disk=sda; until [ -b /dev/$disk ]; do sleep 0.1; done
        /usr/sbin/smartctl --json -H -A /dev/$disk >/out/smartctl.json; echo \"smartctl: $?\"
        iowhy record -d $disk -o /out/recording -- \\
        dd if=/dev/$disk of=/dev/null bs=4k count={READS} iflag=direct status=none
        iowhy report /out/recording"
    );
    let smartctl = iowhy_labs::command::find("smartctl")?;
    let disk = GuestDisk::memory("ata", 64 << 20).ata().limited(DiskLimits::iops(100));
    let guest = Guest::new(kernel).disk(disk).file("/usr/sbin/smartctl", smartctl);
    let outcome = guest.run(&script)?;
    eprint_line(&outcome.said);
    let recording = recording(&outcome)?;
    // smartctl's commands are in the drive's queue, too.
    let commands = |request: &&Request| request.origin == Origin::Passthrough;
    let reads = recording.requests.len() - recording.requests.iter().filter(commands).count();
    assert_eq!(reads, READS, "{}", recording.overview());
    let path = outcome.out().join("smartctl.json");
    let text = std::fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    let printed: serde_json::Value =
        serde_json::from_str(&text).context(|| "understand smartctl".to_owned())?;
    let attributes = printed["ata_smart_attributes"]["table"].as_array().expect("attributes");
    let raw = |id: u64| {
        attributes
            .iter()
            .find(|attribute| attribute["id"] == id)
            .and_then(|attribute| attribute["raw"]["value"].as_u64())
    };
    let mut devices = recording.environment.devices.iter();
    let drive = devices.find(|device| device.name == "sda").expect("the disk");
    assert_eq!(drive.transport.as_deref(), Some("sata"));
    for health in [&drive.health_start, &drive.health_end] {
        let health = health.as_ref().expect("it was asked");
        let log = health.drive.as_ref().unwrap_or_else(|| panic!("{:?}", health.unread));
        assert_eq!(log.passed, printed["smart_status"]["passed"].as_bool());
        assert_eq!(log.temperature_c, printed["temperature"]["current"].as_i64());
        assert_eq!(log.power_on_hours, printed["power_on_time"]["hours"].as_u64());
        assert_eq!(log.reallocated_sectors, raw(5));
        assert!(log.passed == Some(true) && log.temperature_c.is_some(), "{log:?}");
    }
    let words = words(&outcome.said);
    assert!(words.contains("sda (QEMU HARDDISK): 31 °C"), "{}", outcome.said);
    assert!(!words.contains("<unknown>"), "a link without a speed: {}", outcome.said);
    Ok(())
}

/// A CPU goes offline and comes back, and the clock of the wall jumps forth and back: a watch has
/// each request, once, at a time within it.
fn disturbed(kernel: Kernel) -> Result<()> {
    const READS: usize = 120;
    let read = format!(
        "dd if=/dev/disk/plain of=/dev/null bs=4k count={READS} iflag=direct \
                        status=none"
    );
    let online = "/sys/devices/system/cpu/cpu1/online";
    let script = format!(
        "set -e; disk=$(readlink /dev/disk/plain); grep -q 1 {online}
        iowhy record --every -d $disk -o /out/recording -- sh -ec '
        {read}; echo 0 > {online}; date -s \"2031-01-01 00:00:00\" > /dev/null
        {read}; echo 1 > {online}; date -s \"2019-01-01 00:00:00\" > /dev/null
        {read}'
        iowhy report /out/recording"
    );
    let outcome = Guest::new(kernel).disk(GuestDisk::memory("plain", 64 << 20)).run(&script)?;
    let recording = recording(&outcome)?;
    assert_eq!(recording.requests.len(), 3 * READS, "{}", recording.overview());
    assert_eq!(recording.lost(), 0, "{}", recording.overview());
    let environment = &recording.environment;
    let within = environment.start_ns..=environment.end_ns;
    assert!(
        recording.requests.iter().all(|request| within.contains(&request.start_ns)),
        "{within:?}"
    );
    assert!(environment.duration_ns() < 600_000_000_000, "{within:?}");
    Ok(())
}

/// Opens the guest's /out/recording.
pub fn recording(outcome: &GuestOutcome) -> Result<Recording> {
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

/// Reads at a disk that QEMU makes slower while iowhy watches: the guest's kernel sees nothing but
/// a device that takes longer.
fn throttled(kernel: Kernel) -> Result<()> {
    // dd's reads are not merged: each read completes before the next.
    let script = "disk=$(readlink /dev/disk/slow)
        iowhy record -d $disk -o /out/recording -- sh -c '
        dd if=/dev/disk/slow of=/dev/null bs=4k count=100 iflag=direct status=none
        echo slower; sleep 5
        dd if=/dev/disk/slow of=/dev/null bs=8k count=40 iflag=direct status=none'";
    let mut running = Guest::new(kernel).disk(GuestDisk::memory("slow", 64 << 20)).start(script)?;
    running.wait_for("slower")?;
    running.limit("slow", DiskLimits::iops(10))?;
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
    let disk = GuestDisk::nbdkit(
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

/// Under confidentiality lockdown the kernel's memory cannot be read: one line says so, and what
/// still works, whether securityfs is mounted or not.
fn locked(kernel: Kernel) -> Result<()> {
    let watches =
        "iowhy record -t 1 -o /out/recording; echo \"status $?\"; iowhy -t 1; echo \"status $?\"";
    let script = format!(
        "while :; do dd if=/dev/disk/read of=/dev/null bs=4k iflag=direct status=none; done &\n\
         {watches}; mount -t securityfs securityfs /sys/kernel/security; {watches}; iowhy check"
    );
    let disk = GuestDisk::memory("read", 64 << 20);
    let guest = Guest::new(kernel).disk(disk).argument("lockdown=confidentiality");
    let outcome = guest.run(&script)?;
    let lines = |text: &str| outcome.said.lines().filter(|line| line.contains(text)).count();
    let cause = "iowhy: failed to load BPF programs: lockdown is \"confidentiality\"; the kernel's \
        counters, recordings and captures can still be read";
    let words = words(&outcome.said);
    assert_eq!((words.matches(cause).count(), lines("iowhy: ")), (4, 4), "{}", outcome.said);
    assert_eq!(lines(&format!("status {NO_KERNEL}")), 4, "{}", outcome.said);
    // The kernel's counters are shown.
    assert_eq!(lines("DEVICES"), 2, "{}", outcome.said);
    assert!(words.contains("only /proc/diskstats is left"), "{}", outcome.said);
    Ok(())
}
