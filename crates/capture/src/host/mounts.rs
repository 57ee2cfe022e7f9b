//! Mounted file systems; maps a path inside a file system to the path that users see.

use super::fuse;
use iowhy_model::environment::Mount;
use std::path::{Path, PathBuf};

/// File systems served by another machine or the hypervisor; for FUSE see [`fuse::is_served`].
const SERVED: &[&str] = &[
    "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "afs", "lustre", "ocfs2", "gfs2",
    "zfs",
];
/// File systems whose size the kernel reports from memory.
const ASKED: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// The mount table of the whole machine.
#[derive(Clone, Debug, Default)]
pub struct Mounts {
    mounts: Vec<Mount>,
}

impl Mounts {
    /// Reads the mount table of the first process, or of this process if that is not allowed.
    pub fn read() -> Mounts {
        let text = ["/proc/1/mountinfo", "/proc/self/mountinfo"]
            .iter()
            .find_map(super::read_text)
            .unwrap_or_default();
        Mounts::parse(&text)
    }

    /// Parses the text of a `mountinfo` file; malformed lines are left out.
    pub fn parse(text: &str) -> Mounts {
        Mounts { mounts: text.lines().filter_map(parse_line).collect() }
    }

    /// Mounts on a block device, or on an anonymous device of a file system that uses a block
    /// device (btrfs, overlay).
    pub fn of_block_devices(&self) -> Vec<Mount> {
        let matters = |mount: &&Mount| {
            mount.major != 0 || mount.source.starts_with('/') || mount.kind == "overlay"
        };
        self.mounts.iter().filter(matters).cloned().collect()
    }

    /// Mounts that matter for waits: of block devices, with their size and free space, and served
    /// ones, with the process that serves them if it is on this machine.
    pub fn of_storage(&self) -> Vec<Mount> {
        let mut mounts = self.of_block_devices();
        let is_known = |mount: &Mount| {
            mounts.iter().any(|known| known.path == mount.path && known.kind == mount.kind)
        };
        let served: Vec<Mount> = self.served().filter(|mount| !is_known(mount)).cloned().collect();
        mounts.extend(served);
        mounts.iter_mut().for_each(note_space);
        fuse::name_servers(&mut mounts);
        mounts
    }

    /// File systems that another machine, the hypervisor or a process serves.
    fn served(&self) -> impl Iterator<Item = &Mount> {
        let is_served =
            |mount: &&Mount| SERVED.contains(&mount.kind.as_str()) || fuse::is_served(&mount.kind);
        self.mounts.iter().filter(is_served)
    }

    /// Mount points of file systems that another machine, the hypervisor or a process serves.
    pub fn served_points(&self) -> Vec<String> {
        self.served().map(|mount| mount.path.clone()).collect()
    }

    /// Whether a mounted file system uses the FUSE protocol.
    pub fn has_fuse(&self) -> bool {
        self.mounts.iter().any(|mount| mount.kind == "virtiofs" || fuse::is_served(&mount.kind))
    }

    /// Whether a file system is mounted from the device.
    pub fn is_mounted(&self, major: u32, minor: u32, name: &str) -> bool {
        let source = |mount: &Mount| mount.source.strip_prefix("/dev/") == Some(name);
        self.mounts
            .iter()
            .any(|mount| (mount.major, mount.minor) == (major, minor) || source(mount))
    }

    /// The path that users see for `inside`, a path from the root of the file system on the device;
    /// `None` if that part of it is not mounted.
    pub fn visible(&self, major: u32, minor: u32, inside: &str) -> Option<String> {
        // The whole file system before a bind mount of a part of it; then the earliest mount.
        self.under(major, minor, inside).min_by_key(|(root, _)| *root).map(|(_, path)| path)
    }

    /// Every path under which users see `inside`, in the order of mounts.
    pub fn paths(&self, major: u32, minor: u32, inside: &str) -> impl Iterator<Item = String> {
        self.under(major, minor, inside).map(|(_, path)| path)
    }

    /// The paths of `inside`, each with the length of its mount's root.
    fn under(&self, major: u32, minor: u32, inside: &str) -> impl Iterator<Item = (usize, String)> {
        let own =
            self.mounts.iter().filter(move |mount| (mount.major, mount.minor) == (major, minor));
        own.filter_map(move |mount| {
            let rest = inside.strip_prefix(mount.root.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (mount.root.len(), join(&mount.path, rest)))
        })
    }

    /// Maps a path of this table to the path from the root of the file system on the device.
    pub fn inside(&self, (major, minor): (u32, u32), path: &str) -> Option<String> {
        let of_device =
            self.mounts.iter().filter(|mount| (mount.major, mount.minor) == (major, minor));
        let around = of_device.filter(|mount| Path::new(path).starts_with(&mount.path));
        let mount = around.max_by_key(|mount| mount.path.len())?;
        let rest = path.strip_prefix(mount.path.trim_end_matches('/'))?;
        Some(join(&mount.root, rest))
    }

    /// The type of the file system with this device number: `ext4`.
    pub fn kind_of(&self, (major, minor): (u32, u32)) -> Option<&str> {
        let same = |mount: &&Mount| (mount.major, mount.minor) == (major, minor);
        self.mounts.iter().find(same).map(|mount| mount.kind.as_str())
    }

    /// The mount point of the whole file system of the device. btrfs has a device number of its
    /// own, so its device is recognised by `node`.
    pub fn root_of(&self, (major, minor): (u32, u32), node: &Path) -> Option<PathBuf> {
        let of_device = |mount: &&Mount| {
            let same = (mount.major, mount.minor) == (major, minor);
            mount.root == "/" && (same || Path::new(&mount.source) == node)
        };
        self.mounts.iter().find(of_device).map(|mount| PathBuf::from(&mount.path))
    }

