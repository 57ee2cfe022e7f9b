//! Figures of this machine from `/proc` and `/sys`.

use crate::error::Context;
use crate::{LabError, Result};
use std::fs;
use std::path::{Path, PathBuf};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Fails unless this process is root.
pub fn need_root() -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(LabError::missing("root", "run it as root: labs make devices and mount file systems"))
}

/// Fails unless this process may load BPF programs and the kernel describes its types.
pub fn need_bpf() -> Result<()> {
    need_root()?;
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(LabError::unsupported("BTF", "a kernel with CONFIG_DEBUG_INFO_BTF=y"));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let has = |capability: u32| bits & (1 << capability) != 0;
    if has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON)) {
        return Ok(());
    }
    Err(LabError::missing(
        "BPF (CAP_BPF and CAP_PERFMON)",
        "run it outside the container, or privileged",
    ))
}

/// An identifier of this boot.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Mount points below `path`, the last mounted first.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|point| point.starts_with(path))
        .collect();
    points.reverse();
    points
}

/// Loop devices whose backing file is below `path`.
pub fn loops_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|backing| Path::new(&backing).starts_with(path)) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found
}

/// Returns the directories of cgroups: v1's blkio, memory and cpu, and v2.
pub fn cgroup_roots() -> Vec<PathBuf> {
    ["blkio", "memory", "cpu"]
        .into_iter()
        .filter_map(cgroup_v1_root)
        .chain(cgroup_v2_root())
        .collect()
}

/// The mount of a cgroup v1 controller.
pub fn cgroup_v1_root(controller: &str) -> Option<PathBuf> {
    cgroup_mount(|kind, options| {
        kind == "cgroup" && options.split(',').any(|option| option == controller)
    })
}

/// The mount of cgroup v2.
pub fn cgroup_v2_root() -> Option<PathBuf> {
    cgroup_mount(|kind, _| kind == "cgroup2")
}

fn cgroup_mount(wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/mounts").ok()?;
    table.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind, options) = (words.next()?, words.next()?, words.next()?);
        wanted(kind, options).then(|| PathBuf::from(point))
    })
}

/// The kernel's counters of one device since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads completed.
    pub reads: u64,
    /// Sectors (512 B) read.
    pub sectors_read: u64,
    /// Writes completed.
    pub writes: u64,
    /// Sectors (512 B) written.
    pub sectors_written: u64,
    /// Discards completed.
    pub discards: u64,
    /// Sectors (512 B) discarded.
    pub sectors_discarded: u64,
    /// Flushes completed.
    pub flushes: u64,
}

impl DiskStats {
    /// Reads `/sys/block/NAME/stat`, the same numbers as `/proc/diskstats`.
    pub fn for_device(device: &str) -> Result<DiskStats> {
        let path = format!("/sys/block/{device}/stat");
        DiskStats::read(Path::new(&path))
    }

    /// Reads a copy of `/sys/block/NAME/stat`.
    pub fn read(path: &Path) -> Result<DiskStats> {
        let text = fs::read_to_string(path).context(|| format!("read {}", path.display()))?;
        let fields: Vec<u64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        Ok(DiskStats {
            reads: field(0),
            sectors_read: field(2),
            writes: field(4),
            sectors_written: field(6),
            discards: field(11),
            sectors_discarded: field(13),
            flushes: field(15),
        })
    }

    /// Returns the growth since `earlier`.
    pub fn since(self, earlier: DiskStats) -> DiskStats {
        DiskStats {
            reads: self.reads - earlier.reads,
            sectors_read: self.sectors_read - earlier.sectors_read,
            writes: self.writes - earlier.writes,
            sectors_written: self.sectors_written - earlier.sectors_written,
            discards: self.discards - earlier.discards,
            sectors_discarded: self.sectors_discarded - earlier.sectors_discarded,
            flushes: self.flushes - earlier.flushes,
        }
    }
}

/// A line of `/proc/PID/status` in bytes: `RssAnon`, `VmHWM` …; `None` once the process is gone.
pub fn memory_of(pid: u32, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rest = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the text after `key` and its colon in a file like `/proc/meminfo`.
pub fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let rest =
        text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
    Some(rest.trim().to_owned())
}

/// Returns the number of threads that wanted a CPU in the last minute, on average.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// CPU time that a process and its threads used so far; `None` once it is gone.
pub fn cpu_seconds_of(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 =
        rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CLOCK_MONOTONIC now, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU time of the whole machine since boot, in clock ticks.
#[derive(Clone, Copy, Debug)]
pub struct CpuTicks {
    busy: u64,
    all: u64,
}

impl CpuTicks {
    /// Reads `/proc/stat`.
    pub fn now() -> CpuTicks {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = stat.lines().next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = words.skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let all: u64 = ticks.iter().sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        CpuTicks { busy: all - idle, all }
    }

    /// The busy share of all CPUs since `earlier`, 0 to 1.
    pub fn busy_since(self, earlier: CpuTicks) -> f64 {
        let all = (self.all - earlier.all).max(1);
        (self.busy - earlier.busy) as f64 / all as f64
    }
}
