//! Everything around iowhy that needs a real kernel: scratch devices, workloads with known I/O,
//! benchmarks, the demo.
//!
//! | module | contents |
//! |---|---|
//! | [`scratch`] | a private directory that is always removed, with everything that depends on it |
//! | [`devices`] | loop, zram, file systems, cgroups, tracefs: each removed when dropped |
//! | [`fio`] | fio command lines and fio's JSON output |
//! | [`workload`] | what fio cannot do: sendfile, metadata storms, dirty pages left behind |
//! | [`machine`] | figures from `/proc` and `/sys`: diskstats, memory of a process, privileges |
//! | [`process`] | terminates what a lab started |
//! | [`recorded`] | the size of a recording, and rows of its tables |
//! | [`mod@bench`] | the benchmarks: `cargo lab bench-…` |
//! | [`cache`] | files that are downloaded once and kept outside the repository |
//! | [`captures`] | generated blktrace captures |
//! | [`page`] | the parts of docs/ that labs generate |
//! | [`score`] | `cargo lab score`: labelled recordings, judged without a kernel |
//! | [`demo`] | `cargo lab demo` |
//! | [`located`] | `iowhy locate` compared with debugfs |
//! | [`classes`] | `cargo lab classes`: produces each wait class |
//! | [`labs`] | `cargo lab run`, `cargo lab matrix`: scenarios with a known cause |
//! | [`kernels`] | what each kernel supports, by `iowhy check` in a guest; docs/kernels.md |
//! | [`iowhy`] | the built binary that the labs drive |
//! | [`vm`] | QEMU guests with other kernels and devices |
//!
//! What does not belong here: anything that is shipped. Labs run the built binary `iowhy` as a user
//! would and never call its crates.
#![forbid(unsafe_code)]

pub mod bench;
pub mod cache;
pub mod captures;
pub mod classes;
pub mod command;
pub mod demo;
pub mod devices;
pub mod error;
pub mod fio;
pub mod iowhy;
pub mod kernels;
pub mod labs;
pub mod located;
pub mod machine;
pub mod page;
pub mod process;
pub mod recorded;
pub mod score;
pub mod scratch;
pub mod vm;
pub mod workload;

pub use error::{LabError, Result};
