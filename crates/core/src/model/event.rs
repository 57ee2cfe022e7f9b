//! Every single block event, as blktrace has it; only recorded on request.

use super::names::Name;
use crate::table;

table! {
    /// One row for each block event (only with --events).
    pub struct Event in "events" {
        time_ns: u64 [Nanoseconds] "When it happened.",
        sequence: u64 [None] "Counts the events of one CPU from 1; a gap is a lost event.",
        cpu: u32 [None] "The CPU it happened on.",
        action: u32 [None] "blktrace's action: category << 16 | action number.",
        major: u32 [None] "The device's major number.",
        minor: u32 [None] "The device's minor number.",
        device: Name [None] "The kernel's name of the device.",
        sector: u64 [Sectors] "The first sector.",
        bytes: u64 [Bytes] "Bytes concerned.",
        rwbs: Name [None] "The operation and its flags as blktrace writes them.",
        error: i32 [None] "The error number of a completion, as blktrace has it.",
        pid: u32 [None] "The thread that ran on that CPU at that moment (blktrace's pid).",
        process: Option<Name> [None] "That thread's name.",
        payload: Option<u64> [None] "X: the new sector; U: the number of requests; A: the sector it came from.",
        payload_major: Option<u32> [None] "A: the major number of the device it came from.",
        payload_minor: Option<u32> [None] "A: the minor number of the device it came from.",
    }
}
