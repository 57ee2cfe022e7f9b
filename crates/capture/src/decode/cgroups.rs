//! The cgroups that requests and tasks are charged to, and their limits.

use super::{path_of, split_names};
use crate::host::cgroup::Roots;
use crate::host::workload::path::CgroupPath;
use crate::host::workload::{Workload, path};
use crate::reader::FileAsker;
use crate::wire;
use iowhy_model::{Name, Names, WorkloadNames, cgroup};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use zerocopy::FromBytes;

/// Cgroups whose limits are read; those of later ones are not known.
const MOST_LIMITED: usize = 512;

/// A cgroup's path, and what runs in it.
#[derive(Clone, Copy, Debug)]
pub struct KnownCgroup {
    /// The path from the hierarchy's root.
    pub path: Name,
    /// The container or unit, its pod and so on.
    pub workload: WorkloadNames,
    /// The image that the container was made from.
    pub image: Option<Name>,
}

impl KnownCgroup {
    fn new(path: &str, workload: &Workload, names: &mut Names) -> KnownCgroup {
        let path = names.intern(path);
        let mut name = |text: &Option<String>| text.as_deref().map(|text| names.intern(text));
        let image = name(&workload.image);
        let workload = WorkloadNames {
            container: name(&workload.container),
            pod: name(&workload.pod),
            namespace: name(&workload.namespace),
            container_name: name(&workload.container_name),
            unit: name(&workload.unit),
        };
        KnownCgroup { path, workload, image }
    }
}

/// Cgroups by the kernel's number.
#[derive(Debug, Default)]
pub struct KnownCgroups {
    known: FxHashMap<u64, KnownCgroup>,
    roots: Roots,
    reader: Option<FileAsker>,
    /// By path.
    limits: BTreeMap<String, cgroup::Cgroup>,
}

impl KnownCgroups {
    /// Empty; limits are read below `roots`, and names by `reader`.
    pub fn new(roots: Roots, reader: FileAsker) -> KnownCgroups {
        KnownCgroups { roots, reader: Some(reader), ..KnownCgroups::default() }
    }

    /// Adds a `wire_cgroup`.
    pub fn add(&mut self, bytes: &[u8], names: &mut Names) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire::wire_cgroup, names);
        let (head, counts, text) = split_names::<HEAD>(bytes)?;
        let id = head.get(std::mem::offset_of!(wire::wire_cgroup, id)..)?;
        let (id, _) = u64::read_from_prefix(id).ok()?;
        let path = path_of(&counts, text);
        self.read_limits(&path);
        let known = self.named(&path, names);
        self.known.insert(id, known);
        Some(())
    }

    /// The cgroup with this path. Files that name its container may be on a sick disk, so another
    /// process reads them; where it does not answer, the path says what it says.
    pub fn named(&self, path: &str, names: &mut Names) -> KnownCgroup {
        let is_described = CgroupPath::parse(path).is_described();
        let reader = self.reader.as_ref().filter(|_| is_described);
        let told = reader.and_then(|reader| reader.workload(path));
        let workload = told.unwrap_or_else(|| path::workload_of(path));
        KnownCgroup::new(path, &workload, names)
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
        self.limits.values().filter(|limit| !limit.settings_start.is_empty()).cloned().collect()
    }

    /// Returns these limits with their current values, at the end of the watch.
    pub fn limits_at_end(&mut self) -> Vec<cgroup::Cgroup> {
        for limited in self.limits.values_mut() {
            limited.settings_end = self.roots.limits(&limited.path);
        }
        self.limits()
    }

    /// The cgroup with that number.
    pub fn get(&self, id: u64) -> Option<KnownCgroup> {
        self.known.get(&id).copied()
    }
}
