//! From batches to a [`Summary`]: one pass, in bounded memory, the same whatever the source.
//!
//! ```
//! use iowhy_analysis::script::ScriptSummary;
//! use iowhy_model::script::Script;
//!
//! let mut script = Script::new(10);
//! script.read("sda", 4096).by(7, "postgres").direct(300, 500, 80_000).add();
//! assert_eq!(script.summary().watch.requests, 1);
//! ```
//!
//! Each room needs only those below it:
//!
//! | room | content |
//! |---|---|
//! | [`intervals`] | the same figures for each interval of a source |
//! | `pass` | reads a source, gives each row to the rooms below, and makes the summary |
//! | `tables` | tables made of what was charged; file activity; counters over time |
//! | `charge` | who is charged with a request: process, file, origin, code path |
//! | [`charts`] | data of a page of charts: sums by time and by what can be filtered |
//! | [`waits`] | where threads waited: classes, the ledger, chains, blame |
//! | `patterns` | patterns of a load, for the diagnosis |
//! | `device` | a device's sums, latency, stages and the kernel's own counters |
//! | `sums` | times of a request, keys, sums by key in bounded memory, calibration |
//! | [`summary`] | the result, which every view shows and every rule reads |
//!
//! Beside them: [`formats`], exports in other programs' formats, and [`script`], the summary of a
//! scripted watch.
//!
//! What does not belong here: naming causes, a watch second by second with its findings (both crate
//! `iowhy-diagnosis`), and screens.
#![forbid(unsafe_code)]

mod charge;
pub mod charts;
mod device;
pub mod formats;
pub mod intervals;
mod pass;
mod patterns;
pub mod script;
pub mod summary;
mod sums;
mod tables;
#[cfg(test)]
mod tests;
pub mod waits;

pub use device::latency::Latencies;
pub use device::{histograms, latency_bins, stages};
pub use pass::{Filtered, FilteredOnThreads, Summaries, Summarizer, summarize};
pub use summary::{ByDirection, ByInterval, Direction, Interval, Measure, Summary};
pub use sums::device_layer::MAX_DEVICES;
pub use sums::own_io;
pub use tables::{files, page_cache, processes};
