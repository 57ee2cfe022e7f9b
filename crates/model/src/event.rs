//! Single block events, as in blktrace; only recorded on request.

use super::names::Name;
use crate::table;

table! {
    /// One row for each block event (only with --events).
    pub struct Event in "events" {
        time_ns: u64 [Nanoseconds] "The time of the event.",
        sequence: u64 [None] "Counts the events of one CPU from 1; a gap is a lost event.",
        cpu: u32 [None] "The CPU of the event.",
        action: u32 [None] "blktrace's action: category << 16 | action number.",
        major: u32 [None] "The device's major number.",
        minor: u32 [None] "The device's minor number.",
        device: Name [None] "The kernel's name of the device.",
        sector: u64 [Sectors] "The first sector.",
        bytes: u64 [Bytes] "Number of bytes.",
        rwbs: Name [None] "The operation and its flags as blktrace writes them.",
        error: i32 [None] "The error number of a completion, as in blktrace.",
        pid: u32 [None] "The thread that was running on that CPU (blktrace's pid).",
        process: Option<Name> [None] "That thread's name.",
        payload: Option<u64> [None] "X: the new sector; U: the number of requests; A: the original \
                                     sector.",
        payload_major: Option<u32> [None] "A: the major number of the original device.",
        payload_minor: Option<u32> [None] "A: the minor number of the original device.",
    }
}

/// The categories of an event: the bits above the action number.
pub mod category {
    /// A read; also set on nothing but reads.
    pub const READ: u32 = 1;
    /// A write, a discard, a zone append.
    pub const WRITE: u32 = 1 << 1;
    /// A cache flush before the data.
    pub const FLUSH: u32 = 1 << 2;
    /// Somebody waits for it.
    pub const SYNC: u32 = 1 << 3;
    /// Queueing and merging.
    pub const QUEUE: u32 = 1 << 4;
    /// Given back by the driver.
    pub const REQUEUE: u32 = 1 << 5;
    /// Given to the driver.
    pub const ISSUE: u32 = 1 << 6;
    /// Completed.
    pub const COMPLETE: u32 = 1 << 7;
    /// Sent by a file system.
    pub const FS: u32 = 1 << 8;
    /// A pass-through command; its payload is the command block.
    pub const PC: u32 = 1 << 9;
    /// Not an event of a device but a note about the trace.
    pub const NOTIFY: u32 = 1 << 10;
    /// Readahead.
    pub const AHEAD: u32 = 1 << 11;
    /// File-system metadata.
    pub const META: u32 = 1 << 12;
    /// A discard.
    pub const DISCARD: u32 = 1 << 13;
    /// A driver's own data.
    pub const DRIVER_DATA: u32 = 1 << 14;
    /// Force unit access.
    pub const FUA: u32 = 1 << 15;
    /// Protocol 8: zone append.
    pub const ZONE_APPEND: u32 = 1 << 16;
    /// Protocol 8: zone reset.
    pub const ZONE_RESET: u32 = 1 << 17;
    /// Protocol 8: reset of all zones.
    pub const ZONE_RESET_ALL: u32 = 1 << 18;
    /// Protocol 8: zone finish.
    pub const ZONE_FINISH: u32 = 1 << 19;
    /// Protocol 8: zone open.
    pub const ZONE_OPEN: u32 = 1 << 20;
    /// Protocol 8: zone close.
    pub const ZONE_CLOSE: u32 = 1 << 21;
    /// Only in text: writing of zeroes, which binary records call a write.
    pub const WRITE_ZEROES: u32 = 1 << 30;
    /// Only in text of kernels before 2.6.37: a barrier, whose bit is [`FLUSH`] now.
    pub const BARRIER: u32 = 1 << 31;
}
