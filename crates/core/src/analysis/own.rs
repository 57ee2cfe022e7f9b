//! iowhy's own I/O during a watch: it reads programs' files to symbolize functions. It is not part
//! of the load, so its waits are left out, and its requests are counted separately.
//!
//! What does not belong here: its CPU time and memory ([`crate::model::environment::Cost`]).

use crate::model::{Name, Names};

/// The name of iowhy's processes.
const PROCESS: &str = "iowhy";

/// Whether the process of that name is iowhy's.
#[inline]
pub fn is_own_name(process: Option<Name>, names: &Names) -> bool {
    process.is_some_and(|name| names.get(name) == PROCESS)
}
