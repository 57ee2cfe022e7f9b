//! Other programs' formats, read and written: blktrace's records, blkparse's and ftrace's text.
//!
//! What does not belong here: iowhy's own recording (see [`crate::recording`]) and what the events
//! mean together (see [`crate::analysis`]).

pub mod blktrace;
pub mod events;
pub mod import;
pub mod text_events;
