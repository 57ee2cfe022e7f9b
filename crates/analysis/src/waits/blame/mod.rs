//! Blame: while a thread's request waits in a device's queue or at the device, the time is charged
//! to the owners of the requests that the device had. `docs/blame.md` defines it.
//!
//! | where | what |
//! |---|---|
//! | `BlameTally` | takes rows; matches waits with their requests |
//! | `window` | recent requests and waits of a device, kept until no earlier ones can come |
//! | `sweep` | computes the charges of one interval of one device |
//! | `culprit` | the owner, origin and file of a request |
//! | `accounts` | charges of waiters to culprits, in bounded memory |
//! | `report` | the result |
//!
//! What does not belong here: why a thread waited (see `waits`), and what to do about it.

mod accounts;
mod culprit;
mod report;
mod sweep;
#[cfg(test)]
mod tests;
mod window;

use crate::summary::BlameSummary;
use crate::sums::device_layer::{MAX_DEVICES, RequestLayer};
use crate::sums::keys::ProcessKey;
use crate::sums::own_io::is_own_name;
use crate::sums::request_times::{Life, Stand};
use crate::sums::row_consumers::BatchConsumer;
use crate::sums::slots::Slots;
use crate::sums::watch_window::WatchWindow as Watch;
use accounts::{Accounts, Times, WaitedFor};
use iowhy_model::source::Batch;
use iowhy_model::wait::split::{self, Doing, Span};
use iowhy_model::{Environment, Name, Names, Request, RequestPart, Wait, WaitClass, WaitRequest};
use std::collections::VecDeque;
use sweep::WaitInterval;
use window::ServiceWindow;

/// Number of recent requests that are kept for waits; indexed by the low bits of their id, so that
/// a newer one replaces an older one. A recording's rows are read a few thousand at a time.
const RECENT: usize = 1 << 15;
/// Maximum number of requests at devices that are kept, over all devices.
const KEPT: usize = 1 << 16;
/// Maximum number of waits that are kept until their requests come: a recording's waits come some
/// seconds earlier.
const PENDING: usize = 1 << 19;
/// The same for rows of `wait_requests`.
const LINKS: usize = 1 << 20;

/// Number of requests after which waits are settled.
const TOGETHER: usize = 1 << 11;
/// Nanoseconds after which a missing request is not expected any more.
const LATE_NS: u64 = 50_000_000;

/// The fields of a request that waits need.
#[derive(Clone, Copy, Debug)]
struct Recent {
    request_id: u64,
    device: u16,
    span: Span,
}

/// A wait whose requests may still come.
#[derive(Clone, Copy, Debug)]
struct PendingWait {
    wait_id: u64,
    waiter: u32,
    start_ns: u64,
    woken_ns: u64,
    queue_ns: u64,
    device_ns: u64,
    /// The device in whose queue all of it was spent, without a request of its own.
    queued_at: Option<Name>,
}

/// A wait that is being settled; the memory is used again for the next one.
#[derive(Clone, Debug, Default)]
struct SettledWait {
    found: Vec<Recent>,
    spans: Vec<Span>,
    /// By device.
    intervals: Vec<(u16, WaitInterval)>,
}

/// Charges waits to the owners of the requests that were served meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct BlameTally {
    recent: Vec<Option<Recent>>,
    pending: VecDeque<PendingWait>,
    /// Rows of `wait_requests`, in the order of the waits.
    links: VecDeque<WaitRequest>,
    devices: Vec<ServiceWindow>,
    /// The devices' numbers; the last is that of all further ones.
    numbers: Slots<Name>,
    kept: usize,
    latest_ns: u64,
    /// Requests since waits were settled.
    unsettled: usize,
    accounts: Accounts,
    settling: SettledWait,
    begun: bool,
}

impl BatchConsumer for BlameTally {
    fn take(&mut self, batch: &Batch, names: &Names) {
        self.add(batch, names);
    }
}

impl BlameTally {
    pub fn new() -> BlameTally {
        BlameTally {
            recent: Vec::new(),
            pending: VecDeque::new(),
            links: VecDeque::new(),
            devices: Vec::new(),
            numbers: Slots::new(MAX_DEVICES),
            kept: 0,
            latest_ns: 0,
            unsettled: 0,
            accounts: Accounts::default(),
            settling: SettledWait::default(),
            begun: false,
        }
    }

