//! The flight recorder that `iowhy daemon` runs: it is there when it happens.
//!
//! | where | what |
//! |---|---|
//! | [`config`], [`units`] | `/etc/iowhy/iowhy.toml` |
//! | [`daemon`] | the loop: a live watch, once an hour a new one |
//! | [`ring`] | level 2: full records of the last minutes, in memory |
//! | [`rolling`] | every ten seconds summed up and diagnosed |
//! | [`trigger`] | conditions that begin an incident |
//! | [`incidents`] | which triggers are kept, for how long, and where: decisions without I/O |
//! | [`saver`] | the thread that writes to the state directory, and may wait for a sick disk |
//! | [`history`] | level 1: figures of every minute for a month |
//! | [`writers`] | who writes all day: by minute and by hour, by program and file |
//! | [`control`] | the socket of `iowhy capture` |
//! | [`journal`], [`hook`] | who is told of an incident |
//! | [`metrics`] | OpenMetrics on a loopback address, a socket or as a file |
//! | [`serving`], `sockets` | many clients at once, each with one time limit |
//! | [`screen`] | incidents as text |
//! | [`clock`] | times as people write them |
//! | [`disk`] | files that are written whole |
//! | [`error`] | why the daemon cannot start or go on |
//!
//! What does not belong here: reading the kernel (crate `iowhy-capture`), figures and causes
//! (crates `iowhy-analysis` and `iowhy-diagnosis`), arguments and printing (the binary).
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod disk;
pub mod error;
pub mod history;
pub mod hook;
pub mod incidents;
pub mod journal;
pub mod metrics;
pub mod ring;
pub mod rolling;
pub mod saver;
pub mod screen;
pub mod serving;
mod sockets;
pub mod trigger;
pub mod units;
pub mod writers;

pub use error::RecorderError;
