//! fio's I/O logs (`fio --read_iolog=FILE`), from which fio replays a workload.
//!
//! Version 3, fio 3.31 and later, has a time in microseconds on every line; fio waits for the
//! difference to the line before, and takes a time of 0 for "no time yet", so the log begins at 1.
//! Version 2 has `wait` lines instead: with fio 3.33 they hold milliseconds since fio's own start.
//! A file must be added and opened before it is used.
//!
//! What does not belong here: reading such logs.

use iowhy_analysis::formats::export::{Exported, Exporter};
use iowhy_model::figures::counted;
use iowhy_model::sort_window::SortWindow;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Operation};
use rustc_hash::FxHashSet;
use std::io::{self, Write};

/// fio reads a word of at most 256 characters.
const LONGEST_NAME: usize = 250;
/// Devices beyond these are left out: fio keeps a file open for each.
const MOST_DEVICES: usize = 1024;

/// The version of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// Any fio; times to the millisecond.
    Two,
    /// fio 3.31 and later; times to the microsecond.
    Three,
}

/// One line of the log.
#[derive(Clone, Copy, Debug)]
struct LogLine {
    device: Name,
    word: &'static str,
    offset: u64,
    bytes: u32,
}

/// Writes such a log.
#[derive(Debug)]
pub struct Iolog {
    version: Version,
    window: SortWindow<LogLine>,
    devices: FxHashSet<Name>,
    /// The time of the first line, ns, and of the last one, in the format's own unit.
    base: Option<u64>,
    last: u64,
    stacked: u64,
    exported: Exported,
}

impl Iolog {
    /// A log of `version`.
    pub fn new(version: Version) -> Iolog {
        Iolog {
            version,
            window: SortWindow::new(),
            devices: FxHashSet::default(),
            base: None,
            last: 0,
            stacked: 0,
            exported: Exported::default(),
        }
    }

    fn write(
        &mut self,
        (time, action): (u64, LogLine),
        names: &Names,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if !self.open(action.device, names, out)? {
            let meaning = "requests of devices whose name fio cannot read, or beyond 1024 devices";
            self.exported.left_out.add("device", 1, meaning, true);
            return Ok(());
        }
        let base = *self.base.get_or_insert(time);
        let elapsed = time.saturating_sub(base);
        let device = names.get(action.device);
        let LogLine { word, offset, bytes, .. } = action;
        match self.version {
            Version::Three => {
                self.last = self.last.max(elapsed / 1_000 + 1);
                write!(out, "{} ", self.last)?;
            }
            Version::Two if elapsed / 1_000_000 > self.last => {
                self.last = elapsed / 1_000_000;
                writeln!(out, "{} wait {} 0", node(device), self.last)?;
            }
            Version::Two => {}
        }
        self.exported.rows += 1;
        writeln!(out, "{} {word} {offset} {bytes}", node(device))
    }

    /// Whether fio can use the device; it is opened on first sight.
    fn open(&mut self, device: Name, names: &Names, out: &mut dyn Write) -> io::Result<bool> {
        if self.devices.contains(&device) {
            return Ok(true);
        }
        let name = names.get(device);
        let readable = !name.is_empty()
            && name.len() <= LONGEST_NAME
            && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        if !readable || self.devices.len() >= MOST_DEVICES {
            return Ok(false);
        }
        self.devices.insert(device);
        for word in ["add", "open"] {
            self.file_line(name, word, out)?;
        }
        Ok(true)
    }

    fn file_line(&mut self, name: &str, word: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.version == Version::Three {
            self.last = self.last.max(1);
            write!(out, "{} ", self.last)?;
        }
        writeln!(out, "{} {word}", node(name))
    }
}

/// The device's node: of one that has only numbers, as udev links it.
fn node(device: &str) -> String {
    let numbers = device.split_once(':');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match numbers {
        Some((major, minor)) if is_number(major) && is_number(minor) => {
            format!("/dev/block/{device}")
        }
        _ => format!("/dev/{device}"),
    }
}

/// Returns fio's word for the operation; `None` if fio cannot do it.
fn word(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Read => Some("read"),
        Operation::Write => Some("write"),
        Operation::Flush => Some("sync"),
        Operation::Discard => Some("trim"),
        _ => None,
    }
}

impl Exporter for Iolog {
    fn begin(&mut self, _environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
        let version = match self.version {
            Version::Two => 2,
            Version::Three => 3,
        };
        writeln!(out, "fio version {version} iolog")
    }

    fn take(&mut self, batch: &Batch, names: &Names, out: &mut dyn Write) -> io::Result<()> {
        for request in &batch.requests {
            let Some(word) = word(request.operation) else {
                let meaning = "requests of an operation that fio cannot replay";
                self.exported.left_out.add("operation", 1, meaning, true);
                continue;
            };
            let (offset, bytes) = match word {
                // A flush concerns no sectors.
                "sync" => (Some(0), Ok(0)),
                _ => (request.sector.checked_mul(512), u32::try_from(request.bytes)),
            };
            let (Some(offset), Ok(bytes)) = (offset, bytes) else {
                let meaning = "requests beyond what fio can address";
                self.exported.left_out.add("range", 1, meaning, true);
                continue;
            };
            if bytes == 0 && word != "sync" {
                let meaning = "requests without a byte, which fio refuses";
                self.exported.left_out.add("empty", 1, meaning, true);
                continue;
            }
            self.stacked += u64::from(request.parent_id.is_some());
            let action = LogLine { device: request.device, word, offset, bytes };
            if let Some(row) = self.window.push(request.start_ns, action) {
                self.write(row, names, out)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, names: &Names, out: &mut dyn Write) -> io::Result<Exported> {
        while let Some(row) = self.window.pop() {
            self.write(row, names, out)?;
        }
        let mut devices: Vec<&str> = self.devices.iter().map(|name| names.get(*name)).collect();
        devices.sort_unstable();
        for name in devices.clone() {
            self.file_line(name, "close", out)?;
        }
        let meaning = "requests whose line stands later than they began, because they took so long";
        self.exported.left_out.add("order", self.window.late(), meaning, false);
        if self.stacked > 0 && devices.len() > 1 {
            let what = "requests are for a request of another device that is in the log too; to \
                        replay the work once, export one device with --device";
            self.exported.notes.push(counted(self.stacked, what));
        }
        Ok(std::mem::take(&mut self.exported))
    }
}
