//! Names in a cgroup's path: engine and id of a container, a pod's uid, a systemd unit, a virtual
//! machine of libvirt, a container of LXC.
//!
//! What does not belong here: files that know more.

use super::{Workload, plain};

/// Prefixes of a container's cgroup, and the engine. The longer ones come first.
const SCOPES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("libpod-payload-", "podman"),
    ("libpod-conmon-", "podman"),
    ("libpod-", "podman"),
    ("crio-conmon-", "crio"),
    ("crio-", "crio"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
];

/// Kinds of units that systemd gives a cgroup; slices only group them.
const UNITS: &[&str] = &[".service", ".scope", ".mount", ".socket", ".swap"];

/// A cgroup's path, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CgroupPath<'a> {
    /// The container's engine, where its cgroup names it.
    pub engine: Option<&'static str>,
    /// The container's id, 64 hexadecimal digits; of a pod's it is the pod's own container.
    pub container_id: Option<&'a str>,
    /// The container's name, if the path has it.
    pub container_name: Option<String>,
    /// The pod's uid, as the kubelet writes it in paths of files.
    pub pod_uid: Option<String>,
    /// The innermost systemd unit, else the innermost slice.
    pub unit: Option<&'a str>,
    /// Whether it is of a user's own tree, where users name cgroups as they like.
    pub is_users: bool,
}

impl<'a> CgroupPath<'a> {
    /// Takes a path apart.
    pub fn parse(path: &'a str) -> CgroupPath<'a> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is_users = parts.iter().any(|part| *part == "user.slice" || part.starts_with("user@"));
        let mut found = CgroupPath { unit: unit_of(&parts), is_users, ..CgroupPath::default() };
        if let Some((at, uid)) = pod(&parts) {
            found.pod_uid = Some(uid);
            if let Some((engine, id)) = parts.get(at + 1).and_then(|part| container(part)) {
                (found.engine, found.container_id) = (engine, Some(id));
            }
            return found;
        }
        for (at, part) in parts.iter().enumerate().rev() {
            if let Some((engine, id)) = container(part) {
                let parent = at.checked_sub(1).and_then(|at| parts.get(at));
                // cgroupfs: /docker/ID, /libpod_parent/libpod-ID.
                let engine =
                    engine.or(parent.filter(|parent| **parent == "docker").map(|_| "docker"));
                (found.engine, found.container_id) = (engine, Some(id));
                return found;
            }
            if let Some((engine, name)) = machine(part, at.checked_sub(1).map(|at| parts[at])) {
                (found.engine, found.container_name) = (Some(engine), plain(&name));
                return found;
            }
        }
        found
    }

    /// Whether files of this node may know more about it.
    pub fn is_described(&self) -> bool {
        !self.is_users && (self.pod_uid.is_some() || self.container_id.is_some())
    }

    /// Returns the workload that the path alone shows.
    pub fn workload(&self) -> Workload {
        let short = self.container_id.map(|id| id.get(..12).unwrap_or(id));
        let name = short.or(self.container_name.as_deref());
        let engine = self.engine.unwrap_or("container");
        let container = name.map(|name| format!("{engine}:{name}"));
        let is_unit = |name: &&str| !name.ends_with(".slice");
        let unit = || self.unit.filter(is_unit).map(str::to_owned);
        Workload {
            container: container.or_else(unit),
            container_name: self.container_name.clone(),
            unit: self.unit.map(str::to_owned),
            ..Workload::default()
        }
    }
}

/// Returns the workload that the path of a cgroup alone shows.
pub fn workload_of(path: &str) -> Workload {
    CgroupPath::parse(path).workload()
}

fn unit_of<'a>(parts: &[&'a str]) -> Option<&'a str> {
    let ends = |part: &&&str, ends: &[&str]| ends.iter().any(|end| part.ends_with(end));
    let inner = |kinds: &[&str]| parts.iter().rev().find(|part| ends(part, kinds)).copied();
    inner(UNITS).or_else(|| inner(&[".slice"]))
}

