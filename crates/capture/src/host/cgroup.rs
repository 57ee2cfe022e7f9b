//! Cgroups: maps a path to its limits.
//!
//! What does not belong here: what runs in a cgroup ([`super::workload`]).

use super::{number_of, read_text};
use iowhy_model::cgroup::smallest_memory_limit;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mount points of the controllers that iowhy reads.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// v2's root, if it has one of these controllers.
    pub unified: Option<PathBuf>,
    /// v1's root of blkio.
    pub blkio: Option<PathBuf>,
    /// v1's root of memory.
    pub memory: Option<PathBuf>,
    /// v1's root of cpu.
    pub cpu: Option<PathBuf>,
}

/// Files with limits and weights: v2's, then those of v1's blkio, cpu and memory.
const UNIFIED_LIMITS: &[&str] =
    &["io.max", "io.bfq.weight", "cpu.max", "memory.max", "memory.high"];
const BLKIO_LIMITS: &[&str] = &[
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.bfq.weight",
    "blkio.bfq.weight_device",
];
const CPU_LIMITS: &[&str] = &["cpu.cfs_quota_us", "cpu.cfs_period_us"];
const MEMORY_LIMITS: &[&str] = &["memory.limit_in_bytes"];

impl Roots {
    /// Finds them in the mount table.
    pub fn find() -> Roots {
        let text = read_text("/proc/self/mounts").unwrap_or_default();
        let mut roots = Roots::default();
        for line in text.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let path = PathBuf::from(path);
            let has = |controller: &str| options.split(',').any(|option| option == controller);
            match kind {
                "cgroup2" => {
                    let text = read_text(path.join("cgroup.controllers")).unwrap_or_default();
                    let is_used =
                        text.split(' ').any(|part| ["io", "memory", "cpu"].contains(&part));
                    roots.unified = is_used.then_some(path).or(roots.unified);
                }
                "cgroup" if has("blkio") => roots.blkio = Some(path),
                "cgroup" if has("memory") => roots.memory = Some(path),
                "cgroup" if has("cpu") => roots.cpu = Some(path),
                _ => {}
            }
        }
        roots
    }

    /// Returns the time for which limits of CPU time have throttled this process's cgroup and those
    /// above it so far, ns: the longest of them.
    pub fn own_throttled_ns(&self) -> u64 {
        let folders = self.folders_of("self", "cpu", self.cpu.as_ref()).into_iter();
        let counts =
            folders.filter_map(|folder| throttled_ns(&read_text(folder.join("cpu.stat"))?));
        counts.max().unwrap_or(0)
    }

    /// The smallest limit on a process's memory, of its cgroup and those above it, bytes, and the
    /// inode of the cgroup that has it; `None` if there is none.
    pub fn memory_limit_of(&self, pid: u32) -> Option<(u64, u64)> {
        let folders = self.folders_of(&pid.to_string(), "memory", self.memory.as_ref());
        let limits = folders.iter().filter_map(|folder| {
            let (_, bytes) = smallest_memory_limit(|file| read_text(folder.join(file)))?;
            Some((bytes, folder))
        });
        let (bytes, folder) = limits.min_by_key(|(bytes, _)| *bytes)?;
        Some((bytes, std::fs::metadata(folder).ok()?.ino()))
    }

    /// The directory of a process's cgroup in the hierarchy of a controller, and those above it.
    fn folders_of(&self, pid: &str, controller: &str, legacy: Option<&PathBuf>) -> Vec<PathBuf> {
        let text = read_text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let folders = text.lines().filter_map(|line| {
            let mut words = line.splitn(3, ':').skip(1);
            let (controllers, path) = (words.next()?, words.next()?);
            let root = match controllers {
                "" => self.unified.as_ref()?,
                some if some.split(',').any(|part| part == controller) => legacy?,
                _ => return None,
            };
            Some((root, root.join(path.trim_start_matches('/'))))
        });
        let around = folders.flat_map(|(root, own)| {
            let all: Vec<PathBuf> = own.ancestors().map(Path::to_owned).collect();
            all.into_iter().take_while(move |folder| folder.starts_with(root))
        });
        around.collect()
    }

    /// The contents of the files that limit the cgroup `path`, by file name, of both cgroup
    /// versions. Lines are joined by `; `.
    pub fn limits(&self, path: &str) -> BTreeMap<String, String> {
        let below = Path::new(path.trim_start_matches('/'));
        let mut limits = BTreeMap::new();
        let controllers = [
            (&self.unified, UNIFIED_LIMITS),
            (&self.blkio, BLKIO_LIMITS),
            (&self.cpu, CPU_LIMITS),
            (&self.memory, MEMORY_LIMITS),
        ];
        for (root, files) in controllers {
            let Some(folder) = root.as_ref().map(|root| root.join(below)) else { continue };
            for file in files {
                if let Some(text) = read_text(folder.join(file)) {
                    let lines: Vec<&str> = text.lines().map(str::trim).collect();
                    limits.insert((*file).to_owned(), lines.join("; "));
                }
            }
        }
        limits
    }
}

/// Throttled time of a cpu.stat, ns, from microseconds in v2 and nanoseconds in v1; `None` if there
/// is no limit and never was.
pub(crate) fn throttled_ns(text: &str) -> Option<u64> {
    number_of(text, "nr_periods").filter(|periods| *periods > 0)?;
    let microseconds =
        number_of(text, "throttled_usec").map(|microseconds| microseconds.saturating_mul(1000));
    microseconds.or(number_of(text, "throttled_time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (unified, blkio) = (folder.path().join("unified"), folder.path().join("blkio"));
        for (root, file, text) in [
            (&unified, "io.max", "7:0 rbps=9 wbps=max riops=max wiops=max\n7:1 rbps=8\n"),
            (&blkio, "blkio.throttle.read_bps_device", "7:0 1024\n"),
        ] {
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            std::fs::write(root.join("a/b").join(file), text).unwrap();
        }
        let roots = Roots { unified: Some(unified), blkio: Some(blkio), ..Roots::default() };
        let found = roots.limits("/a/b");
        assert_eq!(found["io.max"], "7:0 rbps=9 wbps=max riops=max wiops=max; 7:1 rbps=8");
        assert_eq!(found["blkio.throttle.read_bps_device"], "7:0 1024");
        assert_eq!(
            (found.len(), roots.limits("/a").len(), Roots::default().limits("/a/b").len()),
            (2, 0, 0)
        );
    }
}
