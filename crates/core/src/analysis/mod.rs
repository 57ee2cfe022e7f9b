//! From batches to a [`Summary`]: one pass, in bounded memory, the same whatever the source.
//!
//! | where | what |
//! |---|---|
//! | [`summarize`] | reads a source to its end |
//! | [`Summarizer`] | the pass: each request goes to its device, its owners and its stream |
//! | [`summary`], `usage` | the result, which every view shows and every rule reads |
//! | `filtered` | the summaries of a filtered watch: shown, and for the diagnosis |
//! | `threads` | parts of the pass on threads of their own |
//! | [`axes`] | directions and intervals, the axes of figures |
//! | [`intervals`] | the same figures for each interval of a source |
//! | [`histograms`] | latency by device, flags and process |
//! | [`latency`], [`bins`] | mergeable histograms; coarse bins for screens |
//! | [`samples`] | counters and gauges over time |
//! | [`charts`] | data of a page of charts: sums by time and by what can be filtered |
//! | [`patterns`] | patterns of a load, for the diagnosis |
//! | `charger` | who is charged with a request, and what it says of its device |
//! | `life` | the times of one request |
//! | `watch_window` | the interval that a watch covers |
//! | `device`, `busy`, `streams` | one device's sums, its busy time, its sequential share |
//! | [`breakdown`], [`moments`] | what is behind a line; a watch second by second |
//! | [`writers`] | calls that write, and what devices moved for them, for days |
//! | [`activity`], [`cache`] | I/O by process; the page cache |
//! | [`stages`] | where the time between Q and C went, as btt divides it |
//! | [`waits`] | where threads waited: classes of kernel functions, and the ledger |
//! | `blame` | whose requests delayed whom |
//! | [`files`] | file activity, folded into patterns |
//! | `attribution`, `bounded`, `stacks`, `strata` | who is charged, in bounded memory |
//! | [`Measure`], `calibration` | the sum of rows by their weights, scaled to exact counts |
//! | `readings`, `report`, `rows`, `tables`, `counters`, `settings` | from sums to the summary |
//!
//! What does not belong here: naming causes, and screens.

pub mod activity;
mod attribution;
pub mod axes;
mod below;
pub mod bins;
mod blame;
mod bounded;
pub mod breakdown;
mod busy;
pub mod cache;
mod calibration;
mod charger;
pub mod charts;
mod counters;
mod device;
pub mod files;
mod filtered;
pub mod histograms;
pub mod intervals;
pub mod latency;
pub(crate) mod life;
mod measure;
pub mod moments;
mod open_intervals;
pub mod own;
pub mod patterns;
mod readings;
mod report;
mod rows;
pub mod samples;
mod settings;
mod stacks;
pub mod stages;
mod strata;
mod streams;
mod summarize;
mod summarizer;
pub mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod threads;
mod usage;
pub mod waits;
mod watch_window;
pub mod writers;

pub use axes::{ByDirection, ByInterval, Direction, Interval};
pub use filtered::{Filtered, FilteredOnThreads, Summaries};
pub use latency::Latencies;
pub use measure::Measure;
pub use summarize::summarize;
pub use summarizer::{MAX_DEVICES, Summarizer};
pub use summary::Summary;
pub use usage::NOT_IN_DATA;
