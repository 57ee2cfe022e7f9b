//! btt's data files, which plot scripts read: latencies (`-l`, `-q`, `-z`), blocks (`-B`), seeks
//! (`-s`), queue depth (`-Q`), mean latencies by period (`-L`), seeks per second (`-m`), unplugs
//! (`-u`), the times of each bio (`-p`, `-P`). A file exists only if it has a line. Until all are
//! whole they have temporary names; those of an analysis that ends before are removed.

use super::names::DeviceNames;
use super::rates::{PeriodicMean, SeekRate, UnplugSteps};
use super::seconds;
use super::tree::{Bio, NEVER};
use crate::trace::TraceRecord;
use crate::trace::action::category;
use iowhy_fs::{Folder, PRIVATE_FILE, folder_of};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BttFileKind {
    /// `-l`: time of completion and D2C.
    D2c,
    /// `-q`: time of queueing and Q2C.
    Q2c,
    /// `-z`: time of issue and Q2D.
    Q2d,
    /// `-B`: time, first and last sector of each issue.
    Blocks,
    /// `-s`: distances from Q to Q.
    QueueSeeks,
    /// `-s`: distances from D to D.
    IssueSeeks,
    /// `-Q`: requests at the device.
    Depth,
    /// `-L`: time and mean of D2C by period, in the present folder.
    MeanD2c,
    /// `-L`: time and mean of Q2C by period, in the present folder.
    MeanQ2c,
    /// `-L`: time and mean of Q2D by period, in the present folder.
    MeanQ2d,
    /// `-m`: time and seeks per second, D to D.
    SeekRate,
    /// `-u`: the number of unplugs by the number of requests that they released.
    Unplugs,
    /// `-p`: all times of each bio; one file of this name.
    Bios,
    /// `-P`: times of Q, D and C of each request, in the present folder.
    Trees,
}

impl BttFileKind {
    /// The file that has the mean by period of this file's latency.
    const fn mean(self) -> Option<BttFileKind> {
        match self {
            BttFileKind::D2c => Some(BttFileKind::MeanD2c),
            BttFileKind::Q2c => Some(BttFileKind::MeanQ2c),
            BttFileKind::Q2d => Some(BttFileKind::MeanQ2d),
            _ => None,
        }
    }
}

