//! Where the time of a capture's requests went: the stages between Q and C.
//!
//! | where | what |
//! |---|---|
//! | [`btt`] | btt 1.3.0's figures, its quirks included |
//! | [`pipeline`] | reading on one thread, pairing on another |
//!
//! What does not belong here: reading captures (see [`crate::formats::blktrace`]).

pub mod btt;
pub mod pipeline;
