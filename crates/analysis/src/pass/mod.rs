//! The pass over a source: from batches to a summary.
//!
//! | file | content |
//! |---|---|
//! | `summarizer` | takes batches: each row goes to the rooms that add it up |
//! | `finish`, `report` | the end: sums and the environment become a summary |
//! | `summarize` | reads a source to its end |
//! | `filtered` | the summaries of a filtered watch: shown, and for the diagnosis |
//! | `threads` | parts of the pass on threads of their own |
//!
//! What does not belong here: how any figure is computed; every other room has its own.

pub mod filtered;
pub mod finish;
pub mod report;
pub mod summarize;
pub mod summarizer;
pub mod threads;

pub use filtered::{Filtered, FilteredOnThreads, Summaries};
pub use summarize::summarize;
pub use summarizer::Summarizer;
