//! The machine's state in /proc and /sys: devices, mounts, settings, users, cgroups. All of it is
//! read-only, and anything unreadable is absent.
//!
//! What does not belong here: block I/O itself.

pub mod cgroup;
pub mod devices;
mod fuse;
pub(crate) mod health;
pub mod held;
pub mod lockdown;
pub mod mounts;
pub mod own;
pub mod process;
pub mod system;
pub mod time_zone;
pub mod transport;
pub mod users;
pub mod work;
pub mod workload;

use std::collections::BTreeMap;
use std::path::Path;

/// The text of a small file without its last newline; `None` if it cannot be read.
pub(crate) fn read_text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// A name of fixed room, ended by a NUL where it is shorter.
pub(crate) fn text_of(bytes: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number after `key` in lines of `key value`.
pub(crate) fn number_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, rest) = line.split_once([' ', ':'])?;
        (name == key).then(|| rest.split_whitespace().next()?.parse().ok()).flatten()
    })
}

/// The number that a small file holds.
pub(crate) fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read_text(path)?.trim().parse().ok()
}

/// The readable files under `directory`, by name.
pub(crate) fn read_settings<'a>(
    directory: &Path,
    names: impl IntoIterator<Item = &'a &'a str>,
) -> BTreeMap<String, String> {
    names
        .into_iter()
        .filter_map(|name| Some(((*name).to_owned(), read_text(directory.join(name))?)))
        .collect()
}
