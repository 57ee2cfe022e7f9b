//! The stages of a capture: its events joined, and the results handed to the analysis's totals.

use super::pairing::{DoneRequest, Ending, PairSink, Pairer};
use super::slots::{NEVER, Slot};
use crate::trace::action::{Action, category, notify};
use crate::trace::{RecordBatch, TraceRecord};
use iowhy_analysis::stages::statistics::{DeviceStages, ProcessStages};
use iowhy_analysis::stages::summary::Naming;
use iowhy_analysis::stages::{
    EndedRequest, RangeEvent, StageSet, StageTotals, StagesSummary, Unmatched,
};
use iowhy_analysis::{ByInterval, Interval};

/// The stage analysis of a capture.
#[derive(Debug, Default)]
pub struct StageAnalysis {
    pairer: Pairer,
    sink: TotalsSink,
    /// Events without a partner in the parts that were merged into it.
    merged: Unmatched,
}

impl StageAnalysis {
    /// An analysis that keeps percentiles of at most `devices` devices.
    pub fn with_histograms(devices: usize) -> StageAnalysis {
        let totals = StageTotals::with_histograms(devices);
        StageAnalysis { sink: TotalsSink { totals, genesis: 0 }, ..StageAnalysis::default() }
    }

    /// Drops the state that is only needed while events come.
    #[must_use]
    pub fn without_events(self) -> StageAnalysis {
        let merged = self.unmatched();
        StageAnalysis { pairer: Pairer::default(), sink: self.sink, merged }
    }

    /// Adds the finished analysis of other devices.
    pub fn merge(&mut self, other: StageAnalysis) {
        self.merged.add(&other.unmatched());
        self.sink.totals.merge(other.sink.totals);
    }

    /// Takes in the records of `batch`, whose times count from `genesis`.
    pub fn take(&mut self, batch: &RecordBatch, genesis: u64) {
        self.sink.genesis = genesis;
        for record in batch.records.iter().filter(|record| record.is_notify()) {
            if record.action == notify::PROCESS {
                let name = || String::from_utf8_lossy(batch.process_name(record)).into();
                self.sink.totals.name_process(record.pid, name);
            }
        }
        self.pairer.take(batch, &mut self.sink);
    }

    /// Counts what is still open at the end.
    pub fn finish(&mut self) {
        self.pairer.end(&mut self.sink);
    }

    /// The devices in the order of their first events.
    pub fn devices(&self) -> &[DeviceStages] {
        self.sink.totals.devices()
    }

    /// The stages of all devices together.
    pub fn all(&self) -> StageSet {
        self.sink.totals.all()
    }

    /// The processes by pid; who takes most time of requests first.
    pub fn processes(&self) -> Vec<(u32, &ProcessStages)> {
        self.sink.totals.processes()
    }

    /// The name of `pid`, where the capture tells it.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.sink.totals.name(pid)
    }

    /// Returns the counts of events that had no partner.
    pub fn unmatched(&self) -> Unmatched {
        let mut unmatched = self.merged;
        unmatched.add(&self.pairer.unmatched());
        unmatched
    }

    /// Returns all figures; `name` gives the names of devices.
    pub fn summary(&self, name: Naming<'_>) -> StagesSummary {
        StagesSummary::new(&self.sink.totals, &self.unmatched(), name, true)
    }
}

/// Hands the joined requests to the totals.
#[derive(Debug, Default)]
struct TotalsSink {
    totals: StageTotals,
    genesis: u64,
}

fn range(record: &TraceRecord) -> RangeEvent {
    RangeEvent {
        device: record.device,
        time_ns: record.time,
        sector: record.sector,
        bytes: record.bytes.into(),
    }
}

/// The time between two events; `None` where one is missing or they are out of order.
#[inline]
fn known(from: u64, to: u64) -> Option<u64> {
    (from != NEVER && to != NEVER && from <= to).then(|| to - from)
}

