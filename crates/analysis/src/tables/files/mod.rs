//! File activity over the watch: the largest users first; files that differ only by a number or a
//! name are one pattern.
//!
//! What does not belong here: the requests that they caused (see `summary`).

mod tally;

pub use tally::ActivityTally;
