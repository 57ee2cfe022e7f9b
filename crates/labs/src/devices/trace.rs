//! debugfs, which blktrace and perf's older paths need; mounted only if it is not.

use crate::Result;
use crate::command;
use crate::machine;
use std::path::Path;

const POINT: &str = "/sys/kernel/debug";

/// debugfs, unmounted on drop where it was not mounted before.
#[derive(Debug)]
pub struct DebugFs {
    ours: bool,
}

impl DebugFs {
    /// Mounts it unless it is mounted.
    pub fn new() -> Result<DebugFs> {
        machine::need_root()?;
        let mounted =
            machine::mounts_below(Path::new(POINT)).iter().any(|point| point == Path::new(POINT));
        if !mounted {
            command::run("mount", ["-t", "debugfs", "iowhy-labs", POINT])?;
        }
        Ok(DebugFs { ours: !mounted })
    }
}

impl Drop for DebugFs {
    fn drop(&mut self) {
        if self.ours {
            let _busy = command::run("umount", [POINT]);
        }
    }
}