type Key = (BttFileKind, u32, &'static str);

/// The data files of one analysis.
#[derive(Debug, Default)]
pub struct DataFiles {
    /// Names of devices that the user gave.
    pub names: DeviceNames,
    prefixes: FxHashMap<BttFileKind, PathBuf>,
    open: FxHashMap<Key, PartialFile>,
    failed: Option<(PathBuf, io::Error)>,
    /// The length of a period of `-L`, seconds.
    period_s: f64,
    means: FxHashMap<(BttFileKind, u32), PeriodicMean>,
    seek_rates: FxHashMap<u32, SeekRate>,
    unplugs: FxHashMap<u32, UnplugSteps>,
}

impl DataFiles {
    /// Writes files of `kind` whose names begin with `prefix`.
    pub fn add(&mut self, kind: BttFileKind, prefix: PathBuf) {
        self.prefixes.insert(kind, prefix);
    }

    /// Writes mean latencies by periods of this length, seconds.
    pub fn add_means(&mut self, period_s: f64) {
        self.period_s = period_s;
        for kind in [BttFileKind::MeanD2c, BttFileKind::MeanQ2c, BttFileKind::MeanQ2d] {
            self.add(kind, PathBuf::new());
        }
    }

    /// The directories that files are written to.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let name = |(kind, prefix): (&BttFileKind, &PathBuf)| path(prefix, *kind, None, 0, "");
        self.prefixes.iter().map(|prefix| folder_of(&name(prefix)).to_owned()).collect()
    }

    fn has(&self, kind: BttFileKind) -> bool {
        self.prefixes.contains_key(&kind)
    }

    pub(super) fn latency(
        &mut self,
        kind: BttFileKind,
        record: &TraceRecord,
        time: u64,
        latency: u64,
    ) {
        let (time, latency) = (time as f64 / 1.0e9, latency as f64 / 1.0e9);
        self.write(kind, record.device, "", format_args!("{time:.6} {latency:.6}\n"));
        if let Some(kind) = kind.mean().filter(|kind| self.has(*kind)) {
            let mean = self.means.entry((kind, record.device)).or_default();
            if let Some((middle, mean)) = mean.add(time, latency, self.period_s) {
                self.write(kind, record.device, "", format_args!("{middle:.6} {mean:.6}\n"));
            }
        }
    }

    pub(super) fn blocks(&mut self, record: &TraceRecord) {
        let (time, start, end) = (seconds(record.time), record.sector, record.end());
        for suffix in [direction(record), "c"] {
            let line = format_args!("{time:15.9} {start} {end}\n");
            self.write(BttFileKind::Blocks, record.device, suffix, line);
        }
    }

    pub(super) fn seek(&mut self, kind: BttFileKind, record: &TraceRecord, distance: i64) {
        let (time, letter) = (seconds(record.time), direction(record));
        for suffix in [letter, "c"] {
            let line = format_args!("{time:15.9} {distance:13} {letter}\n");
            self.write(kind, record.device, suffix, line);
        }
        let kind_of_rate = BttFileKind::SeekRate;
        if kind == BttFileKind::IssueSeeks && self.has(kind_of_rate) {
            let ended = self.seek_rates.entry(record.device).or_default().add(time);
            if let Some((begin, rate)) = ended {
                let line = format_args!("{begin:15.9} {rate:.2}\n");
                self.write(kind_of_rate, record.device, "", line);
            }
        }
    }

    pub(super) fn unplug(&mut self, record: &TraceRecord, requests: u64) {
        if self.has(BttFileKind::Unplugs) {
            self.unplugs.entry(record.device).or_default().add(requests);
        }
    }

    /// A bio completed as a part of `record`.
    pub(super) fn bio(&mut self, bio: &Bio, record: &TraceRecord) {
        let number = record.device;
        self.write(BttFileKind::Trees, number, "", format_args!("{} ", Clock(bio.queued)));
        if !self.has(BttFileKind::Bios) {
            return;
        }
        let (major, minor) = (number >> 20, number & 0xf_ffff);
        let own = (bio.start, bio.end.wrapping_sub(bio.start));
        let steps = [
            (bio.queued, 'Q', own),
            (bio.got, 'G', own),
            (bio.inserted, 'I', own),
            (bio.merged, 'M', own),
            (bio.issued, 'D', bio.issued_range),
            (record.time, 'C', (record.sector, record.sectors())),
        ];
        self.write(BttFileKind::Bios, 0, "", format_args!("{major:3},{minor:<3}: "));
        let known = steps.into_iter().filter(|(time, ..)| *time != NEVER);
        for (at, (time, letter, (sector, sectors))) in known.enumerate() {
            let indent = if at == 0 { "" } else { "         " };
            let time = Clock(time);
            let line = format_args!("{indent}{time:>15} {letter} {sector:10}+{sectors:<4}\n");
            self.write(BttFileKind::Bios, 0, "", line);
        }
        self.write(BttFileKind::Bios, 0, "", format_args!("\n"));
    }

    /// A request completed, of whose bios the last was issued at `issued`; `None` without any.
    pub(super) fn request(&mut self, record: &TraceRecord, issued: Option<u64>) {
        if let Some(issued) = issued {
            let line = format_args!("| {} | {}\n", Clock(issued), Clock(record.time));
            self.write(BttFileKind::Trees, record.device, "", line);
        }
        self.write(BttFileKind::Bios, 0, "", format_args!("{:-<41}\n", ""));
    }

    /// Writes the lines that are known only at the end.
    fn write_ends(&mut self) {
        for ((kind, device), mut mean) in std::mem::take(&mut self.means) {
            if let Some((middle, mean)) = mean.end() {
                self.write(kind, device, "", format_args!("{middle:.6} {mean:.6}\n"));
            }
        }
        for (device, mut rate) in std::mem::take(&mut self.seek_rates) {
            if let Some((begin, rate)) = rate.end() {
                let line = format_args!("{begin:15.9} {rate:.2}\n");
                self.write(BttFileKind::SeekRate, device, "", line);
            }
        }
        for (device, UnplugSteps(steps)) in std::mem::take(&mut self.unplugs) {
            for (step, count) in steps.iter().enumerate() {
                self.write(BttFileKind::Unplugs, device, "", format_args!("{step} {count}\n"));
            }
        }
    }

    pub(super) fn depth(&mut self, record: &TraceRecord, before: u64, after: u64) {
        let time = seconds(record.time);
        let lines = format_args!("{time:.6} {before}\n{time:.6} {after}\n");
        self.write(BttFileKind::Depth, record.device, "", lines);
    }

    fn write(
        &mut self,
        kind: BttFileKind,
        device: u32,
        suffix: &'static str,
        line: std::fmt::Arguments<'_>,
    ) {
        let Some(prefix) = self.prefixes.get(&kind) else { return };
        if self.failed.is_some() {
            return;
        }
        let key = (kind, device, suffix);
        let path = || path(prefix, kind, self.names.get(device), device, suffix);
        let written = match self.open.get_mut(&key) {
            Some(file) => file.writer.write_fmt(line),
            None => PartialFile::create(path()).and_then(|mut file| {
                file.writer.write_fmt(line)?;
                self.open.insert(key, file);
                Ok(())
            }),
        };
        if let Err(error) = written {
            self.failed = Some((path(), error));
        }
    }

    /// Writes what is buffered, and gives the files their names.
    ///
    /// # Errors
    /// Fails with the first file that could not be written, and the error; then no file has its
    /// name.
    pub fn finish(&mut self) -> Result<(), (PathBuf, io::Error)> {
        self.write_ends();
        let mut files: Vec<PartialFile> = self.open.drain().map(|(_, file)| file).collect();
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        for file in &mut files {
            file.writer.flush().map_err(|error| (file.target.clone(), error))?;
        }
        files.into_iter().try_for_each(PartialFile::finish)
    }
}

