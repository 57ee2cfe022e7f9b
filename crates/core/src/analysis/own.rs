//! What iowhy itself does while it watches: the names of others' functions are read from their programs' files.
//! It is no part of the load, so that its waits are nobody's, and its requests are counted apart.
//!
//! What does not belong here: its CPU time and memory ([`crate::model::environment::Cost`]).

use crate::model::{Name, Names};

/// The name of iowhy's processes.
const PROCESS: &str = "iowhy";

/// Whether the process of that name is iowhy's.
#[inline]
pub(super) fn is_own_name(process: Option<Name>, names: &Names) -> bool {
    process.is_some_and(|name| names.get(name) == PROCESS)
}
