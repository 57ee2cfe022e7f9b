//! Maps a block of a device to the file that it belongs to, and back.
//!
//! | where | what |
//! |---|---|
//! | [`index`] | extents by sector, names by inode: pure |
//! | `ext4` | ext2, ext3, ext4: read from the device, mounted or not |
//! | `walk` | a mounted file system's files, by FIEMAP |
//! | `fsmap` | what XFS reports of its own blocks |
//! | `xfs`, `btrfs` | their fixed locations, and btrfs's chunk map, from the device |
//! | `device` | partitions |
//! | `progress` | how far reading is |
//! | `file` | the reverse: a file's extents on the device |
//!
//! A [`Locator`] lives for one run: an older index is wrong as soon as a file moves, and nothing on
//! the device shows that one did.
//!
//! What does not belong here: the output format.

mod btrfs;
mod bytes;
mod device;
mod error;
mod ext4;
mod file;
mod fsmap;
pub mod index;
mod progress;
mod walk;
mod xfs;

use crate::host::mounts::Mounts;
use btrfs::{BtrfsLocation, Chunks};
use device::DevicePart;
pub use error::LocateError;
use ext4::{Ext4, Superblock};
pub use file::{FileExtent, FileExtents, file_extents};
use fsmap::FsMap;
use index::{Extent, Index, RangeRole};
pub use progress::IndexProgress;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use walk::Walked;
use xfs::Geometry;

/// The use of a sector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Use {
    /// By the file system or one of its files.
    By(RangeRole),
    /// Unused.
    Free,
    /// Outside of every file system.
    Outside,
    /// Not known, with the reason.
    Unknown(String),
}

/// One answer. A sector that several files share has several owners.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocatedFiles {
    /// The device that holds the file system: a partition, or the device that the user named.
    pub device: PathBuf,
    /// The use of the sector.
    pub used: Use,
    /// The owners.
    pub owners: Vec<InodeOwner>,
}

/// An inode and its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InodeOwner {
    /// The inode's number.
    pub inode: u64,
    /// The inode's paths as users see them; paths inside the file system if it is not mounted.
    pub paths: Vec<String>,
}

/// The way in which the index of one file system was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The device that holds the file system.
    pub device: PathBuf,
    /// The method, in words.
    pub by: String,
    /// Number of extents.
    pub extents: usize,
    /// Number of names.
    pub names: usize,
    /// Memory of the index, bytes.
    pub bytes: usize,
    /// Files, directories or blocks that were unreadable or damaged.
    pub unreadable: u64,
}

/// Answers for one device.
#[derive(Debug)]
pub struct Locator {
    mounts: Mounts,
    parts: Vec<(DevicePart, Option<LocatedFileSystem>)>,
    progress: IndexProgress,
}

#[derive(Debug)]
enum LocatedFileSystem {
    Ext4(Box<Ext4>),
    Xfs(Geometry, Walked, Result<FsMap, String>),
    Btrfs(Chunks, Walked),
    Unknown(String),
}

impl Locator {
    /// Opens `device`: a disk, a partition, or an image of one.
    ///
    /// # Errors
    /// Fails if the device does not exist, or is something else.
    pub fn open(device: &Path) -> Result<Locator, LocateError> {
        let parts = device::parts(device)?.into_iter().map(|part| (part, None)).collect();
        Ok(Locator { mounts: Mounts::read(), parts, progress: IndexProgress::default() })
    }

    /// Returns the progress of the first query about a file system, while it reads that.
    pub fn progress(&self) -> IndexProgress {
        self.progress.clone()
    }

