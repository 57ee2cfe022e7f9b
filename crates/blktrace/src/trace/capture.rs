//! All streams of a capture, merged by time in bounded memory.
//!
//! Each stream is read ahead by [`super::stream::AHEAD`] events, as blkparse does; names and clocks
//! that are met on the way are handed out at once, ahead of the order of time. Among equal times
//! the stream that is being read goes on, then the one that was put back last: blkparse's order.

use super::input::{Input, InputGroup, Inputs};
use super::reader::MIN_BUFFER;
use super::record::RecordBatch;
use super::stream::{Bytes, Stream};
use super::text_events::{LineLayout, TextTool};
use super::tournament::Tournament;
use super::warning::{WarningKind, Warnings};
use iowhy_fs::read;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory for all buffers of all streams.
const BUFFERS: usize = 8 << 20;
/// Records in one filled batch.
const BATCH: usize = 4096;

/// The order and the choice of the records that a capture gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By time, all records.
    #[default]
    Time,
    /// As blkparse: no record of another CPU than its file's, nothing after the first CPU number
    /// that is missing, dumps as they are.
    Blkparse,
}

/// Options for reading a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CaptureOptions {
    /// The order of records.
    pub order: Order,
    /// The format of lines of text, as `blkparse -f` takes it; `None` if they are as any of the
    /// known tools prints them.
    pub layout: Option<Arc<LineLayout>>,
}

