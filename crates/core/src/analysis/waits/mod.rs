//! Waits: the class of a kernel stack, the split of a wait over its requests, wait chains, the
//! ledger, and blame.
//!
//! | where | what |
//! |---|---|
//! | [`class`] | kernel functions and the wait class of each |
//! | [`split`] | a wait's time over the stages of its requests |
//! | [`work`] | whether anybody waits for what a process does |
//! | [`recent_waits`] | recent waits of each thread, for threads that waited for it |
//! | [`chains`] | wait chains, merged |
//! | [`critical`] | how much of a thread's waits its process waits for |
//! | [`graph`] | who waited for whom when, handed on to the last one |
//! | [`groups`] | the same by process, file or code path |
//! | [`locks`] | functions of programs that wait for a lock |
//! | [`ledger`] | the sum over processes and classes |
//! | `blame` | whose requests delayed whom |
//!
//! What does not belong here: which interval is a wait (crate `iowhy-capture`).

pub mod blame;
pub mod chains;
pub mod class;
pub mod critical;
pub mod graph;
pub mod groups;
pub mod ledger;
pub mod locks;

pub mod recent_waits;
pub mod split;
pub mod work;
