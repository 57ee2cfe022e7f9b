//! Every single block event, as blktrace has it.
//!
//! The events of a request are programs of their own, so that a watch without them pays nothing.

pub mod decode;
