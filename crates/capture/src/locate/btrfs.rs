//! btrfs's chunks: the mapping of its address space to the device. Read from the device's
//! superblock and chunk tree.
//!
//! Only a file system on one device is translated: with several, it is not established here which
//! copy a sector belongs to.
//!
//! What does not belong here: files (see [`super::walk`]).

use super::bytes::{le, read_now};
use iowhy_model::compact_sort::CompactSort;
use std::fs::File;
use std::io;

const SUPERBLOCK: u64 = 65_536;
/// Offsets of the superblock's copies, bytes.
const COPIES: [u64; 3] = [SUPERBLOCK, 64 << 20, 256 << 30];
const CHUNK_ITEM: u64 = 228;
const KEY: usize = 17;
const HEADER: usize = 101;
/// The largest chunk tree that is read, blocks.
const MOST_NODES: u32 = 65_536;

/// A range of the device and of the address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stripe {
    device: u64,
    address: u64,
    length: u64,
    is_data: bool,
}

/// The chunk map of a file system on one device.
#[derive(Debug)]
pub struct Chunks {
    /// By offset on the device.
    stripes: Vec<Stripe>,
}

/// The location of a byte of the device in the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BtrfsLocation {
    /// One of the superblock's copies.
    Superblock,
    /// In a chunk of data, at this address.
    Data(u64),
    /// In a chunk of metadata, at this address.
    Metadata(u64),
    /// In no chunk.
    Unallocated,
}

/// Whether this is a superblock of btrfs.
pub fn is_btrfs(superblock: &[u8]) -> bool {
    superblock.get(64..72) == Some(b"_BHRfS_M")
}

/// Reads the superblock.
pub fn superblock(device: &File) -> io::Result<Vec<u8>> {
    read_now(device, SUPERBLOCK, 4096)
}

impl Chunks {
    /// Reads the map, or returns the reason why there is none.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn read(device: &File, superblock: &[u8]) -> io::Result<Result<Chunks, String>> {
        let devices = le::<8>(superblock, 136);
        if devices != 1 {
            let why = format!("the btrfs file system is on {devices} devices");
            return Ok(Err(why));
        }
        let node_bytes = le::<4>(superblock, 148) as usize;
        if !(4096..=65_536).contains(&node_bytes) {
            return Ok(Err("the btrfs superblock is damaged".to_owned()));
        }
        let mut chunks = Chunks { stripes: Vec::new() };
        let size = (le::<4>(superblock, 160) as usize).min(2048);
        chunks.array(superblock.get(811..811 + size).unwrap_or_default());
        let mut left = vec![(le::<8>(superblock, 88), le::<1>(superblock, 199))];
        let mut nodes = 0;
        let mut found = Vec::new();
        while let Some((address, level)) = left.pop() {
            nodes += 1;
            let Some(at) = chunks.device_of(address).filter(|_| nodes <= MOST_NODES) else {
                return Ok(Err("the btrfs chunk tree is damaged".to_owned()));
            };
            let node = read_now(device, at, node_bytes)?;
            if le::<8>(&node, 48) != address || le::<1>(&node, 100) != level {
                return Ok(Err("the btrfs chunk tree is damaged".to_owned()));
            }
            chunks.node(&node, level, &mut left, &mut found);
        }
        chunks.stripes = found;
        chunks.stripes.compact_sort_by_key(|stripe| stripe.device);
        Ok(Ok(chunks))
    }

    /// Adds the system chunks that are listed in the superblock: they hold the chunk tree.
    fn array(&mut self, mut array: &[u8]) {
        while array.len() >= KEY + 48 {
            let stripes = le::<2>(array, KEY + 44) as usize;
            let size = 48 + stripes * 32;
            let Some(item) = array.get(KEY..KEY + size) else { return };
            add(&mut self.stripes, le::<8>(array, 9), item);
            array = array.get(KEY + size..).unwrap_or_default();
        }
    }

    fn node(&self, node: &[u8], level: u64, left: &mut Vec<(u64, u64)>, found: &mut Vec<Stripe>) {
        let count = le::<4>(node, 96) as usize;
        let body = node.get(HEADER..).unwrap_or_default();
        if level > 0 {
            let children = body.chunks_exact(33).take(count);
            left.extend(children.map(|child| (le::<8>(child, KEY), level - 1)));
            return;
        }
        for item in body.chunks_exact(25).take(count) {
            let (from, size) = (le::<4>(item, KEY) as usize, le::<4>(item, 21) as usize);
            let bytes = body.get(from..from.saturating_add(size));
            if le::<1>(item, 8) == CHUNK_ITEM
                && let Some(bytes) = bytes
            {
                add(found, le::<8>(item, 9), bytes);
            }
        }
    }

    /// The location of an address on the device: the first copy.
    pub fn device_of(&self, address: u64) -> Option<u64> {
        let within = |stripe: &&Stripe| {
            address >= stripe.address && address - stripe.address < stripe.length
        };
        let stripe = self.stripes.iter().find(within)?;
        Some(stripe.device + (address - stripe.address))
    }

    /// Returns the use of a byte of the device.
    pub fn place(&self, byte: u64) -> BtrfsLocation {
        if COPIES.iter().any(|copy| (*copy..*copy + 4096).contains(&byte)) {
            return BtrfsLocation::Superblock;
        }
        let index = self.stripes.partition_point(|stripe| stripe.device <= byte);
        let stripe = index.checked_sub(1).and_then(|index| self.stripes.get(index));
        match stripe.filter(|stripe| byte - stripe.device < stripe.length) {
            None => BtrfsLocation::Unallocated,
            Some(stripe) => {
                let address = stripe.address + (byte - stripe.device);
                if stripe.is_data {
                    BtrfsLocation::Data(address)
                } else {
                    BtrfsLocation::Metadata(address)
                }
            }
        }
    }
}

/// Adds the stripes of a chunk. On a single device each of them holds the whole chunk.
fn add(stripes: &mut Vec<Stripe>, address: u64, chunk: &[u8]) {
    let (length, kind) = (le::<8>(chunk, 0), le::<8>(chunk, 24));
    let devices = chunk.get(48..).unwrap_or_default().chunks_exact(32);
    for stripe in devices.take(le::<2>(chunk, 44) as usize) {
        let device = le::<8>(stripe, 8);
        // Sums of these do not overflow.
        if [device, address, length].iter().all(|number| *number < 1 << 60) {
            stripes.push(Stripe { device, address, length, is_data: kind & 1 == 1 });
        }
    }
}