    /// Returns what the sector (512 bytes) of the device is used for. The first query about a file
    /// system reads its metadata.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn locate(&mut self, sector: u64) -> Result<LocatedFiles, LocateError> {
        let mounts = &self.mounts;
        let Some((part, slot)) = Locator::part(&mut self.parts, sector) else {
            return Ok(LocatedFiles {
                device: PathBuf::new(),
                used: Use::Outside,
                owners: Vec::new(),
            });
        };
        let system = match slot {
            Some(system) => system,
            None => slot.insert(LocatedFileSystem::build(part, mounts, &self.progress)?),
        };
        system.answer(sector - part.start, part, mounts)
    }

    /// The first sector of block `block` of the file system that is on the device itself.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn sector_of_block(&mut self, block: u64) -> Result<Option<u64>, LocateError> {
        let mounts = &self.mounts;
        let Some((part, slot)) = self.parts.last_mut() else { return Ok(None) };
        let system = match slot {
            Some(system) => system,
            None => slot.insert(LocatedFileSystem::build(part, mounts, &self.progress)?),
        };
        let bytes = match system {
            LocatedFileSystem::Ext4(ext4) => ext4.block_bytes(),
            LocatedFileSystem::Xfs(geometry, ..) => geometry.block_bytes(),
            // btrfs counts in bytes; its tools in blocks of 4 KiB.
            LocatedFileSystem::Btrfs(..) => 4096,
            LocatedFileSystem::Unknown(_) => return Ok(None),
        };
        Ok(block.checked_mul(bytes / 512))
    }

    /// Returns the ways in which the indexes used so far were built.
    pub fn built(&self) -> Vec<Built> {
        let built =
            |(part, system): &(DevicePart, Option<LocatedFileSystem>)| system.as_ref()?.built(part);
        self.parts.iter().filter_map(built).collect()
    }

    /// The partition that holds the sector, else the device itself.
    fn part(
        parts: &mut [(DevicePart, Option<LocatedFileSystem>)],
        sector: u64,
    ) -> Option<(&DevicePart, &mut Option<LocatedFileSystem>)> {
        let within = |(part, _): &&mut (DevicePart, Option<LocatedFileSystem>)| {
            sector >= part.start && sector - part.start < part.sectors
        };
        parts.iter_mut().find(within).map(|(part, system)| (&*part, system))
    }
}

impl LocatedFileSystem {
    fn build(
        part: &DevicePart,
        mounts: &Mounts,
        progress: &IndexProgress,
    ) -> Result<LocatedFileSystem, LocateError> {
        let device = File::open(&part.node).map_err(LocateError::read(&part.node))?;
        let failed = || LocateError::read(&part.node);
        if let Some(superblock) = Superblock::read(&device).map_err(failed())? {
            let ext4 = Ext4::build(device, superblock, progress).map_err(failed())?;
            return Ok(LocatedFileSystem::Ext4(Box::new(ext4)));
        }
        if let Some(geometry) = Geometry::read(&device).map_err(failed())? {
            let walked = LocatedFileSystem::walk("XFS", part, mounts, progress)?;
            let map = || {
                let number = part.number.ok_or_else(String::new)?;
                FsMap::read(&mounts.root_of(number, &part.node).unwrap_or_default(), number)
            };
            return Ok(walked.map_or_else(LocatedFileSystem::Unknown, |walked| {
                LocatedFileSystem::Xfs(geometry, walked, map())
            }));
        }
        // A device that is too small for a superblock has no btrfs.
        let superblock = btrfs::superblock(&device).unwrap_or_default();
        if btrfs::is_btrfs(&superblock) {
            let chunks = Chunks::read(&device, &superblock).map_err(failed())?;
            let walked = LocatedFileSystem::walk("btrfs", part, mounts, progress)?;
            return Ok(match chunks.and_then(|chunks| Ok((chunks, walked?))) {
                Ok((chunks, walked)) => LocatedFileSystem::Btrfs(chunks, walked),
                Err(why) => LocatedFileSystem::Unknown(why),
            });
        }
        Ok(LocatedFileSystem::Unknown(match part.holders.as_slice() {
            [] => "it has no file system that iowhy can read".to_owned(),
            holders => format!("it is part of {}: query that device", holders.join(", ")),
        }))
    }

    fn walk(
        kind: &str,
        part: &DevicePart,
        mounts: &Mounts,
        progress: &IndexProgress,
    ) -> Result<Result<Walked, String>, LocateError> {
        let Some(root) = part.number.and_then(|number| mounts.root_of(number, &part.node)) else {
            return Ok(Err(format!("{kind} can be read only if it is mounted, and it is not")));
        };
        let inside: FxHashSet<PathBuf> = mounts.points().collect();
        walk::walk(&root, &inside, progress).map(Ok).map_err(LocateError::read(root))
    }

    fn built(&self, part: &DevicePart) -> Option<Built> {
        let (by, index, unreadable) = match self {
            LocatedFileSystem::Ext4(ext4) => ("inode tables of ext4", ext4.index(), ext4.damaged),
            LocatedFileSystem::Xfs(_, walked, _) => {
                ("XFS superblock and FIEMAP of every file", &walked.index, walked.unreadable)
            }
            LocatedFileSystem::Btrfs(_, walked) => {
                ("btrfs chunk tree and FIEMAP of every file", &walked.index, walked.unreadable)
            }
            LocatedFileSystem::Unknown(_) => return None,
        };
        let (extents, names, bytes) = index.size();
        let device = part.node.clone();
        Some(Built { device, by: by.to_owned(), extents, names, bytes, unreadable })
    }

