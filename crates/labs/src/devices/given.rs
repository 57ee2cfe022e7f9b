//! Devices that are there already: a guest's disks, and what a module makes when it is loaded.

use super::BlockDevice;
use crate::error::Context;
use crate::{Result, command};
use std::fs;
use std::path::{Path, PathBuf};

/// A device that somebody else made; nothing is done to it on drop.
#[derive(Debug)]
pub struct Given {
    node: PathBuf,
}

impl Given {
    /// The guest's disk of that name.
    pub fn named(name: &str) -> Result<Given> {
        let link = Path::new("/dev/disk").join(name);
        let node = fs::canonicalize(&link).context(|| format!("find {}", link.display()))?;
        Ok(Given { node })
    }

    /// The device `name` that comes with a module.
    pub fn loaded(module: &str, name: &str) -> Result<Given> {
        command::run("modprobe", [module])?;
        let node = Path::new("/dev").join(name);
        fs::metadata(&node).context(|| format!("find {}", node.display()))?;
        Ok(Given { node })
    }
}

impl BlockDevice for Given {
    fn path(&self) -> &Path {
        &self.node
    }
}
