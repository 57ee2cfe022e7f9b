//! The source: a file of another tool in, rows and an environment out.
//!
//! What does not belong here: the formats (see [`crate::text`], [`crate::json`],
//! [`crate::archive`]).

use crate::archive;
use crate::book::{BEGIN_NS, CounterBook};
use crate::fio_log::{FioLog, is_log};
use crate::json;
use crate::kind::{ForeignKind, HEAD, detect};
use crate::lines::LineCutter;
use crate::text::{RowsOut, TextTables};
use crate::unpack::{is_packed, unpacked};
use iowhy_model::environment::FORMAT;
use iowhy_model::figures::counted;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Names};
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Lines of one batch, and samples after which it ends.
const LINES: usize = 4096;
const SAMPLES: usize = 64 << 10;

/// Bytes of a file.
pub type Bytes = Box<dyn Read + Send>;

/// A file of another tool as a source.
pub struct ForeignImport {
    kind: ForeignKind,
    input: BufReader<Bytes>,
    cutter: LineCutter,
    book: CounterBook,
    tables: TextTables,
    fio_log: FioLog,
    environment: Environment,
    is_done: bool,
}

/// Reads the beginning of an input that cannot be read again; returns it, and the complete input.
///
/// # Errors
/// Fails if the input cannot be read.
pub fn head_of(mut input: Bytes) -> io::Result<(Vec<u8>, Bytes)> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(input);
    Ok((head, Box::new(whole)))
}

impl ForeignImport {
    /// Imports `input`, which is of this kind.
    pub fn new(kind: ForeignKind, input: Bytes) -> ForeignImport {
        let environment = Environment {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: kind.word().to_owned(),
            start_ns: BEGIN_NS,
            ..Environment::default()
        };
        ForeignImport {
            kind,
            input: BufReader::with_capacity(64 << 10, input),
            cutter: LineCutter::default(),
            book: CounterBook::default(),
            tables: TextTables::default(),
            fio_log: FioLog::new(kind),
            environment,
            is_done: false,
        }
    }

    /// Counts the lines that `is_event` says are single block events, which are not read here.
    #[must_use]
    pub fn leaving_out(mut self, is_event: fn(&str) -> bool) -> ForeignImport {
        self.tables.count_events(is_event);
        self
    }

    /// Hides names of tasks in sentences: rows have names that can be replaced.
    #[must_use]
    pub fn without_names(mut self) -> ForeignImport {
        self.tables.hide_names();
        self
    }

    fn read(&mut self, batch: &mut Batch, names: &mut Names) -> Result<bool, String> {
        let mut out = RowsOut { batch, names };
        if self.kind != ForeignKind::Sosreport {
            self.unpack()?;
        }
        let is_text = self.kind.is_text() && !self.begins_json()?;
        match self.kind {
            ForeignKind::Sosreport => {
                let input = std::mem::replace(&mut self.input, empty());
                let (book, tables) = (&mut self.book, &mut self.tables);
                archive::read(input, book, tables, &mut self.environment, &mut out)?;
                Ok(false)
            }
            _ if is_text || is_log(self.kind) => self.lines(&mut out),
            kind => {
                let mut bytes = Vec::new();
                let limit = json::MOST_BYTES as u64 + 1;
                let read = self.input.by_ref().take(limit).read_to_end(&mut bytes);
                read.map_err(|error| error.to_string())?;
                if bytes.len() > json::MOST_BYTES {
                    return Err("its JSON is longer than 16 MiB".to_owned());
                }
                json::read(kind, &bytes, &mut self.book, &mut self.environment, &mut out)?;
                Ok(false)
            }
        }
    }

    /// Decompresses what follows, if it is compressed.
    fn unpack(&mut self) -> Result<(), String> {
        let head = self.input.fill_buf().map_err(|error| error.to_string())?;
        if is_packed(head) {
            let input = std::mem::replace(&mut self.input, empty());
            self.input = BufReader::with_capacity(64 << 10, Box::new(unpacked(input)?));
        }
        Ok(())
    }

