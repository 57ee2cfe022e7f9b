//! The workload of a cgroup, by the names that people know: pod, namespace, container, image,
//! systemd unit, virtual machine. Only files of this node are read: the kubelet's log directories,
//! and the state of containerd, CRI-O, Podman and Docker. No API is called and no token is needed.
//!
//! | where | what |
//! |---|---|
//! | [`path`] | what a cgroup's path says by itself |
//! | `kubelet` | pods and their containers |
//! | `engines` | containers by id, as their engine describes them |
//! | [`volume`] | the volume that a file is on |
//!
//! These files can be on a sick disk, so only the reader's process ([`crate::reader`]) reads them.
//! Anybody may name a cgroup like a pod's: a name is only given where the node's own files, which
//! only root can write, hold the id that stands in the path.
//!
//! What does not belong here: the limits of a cgroup ([`super::cgroup`]).

mod engines;
mod kubelet;
pub mod path;
#[cfg(test)]
mod tests;
pub mod volume;

use engines::Engines;
use kubelet::Pods;
use path::CgroupPath;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The workload of a cgroup, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The container or systemd unit by its best name: `pod:shop/db-0/postgres`, `docker:web`,
    /// `podman:4f5c0f7d6f0e`, `jenkins.service`.
    pub container: Option<String>,
    /// The pod's name.
    pub pod: Option<String>,
    /// The pod's namespace.
    pub namespace: Option<String>,
    /// The container's own name; of a virtual machine its name.
    pub container_name: Option<String>,
    /// The image that the container was made from.
    pub image: Option<String>,
    /// The innermost systemd unit, or slice where there is no unit.
    pub unit: Option<String>,
}

/// Finds out what runs in cgroups, with what was read for earlier ones.
#[derive(Debug)]
pub struct Workloads {
    pods: Pods,
    engines: Engines,
}

impl Default for Workloads {
    fn default() -> Workloads {
        Workloads::below(Path::new("/"))
    }
}

impl Workloads {
    /// Reads the node's files below `root`.
    pub fn below(root: &Path) -> Workloads {
        let root = root.to_owned();
        Workloads { pods: Pods::below(&root), engines: Engines::below(&root) }
    }

    /// Returns the workload of the cgroup with this path.
    pub fn of(&mut self, cgroup: &str) -> Workload {
        let parsed = CgroupPath::parse(cgroup);
        let mut found = parsed.workload();
        if !parsed.is_described() {
            return found;
        }
        let described = parsed.container_id.map(|id| self.engines.describe(id));
        let described = described.unwrap_or_default();
        if let Some(uid) = &parsed.pod_uid {
            // A description is of this pod only if it says so itself.
            let own = described.pod_uid.as_deref() == Some(uid);
            let told = described.pod.clone().zip(described.namespace.clone()).filter(|_| own);
            let known = self.pods.name_of(uid).or(told.map(|(pod, namespace)| (namespace, pod)));
            if let Some((namespace, pod)) = known {
                let listed = parsed.container_id.and_then(|id| self.pods.container(id));
                let name = listed.or(described.container_name).or(parsed.container_name);
                found.container = Some(match &name {
                    Some(name) => format!("pod:{namespace}/{pod}/{name}"),
                    None => format!("pod:{namespace}/{pod}"),
                });
                found.container_name = name;
                (found.pod, found.namespace) = (Some(pod), Some(namespace));
                found.image = described.image;
            }
            return found;
        }
        if let Some(name) = described.name.or(described.container_name) {
            let engine = described.engine.or(parsed.engine).unwrap_or("container");
            found.container = Some(format!("{engine}:{name}"));
            found.container_name = Some(name);
        }
        found.image = described.image;
        found
    }
}

/// The text of a file of at most `most` bytes. A symbolic link is not followed.
fn small_file(path: &Path, most: u64) -> Option<Vec<u8>> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// A name that an engine or image may have: printable, without spaces, of bearable length.
fn plain(name: &str) -> Option<String> {
    const MOST: usize = 256;
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"\"'\\`<>".contains(letter);
    (!name.is_empty() && name.len() <= MOST && name.chars().all(is_plain)).then(|| name.to_owned())
}

fn join(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
