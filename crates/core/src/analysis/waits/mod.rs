//! Where threads waited: what a kernel stack says of a wait, how a wait splits over its requests, and
//! the ledger of all of them.
//!
//! | where | what |
//! |---|---|
//! | [`class`] | kernel functions and the class of wait that each stands for |
//! | [`split`] | a wait's time over the stages of its requests |
//! | [`past`] | what each thread waited for lately, for those that waited for it |
//! | [`chains`] | threads that waited for threads that waited for storage, merged |
//! | [`groups`] | the same by process, file or code path |
//! | [`locks`] | functions of programs that wait for a lock |
//! | [`ledger`] | the sum over processes and classes |
//!
//! What does not belong here: which interval is a wait (crate `iowhy-capture`).

pub mod chains;
pub mod class;
pub mod groups;
pub mod ledger;
pub mod locks;
pub mod past;
pub mod split;
