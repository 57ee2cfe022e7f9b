//! From sums to the tables of a summary, and tables that are derived from a summary.
//!
//! | file | content |
//! |---|---|
//! | `row_maker`, `fold` | tables of what was charged: folded, ranked, cut, with their shares |
//! | `breakdown`, `writers` | what is behind a line; who writes: the words of both |
//! | [`files`] | file activity, folded into patterns |
//! | `series` | counters and gauges over time |
//! | [`processes`] | I/O by process |
//! | [`page_cache`] | the page cache |
//!
//! What does not belong here: who is charged (`super::charge`), and figures of devices
//! (`super::device`).

pub mod breakdown;
pub mod files;
pub mod fold;
pub mod page_cache;
pub mod processes;
pub mod row_maker;
pub mod series;
pub mod writers;
