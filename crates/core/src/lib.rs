//! What iowhy knows about block I/O, with no kernel, no terminal and no printing in it.
//!
//! | where | what lives there |
//! |---|---|
//! | [`model`] | the nouns: requests, parts, processes, stacks, samples, devices, losses; `table!` |
//! | [`source`] | the trait that live, recorded, imported and scripted data meet at |
//! | [`held_back`] | processes and stacks that no row refers to stay out of a watch of some devices |
//! | [`command`] | commands that a text names, as they can be pasted |
//! | [`figures`] | numbers within sentences, and words that agree with them |
//! | [`formats`] | other programs' formats: blktrace's files, text of blkparse, ftrace and perf; exports |
//! | [`recording`] | the directory of Parquet tables, in and out; the only place that knows Arrow |
//! | [`analysis`] | histograms, streams, shares: from batches to a [`analysis::Summary`] |
//! | [`diagnosis`] | rules: from a summary to named causes |
//! | [`diff`] | two summaries compared: environment, load, stages |
//! | [`place`] | what to do where an output cannot be made |
//! | [`script`] | requests written by hand, for tests and scenarios |
//!
//! # Examples
//!
//! Read a recording, sum it up and diagnose it:
//!
//! ```
//! use iowhy_core::analysis::summarize;
//! use iowhy_core::diagnosis::diagnose;
//! use iowhy_core::recording::Reader;
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/recording");
//!
//! let summary = summarize(&mut Reader::open(path.as_ref())?)?;
//! let diagnosis = diagnose(&summary);
//! let first = &diagnosis.findings[0];
//! println!("{}: {}", first.cause, first.sentence);
//! assert_eq!(first.cause, "fsync-heavy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A scripted watch, as the rules' tests use it:
//!
//! ```
//! use iowhy_core::script::Script;
//!
//! let mut script = Script::new(10);
//! script.read("sda", 4096).by(7, "postgres").direct(300, 500, 80_000).add();
//! assert_eq!(script.summary().watch.requests, 1);
//! ```
//!
//! What does not belong here: reading `/proc` or BPF (crate `iowhy-capture`), drawing anything
//! (crate `iowhy-views`), parsing arguments (crate `iowhy`).
#![forbid(unsafe_code)]

pub mod analysis;
pub mod command;
pub mod diagnosis;
pub mod diff;
pub mod figures;
pub mod formats;
pub mod held_back;
pub mod model;
pub mod place;
pub mod recording;
pub mod script;
pub mod source;
