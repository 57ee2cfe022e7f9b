//! The requests of a source one by one, for a replay.
//!
//! What does not belong here: what is made of them (see [`super::script`]).

use super::script::ReplayKind;
use crate::streams::class::FileClass;
use crate::streams::is_program;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Operation, Request, RequestPart, Status};
use rustc_hash::FxHashMap;

/// The most requests; 20,000 a second for a minute and a half.
pub(super) const MOST: usize = 2_000_000;
/// The unit of offsets, bytes.
const SECTOR: u64 = 512;

/// One request, or the part of one that belongs to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencedRequest {
    /// Time of queueing, nanoseconds after the beginning of the watch.
    pub at_ns: u64,
    /// Time from queueing to completion, nanoseconds; 0 if that is not known.
    pub length_ns: u64,
    /// The kind of operation.
    pub kind: ReplayKind,
    /// The disk's name, as a number in the tally.
    pub device: u32,
    /// The program's name; empty if none owns it.
    pub program: u32,
    /// The class of its file; empty for the device itself and what belongs to no file.
    pub class: u32,
    /// Tells the files of a class apart.
    pub inode: u64,
    /// Offset in the file, or on the disk, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u32,
}

/// The requests of a source.
#[derive(Clone, Debug, Default)]
pub struct ReplayTally {
    /// The requests, in the order in which they were read.
    pub requests: Vec<SequencedRequest>,
    /// Requests beyond the most that are kept.
    pub refused: u64,
    /// Requests for which others stand, so that their times are not known.
    pub thinned: u64,
    /// Discards and other operations that are not replayed.
    pub other: u64,
    texts: Vec<String>,
    by_text: FxHashMap<String, u32>,
    class_of: FxHashMap<Name, u32>,
}

impl ReplayTally {
    /// The text of a number.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }

    /// Adds rows.
    pub fn add(&mut self, batch: &Batch, names: &Names, environment: &Environment) {
        for (request, parts) in batch.requests_with_parts() {
            let is_lower = request.parent_id.is_some() || request.parent_reason.is_some();
            if is_lower || request.error.is_some() || request.status == Status::BegunBefore {
                continue;
            }
            self.thinned += request.stands_for() - 1;
            let kind = match request.operation {
                Operation::Read => ReplayKind::Read,
                Operation::Write => ReplayKind::Write,
                Operation::Flush => ReplayKind::Flush,
                _ => {
                    self.other += 1;
                    continue;
                }
            };
            self.request(request, parts, kind, names, environment);
        }
    }

    fn request(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        kind: ReplayKind,
        names: &Names,
        environment: &Environment,
    ) {
        let submitter = request.process.map_or("", |name| names.get(name));
        if submitter == "iowhy" {
            return;
        }
        let whole = SequencedRequest {
            at_ns: request.start_ns.saturating_sub(environment.start_ns),
            length_ns: request.known_ns().unwrap_or(0),
            kind,
            device: self.number(names.get(request.device)),
            program: self.number(if is_program(submitter) { submitter } else { "" }),
            class: self.number(""),
            inode: 0,
            offset: request.sector.saturating_mul(SECTOR),
            bytes: u32::try_from(request.bytes).unwrap_or(u32::MAX),
        };
        if kind == ReplayKind::Flush || parts.is_empty() {
            return self.push(whole);
        }
        let mut last: Option<SequencedRequest> = None;
        let mut before = 0;
        for part in parts {
            let own = self.part(&whole, part, before, names);
            before += part.bytes;
            match &mut last {
                Some(last) if follows(last, &own) => {
                    last.bytes = last.bytes.saturating_add(own.bytes);
                }
                Some(last) => self.push(std::mem::replace(last, own)),
                None => last = Some(own),
            }
        }
        if let Some(last) = last {
            self.push(last);
        }
    }

    /// A part of a request, so many bytes after its beginning.
    fn part(
        &mut self,
        whole: &SequencedRequest,
        part: &RequestPart,
        before: u64,
        names: &Names,
    ) -> SequencedRequest {
        let owner = part.owner.map(|owner| names.get(owner)).filter(|name| is_program(name));
        let program = owner.map_or(whole.program, |owner| self.number(owner));
        let bytes = u32::try_from(part.bytes).unwrap_or(u32::MAX);
        let placed = part.file.zip(part.file_offset);
        let class = placed.map_or(whole.class, |(file, _)| self.class(file, names));
        match placed.filter(|_| class != whole.class) {
            Some((file, offset)) => SequencedRequest {
                program,
                class,
                // Without an inode, files of one name are one.
                inode: part.inode.unwrap_or_else(|| file.index() as u64),
                offset,
                bytes,
                ..*whole
            },
            None => SequencedRequest { program, bytes, offset: whole.offset + before, ..*whole },
        }
    }

    /// The number of the class of a file; that of no class for a device.
    fn class(&mut self, file: Name, names: &Names) -> u32 {
        if let Some(number) = self.class_of.get(&file) {
            return *number;
        }
        let class = FileClass::from_path(names.get(file));
        let text = if class.is_device { String::new() } else { class.pattern };
        let number = self.number(&text);
        self.class_of.insert(file, number);
        number
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.by_text.insert(text.to_owned(), number);
        number
    }

    fn push(&mut self, request: SequencedRequest) {
        match self.requests.len() < MOST {
            true => self.requests.push(request),
            false => self.refused += 1,
        }
    }

    /// Returns the reasons why the sequence is not complete, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let thinned = format!(
            "{} requests were counted, but not recorded one by one, and are not replayed: record \
             with a larger --budget",
            self.thinned
        );
        let refused =
            format!("only the first {MOST} requests are replayed: {} more are not", self.refused);
        let other = format!("{} discards and the like are not replayed", self.other);
        let all = [(self.thinned, thinned), (self.refused, refused), (self.other, other)];
        all.into_iter().filter(|note| note.0 > 0).map(|note| note.1).collect()
    }
}

/// Whether a part continues another one of the same request.
fn follows(last: &SequencedRequest, next: &SequencedRequest) -> bool {
    let same = |sequenced_request: &SequencedRequest| {
        (sequenced_request.program, sequenced_request.class, sequenced_request.inode)
    };
    same(last) == same(next) && last.offset + u64::from(last.bytes) == next.offset
}
