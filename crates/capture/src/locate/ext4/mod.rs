//! ext2, ext3 and ext4, read from the device itself, mounted or not. The kernel keeps their
//! metadata in the device's page cache, so a reader of the device sees the same, except for blocks
//! that are not allocated yet. (FIEMAP would open every file, and does not cover symbolic links,
//! block maps, attributes or unlinked files.)
//!
//! What does not belong here: devices, mounts, and the output format.

mod inode;
mod superblock;

use super::bytes::{le, read};
use super::index::{Builder, Extent, Index, RangeRole};
use super::progress::IndexProgress;
use inode::{ExtentNode, Inode, InodeKind, Map};
use iowhy_model::compact_sort::CompactSort;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use superblock::GroupDescriptor;
pub use superblock::Superblock;

const ROOT: u64 = 2;
const RESIZE: u64 = 7;
/// Bytes of inode tables read at once.
const CHUNK: u64 = 1 << 20;

/// An ext file system whose metadata has been read.
#[derive(Debug)]
pub struct Ext4 {
    device: File,
    superblock: Superblock,
    groups: Vec<GroupDescriptor>,
    index: Index,
    /// Damaged parts of it, which were left out.
    pub damaged: u64,
}

impl Ext4 {
    /// Reads all inodes and directories.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn build(
        device: File,
        superblock: Superblock,
        progress: &IndexProgress,
    ) -> io::Result<Ext4> {
        let groups = superblock.read_groups(&device)?;
        let mut scan = MetadataScan::new(&device, &superblock);
        progress.begin(groups.iter().map(|group| superblock.inodes_to_read(group)).sum());
        for (number, group) in (0..).zip(&groups) {
            scan.metadata(number, group);
            scan.inodes(number, group, progress)?;
        }
        scan.directories();
        let MetadataScan { builder, damaged, .. } = scan;
        let index = builder.finish(ROOT);
        Ok(Ext4 { device, superblock, groups, index, damaged })
    }

    /// Extents and names.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Block size, bytes.
    pub fn block_bytes(&self) -> u64 {
        self.superblock.block_bytes
    }

    /// Whether the block of `sector` is free now according to the block bitmap; `None` if the
    /// sector is not a block of the file system.
    ///
    /// # Errors
    /// Fails if the bitmap cannot be read.
    pub fn is_free(&self, sector: u64) -> io::Result<Option<bool>> {
        let block = sector / (self.superblock.block_bytes / 512);
        let sb = &self.superblock;
        if block < sb.first_block || block >= sb.blocks {
            return Ok(None);
        }
        let (number, bit) = (
            (block - sb.first_block) / sb.blocks_per_group,
            (block - sb.first_block) % sb.blocks_per_group / sb.cluster_blocks,
        );
        let Some(group) = self.groups.get(number as usize) else { return Ok(None) };
        if group.blocks_never_used {
            return Ok(Some(true));
        }
        let mut byte = [0];
        self.device.read_exact_at(&mut byte, group.block_bitmap * sb.block_bytes + bit / 8)?;
        Ok(Some(byte[0] >> (bit % 8) & 1 == 0))
    }
}

/// Data collected while the metadata is read.
struct MetadataScan<'a> {
    device: &'a File,
    sb: &'a Superblock,
    builder: Builder,
    /// Blocks of directories: directory, first block, count, and whether names are encrypted.
    directories: Vec<(u64, u64, u64, bool)>,
    /// Metadata blocks that may still be read: stops at a damaged tree that points to itself.
    budget: u64,
    damaged: u64,
}

