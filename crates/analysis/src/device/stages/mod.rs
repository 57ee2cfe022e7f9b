//! The time of requests by stage between Q and C, as btt divides it.
//!
//! | where | what |
//! |---|---|
//! | [`samples`] | the stages, and what was measured of each |
//! | [`statistics`] | what bios and requests amount to, by device and process |
//! | [`requests`] | requests that were joined already, of a recording or a live watch |
//! | [`summary`] | the figures that are shown |
//! | [`periods`] | when requests were at a device |
//! | [`devices`] | devices by number |
//!
//! What does not belong here: single events, and btt's own figures (crate `iowhy-blktrace`).

pub mod devices;
pub mod periods;
pub mod requests;
pub mod samples;
pub mod statistics;
pub mod summary;

pub use periods::BusyPeriods;
pub use requests::RequestStages;
pub use samples::{Average, Stage, StageSamples, StageSet};
pub use statistics::{EndedRequest, RangeEvent, StageTotals};
pub use summary::{StagesSummary, Unmatched};