/// The reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No capture has the name.
    #[error("failed to find capture {path}: {source}")]
    NotFound {
        /// The name that was given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be opened.
    #[error("failed to open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A capture that is being read.
pub struct TraceCapture {
    streams: Vec<Stream>,
    matches: Tournament,
    order: Order,
    layout: Option<Arc<LineLayout>>,
    genesis: u64,
    /// Notes that were met while the streams were opened.
    early: RecordBatch,
    started: bool,
    inputs: Inputs,
    warnings: Warnings,
}

impl TraceCapture {
    /// Opens the captures that `given` name.
    ///
    /// # Errors
    /// Fails if a name has no capture, or a file cannot be opened.
    pub fn open(given: &[PathBuf], options: CaptureOptions) -> Result<TraceCapture, CaptureError> {
        let inputs = Inputs::find(given)
            .map_err(|(path, source)| CaptureError::NotFound { path, source })?;
        TraceCapture::from_inputs(inputs, options)
    }

    /// Opens the streams of `inputs`.
    ///
    /// # Errors
    /// Fails if a file cannot be opened.
    pub fn from_inputs(
        inputs: Inputs,
        options: CaptureOptions,
    ) -> Result<TraceCapture, CaptureError> {
        let mut capture = TraceCapture::empty(options);
        let buffer = (BUFFERS / inputs.len().max(1)).clamp(MIN_BUFFER, 256 << 10);
        for (number, group) in inputs.groups.iter().enumerate() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            capture.note_missing(group);
            for input in &group.inputs {
                if capture.is_reachable(input, &group.missing) {
                    capture.add(input, number, buffer)?;
                }
            }
        }
        capture.inputs = inputs;
        Ok(capture)
    }

    /// Names the CPUs' files that are missing; many of them only by their number.
    fn note_missing(&mut self, group: &InputGroup) {
        const NAMED: usize = 8;
        let Some(Input::Cpu { path, .. }) = group.inputs.first() else { return };
        let named = group.missing.len() <= NAMED;
        for cpu in group.missing.iter().take(NAMED).filter(|_| named) {
            let file = path.with_file_name(format!("{}.blktrace.{cpu}", group.name));
            self.warnings.add(&file.display().to_string().into(), 0, WarningKind::MissingCpu, 1);
        }
        if !named {
            let file = path.with_file_name(&group.name).display().to_string().into();
            self.warnings.add(&file, 0, WarningKind::MissingCpu, group.missing.len() as u64);
        }
    }

    /// A capture of one stream that is already open, such as a pipe.
    pub fn from_reader(input: Bytes, name: &str, options: CaptureOptions) -> TraceCapture {
        let sort = options.order == Order::Time;
        let mut capture = TraceCapture::empty(options);
        let stream = Stream::new(input, name, 0, None, sort, 256 << 10);
        capture.streams.push(stream.read_by(capture.layout.clone()));
        capture
    }

    fn empty(options: CaptureOptions) -> TraceCapture {
        TraceCapture {
            streams: Vec::new(),
            matches: Tournament::default(),
            order: options.order,
            layout: options.layout,
            genesis: 0,
            early: RecordBatch::default(),
            started: false,
            inputs: Inputs::default(),
            warnings: Warnings::default(),
        }
    }

    /// blkparse reads nothing behind the first number that is missing.
    fn is_reachable(&self, input: &Input, missing: &[u32]) -> bool {
        match (self.order, input, missing.first()) {
            (Order::Blkparse, Input::Cpu { cpu, .. }, Some(first)) => cpu < first,
            _ => true,
        }
    }

    fn add(&mut self, input: &Input, group: u16, buffer: usize) -> Result<(), CaptureError> {
        let (bytes, name, cpu): (Bytes, String, _) = match input {
            Input::Stdin => (Box::new(io::stdin()), "standard input".to_owned(), None),
            Input::Merged(path) => {
                (open(path, read::open_source)?, path.display().to_string(), None)
            }
            Input::Cpu { path, cpu } => {
                (open(path, read::open)?, path.display().to_string(), Some(*cpu))
            }
        };
        let sort = cpu.is_none() && self.order == Order::Time;
        let stream = Stream::new(bytes, &name, group, cpu, sort, buffer);
        self.streams.push(stream.read_by(self.layout.clone()));
        Ok(())
    }

    /// The files that the capture is made of.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Returns the time of the first event, which blkparse calls 0. Known once
    /// [`TraceCapture::fill`] has been called; for dumps and text, whose times are rebased already,
    /// the time that they count from.
    pub fn genesis(&self) -> u64 {
        if self.order == Order::Blkparse && self.is_merged() {
            return self.streams.iter().map(Stream::begin_ns).max().unwrap_or(0);
        }
        self.genesis
    }

    /// The tools that printed its text, or blktrace for binary records: known once all was read.
    pub fn tools(&self) -> String {
        let tool = |stream: &Stream| stream.tool().map_or("blktrace", TextTool::word);
        let tools: BTreeSet<&str> = self.streams.iter().map(tool).collect();
        tools.into_iter().collect::<Vec<_>>().join(" and ")
    }

    /// Whether every stream is a merged one.
    pub fn is_merged(&self) -> bool {
        self.streams.iter().all(|stream| stream.cpu.is_none())
    }

    /// Returns the streams, for callers that need no order between them.
    pub(crate) fn into_streams(self) -> Vec<Stream> {
        self.streams
    }

    /// Returns the capture's warnings, complete once [`TraceCapture::fill`] has returned false.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Fills `batch` with the next records; false at the end, when `batch` is empty.
    pub fn fill(&mut self, batch: &mut RecordBatch) -> bool {
        batch.clear();
        if !self.started {
            self.start();
            std::mem::swap(batch, &mut self.early);
        }
        while let Some(current) = self.matches.first()
            && batch.records.len() < BATCH
        {
            self.give_run(current, batch);
        }
        if batch.records.is_empty() {
            self.finish();
        }
        !batch.records.is_empty()
    }

    fn start(&mut self) {
        self.started = true;
        let mut early = RecordBatch::default();
        for index in 0..self.streams.len() {
            self.prime(index, &mut early);
        }
        self.matches = Tournament::new(self.streams.iter().map(Stream::peek));
        let first = self.matches.first().and_then(|first| self.streams.get(first)?.peek());
        self.genesis = first.unwrap_or(0);
        self.early = early;
    }

    /// Moves records of stream `index` for as long as it is the earliest.
    fn give_run(&mut self, index: usize, batch: &mut RecordBatch) {
        let limit = self.matches.limit();
        let Some(stream) = self.streams.get_mut(index) else { return };
        let from = stream.next;
        let end = stream.ready.min(from + BATCH.saturating_sub(batch.records.len()));
        let rest = stream.queue.records.get(from..end).unwrap_or(&[]);
        for record in rest {
            batch.copy(record, &stream.queue);
            stream.next += 1;
            if rest.get(stream.next - from).is_none_or(|next| next.time > limit) {
                break;
            }
        }
        if stream.next == stream.ready {
            self.prime(index, batch);
        }
        let next = self.streams.get(index).and_then(Stream::peek);
        self.matches.advance(next);
    }

    /// Reads ahead on stream `index`; notes that are met go straight to `notes`.
    fn prime(&mut self, index: usize, notes: &mut RecordBatch) {
        let compatible = self.order == Order::Blkparse;
        let Some(stream) = self.streams.get_mut(index) else { return };
        stream.prime(compatible, notes);
        self.warnings.append(stream.warnings());
    }

    fn finish(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.report(&mut self.warnings));
    }
}

/// Opens a stream. A capture's file that is found by its name must be a regular file; a stream that
/// is named by the user may be a pipe.
fn open(path: &Path, by: fn(&Path) -> io::Result<File>) -> Result<Bytes, CaptureError> {
    match by(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(source) => Err(CaptureError::Open { path: path.to_owned(), source }),
    }
}
