//! The nouns of block I/O, their recordings, and what every other crate needs of both; without
//! kernel interfaces, terminal or printing.
//!
//! A column of a recording is one line of a [`table!`](macro@crate::table) here, and everything
//! else about it follows from that line.
//!
//! | where | what |
//! |---|---|
//! | [`request`], [`mod@process`], [`stack`], [`sample`], … | the nouns, one file for each |
//! | [`wait`] | waits, and what one thread's kernel stack and requests say of them |
//! | [`mod@table`] | `table!`: one line per column |
//! | [`environment`], [`device`] | what a recording says of the watch, its host and its disks |
//! | [`object`] | `object!`: one line per field of that |
//! | [`source`] | the trait of live, recorded, imported and scripted data |
//! | [`recording`] | directories of Parquet tables, in and out; the only place that knows Parquet |
//! | [`script`] | scripted requests for tests and scenarios |
//! | [`bounded_map`] | hash maps whose memory is bounded |
//! | [`compact_sort`] | sorts of tables, in little code |
//! | [`sort_window`] | rows put in order of time, in bounded memory |
//! | [`held_back`] | processes and stacks that no row refers to, in a watch of some devices |
//! | [`figures`], [`quantities`] | numbers in sentences, nouns that agree with them, units |
//! | [`command`] | commands in texts, ready to be pasted |
//! | [`output_path`] | hints for outputs that cannot be created |
//! | [`path_patterns`] | patterns of paths, which stand for many files |
//! | [`smartctl`] | what `smartctl --json` prints of a drive, read |
//!
//! What does not belong here: where values come from (crate `iowhy-capture`), and what they add up
//! to (crate `iowhy-analysis`).
#![forbid(unsafe_code)]

pub mod block;
pub mod bounded_map;
pub mod cgroup;
pub mod clock;
mod column;
pub mod command;
pub mod compact_sort;
pub mod device;
pub mod environment;
pub mod event;
pub mod figures;
pub mod file;
pub mod filter;
pub mod health;
pub mod held_back;
pub mod loss;
pub mod metric;
pub mod names;
pub mod object;
pub mod open;
pub mod output_path;
pub mod path_patterns;
pub mod process;
pub mod quantities;
pub mod recording;
pub mod request;
pub mod sample;
pub mod script;
pub mod shared;
pub mod smartctl;
pub mod sort_window;
pub mod source;
pub mod stack;
pub mod table;
pub mod wait;
pub mod workload;

pub use block::{Operation, Origin, Status};
pub use environment::Environment;
pub use event::Event;
pub use file::{FileActivity, FileKind};
pub use filter::Filter;
pub use loss::Losses;
pub use metric::Metric;
pub use names::{Name, Names};
pub use open::Open;
pub use process::Process;
pub use request::{Request, RequestPart};
pub use sample::{Sample, Scope};
pub use stack::Stack;
pub use wait::{KnownBy, Wait, WaitChain, WaitClass, WaitRequest};
pub use workload::{WorkloadFilter, WorkloadNames};
