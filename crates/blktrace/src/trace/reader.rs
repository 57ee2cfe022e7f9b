//! Records out of one stream of bytes. Damage never ends a stream: the reader looks for the next
//! plausible record and counts what it left out.
//!
//! What does not belong here: the streams of a capture, and their order.

use super::record::{MAGIC, RecordBatch, TraceRecord, V7_LEN, V8_LEN};
use super::warning::{WarningKind, Warnings};
use std::io::{self, Read};
use std::sync::Arc;

/// The smallest buffer; it grows for a record that does not fit, to at most `MAX_RECORD` more.
pub const MIN_BUFFER: usize = 16 << 10;
/// The largest record: a protocol 8 header and the longest payload.
const MAX_RECORD: usize = V8_LEN + u16::MAX as usize;

/// The first word of the bytes at one position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Head {
    V7,
    V8,
    Version,
    Bad,
}

/// The bytes at the reader's position.
enum ReadStep {
    /// A record with a header of this length; the payload has the second length.
    Record { header: usize, payload: usize },
    /// Not enough bytes.
    More,
    /// No record: look for the next one after so many bytes.
    Skip(usize),
}

/// Reads records from `R`.
pub struct RecordReader<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `buffer[0]`.
    base: u64,
    ended: bool,
    big_endian: Option<bool>,
    /// Whether records that say protocol 7 are 64 bytes long.
    mislabelled: bool,
    file: Arc<str>,
    group: u16,
    /// The defects found so far.
    pub warnings: Warnings,
}

impl<R: Read> RecordReader<R> {
    /// A reader over `input`, called `file` in warnings, with a buffer of about `buffer` bytes.
    pub fn new(input: R, file: Arc<str>, buffer: usize) -> RecordReader<R> {
        RecordReader {
            input,
            buffer: vec![0; buffer.max(MIN_BUFFER)],
            start: 0,
            end: 0,
            base: 0,
            ended: false,
            big_endian: None,
            mislabelled: false,
            file,
            group: 0,
            warnings: Warnings::default(),
        }
    }

    /// Marks the records as belonging to name number `group` of the capture.
    #[must_use]
    pub fn of_group(mut self, group: u16) -> RecordReader<R> {
        self.group = group;
        self
    }

    /// The name that warnings give to this stream.
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// The offset of the next record.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Reads until `wanted` of the records are no early notes (names and clocks, which blkparse
    /// reads ahead of the events), the stream ends, or the batch holds many payload bytes. Returns
    /// whether anything was read.
    pub fn read(&mut self, batch: &mut RecordBatch, wanted: usize) -> io::Result<bool> {
        let before = batch.records.len();
        if self.big_endian.is_none() && !self.find_byte_order()? {
            return Ok(false);
        }
        if self.big_endian == Some(true) {
            self.read_ordered::<true>(batch, wanted)?;
        } else {
            self.read_ordered::<false>(batch, wanted)?;
        }
        Ok(batch.records.len() > before)
    }

    fn read_ordered<const BIG: bool>(
        &mut self,
        batch: &mut RecordBatch,
        wanted: usize,
    ) -> io::Result<()> {
        const PAYLOAD_LIMIT: usize = 1 << 20;
        let mut events = 0;
        while events < wanted && batch.payload_bytes() < PAYLOAD_LIMIT {
            match self.step::<BIG>() {
                ReadStep::Record { header, payload } => {
                    let early = self.take::<BIG>(batch, header, payload);
                    events += usize::from(!early);
                }
                ReadStep::More if self.ended => {
                    self.leave_tail();
                    return Ok(());
                }
                ReadStep::More => self.refill()?,
                ReadStep::Skip(bytes) => self.resynchronise::<BIG>(bytes)?,
            }
        }
        Ok(())
    }

    /// Moves the record at the reader's position into `batch`; says whether it is an early note.
    #[inline]
    fn take<const BIG: bool>(
        &mut self,
        batch: &mut RecordBatch,
        header: usize,
        payload: usize,
    ) -> bool {
        let bytes = self.buffer.get(self.start..self.end).unwrap_or(&[]);
        let record = match header {
            V7_LEN => bytes.first_chunk().map(TraceRecord::from_v7::<BIG>),
            _ => bytes.first_chunk().map(TraceRecord::from_v8::<BIG>),
        };
        let mut record = record.unwrap_or_default();
        record.group = self.group;
        batch.push(record, bytes.get(header..header + payload).unwrap_or(&[]));
        self.start += header + payload;
        record.is_notify() && !record.is_message()
    }

