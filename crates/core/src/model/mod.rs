//! The data model. A column of a recording is one line of a [`table!`](crate::table) here, and
//! everything else about it follows from that line.
//!
//! What does not belong here: where values come from, and their analysis.

pub mod block;
pub mod cgroup;
pub mod clock;
mod column;
pub mod environment;
pub mod event;
pub mod file;
pub mod filter;
pub mod health;
pub mod loss;
pub mod metric;
pub mod names;
pub mod open;
pub mod process;
pub mod request;
pub mod sample;
pub mod shared;
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
