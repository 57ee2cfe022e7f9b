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
