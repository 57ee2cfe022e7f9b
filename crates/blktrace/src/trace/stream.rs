//! One stream of a capture: read ahead, checked, and put in order if it is a merged one.
//!
//! What does not belong here: the order between streams (see [`super::capture`]).

use super::reader::RecordReader;
use super::record::{MAGIC, RecordBatch, TraceRecord};
use super::text_events::{LineLayout, TextReader, TextTool};
use super::warning::{WarningKind, Warnings};
use iowhy_model::bounded_map::CappedMap;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;

/// Events that are read ahead of each stream: blkparse's batch.
pub const AHEAD: usize = 512;
/// Events of a merged stream that are held back to put them in order.
const WINDOW: usize = 64 << 10;

/// Maximum number of pairs of a device and a CPU whose sequence numbers are checked.
const MOST_SEQUENCES: usize = 16 << 10;

/// A stream's bytes.
pub type Bytes = Box<dyn Read + Send>;

/// The reader for a stream's format.
enum StreamReader {
    Records(RecordReader<Bytes>),
    Text(Box<TextReader<BufReader<Bytes>>>),
}

impl StreamReader {
    /// Chooses the reader by the first bytes: text that another tool printed, or records.
    fn new(mut input: Bytes, file: Arc<str>, group: u16, buffer: usize) -> StreamReader {
        let mut first = [0; 512];
        // A failure here comes back on the next read.
        let length = input.read(&mut first).unwrap_or(0);
        let first = first.get(..length).unwrap_or(&[]).to_vec();
        let text = is_text(&first);
        let input: Bytes = Box::new(Cursor::new(first).chain(input));
        if text {
            StreamReader::Text(Box::new(TextReader::new(BufReader::new(input), file)))
        } else {
            StreamReader::Records(RecordReader::new(input, file, buffer).of_group(group))
        }
    }

    fn read(&mut self, batch: &mut RecordBatch, wanted: usize) -> io::Result<bool> {
        match self {
            StreamReader::Records(reader) => reader.read(batch, wanted),
            StreamReader::Text(reader) => reader.read(batch, wanted),
        }
    }

    fn warnings(&mut self) -> &mut Warnings {
        match self {
            StreamReader::Records(reader) => &mut reader.warnings,
            StreamReader::Text(reader) => &mut reader.warnings,
        }
    }

    fn text(&self) -> Option<&TextReader<BufReader<Bytes>>> {
        match self {
            StreamReader::Records(_) => None,
            StreamReader::Text(reader) => Some(reader),
        }
    }

    fn offset(&self) -> u64 {
        match self {
            StreamReader::Records(reader) => reader.offset(),
            StreamReader::Text(_) => 0,
        }
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk::<4>().is_some_and(|word| {
        [u32::from_le_bytes(*word), u32::from_be_bytes(*word)]
            .iter()
            .any(|word| word & 0xffff_ff00 == MAGIC)
    });
    let printable = |byte: &u8| *byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r');
    !bytes.is_empty() && !magic && bytes.iter().all(printable)
}

/// A stream that is being read.
pub(crate) struct Stream {
    file: Arc<str>,
    reader: StreamReader,
    /// The CPU that the file's name states.
    pub(super) cpu: Option<u32>,
    pub(super) queue: RecordBatch,
    /// The next record of the queue to be given.
    pub(super) next: usize,
    /// Records of the queue that may be given; the rest is held back to be put in order.
    pub(super) ready: usize,
    /// Whether its records must be put in order of time.
    sort: bool,
    ended: bool,
    checks: Checks,
}

/// The checks of every record of a stream.
#[derive(Default)]
struct Checks {
    last_time: u64,
    backwards: u64,
    foreign: u64,
    unknown: u64,
    gaps: u64,
    /// The device and CPU of the last record, and its sequence number.
    current: Option<((u32, u32), u32)>,
    /// The last sequence number of the others.
    sequences: CappedMap<(u32, u32), u32, MOST_SEQUENCES>,
}

impl Stream {
    pub(super) fn new(
        input: Bytes,
        name: &str,
        group: u16,
        cpu: Option<u32>,
        sort: bool,
        buffer: usize,
    ) -> Stream {
        let file: Arc<str> = name.into();
        Stream {
            reader: StreamReader::new(input, file.clone(), group, buffer),
            file,
            cpu,
            queue: RecordBatch::default(),
            next: 0,
            ready: 0,
            sort,
            ended: false,
            checks: Checks::default(),
        }
    }

    /// The stream, whose lines are of `layout` if it is text.
    pub(super) fn read_by(mut self, layout: Option<Arc<LineLayout>>) -> Stream {
        if let StreamReader::Text(reader) = &mut self.reader {
            reader.read_by(layout);
        }
        self
    }

    /// The tool that printed it, if it is text and had an event.
    pub(super) fn tool(&self) -> Option<TextTool> {
        self.reader.text()?.tool()
    }

    /// Returns the time that blkparse calls 0 in it: text and dumps count from there.
    pub(super) fn begin_ns(&self) -> u64 {
        self.reader.text().map_or(0, TextReader::begin_ns)
    }

    /// Returns the warnings since the last call.
    pub(super) fn warnings(&mut self) -> &mut Warnings {
        self.reader.warnings()
    }

    /// The time of the next record.
    #[inline]
    pub(super) fn peek(&self) -> Option<u64> {
        self.queue.records.get(self.next..self.ready)?.first().map(|record| record.time)
    }

