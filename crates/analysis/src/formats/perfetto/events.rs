//! One request as events: an instant where it was queued, a slice with its stages, an instant where
//! it completed, and the flow that ties them.

use super::proto::{self, Annotation, InternedData, TracePacket, TrackEvent, Type, Value};
use crate::summary::Interval;
use crate::sums::request_times::{Life, Stand};
use iowhy_model::{Name, Names, Operation, Origin, Request, RequestPart};

/// The words that events and their details are called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrackWord {
    /// An operation, by its position in [`Operation::ALL`].
    Operation(Operation),
    Queued,
    Completed,
    Q2g,
    G2i,
    I2d,
    G2d,
    D2c,
    Sector,
    Bytes,
    Rwbs,
    Origin,
    File,
    MoreFiles,
    Error,
    Stand,
}

impl TrackWord {
    const OWN: &[(TrackWord, &str)] = &[
        (TrackWord::Queued, "queued"),
        (TrackWord::Completed, "completed"),
        (TrackWord::Q2g, "Q2G get a request"),
        (TrackWord::G2i, "G2I plug"),
        (TrackWord::I2d, "I2D scheduler"),
        (TrackWord::G2d, "G2D plug and dispatch"),
        (TrackWord::D2c, "D2C device"),
        (TrackWord::Sector, "sector"),
        (TrackWord::Bytes, "bytes"),
        (TrackWord::Rwbs, "rwbs"),
        (TrackWord::Origin, "origin"),
        (TrackWord::File, "file"),
        (TrackWord::MoreFiles, "more_files"),
        (TrackWord::Error, "error"),
        (TrackWord::Stand, "censored"),
    ];

    /// Returns the word's number, from 1.
    fn iid(self) -> u64 {
        let position = match self {
            TrackWord::Operation(operation) => {
                Operation::ALL.iter().position(|one| *one == operation)
            }
            own => TrackWord::OWN
                .iter()
                .position(|(word, _)| *word == own)
                .map(|position| Operation::ALL.len() + position),
        };
        position.map_or(0, |position| position as u64 + 1)
    }

    /// Returns all words, for the first packet.
    pub fn all() -> InternedData {
        let operations = Operation::ALL.iter().map(|operation| operation.word());
        let texts = operations.chain(TrackWord::OWN.iter().map(|(_, text)| *text));
        let word = |(index, text): (usize, &str)| proto::InternedWord {
            iid: index as u64 + 1,
            name: text.to_owned(),
        };
        let words: Vec<proto::InternedWord> = texts.enumerate().map(word).collect();
        InternedData { event_names: words.clone(), debug_annotation_names: words }
    }
}

/// The parts of a request that the trace needs.
#[derive(Clone, Debug)]
pub(super) struct RequestItem {
    pub device: Name,
    /// The submitting process and thread.
    pub thread: Option<(u32, u32)>,
    pub process: Option<Name>,
    id: u64,
    life: Life,
    sector: u64,
    bytes: u64,
    operation: Operation,
    origin: Origin,
    rwbs: Name,
    error: Option<i32>,
    file: Option<Name>,
    files: u32,
}

impl RequestItem {
    pub fn new(request: &Request, parts: &[RequestPart]) -> RequestItem {
        let mut files: Vec<Name> = parts.iter().filter_map(|part| part.file).collect();
        files.dedup();
        RequestItem {
            device: request.device,
            thread: request.pid.zip(request.tid),
            process: request.process,
            id: request.request_id,
            life: Life::from_request(request),
            sector: request.sector,
            bytes: request.bytes,
            operation: request.operation,
            origin: request.origin,
            rwbs: request.rwbs,
            error: request.error,
            file: files.first().copied(),
            files: files.len() as u32,
        }
    }

    /// Returns the time of completion; `None` if the request had not completed.
    pub fn end_ns(&self, start: u64) -> Option<u64> {
        let whole = self.life.whole_ns.unwrap_or(0);
        (self.life.stand != Stand::Open).then(|| start.saturating_add(whole))
    }

