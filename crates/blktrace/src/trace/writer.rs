//! Rows of the `events` table as blktrace's files: one per device and CPU, protocol 7 unless asked
//! otherwise, so that blkparse, btt and `fio --read_iolog` take them.
//!
//! Rows must come in order of time for each CPU. Sequence numbers are written anew, from 1 without
//! gaps, because readers take a gap for a loss that is counted elsewhere.

use super::action::{Action, categories_of, category, notify};
use super::encode::encode;
use super::record::TraceRecord;
use iowhy_fs::{Folder, PRIVATE_FILE};
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::{Event, Names};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// The reason why a capture could not be written.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {path}: {source}")]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// The system's reason.
    pub source: io::Error,
}

/// The format of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureSettings {
    /// 7, or 8 for the records of kernels from 6.19 on.
    pub version: u8,
    /// The offset from an event's time to nanoseconds since 1970.
    pub realtime_offset_ns: i64,
}

/// Counts of the events and files written, and of events that had no place in the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenCapture {
    /// Events.
    pub events: u64,
    /// Files.
    pub files: u64,
    /// Events of devices or CPUs beyond the number of files that may be open.
    pub left_out: u64,
}

struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    sequence: u32,
}

/// Maximum number of names of a capture.
const MOST_NAMES: usize = 1 << 20;

/// Writes a capture into a folder.
pub struct CaptureWriter {
    folder: Folder,
    settings: CaptureSettings,
    outputs: BTreeMap<(u32, u32), Output>,
    /// Names of devices, as their files are called.
    devices: FxHashMap<u32, String>,
    /// Devices and threads whose names were written.
    named: CappedMap<(u32, u32), (), MOST_NAMES>,
    bytes: Vec<u8>,
    written: WrittenCapture,
}

impl CaptureWriter {
    /// Files that are open at once.
    const MAX_FILES: usize = 900;

    /// A writer of files in `folder`.
    pub fn new(folder: Folder, settings: CaptureSettings) -> CaptureWriter {
        CaptureWriter {
            folder,
            settings,
            outputs: BTreeMap::new(),
            devices: FxHashMap::default(),
            named: CappedMap::default(),
            bytes: Vec::new(),
            written: WrittenCapture::default(),
        }
    }

