//! Events as text: blkparse's default format, its `-f` format strings, its filters and summaries.
//!
//! | where | what |
//! |---|---|
//! | [`format`](mod@format) | format strings |
//! | [`mod@line`] | the default line of each action |
//! | [`json`] | the line of each event in JSON |
//! | [`mask`] | action masks |
//! | [`summary`] | figures per CPU and device |
//! | [`steps`] | elapsed times and the wall clock |
//! | [`put`] | numbers and padding without the formatting machinery |
//!
//! Where [`EventOptions::compatible`] is set, blkparse's quirks are repeated: names that are not
//! known yet when a line is printed, the first name of a number forever, split sectors cut to 32
//! bits, no lines for unknown actions.

pub mod format;
pub mod json;
pub mod line;
pub mod mask;
pub mod put;
pub mod steps;
pub mod summary;

use crate::trace::EventFormat;
use crate::trace::{RecordBatch, TraceCapture, TraceRecord, action::notify};

use iowhy_model::bounded_map::CappedMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use steps::{CaptureClock, HostTime, Steps};
use summary::EventSummary;

/// The events that are shown, and their format.
#[derive(Clone, Debug, Default)]
pub struct EventOptions {
    /// Repeat blkparse's quirks.
    pub compatible: bool,
    /// A line of JSON for each event.
    pub json: bool,
    /// The layout of every event, in place of the default one.
    pub format: Option<EventFormat>,
    /// The layout of one action, by its first letter.
    pub formats: Vec<(u8, EventFormat)>,
    /// Only events with one of these categories; 0 for all.
    pub mask: u32,
    /// Only these devices, `major << 20 | minor`; empty for all.
    pub devices: Vec<u32>,
    /// Only events at or after this time since the first event, ns.
    pub from: u64,
    /// Only events at or before this time since the first event, ns.
    pub until: Option<u64>,
    /// Show this host's time of day instead of the time since the first event, where the wall clock
    /// is known.
    pub local: Option<HostTime>,
}

/// Maximum number of process names.
const MOST_NAMES: usize = 128 << 10;

/// Process names by pid, bounded in number.
#[derive(Clone, Debug, Default)]
pub struct ProcessNames {
    names: CappedMap<u32, ShortName, MOST_NAMES>,
}

/// A name of at most sixteen bytes, which is what the kernel keeps.
#[derive(Clone, Copy, Debug)]
struct ShortName {
    bytes: [u8; 16],
    len: u8,
}

