//! Adding a request: what it says of its device, and who is charged with it.
//!
//! What does not belong here: blame, which needs the waits, too (see `waits::blame`); rows of
//! other tables (see `pass::summarizer`).

use super::attribution::Attribution;
use super::lower_requests::{self, LowerRequests};
use crate::device::streams::{Accessed, GroupKey, Sequential, StreamOwner, Streams};
use crate::device::totals::{DeviceTotals, LostEnds};
use crate::patterns::PatternTally;
use crate::summary::{Direction, Measure};
use crate::sums::device_layer::{DeviceLayer, RequestLayer};
use crate::sums::keys::FileKey;
use crate::sums::request_times::{Life, Stand};
use crate::sums::usage_by_key::Charge;
use iowhy_model::{Names, Request, RequestPart};

/// Maximum number of open requests that are kept until the end of the watch is known; the time of
/// further ones is counted up to the latest time seen when they arrive.
pub(crate) const MAX_OPEN: usize = 1 << 14;

/// Adds requests to their devices, and charges them to their owners, files and code paths.
pub(crate) struct Charger<'a> {
    pub devices: &'a mut [DeviceTotals],
    pub patterns: &'a mut PatternTally,
    pub charged: &'a mut Attribution,
    pub streams: &'a mut Streams,
    pub below: &'a mut LowerRequests,
    /// Open requests and their parts.
    pub open: &'a mut Vec<(Request, Vec<RequestPart>)>,
    /// Numbers requests in the order in which they are charged.
    pub sequence: &'a mut u64,
    /// The number of requests so far; a sampled one counts for all that it stands for.
    pub requests: &'a mut u64,
    /// The latest time that was seen.
    pub latest_ns: &'a mut u64,
    /// The beginning of the watch, nanoseconds; 0 while it is not known.
    pub start_ns: u64,
    /// The assumption on the ends of open requests beyond [`MAX_OPEN`].
    pub beyond: LostEnds,
}

impl Charger<'_> {
    /// Adds a request of the device in `slot`.
    #[inline]
    pub fn add(&mut self, request: &Request, parts: &[RequestPart], slot: u16, names: &Names) {
        let (life, layer) =
            (Life::from_request(request), RequestLayer::for_request(request, names));
        let direction = Direction::from(request.operation);
        *self.requests += request.stands_for();
        *self.latest_ns = (*self.latest_ns).max(life.ended_ns());
        self.patterns.request(slot, request, parts, &life, self.start_ns);
        let mut device = self.devices.get_mut(usize::from(slot));
        if let Some(device) = &mut device {
            device.add(request, &life, direction, layer);
        }
        let time_ns = match life.stand {
            Stand::Open if self.open.len() < MAX_OPEN => {
                self.open.push((request.clone(), parts.to_vec()));
                return;
            }
            Stand::Open => {
                let now_ns = *self.latest_ns;
                open_time(device, &life, direction, now_ns, self.beyond, self.start_ns)
            }
            _ => self.ended_time(&life),
        };
        let device_layer = DeviceLayer::new(slot, layer);
        let whole = self.whole(request, &life, device_layer, time_ns);
        self.charge(request, parts, &whole, names);
        if life.stand != Stand::Open && direction.has_sectors() {
            let (own, all) = self.follow_stream(request, parts, device_layer, direction);
            if let Some(device) = self.devices.get_mut(usize::from(slot)) {
                device.note_sequential(direction, own, all);
            }
        }
    }

    /// Charges a request, and the lower requests that serve it; a request that serves another waits
    /// for it.
    #[inline]
    pub fn charge(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        whole: &Charge,
        names: &Names,
    ) {
        if self.below.hold(request, parts, whole) {
            return;
        }
        self.charged.charge(request, parts, whole, names);
        let served = self.below.take(request.request_id);
        if served.is_empty() {
            return;
        }
        let owners = lower_requests::owners(request, parts);
        let mut waiting = served;
        while let Some(held) = waiting.pop() {
            self.charged.charge(&held.request, &held.parts_of(&owners), &held.whole, names);
            waiting.extend(self.below.take(held.request.request_id));
        }
    }

    /// The time that a completed request is charged with: all of it if it was observed completely,
    /// else the part in the watch.
    #[inline]
    fn ended_time(&self, life: &Life) -> u64 {
        match life.stand {
            Stand::BegunBefore if self.start_ns > 0 => {
                life.ended_ns().saturating_sub(self.start_ns.max(life.queued_ns))
            }
            _ => life.whole_ns.unwrap_or(0),
        }
    }

    /// The charge of a request before it is split.
    #[inline]
    pub fn whole(
        &mut self,
        request: &Request,
        life: &Life,
        device_layer: DeviceLayer,
        time_ns: u64,
    ) -> Charge {
        *self.sequence += 1;
        Charge {
            sequence: *self.sequence,
            device_layer,
            direction: Direction::from(request.operation),
            open: life.stand == Stand::Open,
            measure: Measure::for_request(request, time_ns),
        }
    }

    /// Returns the requests that are now known to be sequential within their stream, and among all
    /// of the device.
    fn follow_stream(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        device_layer: DeviceLayer,
        direction: Direction,
    ) -> (Sequential, Sequential) {
        let subject = subject(request, parts);
        let key = GroupKey {
            device: device_layer.device() as u16,
            write: direction == Direction::Write,
            subject,
        };
        let accessed =
            Accessed { sector: request.sector, bytes: request.bytes, queued_ns: request.start_ns };
        let (own, all) = self.streams.observe(key, accessed);
        let times = request.stands_for();
        let (own, all) = (own.times(times), all.times(times));
        if let (StreamOwner::File(file), 1..) = (subject, own.requests) {
            self.charged.files.known.mark(device_layer, file, own.requests);
        }
        (own, all)
    }
}

/// The stream of a request.
#[inline]
fn subject(request: &Request, parts: &[RequestPart]) -> StreamOwner {
    let key = |part: &RequestPart| Some(FileKey { path: part.file?, deleted: part.deleted });
    let first = parts.first().and_then(key);
    match (first, request.pid) {
        (Some(file), _) if parts.iter().all(|part| key(part) == Some(file)) => {
            StreamOwner::File(file)
        }
        (_, Some(pid)) => StreamOwner::Process(pid),
        _ => StreamOwner::Nobody,
    }
}

/// The time within the watch that an open request is charged with.
pub(crate) fn open_time(
    device: Option<&mut DeviceTotals>,
    life: &Life,
    direction: Direction,
    now_ns: u64,
    ends: LostEnds,
    start_ns: u64,
) -> u64 {
    let Some(device) = device else { return 0 };
    let until_ns = device.settle_open(life, direction, now_ns, ends);
    until_ns.saturating_sub(life.queued_ns.max(start_ns))
}