    /// Takes a batch.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        self.add_waits(batch, names);
        for (request, parts) in batch.requests_with_parts() {
            let (life, layer) =
                (Life::from_request(request), RequestLayer::for_request(request, names));
            let device = self.numbers.of(request.device);
            self.add_request(request, parts, &life, layer, device);
        }
        self.settle();
    }

    /// Takes the waits of a batch, which may come before or after their requests.
    fn add_waits(&mut self, batch: &Batch, names: &Names) {
        self.links.extend(batch.wait_requests.iter().cloned());
        let excess = self.links.len().saturating_sub(LINKS);
        self.links.drain(..excess);
        for wait in &batch.waits {
            self.begun = true;
            let is_left_out = wait.kernel_thread || is_own_name(wait.process, names);
            let pending = if is_left_out { None } else { self.pending_of(wait) };
            self.pending.extend(pending);
            if self.pending.len() > PENDING {
                self.settle_first(None);
            }
        }
    }

    /// The part of a wait that is charged; none if it did not wait for requests.
    fn pending_of(&mut self, wait: &Wait) -> Option<PendingWait> {
        let asleep_ns = wait.duration_ns.saturating_sub(wait.run_queue_ns);
        let for_tag = wait.class == WaitClass::Tag && wait.queue_ns == 0 && wait.device_ns == 0;
        let queue_ns = if for_tag { asleep_ns } else { wait.queue_ns };
        if queue_ns == 0 && wait.device_ns == 0 {
            return None;
        }
        let key = ProcessKey { pid: Some(wait.pid), name: wait.process.unwrap_or(Name::EMPTY) };
        Some(PendingWait {
            wait_id: wait.wait_id,
            waiter: self.accounts.waiter(key),
            start_ns: wait.start_ns,
            woken_ns: wait.start_ns.saturating_add(asleep_ns),
            queue_ns,
            device_ns: wait.device_ns,
            queued_at: if for_tag { wait.device } else { None },
        })
    }

    /// Takes a request of the device with number `device`.
    #[inline]
    fn add_request(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        life: &Life,
        layer: RequestLayer,
        device: u16,
    ) {
        if life.stand != Stand::Open {
            self.latest_ns = self.latest_ns.max(life.ended_ns());
        }
        let span = span(request, life);
        self.remember(request, device, span);
        self.unsettled += 1;
        if self.unsettled >= TOGETHER {
            self.settle();
        }
        // Requests that the kernel issues on behalf of others are part of those.
        if layer == RequestLayer::Helper || (span.issued_ns == 0 && life.stand == Stand::Open) {
            return;
        }
        let index = usize::from(device);
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, ServiceWindow::default);
        }
        self.kept += self.devices[index].serve(request, parts, span);
        if self.kept > KEPT {
            self.forget_oldest();
        }
    }

    #[inline]
    fn remember(&mut self, request: &Request, device: u16, span: Span) {
        if self.recent.is_empty() {
            self.recent = vec![None; RECENT];
        }
        let request_id = request.request_id;
        if let Some(slot) = self.recent.get_mut(request_id as usize % RECENT) {
            *slot = Some(Recent { request_id, device, span });
        }
    }

    /// Settles the device with the most requests first.
    fn forget_oldest(&mut self) {
        let most = self.devices.iter_mut().max_by_key(|window| window.len());
        if let Some(window) = most {
            let before = window.len();
            window.settle_older(&mut self.accounts);
            self.kept -= before - window.len();
        }
    }

    /// Settles the waits whose requests have come, or are not expected any more.
    fn settle(&mut self) {
        self.unsettled = 0;
        while self.pending.front().is_some_and(|first| self.is_ready(first)) {
            self.settle_first(None);
        }
    }

    fn is_ready(&self, wait: &PendingWait) -> bool {
        if wait.woken_ns.saturating_add(LATE_NS) < self.latest_ns {
            return true;
        }
        let after = self.links.iter().skip_while(|link| link.wait_id < wait.wait_id);
        let own = after.take_while(|link| link.wait_id == wait.wait_id);
        let mut any = false;
        own.into_iter().all(|link| {
            any = true;
            self.find(link.request_id).is_some()
        }) && any
    }

    fn find(&self, request_id: u64) -> Option<Recent> {
        let known = self.recent.get(request_id as usize % RECENT).copied().flatten();
        known.filter(|recent| recent.request_id == request_id)
    }

    /// Splits the first pending wait into intervals of its devices. Time without a known request is
    /// charged as unknown.
    fn settle_first(&mut self, end_ns: Option<u64>) {
        let Some(wait) = self.pending.pop_front() else { return };
        let mut work = std::mem::take(&mut self.settling);
        let found = &mut work.found;
        found.clear();
        while let Some(link) = self.links.front().cloned() {
            if link.wait_id > wait.wait_id {
                break;
            }
            self.links.pop_front();
            if link.wait_id < wait.wait_id {
                continue;
            }
            found.extend(self.find(link.request_id));
        }
        for recent in found.iter_mut().filter(|recent| recent.span.completed_ns == 0) {
            recent.span.completed_ns = end_ns.unwrap_or(u64::MAX);
        }
        self.split(&wait, &mut work);
        let intervals = &work.intervals;
        let in_stage = |stage| {
            let own = intervals.iter().filter(|(_, interval)| interval.stage == stage);
            own.map(|(_, interval)| interval.to - interval.from).sum::<u64>()
        };
        let unknown = Times {
            queue_ns: wait.queue_ns.saturating_sub(in_stage(WaitedFor::Queue)),
            device_ns: wait.device_ns.saturating_sub(in_stage(WaitedFor::Device)),
        };
        self.accounts.note_wait(wait.waiter, unknown);
        for (device, interval) in intervals {
            self.wait_at(*device, *interval);
        }
        self.settling = work;
    }

    /// Finds the intervals of a wait by device and stage.
    fn split(&self, wait: &PendingWait, work: &mut SettledWait) {
        let SettledWait { found, spans, intervals } = work;
        let waiter = wait.waiter;
        intervals.clear();
        if let Some(name) = wait.queued_at {
            let (from, to, stage) = (wait.start_ns, wait.woken_ns, WaitedFor::Queue);
            let number = self.numbers.find(name);
            intervals
                .extend(number.map(|number| (number, WaitInterval { from, to, waiter, stage })));
            return;
        }
        spans.clear();
        spans.extend(found.iter().map(|recent| recent.span));
        split::walk(wait.start_ns, wait.woken_ns, spans, |doing, from, to| {
            let stage = match doing {
                Doing::Served => WaitedFor::Device,
                Doing::Queued => WaitedFor::Queue,
                Doing::NotYet | Doing::Nothing => return,
            };
            let Some(device) = device_of(found, stage, from) else { return };
            match intervals.last_mut() {
                Some((last, interval))
                    if *last == device && interval.stage == stage && interval.to == from =>
                {
                    interval.to = to;
                }
                _ => intervals.push((device, WaitInterval { from, to, waiter, stage })),
            }
        });
    }

    fn wait_at(&mut self, device: u16, interval: WaitInterval) {
        let index = usize::from(device);
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, ServiceWindow::default);
        }
        self.devices[index].wait(interval, &mut self.accounts);
    }

    /// The result; `None` without waits, or if requests of others may be missing.
    pub fn finish(
        mut self,
        environment: &Environment,
        watch: Watch,
        names: &Names,
    ) -> Option<BlameSummary> {
        if !self.begun || environment.hides_others() {
            return None;
        }
        while !self.pending.is_empty() {
            self.settle_first(Some(watch.end_ns));
        }
        for window in &mut self.devices {
            window.settle_all(watch.end_ns, &mut self.accounts);
        }
        Some(report::summary(&self.accounts, names))
    }
}

