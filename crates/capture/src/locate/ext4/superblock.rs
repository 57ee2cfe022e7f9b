//! The geometry of an ext2, ext3 or ext4 file system: its superblock and group descriptors.
//!
//! Offsets are those of the on-disk format (kernel: `Documentation/filesystems/ext4/`).

use super::super::bytes::{halves, le, read};
use std::fs::File;
use std::io;

const MAGIC: u64 = 0xef53;
/// Offset of the superblock, bytes.
const AT: u64 = 1024;

mod compatible {
    pub const RESIZE_INODE: u64 = 0x10;
    pub const SPARSE_SUPER2: u64 = 0x200;
}

mod incompatible {
    pub const JOURNAL_DEVICE: u64 = 0x8;
    pub const META_GROUPS: u64 = 0x10;
    pub const WIDE: u64 = 0x80;
}

mod read_only {
    pub const SPARSE_SUPER: u64 = 0x1;
    pub const GROUP_CHECKSUM: u64 = 0x10;
    pub const METADATA_CHECKSUM: u64 = 0x400;
}

/// Contents of the superblock.
#[derive(Clone, Debug)]
pub struct Superblock {
    pub block_bytes: u64,
    pub blocks: u64,
    pub inodes: u64,
    pub first_block: u64,
    pub blocks_per_group: u64,
    pub inodes_per_group: u64,
    pub inode_bytes: u64,
    pub journal_inode: u64,
    /// Blocks per bit of the block bitmap, a power of two.
    pub cluster_blocks: u64,
    descriptor_bytes: u64,
    reserved_descriptor_blocks: u64,
    first_meta_group: u64,
    backups: [u64; 2],
    compatible: u64,
    incompatible: u64,
    read_only: u64,
}

/// Contents of a group descriptor.
#[derive(Clone, Copy, Debug)]
pub struct GroupDescriptor {
    pub block_bitmap: u64,
    pub inode_bitmap: u64,
    pub inode_table: u64,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u64,
    /// The block bitmap was never written: everything except the group's own metadata is free.
    pub blocks_never_used: bool,
    /// No inode of the group was ever used.
    pub inodes_never_used: bool,
}

impl Superblock {
    /// Reads it; `None` if the device has no such file system, or a damaged one.
    pub fn read(device: &File) -> io::Result<Option<Superblock>> {
        let bytes = read(device, AT, 1024)?;
        Ok(Superblock::parse(&bytes).filter(Superblock::is_sound))
    }

    fn parse(bytes: &[u8]) -> Option<Superblock> {
        let shift = le::<4>(bytes, 24);
        let old = le::<4>(bytes, 76) == 0;
        let (incompatible, read_only) = (le::<4>(bytes, 96), le::<4>(bytes, 100));
        if le::<2>(bytes, 56) != MAGIC
            || shift > 6
            || incompatible & incompatible::JOURNAL_DEVICE != 0
        {
            return None;
        }
        let wide = incompatible & incompatible::WIDE != 0;
        let high = if wide { le::<4>(bytes, 336) << 32 } else { 0 };
        // A cluster is one block without bigalloc.
        let cluster_shift = if read_only & 0x200 != 0 { le::<4>(bytes, 28) } else { shift };
        Some(Superblock {
            block_bytes: 1024 << shift,
            blocks: le::<4>(bytes, 4) | high,
            inodes: le::<4>(bytes, 0),
            first_block: le::<4>(bytes, 20),
            blocks_per_group: le::<4>(bytes, 32),
            inodes_per_group: le::<4>(bytes, 40),
            inode_bytes: if old { 128 } else { le::<2>(bytes, 88) },
            journal_inode: le::<4>(bytes, 224),
            cluster_blocks: 1 << cluster_shift.saturating_sub(shift).min(20),
            descriptor_bytes: if wide { le::<2>(bytes, 254) } else { 32 },
            reserved_descriptor_blocks: le::<2>(bytes, 206),
            first_meta_group: le::<4>(bytes, 260),
            backups: [le::<4>(bytes, 588), le::<4>(bytes, 592)],
            compatible: le::<4>(bytes, 92),
            incompatible,
            read_only,
        })
    }

    /// Whether the numbers are safe to calculate with.
    fn is_sound(&self) -> bool {
        let block_bits = self.block_bytes * 8;
        self.blocks > self.first_block
            && self.blocks < 1 << 48
            && (1..=block_bits * self.cluster_blocks).contains(&self.blocks_per_group)
            && (1..=block_bits).contains(&self.inodes_per_group)
            && (128..=self.block_bytes).contains(&self.inode_bytes)
            && (32..=1024).contains(&self.descriptor_bytes)
            && self.groups() <= self.inodes.div_ceil(self.inodes_per_group)
    }

