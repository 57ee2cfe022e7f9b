//! File use by processes: turns the kernel's sums into rows, and finds from single removals and
//! renames which of the created files are gone.
//!
//! What does not belong here: when the kernel's tables are read (see [`crate::uses`]).

use super::Decoder;
use crate::wire::{self, wire_call, wire_directory, wire_inode, wire_use};
use iowhy_core::analysis::files::fold;
use iowhy_core::model::file::Counts;
use iowhy_core::model::{FileActivity, Losses, Name, Names, Open};
use iowhy_core::source::Batch;
use rustc_hash::FxHashMap;
use std::path::Path;
use zerocopy::FromBytes;

/// Rows per read of the tables; beyond them, the smaller ones are aggregated to patterns.
const MOST_ROWS: usize = 2000;
/// Directories known by id; rows of further ones have no name.
const MOST_PLACES: usize = 65_536;
/// Single calls kept until the next read.
const MOST_CALLS: usize = 65_536;
/// Files created during the watch that still exist.
const MOST_CREATED: usize = 65_536;

/// State for building rows.
#[derive(Default)]
pub struct Uses {
    places: FxHashMap<u64, (wire_inode, String)>,
    calls: Vec<Call>,
    /// Single opens, until what they refer to has arrived.
    opens: Vec<Call>,
    created: FxHashMap<Name, Vec<u64>>,
    /// New names by rename that have not been settled yet, by thread.
    renamed: FxHashMap<u32, Name>,
    /// Entries of processes or files whose names have not arrived yet: they wait for one more read.
    unnamed: Vec<wire_use>,
    rows: Vec<FileActivity>,
    index: FxHashMap<(u32, Option<Name>), usize>,
    refused: u64,
    /// The only disks to report; all if empty.
    pub disks: Vec<String>,
}

/// A removal, a rename or an open.
struct Call {
    time_ns: u64,
    duration_ns: u64,
    use_kind: u32,
    result: i32,
    pid: u32,
    tid: u32,
    base: wire_inode,
    second: bool,
    text: String,
}

impl Uses {
    /// Adds what was dropped.
    pub fn losses(&self, losses: &mut Losses) {
        losses.add(
            "file_details",
            self.refused,
            "directories, removals or new files beyond those that iowhy keeps",
            false,
        );
    }

    fn row(&mut self, pid: u32, file: Option<Name>, start_ns: u64) -> &mut FileActivity {
        let place = *self.index.entry((pid, file)).or_insert(self.rows.len());
        if place == self.rows.len() {
            let row = FileActivity::of(start_ns, pid, &Counts::default());
            self.rows.push(FileActivity { file, ..row });
        }
        &mut self.rows[place]
    }

    /// Removes and returns the removals and renames until `until_ns`, by time.
    fn calls_until(&mut self, until_ns: u64) -> Vec<Call> {
        self.calls.sort_by_key(|call| call.time_ns);
        let later = self.calls.partition_point(|call| call.time_ns <= until_ns);
        let later = self.calls.split_off(later);
        std::mem::replace(&mut self.calls, later)
    }

    fn note_created(&mut self, path: Name, created_ns: u64) {
        if self.created.len() >= MOST_CREATED && !self.created.contains_key(&path) {
            self.refused += 1;
            return;
        }
        self.created.entry(path).or_default().push(created_ns);
    }

    fn note_renamed(&mut self, tid: u32, from: Name) {
        // The second halves of the remaining renames were lost.
        if self.renamed.len() >= MOST_CALLS {
            self.renamed.clear();
        }
        self.renamed.insert(tid, from);
    }

    /// When the file with this path at the time was created; it is removed.
    fn take_created(&mut self, path: Name, time_ns: u64) -> Option<u64> {
        let known = self.created.get_mut(&path)?;
        known.sort_unstable();
        let before = known.partition_point(|created| *created <= time_ns);
        let latest = known.drain(..before).next_back();
        if known.is_empty() {
            self.created.remove(&path);
        }
        latest
    }
}

