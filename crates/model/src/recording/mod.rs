//! Recordings: directories of Parquet tables, written and read. The only place that knows Parquet.
//!
//! ```text
//! DIR/recording.json                  model::Environment: host, kernel, clocks, devices, losses
//! DIR/requests/00000001.parquet       requests of the first seconds
//! DIR/request_parts/00000001.parquet  their parts, in the same order
//! DIR/processes/ stacks/ samples/ …   likewise, if there is data
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`RecordingWriter`] | batches into segments, within limits of memory and time |
//! | [`RecordingRing`] | the last minutes of a watch in memory, to be saved when asked |
//! | [`RecordingReader`] | a recording as a [`crate::source::Source`] |
//! | [`RecordingAhead`] | the same, read on a thread of its own |
//! | [`RecordingError`] | what can go wrong, with the file and a hint |
//! | [`TABLES`] | which tables there are |
//! | [`reference()`] | the page that documents all of it, made from the definitions |
//! | [`bounds`] | what a cell may say: larger numbers are cut, here at the door |
//! | [`cut`], [`remove_round`] | a few minutes of a recording, and a recording without its oldest |
//! | `segment`, `files` | one file: its name, its checksum; files that other programs named |
//! | `chunk`, `encode`, `statistics` | a column's rows as Parquet's bytes, and their statistics |
//! | `cursor`, `round` | a file's rows as columns; segments that were written together |
//! | `cells`, `texts`, `runs` | a chunk's rows from Parquet's bytes |
//! | `schema` | Parquet's schema from a table's columns |
//! | `manifest` | `recording.json` |
//!
//! What does not belong here: the meaning and the origin of rows.

mod ahead;
pub mod bounds;
mod budget;
mod cells;
mod chunk;
mod cursor;
mod encode;
mod error;
mod files;
mod manifest;
mod reader;
mod reference;
mod ring;
mod round;
mod rounds;
mod runs;
mod schema;
mod segment;
mod statistics;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod writer;

pub use ahead::RecordingAhead;
pub use budget::Budget;
pub use error::{ErrorCause, RecordingError};
pub use reader::RecordingReader;
pub use reference::reference;
pub use ring::{RecordingRing, RecordingRingLimits, RingSnapshot, SavedSpan};
pub use rounds::{OPEN_ROUND, RoundBytes, add_open_round, cut, remove_round, round_bytes};
pub use tables::{TABLES, TableInfo};
pub use writer::{RecordingWriter, SegmentLimits};
