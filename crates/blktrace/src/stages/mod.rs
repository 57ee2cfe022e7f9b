//! Single events joined to requests, and the stages of their time.
//!
//! | where | what |
//! |---|---|
//! | [`pairing`] | events joined to requests and bios, over [`slots`] and [`table`] |
//! | [`endings`] | which ends of requests a capture holds at all |
//! | [`analysis`] | what was joined, handed to [`iowhy_analysis::stages`] |
//! | [`pipeline`] | reading on one thread, pairing on another |
//!
//! What does not belong here: reading captures (see [`crate::trace`]) and the figures themselves
//! (see [`iowhy_analysis::stages`]).

pub mod analysis;
pub mod endings;
pub mod pairing;
pub mod pipeline;
pub mod slots;
pub mod table;

pub use analysis::StageAnalysis;
pub use pairing::{DoneRequest, PairSink, Pairer};
