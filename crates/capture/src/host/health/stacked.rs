//! The state of devices that are above others, as far as sysfs has it: md arrays, and whether a
//! device of the device mapper is suspended. What its targets report is in `mapper`.
//!
//! What does not belong here: which devices are below (see [`crate::host::devices`]).

use crate::host::{read_number, read_text};
use iowhy_model::health::ArrayState;
use std::path::Path;

/// The state of the md array with this directory in sysfs; `None` if it is none.
pub(super) fn array(disk: &Path) -> Option<ArrayState> {
    let md = disk.join("md");
    // Levels without redundancy have no such files.
    Some(ArrayState {
        degraded: read_number(md.join("degraded"))?,
        action: read_text(md.join("sync_action"))?,
        mismatched_sectors: read_number(md.join("mismatch_cnt")).unwrap_or(0),
    })
}

/// Whether a device of the device mapper is suspended; `None` if it is none.
pub(super) fn suspended(disk: &Path) -> Option<bool> {
    read_number(disk.join("dm/suspended")).map(|number| number == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn states_are_as_sysfs_has_them() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path();
        assert_eq!((array(disk), suspended(disk)), (None, None));
        for (name, text) in [
            ("md/degraded", "1\n"),
            ("md/sync_action", "recover\n"),
            ("md/mismatch_cnt", "128\n"),
            ("dm/suspended", "1\n"),
        ] {
            fs::create_dir_all(disk.join(name).parent().unwrap()).unwrap();
            fs::write(disk.join(name), text).unwrap();
        }
        let found = array(disk).unwrap();
        assert_eq!((found.degraded, found.mismatched_sectors), (1, 128));
        assert_eq!((found.action.as_str(), suspended(disk)), ("recover", Some(true)));
    }
}
