//! The one pass from batches to a [`Summary`].
//!
//! What does not belong here: its end (see [`super::finish`]).

use crate::charge::attribution::Attribution;
use crate::charge::breakdown::{BreakdownTally, of_wait};
use crate::charge::charger::Charger;
use crate::charge::lower_requests::LowerRequests;
use crate::charge::writers::WriterTally;
use crate::device::streams::Streams;
use crate::device::totals::{DeviceTotals, LostEnds};
use crate::patterns;
use crate::summary::Summary;
use crate::sums::device_layer::MAX_DEVICES;
use crate::sums::own_io::is_own_name;
use crate::sums::row_consumers::{BatchConsumer, Pass};
use crate::tables::files;
use crate::tables::series::SampleTally;
use crate::waits::blame::BlameTally;
use crate::waits::chains;
use crate::waits::critical::CriticalTally;
use crate::waits::ledger::LedgerTally;
use crate::waits::work::WorkTally;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Request, RequestPart};
use rustc_hash::FxHashMap;

/// Computes a [`Summary`] from the batches of one source, in bounded memory.
///
/// The result depends only on the rows and their order: not on batch boundaries, hashes, or name
/// indices.
#[derive(Clone, Debug)]
pub struct Summarizer {
    pub(super) devices: Vec<DeviceTotals>,
    pub(super) charged: Attribution,
    pub(super) requests: u64,
    /// Requests and waits that a filter left out.
    pub(super) left_out: (u64, u64),
    /// Waits of iowhy itself.
    pub(super) own_waits: u64,
    pub(super) waits: LedgerTally,
    pub(super) chains: chains::ChainTally,
    /// Blame, unless it takes the batches by itself.
    pub(super) blame: Option<BlameTally>,
    pub(super) files: files::ActivityTally,
    pub(super) patterns: patterns::PatternTally,
    pub(super) samples: SampleTally,
    pub(super) work: WorkTally,
    pub(super) critical: CriticalTally,
    /// Numbers requests in the order in which they are charged.
    pub(super) sequence: u64,
    /// The beginning of the watch, nanoseconds; 0 if its source knows it only at the end.
    pub(super) start_ns: u64,
    pub(super) latest_ns: u64,
    pub(super) index: FxHashMap<Name, u16>,
    pub(super) latest_device: Option<(Name, u16)>,
    /// The assumption on the ends of open requests beyond [`MAX_OPEN`].
    pub(super) beyond: LostEnds,
    pub(super) streams: Streams,
    pub(super) open: Vec<(Request, Vec<RequestPart>)>,
    pub(super) below: LowerRequests,
}

impl BatchConsumer for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) {
        self.add(batch, names);
    }
}

impl Pass for Summarizer {
    type Figures = Summary;

    fn begin(&self, environment: &Environment) -> Summarizer {
        let fresh = Summarizer::new(environment);
        if self.has_writers() { fresh.with_writers() } else { fresh }
    }

    fn add(&mut self, batch: &Batch, names: &Names) {
        Summarizer::add(self, batch, names);
    }

    fn finish(self, environment: &Environment, names: &Names) -> Summary {
        Summarizer::finish(self, environment, names)
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
            work: WorkTally::default(),
            critical: CriticalTally::default(),
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

    /// One whose summary has a [`Summary::breakdown`].
    #[must_use]
    pub fn with_breakdown(mut self) -> Summarizer {
        self.charged.breakdown = Some(Box::new(BreakdownTally::new()));
        self
    }

    /// One whose summary has [`Summary::writers`].
    #[must_use]
    pub fn with_writers(mut self) -> Summarizer {
        self.charged.writers = Some(Box::new(WriterTally::new()));
        self
    }

    /// Whether its summary has them.
    pub(super) fn has_writers(&self) -> bool {
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
        self.work.add(batch, names);
        self.critical.add(batch);
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
    pub(super) fn take_blame(&mut self) -> Option<BlameTally> {
        self.blame.take()
    }

    /// Takes back what [`Summarizer::take_blame`] gave away.
    pub(super) fn give_blame(&mut self, blame: BlameTally) {
        self.blame = Some(blame);
    }

    pub(super) fn charger(&mut self) -> Charger<'_> {
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
    pub(super) fn device(&mut self, request: &Request) -> u16 {
        match self.latest_device {
            Some((name, slot)) if name == request.device => slot,
            _ => self.find_device(request.device, (request.major, request.minor)),
        }
    }

    pub(super) fn find_device(&mut self, device: Name, number: (u32, u32)) -> u16 {
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
}
