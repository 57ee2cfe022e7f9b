//! The volume that a file is on, by its path on the node: the kubelet's directories of pods, and
//! the named volumes of Docker and Podman.
//!
//! The name of a claim (PVC) is known only to the API server; the node knows the volume that is
//! bound to it, whose name is what `kubectl get pvc` prints in the column VOLUME.

use super::path::is_pod_uid;

/// Directories of pods, `UID/volumes/PLUGIN/VOLUME/`: the kubelet's, and those of distributions.
const PODS: &[&str] = &[
    "/var/lib/kubelet/pods/",
    "/var/lib/k0s/kubelet/pods/",
    "/var/snap/microk8s/common/var/lib/kubelet/pods/",
];
/// Directories of named volumes, `VOLUME/_data/`.
const NAMED: &[&str] = &["/var/lib/docker/volumes/", "/var/lib/containers/storage/volumes/"];
/// Kinds of volumes that have no name outside their pod.
const OWN: &[&str] = &["empty-dir", "configmap", "secret", "projected", "downward-api", "git-repo"];

/// The volume of the file with this path on the node: `pvc-8d21…`, `empty-dir:cache`, `web-data`.
pub fn volume_of(path: &str) -> Option<String> {
    pod_volume(path).or_else(|| {
        let rest = NAMED.iter().find_map(|root| path.strip_prefix(root))?;
        let (volume, rest) = rest.split_once('/')?;
        (rest == "_data" || rest.starts_with("_data/")).then(|| super::plain(volume)).flatten()
    })
}

fn pod_volume(path: &str) -> Option<String> {
    let rest = PODS.iter().find_map(|root| path.strip_prefix(root))?;
    let mut parts = rest.split('/');
    let (uid, folder) = (parts.next()?, parts.next()?);
    let is_volumes = matches!(folder, "volumes" | "volume-subpaths" | "volumeDevices");
    if !is_pod_uid(uid) || !is_volumes {
        return None;
    }
    if folder == "volume-subpaths" {
        return super::plain(parts.next()?);
    }
    let (plugin, name) = (parts.next()?, super::plain(parts.next()?)?);
    // The kubelet writes ~ for the slash in a plugin's name: kubernetes.io~csi.
    let kind = plugin.split_once('~')?.1;
    Some(if OWN.contains(&kind) { format!("{kind}:{name}") } else { name })
}
