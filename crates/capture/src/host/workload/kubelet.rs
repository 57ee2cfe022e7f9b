//! Pods by their uid and containers by their id, from the names of log directories and links:
//! `/var/log/pods/NAMESPACE_POD_UID/` and `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log`.
//! Only names are read; no link is followed and no log is opened.

use super::join;
use super::path::{is_container_id, is_pod_uid};
use rustc_hash::FxHashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names read of a directory; a node has some hundred pods.
const MOST_NAMES: usize = 65_536;
/// Minimum time between two reads of the directories.
const PAUSE: Duration = Duration::from_secs(1);

/// The pods of this node.
#[derive(Debug)]
pub(super) struct Pods {
    logs: PathBuf,
    links: PathBuf,
    read: Option<Instant>,
    /// Namespace and name by uid.
    pods: FxHashMap<String, (String, String)>,
    /// Containers' names by id.
    containers: FxHashMap<String, String>,
}

impl Pods {
    pub(super) fn below(root: &Path) -> Pods {
        Pods {
            logs: join(root, "/var/log/pods"),
            links: join(root, "/var/log/containers"),
            read: None,
            pods: FxHashMap::default(),
            containers: FxHashMap::default(),
        }
    }

    /// The namespace and name of a pod.
    pub(super) fn name_of(&mut self, uid: &str) -> Option<(String, String)> {
        if !self.pods.contains_key(uid) {
            self.read_again();
        }
        self.pods.get(uid).cloned()
    }

    /// The name of a container of a pod.
    pub(super) fn container(&mut self, id: &str) -> Option<String> {
        if !self.containers.contains_key(id) {
            self.read_again();
        }
        self.containers.get(id).cloned()
    }

    /// Reads the directories, unless that was done just now.
    fn read_again(&mut self) {
        if self.read.is_some_and(|read| read.elapsed() < PAUSE) {
            return;
        }
        (self.pods, self.containers) = (FxHashMap::default(), FxHashMap::default());
        for (name, is_directory) in names(&self.logs) {
            if let Some((uid, pod)) = pod_of(&name).filter(|_| is_directory) {
                self.pods.insert(uid, pod);
            }
        }
        for (name, _) in names(&self.links) {
            if let Some((id, container)) = container_of(&name) {
                self.containers.insert(id, container);
            }
        }
        self.read = Some(Instant::now());
    }
}

/// The names in a directory, and whether each is one itself.
fn names(path: &Path) -> impl Iterator<Item = (String, bool)> {
    let entries = fs::read_dir(path).into_iter().flatten().take(MOST_NAMES);
    entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        Some((entry.file_name().into_string().ok()?, is_directory))
    })
}

/// `NAMESPACE_POD_UID`: uid, namespace and name.
fn pod_of(directory: &str) -> Option<(String, (String, String))> {
    let mut words = directory.split('_');
    let (namespace, pod, uid) = (words.next()?, words.next()?, words.next()?);
    let is_whole = words.next().is_none() && is_name(namespace) && is_name(pod) && is_pod_uid(uid);
    is_whole.then(|| (uid.to_owned(), (namespace.to_owned(), pod.to_owned())))
}

/// `POD_NAMESPACE_CONTAINER-ID.log`: id and name of the container.
fn container_of(link: &str) -> Option<(String, String)> {
    let (before, id) = link.strip_suffix(".log")?.rsplit_once('-')?;
    let container = before.rsplit('_').next()?;
    let is_whole = is_container_id(id) && is_name(container) && before.split('_').count() == 3;
    is_whole.then(|| (id.to_owned(), container.to_owned()))
}

/// Kubernetes names things as DNS does.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    (1..=253).contains(&text.len()) && text.bytes().all(is_letter)
}
