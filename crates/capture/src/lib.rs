//! The live source of iowhy: what the kernel reports during a watch.
//!
//! | where | what lives there |
//! |---|---|
//! | `bpf/` | the shared wire header, the kernel's types, every difference between kernels |
//! | `src/probes/` | the BPF programs, one folder per group that loads or fails as a unit |
//! | [`kernel`] | facts about the running kernel, queried once |
//! | [`plan`] | selects probes from facts and wishes: pure |
//! | [`privilege`] | capabilities, and what is lost without each |
//! | [`session`] | loads and attaches programs, reads the ring buffer, counts losses |
//! | `counters` | counters of the BPF programs, and what they mean |
//! | [`snapshot`] | what is in flight when a watch begins, and when it ends |
//! | [`reader`] | a separate process of iowhy for reads that may hang |
//! | [`standing`] | threads that wait for other threads when a watch ends, and for which |
//! | [`uses`] | file use: the system calls, and the tables in the kernel |
//! | [`decode`] | turns wire records into the model's rows |
//! | [`host`] | devices, mounts, settings, users from /proc and /sys |
//! | [`sampler`] | system counters, read once a second |
//! | [`survey`] | what iowhy can see on this machine |
//! | [`locate`] | maps blocks of a device to files, and back |
//! | [`live`] | all of it as an [`iowhy_core::source::Source`] |
//!
//! What does not belong here: what the numbers mean, and how they are displayed.
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