    /// The number of groups.
    pub fn groups(&self) -> u64 {
        (self.blocks - self.first_block).div_ceil(self.blocks_per_group)
    }

    /// The number of inodes at the beginning of a group's table that may be in use.
    pub fn inodes_to_read(&self, group: &GroupDescriptor) -> u64 {
        match group.inodes_never_used {
            true => 0,
            false => self.inodes_per_group - group.unused_inodes,
        }
    }

    /// The first block of a group.
    pub fn first_block_of(&self, group: u64) -> u64 {
        self.first_block + group * self.blocks_per_group
    }

    fn descriptors_per_block(&self) -> u64 {
        self.block_bytes / self.descriptor_bytes
    }

    /// Whether group descriptors are spread over the disk.
    fn has_meta_groups(&self) -> bool {
        self.incompatible & incompatible::META_GROUPS != 0
    }

    /// Whether the group begins with a superblock.
    pub fn has_superblock(&self, group: u64) -> bool {
        if self.compatible & compatible::SPARSE_SUPER2 != 0 {
            return group == 0 || self.backups.contains(&group);
        }
        let sparse = self.read_only & read_only::SPARSE_SUPER != 0;
        !sparse || group <= 1 || [3, 5, 7].iter().any(|base| is_power(group, *base))
    }

    /// Blocks of group descriptors in this group, after its superblock: first and count.
    pub fn descriptors_in(&self, group: u64) -> Option<(u64, u64)> {
        let first = self.first_block_of(group) + u64::from(self.has_superblock(group));
        let per_block = self.descriptors_per_block();
        let old_blocks = if self.has_meta_groups() {
            self.first_meta_group
        } else {
            self.groups().div_ceil(per_block)
        };
        if !self.has_meta_groups() || group / per_block < self.first_meta_group {
            return (self.has_superblock(group) && old_blocks > 0).then_some((first, old_blocks));
        }
        let within = group % per_block;
        [0, 1, per_block - 1].contains(&within).then_some((first, 1))
    }

    /// Blocks after the group descriptors that are reserved for more of them.
    pub fn reserved_in(&self, group: u64) -> u64 {
        let kept = self.compatible & compatible::RESIZE_INODE != 0 && self.has_superblock(group);
        if kept { self.reserved_descriptor_blocks } else { 0 }
    }

    /// Reads the descriptors of all groups.
    pub fn read_groups(&self, device: &File) -> io::Result<Vec<GroupDescriptor>> {
        let per_block = self.descriptors_per_block();
        let mut groups = Vec::new();
        for block in 0..self.groups().div_ceil(per_block) {
            let at = match self.has_meta_groups() && block >= self.first_meta_group {
                true => {
                    let group = block * per_block;
                    self.first_block_of(group) + u64::from(self.has_superblock(group))
                }
                false => self.first_block + 1 + block,
            };
            let bytes = read(device, at * self.block_bytes, self.block_bytes as usize)?;
            let left = self.groups() - block * per_block;
            let descriptors = bytes.chunks_exact(self.descriptor_bytes as usize);
            groups.extend(descriptors.take(left as usize).map(|bytes| self.group(bytes)));
        }
        Ok(groups)
    }

    fn group(&self, bytes: &[u8]) -> GroupDescriptor {
        // Beyond the end of a short descriptor there are zeroes.
        let sums = read_only::GROUP_CHECKSUM | read_only::METADATA_CHECKSUM;
        let has_sums = self.read_only & sums != 0;
        let flags = if has_sums { le::<2>(bytes, 18) } else { 0 };
        let unused = le::<2>(bytes, 28) | le::<2>(bytes, 50) << 16;
        GroupDescriptor {
            block_bitmap: halves::<4>(bytes, 0, 32),
            inode_bitmap: halves::<4>(bytes, 4, 36),
            inode_table: halves::<4>(bytes, 8, 40),
            unused_inodes: if has_sums { unused.min(self.inodes_per_group) } else { 0 },
            blocks_never_used: flags & 2 != 0,
            inodes_never_used: flags & 1 != 0,
        }
    }
}

fn is_power(number: u64, base: u64) -> bool {
    let mut power = base;
    while power < number {
        power *= base;
    }
    power == number
}
