//! Cgroups: maps a path to its container or systemd unit, and to its limits.

use super::read_text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Mount points of the controllers that iowhy reads.
#[derive(Debug, Default)]
pub struct Roots {
    /// v2's root, if it has one of these controllers.
    pub unified: Option<PathBuf>,
    /// v1's root of blkio.
    pub blkio: Option<PathBuf>,
    /// v1's root of memory.
    pub memory: Option<PathBuf>,
    /// v1's root of cpu.
    pub cpu: Option<PathBuf>,
}

/// Files with limits: v2's, then those of v1's blkio, cpu and memory.
const UNIFIED_LIMITS: &[&str] = &["io.max", "cpu.max", "memory.max", "memory.high"];
const BLKIO_LIMITS: &[&str] = &[
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];
const CPU_LIMITS: &[&str] = &["cpu.cfs_quota_us", "cpu.cfs_period_us"];
const MEMORY_LIMITS: &[&str] = &["memory.limit_in_bytes"];

impl Roots {
    /// Finds them in the mount table.
    pub fn find() -> Roots {
        let text = read_text("/proc/self/mounts").unwrap_or_default();
        let mut roots = Roots::default();
        for line in text.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let path = PathBuf::from(path);
            let has = |controller: &str| options.split(',').any(|option| option == controller);
            match kind {
                "cgroup2" => {
                    let text = read_text(path.join("cgroup.controllers")).unwrap_or_default();
                    let is_used = text.split(' ').any(|it| ["io", "memory", "cpu"].contains(&it));
                    roots.unified = is_used.then_some(path).or(roots.unified);
                }
                "cgroup" if has("blkio") => roots.blkio = Some(path),
                "cgroup" if has("memory") => roots.memory = Some(path),
                "cgroup" if has("cpu") => roots.cpu = Some(path),
                _ => {}
            }
        }
        roots
    }

    /// The contents of the files that limit the cgroup `path`, by file name, of both cgroup
    /// versions. Lines are joined by `; `.
    pub fn limits(&self, path: &str) -> BTreeMap<String, String> {
        let below = Path::new(path.trim_start_matches('/'));
        let mut limits = BTreeMap::new();
        let controllers = [
            (&self.unified, UNIFIED_LIMITS),
            (&self.blkio, BLKIO_LIMITS),
            (&self.cpu, CPU_LIMITS),
            (&self.memory, MEMORY_LIMITS),
        ];
        for (root, files) in controllers {
            let Some(folder) = root.as_ref().map(|root| root.join(below)) else { continue };
            for file in files {
                if let Some(text) = read_text(folder.join(file)) {
                    let lines: Vec<&str> = text.lines().map(str::trim).collect();
                    limits.insert((*file).to_owned(), lines.join("; "));
                }
            }
        }
        limits
    }
}

/// The container or unit of `path`: `docker:0123456789ab`, `jenkins.service` …
///
/// The innermost component of the path that names one wins: a container inside a unit is reported
/// as the container. Slices and the root name none.
pub fn container_of(path: &str) -> Option<String> {
    path.rsplit('/').find_map(component)
}

fn component(name: &str) -> Option<String> {
    const SCOPES: &[(&str, &str)] = &[
        ("docker-", "docker"),
        ("libpod-", "podman"),
        ("crio-", "crio"),
        ("cri-containerd-", "containerd"),
        ("machine-", "machine"),
        ("lxc.payload.", "lxc"),
    ];
    let scope = name.strip_suffix(".scope").unwrap_or(name);
    for (prefix, engine) in SCOPES {
        if let Some(id) = scope.strip_prefix(prefix).filter(|id| !id.is_empty()) {
            return Some(format!("{engine}:{}", short(id)));
        }
    }
    if is_container_id(name) {
        return Some(format!("container:{}", short(name)));
    }
    (name.ends_with(".service") || name.ends_with(".scope")).then(|| name.to_owned())
}

/// Docker, containerd and Kubernetes name a container by 64 hexadecimal digits.
fn is_container_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn short(id: &str) -> &str {
    if is_container_id(id) { &id[..12] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f5c0f7d6f0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a";

    #[test]
    fn engines_and_units_are_told_apart() {
        let cases = [
            ("/".to_owned(), None),
            ("/user.slice".to_owned(), None),
            ("/system.slice/jenkins.service".to_owned(), Some("jenkins.service")),
            (format!("/docker/{ID}"), Some("container:4f5c0f7d6f0e")),
            (format!("/system.slice/docker-{ID}.scope"), Some("docker:4f5c0f7d6f0e")),
            (
                format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
                Some("containerd:4f5c0f7d6f0e"),
            ),
            (format!("/machine.slice/libpod-{ID}.scope/container"), Some("podman:4f5c0f7d6f0e")),
            ("/user.slice/user-0.slice/session-3.scope".to_owned(), Some("session-3.scope")),
        ];
        for (path, expected) in cases {
            assert_eq!(container_of(&path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn limits_are_read_by_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (unified, blkio) = (folder.path().join("unified"), folder.path().join("blkio"));
        for (root, file, text) in [
            (&unified, "io.max", "7:0 rbps=9 wbps=max riops=max wiops=max\n7:1 rbps=8\n"),
            (&blkio, "blkio.throttle.read_bps_device", "7:0 1024\n"),
        ] {
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            std::fs::write(root.join("a/b").join(file), text).unwrap();
        }
        let roots = Roots { unified: Some(unified), blkio: Some(blkio), ..Roots::default() };
        let found = roots.limits("/a/b");
        assert_eq!(found["io.max"], "7:0 rbps=9 wbps=max riops=max wiops=max; 7:1 rbps=8");
        assert_eq!(found["blkio.throttle.read_bps_device"], "7:0 1024");
        assert_eq!(
            (found.len(), roots.limits("/a").len(), Roots::default().limits("/a/b").len()),
            (2, 0, 0)
        );
    }
}
