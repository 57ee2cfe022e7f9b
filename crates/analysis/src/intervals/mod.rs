//! A source in intervals of equal length, each with its own figures.
//!
//! | file | content |
//! |---|---|
//! | `cutter` | which row belongs to which interval, and when one is over |
//! | `open_intervals` | intervals of which rows have come and that are not over |
//! | `counter_readings` | counters: the reading that ends an interval begins the next |
//!
//! What does not belong here: which figures an interval has (see [`Pass`]).

mod counter_readings;
mod cutter;
mod open_intervals;

pub use super::sums::row_consumers::Pass;
pub use cutter::{Cutter, EndedInterval, WantedIntervals};
