//! One inode: its type, and its blocks.

use super::super::bytes::{halves, le};

/// The type of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InodeKind {
    File,
    Directory,
    Symlink,
    /// A device node, a pipe, a socket: it has no blocks.
    Other,
}

const EXTENTS: u64 = 0x8_0000;
const INLINE: u64 = 0x1000_0000;
const ENCRYPTED: u64 = 0x800;
const EXTENT_MAGIC: u64 = 0xf30a;

/// A view of an inode's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Inode<'a> {
    bytes: &'a [u8],
}

/// The list of an inode's blocks.
#[derive(Clone, Copy, Debug)]
pub enum Map<'a> {
    /// The inode has no blocks.
    None,
    /// A tree of extents, whose root this is.
    Extents(&'a [u8]),
    /// Twelve block numbers and three trees.
    Indirect(&'a [u8]),
}

impl<'a> Inode<'a> {
    /// An inode as in the inode table.
    pub fn new(bytes: &'a [u8]) -> Inode<'a> {
        Inode { bytes }
    }

    pub fn kind(&self) -> InodeKind {
        match le::<2>(self.bytes, 0) >> 12 {
            8 => InodeKind::File,
            4 => InodeKind::Directory,
            10 => InodeKind::Symlink,
            _ => InodeKind::Other,
        }
    }

    fn flags(&self) -> u64 {
        le::<4>(self.bytes, 32)
    }

    /// Whether names in this directory are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.flags() & ENCRYPTED != 0
    }

    /// The block of extended attributes; 0 if there is none.
    pub fn attributes(&self) -> u64 {
        halves::<2>(self.bytes, 104, 118)
    }

    /// The list of its blocks.
    pub fn map(&self) -> Map<'a> {
        let map = self.bytes.get(40..100).unwrap_or_default();
        let flags = self.flags();
        let short_link = self.kind() == InodeKind::Symlink && le::<4>(self.bytes, 4) < 60;
        if self.kind() == InodeKind::Other || flags & INLINE != 0 {
            Map::None
        } else if flags & EXTENTS != 0 {
            Map::Extents(map)
        } else if short_link {
            Map::None
        } else {
            Map::Indirect(map)
        }
    }
}

/// A node of an extent tree.
#[derive(Clone, Copy, Debug)]
pub struct ExtentNode<'a> {
    bytes: &'a [u8],
    pub depth: u64,
    entries: usize,
}

impl<'a> ExtentNode<'a> {
    /// `None` if this is not such a node.
    pub fn new(bytes: &'a [u8]) -> Option<ExtentNode<'a>> {
        let (entries, depth) = (le::<2>(bytes, 2) as usize, le::<2>(bytes, 6));
        let fits = (entries + 1) * 12 <= bytes.len();
        (le::<2>(bytes, 0) == EXTENT_MAGIC && fits && depth <= 5).then_some(ExtentNode {
            bytes,
            depth,
            entries,
        })
    }

    fn entries(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks_exact(12).skip(1).take(self.entries)
    }

    /// Of a leaf: the first block and the count of each extent.
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64)> {
        self.entries().map(|entry| {
            let length = le::<2>(entry, 4);
            // Above 2^15: allocated, but not written yet.
            let length = if length > 1 << 15 { length - (1 << 15) } else { length };
            (halves::<2>(entry, 8, 6), length)
        })
    }

    /// Of another node: the blocks of its children.
    pub fn children(&self) -> impl Iterator<Item = u64> {
        self.entries().map(|entry| halves::<2>(entry, 4, 8))
    }
}

/// The entries of a directory block: inode and name, without `.` and `..`.
pub fn entries(block: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = block;
    std::iter::from_fn(move || {
        loop {
            if rest.len() < 8 {
                return None;
            }
            let (inode, named) = (le::<4>(rest, 0), le::<1>(rest, 6) as usize);
            let length = match le::<2>(rest, 4) as usize {
                // The length of a whole block of 64 KiB does not fit in 16 bits.
                0 | 0xffff => rest.len(),
                length => length,
            };
            if length < 8 || length > rest.len() {
                return None;
            }
            let entry;
            (entry, rest) = rest.split_at(length);
            let name = entry.get(8..8 + named).unwrap_or_default();
            if inode != 0 && !name.is_empty() && name != b"." && name != b".." {
                return Some((inode, name));
            }
        }
    })
}
