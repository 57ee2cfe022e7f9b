//! blktrace's binary records, protocols 7 and 8, in both byte orders, damaged or not, and text
//! that becomes such records.
//!
//! | where | what |
//! |---|---|
//! | [`action`] | actions, categories, the rwbs text |
//! | [`record`] | one decoded record and batches of them |
//! | [`reader`] | records out of one stream of bytes, with resynchronisation |
//! | [`input`] | which files belong to a capture |
//! | [`mod@encode`] | records as bytes |
//! | [`capture`] | all streams of a capture merged by time |
//! | [`writer`] | captures out of rows of the `events` table |
//! | [`stream`] | one stream, read ahead, checked and put in order |
//! | `tournament` | which stream is next |
//! | [`text_events`] | blkparse's, ftrace's and perf's text, read as such records |
//! | [`warning`] | what was lost, where, how often |
//!
//! What does not belong here: pairing events into requests (see [`crate::stages`]) and
//! writing the text of events (see [`crate::events`]).

pub mod action;
pub mod capture;
pub mod encode;
pub mod input;
pub mod line_format;
pub mod reader;
pub mod record;
pub mod stream;
pub mod text_events;
mod tournament;
pub mod warning;
pub mod writer;

pub use action::{Action, Rwbs, category};
pub use capture::{CaptureError, CaptureOptions, Order, TraceCapture};
pub use encode::encode;
pub use input::Inputs;
pub use line_format::{EventFormat, FormatError};
pub use reader::RecordReader;
pub use record::{RecordBatch, TraceRecord};
pub use warning::{Warning, WarningKind, Warnings};
pub use writer::CaptureWriter;
