//! The live source of iowhy: what the kernel says while a watch runs.
//!
//! | where | what lives there |
//! |---|---|
//! | `bpf/` | the shared header of the wire, the kernel's types, every kernel difference |
//! | `src/probes/` | the BPF programs, a folder for each group that loads or fails on its own |
//! | [`kernel`] | facts about this kernel, asked once |
//! | [`plan`] | which probes, from facts and wishes: pure |
//! | [`privilege`] | capabilities, and what is lost without each |
//! | `loader` | compiled programs, loaded by libbpf |
//! | `settings` | what a watch tells its programs before they are loaded |
//! | [`session`] | attach, read the ring, count what was lost |
//! | `calls`, `file_calls` | system calls by number: what waits need of them, and which use files |
//! | [`changes`] | settings of devices that change while a watch runs |
//! | `counters` | what the programs count on their own, and what it means |
//! | [`snapshot`] | what is there already when a watch begins, and still when it ends |
//! | [`held_files`] | files that processes hold open |
//! | [`reader`] | a process of iowhy's own that reads what may never answer |
//! | [`standing`] | threads that sleep for others when a watch ends, and for whom |
//! | [`uses`] | what programs do with files: which calls, and the tables in the kernel |
//! | [`decode`] | wire records become the model's nouns |
//! | [`host`] | devices, mounts, settings, users, as /proc and /sys tell them |
//! | [`sampler`] | counters of the machine, read once a second |
//! | [`survey`] | what this machine lets iowhy see |
//! | [`locate`] | from a block of a device to its file, and back |
//! | [`live`] | all of it as a [`iowhy_core::source::Source`] |
//!
//! What does not belong here: what the numbers mean, and how they are shown.
#![forbid(unsafe_code)]

mod calls;
pub mod changes;
mod counters;
pub mod decode;
pub mod error;
mod file_calls;
pub mod held_files;
pub mod host;
pub mod kernel;
pub mod live;
mod loader;
pub mod locate;
pub mod plan;
pub mod privilege;
pub mod reader;
pub mod sampler;
pub mod session;
mod settings;
pub mod snapshot;
pub mod standing;
pub mod survey;
pub mod symbols;
pub mod uses;
mod wire;

pub use error::Error;
