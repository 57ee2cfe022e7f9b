//! Block events as other tools print them: blkparse's default lines, and ftrace, perf-script and
//! oops-dump lines of the kernel's block tracepoints. They become the same records as blktrace's.
//!
//! What does not belong here: writing such text (see [`crate::events`]).

mod blkparse;
mod formatted;
mod ftrace;
mod repair;

use super::action::{category, notify};
use super::{RecordBatch, TraceRecord, WarningKind, Warnings};
pub use formatted::LineLayout;
use iowhy_model::bounded_map::CappedMap;
use repair::{EventNews, TextRepair};
use std::io::{self, BufRead};
use std::sync::Arc;

/// The longest line that is looked at; the rest of a longer one is skipped.
const MAX_LINE: usize = 4096;
/// Maximum number of threads whose names are kept.
const MOST_NAMES: usize = 64 << 10;
/// Maximum number of CPUs; more than the kernel supports.
const MOST_CPUS: usize = 64 << 10;

/// The tool that prints such a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextTool {
    /// blkparse.
    #[default]
    Blkparse,
    /// The kernel's trace files, trace-cmd, and tools that print them.
    Ftrace,
    /// `perf script`.
    Perf,
}

impl TextTool {
    /// The name.
    pub const fn word(self) -> &'static str {
        match self {
            TextTool::Blkparse => "blkparse",
            TextTool::Ftrace => "ftrace",
            TextTool::Perf => "perf",
        }
    }
}

/// One event out of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextEvent {
    /// The event.
    pub record: TraceRecord,
    /// Its payload, as blktrace would have it.
    pub payload: Vec<u8>,
    /// The name of its process, where the line tells it.
    pub process: Option<String>,
    /// The tool that printed the line.
    pub tool: TextTool,
    /// Whether it only repeats that the completion before it failed (`block_rq_error`).
    pub is_error_event: bool,
}

/// Reads one line of any of the formats, as it is or as a mail quotes it.
pub fn parse(line: &str) -> Option<TextEvent> {
    parse_unquoted(unquoted(line))
}

fn parse_unquoted(line: &str) -> Option<TextEvent> {
    blkparse::parse(line).or_else(|| ftrace::parse(line)).or_else(|| ftrace::parse_blk_tracer(line))
}

/// The line without a mail's marks of quotation and a terminal's `^C`.
fn unquoted(line: &str) -> &str {
    let mut line = line;
    while let Some(rest) = line.trim_start().strip_prefix('>') {
        line = rest;
    }
    line.trim_start_matches("^C")
}

/// Lines that may be the parts of one, which a mail wrapped: the first begins as blkparse's do.
struct WrappedLine {
    text: String,
    /// The offset of the first.
    at: u64,
    lines: u64,
}

impl WrappedLine {
    /// Lines that one is wrapped into at most.
    const MOST_LINES: u64 = 4;

    fn new(text: &str, at: u64) -> Option<WrappedLine> {
        blkparse::has_header(text).then(|| WrappedLine { text: text.to_owned(), at, lines: 1 })
    }

