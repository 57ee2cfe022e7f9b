//! Paths of files as programs passed them: the directories that they begin in.
//!
//! What does not belong here: paths of inodes (see [`crate::decode::files`]).

use crate::decode::{DecodeContext, KnownEntities};
use crate::wire::{wire_directory, wire_inode};
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::{Name, Names};
use std::path::Path;
use zerocopy::FromBytes;

/// Directories known by id; rows of further ones have no name.
const MOST_DIRECTORIES: usize = 65_536;

/// Directories in which names were looked up, by the kernel's id.
#[derive(Debug, Default)]
pub struct Directories {
    known: CappedMap<u64, (wire_inode, String), MOST_DIRECTORIES>,
}

impl Directories {
    /// Adds a `wire_directory`.
    pub fn add(&mut self, bytes: &[u8]) -> Option<()> {
        const HEAD: usize = std::mem::offset_of!(wire_directory, text);
        let word = |at: usize| Some(u64::read_from_prefix(bytes.get(at..)?).ok()?.0);
        let id = word(std::mem::offset_of!(wire_directory, place))?;
        let base = bytes.get(std::mem::offset_of!(wire_directory, base)..)?;
        let (base, _) = wire_inode::read_from_prefix(base).ok()?;
        let (length, _) = u32::read_from_prefix(bytes.get(4..)?).ok()?;
        let text = bytes.get(HEAD..HEAD + length as usize)?;
        self.known.insert(id, (base, String::from_utf8_lossy(text).into_owned()));
        Some(())
    }

    /// The pattern for names looked up in a directory: `/dir/*`.
    pub fn pattern(&self, id: u64, cx: &mut DecodeContext<'_>) -> Option<Name> {
        let (base, text) = self.known.get(&id)?;
        let directory = path_from(base, text, cx.known, cx.out.names)?;
        Some(cx.name(&format!("{}/*", directory.trim_end_matches('/'))))
    }

    /// Directories that were not kept.
    pub fn refused(&self) -> u64 {
        self.known.refused()
    }
}

/// The absolute path, from the machine's root, of a path as a program passed it.
pub fn path_from(
    base: &wire_inode,
    text: &str,
    known: &KnownEntities,
    names: &Names,
) -> Option<String> {
    let Some(path) = known.files.get(base)?.path else {
        // Only the root of a file system has no name.
        let (major, minor) = (base.device >> 20, base.device & 0xf_ffff);
        return Some(join(&known.mounts.visible(major, minor, "/")?, text));
    };
    Some(join(names.get(path), text))
}

/// The whole disk that a path is on, by its mount.
pub fn disk_of(path: Name, cx: &mut DecodeContext<'_>) -> Option<Name> {
    let mount = cx.known.mounts.of_file((0, 0), Path::new(cx.out.names.get(path)))?;
    let disk = cx.known.devices.disk(mount.major << 20 | mount.minor)?;
    Some(cx.out.names.intern(disk))
}

/// Joins `text` to the directory `base`, without `.`, `..` and double slashes. Symbolic links are
/// not resolved.
fn join(base: &str, text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(text.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let absolute = if base.starts_with('/') { "/" } else { "" };
    format!("{absolute}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_where_the_process_stands() {
        for (base, text, path) in [
            ("/", "/tmp//a", "/tmp/a"),
            ("/srv/x", "../y/./z", "/srv/y/z"),
            ("/", "../../etc", "/etc"),
            ("loop0:/a", "b", "loop0:/a/b"),
            ("/srv/chroot", "/tmp/", "/srv/chroot/tmp"),
        ] {
            assert_eq!(join(base, text), path);
        }
    }
}