impl Decoder {
    /// Adds a `wire_directory`.
    pub(super) fn add_place(&mut self, bytes: &[u8]) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire_directory, text);
        let word = |at: usize| Some(u64::read_from_prefix(bytes.get(at..)?).ok()?.0);
        let place = word(std::mem::offset_of!(wire_directory, place))?;
        let base = bytes.get(std::mem::offset_of!(wire_directory, base)..)?;
        let (base, _) = wire_inode::read_from_prefix(base).ok()?;
        let (length, _) = u32::read_from_prefix(bytes.get(4..)?).ok()?;
        let text = bytes.get(HEAD..HEAD + length as usize)?;
        if self.uses.places.len() >= MOST_PLACES && !self.uses.places.contains_key(&place) {
            self.uses.refused += 1;
            return Some(());
        }
        let text = String::from_utf8_lossy(text).into_owned();
        self.uses.places.insert(place, (base, text));
        Some(())
    }

    /// Adds a `wire_call`.
    pub(super) fn add_call(&mut self, bytes: &[u8]) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire_call, text);
        let mut head = [0; size_of::<wire_call>()];
        let given = bytes.len().min(head.len());
        head.get_mut(..given)?.copy_from_slice(bytes.get(..given)?);
        let call = wire_call::ref_from_bytes(&head).ok()?;
        let text = bytes.get(HEAD..HEAD + call.bytes as usize)?;
        let is_open = call.use_ == wire::USE_OPEN;
        if is_open && self.uses.opens.len() >= MOST_CALLS {
            self.uses.refused += 1;
            return Some(());
        }
        if self.uses.calls.len() >= MOST_CALLS {
            // It is counted, without a file.
            self.uses.refused += 1;
            if call.second == 0 {
                let row = self.uses.row(call.tgid, None, call.time_ns);
                count(row, call.use_, call.duration_ns);
            }
            return Some(());
        }
        let calls = if is_open { &mut self.uses.opens } else { &mut self.uses.calls };
        calls.push(Call {
            time_ns: call.time_ns,
            duration_ns: call.duration_ns,
            use_kind: call.use_,
            result: call.result,
            pid: call.tgid,
            tid: call.tid,
            base: call.base,
            second: call.second != 0,
            text: String::from_utf8_lossy(text).into_owned(),
        });
        Some(())
    }

    /// Adds what one process did with one file, or in one directory.
    pub fn add_use(&mut self, used: &wire_use, names: &mut Names) {
        let is_nameless = used.inode.address != 0 && self.files.get(&used.inode).is_none();
        let pid = used.process_key as u32;
        if is_nameless || (pid != 0 && self.tasks.process(pid).is_none()) {
            self.uses.unnamed.push(*used);
        } else {
            self.add_named(used, names);
        }
    }

    fn add_named(&mut self, used: &wire_use, names: &mut Names) {
        let is_file = used.inode.address != 0;
        let pid = used.process_key as u32;
        let known = self.files.get(&used.inode).filter(|_| is_file);
        let file = match (is_file, used.file_key) {
            (true, _) => known.and_then(|file| file.path),
            (false, 0) => None,
            (false, place) => self.any_in(place, names),
        };
        let device = match (is_file, file) {
            (true, _) => self.devices.disk(used.inode.device).map(|disk| names.intern(disk)),
            (false, Some(path)) => self.disk_of(path, names),
            (false, None) => None,
        };
        let counts = counts_of(used);
        if used.created_ns != 0
            && let Some(path) = file
        {
            self.uses.note_created(path, used.created_ns);
        }
        if counts == Counts::default() {
            return;
        }
        let file_type = known.and_then(|file| file.kind);
        let row = self.uses.row(pid, file, used.first_ns);
        let mut all = row.counts();
        all.add(&counts);
        let same = FileActivity::of(row.start_ns.min(used.first_ns), row.pid, &all);
        *row = FileActivity { file, file_type, device, ..same };
        if is_file {
            row.files = Some(1);
            row.inode = Some(used.inode.number);
            row.inode_device = Some(u64::from(used.inode.device));
        }
    }

    /// The pattern for names looked up in a directory: `/dir/*`.
    fn any_in(&self, place: u64, names: &mut Names) -> Option<Name> {
        let (base, text) = self.uses.places.get(&place)?;
        let directory = self.path_from(base, text, names)?;
        Some(names.intern(&format!("{}/*", directory.trim_end_matches('/'))))
    }

    /// The whole disk that a path is on, by its mount.
    fn disk_of(&self, path: Name, names: &mut Names) -> Option<Name> {
        let mount = self.mounts.of_file((0, 0), Path::new(names.get(path)))?;
        let disk = self.devices.disk(mount.major << 20 | mount.minor)?;
        Some(names.intern(disk))
    }

    /// The absolute path, from the machine's root, of a path as a program passed it.
    fn path_from(&self, base: &wire_inode, text: &str, names: &Names) -> Option<String> {
        let known = self.files.get(base)?;
        let Some(path) = known.path else {
            // Only the root of a file system has no name.
            let (major, minor) = (base.device >> 20, base.device & 0xf_ffff);
            return Some(join(&self.mounts.visible(major, minor, "/")?, text));
        };
        Some(join(names.get(path), text))
    }

    /// Adds entries that have waited for names since the previous read, whether the names have
    /// arrived or not.
    pub fn begin_uses(&mut self, names: &mut Names) {
        for used in std::mem::take(&mut self.uses.unnamed) {
            self.add_named(&used, names);
        }
    }

    /// Hands over the rows of one read of the tables, which covers everything until `until_ns`.
    pub fn end_uses(&mut self, until_ns: u64, batch: &mut Batch, names: &mut Names) {
        self.settle_calls(until_ns, names);
        let mut rows = std::mem::take(&mut self.uses.rows);
        self.uses.index.clear();
        // Before they become patterns: a pattern of several disks has no disk.
        let disks = &self.uses.disks;
        let is_wanted = |disk: Name| disks.iter().any(|wanted| wanted == names.get(disk));
        rows.retain(|row| disks.is_empty() || row.device.is_some_and(is_wanted));
        for row in &mut rows {
            if let Some(task) = self.tasks.process(row.pid) {
                (row.process, row.cgroup) = (Some(task.process), task.cgroup);
                row.container = task.container;
            }
        }
        batch.files.append(&mut fold(rows, MOST_ROWS, names));
    }

    /// Hands over single opens, by the time of their end. What they refer to was read before.
    pub fn settle_opens(&mut self, batch: &mut Batch, names: &mut Names) {
        let mut opens = std::mem::take(&mut self.uses.opens);
        opens.sort_by_key(|call| call.time_ns);
        batch.opens.extend(opens.iter().map(|call| {
            let path = self.path_from(&call.base, &call.text, names);
            Open {
                time_ns: call.time_ns,
                pid: call.pid,
                tid: call.tid,
                process: self.tasks.process(call.pid).map(|task| task.process),
                file: names.intern(path.as_deref().unwrap_or(&call.text)),
                fd: u32::try_from(call.result).ok(),
                error: (call.result < 0).then_some(call.result.unsigned_abs()),
                duration_ns: (call.duration_ns > 0).then_some(call.duration_ns),
            }
        }));
    }

    /// Applies removals and renames until `until_ns`, by time. The next read finds the creation
    /// times for later ones.
    fn settle_calls(&mut self, until_ns: u64, names: &mut Names) {
        for call in self.uses.calls_until(until_ns) {
            let path = self.path_from(&call.base, &call.text, names);
            let path = path.map(|path| names.intern(&path));
            if !call.second {
                let device = path.and_then(|path| self.disk_of(path, names));
                self.settle_call(&call, path, device);
            }
            match (call.use_kind, path) {
                (wire::USE_RENAME, Some(path)) if !call.second => {
                    self.uses.note_renamed(call.tid, path);
                }
                (wire::USE_RENAME, Some(path)) => {
                    let from = self.uses.renamed.remove(&call.tid);
                    let created = from.and_then(|from| self.uses.take_created(from, call.time_ns));
                    if let Some(created_ns) = created {
                        self.uses.note_created(path, created_ns);
                    }
                }
                _ => {}
            }
        }
    }

    fn settle_call(&mut self, call: &Call, path: Option<Name>, device: Option<Name>) {
        let gone = path.filter(|_| call.use_kind == wire::USE_UNLINK);
        let created = gone.and_then(|path| self.uses.take_created(path, call.time_ns));
        let row = self.uses.row(call.pid, path, call.time_ns);
        row.files = path.map(|_| 1);
        row.device = device;
        count(row, call.use_kind, call.duration_ns);
        if let Some(created_ns) = created {
            row.lifetime_ns = Some(call.time_ns - created_ns);
        }
    }
}

