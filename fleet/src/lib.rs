//! The fleet: what `iowhy daemon` keeps on each host, gathered, and questions over all of it.
//!
//! | where | what |
//! |---|---|
//! | [`spool`], [`inventory`], [`redact`] | what one host has to send |
//! | [`upload`], [`writers`] | what it sends |
//! | [`push`] | sends it |
//! | [`layout`], [`commit`], [`host_group`], [`tables`] | what is in the store |
//! | [`compact`] | merges uploads into tables |
//! | [`engine`] | SQL, here or on a cluster |
//! | [`questions`] | questions that need no SQL, and the statistics behind them |
//! | [`report`] | the page of the fleet |
//! | [`import`] | time series of other programs as tables |
//! | [`simulate`] | fleets with planted trouble |
//! | [`store`], [`clock`], [`histogram`], [`output`], [`error`] | what all of them use |
//!
//! Without the feature `query` only what one host needs to upload is built.
//!
//! What does not belong here: reading the kernel, diagnosing, and anything that needs privileges.
#![forbid(unsafe_code)]

pub mod clock;
#[cfg(feature = "query")]
pub mod commit;
#[cfg(feature = "query")]
pub mod compact;
#[cfg(feature = "query")]
pub mod engine;
pub mod error;
pub mod histogram;
#[cfg(feature = "query")]
pub mod host_group;
#[cfg(feature = "query")]
pub mod import;
pub mod inventory;
pub mod layout;
pub mod output;
pub mod push;
#[cfg(feature = "query")]
pub mod questions;
pub mod redact;
#[cfg(feature = "query")]
pub mod report;
#[cfg(feature = "query")]
pub mod simulate;
pub mod spool;
pub mod store;
#[cfg(feature = "query")]
pub mod tables;
pub mod upload;
pub mod writers;
