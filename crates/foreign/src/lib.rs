//! Summaries and logs of other tools as a [`iowhy_model::source::Source`]: the data that people
//! have when they ask for help. They cover devices, processes and the machine by the interval;
//! hardly any has single requests.
//!
//! | where | what |
//! |---|---|
//! | [`kind`] | which tool wrote it, by content |
//! | [`import`] | the source: lines in, rows and an environment out |
//! | [`book`] | counters that grow by the rates of each interval |
//! | [`text`] | lines of all tools that print tables, in any mixture |
//! | [`json`] | sysstat's, fio's, smartctl's and nvme's JSON |
//! | [`fio_log`] | fio's logs of latencies, bandwidth and requests per second |
//! | `limits` | limits of many files, each said once |
//! | `lines`, `unpack` | lines of bounded length, and decompressed bytes that are no bomb |
//! | [`archive`] | a sosreport or supportconfig: the files in it that tell something |
//!
//! What does not belong here: block events (crate `iowhy-blktrace`), and judging what was read
//! (see `iowhy_diagnosis`).
#![forbid(unsafe_code)]

pub mod archive;
pub mod book;
pub mod fio_log;
pub mod import;
pub mod json;
pub mod kind;
mod limits;
mod lines;
pub mod text;
mod unpack;

pub use import::ForeignImport;
pub use kind::ForeignKind;