impl<'a> MetadataScan<'a> {
    fn new(device: &'a File, sb: &'a Superblock) -> MetadataScan<'a> {
        let (builder, directories, budget) = (Builder::default(), Vec::new(), sb.blocks);
        MetadataScan { device, sb, builder, directories, budget, damaged: 0 }
    }

    /// Adds blocks of an owner; blocks that do not exist count as damage.
    fn blocks(&mut self, first: u64, count: u64, owner: u64, role: RangeRole) {
        let end = first.saturating_add(count);
        let too_many = self.builder.extents() as u64 > self.sb.blocks;
        if first == 0 && role != RangeRole::Superblock
            || end > self.sb.blocks
            || count == 0
            || too_many
        {
            self.damaged += u64::from(first != 0);
            return;
        }
        let sectors = self.sb.block_bytes / 512;
        self.builder.extent(Extent { start: first * sectors, end: end * sectors, owner, role });
    }

    fn metadata(&mut self, number: u64, group: &GroupDescriptor) {
        let first = self.sb.first_block_of(number);
        if self.sb.has_superblock(number) {
            self.blocks(first, 1, 0, RangeRole::Superblock);
        }
        if let Some((first, count)) = self.sb.descriptors_in(number) {
            self.blocks(first, count, 0, RangeRole::GroupDescriptors);
            self.blocks(first + count, self.sb.reserved_in(number), RESIZE, RangeRole::Reserved);
        }
        let table = self.sb.inodes_per_group * self.sb.inode_bytes;
        let table = table.div_ceil(self.sb.block_bytes);
        self.blocks(group.block_bitmap, 1, 0, RangeRole::BlockBitmap);
        self.blocks(group.inode_bitmap, 1, 0, RangeRole::InodeBitmap);
        self.blocks(group.inode_table, table, 0, RangeRole::InodeTable);
    }

    fn inodes(
        &mut self,
        number: u64,
        group: &GroupDescriptor,
        progress: &IndexProgress,
    ) -> io::Result<()> {
        let used = self.sb.inodes_to_read(group);
        if used == 0 {
            return Ok(());
        }
        let size = self.sb.inode_bytes;
        let bitmap = read(
            self.device,
            group.inode_bitmap * self.sb.block_bytes,
            self.sb.inodes_per_group.div_ceil(8) as usize,
        )?;
        let together = CHUNK / size;
        let mut done = 0;
        while done < used {
            let count = together.min(used - done);
            let at = group.inode_table * self.sb.block_bytes + done * size;
            let bytes = read(self.device, at, (count * size) as usize)?;
            for (index, bytes) in (done..).zip(bytes.chunks_exact(size as usize)) {
                if le::<1>(&bitmap, (index / 8) as usize) >> (index % 8) & 1 == 1 {
                    self.inode(number * self.sb.inodes_per_group + index + 1, &Inode::new(bytes));
                }
            }
            done += count;
            progress.add(count);
        }
        Ok(())
    }

    fn inode(&mut self, number: u64, inode: &Inode<'_>) {
        let role = match inode.kind() {
            _ if number == self.sb.journal_inode => RangeRole::Journal,
            // The reserved blocks follow the group descriptors; the inode's map has a format of its
            // own.
            _ if number == RESIZE => return self.resize(inode),
            InodeKind::Directory => RangeRole::Directory,
            InodeKind::Symlink => RangeRole::Symlink,
            InodeKind::File => RangeRole::Data,
            InodeKind::Other => RangeRole::Attributes,
        };
        if inode.attributes() != 0 {
            self.blocks(inode.attributes(), 1, number, RangeRole::Attributes);
        }
        let owner = ExtOwner { number, role, encrypted: inode.is_encrypted() };
        match inode.map() {
            Map::None => {}
            Map::Extents(root) => self.extents(root, owner, None),
            Map::Indirect(map) => self.indirect(map, owner),
        }
    }

    /// Adds the block maps of the inode that holds the reserved blocks.
    fn resize(&mut self, inode: &Inode<'_>) {
        if let Map::Indirect(map) = inode.map() {
            self.blocks(le::<4>(map, 52), 1, RESIZE, RangeRole::Mapping);
        }
    }

    fn own(&mut self, first: u64, count: u64, owner: ExtOwner) {
        self.blocks(first, count, owner.number, owner.role);
        if owner.role == RangeRole::Directory && first.saturating_add(count) <= self.sb.blocks {
            self.directories.push((owner.number, first, count, owner.encrypted));
        }
    }

    fn extents(&mut self, bytes: &[u8], owner: ExtOwner, expected: Option<u64>) {
        let node =
            ExtentNode::new(bytes).filter(|node| expected.is_none_or(|depth| depth == node.depth));
        let Some(node) = node else {
            self.damaged += 1;
            return;
        };
        if node.depth == 0 {
            node.extents().for_each(|(first, count)| self.own(first, count, owner));
            return;
        }
        for block in node.children() {
            self.blocks(block, 1, owner.number, RangeRole::Mapping);
            if let Some(bytes) = self.block(block) {
                self.extents(&bytes, owner, Some(node.depth - 1));
            }
        }
    }

    fn indirect(&mut self, map: &[u8], owner: ExtOwner) {
        for slot in 0..15 {
            let block = le::<4>(map, slot * 4);
            if block != 0 {
                self.indirect_block(block, slot.saturating_sub(11), owner);
            }
        }
    }

    fn indirect_block(&mut self, block: u64, level: usize, owner: ExtOwner) {
        if level == 0 {
            return self.own(block, 1, owner);
        }
        self.blocks(block, 1, owner.number, RangeRole::Mapping);
        let Some(bytes) = self.block(block) else { return };
        for entry in bytes.chunks_exact(4) {
            let block = le::<4>(entry, 0);
            if block != 0 {
                self.indirect_block(block, level - 1, owner);
            }
        }
    }

    /// Reads a metadata block; `None` if there is none, or too many were read.
    fn block(&mut self, block: u64) -> Option<Vec<u8>> {
        let left = self.budget.checked_sub(1).filter(|_| block < self.sb.blocks);
        self.budget = left.unwrap_or(self.budget);
        let at = block * self.sb.block_bytes;
        let bytes = left.and_then(|_| read(self.device, at, self.sb.block_bytes as usize).ok());
        self.damaged += u64::from(bytes.is_none());
        bytes
    }

    /// Names come last, in disk order.
    fn directories(&mut self) {
        let mut directories = std::mem::take(&mut self.directories);
        directories.compact_sort_by_key(|(_, first, ..)| *first);
        for (directory, first, count, encrypted) in directories {
            for block in first..first + count {
                let Some(bytes) = self.block(block) else { break };
                for (inode, name) in inode::entries(&bytes) {
                    let name = if encrypted { b"(encrypted name)".as_slice() } else { name };
                    self.builder.link(inode, directory, name);
                }
            }
        }
    }
}

/// The owner of the blocks that are being listed.
#[derive(Clone, Copy, Debug)]
struct ExtOwner {
    number: u64,
    role: RangeRole,
    encrypted: bool,
}