    /// Returns the event that the lines are with the next one, else the lines with it.
    fn with(self, next: &str) -> Result<TextEvent, WrappedLine> {
        let text = format!("{} {}", self.text, next.trim_start());
        let is_begin = blkparse::has_header(next);
        match blkparse::parse(&text).filter(|_| !is_begin) {
            Some(event) => Ok(event),
            None => Err(WrappedLine { text, lines: self.lines + 1, ..self }),
        }
    }
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
    /// The memory of earlier lines.
    repair: TextRepair,
    /// The format of its lines, where the user gave it.
    layout: Option<Arc<LineLayout>>,
    /// The tool that printed most recently.
    tool: Option<TextTool>,
    /// The beginning of an event whose line a mail wrapped, as far as lines tell.
    wrapped: Option<WrappedLine>,
    /// Lines that were no event.
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
            repair: TextRepair::default(),
            layout: None,
            tool: None,
            wrapped: None,
            warnings: Warnings::default(),
        }
    }

    /// Reads all further lines by a format of blkparse, if one is given.
    pub fn read_by(&mut self, layout: Option<Arc<LineLayout>>) {
        self.layout = layout;
    }

    /// The tool whose lines were read; `None` before the first event.
    pub fn tool(&self) -> Option<TextTool> {
        self.tool
    }

    /// The time that its tool calls 0.
    pub fn begin_ns(&self) -> u64 {
        if self.tool == Some(TextTool::Blkparse) { repair::BEGIN_NS } else { 0 }
    }

    /// Adds up to `wanted` events to `batch`; false at the end.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub fn read(&mut self, batch: &mut RecordBatch, wanted: usize) -> io::Result<bool> {
        for _ in 0..wanted {
            let at = self.offset;
            if !self.next_line()? {
                self.leave_out();
                return Ok(false);
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            self.take(unquoted(text.trim_end()), at, batch);
            drop(text);
            self.line = line;
        }
        Ok(true)
    }

    /// Takes the line at offset `at`. Nearly all lines are events, which are asked for first.
    fn take(&mut self, text: &str, at: u64, batch: &mut RecordBatch) {
        let is_comment = text.starts_with('#');
        let event = match &self.layout {
            Some(layout) => layout.event(text),
            None => parse_unquoted(text),
        };
        if let Some(event) = event.filter(|_| !is_comment) {
            self.leave_out();
            return self.push(event, batch);
        }
        if let Some((kind, count)) = lost_events(text) {
            self.warnings.add(&self.file, at, kind, count);
        }
        if text.is_empty() || is_comment || is_known_other(text) {
            return;
        }
        let Some(wrapped) = self.wrapped.take() else {
            self.wrapped = WrappedLine::new(text, at);
            if self.wrapped.is_none() {
                self.warnings.add(&self.file, at, WarningKind::UnknownLine, 1);
            }
            return;
        };
        match wrapped.with(text) {
            Ok(event) => self.push(event, batch),
            Err(wrapped) => self.wrapped = Some(wrapped),
        }
        if self.wrapped.as_ref().is_some_and(|it| it.lines >= WrappedLine::MOST_LINES) {
            self.leave_out();
        }
    }

    /// Counts the lines that became no event.
    fn leave_out(&mut self) {
        if let Some(WrappedLine { at, lines, .. }) = self.wrapped.take() {
            self.warnings.add(&self.file, at, WarningKind::UnknownFormat, 1);
            self.warnings.add(&self.file, at, WarningKind::UnknownLine, lines - 1);
        }
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

    fn push(&mut self, mut event: TextEvent, batch: &mut RecordBatch) {
        self.tool = Some(event.tool);
        if self.repair.event(&mut event) == EventNews::Repeated {
            return;
        }
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

/// The events that a line says were lost: `CPU:3 [LOST 51 EVENTS]` of ftrace,
/// `CPU:3 [51 EVENTS DROPPED]` of trace-cmd, and the count in the head of ftrace's `trace`.
fn lost_events(line: &str) -> Option<(WarningKind, u64)> {
    const WRITTEN: &str = "entries-in-buffer/entries-written:";
    if line.starts_with('#') {
        let (_, rest) = line.split_once(WRITTEN)?;
        let (kept, written) = rest.split_whitespace().next()?.split_once('/')?;
        let (kept, written) = (kept.parse::<u64>().ok()?, written.parse::<u64>().ok()?);
        return Some((WarningKind::Overwritten, written.saturating_sub(kept)));
    }
    let inner = line.trim_start().strip_prefix("CPU:")?.split_once('[')?.1;
    let mut words = inner.trim_end_matches(']').split_whitespace();
    let count = match (words.next()?, words.next()?) {
        ("LOST", count) | (count, "EVENTS") => count.parse().ok()?,
        // `[LOST EVENTS]` and `[EVENTS DROPPED]`: the tracer does not know how many.
        _ => 1,
    };
    Some((WarningKind::TracerLost, count))
}

/// Returns whether a line is no event but known: figures, tracers' reports about their buffers, and
/// call chains of `perf script`.
fn is_known_other(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let address = words.next().filter(|word| word.len() >= 8 && line.starts_with([' ', '\t']));
    let is_frame =
        address.is_some_and(|word| u64::from_str_radix(word, 16).is_ok()) && words.next().is_some();
    let is_tracers = ["cpus=", "version = "].iter().any(|beginning| line.starts_with(beginning));
    is_figure(line) || is_tracers || ftrace::is_other(line) || is_frame && !line.contains("block_")
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

/// Returns the text in the brackets at the end of a line: a process, or an error of a completion.
fn bracket(text: &str) -> Option<&str> {
    text.trim_end().strip_suffix(']')?.rsplit_once('[').map(|(_, inner)| inner)
}
