//! Block events as other tools print them: blkparse's default lines, and ftrace, perf-script and
//! oops-dump lines of the kernel's block tracepoints. They become the same records as blktrace's.
//!
//! What does not belong here: writing such text (see [`crate::events`]).

mod blkparse;
mod ftrace;

use super::action::{category, notify};
use super::{RecordBatch, TraceRecord, WarningKind, Warnings};
use iowhy_core::bounded_map::CappedMap;
use std::io::{self, BufRead};
use std::sync::Arc;

/// The longest line that is looked at; the rest of a longer one is skipped.
const MAX_LINE: usize = 4096;
/// Maximum number of threads whose names are kept.
const MOST_NAMES: usize = 64 << 10;
/// Maximum number of CPUs; more than the kernel supports.
const MOST_CPUS: usize = 64 << 10;

/// One event out of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextEvent {
    /// The event.
    pub record: TraceRecord,
    /// Its payload, as blktrace would have it.
    pub payload: Vec<u8>,
    /// The name of its process, where the line tells it.
    pub process: Option<String>,
}

/// Reads one line of any of the formats.
pub fn parse(line: &str) -> Option<TextEvent> {
    blkparse::parse(line).or_else(|| ftrace::parse(line))
}

/// Reads lines into batches of records. Processes that lines name become notify records.
pub struct TextReader<R> {
    input: R,
    file: Arc<str>,
    line: Vec<u8>,
    offset: u64,
    /// Threads whose names were added as records.
    named: CappedMap<u32, (), MOST_NAMES>,
    /// The last sequence number by CPU. Records of a CPU without one get none.
    sequences: CappedMap<u32, u32, MOST_CPUS>,
    /// What was no event.
    pub warnings: Warnings,
}

impl<R: BufRead> TextReader<R> {
    /// Reads from `input`, called `file` in warnings.
    pub fn new(input: R, file: Arc<str>) -> TextReader<R> {
        TextReader {
            input,
            file,
            line: Vec::new(),
            offset: 0,
            named: CappedMap::default(),
            sequences: CappedMap::default(),
            warnings: Warnings::default(),
        }
    }

    /// Adds up to `wanted` events to `batch`; false at the end.
    ///
    /// # Errors
    /// Whatever the input answers.
    pub fn read(&mut self, batch: &mut RecordBatch, wanted: usize) -> io::Result<bool> {
        for _ in 0..wanted {
            let at = self.offset;
            if !self.next_line()? {
                return Ok(false);
            }
            let text = String::from_utf8_lossy(&self.line);
            let text = text.trim_end();
            if text.is_empty() || text.starts_with('#') || is_figure(text) {
                continue;
            }
            match parse(text) {
                Some(event) => self.push(event, batch),
                None => self.warnings.add(&self.file, at, WarningKind::UnknownLine, 1),
            }
        }
        Ok(true)
    }

    /// Reads a line, of which [`MAX_LINE`] bytes are kept.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        loop {
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
            let room = MAX_LINE.saturating_sub(self.line.len()).min(part.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.input.consume(used);
            self.offset += used as u64;
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn push(&mut self, event: TextEvent, batch: &mut RecordBatch) {
        let mut record = event.record;
        if let Some(name) = event.process
            && self.named.get(&record.pid).is_none()
            && self.named.admits(&record.pid)
        {
            let note = TraceRecord {
                categories: category::NOTIFY,
                action: notify::PROCESS,
                bytes: 0,
                sector: 0,
                ..record
            };
            batch.push(note, name.as_bytes());
            self.named.insert(record.pid, ());
        }
        if record.sequence == 0
            && !record.is_notify()
            && let Some(next) = self.sequences.or_default(record.cpu)
        {
            *next = next.wrapping_add(1);
            record.sequence = *next;
        }
        batch.push(record, &event.payload);
    }
}

/// Whether a line is of the figures that blkparse prints at the end.
fn is_figure(line: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "CPU",
        "Total (",
        " Read",
        " PC Read",
        " IO unplugs:",
        "Throughput (",
        "Events (",
        "Skips: ",
        "Input file ",
    ];
    let begins = BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    begins && !line.contains("block_")
}

/// Takes the words of a line one by one.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn peek(&self) -> Option<&'a str> {
        Words(self.0).next()
    }

    fn rest(&self) -> &'a str {
        self.0.trim()
    }
}

/// `major,minor`, whatever brackets are around it.
fn device(text: &str) -> Option<u32> {
    let text = text.trim_matches(|c| matches!(c, '(' | ')'));
    let (major, minor) = text.split_once(',')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.trim().parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20) | minor)
}

/// `seconds.fraction` in nanoseconds, whatever number of digits the fraction has.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let rest = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? * scale };
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)
}

/// What is in the brackets at the end of a line: a process, or an error of a completion.
fn bracket(text: &str) -> Option<&str> {
    text.trim_end().strip_suffix(']')?.rsplit_once('[').map(|(_, inner)| inner)
}
