//! Single events joined to requests: iowhy's own way.
//!
//! A bio is found by device and start sector. Merged bios are adjacent, so an issue collects them
//! by following their ends; a split bio becomes parts that share one Q; a request completed in
//! pieces is done when all bytes are. Two bios at one sector are both kept. Events without a
//! partner are counted, never guessed. Events without data (flushes) pair in the order of their
//! device.
//!
//! What does not belong here: statistics over the joined requests.

use super::endings::Endings;
use super::slots::{Link, NEVER, NONE, RequestSlots, Slot, SlotState};
use crate::trace::action::{Action, category};
use crate::trace::{RecordBatch, TraceRecord};
use iowhy_analysis::stages::Unmatched;
use iowhy_analysis::stages::devices::DeviceNumbers;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Flushes that may be open on one device.
const MAX_FLUSHES: usize = 1024;
/// Writes whose cache flush goes on.
const MAX_POST_FLUSHES: usize = 256;
/// Remaps whose lower bio has not been queued yet.
const MAX_REMAPS: usize = 16 << 10;

/// A request whose end is known, or that the capture's end cut off.
#[derive(Clone, Debug)]
pub struct DoneRequest<'a> {
    /// The request: its first bio, with the times of the whole.
    pub request: &'a Slot,
    /// The number of its device in the order of first events.
    pub device: u32,
    /// C, or [`NEVER`] at the capture's end.
    pub completed: u64,
    /// The error of the completion.
    pub error: u16,
    /// The kind of end.
    pub ending: Ending,
}

/// The knowledge of a request's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Completed; of a request without a D or a Q, nothing else may be known.
    Completed,
    /// Not completed at the capture's end.
    Open,
    /// Unknown: the capture has no completion of any request of this device and kind.
    NeverLogged,
}

/// The receiver of the joined requests.
pub trait PairSink {
    /// A bio was queued.
    fn queued(&mut self, device: u32, record: &TraceRecord);
    /// A bio was merged.
    fn merged(&mut self, device: u32, bio: &Slot, time: u64);
    /// A request was issued.
    fn issued(&mut self, device: u32, record: &TraceRecord);
    /// A whole bio completed: all of its parts. `issued` is its last D, or [`NEVER`].
    fn bio(&mut self, device: u32, bio: &Slot, issued: u64, completed: u64);
    /// A request ended.
    fn done(&mut self, done: DoneRequest<'_>);
    /// Any other event of a device: plugs, requeues.
    fn other(&mut self, device: u32, batch: &RecordBatch, record: &TraceRecord);
}

/// The bios and requests that are open.
#[derive(Debug, Default)]
pub struct Pairer {
    slots: RequestSlots,
    devices: DeviceNumbers,
    flushes: Vec<VecDeque<Link>>,
    remaps: FxHashMap<(u32, u64), u64>,
    /// Requests whose data is written and whose cache flush goes on; the oldest first.
    post_flushes: VecDeque<(Link, u64)>,
    endings: Endings,
    /// Bios and requests that were given up, to be handed out or counted.
    given_up: Vec<Slot>,
    next_id: u64,
    unmatched: Unmatched,
}

impl Pairer {
    /// The devices in the order of their first events.
    pub fn devices(&self) -> &[u32] {
        self.devices.numbers()
    }

    /// Takes in `batch`.
    pub fn take(&mut self, batch: &RecordBatch, sink: &mut impl PairSink) {
        for record in &batch.records {
            if !record.is_notify() {
                self.event(batch, record, sink);
            }
        }
    }

    /// Returns the counts of events that had no partner so far.
    pub fn unmatched(&self) -> Unmatched {
        Unmatched { devices: self.devices.beyond, ..self.unmatched }
    }

    #[inline]
    fn event(&mut self, batch: &RecordBatch, record: &TraceRecord, sink: &mut impl PairSink) {
        let Some(action) = record.kind() else { return };
        let device = self.devices.index(record.device);
        if action != Action::Complete && record.categories & category::QUEUE != 0
            || action == Action::Issue
        {
            self.unmatched.completions +=
                self.endings.begin(device, record, action == Action::Issue);
        }
        match action {
            Action::Queue => self.queue(device, record, sink),
            Action::GetRequest => self.get_request(device, record),
            Action::BackMerge | Action::FrontMerge => self.merge(device, record, sink),
            Action::Insert => self.insert(device, record),
            Action::Issue => self.issue(device, record, sink),
            Action::Complete => self.complete(device, record, sink),
            Action::Split => {
                if let Some(at) = batch.number(record) {
                    self.split(record.device, record.sector, at);
                }
            }
            Action::Remap => self.remap(batch, record),
            Action::Requeue => {
                self.requeue(device, record);
                sink.other(device, batch, record);
            }
            _ => sink.other(device, batch, record),
        }
        if !self.given_up.is_empty() {
            self.settle_given_up(sink);
        }
    }