impl Slot {
    /// Returns the intervals of a request that ended at `completed`; Q2D is none of a capture's
    /// stages. The wait before the first D is a stage of its own if the cache was flushed
    /// meanwhile, and so is the time from there to the last D.
    #[inline]
    pub fn intervals(&self, completed: u64) -> ByInterval<Option<u64>> {
        let direct = if self.inserted == NEVER { self.got } else { NEVER };
        let issued = if self.has_pre_flush() { NEVER } else { self.first_issued };
        let mut intervals = ByInterval::default();
        intervals[Interval::Q2g] = known(self.queued, self.got);
        intervals[Interval::G2i] = known(self.got, self.inserted);
        intervals[Interval::I2d] = known(self.inserted, issued);
        intervals[Interval::G2d] = known(direct, issued);
        intervals[Interval::D2c] = known(self.issued, completed);
        intervals[Interval::Q2c] = known(self.queued, completed);
        intervals
    }

    /// Whether the cache was flushed before its data went to the device.
    fn has_pre_flush(&self) -> bool {
        self.taken & category::FLUSH != 0 && self.bytes > 0
    }

    /// The time of the flush before its data.
    pub fn preflush_ns(&self) -> Option<u64> {
        let from = if self.inserted == NEVER { self.got } else { self.inserted };
        known(from, self.first_issued).filter(|_| self.has_pre_flush())
    }

    /// The time of the flush behind its data, the end of D2C.
    pub fn postflush_ns(&self, completed: u64) -> Option<u64> {
        known(self.written, completed)
    }

    /// The time from the first D to the last, if the driver requeued it.
    pub fn requeue_ns(&self) -> Option<u64> {
        known(self.first_issued, self.issued).filter(|_| self.requeues > 0)
    }
}

impl PairSink for TotalsSink {
    #[inline]
    fn queued(&mut self, device: u32, record: &TraceRecord) {
        self.totals.queued(device, range(record));
    }

    fn merged(&mut self, device: u32, bio: &Slot, time: u64) {
        let queued = (bio.queued != NEVER).then_some(bio.queued);
        self.totals.merged(device, queued.map(|queued| time.saturating_sub(queued)));
    }

    #[inline]
    fn issued(&mut self, device: u32, record: &TraceRecord) {
        self.totals.issued(device, range(record));
    }

    #[inline]
    fn bio(&mut self, device: u32, bio: &Slot, issued: u64, completed: u64) {
        let issued = (issued != NEVER).then_some(issued);
        let d2c_ns = issued.map(|issued| completed.saturating_sub(issued));
        self.totals.completed_bio(device, completed.saturating_sub(bio.queued), d2c_ns);
    }

    #[inline]
    fn done(&mut self, done: DoneRequest<'_>) {
        let (slot, completed) = (done.request, done.completed);
        if done.ending == Ending::Open {
            return;
        }
        // A device of which only completions were seen is new to the totals.
        let time = if completed == NEVER { slot.age() } else { completed };
        self.totals.device(done.device, slot.number, time);
        let since = |time: u64| time.saturating_sub(self.genesis);
        let at_device = (slot.issued != NEVER && completed != NEVER)
            .then(|| (since(slot.issued), since(completed.max(slot.issued))));
        let request = EndedRequest {
            times: 1,
            bytes: slot.bytes.into(),
            is_write: slot.categories & category::WRITE != 0,
            is_failed: done.error != 0,
            pid: (slot.queued != NEVER).then_some(slot.pid),
            intervals: slot.intervals(completed),
            preflush_ns: slot.preflush_ns(),
            postflush_ns: slot.postflush_ns(completed),
            requeue_ns: slot.requeue_ns(),
            at_device,
            ended_ns: (completed != NEVER).then_some(completed),
        };
        self.totals.ended(done.device, &request);
    }

    fn other(&mut self, device: u32, batch: &RecordBatch, record: &TraceRecord) {
        let Some(device) = self.totals.device(device, record.device, record.time) else { return };
        match record.kind() {
            Some(Action::Plug) => device.plugs.plug(record.time),
            Some(action @ (Action::Unplug | Action::UnplugTimer)) => {
                let requests = batch.number(record).unwrap_or(0);
                device.plugs.unplug(record.time, action == Action::UnplugTimer, requests);
            }
            Some(Action::Requeue) => device.requeues += 1,
            _ => {}
        }
    }
}
