//! Exact counts against the kernel's own, on a loop device made for the test.

use iowhy_capture::aggregates::{AggregateSnapshot, Aggregates};
use iowhy_capture::{live, privilege};
use iowhy_model::Operation;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const BLOCK: u64 = 4096;
/// A prime number of I/Os: nothing else makes just as many.
const IOS: u64 = 997;

/// A loop device over a file, removed on drop.
struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn new() -> Result<LoopDevice, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.as_file().set_len(IOS * BLOCK * 2).map_err(|error| error.to_string())?;
        let mut losetup = Command::new("losetup");
        let output = losetup.args(["--show", "-f"]).arg(file.path()).output();
        let output = output.map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        Ok(LoopDevice { path, _file: file })
    }

    fn number(&self) -> u32 {
        let name = self.path.file_name().expect("a device has a name");
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"));
        let text = text.expect("a device has a number");
        let (major, minor) = text.trim().split_once(':').expect("two numbers");
        major.parse::<u32>().expect("a number") << 20 | minor.parse::<u32>().expect("a number")
    }

    /// Reads and writes completed, and sectors of both, as the kernel counts them.
    fn kernel_counts(&self) -> [u64; 4] {
        let name = self.path.file_name().expect("a device has a name");
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("stat"));
        let text = text.expect("a device has counters");
        let values: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        [values[0], values[4], values[2], values[6]]
    }

    fn dd(&self, direction: &str, count: u64) {
        let (from, to) = match direction {
            "read" => (self.path.as_path(), Path::new("/dev/null")),
            _ => (Path::new("/dev/zero"), self.path.as_path()),
        };
        let flag = if direction == "read" { "iflag=direct" } else { "oflag=direct" };
        let status = Command::new("dd")
            .args([&format!("bs={BLOCK}"), &format!("count={count}"), flag, "status=none"])
            .arg(format!("if={}", from.display()))
            .arg(format!("of={}", to.display()))
            .status();
        assert!(status.expect("dd starts").success());
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _gone = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

fn total(of: &AggregateSnapshot, device: u32, operation: Operation) -> [u64; 2] {
    of.disks.get(&(device, operation)).map_or([0, 0], |total| [total.requests, total.bytes])
}

/// The counts of the same I/O by the kernel and by the programs.
struct Counted {
    new: AggregateSnapshot,
    /// As in [`LoopDevice::kernel_counts`].
    kernel: Vec<u64>,
    /// The kernel's counts, as the programs counted them.
    own: [u64; 4],
    skipped: u64,
}

fn count(aggregates: &Aggregates, device: &LoopDevice, number: u32) -> Counted {
    let (before, kernel_before) = (aggregates.snapshot(), device.kernel_counts());
    let skipped_before = aggregates.skipped();
    device.dd("write", IOS);
    device.dd("read", IOS - 4);
    let kernel_after = device.kernel_counts();
    let new = aggregates.snapshot().since(&before);
    let skipped = aggregates.skipped() - skipped_before;
    let kernel = kernel_after.iter().zip(kernel_before).map(|(after, before)| after - before);
    let [reads, read_bytes] = total(&new, number, Operation::Read);
    let [writes, written_bytes] = total(&new, number, Operation::Write);
    let own = [reads, writes, read_bytes / 512, written_bytes / 512];
    Counted { kernel: kernel.collect(), own, skipped, new }
}

/// A kernel may run no program on behalf of one of its processes, and tells nobody: that of the
/// development machine exempts its process 1. A request whose completion interrupts such a process
/// is missing then, one in some 100,000. It is not missing thrice.
const ATTEMPTS: usize = 3;

#[test]
fn exact_counts_are_those_of_the_kernel() {
    if let Err(error) = privilege::require() {
        eprintln!("skipped: {error}");
        return;
    }
    let device = match LoopDevice::new() {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: no loop device: {error}"),
    };
    let facts = live::facts().expect("this kernel's features");
    let number = device.number();
    let aggregates = Aggregates::begin(&facts, vec![number]).expect("the programs load");
    File::open(&device.path).expect("the device opens").sync_all().expect("nothing is dirty");
    let mut attempts = Vec::new();
    let is_complete = |counted: &Counted| {
        let ends = |counts: &[u64]| counts[0] + counts[1];
        assert!(ends(&counted.own) <= ends(&counted.kernel), "{:?}", counted.own);
        // The I/Os that the kernel's recursion protection kept from the program are counted.
        counted.own[..] == counted.kernel[..]
            || counted.skipped > 0 && ends(&counted.own) + counted.skipped >= ends(&counted.kernel)
    };
    let counted = loop {
        let counted = count(&aggregates, &device, number);
        if is_complete(&counted) {
            break counted;
        }
        attempts.push((counted.own, counted.kernel, counted.skipped));
        assert!(attempts.len() < ATTEMPTS, "{attempts:?}");
    };
    let latency = &counted.new.disks[&(number, Operation::Read)].latency;
    let in_buckets: u64 = latency.buckets.iter().map(|count| u64::from(*count)).sum();
    assert_eq!(in_buckets, latency.count);
    assert!(latency.mean_ns() <= Some(latency.max_ns), "{latency:?}");
}