    fn begins_json(&mut self) -> Result<bool, String> {
        let head = self.input.fill_buf().map_err(|error| error.to_string())?;
        use ForeignKind::{Atop, NvmeSmartLog, Smartctl};
        let has_json = matches!(self.kind, NvmeSmartLog | Atop | Smartctl);
        Ok(has_json && head.trim_ascii_start().starts_with(b"{"))
    }

    /// Reads some lines; false at the end.
    fn lines(&mut self, out: &mut RowsOut<'_>) -> Result<bool, String> {
        let mut line = Vec::new();
        for _ in 0..LINES {
            if out.batch.samples.len() > SAMPLES {
                break;
            }
            let more = self.cutter.next_line(&mut self.input, &mut line);
            if !more.map_err(|error| error.to_string())? {
                return Ok(false);
            }
            let text = String::from_utf8_lossy(&line);
            if is_log(self.kind) {
                self.fio_log.line(&text, &mut self.book, out);
            } else {
                self.tables.line(&text, &mut self.book, &mut self.environment, out);
            }
        }
        Ok(true)
    }

    fn finish(&mut self, out: &mut RowsOut<'_>) -> Result<(), String> {
        let (book, found) = (&mut self.book, &mut self.environment);
        if is_log(self.kind) {
            self.fio_log.finish(book, found, out)?;
        } else {
            self.tables.finish(book, found, out);
        }
        book.sample_ends(out.batch, out.names);
        *found.devices = book.devices();
        let is_told = !found.devices.is_empty() || !self.tables.kinds().is_empty();
        found.host_messages = self.tables.host_messages();
        if !is_told && found.limits.is_empty() {
            // All tools of sysstat begin alike.
            let is_any = self.kind == ForeignKind::Iostat;
            let word = if is_any { "sysstat" } else { self.kind.word() };
            return Err(format!("it is of {word}, and nothing in it tells of storage"));
        }
        if let Some(why) = self.tables.rowless().filter(|_| self.tables.is_without_rows()) {
            return Err(why);
        }
        found.limits.extend(self.cutter.limit());
        if self.kind.is_text() && !self.tables.kinds().is_empty() {
            let words: Vec<&str> = self.tables.kinds().iter().map(|kind| kind.word()).collect();
            found.source = words.join(" and ");
        }
        found.finished = true;
        found.ended_by = "end of file".to_owned();
        found.tables = vec!["samples".to_owned()];
        if self.tables.events() > 0 {
            let meaning = "lines of block events were left out: `--as block-events` reads them, \
                           and nothing else";
            found.limits.push(counted(self.tables.events(), meaning));
        }
        if self.tables.unknown() > 0 && self.kind.is_text() {
            let meaning = "lines were skipped, of no known tool";
            found.limits.push(counted(self.tables.unknown(), meaning));
        }
        let refused = book.refused();
        found.losses.add(
            "subjects",
            refused,
            "figures of devices or processes beyond the first",
            false,
        );
        Ok(())
    }
}

fn empty() -> BufReader<Bytes> {
    BufReader::new(Box::new(io::empty()))
}

impl Source for ForeignImport {
    type Error = String;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, String> {
        if self.is_done {
            return Ok(Progress::Done);
        }
        if self.read(batch, names)? {
            return Ok(Progress::More);
        }
        self.is_done = true;
        self.finish(&mut RowsOut { batch, names })?;
        Ok(Progress::Done)
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// Returns the kind of the content of `input`, and the complete input; see [`detect`].
///
/// # Errors
/// Fails if the input cannot be read.
pub fn kind_of(input: Bytes) -> io::Result<(Option<ForeignKind>, Bytes)> {
    let (head, whole) = head_of(input)?;
    Ok((detect(&head), whole))
}
