//! Reads numbers from bytes that may be too short, and reads of a device that may be too small.
//!
//! What does not belong here: what the numbers mean.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The little-endian number of `N` bytes at `at`; 0 beyond the end.
pub(super) fn le<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + N).unwrap_or_default();
    part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The big-endian number of `N` bytes at `at`; 0 beyond the end.
pub(super) fn be<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + N).unwrap_or_default();
    part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Joins a lower and an upper half of 32 or 16 bits each.
pub(super) fn halves<const N: usize>(bytes: &[u8], low: usize, high: usize) -> u64 {
    le::<4>(bytes, low) | le::<N>(bytes, high) << 32
}

/// Reads `length` bytes at `offset`.
pub(super) fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Reads `length` bytes at `offset` as they are on the device now. A file system that bypasses the
/// device's page cache (XFS, btrfs) would otherwise be seen in an old state.
pub(super) fn read_now(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let size = std::num::NonZeroU64::new(length as u64);
    // Only advice, and only for these bytes: pages in use stay, and are valid.
    let _kept = rustix::fs::fadvise(file, offset, size, rustix::fs::Advice::DontNeed);
    read(file, offset, length)
}
