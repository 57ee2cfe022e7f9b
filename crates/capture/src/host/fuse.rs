//! The processes that serve FUSE file systems: those that have /dev/fuse open. Since Linux 6.16 the
//! descriptor shows the file system; before, the server is known only if there is one server and
//! one file system.
//!
//! What does not belong here: what the server waits for (see [`crate::probes::wait`]).

use super::read_text;
use iowhy_model::environment::Mount;
use std::fs;
use std::path::Path;

/// Descriptors that are checked; with more, servers may remain unknown.
const MOST: usize = 1 << 16;
/// The kernel's prefix of the device's number.
const CONNECTION: &str = "fuse_connection:";

/// Whether a file system of this type is served by a process.
pub fn is_served(kind: &str) -> bool {
    kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.")
}

/// A process that has /dev/fuse open, and the minor number of the file system it serves, if the
/// kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FuseServer {
    process: String,
    minor: Option<u32>,
}

/// Adds to each FUSE mount its server, if it can be determined.
pub fn name_servers(mounts: &mut [Mount]) {
    if mounts.iter().any(|mount| is_served(&mount.kind)) {
        assign(mounts, &servers());
    }
}

fn assign(mounts: &mut [Mount], servers: &[FuseServer]) {
    let of_fuse = mounts.iter().filter(|mount| is_served(&mount.kind));
    let mut minors: Vec<u32> = of_fuse.map(|mount| mount.minor).collect();
    minors.sort_unstable();
    minors.dedup();
    for mount in mounts.iter_mut().filter(|mount| is_served(&mount.kind)) {
        let told = servers.iter().find(|server| server.minor == Some(mount.minor));
        let only = match servers {
            [only] if minors.len() == 1 && only.minor.is_none() => Some(only),
            _ => None,
        };
        mount.server = told.or(only).map(|server| server.process.clone());
    }
}

fn servers() -> Vec<FuseServer> {
    let mut left = MOST;
    let mut found = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            if left == 0 {
                return found;
            }
            left -= 1;
            let is_fuse = fs::read_link(descriptor.path())
                .is_ok_and(|target| target == Path::new("/dev/fuse"));
            if is_fuse {
                found.extend(server(pid, &entry.path(), Path::new(&descriptor.file_name())));
            }
        }
    }
    found.dedup();
    found
}

fn server(pid: u32, process: &Path, descriptor: &Path) -> Option<FuseServer> {
    let name = read_text(process.join("comm"))?;
    let info = read_text(process.join("fdinfo").join(descriptor)).unwrap_or_default();
    let minor = info.lines().find_map(|line| line.strip_prefix(CONNECTION)?.trim().parse().ok());
    Some(FuseServer { process: format!("{} ({pid})", name.trim()), minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(minor: u32, kind: &str) -> Mount {
        Mount { minor, kind: kind.to_owned(), ..Mount::default() }
    }

    fn server(name: &str, minor: Option<u32>) -> FuseServer {
        FuseServer { process: name.to_owned(), minor }
    }

    #[test]
    fn a_server_is_known_by_its_connection_or_by_being_alone() {
        let mut mounts = [mount(40, "fuse.sshfs"), mount(41, "fuse.s3fs"), mount(42, "ext4")];
        assign(&mut mounts, &[server("s3fs (8)", Some(41)), server("sshfs (7)", Some(40))]);
        let named: Vec<Option<&str>> = mounts.iter().map(|mount| mount.server.as_deref()).collect();
        assert_eq!(named, [Some("sshfs (7)"), Some("s3fs (8)"), None]);
        // Without the minor number, two mounts or two servers are not assigned.
        assign(&mut mounts, &[server("sshfs (7)", None)]);
        assert_eq!(mounts[0].server, None);
        let mut one = [mount(40, "fuse.sshfs"), mount(40, "fuse.sshfs")];
        assign(&mut one, &[server("sshfs (7)", None)]);
        assert_eq!(one[1].server.as_deref(), Some("sshfs (7)"));
        assign(&mut one, &[server("sshfs (7)", None), server("s3fs (8)", None)]);
        assert_eq!(one[1].server, None);
    }
}
