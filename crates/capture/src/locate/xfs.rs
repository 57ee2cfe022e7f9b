//! The fixed locations of XFS: allocation group headers and the internal log.
//!
//! What does not belong here: files (see [`super::walk`]). Directories, trees and free space move,
//! and XFS keeps them in buffers of its own that a reader of the device does not see, so XFS itself
//! is queried for them (see [`super::fsmap`]).

use super::bytes::{be, read_now};
use super::index::RangeRole;
use std::fs::File;
use std::io;

/// The geometry in the superblock.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    block_bytes: u64,
    sector_bytes: u64,
    group_blocks: u64,
    groups: u64,
    /// The log's first byte and its length; `None` if the log is on another device.
    log: Option<(u64, u64)>,
}

impl Geometry {
    /// Reads it; `None` if the device has no XFS, or a damaged one.
    pub fn read(device: &File) -> io::Result<Option<Geometry>> {
        Ok(Geometry::parse(&read_now(device, 0, 512)?))
    }

    fn parse(bytes: &[u8]) -> Option<Geometry> {
        let (block_bytes, sector_bytes) = (be::<4>(bytes, 4), be::<2>(bytes, 102));
        let (group_blocks, groups) = (be::<4>(bytes, 84), be::<4>(bytes, 88));
        let sound = bytes.get(..4) == Some(b"XFSB")
            && (512..=65_536).contains(&block_bytes)
            && (512..=32_768).contains(&sector_bytes)
            && group_blocks > 0;
        if !sound {
            return None;
        }
        let (start, shift) = (be::<8>(bytes, 48), be::<1>(bytes, 124).min(40));
        let group = (start >> shift).saturating_mul(group_blocks);
        let block = group.saturating_add(start & ((1 << shift) - 1));
        let log = (start != 0)
            .then(|| (block.saturating_mul(block_bytes), be::<4>(bytes, 96) * block_bytes));
        Some(Geometry { block_bytes, sector_bytes, group_blocks, groups, log })
    }

    /// Block size, bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns the use of this byte if the layout alone determines it.
    pub fn role(&self, byte: u64) -> Option<RangeRole> {
        let group = self.group_blocks * self.block_bytes;
        let header = byte % group / self.sector_bytes;
        match self.log {
            Some((start, length)) if byte >= start && byte - start < length => {
                Some(RangeRole::Journal)
            }
            _ if byte / group >= self.groups => None,
            _ if header == 0 => Some(RangeRole::Superblock),
            // Free space, inodes, and the list of blocks reserved for their trees.
            _ if header < 4 => Some(RangeRole::GroupDescriptors),
            _ => None,
        }
    }
}
