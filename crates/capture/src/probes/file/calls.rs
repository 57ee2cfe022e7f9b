//! Single calls: removals, renames and opens, kept until what they refer to has arrived.
//!
//! What does not belong here: what a call does to a row (see [`super::decode`]).

use crate::wire::{self, wire_call, wire_inode};
use zerocopy::FromBytes;

/// Single calls kept until the next read.
const MOST_CALLS: usize = 65_536;

/// A removal, a rename or an open.
#[derive(Debug)]
pub struct FileCall {
    /// Time at which the call ended, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// The call's duration, nanoseconds; 0 if it was not timed.
    pub duration_ns: u64,
    /// A `USE_` constant.
    pub use_kind: u32,
    /// The value that the call returned.
    pub result: i32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The directory that its path begins in.
    pub base: wire_inode,
    /// The file of a successful open; address 0: none.
    pub inode: wire_inode,
    /// Whether it is the second half of a rename: the new name.
    pub second: bool,
    /// The path as the program passed it.
    pub text: String,
}

impl FileCall {
    /// Reads a `wire_call`.
    pub fn from_bytes(bytes: &[u8]) -> Option<FileCall> {
        const HEAD: usize = std::mem::offset_of!(wire_call, text);
        let mut head = [0; size_of::<wire_call>()];
        let given = bytes.len().min(head.len());
        head.get_mut(..given)?.copy_from_slice(bytes.get(..given)?);
        let call = wire_call::ref_from_bytes(&head).ok()?;
        let text = bytes.get(HEAD..HEAD + call.bytes as usize)?;
        Some(FileCall {
            time_ns: call.time_ns,
            duration_ns: call.duration_ns,
            use_kind: call.use_,
            result: call.result,
            pid: call.tgid,
            tid: call.tid,
            base: call.base,
            inode: call.inode,
            second: call.second != 0,
            text: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

/// The calls that are kept.
#[derive(Debug, Default)]
pub struct CallLog {
    /// Removals and renames.
    changes: Vec<FileCall>,
    opens: Vec<FileCall>,
    refused: u64,
}

impl CallLog {
    /// Keeps a call. Returns a removal or rename that finds no room.
    pub fn add(&mut self, call: FileCall) -> Option<FileCall> {
        let is_open = call.use_kind == wire::USE_OPEN;
        let calls = if is_open { &mut self.opens } else { &mut self.changes };
        if calls.len() < MOST_CALLS {
            calls.push(call);
            return None;
        }
        self.refused += 1;
        (!is_open).then_some(call)
    }

    /// Removes and returns the removals and renames until `until_ns`, by time.
    pub fn changes_until(&mut self, until_ns: u64) -> Vec<FileCall> {
        self.changes.sort_by_key(|call| call.time_ns);
        let later = self.changes.partition_point(|call| call.time_ns <= until_ns);
        let later = self.changes.split_off(later);
        std::mem::replace(&mut self.changes, later)
    }

    /// Removes and returns the opens, by time.
    pub fn opens(&mut self) -> Vec<FileCall> {
        let mut opens = std::mem::take(&mut self.opens);
        opens.sort_by_key(|call| call.time_ns);
        opens
    }

    /// Calls that were not kept.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn what_is_done_while_a_table_is_read_waits_for_the_next() {
        let call = |time_ns, second| FileCall {
            time_ns,
            duration_ns: 0,
            use_kind: wire::USE_RENAME,
            result: 0,
            pid: 1,
            tid: 1,
            base: wire_inode::new_zeroed(),
            inode: wire_inode::new_zeroed(),
            second,
            text: String::new(),
        };
        let mut log = CallLog::default();
        for (time_ns, second) in [(30, false), (10, false), (20, true)] {
            assert!(log.add(call(time_ns, second)).is_none());
        }
        let times =
            |calls: Vec<FileCall>| calls.iter().map(|call| call.time_ns).collect::<Vec<u64>>();
        assert_eq!(times(log.changes_until(20)), [10, 20]);
        assert!(log.changes_until(29).is_empty());
        log.add(call(25, false));
        assert_eq!(times(log.changes_until(u64::MAX)), [25, 30]);
    }
}
