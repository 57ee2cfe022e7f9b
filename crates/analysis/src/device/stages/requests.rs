//! Stages of requests that were joined already: what a recording without single events, or a live
//! watch, has. Bios and plugs are not known of them.

use super::devices::DeviceNumbers;
use super::statistics::{EndedRequest, RangeEvent, StageTotals};
use super::summary::{Naming, StagesSummary, Unmatched};
use crate::summary::ByInterval;
use crate::sums::request_times::Life;
use iowhy_model::sort_window::SortWindow;
use iowhy_model::source::Batch;
use iowhy_model::{Names, Operation, Request, Status};

/// The stages of requests, so far.
#[derive(Debug, Default)]
pub struct RequestStages {
    devices: DeviceNumbers,
    totals: StageTotals,
    unmatched: Unmatched,
    /// Steps that are kept until their place in time is settled: requests arrive as they complete,
    /// while distances are between successive Qs and successive Ds.
    steps: SortWindow<(u32, RequestStep, RangeEvent)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestStep {
    Queued,
    Issued,
}

impl RequestStages {
    /// Takes in the requests of `batch`, whose texts are in `names`.
    pub fn take(&mut self, batch: &Batch, names: &Names) {
        for request in &batch.requests {
            self.take_request(request, names);
        }
    }

    fn take_request(&mut self, request: &Request, names: &Names) {
        let number = (request.major << 20) | (request.minor & 0xf_ffff);
        let index = self.devices.index(number);
        let queued = RangeEvent {
            device: number,
            time_ns: request.start_ns,
            sector: request.sector,
            bytes: request.bytes,
        };
        if let (Some(pid), Some(process)) = (request.pid, request.process) {
            self.totals.name_process(pid, || names.get(process).into());
        }
        self.unmatched.completions += u64::from(request.status == Status::BegunBefore);
        self.unmatched.open += u64::from(request.status == Status::InFlight);
        let issued = issued(request);
        self.count(index, &queued, request, issued.is_some());
        let in_flight = request.status == Status::InFlight && issued.is_some();
        self.unmatched.in_flight += u64::from(in_flight);
        if request.status != Status::BegunBefore {
            self.step(index, RequestStep::Queued, queued);
        }
        if let Some(time_ns) = issued {
            self.step(index, RequestStep::Issued, RangeEvent { time_ns, ..queued });
        }
    }

    /// Adds what the request's own columns tell, and the requests that it stands for beside itself,
    /// whose steps are not known.
    fn count(&mut self, index: u32, queued: &RangeEvent, request: &Request, is_issued: bool) {
        let Some(device) = self.totals.device(index, queued.device, queued.time_ns) else { return };
        device.first = device.first.min(request.start_ns);
        let times = request.stands_for();
        let (merges, requeues) =
            (u64::from(request.merges) * times, u64::from(request.requeues) * times);
        let is_queued = request.status != Status::BegunBefore;
        device.queued += merges + (times - 1) * u64::from(is_queued);
        device.merged += merges;
        device.issued += requeues + (times - 1) * u64::from(is_issued);
        device.requeues += requeues;
        if matches!(request.status, Status::Complete | Status::Error) {
            self.totals.ended(index, &ended(request));
        }
    }

    fn step(&mut self, index: u32, step: RequestStep, event: RangeEvent) {
        if let Some((_, settled)) = self.steps.push(event.time_ns, (index, step, event)) {
            self.settle(settled);
        }
    }

    fn settle(&mut self, (index, step, event): (u32, RequestStep, RangeEvent)) {
        match step {
            RequestStep::Issued => self.totals.issued(index, event),
            RequestStep::Queued => self.totals.queued(index, event),
        }
    }

    /// Adds what was kept back.
    pub fn finish(&mut self) {
        while let Some((_, settled)) = self.steps.pop() {
            self.settle(settled);
        }
        self.unmatched.devices = self.devices.beyond;
    }

    /// All figures; `name` says how devices are called.
    pub fn summary(&self, name: Naming<'_>) -> StagesSummary {
        StagesSummary::new(&self.totals, &self.unmatched, name, false)
    }
}

fn ended(request: &Request) -> EndedRequest {
    let life = Life::from_request(request);
    let d2c_q2c = request.d2c_ns.zip(request.q2c_ns);
    let at_device = d2c_q2c.map(|(d2c, q2c)| {
        let ended = request.start_ns.saturating_add(q2c);
        (ended.saturating_sub(d2c), ended)
    });
    // A flush that the kernel sent for others was never queued: they wait for it, and say so.
    let is_made = request.operation == Operation::Flush && request.q2c_ns.is_none();
    EndedRequest {
        times: request.stands_for(),
        bytes: request.bytes,
        is_write: is_write(request.operation),
        is_failed: request.error.is_some(),
        pid: request.pid,
        intervals: if is_made { ByInterval::default() } else { life.intervals },
        preflush_ns: None,
        postflush_ns: None,
        requeue_ns: None,
        at_device,
        ended_ns: at_device.map(|(_, ended)| ended),
    }
}

/// Whether blktrace calls it a write.
fn is_write(operation: Operation) -> bool {
    match operation {
        Operation::Write
        | Operation::WriteZeroes
        | Operation::Discard
        | Operation::SecureErase
        | Operation::Zone => true,
        Operation::Read | Operation::Flush | Operation::Driver | Operation::Other => false,
    }
}

/// Returns the time of its last issue, nanoseconds, as far as that is known.
fn issued(request: &Request) -> Option<u64> {
    if let (Some(d2c), Some(q2c)) = (request.d2c_ns, request.q2c_ns) {
        return request.start_ns.checked_add(q2c)?.checked_sub(d2c);
    }
    let before = request.q2g_ns?.checked_add(request.g2i_ns.unwrap_or(0))?;
    let queued = before.checked_add(request.i2d_ns.or(request.g2d_ns)?)?;
    request.start_ns.checked_add(queued)
}