    /// Every mount point.
    pub fn points(&self) -> impl Iterator<Item = PathBuf> {
        self.mounts.iter().map(|mount| PathBuf::from(&mount.path))
    }

    /// The mount that a file is in, by its device number; by its path if the table does not have
    /// that number, as for a subvolume of btrfs that is not mounted by itself.
    pub fn of_file(&self, number: (u32, u32), path: &Path) -> Option<&Mount> {
        let by_path = || {
            let around = self.mounts.iter().filter(|mount| path.starts_with(&mount.path));
            around.max_by_key(|mount| mount.path.len())
        };
        let same = |mount: &&Mount| (mount.major, mount.minor) == number;
        self.mounts.iter().find(same).or_else(by_path)
    }

    /// The node of the mounted block device.
    pub fn node_of(mount: &Mount) -> Option<PathBuf> {
        let link = format!("/sys/dev/block/{}:{}", mount.major, mount.minor);
        let name =
            std::fs::read_link(link).ok().and_then(|path| Some(path.file_name()?.to_owned()));
        let named = name.map(|name| Path::new("/dev").join(name));
        named.or_else(|| mount.source.starts_with("/dev/").then(|| PathBuf::from(&mount.source)))
    }

    /// Whether anything is mounted from the device number.
    pub fn knows(&self, major: u32, minor: u32) -> bool {
        self.mounts.iter().any(|mount| (mount.major, mount.minor) == (major, minor))
    }
}

/// Sets the size of a file system on a block device. Other file systems are not queried: a server
/// may never answer.
fn note_space(mount: &mut Mount) {
    if !ASKED.contains(&mount.kind.as_str()) {
        return;
    }
    let Ok(space) = rustix::fs::statvfs(&mount.path) else { return };
    mount.bytes = Some(space.f_blocks.saturating_mul(space.f_frsize));
    mount.free_bytes = Some(space.f_bavail.saturating_mul(space.f_frsize));
}

fn join(mount: &str, rest: &str) -> String {
    let joined = format!("{}{rest}", mount.trim_end_matches('/'));
    if joined.is_empty() { "/".to_owned() } else { joined }
}

/// Parses `36 35 98:0 /root /mount rw,noatime master:1 - ext4 /dev/root rw,errors=continue`.
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let (root, path, own) = (left.next()?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, source) = (right.next()?, right.next()?);
    let options = right.next().unwrap_or_default();
    Some(Mount {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: unescape(root),
        path: unescape(path),
        kind: kind.to_owned(),
        source: unescape(source),
        options: format!("{own},{options}"),
        ..Mount::default()
    })
}

/// mountinfo writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
90 25 254:0 /srv/data /mnt/bound rw shared:1 - ext4 /dev/root rw
91 25 7:3 /sub /only/part rw - xfs /dev/loop3 rw
92 25 0:44 / /with\\040blank rw - btrfs /dev/loop4 rw
broken line";

    #[test]
    fn paths_are_those_of_the_whole_mount_before_a_part() {
        let mounts = Mounts::parse(TABLE);
        let visible = |major, minor, inside| mounts.visible(major, minor, inside);
        assert_eq!(visible(254, 0, "/srv/data/x").as_deref(), Some("/srv/data/x"));
        assert_eq!(visible(7, 3, "/sub/x").as_deref(), Some("/only/part/x"));
        assert_eq!(visible(7, 3, "/subway/x"), None);
        assert_eq!(visible(0, 44, "/x").as_deref(), Some("/with blank/x"));
        assert_eq!(visible(9, 9, "/x"), None);
        let inside = |device, path| mounts.inside(device, path);
        assert_eq!(inside((7, 3), "/only/part/x").as_deref(), Some("/sub/x"));
        assert_eq!(inside((254, 0), "/mnt/bound/x").as_deref(), Some("/srv/data/x"));
        assert_eq!(inside((7, 3), "/only/parts"), None);
        assert_eq!(mounts.kind_of((7, 3)), Some("xfs"));
    }

    #[test]
    fn file_systems_with_a_server_are_kept() {
        let table = "\
30 25 0:50 / /srv/nfs rw - nfs4 10.0.0.7:/export rw,vers=4.2
31 25 0:51 / /mnt/bucket rw - fuse.s3fs s3fs rw
32 25 0:52 / /shared rw - virtiofs tag rw
33 25 0:53 / /sys/fs/fuse/connections rw - fusectl fusectl rw
34 25 0:54 / /tmp rw - tmpfs tmpfs rw
35 25 0:55 / /win rw - cifs //server/share rw";
        let kept = Mounts::parse(table).of_storage();
        let kinds: Vec<&str> = kept.iter().map(|mount| mount.kind.as_str()).collect();
        assert_eq!(kinds, ["cifs", "nfs4", "fuse.s3fs", "virtiofs"]);
        assert!(kept.iter().all(|mount| mount.bytes.is_none()), "no server is asked");
    }

    #[test]
    fn a_device_is_mounted_by_number_or_by_name() {
        let mounts = Mounts::parse(TABLE);
        assert!(mounts.is_mounted(7, 3, "loop3"));
        assert!(mounts.is_mounted(7, 4, "loop4"), "btrfs has a number of its own");
        assert!(!mounts.is_mounted(7, 5, "loop5"));
    }
}
