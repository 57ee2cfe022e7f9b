//! The cgroups that requests and tasks are charged to, and their limits.

use super::{path_of, split_names};
use crate::host::cgroup::{Roots, container_of};
use crate::wire;
use iowhy_core::model::{Name, Names, cgroup};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use zerocopy::FromBytes;

/// Cgroups whose limits are read; those of later ones are not known.
const MOST_LIMITED: usize = 512;

/// A cgroup's path, and the container or unit behind it.
#[derive(Clone, Copy, Debug)]
pub struct Cgroup {
    /// The path from the hierarchy's root.
    pub path: Name,
    /// The container or unit; `None` if the path names none.
    pub container: Option<Name>,
}

/// Cgroups by the kernel's number.
#[derive(Debug, Default)]
pub struct Cgroups {
    known: FxHashMap<u64, Cgroup>,
    roots: Roots,
    /// By path.
    limits: BTreeMap<String, cgroup::Cgroup>,
}

impl Cgroups {
    /// Empty; limits are read below `roots`.
    pub fn new(roots: Roots) -> Cgroups {
        Cgroups { roots, ..Cgroups::default() }
    }

    /// Adds a `wire_cgroup`.
    pub fn add(&mut self, bytes: &[u8], names: &mut Names) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire::wire_cgroup, names);
        let (head, counts, text) = split_names::<HEAD>(bytes)?;
        let id = head.get(std::mem::offset_of!(wire::wire_cgroup, id)..)?;
        let (id, _) = u64::read_from_prefix(id).ok()?;
        let path = path_of(&counts, text);
        self.read_limits(&path);
        let container = container_of(&path).map(|container| names.intern(&container));
        self.known.insert(id, Cgroup { path: names.intern(&path), container });
        Some(())
    }

    /// Reads the limits that apply to a cgroup: its own and those of its ancestors.
    fn read_limits(&mut self, path: &str) {
        for own in Path::new(path).ancestors() {
            let own = own.to_string_lossy();
            if self.limits.len() >= MOST_LIMITED || self.limits.contains_key(&*own) {
                return;
            }
            let settings_start = self.roots.limits(&own);
            let known =
                cgroup::Cgroup { path: own.to_string(), settings_start, ..Default::default() };
            self.limits.insert(own.into_owned(), known);
        }
    }

    /// The limits of cgroups that can have any.
    pub fn limits(&self) -> Vec<cgroup::Cgroup> {
        self.limits.values().filter(|it| !it.settings_start.is_empty()).cloned().collect()
    }

    /// The same with their current values, at the end of the watch.
    pub fn limits_at_end(&mut self) -> Vec<cgroup::Cgroup> {
        for limited in self.limits.values_mut() {
            limited.settings_end = self.roots.limits(&limited.path);
        }
        self.limits()
    }

    /// The cgroup with that number.
    pub fn get(&self, id: u64) -> Option<Cgroup> {
        self.known.get(&id).copied()
    }
}