/// Nanoseconds as btt prints them: `0.000252703`.
struct Clock(u64);

impl std::fmt::Display for Clock {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        out.pad(&format!("{whole}.{rest:09}"))
    }
}

/// A file under a temporary name, which is removed unless it was finished.
#[derive(Debug)]
struct PartialFile {
    writer: BufWriter<File>,
    folder: Folder,
    partial: OsString,
    name: OsString,
    target: PathBuf,
    is_whole: bool,
}

impl PartialFile {
    fn create(target: PathBuf) -> io::Result<PartialFile> {
        let (folder, name) = iowhy_fs::parent(&target)?;
        let mut partial = OsString::from(".");
        partial.push(&name);
        partial.push(format!(".partial-{}", std::process::id()));
        let writer = BufWriter::new(folder.create_anew(&partial, PRIVATE_FILE)?);
        Ok(PartialFile { writer, folder, partial, name, target, is_whole: false })
    }

    fn finish(mut self) -> Result<(), (PathBuf, io::Error)> {
        let renamed = self.folder.rename(&self.partial, &self.folder, &self.name);
        renamed.map_err(|error| (self.target.clone(), error))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing more can be done about a file that cannot be removed.
            let _ = self.folder.remove_file(&self.partial);
        }
    }
}

fn direction(record: &TraceRecord) -> &'static str {
    if record.categories & category::READ != 0 { "r" } else { "w" }
}

fn path(
    prefix: &Path,
    kind: BttFileKind,
    name: Option<&str>,
    device: u32,
    suffix: &str,
) -> PathBuf {
    let number = || format!("{},{}", device >> 20, device & 0xf_ffff);
    let device = name.map_or_else(number, str::to_owned);
    let end = match kind {
        BttFileKind::Bios => return prefix.to_owned(),
        BttFileKind::MeanD2c => "_d2c_plat".to_owned(),
        BttFileKind::MeanQ2c => "_q2c_plat".to_owned(),
        BttFileKind::MeanQ2d => "_q2d_plat".to_owned(),
        BttFileKind::Trees => "_pit".to_owned(),
        BttFileKind::SeekRate | BttFileKind::Unplugs => String::new(),
        BttFileKind::D2c => "_d2c".to_owned(),
        BttFileKind::Q2c => "_q2c".to_owned(),
        BttFileKind::Q2d => "_q2d".to_owned(),
        BttFileKind::Depth => "_aqd".to_owned(),
        BttFileKind::Blocks => format!("_{suffix}"),
        BttFileKind::QueueSeeks => format!("_q2q_{suffix}"),
        BttFileKind::IssueSeeks => format!("_d2d_{suffix}"),
    };
    let mut file = prefix.as_os_str().to_owned();
    if !file.is_empty() {
        file.push("_");
    }
    file.push(format!("{device}{end}.dat"));
    file.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &std::path::Path) -> Vec<OsString> {
        std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name()).collect()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || {
            let mut files = DataFiles::default();
            files.add(BttFileKind::D2c, folder.path().join("a"));
            files.latency(BttFileKind::D2c, &TraceRecord::default(), 1_000, 500);
            files
        };
        let unfinished = begin();
        assert!(names(folder.path())[0].to_string_lossy().contains(".partial-"));
        drop(unfinished);
        assert!(names(folder.path()).is_empty());
        begin().finish().unwrap();
        assert_eq!(names(folder.path()), ["a_0,0_d2c.dat"]);
    }
}
