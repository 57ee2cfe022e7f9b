//! The data model, analysis and diagnosis of block I/O, without kernel interfaces, terminal or
//! printing.
//!
//! | where | what |
//! |---|---|
//! | [`model`] | the nouns: requests, parts, processes, stacks, samples, losses; `table!` |
//! | [`source`] | the trait of live, recorded, imported and scripted data |
//! | [`bounded_map`] | hash maps whose memory is bounded |
//! | [`held_back`] | processes and stacks that no row refers to, in a watch of some devices |
//! | [`sort_window`] | rows put in order of time, in bounded memory |
//! | [`command`] | commands in texts, ready to be pasted |
//! | [`compact_sort`] | sorts of tables, in little code |
//! | [`fidelity`] | how like the original a reproduction is |
//! | [`figures`] | numbers in sentences, and nouns that agree with them |
//! | [`formats`] | exports in other programs' formats: Perfetto, collapsed stacks, CSV |
//! | [`recording`] | the directory of Parquet tables, in and out; the only place that knows Arrow |
//! | [`analysis`] | histograms, streams, shares: from batches to a [`analysis::Summary`] |
//! | [`diagnosis`] | rules: from a summary to named causes |
//! | [`moments`] | a watch second by second, with the findings of its last seconds |
//! | [`diff`] | two summaries compared: environment, load, stages |
//! | [`output_path`] | hints for outputs that cannot be created |
//! | [`rounds`] | two kinds of rounds compared, with confidence intervals |
//! | [`redact`] | names replaced by placeholders, so that a recording can be given to others |
//! | [`script`] | scripted requests for tests and scenarios |
//!
//! # Examples
//!
//! Read a recording, summarize and diagnose it:
//!
//! ```
//! use iowhy_core::analysis::summarize;
//! use iowhy_core::diagnosis::diagnose;
//! use iowhy_core::recording::RecordingReader;
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/recording");
//!
//! let summary = summarize(&mut RecordingReader::open(path.as_ref())?)?;
//! let diagnosis = diagnose(&summary);
//! let first = &diagnosis.findings[0];
//! println!("{}: {}", first.cause, first.sentence);
//! assert_eq!(first.cause, "slow-async");
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
//! What does not belong here: reading `/proc` or BPF (crate `iowhy-capture`), single block events
//! in blktrace's formats (crate `iowhy-blktrace`), drawing anything (crate `iowhy-views`), parsing
//! arguments (crate `iowhy`).
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bounded_map;
pub mod command;
pub mod compact_sort;
pub mod diagnosis;
pub mod diff;
pub mod fidelity;
pub mod figures;
pub mod formats;
pub mod held_back;
pub mod model;
pub mod moments;
pub mod output_path;
pub mod quantities;
pub mod recording;
pub mod redact;
pub mod rounds;
pub mod script;
pub mod sort_window;
pub mod source;