    /// Returns the request's packets on the track `lane`, and on the track of its thread.
    pub fn events(
        &self,
        start: u64,
        lane: u64,
        thread: Option<u64>,
        names: &Names,
    ) -> Vec<TracePacket> {
        let flow = vec![self.id];
        let mut events = Vec::with_capacity(16);
        if let Some(track) = thread {
            let queued = event(track, Type::Instant, Some(TrackWord::Queued));
            events.push(at(start, TrackEvent { flow_ids: flow.clone(), ..queued }));
        }
        let whole = event(lane, Type::SliceBegin, Some(TrackWord::Operation(self.operation)));
        let debug_annotations = self.details(names);
        events.push(at(start, TrackEvent { debug_annotations, flow_ids: flow.clone(), ..whole }));
        let end = self.end_ns(start);
        self.stages(start, end, lane, &mut events);
        if let Some(end) = end {
            let completed = event(lane, Type::Instant, Some(TrackWord::Completed));
            events.push(at(end, TrackEvent { terminating_flow_ids: flow, ..completed }));
            events.push(at(end, event(lane, Type::SliceEnd, None)));
        }
        events
    }

    fn stages(&self, start: u64, end: Option<u64>, lane: u64, events: &mut Vec<TracePacket>) {
        let before = [
            (TrackWord::Q2g, Interval::Q2g),
            (TrackWord::G2i, Interval::G2i),
            (TrackWord::I2d, Interval::I2d),
            (TrackWord::G2d, Interval::G2d),
        ];
        let intervals = &self.life.intervals;
        let limit = end.unwrap_or(u64::MAX);
        let mut stage = |word, from: u64, to: u64, flow: Vec<u64>| {
            let begin = event(lane, Type::SliceBegin, Some(word));
            events.push(at(from, TrackEvent { flow_ids: flow, ..begin }));
            events.push(at(to, event(lane, Type::SliceEnd, None)));
        };
        let mut now = start;
        for (word, interval) in before {
            let Some(length) = intervals[interval].filter(|length| *length > 0) else { continue };
            let to = now.saturating_add(length).min(limit);
            stage(word, now, to, Vec::new());
            now = to;
        }
        // If the stages before are not known, the device's part is known from the end.
        if let (Some(length), Some(end)) = (intervals[Interval::D2c], end) {
            stage(TrackWord::D2c, end.saturating_sub(length).max(now), end, vec![self.id]);
        }
    }

    fn details(&self, names: &Names) -> Vec<Annotation> {
        let detail =
            |word: TrackWord, value| Annotation { name_iid: word.iid(), value: Some(value) };
        let text = |text: &str| Value::Text(text.to_owned());
        let mut details = vec![
            detail(TrackWord::Sector, Value::Unsigned(self.sector)),
            detail(TrackWord::Bytes, Value::Unsigned(self.bytes)),
            detail(TrackWord::Rwbs, text(names.get(self.rwbs))),
            detail(TrackWord::Origin, text(self.origin.word())),
        ];
        details.extend(self.file.map(|file| detail(TrackWord::File, text(names.get(file)))));
        if self.files > 1 {
            details.push(detail(TrackWord::MoreFiles, Value::Unsigned(u64::from(self.files) - 1)));
        }
        details
            .extend(self.error.map(|error| detail(TrackWord::Error, Value::Signed(error.into()))));
        match self.life.stand {
            Stand::Whole => {}
            Stand::BegunBefore => {
                details.push(detail(TrackWord::Stand, text("begun before the watch")))
            }
            Stand::Open => {
                details.push(detail(TrackWord::Stand, text("not completed in the watch")))
            }
        }
        details
    }
}

fn event(track_uuid: u64, kind: Type, word: Option<TrackWord>) -> TrackEvent {
    let name_iid = word.map(TrackWord::iid);
    TrackEvent { r#type: kind.into(), track_uuid, name_iid, ..TrackEvent::default() }
}

fn at(timestamp: u64, event: TrackEvent) -> TracePacket {
    TracePacket { timestamp: Some(timestamp), track_event: Some(event), ..TracePacket::default() }
}
