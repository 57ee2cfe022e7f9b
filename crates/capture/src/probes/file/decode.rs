//! File use by processes: turns the kernel's sums into rows, and finds from single removals and
//! renames which of the created files are gone.
//!
//! What does not belong here: when the kernel's tables are read (see [`super::tables`]).

use super::calls::{CallLog, FileCall};
use super::created::CreatedFiles;
use super::directories::{Directories, disk_of, path_from};
use super::rows::{UseRows, count, counts_of};
use crate::decode::DecodeContext;
use crate::wire::{self, wire_use};
use iowhy_model::file::Counts;
use iowhy_model::file::fold;
use iowhy_model::{FileActivity, Losses, Name, Open};

/// Rows per read of the tables; beyond them, the smaller ones are aggregated to patterns.
const MOST_ROWS: usize = 2000;

/// Decodes file use and single calls.
#[derive(Default)]
pub struct UseDecoder {
    /// The only disks to report; all if empty.
    pub disks: Vec<String>,
    directories: Directories,
    calls: CallLog,
    created: CreatedFiles,
    rows: UseRows,
    /// Entries of processes or files whose names have not arrived yet: they wait for one more read.
    unnamed: Vec<wire_use>,
}

impl UseDecoder {
    /// Adds a `wire_directory`.
    pub fn add_directory(&mut self, bytes: &[u8]) -> Option<()> {
        self.directories.add(bytes)
    }

    /// Adds a `wire_call`.
    pub fn add_call(&mut self, bytes: &[u8]) -> Option<()> {
        let refused = self.calls.add(FileCall::from_bytes(bytes)?);
        if let Some(call) = refused.filter(|call| !call.second) {
            // The call is counted, without a file.
            count(self.rows.row(call.pid, None, call.time_ns), &call);
        }
        Some(())
    }

    /// Adds the uses of one file, or of files in one directory, by one process.
    pub fn add_use(&mut self, used: &wire_use, cx: &mut DecodeContext<'_>) {
        let known = &cx.known;
        let is_nameless = used.inode.address != 0 && known.files.get(&used.inode).is_none();
        let pid = used.process_key as u32;
        if is_nameless || (pid != 0 && known.tasks.process(pid).is_none()) {
            self.unnamed.push(*used);
        } else {
            self.add_named(used, cx);
        }
    }

    fn add_named(&mut self, used: &wire_use, cx: &mut DecodeContext<'_>) {
        let is_file = used.inode.address != 0;
        let pid = used.process_key as u32;
        let known = cx.known.files.get(&used.inode).filter(|_| is_file);
        let file = match (is_file, used.file_key) {
            (true, _) => known.and_then(|file| file.path),
            (false, 0) => None,
            (false, directory) => self.directories.pattern(directory, cx),
        };
        let device = match (is_file, file) {
            (true, _) => {
                let disk = cx.known.devices.disk(used.inode.device);
                disk.map(|disk| cx.out.names.intern(disk))
            }
            (false, Some(path)) => disk_of(path, cx),
            (false, None) => None,
        };
        let counts = counts_of(used);
        if used.created_ns != 0
            && let Some(path) = file
        {
            self.created.add(path, used.created_ns);
        }
        if counts == Counts::default() {
            return;
        }
        let file_type = known.and_then(|file| file.kind);
        let row = self.rows.row(pid, file, used.first_ns);
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

    /// Adds entries that have waited for names since the previous read, whether the names have
    /// arrived or not.
    pub fn begin(&mut self, cx: &mut DecodeContext<'_>) {
        for used in std::mem::take(&mut self.unnamed) {
            self.add_named(&used, cx);
        }
    }

    /// Hands over the rows of one read of the tables, which covers everything until `until_ns`.
    pub fn end(&mut self, until_ns: u64, cx: &mut DecodeContext<'_>) {
        self.settle_changes(until_ns, cx);
        let mut rows = self.rows.take();
        // Before they become patterns: a pattern of several disks has no disk.
        let (disks, names) = (&self.disks, &*cx.out.names);
        let is_wanted = |disk: Name| disks.iter().any(|wanted| wanted == names.get(disk));
        rows.retain(|row| disks.is_empty() || row.device.is_some_and(is_wanted));
        for row in &mut rows {
            if let Some(task) = cx.known.tasks.process(row.pid) {
                (row.process, row.cgroup) = (Some(task.process), task.cgroup);
                *row = row.clone().running(task.workload);
            }
            row.volume = row.file.and_then(|file| cx.known.files.volume(file));
        }
        cx.out.batch.files.append(&mut fold(rows, MOST_ROWS, cx.out.names));
    }

    /// Hands over single opens, by the time of their end. What they refer to was read before.
    pub fn settle_opens(&mut self, cx: &mut DecodeContext<'_>) {
        for call in self.calls.opens() {
            let path = path_from(&call.base, &call.text, cx.known, cx.out.names);
            let file = cx.name(path.as_deref().unwrap_or(&call.text));
            let device = match (call.inode.address, &path) {
                (0, None) => None,
                (0, Some(_)) => disk_of(file, cx),
                _ => cx.known.devices.disk(call.inode.device).map(|disk| cx.out.names.intern(disk)),
            };
            let open = Open {
                time_ns: call.time_ns,
                pid: call.pid,
                tid: call.tid,
                process: cx.known.tasks.process(call.pid).map(|task| task.process),
                file,
                device,
                fd: u32::try_from(call.result).ok(),
                error: (call.result < 0).then_some(call.result.unsigned_abs()),
                duration_ns: (call.duration_ns > 0).then_some(call.duration_ns),
            };
            cx.out.batch.opens.push(open);
        }
    }

    /// Applies removals and renames until `until_ns`, by time. The next read finds the creation
    /// times for later ones.
    fn settle_changes(&mut self, until_ns: u64, cx: &mut DecodeContext<'_>) {
        for call in self.calls.changes_until(until_ns) {
            let path = path_from(&call.base, &call.text, cx.known, cx.out.names);
            let path = path.map(|path| cx.name(&path));
            if !call.second {
                let device = path.and_then(|path| disk_of(path, cx));
                self.settle(&call, path, device);
            }
            match (call.use_kind, path) {
                (wire::USE_RENAME, Some(path)) if !call.second => {
                    self.created.begin_rename(call.tid, path);
                }
                (wire::USE_RENAME, Some(path)) => {
                    self.created.end_rename(call.tid, path, call.time_ns);
                }
                _ => {}
            }
        }
    }

    fn settle(&mut self, call: &FileCall, path: Option<Name>, device: Option<Name>) {
        let gone = path.filter(|_| call.use_kind == wire::USE_UNLINK);
        let created = gone.and_then(|path| self.created.take(path, call.time_ns));
        let row = self.rows.row(call.pid, path, call.time_ns);
        row.files = path.map(|_| 1);
        row.device = device;
        count(row, call);
        if let Some(created_ns) = created {
            row.lifetime_ns = Some(call.time_ns - created_ns);
        }
    }

    /// Adds the dropped records.
    pub fn losses(&self, losses: &mut Losses) {
        let refused = self.directories.refused() + self.calls.refused() + self.created.refused();
        let meaning = "directories, removals or new files beyond those that iowhy keeps";
        losses.add("file_details", refused, meaning, false);
    }
}
