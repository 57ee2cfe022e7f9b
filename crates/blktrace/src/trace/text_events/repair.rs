//! Data that a line of text leaves to the lines before it, as far as these tell: times before the
//! first event, completions of split requests, bytes of commands, and errors that are printed
//! twice.
//!
//! What does not belong here: single lines (see the modules beside).

use super::{TextEvent, TextTool};
use crate::trace::TraceRecord;
use crate::trace::action::{Action, category as c};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// blkparse prints a time before the first event as 2^64 ns less than it is, its seconds cut to 32
/// bits: the fraction then counts down from this second.
const WRAPPED_S: u64 = (u64::MAX / NS_PER_S) & 0xffff_ffff;
const NS_PER_S: u64 = 1_000_000_000;
/// Longest time before the first event, seconds: a pipe reorders by far less.
const LONGEST_BEFORE_S: u64 = 60;
/// Times of text are counted from here, so that those before the first event are above zero.
pub(super) const BEGIN_NS: u64 = LONGEST_BEFORE_S * NS_PER_S;
/// Split requests that are followed at once.
const MOST_SPLITS: usize = 4096;
/// Parts of one split request.
const MOST_PARTS: usize = 4096;
/// Commands whose completion is awaited, by device.
const MOST_COMMANDS: usize = 1024;
/// Failed completions that are remembered.
const MOST_FAILED: usize = 64;

/// Whether an event is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventNews {
    /// An event.
    New,
    /// A repetition of one.
    Repeated,
}

/// The memory of earlier lines.
#[derive(Debug, Default)]
pub(super) struct TextRepair {
    splits: SplitRequests,
    /// Bytes of the commands that are at each device, in order.
    commands: FxHashMap<u32, VecDeque<u32>>,
    /// Device and sector of the last completions with an error.
    failed: VecDeque<(u32, u64)>,
}

impl TextRepair {
    /// Completes `event`.
    pub(super) fn event(&mut self, event: &mut TextEvent) -> EventNews {
        let record = &mut event.record;
        if event.tool == TextTool::Blkparse {
            record.time = unwrapped(record.time);
        }
        let key = (record.device, record.sector);
        if event.is_error_event && self.failed.contains(&key) {
            return EventNews::Repeated;
        }
        if record.is_notify() {
            return EventNews::New;
        }
        if record.kind() == Some(Action::Complete) && record.error != 0 {
            self.failed.push_back(key);
            if self.failed.len() > MOST_FAILED {
                self.failed.pop_front();
            }
        }
        match record.categories & c::PC {
            0 => self.splits.event(record, &event.payload),
            _ => self.command(record),
        }
        EventNews::New
    }

    /// Sets the bytes of a command's completion, which does not tell them: those of the first open
    /// one.
    fn command(&mut self, record: &mut TraceRecord) {
        let open = self.commands.entry(record.device).or_default();
        match record.kind() {
            Some(Action::Issue) if open.len() < MOST_COMMANDS => open.push_back(record.bytes),
            Some(Action::Complete | Action::Requeue) if record.bytes == 0 => {
                record.bytes = open.pop_front().unwrap_or(0);
            }
            _ => {}
        }
    }
}

/// The time with a begin before the first event; see [`WRAPPED_S`].
fn unwrapped(time_ns: u64) -> u64 {
    let (second, rest) = (time_ns / NS_PER_S, time_ns % NS_PER_S);
    let is_wrapped = (WRAPPED_S - LONGEST_BEFORE_S + 1..=WRAPPED_S).contains(&second);
    if !is_wrapped {
        return time_ns.saturating_add(BEGIN_NS);
    }
    // 2^64 ns end in the middle of a second.
    let end_ns = WRAPPED_S * NS_PER_S + u64::MAX % NS_PER_S + 1;
    let before_ns = end_ns.saturating_sub(second * NS_PER_S + rest);
    BEGIN_NS.saturating_sub(before_ns)
}

/// Requests that were split, to undo how blkparse 1.3.0 prints their completions: at the sector of
/// the whole, as long as all parts that completed so far.
#[derive(Debug, Default)]
struct SplitRequests {
    /// The first sector of the whole, by device and first sector of what was left after a split.
    origins: FxHashMap<(u32, u64), u64>,
    wholes: FxHashMap<(u32, u64), SplitWhole>,
}

#[derive(Debug, Default)]
struct SplitWhole {
    /// Parts at the device: sector and bytes.
    parts: VecDeque<(u64, u32)>,
    /// Bytes that completed.
    done: u32,
}

