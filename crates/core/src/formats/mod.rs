//! Other programs' formats.
//!
//! | where | what |
//! |---|---|
//! | [`blktrace`] | blktrace's binary captures, in and out |
//! | [`events`] | block events as blkparse prints them |
//! | [`text_events`] | blkparse's and ftrace's text, read back |
//! | [`import`] | a capture as a [`crate::source::Source`] |
//! | [`replay`] | rows of single events as the records that a capture gives |
//! | [`export`] | from any [`crate::source::Source`] to one of the formats below |
//! | [`iolog`] | fio's logs, versions 2 and 3, that `fio --read_iolog` replays |
//! | [`perfetto`] | a trace for <https://ui.perfetto.dev>: a track for each device's queue |
//! | [`collapsed`] | stacks as flame graph programs read them |
//! | [`csv`] | the rows of one table |
//! | `window` | rows put in order of time, in bounded memory |
//!
//! What does not belong here: iowhy's own recording (see [`crate::recording`]) and what the rows
//! mean together (see [`crate::analysis`]).

pub mod blktrace;
pub mod collapsed;
pub mod csv;
pub mod events;
pub mod export;
pub mod import;
pub mod iolog;
pub mod perfetto;
pub mod replay;
pub mod text_events;
pub(crate) mod window;
