//! The ends of requests that a capture holds: of each device and kind of request, or none at all.
//!
//! A capture of `-a issue` has no completion, one of `-a complete` nothing else, and old kernels
//! log none of flushes: such requests are neither in flight nor lost. If other requests of the same
//! device and kind did end, one without an end is in flight or lost.
//!
//! What does not belong here: the completion of each request (see [`super::pairing`]).

use super::slots::Slot;
use crate::trace::TraceRecord;
use crate::trace::action::category;

/// Completions of a device without any other event after which it is taken for one of which only
/// completions were recorded. More than any device has in flight.
const MOST_ORPHANS: usize = 16 << 10;

/// A kind of requests that kernels log alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes and zone commands.
    Write,
    /// Flushes without data.
    Flush,
    /// Discards.
    Discard,
    /// Commands of drivers and programs.
    Command,
}

const KINDS: usize = 5;

impl RequestKind {
    fn new(categories: u32, bytes: u32) -> RequestKind {
        match () {
            () if categories & category::PC != 0 => RequestKind::Command,
            () if categories & category::DISCARD != 0 => RequestKind::Discard,
            () if bytes == 0 => RequestKind::Flush,
            () if categories & category::WRITE != 0 => RequestKind::Write,
            () => RequestKind::Read,
        }
    }
}

/// The events of one device so far.
#[derive(Debug, Default)]
struct DeviceEndings {
    number: u32,
    has_begun: bool,
    issued: [u64; KINDS],
    ended: [u64; KINDS],
    never_logged: [u64; KINDS],
    orphans: Vec<TraceRecord>,
    /// Whether so many completions came alone that further ones are handed out at once.
    is_alone: bool,
}

/// The ends that a capture holds, by device and kind. Devices go by the index that
/// [`iowhy_analysis::stages::devices::DeviceNumbers`] gives them, which is bounded.
#[derive(Debug, Default)]
pub struct Endings {
    devices: Vec<DeviceEndings>,
}

impl Endings {
    #[inline]
    fn device(&mut self, index: u32, number: u32) -> Option<&mut DeviceEndings> {
        let index = index as usize;
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, DeviceEndings::default);
        }
        let device = self.devices.get_mut(index)?;
        device.number = number;
        Some(device)
    }

    /// Notes that a request began. Earlier completions of the device had a beginning that is not in
    /// the data: returns how many.
    #[inline]
    pub(super) fn begin(&mut self, index: u32, record: &TraceRecord, is_issued: bool) -> u64 {
        let Some(device) = self.device(index, record.device) else { return 0 };
        if is_issued {
            let kind = RequestKind::new(record.categories, record.bytes);
            device.issued[kind as usize] += 1;
        }
        if device.has_begun {
            return 0;
        }
        device.has_begun = true;
        std::mem::take(&mut device.orphans).len() as u64
    }

    /// Notes a completion.
    #[inline]
    pub(super) fn end(&mut self, index: u32, record: &TraceRecord) {
        let kind = RequestKind::new(record.categories, record.bytes);
        let is_flush = record.categories & category::FLUSH != 0 || record.sector == 0;
        if kind == RequestKind::Flush && !is_flush {
            // The end of the flush behind a write, whose data has completed before.
            return;
        }
        if let Some(device) = self.device(index, record.device) {
            device.ended[kind as usize] += 1;
        }
    }

    /// Takes a completion without a beginning; `None` if its device has others with one. Returns
    /// the requests that are known to be complete now.
    pub(super) fn orphan(&mut self, index: u32, record: &TraceRecord) -> Option<Vec<TraceRecord>> {
        let device = self.device(index, record.device).filter(|device| !device.has_begun)?;
        let is_flush = record.categories & category::FLUSH != 0;
        if record.bytes == 0 && !is_flush && record.categories & category::PC == 0 {
            // The end of the flush behind a write, whose data has completed before.
            return Some(Vec::new());
        }
        device.orphans.push(*record);
        device.is_alone |= device.orphans.len() >= MOST_ORPHANS;
        Some(if device.is_alone { std::mem::take(&mut device.orphans) } else { Vec::new() })
    }

    /// Returns the completions of devices of which nothing else was seen, with the devices'
    /// indices.
    pub(super) fn take_orphans(&mut self) -> Vec<(u32, Vec<TraceRecord>)> {
        let orphans = self.devices.iter_mut().map(|device| std::mem::take(&mut device.orphans));
        (0..).zip(orphans).filter(|(_, orphans)| !orphans.is_empty()).collect()
    }

    /// Whether a request that was issued has no end because none of its device and kind has.
    pub(super) fn are_never_logged(&self, slot: &Slot) -> bool {
        let kind = RequestKind::new(slot.categories, slot.bytes) as usize;
        let device = self.devices.get(slot.device as usize);
        device.is_some_and(|device| device.issued[kind] > 0 && device.ended[kind] == 0)
            && !slot.is_before_device()
    }

    pub(super) fn note_never_logged(&mut self, slot: &Slot) {
        let kind = RequestKind::new(slot.categories, slot.bytes) as usize;
        if let Some(device) = self.devices.get_mut(slot.device as usize) {
            device.never_logged[kind] += 1;
        }
    }

    /// Requests that were issued and whose kind never ends in the data, with the numbers of their
    /// devices: all of them, and the flushes.
    pub fn never_logged(&self) -> Vec<(u32, u64, u64)> {
        let count = |device: &DeviceEndings| {
            let flushes = device.never_logged[RequestKind::Flush as usize];
            (device.number, device.never_logged.iter().sum::<u64>(), flushes)
        };
        let mut counts: Vec<_> =
            self.devices.iter().map(count).filter(|(_, all, _)| *all > 0).collect();
        counts.sort_unstable();
        counts
    }
}