impl SplitRequests {
    fn event(&mut self, record: &mut TraceRecord, payload: &[u8]) {
        let at = (record.device, record.sector);
        match record.kind() {
            Some(Action::Split) => self.split(at, payload),
            _ if self.wholes.is_empty() => {}
            Some(Action::Queue) if !self.origins.contains_key(&at) => {
                self.wholes.remove(&at);
            }
            Some(Action::Issue) => {
                let start = self.origins.get(&at).copied().unwrap_or(at.1);
                if let Some(whole) = self.wholes.get_mut(&(at.0, start))
                    && whole.parts.len() < MOST_PARTS
                {
                    whole.parts.push_back((at.1, record.bytes));
                }
            }
            Some(Action::Complete) => self.complete(record),
            _ => {}
        }
    }

    fn split(&mut self, at: (u32, u64), payload: &[u8]) {
        let Some(rest) = payload.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)) else {
            return;
        };
        if self.origins.len() >= MOST_SPLITS || self.wholes.len() >= MOST_SPLITS {
            self.origins.clear();
            self.wholes.clear();
        }
        let start = self.origins.get(&at).copied().unwrap_or(at.1);
        self.wholes.entry((at.0, start)).or_default();
        self.origins.insert((at.0, rest), start);
    }

    /// Finds the part that completed: blkparse up to 1.2.0 prints it as it was issued.
    fn complete(&mut self, record: &mut TraceRecord) {
        let at = (record.device, record.sector);
        let start = self.origins.get(&at).copied().unwrap_or(at.1);
        let Some(whole) = self.wholes.get_mut(&(at.0, start)) else { return };
        let grown = record.bytes.saturating_sub(whole.done);
        let position = |wanted: &dyn Fn(u64, u32) -> bool| {
            whole.parts.iter().position(|(sector, bytes)| wanted(*sector, *bytes))
        };
        let same = position(&|sector, bytes| sector == at.1 && bytes == record.bytes);
        let found = same.or_else(|| position(&|_, bytes| at.1 == start && bytes == grown));
        if let Some((sector, bytes)) = found.and_then(|index| whole.parts.remove(index)) {
            (record.sector, record.bytes) = (sector, bytes);
            whole.done = whole.done.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::text_events::parse;

    #[test]
    fn times_before_the_first_event() {
        let seconds = |whole: u64, rest: u64| unwrapped(whole * NS_PER_S + rest);
        assert_eq!(seconds(0, 45_379), BEGIN_NS + 45_379);
        assert_eq!(seconds(1_266_874_889, 709_450_585), BEGIN_NS - 101_031);
        assert_eq!(seconds(1_266_874_888, 709_551_616), BEGIN_NS - NS_PER_S);
        assert_eq!(seconds(1_266_874_890, 0), BEGIN_NS + 1_266_874_890 * NS_PER_S);
    }

    /// The range of each completion among `lines`.
    fn completed(lines: &[&str]) -> Vec<(u64, u32)> {
        let mut repair = TextRepair::default();
        let events = lines.iter().map(|line| parse(line).unwrap());
        let repaired = events.map(|mut event| {
            repair.event(&mut event);
            event.record
        });
        let ends = repaired.filter(|repaired| repaired.kind() == Some(Action::Complete));
        ends.map(|end| (end.sector, end.bytes / 512)).collect()
    }

    #[test]
    fn parts_of_split_requests_complete_as_they_were_issued() {
        let begin = [
            "8,32 1 1 0.000000000 34 Q R 0 + 24 [fio]",
            "8,32 1 2 0.000000001 34 X R 0 / 8 [fio]",
            "8,32 1 3 0.000000002 34 X R 8 / 16 [fio]",
            "8,32 1 4 0.000000003 34 D R 0 + 8 [fio]",
            "8,32 1 5 0.000000004 34 D R 8 + 8 [fio]",
            "8,32 1 6 0.000000005 34 D R 16 + 8 [fio]",
        ];
        let parts = [(0, 8), (8, 8), (16, 8)];
        for ends in [["0 + 8", "0 + 16", "0 + 24"], ["0 + 8", "8 + 8", "16 + 8"]] {
            let ends = ends.map(|range| format!("8,32 1 7 0.000000009 34 C R {range} [0]"));
            let lines: Vec<&str> =
                begin.iter().copied().chain(ends.iter().map(String::as_str)).collect();
            assert_eq!(completed(&lines), parts);
        }
    }
}
