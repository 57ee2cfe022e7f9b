//! The recording: a directory of Parquet tables, in and out. The only place that knows Arrow and
//! Parquet.
//!
//! ```text
//! DIR/recording.json            model::Environment: host, kernel, clocks, devices, settings, losses
//! DIR/requests/00000001.parquet the first seconds' requests
//! DIR/request_parts/00000001.parquet  their parts, in the same order
//! DIR/processes/ stacks/ samples/ events/   likewise, where there is anything
//! ```
//!
//! | where | what lives there |
//! |---|---|
//! | [`Writer`] | batches into segments, within limits of memory and time |
//! | [`Reader`] | a recording as a [`crate::source::Source`] |
//! | [`Error`] | what can go wrong, with the file and a hint |
//! | [`TABLES`] | which tables there are |
//! | [`reference()`] | the page that documents all of it, made from the definitions |
//! | `segment` | one file: its name, its checksum |
//! | `chunk`, `encode`, `statistics` | a column's rows as Parquet's bytes, and what is said of them |
//! | `cursor`, `round` | a file's rows as columns; what was written together, read together |
//! | `schema` | Parquet's schema from a table's columns |
//! | `manifest` | `recording.json` |
//!
//! What does not belong here: what rows mean, and where they come from.

mod budget;
mod chunk;
mod cursor;
mod encode;
mod error;
mod manifest;
mod reader;
mod reference;
mod round;
mod schema;
mod segment;
mod statistics;
mod tables;
mod writer;

pub use budget::Budget;
pub use error::{Cause, Error};
pub use reader::Reader;
pub use reference::reference;
pub use tables::{TABLES, TableInfo};
pub use writer::{Limits, Writer};