    /// Looks at the reader's position. The common case is decided by two words: this record's magic
    /// and the next one's.
    #[inline]
    fn step<const BIG: bool>(&self) -> ReadStep {
        let bytes = self.buffer.get(self.start..self.end).unwrap_or(&[]);
        let header = match head::<BIG>(bytes) {
            None => return ReadStep::More,
            Some(Head::V7) if !self.mislabelled => V7_LEN,
            Some(Head::V7 | Head::V8) => V8_LEN,
            Some(Head::Version | Head::Bad) => return ReadStep::Skip(0),
        };
        let Some(payload) = payload_len::<BIG>(bytes, header) else { return ReadStep::More };
        let next = header + payload;
        match bytes.get(next..).map(head::<BIG>) {
            Some(Some(Head::V7 | Head::V8)) => ReadStep::Record { header, payload },
            Some(None) if self.ended && bytes.len() == next => ReadStep::Record { header, payload },
            Some(None) | None if !self.ended => ReadStep::More,
            _ => self.doubtful::<BIG>(bytes, header, payload),
        }
    }

    /// A record that no other record follows: mislabelled, the last whole one before a cut, cut
    /// off itself, or followed by damage.
    fn doubtful<const BIG: bool>(&self, bytes: &[u8], header: usize, payload: usize) -> ReadStep {
        if header == V7_LEN && follows::<BIG>(bytes, V8_LEN) {
            return ReadStep::Skip(0);
        }
        let whole = bytes.len() >= header + payload;
        match find::<BIG>(bytes.get(header..).unwrap_or(&[]), payload, self.ended) {
            // The payload's length is damaged: another record begins inside of it.
            Some(at) => ReadStep::Record { header, payload: at },
            _ if whole => ReadStep::Record { header, payload },
            _ => ReadStep::More,
        }
    }

    /// Handles bytes at the reader's position that are no record.
    fn resynchronise<const BIG: bool>(&mut self, skip: usize) -> io::Result<()> {
        let bytes = self.buffer.get(self.start..self.end).unwrap_or(&[]);
        let here = head::<BIG>(bytes);
        if here == Some(Head::V7) && !self.mislabelled && follows::<BIG>(bytes, V8_LEN) {
            self.mislabelled = true;
            self.warnings.add(&self.file, self.offset(), WarningKind::MislabelledVersion, 1);
            return Ok(());
        }
        let (kind, first) = match here {
            Some(Head::Version) => (WarningKind::UnsupportedVersion, 4),
            _ => (WarningKind::BadBytes, 1),
        };
        let offset = self.offset();
        let skipped = self.skip_to_record::<BIG>(skip.max(first))?;
        let count = if kind == WarningKind::BadBytes { skipped } else { 1 };
        self.warnings.add(&self.file, offset, kind, count);
        Ok(())
    }

    /// Drops at least `least` bytes up to the next plausible record; returns how many.
    fn skip_to_record<const BIG: bool>(&mut self, least: usize) -> io::Result<u64> {
        let from = self.offset();
        self.start = (self.start + least).min(self.end);
        loop {
            let bytes = self.buffer.get(self.start..self.end).unwrap_or(&[]);
            if let Some(at) = find::<BIG>(bytes, usize::MAX, self.ended) {
                self.start += at;
                break;
            }
            if self.ended {
                self.start = self.end;
                break;
            }
            // Bytes that may be the beginning of a record stay.
            self.start = self.start.max(self.end.saturating_sub(MAX_RECORD));
            self.refill()?;
        }
        Ok(self.offset() - from)
    }

    /// The stream ends inside a record.
    fn leave_tail(&mut self) {
        let left = self.end - self.start;
        self.warnings.add(&self.file, self.offset(), WarningKind::TruncatedTail, left as u64);
        self.start = self.end;
    }

