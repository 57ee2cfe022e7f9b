//! Other programs' formats.
//!
//! | where | what |
//! |---|---|
//! | [`export`] | from any [`iowhy_model::source::Source`] to one of the formats below |
//! | [`perfetto`] | a trace for <https://ui.perfetto.dev>: a track for each device's queue |
//! | [`collapsed`] | stacks as flame graph programs read them |
//! | [`pprof`] | a profile of waits and requests by stack |
//! | [`csv`] | the rows of one table |
//! | `stacks` | the stacks of an export, bounded |
//!
//! What does not belong here: iowhy's own recording (see [`iowhy_model::recording`]), what the rows
//! mean together (see [`crate`]), and formats of block events (crate `iowhy-blktrace`).

pub mod collapsed;
pub mod csv;
pub mod export;
pub mod perfetto;
pub mod pprof;
mod stacks;
