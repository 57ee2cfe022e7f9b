//! Decompressed content of gzip or xz files, with a limit beyond the size of any report.
//!
//! The peak memory is 96 MiB, for the xz decoder.
//!
//! What does not belong here: the archive inside (see [`crate::archive`]).

use crate::import::Bytes;
use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are read, decompressed: a report of a large machine has a few hundred megabytes.
const MOST_BYTES: u64 = 8 << 30;
/// Bytes that are read at any compression, and the limit for each compressed byte beyond them.
/// Reports have 5 to 30, and gzip can make 1,032. Chosen.
const FREE_BYTES: u64 = 64 << 20;
const MOST_FOR_EACH: u64 = 100;
/// Memory of the xz decoder, bytes: `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 96 << 20;

/// The content of `input`, decompressed if it is compressed.
///
/// # Errors
/// Fails if its beginning cannot be read.
pub(crate) fn unpacked(input: BufReader<Bytes>) -> Result<impl Read + Send, String> {
    within(FREE_BYTES, input)
}

/// Whether bytes begin as those of gzip or xz.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(b"\x1f\x8b") || head.starts_with(b"\xfd7zXZ\0")
}

/// Returns the first `most` bytes that the beginning of a compressed file holds, as far as it can
/// be decompressed.
pub(crate) fn head_unpacked(head: &[u8], most: usize) -> Vec<u8> {
    let input: Bytes = Box::new(Cursor::new(head.to_vec()));
    let mut plain = Vec::new();
    if let Ok(bytes) = unpacked(BufReader::new(input)) {
        // The rest of the file is not there: what was read until then is enough.
        let _ = bytes.take(most as u64).read_to_end(&mut plain);
    }
    plain
}

fn within(free: u64, mut input: BufReader<Bytes>) -> Result<UnpackedBytes, String> {
    let head = input.fill_buf().map_err(|error| error.to_string())?;
    let (is_gzip, is_xz) = (head.starts_with(b"\x1f\x8b"), head.starts_with(b"\xfd7z"));
    let packed = Arc::new(AtomicU64::new(0));
    let input = PackedBytes { input, read: Arc::clone(&packed) };
    let bytes: Bytes = if is_gzip {
        Box::new(MultiGzDecoder::new(input))
    } else if is_xz {
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED);
        Box::new(XzDecoder::new_stream(input, stream.map_err(|error| error.to_string())?))
    } else {
        Box::new(input)
    };
    Ok(UnpackedBytes { bytes, packed, read: 0, free })
}

/// Bytes as they are in the file, counted.
struct PackedBytes {
    input: BufReader<Bytes>,
    read: Arc<AtomicU64>,
}

impl Read for PackedBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Decompressed bytes, as long as they are not far more than the compressed ones.
struct UnpackedBytes {
    bytes: Bytes,
    packed: Arc<AtomicU64>,
    read: u64,
    /// Bytes that are read at any compression.
    free: u64,
}

impl Read for UnpackedBytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let packed = self.packed.load(Ordering::Relaxed);
        let most = self.free.saturating_add(packed.saturating_mul(MOST_FOR_EACH));
        let reason = if self.read >= MOST_BYTES {
            "it holds more than 8 GiB"
        } else if self.read > most {
            "it unpacks to more than 100 times its size, as no report does"
        } else {
            let count = self.bytes.read(into)?;
            self.read += count as u64;
            return Ok(count);
        };
        Err(io::Error::other(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(mut content: impl Read) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        io::copy(&mut content, &mut encoder).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(mut content: impl Read) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        io::copy(&mut content, &mut encoder).unwrap();
        encoder.flush().unwrap();
        encoder.finish().unwrap()
    }

    const FREE: u64 = 1 << 20;

    /// Returns the bytes that were read, and the reason why it ended.
    fn read(packed: Vec<u8>) -> (u64, Option<String>) {
        let input: Bytes = Box::new(Cursor::new(packed));
        let mut bytes = within(FREE, BufReader::new(input)).unwrap();
        let (mut read, mut some) = (0, [0; 8 << 10]);
        loop {
            match bytes.read(&mut some) {
                Ok(0) => return (read, None),
                Ok(count) => read += count as u64,
                Err(error) => return (read, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn bombs_end_early_and_small_files_of_one_byte_do_not() {
        let zeros = |count| io::repeat(0).take(count);
        for pack in [gzip as fn(io::Take<io::Repeat>) -> Vec<u8>, xz] {
            assert_eq!(read(pack(zeros(FREE))), (FREE, None));
            let (read, reason) = read(pack(zeros(8 * FREE)));
            assert!((FREE..4 * FREE).contains(&read), "{read}");
            assert!(reason.unwrap().contains("100 times its size"));
        }
        assert_eq!(read(vec![7; 4 * FREE as usize]), (4 * FREE, None), "it is not compressed");
    }
}
