//! The cache of a bcache device, as sysfs has it (drivers/md/bcache/sysfs.c).
//!
//! What does not belong here: requests to its devices, which are devices of their own.

use crate::host::{read_number, read_text};
use iowhy_model::health::BcacheState;
use std::path::Path;

/// The state of the bcache device with this directory in sysfs; `None` if it is none.
pub(super) fn state(disk: &Path) -> Option<BcacheState> {
    let bcache = disk.join("bcache");
    let text = |name: &str| read_text(bcache.join(name)).map(|content| content.trim().to_owned());
    let number = |name: &str| read_number(bcache.join(name));
    Some(BcacheState {
        state: text("state")?,
        mode: chosen(&text("cache_mode").unwrap_or_default()).to_owned(),
        dirty_bytes: text("dirty_data").and_then(|size| bytes(&size)),
        congested: text("cache/congested").and_then(|size| bytes(&size)).map(|size| size > 0),
        available_percent: number("cache/cache_available_percent"),
        hits: number("stats_total/cache_hits"),
        misses: number("stats_total/cache_misses"),
    })
}

/// The word in brackets: `writethrough [writeback] writearound none`.
fn chosen(text: &str) -> &str {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or(text, |(word, _)| word)
}

/// A number as bcache prints it: `0`, `0.5k`, `1.2M`; the kernel's units are powers of 1024, and
/// its digit behind the point is a tenth.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        unit => 1 + "kMGTPEZY".find(unit).filter(|_| unit.len() == 1)?,
    };
    let number: f64 =
        digits.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Some((number * 1024_f64.powi(power as i32)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn numbers_are_as_the_kernel_prints_them() {
        assert_eq!(
            ["0", "512", "0.5k", "1.5M", "2G"].map(bytes),
            [Some(0), Some(512), Some(512), Some(1_572_864), Some(2 << 30)]
        );
        for wrong in ["", "k", "1x", "1kM", "-1k", "inf", "1.2.3"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_device_with_and_without_its_cache() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path();
        assert_eq!(state(disk), None);
        let write = |name: &str, text: &str| {
            let path = disk.join("bcache").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("state", "no cache\n");
        write("cache_mode", "writethrough [writeback] writearound none\n");
        let detached = BcacheState {
            state: "no cache".to_owned(),
            mode: "writeback".to_owned(),
            ..BcacheState::default()
        };
        assert_eq!(state(disk), Some(detached));
        for (name, text) in [
            ("state", "dirty\n"),
            ("dirty_data", "1.5M\n"),
            ("cache/congested", "4.0k\n"),
            ("cache/cache_available_percent", "93\n"),
            ("stats_total/cache_hits", "12\n"),
            ("stats_total/cache_misses", "3\n"),
        ] {
            write(name, text);
        }
        let attached = state(disk).unwrap();
        assert_eq!((attached.dirty_bytes, attached.congested), (Some(1_572_864), Some(true)));
        assert_eq!((attached.available_percent, attached.hits), (Some(93), Some(12)));
    }
}