    /// Hands out the given-up requests that never end in such a capture; counts the others.
    fn settle_given_up(&mut self, sink: &mut impl PairSink) {
        for slot in std::mem::take(&mut self.given_up) {
            if slot.state == SlotState::PostFlush || self.endings.are_never_logged(&slot) {
                self.hand_out_open(&slot, sink);
            } else {
                self.unmatched.given_up += 1;
            }
        }
    }

    /// Hands out a request without an end of its own.
    fn hand_out_open(&mut self, slot: &Slot, sink: &mut impl PairSink) {
        let (completed, ending) = match slot.state {
            SlotState::PostFlush => (slot.written, Ending::Completed),
            _ if self.endings.are_never_logged(slot) => (NEVER, Ending::NeverLogged),
            _ => (NEVER, Ending::Open),
        };
        match ending {
            Ending::Completed => {}
            Ending::NeverLogged => self.endings.note_never_logged(slot),
            Ending::Open => {
                self.unmatched.open += 1;
                self.unmatched.in_flight += u64::from(slot.state == SlotState::Issued);
            }
        }
        if slot.state != SlotState::Merged {
            let device = slot.device;
            sink.done(DoneRequest { request: slot, device, completed, error: 0, ending });
        }
    }

    /// Returns the ends that the capture holds.
    pub fn endings(&self) -> &Endings {
        &self.endings
    }

    fn open(&mut self, device: u32, record: &TraceRecord) -> Slot {
        self.next_id += 1;
        Slot { id: self.next_id, ..Slot::new(device, record) }
    }

    #[inline]
    fn queue(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        sink.queued(device, record);
        let mut slot = self.open(device, record);
        slot.queued = record.time;
        if !self.remaps.is_empty()
            && let Some(parent) = self.remaps.remove(&(record.device, record.sector))
        {
            slot.parent_id = parent;
        }
        if record.bytes == 0 {
            self.push_flush(device, slot);
        } else {
            self.add(slot);
        }
    }

    fn add(&mut self, slot: Slot) -> Link {
        if self.slots.is_full() {
            self.given_up.extend(self.slots.give_up_oldest());
        }
        let (link, stale) = self.slots.add(slot);
        self.unmatched.stale += u64::from(stale);
        link
    }

    fn get_request(&mut self, device: u32, record: &TraceRecord) {
        let waits = |slot: &Slot| slot.state == SlotState::Queued && slot.got == NEVER;
        let link = match record.bytes {
            0 => self.find_flush(device, record, waits),
            _ => self.slots.find(record.device, record.sector, waits),
        };
        if let Some(slot) = self.slots.get_mut(link) {
            slot.got = record.time;
        }
    }

    fn merge(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        let link = self.slots.find(record.device, record.sector, |slot| {
            slot.state == SlotState::Queued && slot.got == NEVER
        });
        if let Some(slot) = self.slots.get_mut(link) {
            slot.state = SlotState::Merged;
            sink.merged(device, slot, record.time);
        }
    }

    fn insert(&mut self, device: u32, record: &TraceRecord) {
        let waits = Slot::is_before_device;
        let link = match record.bytes {
            0 => self.find_flush(device, record, waits),
            _ => self.slots.find(record.device, record.sector, waits),
        };
        if let Some(slot) = self.slots.get_mut(link) {
            // One that was requeued is inserted again, which is part of its requeue.
            if slot.requeues == 0 || slot.inserted == NEVER {
                slot.inserted = record.time;
            }
        } else if record.bytes > 0 {
            let mut slot = self.open(device, record);
            slot.inserted = record.time;
            self.add(slot);
        }
    }

    #[inline]
    fn issue(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        sink.issued(device, record);
        if record.bytes == 0 {
            return self.issue_flush(device, record);
        }
        let waits = Slot::is_before_device;
        let mut link = self.slots.find(record.device, record.sector, waits);
        if link == NONE {
            let slot = self.open(device, record);
            link = self.add(slot);
        }
        self.shape(link, record);
        if let Some(slot) = self.slots.get_mut(link) {
            slot.issue(record);
        }
    }

