//! null_blk: a simulated disk of the kernel, with or without memory for written data.

use super::BlockDevice;
use crate::error::Context;
use crate::{LabError, Result, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const CONFIGFS: &str = "/sys/kernel/config";
/// Numbers the devices of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A null_blk disk, removed on drop.
#[derive(Debug)]
pub struct NullBlk {
    node: PathBuf,
    settings: PathBuf,
}

impl NullBlk {
    /// Makes a disk of so many MiB that keeps written data.
    pub fn with_memory(mib: u64) -> Result<NullBlk> {
        NullBlk::new(&[("size", mib), ("memory_backed", 1)])
    }

    /// A disk with these settings of its folder in configfs, besides the usual ones.
    pub fn new(settings: &[(&str, u64)]) -> Result<NullBlk> {
        command::run("modprobe", ["null_blk"])
            .map_err(|cause| LabError::unsupported(format!("null_blk ({cause})"), "its module"))?;
        let all = Path::new(CONFIGFS).join("nullb");
        if !all.exists() {
            // Another process may mount it at the same time; the next step shows whether it exists.
            let _mounted_meanwhile =
                command::run("mount", ["-t", "configfs", "iowhy-labs", CONFIGFS]);
        }
        let name = format!("iowhy{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = all.join(&name);
        fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
        let mut device = NullBlk { node: PathBuf::new(), settings: folder };
        for (name, value) in settings.iter().chain([("power", 1)].iter()) {
            device.set(name, *value)?;
        }
        device.node = device.find(&name)?;
        Ok(device)
    }

    fn set(&self, name: &str, value: u64) -> Result<()> {
        let path = self.settings.join(name);
        fs::write(&path, value.to_string()).context(|| format!("write {}", path.display()))
    }

    /// Newer kernels name the disk after its folder, older ones after its number.
    fn find(&self, name: &str) -> Result<PathBuf> {
        let path = self.settings.join("index");
        let index = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        let numbered = format!("nullb{}", index.trim());
        [name, &numbered]
            .into_iter()
            .find(|name| Path::new("/sys/block").join(name).exists())
            .map(|name| Path::new("/dev").join(name))
            .ok_or_else(|| LabError::failed("find the null_blk disk", "it has no known name"))
    }
}

impl BlockDevice for NullBlk {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for NullBlk {
    fn drop(&mut self) {
        let _busy = self.set("power", 0);
        let _busy = fs::remove_dir(&self.settings);
    }
}
