//! The JSON Schema (draft 2020-12) of what `--json` prints. It is kept as text in `schema/`, since
//! the code that derives it would be 0.4 MB of the binary.
//!
//! What does not belong here: the layouts themselves ([`crate::json`], [`crate::brief`]).

use std::io;

#[cfg(feature = "schema")]
pub mod derived;

macro_rules! embedded {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".json.zst"))
    };
}

/// The schema of `--json=brief`, as indented JSON.
///
/// # Errors
///
/// Never: what this build embeds can be decompressed.
pub fn brief() -> io::Result<String> {
    text(embedded!("brief"))
}

/// The schema of `--json`, as indented JSON.
///
/// # Errors
///
/// Never: what this build embeds can be decompressed.
pub fn full() -> io::Result<String> {
    text(embedded!("full"))
}

fn text(compressed: &[u8]) -> io::Result<String> {
    String::from_utf8(zstd::decode_all(compressed)?).map_err(io::Error::other)
}