    /// Makes the request at `link` as long as `record` says: collects merged bios behind it, or
    /// leaves the rest of a longer bio as a part of its own.
    #[inline]
    fn shape(&mut self, link: Link, record: &TraceRecord) {
        let Some(slot) = self.slots.get(link) else { return };
        if slot.bytes == record.bytes {
            return;
        }
        let (own, device, end) = (slot.id, slot.number, record.end());
        if slot.bytes > record.bytes {
            self.split(device, record.sector, end);
            return;
        }
        let mut at = slot.sector.wrapping_add(u64::from(slot.bytes >> 9));
        while at < end {
            // A bio of less than a sector ends where it begins: it must not follow itself.
            let next = self.slots.find(device, at, |slot| {
                slot.is_before_device() && slot.end() <= end && slot.id != own
            });
            let Some(member) = self.slots.get(next) else { break };
            at = member.end();
            self.slots.join(link, next);
        }
        if let Some(slot) = self.slots.get_mut(link) {
            slot.bytes = record.bytes;
        }
    }

    /// Cuts the bio of device number `device` that starts at `sector` in two at `at`.
    fn split(&mut self, device: u32, sector: u64, at: u64) {
        let link = self.slots.find(device, sector, |slot| {
            slot.is_before_device() && slot.sector < at && at < slot.end()
        });
        if link == NONE {
            return;
        }
        if self.slots.is_full() {
            self.given_up.extend(self.slots.give_up_oldest());
        }
        self.next_id += 1;
        let stale = self.slots.split(link, at, self.next_id);
        self.unmatched.stale += u64::from(stale);
    }

    fn requeue(&mut self, device: u32, record: &TraceRecord) {
        let issued = |slot: &Slot| slot.state == SlotState::Issued;
        let link = match record.bytes {
            0 => self.find_flush(device, record, issued),
            _ => self.slots.find(record.device, record.sector, issued),
        };
        if let Some(slot) = self.slots.get_mut(link) {
            slot.state = SlotState::Queued;
            slot.issued = NEVER;
            slot.requeues = slot.requeues.saturating_add(1);
        }
    }

    #[inline]
    fn complete(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        self.endings.end(device, record);
        if record.bytes == 0 {
            return self.complete_flush(device, record, sink);
        }
        // Where the capture lost an issue, an older request of the other direction may lie there
        // still.
        let same = |slot: &Slot| (slot.categories ^ record.categories) & category::WRITE == 0;
        let issued = |slot: &Slot| {
            slot.state == SlotState::Issued && slot.remaining >= record.bytes && same(slot)
        };
        let mut link = self.slots.find(record.device, record.sector, issued);
        if link == NONE {
            // No issue: a device without requests, or an event that was lost.
            link = self.slots.find(record.device, record.sector, |slot| {
                slot.state == SlotState::Queued && slot.bytes <= record.bytes && same(slot)
            });
            if link == NONE {
                return self.orphan(device, record, sink);
            }
            self.shape(link, record);
        } else if self.slots.advance(link, record.bytes) {
            return;
        }
        let is_flushed = self.slots.get(link).is_some_and(Slot::has_post_flush);
        match is_flushed && record.error == 0 {
            true => self.await_flush(link, record, sink),
            false => self.finish(link, record, sink),
        }
    }

    /// Handles a completion without a beginning. If nothing else is known of the device, it is a
    /// request; else it is counted.
    fn orphan(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        match self.endings.orphan(device, record) {
            None => self.unmatched.completions += 1,
            Some(known) => self.hand_out_orphans(device, &known, sink),
        }
    }

    fn hand_out_orphans(&mut self, device: u32, records: &[TraceRecord], sink: &mut impl PairSink) {
        for record in records {
            let slot = self.open(device, record);
            let (completed, error, ending) = (record.time, record.error, Ending::Completed);
            sink.done(DoneRequest { request: &slot, device, completed, error, ending });
        }
    }

    /// Keeps a request whose data is written until the flush behind it ends.
    fn await_flush(&mut self, link: Link, record: &TraceRecord, sink: &mut impl PairSink) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        (slot.state, slot.written) = (SlotState::PostFlush, record.time);
        self.post_flushes.push_back((link, slot.id));
        if self.post_flushes.len() > MAX_POST_FLUSHES
            && let Some((oldest, id)) = self.post_flushes.pop_front()
            && let Some(slot) = self
                .slots
                .get(oldest)
                .filter(|slot| slot.id == id && slot.state == SlotState::PostFlush)
        {
            let end = TraceRecord { time: slot.written, error: 0, ..*record };
            self.finish(oldest, &end, sink);
        }
    }

