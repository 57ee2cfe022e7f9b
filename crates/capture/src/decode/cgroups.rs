//! The cgroups that requests and tasks are charged to.

use super::{path_of, split_names};
use crate::host::cgroup::container_of;
use crate::wire;
use iowhy_core::model::{Name, Names};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// A cgroup's path, and the container or unit behind it.
#[derive(Clone, Copy, Debug)]
pub struct Cgroup {
    /// The path from the hierarchy's root.
    pub path: Name,
    /// The container or unit; `None` where the path names none.
    pub container: Option<Name>,
}

/// Cgroups by the kernel's number.
#[derive(Debug, Default)]
pub struct Cgroups {
    known: FxHashMap<u64, Cgroup>,
}

impl Cgroups {
    /// Adds a `wire_cgroup`.
    pub fn add(&mut self, bytes: &[u8], names: &mut Names) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire::wire_cgroup, names);
        let (head, counts, text) = split_names::<HEAD>(bytes)?;
        let id = head.get(std::mem::offset_of!(wire::wire_cgroup, id)..)?;
        let (id, _) = u64::read_from_prefix(id).ok()?;
        let path = path_of(&counts, text);
        let container = container_of(&path).map(|container| names.intern(&container));
        self.known.insert(id, Cgroup { path: names.intern(&path), container });
        Some(())
    }

    /// The cgroup with that number.
    pub fn get(&self, id: u64) -> Option<Cgroup> {
        self.known.get(&id).copied()
    }
}