    /// Reads ahead; notes that are met go straight to `notes`.
    pub(super) fn prime(&mut self, compatible: bool, notes: &mut RecordBatch) {
        let wanted = if self.sort { WINDOW } else { AHEAD };
        loop {
            self.drop_given();
            let from = self.queue.records.len();
            if !self.ended && !self.read(wanted) {
                self.ended = true;
            }
            self.check(from, compatible, notes);
            self.put_in_order();
            if self.ended || self.ready > 0 {
                break;
            }
        }
    }

    /// Hands out everything as it is in the stream, unchecked.
    pub(crate) fn each_batch(&mut self, mut each: impl FnMut(&RecordBatch)) {
        let mut batch = RecordBatch::default();
        while self.reader.read(&mut batch, AHEAD).unwrap_or(false) {
            each(&batch);
            batch.clear();
        }
    }

    /// Reports irregularities of the records.
    pub(super) fn report(&mut self, warnings: &mut Warnings) {
        let checks = std::mem::take(&mut self.checks);
        warnings.add(&self.file, 0, WarningKind::ForeignCpu, checks.foreign);
        warnings.add(&self.file, 0, WarningKind::OutOfOrder, checks.backwards);
        warnings.add(&self.file, 0, WarningKind::UnknownAction, checks.unknown);
        // Text may have been filtered, and its remaps carry another device's numbers.
        if self.reader.text().is_none() {
            warnings.add(&self.file, 0, WarningKind::SequenceGap, checks.gaps);
        }
    }

    /// Forgets the records that were handed out; those held back stay.
    fn drop_given(&mut self) {
        if self.sort
            && let Some(last) = self.ready.checked_sub(1).and_then(|at| self.queue.records.get(at))
        {
            self.checks.last_time = self.checks.last_time.max(last.time);
        }
        if self.ready >= self.queue.records.len() {
            self.queue.clear();
        } else {
            let mut rest = RecordBatch::default();
            for record in self.queue.records.get(self.ready..).unwrap_or(&[]) {
                rest.push(*record, self.queue.raw_payload(record));
            }
            self.queue = rest;
        }
        (self.next, self.ready) = (0, 0);
    }

    fn read(&mut self, wanted: usize) -> bool {
        match self.reader.read(&mut self.queue, wanted) {
            Ok(more) => more,
            Err(_) => {
                let offset = self.reader.offset();
                self.reader.warnings().add(&self.file, offset, WarningKind::ReadFailed, 1);
                false
            }
        }
    }

    /// Counts irregularities in the records from `from` on, and moves notes to `notes`.
    fn check(&mut self, from: usize, compatible: bool, notes: &mut RecordBatch) {
        let Some(fresh) = self.queue.records.get(from..) else { return };
        let (cpu, mut leave) = (self.cpu, false);
        for record in fresh {
            let foreign = cpu.is_some_and(|cpu| record.cpu != cpu);
            if foreign || record.is_notify() {
                self.checks.foreign += u64::from(foreign);
                leave |= is_early(record) || (foreign && compatible);
            }
            if !record.is_notify() {
                self.checks.see(record, !self.sort);
            }
        }
        if leave {
            self.take_notes(from, compatible, notes);
        }
    }

    /// Moves names and clocks out of the queue, and drops the records that blkparse drops.
    fn take_notes(&mut self, from: usize, compatible: bool, notes: &mut RecordBatch) {
        let mut kept = from;
        for index in from..self.queue.records.len() {
            let Some(record) = self.queue.records.get(index).copied() else { break };
            if compatible && self.cpu.is_some_and(|cpu| record.cpu != cpu) {
                continue;
            }
            if is_early(&record) {
                notes.push(record, self.queue.raw_payload(&record));
                continue;
            }
            if let Some(slot) = self.queue.records.get_mut(kept) {
                *slot = record;
                kept += 1;
            }
        }
        self.queue.records.truncate(kept);
    }

    /// Decides which records may be given. A pipe interleaves the CPUs' buffers, so half a window
    /// is held back for events that come late.
    fn put_in_order(&mut self) {
        self.ready = self.queue.records.len();
        if self.sort {
            self.queue.records.sort_by_key(|record| record.time);
            let given = self.checks.last_time;
            let late = self.queue.records.partition_point(|record| record.time < given);
            self.checks.backwards += late as u64;
            if !self.ended {
                self.ready = self.ready.saturating_sub(WINDOW / 2);
            }
        }
    }
}

/// Whether blkparse handles a record as soon as it is read, ahead of the events.
fn is_early(record: &TraceRecord) -> bool {
    record.is_notify() && !record.is_message()
}

impl Checks {
    #[inline]
    fn see(&mut self, record: &TraceRecord, ordered: bool) {
        if ordered {
            self.backwards += u64::from(record.time < self.last_time);
            self.last_time = record.time;
        }
        self.unknown += u64::from(record.kind().is_none());
        match &mut self.current {
            Some((key, last)) if *key == (record.device, record.cpu) => {
                self.gaps += gap(*last, record.sequence);
                *last = record.sequence;
            }
            _ => self.other(record),
        }
    }

    /// Takes a record of another device or CPU than the last one's.
    fn other(&mut self, record: &TraceRecord) {
        let key = (record.device, record.cpu);
        if let Some((old, last)) = self.current.replace((key, record.sequence)) {
            self.sequences.insert(old, last);
        }
        if let Some(last) = self.sequences.get(&key) {
            self.gaps += gap(*last, record.sequence);
        }
    }
}

/// Returns how many numbers are missing between the two.
fn gap(last: u32, next: u32) -> u64 {
    u64::from(next.saturating_sub(last).saturating_sub(1))
}
