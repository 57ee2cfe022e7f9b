//! Screens and JSON. A view never computes: every figure comes from an
//! [`iowhy_analysis::Summary`], which is the same for a live watch, a recording and an
//! imported capture.
//!
//! | where | what |
//! |---|---|
//! | [`text`] | the first screen |
//! | [`top`] | the live screen of `iowhy top` |
//! | [`interval`] | a screen for each interval: `iowhy stat`, `iowhy latency` … |
//! | [`json`] | the complete report as JSON |
//! | [`otlp`] | OpenTelemetry's form: metrics and log records |
//! | [`brief`] | the most important parts in 8 kB of JSON |
//! | [`flame`] | folded stacks as a flame graph |
//! | [`diff`] | two watches compared |
//! | [`fidelity`] | a reproduction and its original |
//! | [`mod@html`] | a page in one file, with charts |
//! | [`held`] | which processes hold which files open |
//! | [`opens`] | a line for each open |
//! | [`probe`] | the results of a short benchmark of a device |
//! | [`rounds`] | rounds without and with a change |
//! | [`stages`] | the stages of requests, as btt has them |
//! | [`explain`] | a page about a cause |
//! | [`check`] | what iowhy can collect on this machine |
//! | [`schema`] | the JSON Schema of what `--json` prints |
//! | [`style`] | width, colour, character set, and how to choose them |
//! | [`table`] | a column is defined once: heading, unit, sentence, value |
//! | [`fold`] | wrapping text without breaking commands |
//! | [`human`], [`escape`] | readable numbers; names that are safe for a terminal |
//! | [`mod@reference`] | `docs/screen.md`, from the definitions of the columns |
//!
//! What does not belong here: figures (crate `iowhy-analysis`), printing and exit codes (the
//! binary).
#![forbid(unsafe_code)]

pub mod brief;
pub mod check;
pub mod diff;
pub mod escape;
pub mod explain;
pub mod fidelity;
pub mod flame;
pub mod fold;
pub mod held;
pub mod html;
pub mod human;
pub mod interval;
pub mod json;
pub mod opens;
pub mod otlp;
pub mod probe;
pub mod reference;
pub mod rounds;
pub mod schema;
pub mod stages;
pub mod style;
pub mod table;
pub mod text;
pub mod top;
