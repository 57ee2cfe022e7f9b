//! Waits: wait chains, the ledger, and blame.
//!
//! | where | what |
//! |---|---|
//! | [`work`] | whether anybody waits for what a process does |
//! | [`chains`] | wait chains, merged |
//! | [`critical`] | how much of a thread's waits its process waits for |
//! | [`graph`] | who waited for whom when, handed on to the last one |
//! | [`groups`] | the same by process, file or code path |
//! | [`ledger`] | the sum over processes and classes |
//! | `blame` | whose requests delayed whom |
//!
//! What does not belong here: which interval is a wait (crate `iowhy-capture`), and what one thread
//! says of its waits ([`iowhy_model::wait`]).

pub mod blame;
pub mod chains;
pub mod critical;
pub mod graph;
pub mod groups;
pub mod ledger;
pub mod work;
