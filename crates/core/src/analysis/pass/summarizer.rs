//! The one pass from batches to a [`Summary`].

use super::report;
use super::threads::BatchConsumer;
use crate::analysis::charge::attribution::Attribution;
use crate::analysis::charge::breakdown::{BreakdownTally, of_wait};
use crate::analysis::charge::charger::{Charger, MAX_OPEN, open_time};
use crate::analysis::charge::lower_requests::LowerRequests;
use crate::analysis::charge::writers::WriterTally;
use crate::analysis::device::streams::Streams;
use crate::analysis::device::totals::{DeviceTotals, LostEnds};
use crate::analysis::patterns;
use crate::analysis::summary::Direction;
use crate::analysis::summary::Summary;
use crate::analysis::sums::own_io::is_own_name;
use crate::analysis::sums::request_times::Life;
use crate::analysis::sums::usage_by_key::{DeviceLayer, RequestLayer};
use crate::analysis::sums::watch_window::WatchWindow;
use crate::analysis::tables::files;
use crate::analysis::tables::series::SampleTally;
use crate::analysis::waits::blame::BlameTally;
use crate::analysis::waits::chains;
use crate::analysis::waits::ledger::LedgerTally;
use crate::model::{
    Environment, Metric, Name, Names, Operation, Origin, Request, RequestPart, WaitClass,
};
use crate::source::Batch;
use rustc_hash::FxHashMap;

/// Maximum number of devices; further ones share an entry, whose name says so.
pub const MAX_DEVICES: usize = 256;

/// Computes a [`Summary`] from the batches of one source, in bounded memory.
///
/// The result depends only on the rows and their order: not on batch boundaries, hashes, or name
/// indices.
#[derive(Clone, Debug)]
pub struct Summarizer {
    pub(crate) devices: Vec<DeviceTotals>,
    pub(crate) charged: Attribution,
    pub(crate) requests: u64,
    /// Requests and waits that a filter left out.
    pub(crate) left_out: (u64, u64),
    /// Waits of iowhy itself.
    pub(crate) own_waits: u64,
    pub(crate) waits: LedgerTally,
    pub(crate) chains: chains::ChainTally,
    /// Blame, unless it takes the batches by itself.
    pub(crate) blame: Option<BlameTally>,
    pub(crate) files: files::ActivityTally,
    pub(crate) patterns: patterns::PatternTally,
    pub(crate) samples: SampleTally,
    /// Numbers requests in the order in which they are charged.
    sequence: u64,
    /// When the watch began, or 0 if its source knows it only at the end.
    start_ns: u64,
    latest_ns: u64,
    index: FxHashMap<Name, u16>,
    latest_device: Option<(Name, u16)>,
    /// The assumption on the ends of open requests beyond [`MAX_OPEN`].
    beyond: LostEnds,
    streams: Streams,
    open: Vec<(Request, Vec<RequestPart>)>,
    below: LowerRequests,
}

impl BatchConsumer for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) {
        self.add(batch, names);
    }
}

impl Summarizer {
    /// A summarizer for a source whose environment is `environment` now. It must already contain
    /// the beginning of the watch, if requests may have begun before it.
    pub fn new(environment: &Environment) -> Summarizer {
        Summarizer {
            devices: Vec::new(),
            charged: Attribution::new(),
            requests: 0,
            left_out: (0, 0),
            own_waits: 0,
            waits: LedgerTally::default(),
            chains: chains::ChainTally::default(),
            blame: Some(BlameTally::new()),
            files: files::ActivityTally::default(),
            patterns: patterns::PatternTally::default(),
            samples: SampleTally::default(),
            sequence: 0,
            start_ns: environment.start_ns,
            latest_ns: 0,
            index: FxHashMap::default(),
            latest_device: None,
            // No device has so many in flight: a capture does not hold their ends.
            beyond: if environment.is_imported() { LostEnds::Many } else { LostEnds::Some },
            streams: Streams::default(),
            open: Vec::new(),
            below: LowerRequests::default(),
        }
    }

    /// One whose summary has a `charge::breakdown::Breakdown`.
    #[must_use]
    pub fn with_breakdown(mut self) -> Summarizer {
        self.charged.breakdown = Some(Box::new(BreakdownTally::new()));
        self
    }

    /// One whose summary has `charge::writers::Writers`.
    #[must_use]
    pub fn with_writers(mut self) -> Summarizer {
        self.charged.writers = Some(Box::new(WriterTally::new()));
        self
    }

    /// Whether its summary has them.
    pub(crate) fn has_writers(&self) -> bool {
        self.charged.writers.is_some()
    }