/// Counts a single call.
fn count(row: &mut FileActivity, kind: u32, duration_ns: u64) {
    row.unlinks += u64::from(kind == wire::USE_UNLINK);
    row.renames += u64::from(kind == wire::USE_RENAME);
    row.timed_calls += u64::from(duration_ns > 0);
    row.other_ns += duration_ns;
}

fn counts_of(used: &wire_use) -> Counts {
    let calls = |kind: u32| u64::from(used.calls.get(kind as usize).copied().unwrap_or(0));
    let time = |group: u32| used.times.get(group as usize).copied().unwrap_or(0);
    Counts {
        opens: calls(wire::USE_OPEN),
        creates: calls(wire::USE_CREATE),
        reads: calls(wire::USE_READ),
        writes: calls(wire::USE_WRITE),
        read_bytes: used.read_bytes,
        write_bytes: used.write_bytes,
        fsyncs: calls(wire::USE_FSYNC),
        stats: calls(wire::USE_STAT),
        scans: calls(wire::USE_SCAN),
        renames: calls(wire::USE_RENAME),
        unlinks: calls(wire::USE_UNLINK),
        failures: calls(wire::USE_FAILED),
        faults: calls(wire::USE_FAULT),
        fault_bytes: used.fault_bytes,
        timed_calls: calls(wire::USE_TIMED),
        read_ns: time(wire::TIME_READ),
        write_ns: time(wire::TIME_WRITE),
        fsync_ns: time(wire::TIME_FSYNC),
        other_ns: time(wire::TIME_OTHER),
    }
}

