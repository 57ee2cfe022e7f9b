//! Containers as their engines describe them in files: Docker's `config.v2.json`, the OCI
//! `config.json` that containerd gives its runtime, and the list of Podman's and CRI-O's
//! containers.
//!
//! What does not belong here: whose cgroup an id stands in.

use super::{join, plain, small_file};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The largest file of a container that is read: usual ones have some ten kilobytes.
const MOST_BYTES: u64 = 1 << 20;
/// The list of all of Podman's containers.
const MOST_LIST_BYTES: u64 = 16 << 20;
/// Containers whose description is kept.
const MOST_KEPT: usize = 4096;
/// Minimum time between two reads of the list.
const PAUSE: Duration = Duration::from_secs(1);

/// Docker's containers, `ID/config.v2.json`.
const DOCKER: &str = "/var/lib/docker/containers";
/// Running containers of containerd, k3s and Docker's own containerd: `ID/config.json`, with the
/// engine that uses that name space.
const RUNNING: &[(&str, &str)] = &[
    ("/run/containerd/io.containerd.runtime.v2.task/k8s.io", "containerd"),
    ("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io", "containerd"),
    ("/run/containerd/io.containerd.runtime.v2.task/default", "containerd"),
    ("/run/containerd/io.containerd.runtime.v2.task/moby", "docker"),
];
/// Lists of containers/storage, which Podman and CRI-O use; the second is of `podman run --rm`.
const LISTS: &[&str] = &[
    "/var/lib/containers/storage/overlay-containers/containers.json",
    "/var/lib/containers/storage/overlay-containers/volatile-containers.json",
    "/run/containers/storage/overlay-containers/volatile-containers.json",
];
/// CRI-O's and Podman's running containers: `ID/userdata/config.json`.
const USERDATA: &str = "/run/containers/storage/overlay-containers";

/// The description of a container in a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub engine: Option<&'static str>,
    /// The name that the engine's user gave it.
    pub name: Option<String>,
    pub image: Option<String>,
    pub pod: Option<String>,
    pub namespace: Option<String>,
    pub pod_uid: Option<String>,
    /// The container's name in its pod.
    pub container_name: Option<String>,
}

/// The containers of this machine.
#[derive(Debug)]
pub(super) struct Engines {
    root: PathBuf,
    known: FxHashMap<String, Description>,
    listed: FxHashMap<String, Description>,
    read: Option<Instant>,
}

impl Engines {
    pub(super) fn below(root: &Path) -> Engines {
        let root = root.to_owned();
        Engines { root, known: FxHashMap::default(), listed: FxHashMap::default(), read: None }
    }

    /// Returns the description of a container; `id` is 64 hexadecimal digits.
    pub(super) fn describe(&mut self, id: &str) -> Description {
        if let Some(known) = self.known.get(id) {
            return known.clone();
        }
        let found = self.docker(id).or_else(|| self.running(id)).or_else(|| self.listed(id));
        if let Some(found) = &found
            && self.known.len() < MOST_KEPT
        {
            self.known.insert(id.to_owned(), found.clone());
        }
        found.unwrap_or_default()
    }

    fn docker(&self, id: &str) -> Option<Description> {
        let path = join(&self.root, DOCKER).join(id).join("config.v2.json");
        let file: DockerFile = serde_json::from_slice(&small_file(&path, MOST_BYTES)?).ok()?;
        let labels = Labels(file.config.labels.unwrap_or_default());
        // Docker writes a slash before a name.
        let name = file.name.as_deref().map(|name| name.trim_start_matches('/')).and_then(plain);
        let image = file.config.image.as_deref().and_then(plain);
        Some(Description { engine: Some("docker"), name, image, ..labels.description() })
    }

    fn running(&self, id: &str) -> Option<Description> {
        let places = RUNNING.iter().map(|(path, engine)| {
            (join(&self.root, path).join(id).join("config.json"), Some(*engine))
        });
        let crio = join(&self.root, USERDATA).join(id).join("userdata/config.json");
        places.chain([(crio, None)]).find_map(|(path, engine)| {
            let file: OciFile = serde_json::from_slice(&small_file(&path, MOST_BYTES)?).ok()?;
            let found = Labels(file.annotations).description();
            // Podman's file has no name; its list does.
            let says =
                found.container_name.is_some() || found.pod.is_some() || found.image.is_some();
            says.then_some(Description { engine, ..found })
        })
    }

    fn listed(&mut self, id: &str) -> Option<Description> {
        if !self.listed.contains_key(id) && self.read.is_none_or(|read| read.elapsed() >= PAUSE) {
            self.listed = FxHashMap::default();
            for list in LISTS {
                self.read_list(&join(&self.root, list));
            }
            self.read = Some(Instant::now());
        }
        self.listed.get(id).cloned()
    }

    fn read_list(&mut self, path: &Path) {
        let Some(bytes) = small_file(path, MOST_LIST_BYTES) else { return };
        let list: Vec<Listed> = serde_json::from_slice(&bytes).unwrap_or_default();
        for one in list {
            let metadata: Metadata =
                serde_json::from_str(one.metadata.as_deref().unwrap_or("{}")).unwrap_or_default();
            let name = one.names.unwrap_or_default().first().and_then(|name| plain(name));
            let image = metadata.image.as_deref().and_then(plain);
            self.listed.insert(one.id, Description { name, image, ..Description::default() });
        }
    }
}

/// The part of Docker's file that is read.
#[derive(Deserialize)]
struct DockerFile {
    #[serde(rename = "Name")]
    name: Option<String>,
    #[serde(rename = "Config", default)]
    config: DockerConfig,
}

#[derive(Default, Deserialize)]
struct DockerConfig {
    #[serde(rename = "Image")]
    image: Option<String>,
    #[serde(rename = "Labels")]
    labels: Option<FxHashMap<String, String>>,
}

#[derive(Deserialize)]
struct OciFile {
    #[serde(default)]
    annotations: FxHashMap<String, String>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    names: Option<Vec<String>>,
    metadata: Option<String>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(rename = "image-name")]
    image: Option<String>,
}

/// Labels or annotations of a container.
struct Labels(FxHashMap<String, String>);

impl Labels {
    /// The first of these that is there: containerd's key, then CRI-O's, then dockershim's.
    fn first(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| plain(self.0.get(*key)?))
    }

    fn description(&self) -> Description {
        Description {
            engine: None,
            name: self.first(&["nerdctl/name"]),
            image: self.first(&["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"]),
            pod: self.first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
            namespace: self
                .first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
            pod_uid: self.first(&["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]),
            container_name: self
                .first(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]),
        }
    }
}