/// The times of a request; its completion is 0 if it has not completed.
fn span(request: &Request, life: &Life) -> Span {
    let ended_ns = life.ended_ns();
    if life.stand == Stand::Open {
        let Request { q2g_ns, g2i_ns, i2d_ns, g2d_ns, .. } = *request;
        let issued = g2d_ns.or(i2d_ns).is_some();
        let until_issue =
            [q2g_ns, g2i_ns, i2d_ns, g2d_ns].into_iter().flatten().fold(0, u64::saturating_add);
        let issued_ns = if issued { life.queued_ns.saturating_add(until_issue) } else { 0 };
        return Span { queued_ns: life.queued_ns, issued_ns, completed_ns: 0 };
    }
    let issued_ns = request.d2c_ns.map_or(0, |d2c| ended_ns.saturating_sub(d2c));
    Span { queued_ns: life.queued_ns, issued_ns, completed_ns: ended_ns }
}

/// The device of the first request that is in `stage` at `time`.
fn device_of(found: &[Recent], stage: WaitedFor, time: u64) -> Option<u16> {
    let first = found.first()?.device;
    if found.iter().all(|recent| recent.device == first) {
        return Some(first);
    }
    let is_in = |recent: &&Recent| {
        let Span { queued_ns, issued_ns, completed_ns } = recent.span;
        let issued_ns = if issued_ns == 0 { completed_ns } else { issued_ns };
        match stage {
            WaitedFor::Device => issued_ns <= time && time < completed_ns,
            WaitedFor::Queue => queued_ns <= time && time < issued_ns,
        }
    };
    found.iter().find(is_in).map(|recent| recent.device)
}
