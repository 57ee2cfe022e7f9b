//! Reads, writes and memory of each cgroup with its descendants: v2's io.stat and memory.stat, or
//! v1's blkio and memory controllers; and which cgroups their CPU limit throttled.

use super::limits::ResourceLimits;
use super::{Out, pressure};
use crate::host::cgroup::Roots;
use crate::host::number_of;
use crate::host::{own, read_text};
use iowhy_model::{Metric, Name};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// CPU time per sample.
const BUDGET_NS: u64 = 10_000_000;
/// Cgroups that are sampled; those beyond are in the sums of their ancestors.
const MOST: usize = 4096;
/// Samples between two searches for new cgroups.
const ANEW: u64 = 5;
/// Samples after which the numbers of all cgroups are written again: an incident is cut out of a
/// long watch, and must hold them.
const REPEATED: u64 = 6 * ANEW;

/// Lines of io.stat and their metrics.
const IO: [(&str, Metric); 5] = [
    ("rbytes", Metric::CgroupRead),
    ("wbytes", Metric::CgroupWrite),
    ("rios", Metric::CgroupReads),
    ("wios", Metric::CgroupWrites),
    ("dbytes", Metric::CgroupDiscarded),
];

/// Lines of memory.stat: v2's name, v1's (empty if it has none), the metric, the unit in bytes
/// (pages of 4 KiB).
const MEMORY: [(&str, &str, Metric, u64); 9] = [
    ("file", "total_cache", Metric::CgroupFile, 1),
    ("anon", "total_rss", Metric::CgroupAnonymous, 1),
    ("file_dirty", "total_dirty", Metric::CgroupDirty, 1),
    ("file_writeback", "total_writeback", Metric::CgroupWriteback, 1),
    ("workingset_refault_file", "total_workingset_refault_file", Metric::CgroupRefaults, 4096),
    ("pgscan", "", Metric::CgroupScanned, 4096),
    ("pgsteal", "", Metric::CgroupReclaimed, 4096),
    ("workingset_restore_file", "total_workingset_restore_file", Metric::CgroupRestored, 4096),
    ("pgmajfault", "total_pgmajfault", Metric::CgroupMajorFaults, 1),
];

/// The cgroups of the machine.
#[derive(Debug, Default)]
pub(super) struct CgroupSampler {
    roots: Roots,
    limits: ResourceLimits,
    /// The cgroups' paths below the root.
    paths: Vec<PathBuf>,
    looks: u64,
    cursor: usize,
}

impl CgroupSampler {
    /// For controllers with these roots.
    pub fn new(roots: Roots) -> CgroupSampler {
        CgroupSampler { roots, ..CgroupSampler::default() }
    }

    pub fn look(&mut self, out: &mut Out<'_>) {
        if self.looks.is_multiple_of(ANEW) {
            let known = std::mem::take(&mut self.paths);
            self.find_paths();
            let known = if self.looks.is_multiple_of(REPEATED) { &[][..] } else { &known };
            self.number(known, out);
        }
        self.looks += 1;
        let begun_ns = own::cpu_ns();
        let mut unread = 0;
        let count = self.paths.len();
        let from = if self.cursor < count { self.cursor } else { 0 };
        for index in (from..count).chain(0..from) {
            if own::cpu_ns() - begun_ns > BUDGET_NS {
                unread += 1;
                continue;
            }
            self.cursor = index + 1;
            self.read(index, out);
        }
        out.system(Metric::CgroupsUnread, unread);
    }

    /// Writes the numbers of the cgroups of memory that are not `known`, which never change.
    fn number(&self, known: &[PathBuf], out: &mut Out<'_>) {
        let Some(root) = self.roots.memory.as_ref().or(self.roots.unified.as_ref()) else { return };
        for path in self.paths.iter().filter(|path| known.binary_search(path).is_err()) {
            let folder = root.join(path.strip_prefix("/").unwrap_or(path));
            if let Ok(metadata) = std::fs::metadata(folder) {
                let subject = out.names.intern(&path.to_string_lossy());
                out.row(Metric::CgroupNumber, subject, metadata.ino(), out.now_ns);
            }
        }
    }

