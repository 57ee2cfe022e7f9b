//! The figures of a device: its sums, its busy time, its sequential share, the kernel's own
//! counters, and the latency and stages of its requests.
//!
//! | file | content |
//! |---|---|
//! | `totals` | sums of one device, by direction |
//! | `busy_time` | time with at least one request, and with how many |
//! | `streams` | which requests are sequential |
//! | `kernel_counters` | what `/proc/diskstats` counts |
//! | `changed_settings` | settings and limits that changed |
//! | `latency` | durations as a mergeable histogram |
//! | [`latency_bins`] | a histogram with the coarse bins of a screen |
//! | [`histograms`] | latency by device, flags and process |
//! | [`stages`] | where the time between Q and C went, as btt divides it |
//!
//! What does not belong here: who used the device (`super::charge`), and its load over time, which
//! only the diagnosis reads (`super::patterns`).

pub mod busy_time;
pub mod changed_settings;
pub mod histograms;
pub mod kernel_counters;
pub mod latency;
pub mod latency_bins;
pub mod stages;
pub mod streams;
pub mod totals;
