//! What processes did with files, over the whole watch: the largest users first, files that differ
//! only by a number or a name as one pattern.
//!
//! What does not belong here: which requests they caused (see [`super::summary`]).

mod fold;
pub mod pattern;
mod tally;

pub use fold::fold;
pub use tally::{Activity, ActivityRow, Tally};