    fn find_paths(&mut self) {
        let Roots { unified, blkio, memory, cpu } = &self.roots;
        let roots = [unified, blkio, memory, cpu];
        let mut paths: Vec<PathBuf> = Vec::new();
        for root in roots.into_iter().flatten() {
            let mut folders = vec![root.clone()];
            while let Some(folder) = folders.pop().filter(|_| paths.len() < MOST) {
                let Ok(below) = folder.strip_prefix(root) else { continue };
                paths.push(Path::new("/").join(below));
                let Ok(entries) = std::fs::read_dir(&folder) else { continue };
                let entries = entries.flatten();
                let is_folder =
                    |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
                folders.extend(entries.filter(is_folder).map(|entry| entry.path()));
            }
        }
        paths.sort_unstable();
        paths.dedup();
        self.paths = paths;
    }

    fn read(&mut self, index: usize, out: &mut Out<'_>) {
        let Some(path) = self.paths.get(index) else { return };
        let below = path.strip_prefix("/").unwrap_or(path);
        let subject = out.names.intern(&path.to_string_lossy());
        if let Some(root) = &self.roots.unified {
            let folder = root.join(below);
            read_text(folder.join("io.stat"))
                .into_iter()
                .for_each(|content| unified_io(&content, subject, out));
            memory(&folder, subject, out, |line| line.0);
            pressures(&folder, subject, out);
        }
        if let Some(root) = &self.roots.blkio {
            legacy_io(&root.join(below), subject, out);
        }
        if let Some(root) = &self.roots.memory {
            memory(&root.join(below), subject, out, |line| line.1);
        }
        if let Some(root) = self.roots.cpu.as_ref().or(self.roots.unified.as_ref()) {
            self.limits.look(&root.join(below), subject, out);
        }
    }
}

/// Parses `8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6`, one line per device.
fn unified_io(text: &str, subject: Name, out: &mut Out<'_>) {
    for (key, metric) in IO {
        let values = text.split_whitespace().filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            (name == key).then(|| value.parse::<u64>().ok()).flatten()
        });
        out.put(metric, subject, values.fold(0, u64::saturating_add));
    }
}

/// Parses `8:0 Read 123`, one line per device and operation.
fn legacy_io(folder: &Path, subject: Name, out: &mut Out<'_>) {
    for (file, metrics) in [
        ("blkio.throttle.io_service_bytes_recursive", [Metric::CgroupRead, Metric::CgroupWrite]),
        ("blkio.throttle.io_serviced_recursive", [Metric::CgroupReads, Metric::CgroupWrites]),
    ] {
        let Some(text) = read_text(folder.join(file)) else { continue };
        for (word, metric) in ["Read", "Write"].into_iter().zip(metrics) {
            let values = text.lines().filter_map(|line| {
                let mut words = line.split_whitespace().skip(1);
                (words.next()? == word).then(|| words.next()?.parse::<u64>().ok()).flatten()
            });
            out.put(metric, subject, values.fold(0, u64::saturating_add));
        }
    }
}

fn memory(
    folder: &Path,
    subject: Name,
    out: &mut Out<'_>,
    key: fn(&(&'static str, &'static str, Metric, u64)) -> &'static str,
) {
    let Some(text) = read_text(folder.join("memory.stat")) else { return };
    for line in MEMORY {
        let known = Some(key(&line)).filter(|key| !key.is_empty());
        if let Some(value) = known.and_then(|key| number_of(&text, key)) {
            out.put(line.2, subject, value.saturating_mul(line.3));
        }
    }
}

fn pressures(folder: &Path, subject: Name, out: &mut Out<'_>) {
    for (file, some, full) in [
        ("io.pressure", Metric::CgroupIoSome, Some(Metric::CgroupIoFull)),
        ("memory.pressure", Metric::CgroupMemorySome, None),
    ] {
        let Some(text) = read_text(folder.join(file)) else { continue };
        let (some_ns, full_ns) = pressure(&text);
        some_ns.into_iter().for_each(|value| out.put(some, subject, value));
        full.zip(full_ns).into_iter().for_each(|(metric, value)| out.put(metric, subject, value));
    }
}
