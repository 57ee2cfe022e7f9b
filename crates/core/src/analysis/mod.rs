//! From batches to a [`Summary`]: one pass, in bounded memory, the same whatever the source.
//!
//! | where | what lives there |
//! |---|---|
//! | [`summarize`] | a source read to its end |
//! | [`Summarizer`] | the pass: each request goes to its device, its owners and its stream |
//! | [`summary`], `usage` | the result, which every view shows and every rule reads |
//! | `filtered` | what is shown of a filtered watch, and what it is judged by |
//! | [`axes`] | directions and intervals, which figures are kept apart by |
//! | [`intervals`] | the same figures for each interval of a source |
//! | [`histograms`] | how long requests took, by device, flags and process |
//! | [`latency`], [`bins`] | mergeable histograms; the same as coarse as a screen needs them |
//! | [`samples`] | counters and gauges over time |
//! | [`plots`] | what is drawn: by latency, by time, by place on the device |
//! | [`patterns`] | how a load behaves, for the diagnosis |
//! | `life` | what the columns of one record say about its times |
//! | `device`, `busy`, `streams` | one device's sums, its busy time, its sequential share |
//! | [`activity`], [`cache`] | what each process did; the page cache |
//! | [`stages`] | captures of single events: their stages, and btt's figures |
//! | [`waits`] | where threads waited: classes of kernel functions, and the ledger |
//! | `blame` | who made whom wait |
//! | [`files`] | what processes did with files, folded into patterns |
//! | `attribution`, `bounded`, `stacks` | who is charged, in how much memory |
//! | `readings`, `report`, `rows`, `tables`, `counters`, `settings` | from sums to the summary |
//!
//! What does not belong here: naming causes, and how anything looks.

pub mod activity;
mod attribution;
pub mod axes;
mod below;
pub mod bins;
mod blame;
mod bounded;
mod busy;
pub mod cache;
mod counters;
mod device;
pub mod files;
mod filtered;
pub mod histograms;
pub mod intervals;
pub mod latency;
pub(crate) mod life;
mod own;
pub mod patterns;
pub mod plots;
mod readings;
mod report;
mod rows;
pub mod samples;
mod settings;
mod stacks;
pub mod stages;
mod streams;
mod summarize;
mod summarizer;
pub mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod usage;
pub mod waits;

pub(crate) use usage::NOT_IN_DATA;

pub use axes::{ByDirection, ByInterval, Direction, Interval};
pub use filtered::{Filtered, Summaries};
pub use latency::Latencies;
pub use summarize::summarize;
pub use summarizer::{MAX_DEVICES, Summarizer};
pub use summary::Summary;