    fn answer(
        &self,
        sector: u64,
        part: &DevicePart,
        mounts: &Mounts,
    ) -> Result<LocatedFiles, LocateError> {
        let (index, at, otherwise) = match self {
            LocatedFileSystem::Unknown(why) => return Ok(answer(part, Use::Unknown(why.clone()))),
            LocatedFileSystem::Ext4(ext4) => (ext4.index(), sector, None),
            LocatedFileSystem::Xfs(geometry, walked, map) => {
                if let Some(role) = geometry.role(sector * 512) {
                    return Ok(answer(part, Use::By(role)));
                }
                let (used, inode) = of_map(map, sector, walked);
                if let Some(inode) = inode.filter(|_| walked.index.at(sector).is_empty()) {
                    let extent =
                        Extent { start: sector, end: sector, owner: inode, role: RangeRole::Data };
                    let owners = owner(&extent, &walked.index, part, mounts).into_iter().collect();
                    return Ok(LocatedFiles { owners, ..answer(part, used) });
                }
                (&walked.index, sector, Some(used))
            }
            LocatedFileSystem::Btrfs(chunks, walked) => match chunks.place(sector * 512) {
                BtrfsLocation::Superblock => {
                    return Ok(answer(part, Use::By(RangeRole::Superblock)));
                }
                BtrfsLocation::Metadata(_) => {
                    return Ok(answer(part, Use::By(RangeRole::Metadata)));
                }
                BtrfsLocation::Unallocated => return Ok(answer(part, Use::Free)),
                BtrfsLocation::Data(address) => {
                    let why = "free, compressed, or of a deleted file or an invisible snapshot";
                    (&walked.index, address / 512, Some(Use::Unknown(why.to_owned())))
                }
            },
        };
        let extents = index.at(at);
        let used = match (extents.last(), otherwise, self) {
            (Some(extent), ..) => Use::By(extent.role),
            (None, Some(otherwise), _) => otherwise,
            (None, None, LocatedFileSystem::Ext4(ext4)) => {
                free(ext4, at).map_err(LocateError::read(&part.node))?
            }
            (None, None, _) => Use::Outside,
        };
        let owners = extents.iter().filter_map(|extent| owner(extent, index, part, mounts));
        Ok(LocatedFiles { owners: owners.collect(), ..answer(part, used) })
    }
}

/// Returns XFS's report of a sector that belongs to no file, and the inode that has it.
fn of_map(map: &Result<FsMap, String>, sector: u64, walked: &Walked) -> (Use, Option<u64>) {
    let unknown = |why: &str| (Use::Unknown(why.to_owned()), None);
    let map = match map {
        Ok(map) => map,
        Err(why) => {
            return unknown(&format!(
                "free, a directory or a tree of XFS, which are not distinguished: {why}"
            ));
        }
    };
    match map.at(sector) {
        Some(fsmap::RangeUse::Free) => (Use::Free, None),
        Some(fsmap::RangeUse::System(role)) => (Use::By(role), None),
        Some(fsmap::RangeUse::Inode(inode, role)) => {
            // FIEMAP covers files, but not long symbolic links and directories.
            let kind = if walked.directories.contains(&inode) {
                RangeRole::Directory
            } else {
                RangeRole::Symlink
            };
            let gone = walked.index.paths(inode).is_empty();
            let role = role.unwrap_or(if gone { RangeRole::Data } else { kind });
            (Use::By(role), Some(inode))
        }
        Some(fsmap::RangeUse::Unknown) => unknown(
            "a directory or a tree, or a deleted file: this XFS was made without a reverse map \
             (rmapbt)",
        ),
        None => unknown("changed while it was read"),
    }
}

fn answer(part: &DevicePart, used: Use) -> LocatedFiles {
    LocatedFiles { device: part.node.clone(), used, owners: Vec::new() }
}

fn free(ext4: &Ext4, sector: u64) -> std::io::Result<Use> {
    Ok(match ext4.is_free(sector)? {
        Some(true) => Use::Free,
        Some(false) => {
            Use::Unknown("in use, but not by an inode: changed since, or damaged".to_owned())
        }
        None => Use::Outside,
    })
}

fn owner(extent: &Extent, index: &Index, part: &DevicePart, mounts: &Mounts) -> Option<InodeOwner> {
    let inode = extent.owner & walk::INODE;
    let root = part.number.and_then(|number| mounts.root_of(number, &part.node));
    let visible = |inside: Vec<u8>| {
        let inside = String::from_utf8_lossy(&inside).into_owned();
        match &root {
            Some(root) if inside == "/" => root.display().to_string(),
            Some(root) => format!("{}{inside}", root.display().to_string().trim_end_matches('/')),
            None => inside,
        }
    };
    let paths = index.paths(extent.owner).into_iter().map(visible).collect();
    (inode != 0).then_some(InodeOwner { inode, paths })
}