    /// Reads more bytes behind those that are there.
    fn refill(&mut self) -> io::Result<()> {
        self.base += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() - self.end < MIN_BUFFER / 2 {
            let larger = (self.buffer.len() * 2).min(3 * MAX_RECORD).max(self.end + MIN_BUFFER);
            self.buffer.resize(larger, 0);
        }
        while self.end < self.buffer.len() {
            let free = self.buffer.get_mut(self.end..).unwrap_or(&mut []);
            match self.input.read(free) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(bytes) => self.end += bytes.min(self.buffer.len() - self.end),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // A pipe gives the bytes that it has; waiting for a full buffer would delay events.
            if self.end >= MIN_BUFFER / 2 {
                break;
            }
        }
        Ok(())
    }

    /// Decides the byte order on the first plausible record; false where there is none at all.
    fn find_byte_order(&mut self) -> io::Result<bool> {
        while self.end - self.start < V8_LEN && !self.ended {
            self.refill()?;
        }
        let bytes = self.buffer.get(self.start..self.end).unwrap_or(&[]);
        if bytes.is_empty() {
            if self.offset() == 0 {
                self.warnings.add(&self.file, 0, WarningKind::Empty, 1);
            }
            return Ok(false);
        }
        let position = |at: Option<usize>| at.unwrap_or(usize::MAX);
        let little = position(find::<false>(bytes, usize::MAX, self.ended));
        let big = position(find::<true>(bytes, little, self.ended));
        if little == usize::MAX && big == usize::MAX {
            if is_head::<false>(bytes) || is_head::<true>(bytes) {
                self.leave_tail();
            } else {
                self.warnings.add(&self.file, 0, WarningKind::NotBlktrace, 1);
            }
            self.ended = true;
            self.start = self.end;
            return Ok(false);
        }
        self.big_endian = Some(big < little);
        Ok(true)
    }
}

/// Returns the kind of header with which `bytes` begin; `None` if they are too few.
#[inline]
fn head<const BIG: bool>(bytes: &[u8]) -> Option<Head> {
    let word = bytes.first_chunk::<4>()?;
    let word = if BIG { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
    Some(match word.wrapping_sub(MAGIC) {
        7 => Head::V7,
        8 => Head::V8,
        0..=0xff => Head::Version,
        _ => Head::Bad,
    })
}

#[inline]
fn is_head<const BIG: bool>(bytes: &[u8]) -> bool {
    matches!(head::<BIG>(bytes), Some(Head::V7 | Head::V8))
}

/// The payload's length as a header of `header` bytes states it.
#[inline]
fn payload_len<const BIG: bool>(bytes: &[u8], header: usize) -> Option<usize> {
    let at = if header == V7_LEN { 46 } else { 50 };
    bytes.get(..header)?;
    let word = [*bytes.get(at)?, *bytes.get(at + 1)?];
    Some(usize::from(if BIG { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }))
}

/// Whether a record with a header of `header` bytes ends where another begins, or where the bytes
/// end.
fn follows<const BIG: bool>(bytes: &[u8], header: usize) -> bool {
    payload_len::<BIG>(bytes, header).is_some_and(|payload| {
        let next = header + payload;
        bytes.len() == next || bytes.get(next..).is_some_and(is_head::<BIG>)
    })
}

/// The first plausible record that begins `before` a position: a magic number of a known
/// protocol, followed by another record or the end. The last one in a piece of a stream may be
/// followed by bytes that are not read yet.
fn find<const BIG: bool>(bytes: &[u8], before: usize, ended: bool) -> Option<usize> {
    (0..bytes.len().saturating_sub(3).min(before)).find(|at| {
        let here = bytes.get(*at..).unwrap_or(&[]);
        let header = match head::<BIG>(here) {
            Some(Head::V7) => V7_LEN,
            Some(Head::V8) => V8_LEN,
            _ => return false,
        };
        let beyond = payload_len::<BIG>(here, header).is_none_or(|p| header + p + 4 > here.len());
        follows::<BIG>(here, header)
            || (header == V7_LEN && follows::<BIG>(here, V8_LEN))
            || (beyond && !ended)
    })
}
