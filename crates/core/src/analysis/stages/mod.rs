//! Where the time of a capture's requests went: the stages between Q and C.
//!
//! | where | what |
//! |---|---|
//! | [`pairing`] | events joined to requests and bios, over [`slots`] and [`table`] |
//! | [`statistics`] | what the joined requests amount to |
//! | [`summary`] | the figures that are shown |
//! | [`btt`] | btt 1.3.0's figures, its quirks included |
//! | [`pipeline`] | reading on one thread, pairing on another |
//!
//! What does not belong here: reading captures (see [`crate::formats::blktrace`]).

pub mod btt;
pub mod pairing;
pub mod pipeline;
pub mod slots;
pub mod statistics;
pub mod summary;
pub mod table;

pub use pairing::{Done, Pairer, Sink, Unmatched};
pub use statistics::{Stage, Stages};
pub use summary::StagesSummary;
