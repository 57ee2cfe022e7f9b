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
/// Bits of a minor number in the kernel's device numbers (MINORBITS).
const MINOR_BITS: u32 = 20;

/// Whether a file system of this type is served by a process.
pub fn is_served(kind: &str) -> bool {
    kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.")
}

/// A process that has /dev/fuse open, and the device number of the file system it serves, if the
/// kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FuseServer {
    process: String,
    device: Option<u32>,
}

/// Returns the device number of a file system as the kernel keeps it: of fuseblk it is that of the
/// block device, of the others a minor number alone.
fn device_of(mount: &Mount) -> u32 {
    mount.major << MINOR_BITS | mount.minor
}

/// Adds to each FUSE mount its server, if it can be determined.
pub fn name_servers(mounts: &mut [Mount]) {
    if mounts.iter().any(|mount| is_served(&mount.kind)) {
        assign(mounts, &servers());
    }
}

fn assign(mounts: &mut [Mount], servers: &[FuseServer]) {
    let of_fuse = mounts.iter().filter(|mount| is_served(&mount.kind));
    let mut devices: Vec<u32> = of_fuse.map(device_of).collect();
    devices.sort_unstable();
    devices.dedup();
    for mount in mounts.iter_mut().filter(|mount| is_served(&mount.kind)) {
        let told = servers.iter().find(|server| server.device == Some(device_of(mount)));
        let only = match servers {
            [only] if devices.len() == 1 && only.device.is_none() => Some(only),
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
    let device = info.lines().find_map(|line| line.strip_prefix(CONNECTION)?.trim().parse().ok());
    Some(FuseServer { process: format!("{} ({pid})", name.trim()), device })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(minor: u32, kind: &str) -> Mount {
        Mount { minor, kind: kind.to_owned(), ..Mount::default() }
    }

    fn server(name: &str, device: Option<u32>) -> FuseServer {
        FuseServer { process: name.to_owned(), device }
    }

    #[test]
    fn a_server_is_known_by_its_connection_or_by_being_alone() {
        let mut mounts = [mount(40, "fuse.sshfs"), mount(41, "fuse.s3fs"), mount(42, "ext4")];
        assign(&mut mounts, &[server("s3fs (8)", Some(41)), server("sshfs (7)", Some(40))]);
        let named: Vec<Option<&str>> = mounts.iter().map(|mount| mount.server.as_deref()).collect();
        assert_eq!(named, [Some("sshfs (7)"), Some("s3fs (8)"), None]);
        let mut block = [Mount { major: 7, ..mount(0, "fuseblk") }, mount(40, "fuse.sshfs")];
        assign(&mut block, &[server("ntfs-3g (9)", Some(7 << 20)), server("sshfs (7)", Some(40))]);
        assert_eq!(block[0].server.as_deref(), Some("ntfs-3g (9)"));
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