/// Joins `text` to the directory `base`, without `.`, `..` and double slashes. Symbolic links are
/// not resolved.
fn join(base: &str, text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(text.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let absolute = if base.starts_with('/') { "/" } else { "" };
    format!("{absolute}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn paths_begin_where_the_process_stands() {
        for (base, text, path) in [
            ("/", "/tmp//a", "/tmp/a"),
            ("/srv/x", "../y/./z", "/srv/y/z"),
            ("/", "../../etc", "/etc"),
            ("loop0:/a", "b", "loop0:/a/b"),
            ("/srv/chroot", "/tmp/", "/srv/chroot/tmp"),
        ] {
            assert_eq!(join(base, text), path);
        }
    }

    #[test]
    fn what_is_done_while_a_table_is_read_waits_for_the_next() {
        let call = |time_ns, second| Call {
            time_ns,
            duration_ns: 0,
            use_kind: wire::USE_RENAME,
            result: 0,
            pid: 1,
            tid: 1,
            base: wire_inode::new_zeroed(),
            second,
            text: String::new(),
        };
        let mut uses = Uses {
            calls: vec![call(30, false), call(10, false), call(20, true)],
            ..Uses::default()
        };
        let times = |calls: Vec<Call>| calls.iter().map(|call| call.time_ns).collect::<Vec<u64>>();
        assert_eq!(times(uses.calls_until(20)), [10, 20]);
        assert!(uses.calls_until(29).is_empty());
        uses.calls.push(call(25, false));
        assert_eq!(times(uses.calls_until(u64::MAX)), [25, 30]);
    }

    #[test]
    fn a_path_used_again_is_another_file_each_time() {
        let (mut names, mut uses) = (Names::new(), Uses::default());
        let path = names.intern("/tmp/x");
        [10, 30, 50].into_iter().for_each(|created| uses.note_created(path, created));
        assert_eq!(uses.take_created(path, 20), Some(10));
        assert_eq!(uses.take_created(path, 40), Some(30));
        assert_eq!(uses.take_created(path, 45), None);
        assert_eq!(uses.take_created(path, 60), Some(50));
        assert!(uses.created.is_empty());
    }
}
