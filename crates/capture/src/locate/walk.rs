//! The files of a mounted file system and their extents, by walking its directories and querying
//! the kernel (FIEMAP) for each file.
//!
//! What does not belong here: translating btrfs's addresses to the device's (see [`super::btrfs`]).

use super::index::{Builder, Extent, Index, RangeRole};
use super::progress::IndexProgress;
use fiemap::{Fiemap, FiemapExtent, FiemapExtentFlags};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Flags of extents without an address: not allocated yet, inside the inode, or compressed, so that
/// the address of a byte is not known.
const ELSEWHERE: FiemapExtentFlags = FiemapExtentFlags::UNKNOWN
    .union(FiemapExtentFlags::DELALLOC)
    .union(FiemapExtentFlags::DATA_INLINE)
    .union(FiemapExtentFlags::DATA_ENCRYPTED);

/// A byte range of a file and of the file system's address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedRange {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Offset in the file system's address space, bytes.
    pub address: u64,
    /// Length, bytes.
    pub length: u64,
    /// Whether the bytes are compressed: then they use less space than `length`.
    pub compressed: bool,
    /// Whether it is only allocated: it reads as zeroes, whatever the device holds.
    pub unwritten: bool,
}

/// The extents of an open file that have an address.
pub(super) fn extents(file: &File) -> std::io::Result<Vec<MappedRange>> {
    let mut found = Vec::new();
    for extent in Fiemap::new(file) {
        let extent: FiemapExtent = extent?;
        if !extent.fe_flags.intersects(ELSEWHERE) {
            found.push(MappedRange {
                offset: extent.fe_logical,
                address: extent.fe_physical,
                length: extent.fe_length,
                compressed: extent.fe_flags.contains(FiemapExtentFlags::ENCODED),
                unwritten: extent.fe_flags.contains(FiemapExtentFlags::UNWRITTEN),
            });
        }
    }
    Ok(found)
}

/// An inode's number within its key; the rest of the key distinguishes btrfs's subvolumes.
pub(super) const INODE: u64 = (1 << 48) - 1;

/// The result of a walk.
#[derive(Debug)]
pub struct Walked {
    /// Extents in units of 512 bytes of the file system's address space, and names.
    pub index: Index,
    /// The directories' keys.
    pub directories: FxHashSet<u64>,
    /// Files and directories that could not be read.
    pub unreadable: u64,
}

/// Walks the file system mounted at `root`, without file systems mounted inside it.
pub(super) fn walk(
    root: &Path,
    mount_points: &FxHashSet<PathBuf>,
    progress: &IndexProgress,
) -> std::io::Result<Walked> {
    let about = fs::metadata(root)?;
    // btrfs has no fixed number of inodes, and tells 0.
    let space = rustix::fs::statvfs(root);
    progress.begin(space.map_or(0, |space| space.f_files.saturating_sub(space.f_ffree)));
    let mut walk = Walk {
        mount_points,
        progress,
        builder: Builder::default(),
        volumes: FxHashMap::default(),
        seen: FxHashSet::default(),
        directories: FxHashSet::default(),
        unreadable: 0,
    };
    let key = walk.key(&about);
    walk.file(root, key, RangeRole::Directory);
    let mut left = vec![(root.to_owned(), key)];
    while let Some((directory, key)) = left.pop() {
        walk.directory(&directory, key, &mut left);
    }
    let Walk { builder, directories, unreadable, .. } = walk;
    Ok(Walked { index: builder.finish(key), directories, unreadable })
}

struct Walk<'a> {
    mount_points: &'a FxHashSet<PathBuf>,
    progress: &'a IndexProgress,
    builder: Builder,
    /// Device numbers of subvolumes, in the order in which they are found.
    volumes: FxHashMap<u64, u64>,
    /// Inodes with several names whose extents are known.
    seen: FxHashSet<u64>,
    directories: FxHashSet<u64>,
    unreadable: u64,
}

impl Walk<'_> {
    fn key(&mut self, about: &Metadata) -> u64 {
        let count = self.volumes.len() as u64;
        let volume = *self.volumes.entry(about.dev()).or_insert(count);
        volume << 48 | about.ino() & INODE
    }

    fn directory(&mut self, path: &Path, key: u64, left: &mut Vec<(PathBuf, u64)>) {
        self.directories.insert(key);
        let Ok(entries) = fs::read_dir(path) else {
            self.unreadable += 1;
            return;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                self.unreadable += 1;
                continue;
            };
            let inside = entry.path();
            if self.mount_points.contains(&inside) {
                continue;
            }
            match entry.metadata() {
                Ok(about) => self.entry(&inside, &about, key, left),
                Err(_) => self.unreadable += 1,
            }
        }
    }

    fn entry(
        &mut self,
        path: &Path,
        about: &Metadata,
        parent: u64,
        left: &mut Vec<(PathBuf, u64)>,
    ) {
        let key = self.key(about);
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        self.builder.link(key, parent, name);
        self.progress.add(1);
        let kind = about.file_type();
        if kind.is_dir() {
            self.file(path, key, RangeRole::Directory);
            left.push((path.to_owned(), key));
        } else if kind.is_file() && (about.nlink() == 1 || self.seen.insert(key)) {
            self.file(path, key, RangeRole::Data);
        }
    }

    fn file(&mut self, path: &Path, key: u64, role: RangeRole) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty())
            .or_else(|_| rustix::fs::open(path, flags, Mode::empty()));
        let Ok(opened) = opened else {
            self.unreadable += 1;
            return;
        };
        match extents(&File::from(opened)) {
            Ok(extents) => {
                for extent in extents.iter().filter(|extent| !extent.compressed) {
                    let (start, end) =
                        (extent.address / 512, (extent.address + extent.length) / 512);
                    self.builder.extent(Extent { start, end, owner: key, role });
                }
            }
            // Directories of XFS and btrfs have no FIEMAP.
            Err(_) => self.unreadable += u64::from(role == RangeRole::Data),
        }
    }
}