    /// Writes one event.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write(&mut self, event: &Event, names: &Names) -> Result<(), WriteError> {
        let device = (event.major << 20) | (event.minor & 0xf_ffff);
        let key = (device, event.cpu);
        if !self.outputs.contains_key(&key) && !self.open(key, names.get(event.device), event)? {
            self.written.left_out += 1;
            return Ok(());
        }
        if let Some(process) = event.process
            && self.named.get(&(device, event.pid)).is_none()
            && self.named.admits(&(device, event.pid))
        {
            self.named.insert((device, event.pid), ());
            let mut name = names.get(process).as_bytes().to_vec();
            name.resize(16, 0);
            if let Some(last) = name.last_mut() {
                *last = 0;
            }
            self.note(key, event, notify::PROCESS, &name)?;
        }
        let record = record(event, device, names.get(event.rwbs));
        let payload = payload(event, device);
        self.written.events += 1;
        self.put(key, TraceRecord { sequence: 1, ..record }, &payload)
    }

    fn open(&mut self, key: (u32, u32), name: &str, event: &Event) -> Result<bool, WriteError> {
        if self.outputs.len() >= Self::MAX_FILES {
            return Ok(false);
        }
        let (device, cpu) = key;
        let first = !self.devices.contains_key(&device);
        let plain = format!("{}_{}", event.major, event.minor);
        let safe = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
        let taken = self.devices.iter().any(|(other, used)| *other != device && used == name);
        let stem = if safe && !taken { name.to_owned() } else { plain };
        let stem = self.devices.entry(device).or_insert(stem).clone();
        let name = format!("{stem}.blktrace.{cpu}");
        let path = self.folder.path().join(&name);
        let file = self.folder.create(&name, PRIVATE_FILE);
        let file = file.map_err(|source| WriteError { path: path.clone(), source })?;
        let file = BufWriter::with_capacity(64 << 10, file);
        self.outputs.insert(key, Output { path, file, sequence: 0 });
        self.written.files += 1;
        if first {
            let wall = event.time_ns.saturating_add_signed(self.settings.realtime_offset_ns);
            let (seconds, rest) = (wall / 1_000_000_000, wall % 1_000_000_000);
            let clock = [(seconds as u32).to_le_bytes(), (rest as u32).to_le_bytes()].concat();
            self.note(key, event, notify::TIMESTAMP, &clock)?;
        }
        Ok(true)
    }

    fn note(
        &mut self,
        key: (u32, u32),
        event: &Event,
        action: u16,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let record = TraceRecord {
            time: event.time_ns,
            categories: category::NOTIFY,
            action,
            pid: event.pid,
            device: key.0,
            cpu: event.cpu,
            ..TraceRecord::default()
        };
        self.put(key, record, payload)
    }

    /// Writes a record; a sequence number that is not 0 is replaced by the file's next one.
    fn put(
        &mut self,
        key: (u32, u32),
        mut record: TraceRecord,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let Some(output) = self.outputs.get_mut(&key) else { return Ok(()) };
        if record.sequence != 0 {
            output.sequence = output.sequence.wrapping_add(1);
            record.sequence = output.sequence;
        }
        self.bytes.clear();
        encode(&record, payload, self.settings.version, &mut self.bytes);
        let written = output.file.write_all(&self.bytes);
        written.map_err(|source| WriteError { path: output.path.clone(), source })
    }

    /// Writes what is buffered, and an empty file for every CPU number below a device's highest:
    /// blkparse stops at the first number that is missing.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn finish(mut self) -> Result<WrittenCapture, WriteError> {
        for output in self.outputs.values_mut() {
            let flushed = output.file.flush();
            flushed.map_err(|source| WriteError { path: output.path.clone(), source })?;
        }
        for (device, stem) in &self.devices {
            let highest = self.outputs.range((*device, 0)..=(*device, u32::MAX)).next_back();
            for cpu in 0..highest.map_or(0, |((_, cpu), _)| (*cpu).min(1 << 13)) {
                if !self.outputs.contains_key(&(*device, cpu)) {
                    let name = format!("{stem}.blktrace.{cpu}");
                    let made = self.folder.create(&name, PRIVATE_FILE);
                    let path = || self.folder.path().join(&name);
                    made.map_err(|source| WriteError { path: path(), source })?;
                    self.written.files += 1;
                }
            }
        }
        Ok(self.written)
    }
}

/// Returns the record of `event`, without its sequence number.
pub(crate) fn record(event: &Event, device: u32, rwbs: &str) -> TraceRecord {
    TraceRecord {
        time: event.time_ns,
        sector: event.sector,
        bytes: u32::try_from(event.bytes).unwrap_or(u32::MAX),
        // The upper categories of protocol 8 are only in the letters.
        categories: (event.action >> 16) | (categories_of(rwbs) & !0xffff),
        action: (event.action & 0xffff) as u16,
        pid: event.pid,
        device,
        cpu: event.cpu,
        error: event.error as u16,
        ..TraceRecord::default()
    }
}

/// Returns the payload of the event's action: blkparse reads it without a check of its length.
pub(crate) fn payload(event: &Event, device: u32) -> Vec<u8> {
    let number = event.payload.unwrap_or(0);
    match Action::from_number((event.action & 0xff) as u16) {
        Some(Action::Remap) => {
            let major = event.payload_major.unwrap_or(0);
            let from = (major << 20) | (event.payload_minor.unwrap_or(0) & 0xf_ffff);
            let mut payload = from.to_be_bytes().to_vec();
            payload.extend(device.to_be_bytes());
            payload.extend(number.to_be_bytes());
            payload
        }
        Some(Action::Split | Action::Unplug | Action::UnplugTimer) => number.to_be_bytes().to_vec(),
        _ => Vec::new(),
    }
}
