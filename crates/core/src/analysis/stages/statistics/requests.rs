//! Stages of requests that were joined already: what a recording without single events, or a live
//! watch, has. Bios and plugs are not known of them.

use super::{Figures, Stage, Stages};
use crate::formats::blktrace::Record;
use crate::formats::blktrace::action::categories_of;
use crate::formats::window::Window;
use crate::model::{Names, Operation, Request, Status};
use crate::source::Batch;

/// What is kept until its place in time is settled: requests arrive as they complete, while
/// distances are between successive Qs and successive Ds.
#[derive(Debug, Default)]
pub(super) struct Joined {
    steps: Window<(u32, Step, Record)>,
    last_queue: Vec<Option<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Queued,
    Issued,
}

impl Stages {
    /// Takes in the requests of `batch`, whose texts are in `names`.
    pub fn take_requests(&mut self, batch: &Batch, names: &Names) {
        for request in &batch.requests {
            self.take_request(request, names);
        }
    }

    fn take_request(&mut self, request: &Request, names: &Names) {
        let number = (request.major << 20) | (request.minor & 0xf_ffff);
        let device = self.pairer.device(number);
        let record = Record {
            time: request.start_ns,
            sector: request.sector,
            bytes: u32::try_from(request.bytes).unwrap_or(u32::MAX),
            categories: categories_of(names.get(request.rwbs)),
            pid: request.pid.unwrap_or(0),
            device: number,
            cpu: request.cpu,
            ..Record::default()
        };
        if let (Some(pid), Some(process)) = (request.pid, request.process)
            && self.figures.names.len() < 4 * super::MAX_PROCESSES
        {
            self.figures.names.entry(pid).or_insert_with(|| names.get(process).into());
        }
        let unmatched = &mut self.pairer.unmatched;
        unmatched.completions += u64::from(request.status == Status::BegunBefore);
        unmatched.open += u64::from(request.status == Status::InFlight);
        self.figures.done_before(device, request, &record);
        let issued = issued(request);
        unmatched.in_flight += u64::from(request.status == Status::InFlight && issued.is_some());
        if request.status != Status::BegunBefore {
            self.step(device, Step::Queued, record);
        }
        if let Some(time) = issued {
            self.step(device, Step::Issued, Record { time, ..record });
        }
    }

    fn step(&mut self, device: u32, step: Step, record: Record) {
        if let Some((_, settled)) = self.requests.steps.push(record.time, (device, step, record)) {
            self.settle(settled);
        }
    }

    fn settle(&mut self, (device, step, record): (u32, Step, Record)) {
        use crate::analysis::stages::pairing::Sink;
        match step {
            Step::Issued => self.figures.issued(device, &record),
            Step::Queued => {
                let last = &mut self.requests.last_queue;
                if last.len() <= device as usize {
                    last.resize(device as usize + 1, None);
                }
                let since = last.get_mut(device as usize).and_then(|q| q.replace(record.time));
                self.figures.queued(device, &record, since);
            }
        }
    }

    /// Hands on what was kept back.
    pub(super) fn finish_requests(&mut self) {
        while let Some((_, settled)) = self.requests.steps.pop() {
            self.settle(settled);
        }
    }
}

/// When it was last issued, as far as that is known.
fn issued(request: &Request) -> Option<u64> {
    if let (Some(d2c), Some(q2c)) = (request.d2c_ns, request.q2c_ns) {
        return request.start_ns.checked_add(q2c)?.checked_sub(d2c);
    }
    let before = request.q2g_ns?.checked_add(request.g2i_ns.unwrap_or(0))?;
    let queued = before.checked_add(request.i2d_ns.or(request.g2d_ns)?)?;
    request.start_ns.checked_add(queued)
}

impl Figures {
    /// Adds a request's own columns.
    fn done_before(&mut self, device: u32, request: &Request, record: &Record) {
        let Some(device) = self.device(device, record) else { return };
        device.first = device.first.min(request.start_ns);
        device.queued += u64::from(request.merges);
        device.merged += u64::from(request.merges);
        device.issued += u64::from(request.requeues);
        device.requeues += u64::from(request.requeues);
        let ended = matches!(request.status, Status::Complete | Status::Error);
        if !ended {
            return;
        }
        let volume = device.volume(record.categories, record.bytes);
        volume.requests += 1;
        volume.bytes += request.bytes;
        volume.errors += u64::from(request.error.is_some());
        let stages = [
            (Stage::Q2g, request.q2g_ns),
            (Stage::G2i, request.g2i_ns),
            (Stage::I2d, request.i2d_ns),
            (Stage::G2d, request.g2d_ns),
            (Stage::D2c, request.d2c_ns),
            (Stage::Q2c, request.q2c_ns),
        ];
        // A flush that the kernel sent for others was never queued: they wait for it, and say so.
        let made = request.operation == Operation::Flush && request.q2c_ns.is_none();
        let stages = stages.into_iter().filter(move |_| !made);
        let known = || stages.clone().filter_map(|(stage, value)| Some((stage, value?)));
        known().for_each(|(stage, value)| device.stages.add(stage, value));
        if let (Some(d2c), Some(q2c)) = (request.d2c_ns, request.q2c_ns) {
            let completed = request.start_ns.saturating_add(q2c);
            device.last = device.last.max(completed);
            device.live.add(completed.saturating_sub(d2c), completed);
        }
        if let Some(pid) = request.pid {
            let process = self.process(pid);
            process.bytes += request.bytes;
            known().for_each(|(stage, value)| process.stages[stage as usize].add(value));
        }
    }
}
