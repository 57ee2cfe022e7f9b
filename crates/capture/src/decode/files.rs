//! The files of requests: paths as users see them, kept from their first record.

use super::{path_of, split_names};
use crate::host::mounts::Mounts;
use crate::host::workload::volume::volume_of;
use crate::wire;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::{FileKind, Losses, Name, Names};
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

/// Files kept; further ones are counted and have no name.
const MOST_FILES: usize = 200_000;

/// Identifies an inode for the duration of a watch.
pub type Key = (u64, u64, u32, u32);

/// The key of a wire inode.
pub fn key(inode: &wire::wire_inode) -> Key {
    (inode.address, inode.number, inode.device, inode.generation)
}

/// A `wire_file`, with its path from the root of its file system.
pub struct Parsed {
    /// The inode.
    pub inode: wire::wire_inode,
    deleted: bool,
    kind: Option<FileKind>,
    inside: String,
    nameless: bool,
}

/// A known file.
#[derive(Clone, Copy, Debug)]
pub struct KnownFile {
    /// The path; `None` if the inode has no name in the dcache.
    pub path: Option<Name>,
    /// The volume that it is on.
    pub volume: Option<Name>,
    /// Whether it had been deleted when first seen.
    pub deleted: bool,
    /// The file's type.
    pub kind: Option<FileKind>,
}

/// Files by inode.
#[derive(Debug, Default)]
pub struct KnownFiles {
    known: CappedMap<Key, KnownFile, MOST_FILES>,
    /// The volumes of files on one, by path.
    volumes: FxHashMap<Name, Name>,
}

/// Reads a `wire_file`.
pub fn parse(bytes: &[u8]) -> Option<Parsed> {
    const HEAD: usize = std::mem::offset_of!(wire::wire_file, names);
    let (head, counts, text) = split_names::<HEAD>(bytes)?;
    let short = |at: usize| Some(u16::read_from_prefix(head.get(at..)?).ok()?.0);
    let deleted = short(std::mem::offset_of!(wire::wire_file, deleted))?;
    let mode = short(std::mem::offset_of!(wire::wire_file, mode))?;
    let inode = head.get(std::mem::offset_of!(wire::wire_file, inode)..)?;
    let (inode, _) = wire::wire_inode::read_from_prefix(inode).ok()?;
    Some(Parsed {
        inode,
        deleted: deleted != 0,
        kind: FileKind::of_mode(mode.into()),
        inside: path_of(&counts, text),
        nameless: counts.count == 0,
    })
}

impl KnownFiles {
    /// Adds a file. If its file system has no visible mount, the path begins with the device's name
    /// and a colon.
    pub fn add(&mut self, file: &Parsed, mounts: &Mounts, device: &str, names: &mut Names) {
        if !self.known.admits(&key(&file.inode)) {
            return;
        }
        let (major, minor) = (file.inode.device >> 20, file.inode.device & 0xf_ffff);
        let path = (!file.nameless).then(|| {
            let visible = mounts.visible(major, minor, &file.inside);
            names.intern(&visible.unwrap_or_else(|| format!("{device}:{}", file.inside)))
        });
        let volume = path.and_then(|path| {
            let volume =
                mounts.paths(major, minor, &file.inside).find_map(|path| volume_of(&path))?;
            let volume = names.intern(&volume);
            self.volumes.insert(path, volume);
            Some(volume)
        });
        let known = KnownFile { path, volume, deleted: file.deleted, kind: file.kind };
        self.known.insert(key(&file.inode), known);
    }

    /// The volume that the file with this path is on.
    pub fn volume(&self, path: Name) -> Option<Name> {
        self.volumes.get(&path).copied()
    }

    /// The file of this inode.
    pub fn get(&self, inode: &wire::wire_inode) -> Option<KnownFile> {
        self.known.get(&key(inode)).copied()
    }

    /// Adds the files that were dropped.
    pub fn losses(&self, losses: &mut Losses) {
        losses.add("files", self.known.refused(), "files beyond those that iowhy keeps", false);
    }
}
