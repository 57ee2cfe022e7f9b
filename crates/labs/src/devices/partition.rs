//! A partition of a loop device, known to the kernel alone: no table is written.

use super::{BlockDevice, LoopDevice};
use crate::{Result, command};
use std::path::{Path, PathBuf};

/// The only partition of a disk, removed on drop; then the disk goes.
#[derive(Debug)]
pub struct Partition {
    node: PathBuf,
    disk: LoopDevice,
}

impl Partition {
    /// Makes one of the sectors (512 bytes) from `start` on.
    pub fn new(disk: LoopDevice, start: u64, sectors: u64) -> Result<Partition> {
        let (start, sectors) = (start.to_string(), sectors.to_string());
        let node = disk.path().with_file_name(format!("{}p1", disk.name()));
        command::run(
            "addpart",
            [disk.path(), Path::new("1"), Path::new(&start), Path::new(&sectors)],
        )?;
        Ok(Partition { node, disk })
    }

    /// The disk's node.
    pub fn disk(&self) -> &Path {
        self.disk.path()
    }
}

impl BlockDevice for Partition {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let _left_with_the_disk = command::run("delpart", [self.disk.path(), Path::new("1")]);
    }
}
