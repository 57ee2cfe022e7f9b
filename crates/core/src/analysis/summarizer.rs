//! The one pass from batches to a [`Summary`].

use super::attribution::{Attribution, FileKey};
use super::axes::Direction;
use super::below::{self, Below};
use super::blame::Blame;
use super::bounded::{Charge, Layer, Place};
use super::device::{DeviceTally, LostEnds, Window};
use super::files;
use super::life::{Life, Stand};
use super::own::is_own_name;
use super::patterns;
use super::report;
use super::samples::SampleTally;
use super::streams::{GroupKey, Streams, Subject};
use super::summary::Summary;
use super::waits::chains;
use super::waits::ledger::Tally;
use crate::model::{
    Environment, Metric, Name, Names, Operation, Origin, Request, RequestPart, WaitClass,
};
use crate::source::Batch;
use rustc_hash::FxHashMap;

/// Devices that are kept apart; all further ones are one, whose name says so.
pub const MAX_DEVICES: usize = 256;
/// Open requests that are kept until the end of the watch is known; the time of any further one is
/// counted up to the latest time seen when it arrived.
const MAX_OPEN: usize = 1 << 14;

/// Makes a [`Summary`] of the batches of one source, in bounded memory.
///
/// The result depends on the rows and their order alone: not on how they were cut into batches, not
/// on hashes, and not on the numbers that names have.
#[derive(Clone, Debug)]
pub struct Summarizer {
    pub(super) devices: Vec<DeviceTally>,
    pub(super) charged: Attribution,
    pub(super) requests: u64,
    /// Requests and waits that a filter left out.
    pub(super) left_out: (u64, u64),
    /// Waits of iowhy itself.
    pub(super) own_waits: u64,
    pub(super) waits: Tally,
    pub(super) chains: chains::Tally,
    pub(super) blame: Blame,
    pub(super) files: files::Tally,
    pub(super) patterns: patterns::Tally,
    pub(super) samples: SampleTally,
    /// Numbers the requests in the order in which they are charged.
    sequence: u64,
    /// When the watch began, or 0 where its source knows only at the end.
    start_ns: u64,
    latest_ns: u64,
    index: FxHashMap<Name, u16>,
    latest_device: Option<(Name, u16)>,
    streams: Streams,
    open: Vec<(Request, Vec<RequestPart>)>,
    below: Below,
}

impl Summarizer {
    /// A summarizer for a source whose environment is `environment` now. It must already tell when
    /// the watch began, if requests may have begun before it.
    pub fn new(environment: &Environment) -> Summarizer {
        Summarizer {
            devices: Vec::new(),
            charged: Attribution::new(),
            requests: 0,
            left_out: (0, 0),
            own_waits: 0,
            waits: Tally::default(),
            chains: chains::Tally::default(),
            blame: Blame::default(),
            files: files::Tally::default(),
            patterns: patterns::Tally::default(),
            samples: SampleTally::default(),
            sequence: 0,
            start_ns: environment.start_ns,
            latest_ns: 0,
            index: FxHashMap::default(),
            latest_device: None,
            streams: Streams::default(),
            open: Vec::new(),
            below: Below::default(),
        }
    }