    /// Adds a batch, whose texts are in `names`: the same table for every batch and the end.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        batch.stacks.iter().for_each(|stack| self.charged.stacks.add(stack, names));
        batch.stacks.iter().for_each(|stack| self.chains.meet(stack));
        batch.processes.iter().for_each(|process| self.charged.meet(process));
        batch.wait_chains.iter().for_each(|row| self.chains.add(row, names));
        let files = batch.files.iter().filter(|row| !is_own_name(row.process, names));
        files.for_each(|row| self.files.add(row, names));
        if let Some(writers) = &mut self.charged.writers {
            batch.files.iter().for_each(|row| writers.add_calls(row));
        }
        for wait in &batch.waits {
            if is_own_name(wait.process, names) {
                self.own_waits += 1;
                continue;
            }
            self.waits.add(wait);
            self.patterns.wait(wait, &self.charged.stacks, self.start_ns);
            if let Some(breakdown) = &mut self.charged.breakdown {
                let find = |id, user| self.charged.stacks.find(id, user);
                let stack = of_wait(find(wait.stack_id, false), find(wait.user_stack_id, true));
                breakdown.add_wait(wait, stack);
            }
        }
        self.samples.add(batch, names);
        for (request, parts) in batch.requests_with_parts() {
            let slot = self.device(request);
            self.charger().add(request, parts, slot, names);
        }
        if let Some(blame) = &mut self.blame {
            blame.add(batch, names);
        }
    }

    /// Gives blame away, which then takes every batch by itself; [`Summarizer::give_blame`] gives
    /// it back before the end.
    pub(crate) fn take_blame(&mut self) -> Option<BlameTally> {
        self.blame.take()
    }

    /// Takes back what [`Summarizer::take_blame`] gave away.
    pub(crate) fn give_blame(&mut self, blame: BlameTally) {
        self.blame = Some(blame);
    }

    fn charger(&mut self) -> Charger<'_> {
        Charger {
            devices: &mut self.devices,
            patterns: &mut self.patterns,
            charged: &mut self.charged,
            streams: &mut self.streams,
            below: &mut self.below,
            open: &mut self.open,
            sequence: &mut self.sequence,
            requests: &mut self.requests,
            latest_ns: &mut self.latest_ns,
            start_ns: self.start_ns,
            beyond: self.beyond,
        }
    }

    /// The index of the request's device, which is added if it is new.
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
        self.devices.push(DeviceTotals::new(name, number, self.start_ns));
        if name.is_some() {
            self.index.insert(device, slot as u16);
        }
        slot as u16
    }

    /// Whether completions are missing: if anything was lost, or more is in flight than any device
    /// takes. If a tenth of a capture's completions is missing, a missing one means nothing.
    fn lost_ends(&self, environment: &Environment) -> LostEnds {
        let lost = environment.losses.requests();
        let known: u64 = self.devices.iter().map(DeviceTotals::requests).sum();
        let is_capture = environment.is_imported();
        let is_full = self.open.len() == MAX_OPEN;
        match lost > 0 || is_full {
            _ if is_capture && (is_full || lost.saturating_mul(10) > known) => LostEnds::Many,
            true => LostEnds::Some,
            false => LostEnds::None,
        }
    }

    /// The summary of all batches, with the final `environment`.
    pub fn finish(mut self, environment: &Environment, names: &Names) -> Summary {
        let window = self.window(environment);
        self.start_ns = window.start_ns;
        let ends = self.lost_ends(environment);
        let mut open = std::mem::take(&mut self.open);
        // The oldest first: the number of lost completions among them decides how later open
        // requests are treated.
        open.sort_by_key(|(request, _)| request.start_ns);
        for (request, parts) in open {
            let (life, direction) = (Life::of(&request), Direction::from(request.operation));
            let slot = self.device(&request);
            let device_layer = DeviceLayer::new(slot, layer(&request, names));
            let device = self.devices.get_mut(usize::from(slot));
            let (now_ns, start_ns) = (window.end_ns, self.start_ns);
            let time_ns = open_time(device, &life, direction, now_ns, ends, start_ns);
            let mut charger = self.charger();
            let whole = charger.whole(&request, &life, device_layer, time_ns);
            charger.charge(&request, &parts, &whole, names);
        }
        // The requests that they serve were never seen.
        for held in self.below.take_all() {
            self.charged.charge(&held.request, &held.parts, &held.whole, names);
        }
        self.note_in_flight(window, environment, names);
        self.charged.settle();
        let blame = self.blame.take();
        let blame = blame.and_then(|blame| blame.finish(environment, window, names));
        self.correct(environment);
        self.charged.stretch();
        let mut summary = report::summary(&self, environment, names, window);
        let classes = summary.ledger.iter_mut().flat_map(|ledger| &mut ledger.classes);
        for queue in classes.filter(|row| row.class == WaitClass::Queue.word()) {
            queue.behind = blame.as_ref().and_then(|blame| blame.queue_behind.clone());
        }
        Summary { blame, ..summary }
    }

    /// Takes the kernel's exact counts instead of estimates, where requests were thinned.
    fn correct(&mut self, environment: &Environment) {
        // They are of all requests, whatever a filter left out.
        if environment.hides_others() {
            return;
        }
        let exact = &environment.exact_counts;
        let ratios: Vec<_> = self.devices.iter_mut().map(|device| device.correct(exact)).collect();
        self.charged.calibrate(&ratios);
        if environment.is_sampled() {
            self.requests = self.devices.iter().map(DeviceTotals::requests).sum();
        }
    }

    /// Requests in flight at the last sample, which may have no row yet: a device that hangs has
    /// nothing else.
    fn note_in_flight(&mut self, window: WatchWindow, environment: &Environment, names: &Names) {
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
                device.note_in_flight(begun(oldest), issued, oldest.0);
            }
        }
    }

    /// The beginning and end of the watch; the last request if its end is not recorded.
    fn window(&self, environment: &Environment) -> WatchWindow {
        let start_ns = environment.start_ns;
        let end_ns =
            if environment.end_ns > start_ns { environment.end_ns } else { self.latest_ns };
        WatchWindow { start_ns, end_ns: end_ns.max(start_ns) }
    }
}

/// The layer of a request.
pub(crate) fn layer(request: &Request, names: &Names) -> RequestLayer {
    // The kernel's own flush command has the operation and the flag: "FF".
    let is_made = || request.pid.is_none() || names.get(request.rwbs).starts_with("FF");
    if request.parent_id.is_some() || request.origin == Origin::Stacked {
        RequestLayer::Lower
    } else if request.operation == Operation::Flush && is_made() {
        RequestLayer::Helper
    } else {
        RequestLayer::Top
    }
}
