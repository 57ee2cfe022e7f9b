//! Existing devices: a guest's disks, and those that a module creates when it is loaded.

use super::BlockDevice;
use crate::error::Context;
use crate::{Result, command};
use std::fs;
use std::path::{Path, PathBuf};

/// A device that was not created here; it is unchanged on drop.
#[derive(Debug)]
pub struct GivenDevice {
    node: PathBuf,
}

impl GivenDevice {
    /// The guest's disk of that name.
    pub fn named(name: &str) -> Result<GivenDevice> {
        let link = Path::new("/dev/disk").join(name);
        let node = fs::canonicalize(&link).context(|| format!("find {}", link.display()))?;
        Ok(GivenDevice { node })
    }

    /// The device `name` that comes with a module.
    pub fn loaded(module: &str, name: &str) -> Result<GivenDevice> {
        command::run("modprobe", [module])?;
        let node = Path::new("/dev").join(name);
        fs::metadata(&node).context(|| format!("find {}", node.display()))?;
        Ok(GivenDevice { node })
    }
}

impl BlockDevice for GivenDevice {
    fn path(&self) -> &Path {
        &self.node
    }
}
