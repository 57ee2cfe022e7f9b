//! The live source of iowhy: what the kernel reports during a watch.
//!
//! | where | what |
//! |---|---|
//! | `bpf/` | the shared wire header, the kernel's types, every difference between kernels |
//! | [`probes`] | a folder per group that loads as a unit: BPF programs and their decoder |
//! | [`kernel`] | facts about the running kernel, queried once |
//! | [`plan`] | selects probes from facts and wishes: pure |
//! | [`priority`] | the priority of the thread that reads the ring buffer |
//! | [`privilege`] | capabilities, and what is lost without each |
//! | [`session`] | loads and attaches programs, reads the ring buffer, counts losses |
//! | `counters` | counters of the BPF programs, and what they mean |
//! | [`reader`] | a separate process of iowhy for reads that may hang |
//! | [`decode`] | what the decoders share: what records refer to, and where rows go |
//! | [`host`] | devices, mounts, settings, users from /proc and /sys |
//! | [`sampler`] | system counters, read once a second |
//! | [`survey`] | what iowhy can see on this machine |
//! | [`locate`] | maps blocks of a device to files, and back |
//! | [`aggregates`] | exact counts of requests, without a record of each |
//! | [`budget`] | what a watch may cost, and what is thinned to keep to it: pure |
//! | `thinning` | measures the cost, and carries out what the budget decides |
//! | `copies` | how many stacks without frame pointers are copied |
//! | [`live`] | all of it as an [`iowhy_model::source::Source`] |
//!
//! What does not belong here: what the numbers mean, and how they are displayed.
#![deny(unsafe_code)]

pub mod aggregates;
pub mod budget;
mod calls;
pub mod changes;
pub mod confined;
mod copies;
mod counters;
pub mod decode;
pub mod error;
mod file_calls;
mod handles;
pub mod held_files;
pub mod host;
pub mod kernel;
pub mod live;
mod loader;
pub mod locate;
mod objects;
pub mod plan;
pub mod priority;
pub mod privilege;
pub mod probes;
pub mod reader;
pub mod sampler;
pub mod session;
mod settings;
pub mod survey;
pub mod symbols;
mod thinning;
mod wire;

pub use error::WatchError;