    /// Hands out the request at `link` and its bios, and forgets them.
    fn finish(&mut self, link: Link, record: &TraceRecord, sink: &mut impl PairSink) {
        self.unmatched.stale += self.slots.take_out(link, record.time);
        let Some(slot) = self.slots.get(link) else { return };
        let (device, issued) = (slot.device, slot.issued);
        sink.done(DoneRequest {
            request: slot,
            device,
            completed: record.time,
            error: record.error,
            ending: Ending::Completed,
        });
        let mut member = link;
        while let Some(slot) = self.slots.get(member) {
            let next = slot.next;
            if slot.queued != NEVER {
                match slot.group {
                    NONE => sink.bio(device, slot, issued, record.time),
                    group => {
                        if let Some(whole) = self.slots.end_part(group) {
                            sink.bio(device, &whole, issued, record.time);
                        }
                    }
                }
            }
            self.slots.free(member);
            member = next;
        }
    }

    fn remap(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        let Some(remap) = batch.remap(record) else { return };
        let moved = self.remaps.remove(&(remap.from_device, remap.from_sector));
        let parent = moved.or_else(|| {
            let upper = remap.from_device;
            let link = self.slots.find(upper, remap.from_sector, |slot| slot.queued != NEVER);
            self.slots.get(link).map(|slot| slot.id)
        });
        if let Some(parent) = parent {
            if self.remaps.len() >= MAX_REMAPS {
                self.remaps.clear();
            }
            self.remaps.insert((remap.to_device, record.sector), parent);
        }
    }

    fn find_flush(
        &self,
        device: u32,
        record: &TraceRecord,
        accept: impl Fn(&Slot) -> bool,
    ) -> Link {
        let flushes = self.flushes.get(device as usize);
        let mut open = flushes.into_iter().flatten();
        // A command of a driver has no data either.
        let is_alike = |slot: &Slot| (slot.categories ^ record.categories) & category::PC == 0;
        let accept = |slot: &Slot| slot.number == record.device && is_alike(slot) && accept(slot);
        let found = open.find(|link| self.slots.get(**link).is_some_and(accept));
        found.copied().unwrap_or(NONE)
    }

    fn push_flush(&mut self, device: u32, slot: Slot) -> Link {
        let link = self.slots.keep(slot);
        if self.flushes.len() <= device as usize {
            self.flushes.resize_with(device as usize + 1, VecDeque::new);
        }
        let Some(flushes) = self.flushes.get_mut(device as usize) else { return NONE };
        flushes.push_back(link);
        if flushes.len() > MAX_FLUSHES
            && let Some(oldest) = flushes.pop_front()
        {
            self.slots.free(oldest);
            self.unmatched.given_up += 1;
        }
        link
    }

    fn issue_flush(&mut self, device: u32, record: &TraceRecord) {
        let mut link = self.find_flush(device, record, |slot| slot.state != SlotState::Issued);
        if link == NONE {
            let slot = self.open(device, record);
            link = self.push_flush(device, slot);
        }
        if let Some(slot) = self.slots.get_mut(link) {
            let asked = slot.categories;
            slot.issue(record);
            (slot.categories, slot.taken) = (asked, 0);
        }
    }

    /// Completes a flush. The kernel completes a flush's request and then its bio: the second
    /// completion finds the bio gone, or a bio that never was issued by itself. A write with data
    /// and a flush around it ends with a completion of no data at its own sector, after that of its
    /// data: no flush's.
    fn complete_flush(&mut self, device: u32, record: &TraceRecord, sink: &mut impl PairSink) {
        let request = record.categories & (category::FLUSH | category::PC) != 0;
        if record.sector != 0 {
            let is_written = |slot: &Slot| slot.state == SlotState::PostFlush;
            let link = self.slots.find(record.device, record.sector, is_written);
            if link != NONE {
                return self.finish(link, record, sink);
            }
        }
        let mut link =
            self.find_flush(device, record, |slot| slot.state == SlotState::Issued && request);
        if link == NONE {
            let here = |slot: &Slot| record.sector == 0 || slot.sector == record.sector;
            link = self
                .find_flush(device, record, |slot| slot.state != SlotState::Issued && here(slot));
        }
        if link == NONE {
            match self.endings.orphan(device, record) {
                Some(known) => self.hand_out_orphans(device, &known, sink),
                None => self.unmatched.flushes += u64::from(request),
            }
            return;
        }
        if let Some(flushes) = self.flushes.get_mut(device as usize) {
            flushes.retain(|open| *open != link);
        }
        self.finish(link, record, sink);
    }

    /// Hands out the requests that are still open, at the end of the capture.
    pub fn end(&mut self, sink: &mut impl PairSink) {
        for (device, records) in self.endings.take_orphans() {
            self.hand_out_orphans(device, &records, sink);
        }
        let open: Vec<Slot> = self.slots.open().cloned().collect();
        for slot in &open {
            self.hand_out_open(slot, sink);
        }
    }
}