/// The engine and the id of a container's cgroup.
fn container(part: &str) -> Option<(Option<&'static str>, &str)> {
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    let named = SCOPES.iter().find_map(|(prefix, engine)| {
        Some((Some(*engine), scope.strip_prefix(prefix).filter(|id| is_container_id(id))?))
    });
    named.or_else(|| is_container_id(part).then_some((None, part)))
}

/// Docker, containerd and Kubernetes name a container by 64 hexadecimal digits.
pub(super) fn is_container_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The place of a pod's cgroup and its uid. What a user's session or a service made below its own
/// cgroup is no pod; a pod below a container is one of a node that runs in that container.
fn pod(parts: &[&str]) -> Option<(usize, String)> {
    let first = parts.iter().position(|part| is_kubepods(part))?;
    let is_outside = |part: &&str| {
        matches!(*part, "kubelet" | "kubelet.slice" | "system.slice" | "machine.slice" | "docker")
            || container(part).is_some()
            || machine(part, None).is_some()
    };
    if !parts[..first].iter().all(is_outside) {
        return None;
    }
    let uid = |part: &&str| {
        // systemd: kubepods-burstable-podUID.slice with _ for -; cgroupfs: podUID.
        let name = part.strip_suffix(".slice").unwrap_or(part);
        let id = match name.rsplit_once("-pod") {
            Some((before, id)) if is_kubepods(before) => id.replace('_', "-"),
            _ => part.strip_prefix("pod")?.to_owned(),
        };
        is_pod_uid(&id).then_some(id)
    };
    let below = parts[first..].iter().enumerate();
    below.take(4).find_map(|(at, part)| Some((first + at, uid(part)?)))
}

/// `kubepods`, `kubepods.slice`, `kubelet-kubepods.slice`, `kubepods-burstable` …
fn is_kubepods(part: &str) -> bool {
    let name = part.strip_prefix("kubelet-").unwrap_or(part);
    let rest = name.strip_prefix("kubepods");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
}

/// A UUID, or the 32 digits of a pod from a file of the node (static).
pub(super) fn is_pod_uid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = text.bytes().filter(|byte| *byte == b'-').count();
    digits == 32 && digits + dashes == text.len() && matches!(dashes, 0 | 4)
}

/// A machine of libvirt, LXC or systemd-nspawn: the engine and its name.
fn machine(part: &str, parent: Option<&str>) -> Option<(&'static str, String)> {
    if let Some(name) = part.strip_prefix("lxc.payload.").filter(|name| !name.is_empty()) {
        return Some(("lxc", name.to_owned()));
    }
    // libvirt without systemd: /machine/NAME.libvirt-qemu.
    for (end, engine) in [(".libvirt-qemu", "libvirt"), (".libvirt-lxc", "libvirt-lxc")] {
        if let Some(name) = part.strip_suffix(end).filter(|name| !name.is_empty()) {
            return Some((engine, name.to_owned()));
        }
    }
    if parent == Some("lxc") && !part.ends_with(".service") {
        return Some(("lxc", part.to_owned()));
    }
    if let Some(name) = part.strip_prefix("systemd-nspawn@") {
        return Some(("nspawn", unescape(name.strip_suffix(".service")?)));
    }
    let name = unescape(part.strip_prefix("machine-")?.strip_suffix(".scope")?);
    // machined's name of libvirt's machines: qemu-ID-NAME, lxc-ID-NAME.
    for (prefix, engine) in [("qemu-", "libvirt"), ("lxc-", "libvirt-lxc")] {
        let numbered = name.strip_prefix(prefix).and_then(|rest| rest.split_once('-'));
        if let Some((number, name)) = numbered
            && !name.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Some((engine, name.to_owned()));
        }
    }
    Some(("machine", name))
}

/// systemd writes other letters of a name as `\x2d`.
fn unescape(name: &str) -> String {
    let mut text = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.strip_prefix(b"x").and_then(|hex| std::str::from_utf8(hex.get(..2)?).ok());
        let code =
            code.filter(|_| *first == b'\\').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) => {
                text.push(byte);
                rest = &after[3..];
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}