    /// Adds a batch, whose texts are in `names`: the same table for every batch and the end.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        batch.stacks.iter().for_each(|stack| self.charged.stacks.add(stack, names));
        batch.stacks.iter().for_each(|stack| self.chains.meet(stack));
        batch.processes.iter().for_each(|process| self.charged.meet(process));
        batch.wait_chains.iter().for_each(|row| self.chains.add(row, names));
        self.blame.add_waits(batch, names);
        batch.files.iter().for_each(|row| self.files.add(row, names));
        for wait in &batch.waits {
            if is_own_name(wait.process, names) {
                self.own_waits += 1;
                continue;
            }
            self.waits.add(wait);
            self.patterns.wait(wait, &self.charged.stacks, self.start_ns);
        }
        self.samples.add(batch, names);
        for (request, parts) in batch.requests_with_parts() {
            self.add_request(request, parts, names);
        }
        self.blame.settle();
    }

    /// Counts what a filter left out of `batch`, of which `kept` is added: what was lost may be of it.
    pub fn leave_out(&mut self, batch: &Batch, kept: &Batch) {
        self.left_out.0 += batch.requests.len().saturating_sub(kept.requests.len()) as u64;
        self.left_out.1 += batch.waits.len().saturating_sub(kept.waits.len()) as u64;
    }

    fn add_request(&mut self, request: &Request, parts: &[RequestPart], names: &Names) {
        self.requests += 1;
        let life = Life::of(request);
        let direction = Direction::from(request.operation);
        let slot = self.device(request);
        let layer = layer(request, names);
        let place = Place::new(slot, layer);
        self.latest_ns = self.latest_ns.max(life.ended_ns());
        self.patterns.request(slot, request, parts, &life, self.start_ns);
        if let Some(device) = self.devices.get_mut(usize::from(slot)) {
            device.add(request, &life, direction, layer);
        }
        self.blame.add_request(request, parts, &life, layer, slot);
        if life.stand == Stand::Open && self.open.len() < MAX_OPEN {
            self.open.push((request.clone(), parts.to_vec()));
            return;
        }
        let time_ns = match life.stand {
            Stand::Open => self.open_time(&life, direction, slot, self.latest_ns, LostEnds::Some),
            _ => self.ended_time(&life),
        };
        let whole = self.whole(request, &life, place, time_ns);
        self.charge(request, parts, &whole, names);
        if life.stand != Stand::Open && direction.has_sectors() {
            self.follow_stream(request, parts, place, direction);
        }
    }

    /// Charges a request, and those below that serve it; one that serves another waits for that.
    #[inline]
    fn charge(&mut self, request: &Request, parts: &[RequestPart], whole: &Charge, names: &Names) {
        if self.below.hold(request, parts, whole) {
            return;
        }
        self.charged.charge(request, parts, whole, names);
        let served = self.below.take(request.request_id);
        if served.is_empty() {
            return;
        }
        let owners = below::owners(request, parts);
        let mut waiting = served;
        while let Some(held) = waiting.pop() {
            self.charged.charge(&held.request, &held.parts_of(&owners), &held.whole, names);
            waiting.extend(self.below.take(held.request.request_id));
        }
    }

    /// The time that a request that ended is charged with: all of it if the watch saw all of it,
    /// else what lies in the watch.
    #[inline]
    fn ended_time(&self, life: &Life) -> u64 {
        match life.stand {
            Stand::BegunBefore if self.start_ns > 0 => {
                life.ended_ns().saturating_sub(self.start_ns.max(life.queued_ns))
            }
            _ => life.whole_ns.unwrap_or(0),
        }
    }

    /// The time within the watch that an open request is charged with.
    fn open_time(
        &mut self,
        life: &Life,
        direction: Direction,
        device: u16,
        now_ns: u64,
        ends: LostEnds,
    ) -> u64 {
        let Some(device) = self.devices.get_mut(usize::from(device)) else { return 0 };
        let until_ns = device.settle_open(life, direction, now_ns, ends);
        until_ns.saturating_sub(life.queued_ns.max(self.start_ns))
    }

    /// All that a request is charged with, before it is split.
    #[inline]
    fn whole(&mut self, request: &Request, life: &Life, place: Place, time_ns: u64) -> Charge {
        self.sequence += 1;
        Charge {
            sequence: self.sequence,
            place,
            direction: Direction::from(request.operation),
            open: life.stand == Stand::Open,
            bytes: request.bytes,
            time_ns,
            weight: 1,
        }
    }

    fn follow_stream(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        place: Place,
        direction: Direction,
    ) {
        let subject = subject(request, parts);
        let key = GroupKey {
            device: place.device() as u16,
            write: direction == Direction::Write,
            subject,
        };
        let found = self.streams.observe(key, request.sector, request.bytes, request.start_ns);
        if found.requests == 0 {
            return;
        }
        if let Some(device) = self.devices.get_mut(place.device()) {
            device.note_sequential(direction, found);
        }
        if let Subject::File(file) = subject {
            self.charged.files.known.note_sequential(place, file, found.requests);
        }
    }

    /// The position of the request's device, which is made on first sight.
    #[inline]
    fn device(&mut self, request: &Request) -> u16 {
        match self.latest_device {
            Some((name, slot)) if name == request.device => slot,
            _ => self.find_device(request.device, (request.major, request.minor)),
        }
    }

    fn find_device(&mut self, device: Name, number: (u32, u32)) -> u16 {
        let known = self.index.get(&device).copied();
        let slot = known.unwrap_or_else(|| self.first_sight(device, number));
        self.latest_device = Some((device, slot));
        slot
    }

    fn first_sight(&mut self, device: Name, number: (u32, u32)) -> u16 {
        if self.devices.len() > MAX_DEVICES {
            return MAX_DEVICES as u16;
        }
        let slot = self.devices.len();
        let name = (slot < MAX_DEVICES).then_some(device);
        self.devices.push(DeviceTally::new(name, number, self.start_ns));
        if name.is_some() {
            self.index.insert(device, slot as u16);
        }
        slot as u16
    }

    /// Whether ends are missing: where anything is lost, or more is in flight than any device takes. Of a
    /// capture in which a tenth of the ends is missing, none of the others says anything.
    fn lost_ends(&self, environment: &Environment) -> LostEnds {
        let lost = environment.losses.requests();
        let known: u64 = self.devices.iter().map(DeviceTally::requests).sum();
        let is_capture = environment.is_imported();
        match lost > 0 || self.open.len() == MAX_OPEN {
            _ if is_capture && lost.saturating_mul(10) > known => LostEnds::Many,
            true => LostEnds::Some,
            false => LostEnds::None,
        }
    }

    /// The summary of all that was added, with what `environment` tells at the end.
    pub fn finish(mut self, environment: &Environment, names: &Names) -> Summary {
        let window = self.window(environment);
        self.start_ns = window.start_ns;
        let ends = self.lost_ends(environment);
        let mut open = std::mem::take(&mut self.open);
        // The oldest first: how many of these lost their end decides what the others' silence means.
        open.sort_by_key(|(request, _)| request.start_ns);
        for (request, parts) in open {
            let (life, direction) = (Life::of(&request), Direction::from(request.operation));
            let slot = self.device(&request);
            let place = Place::new(slot, layer(&request, names));
            let time_ns = self.open_time(&life, direction, slot, window.end_ns, ends);
            let whole = self.whole(&request, &life, place, time_ns);
            self.charge(&request, &parts, &whole, names);
        }
        // What they serve was never seen.
        for held in self.below.take_all() {
            self.charged.charge(&held.request, &held.parts, &held.whole, names);
        }
        self.note_under_way(window, environment, names);
        self.charged.settle();
        let blame = std::mem::take(&mut self.blame).finish(environment, window, names);
        let mut summary = report::summary(&self, environment, names, window);
        let classes = summary.ledger.iter_mut().flat_map(|ledger| &mut ledger.classes);
        for queue in classes.filter(|row| row.class == WaitClass::Queue.word()) {
            queue.behind = blame.as_ref().and_then(|blame| blame.queue_behind.clone());
        }
        Summary { blame, ..summary }
    }

    /// What was in flight when samples were taken last and may have no row yet: a device that hangs
    /// has nothing else.
    fn note_under_way(&mut self, window: Window, environment: &Environment, names: &Names) {
        let mut subjects: Vec<Name> = self.samples.subjects(Metric::OldestAge).collect();
        subjects.sort_by_key(|subject| names.get(*subject));
        for subject in subjects {
            let latest = |metric| self.samples.latest(metric, subject);
            let begun = |(at_ns, age): (u64, f64)| at_ns.saturating_sub(age as u64);
            let Some(oldest) = latest(Metric::OldestAge).filter(|(_, age)| *age > 0.0) else {
                continue;
            };
            if begun(oldest) >= window.end_ns {
                continue;
            }
            let issued = latest(Metric::OldestIssued).filter(|(_, age)| *age > 0.0).map(begun);
            let known = environment.devices.iter().find(|it| it.name == names.get(subject));
            let number = known.map_or((0, 0), |device| (device.major, device.minor));
            let slot = self.find_device(subject, number);
            if let Some(device) = self.devices.get_mut(usize::from(slot)) {
                device.note_under_way(begun(oldest), issued, oldest.0);
            }
        }
    }

    /// From when to when the watch lasted; up to the last request where its end is not recorded.
    fn window(&self, environment: &Environment) -> Window {
        let start_ns = environment.start_ns;
        let end_ns =
            if environment.end_ns > start_ns { environment.end_ns } else { self.latest_ns };
        Window { start_ns, end_ns: end_ns.max(start_ns) }
    }
}

fn layer(request: &Request, names: &Names) -> Layer {
    // Its own command for others' flushes has the operation and the flag: "FF".
    let is_made = || request.pid.is_none() || names.get(request.rwbs).starts_with("FF");
    if request.parent_id.is_some() || request.origin == Origin::Stacked {
        Layer::Lower
    } else if request.operation == Operation::Flush && is_made() {
        Layer::Helper
    } else {
        Layer::Top
    }
}

/// Whose stream a request belongs to.
#[inline]
fn subject(request: &Request, parts: &[RequestPart]) -> Subject {
    let key = |part: &RequestPart| Some(FileKey { path: part.file?, deleted: part.deleted });
    let first = parts.first().and_then(key);
    match (first, request.pid) {
        (Some(file), _) if parts.iter().all(|part| key(part) == Some(file)) => Subject::File(file),
        (_, Some(pid)) => Subject::Process(pid),
        _ => Subject::Nobody,
    }
}
