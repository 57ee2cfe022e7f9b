//! From a cgroup's path to the container or systemd unit that it belongs to.

/// The container or unit behind `path`: `docker:0123456789ab`, `jenkins.service` …
///
/// The path's innermost component that says something wins: a container inside a unit is the
/// container. Slices and the root say nothing.
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
    use super::container_of;

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
}
