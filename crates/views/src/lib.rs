//! What iowhy's answers look like. A view never computes: every figure comes from a
//! [`iowhy_core::analysis::Summary`], which a live watch, a recording and an imported capture give
//! alike; a terminal UI or a page would read the same.
//!
//! | where | what lives there |
//! |---|---|
//! | [`text`] | the first screen |
//! | [`interval`] | a screen for each interval: `iowhy stat`, `iowhy latency` … |
//! | [`json`] | everything, for programs |
//! | [`brief`] | what matters, in 8 kB of JSON |
//! | [`flame`] | folded stacks as a flame graph |
//! | [`diff`] | two watches beside each other |
//! | [`held`] | who holds which files open |
//! | [`opens`] | a line for each open |
//! | [`probe`] | what a short test of a device showed |
//! | [`plot`] | latency, offsets and rates as SVG and PNG |
//! | [`stages`] | the stages of requests, as btt has them |
//! | [`explain`] | a page about a cause |
//! | [`check`] | what this machine lets iowhy see |
//! | [`style`] | width, colour, character set, and how to choose them |
//! | [`table`] | a column is defined once: heading, unit, sentence, value |
//! | [`fold`] | texts in lines, with whole commands |
//! | [`human`], [`escape`] | numbers and names as a person can read and a terminal can bear |
//! | [`mod@reference`] | `docs/screen.md`, from the definitions of the columns |
//!
//! What does not belong here: figures (crate `iowhy-core`), printing and exit codes (the binary).
#![forbid(unsafe_code)]

pub mod brief;
pub mod check;
pub mod diff;
pub mod escape;
pub mod explain;
pub mod flame;
pub mod fold;
pub mod held;
pub mod human;
pub mod interval;
pub mod json;
pub mod opens;
pub mod plot;
pub mod probe;
pub mod reference;
pub mod stages;
pub mod style;
pub mod table;
pub mod text;