impl ShortName {
    fn new(name: &[u8]) -> ShortName {
        let mut bytes = [0; 16];
        let len = name.len().min(bytes.len());
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        ShortName { bytes, len: len as u8 }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// Names with the time of the record that has them.
type TimedNames = CappedMap<u32, (u64, ShortName), MOST_NAMES>;

/// Keeps the names in the records of `batch`.
fn keep_names(names: &mut TimedNames, batch: &RecordBatch) {
    for record in batch.records.iter().filter(|record| record.is_notify()) {
        if record.action == notify::PROCESS {
            let name = ShortName::new(batch.process_name(record));
            keep_earliest(names, record.pid, (record.time, name));
        }
    }
}

fn keep_earliest(names: &mut TimedNames, pid: u32, new: (u64, ShortName)) {
    if let Some(old) = names.or_insert_with(pid, || new)
        && new.0 < old.0
    {
        *old = new;
    }
}

impl ProcessNames {
    /// Keeps the name in a record; the first one of a pid stands, as in blkparse.
    pub fn see(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        if record.is_notify() && record.action == notify::PROCESS {
            let name = || ShortName::new(batch.process_name(record));
            self.names.or_insert_with(record.pid, name);
        }
    }

    /// Keeps the name in a record instead of an earlier one: a number may be used again, and a
    /// program may start another.
    pub fn learn(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        if record.is_notify() && record.action == notify::PROCESS {
            self.names.insert(record.pid, ShortName::new(batch.process_name(record)));
        }
    }

    /// The name of `pid`; `(null)` where none is known, as blkparse prints it.
    #[inline]
    pub fn get(&self, pid: u32) -> &[u8] {
        self.known(pid).unwrap_or(b"(null)")
    }

    /// Appends what [`ProcessNames::get`] gives.
    #[inline]
    fn put(&self, pid: u32, out: &mut Vec<u8>) {
        match self.names.get(&pid) {
            Some(name) => put::short(out, &name.bytes, name.len.into()),
            None => out.extend_from_slice(b"(null)"),
        }
    }

    /// Reads all of `capture` for its names: a name may come later than its process's first event
    /// on another CPU. Of several names of a number the earliest stands.
    pub fn for_capture(capture: TraceCapture) -> ProcessNames {
        let streams = Mutex::new(capture.into_streams());
        let next = || streams.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let work = || {
            let mut names = TimedNames::default();
            while let Some(mut stream) = next() {
                stream.each_batch(|batch| keep_names(&mut names, batch));
            }
            names
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let parts: Vec<TimedNames> = thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, TimedNames>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let mut all = TimedNames::default();
        for (pid, new) in parts.iter().flat_map(|names| names.iter()) {
            keep_earliest(&mut all, *pid, *new);
        }
        let mut names = CappedMap::default();
        all.iter().for_each(|(pid, (_, name))| names.insert(*pid, *name));
        ProcessNames { names }
    }

    /// The name of `pid`, where one is known.
    pub fn known(&self, pid: u32) -> Option<&[u8]> {
        self.names.get(&pid).map(ShortName::get)
    }

    /// All names.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.names.iter().map(|(pid, name)| (*pid, name.get()))
    }
}

/// Turns batches of records into text.
#[derive(Debug, Default)]
pub struct EventText {
    options: EventOptions,
    /// The names known so far; a caller that can read a capture twice fills them beforehand.
    pub names: ProcessNames,
    /// The figures of the events that were shown.
    pub summary: EventSummary,
    /// The steps of requests, followed only if a format shows them.
    steps: Option<Steps>,
    clock: CaptureClock,
    genesis: u64,
    ended: bool,
}

impl EventText {
    /// Text as `options` say.
    pub fn new(options: EventOptions) -> EventText {
        let mut formats = options.formats.iter().map(|(_, format)| format).chain(&options.format);
        let steps = formats.any(EventFormat::wants_elapsed).then(Steps::default);
        EventText { options, steps, ..EventText::default() }
    }

    /// The wall clock of a source that has no record of it.
    pub fn set_clock(&mut self, clock: CaptureClock) {
        self.clock = clock;
    }

    /// Appends the lines of `batch`, whose times count from `genesis`, to `out`. Returns false once
    /// no later event can be shown.
    pub fn write(&mut self, batch: &RecordBatch, genesis: u64, out: &mut Vec<u8>) -> bool {
        self.genesis = genesis;
        for record in &batch.records {
            if record.is_notify() && !record.is_message() {
                self.clock.see(batch, record);
                match self.options.compatible {
                    true => self.names.see(batch, record),
                    false => self.names.learn(batch, record),
                }
                continue;
            }
            if self.ended {
                break;
            }
            let record = TraceRecord { time: record.time.wrapping_sub(genesis), ..*record };
            self.event(batch, &record, out);
        }
        !self.ended
    }

    fn event(&mut self, batch: &RecordBatch, record: &TraceRecord, out: &mut Vec<u8>) {
        let options = &self.options;
        if !options.devices.is_empty() && !options.devices.contains(&record.device) {
            return;
        }
        let late = options.until.is_some_and(|until| record.time > until);
        let shown = record.time >= options.from
            && !late
            && (options.mask == 0 || record.categories & options.mask != 0);
        if late {
            // Events come in order of time, so blkparse ends here.
            self.ended = options.compatible;
            self.summary.see(record);
            return;
        }
        self.summary.handle(record, shown);
        let elapsed = self.steps.as_mut().and_then(|steps| steps.see(record));
        if shown {
            self.line(batch, record, elapsed, out);
        }
    }

    fn line(
        &self,
        batch: &RecordBatch,
        record: &TraceRecord,
        elapsed: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let event = line::EventLine {
            batch,
            record,
            names: &self.names,
            compatible: self.options.compatible,
            elapsed,
            wall: self.clock.at(self.genesis, record.time),
            local: self.options.local,
        };
        if self.options.json {
            let letters = if record.is_message() { Some("m") } else { event.letters() };
            return letters.into_iter().for_each(|letters| json::write(&event, letters, out));
        }
        if record.is_message() {
            return event.message(out);
        }
        let Some(letters) = event.letters() else { return };
        let first = letters.as_bytes().first();
        let own = self.options.formats.iter().find(|(letter, _)| Some(letter) == first);
        match own.map(|(_, format)| format).or(self.options.format.as_ref()) {
            Some(format) => format.write(&event, letters, out),
            None => event.default(letters, out),
        }
    }
}
