//! Devices of the device mapper, over another device.

use super::{BlockDevice, Given};
use crate::error::Context;
use crate::{Result, command};
use std::fs;
use std::path::{Path, PathBuf};

/// A device of the device mapper, removed on drop; then the device below goes.
#[derive(Debug)]
pub struct Mapped {
    name: String,
    node: PathBuf,
    below: Given,
}

impl Mapped {
    /// One that hands everything on to `below`, at the same place.
    pub fn linear(below: Given) -> Result<Mapped> {
        Mapped::new(below, "linear", "")
    }

    /// One whose target has more arguments after device and offset: `delay` with ` 20`.
    pub fn new(below: Given, target: &str, more: &str) -> Result<Mapped> {
        let sectors = command::run("blockdev", [Path::new("--getsz"), below.path()])?;
        let name = format!("iowhy-{target}-{}", std::process::id());
        let table = format!("0 {} {target} {} 0{more}", sectors.trim(), below.path().display());
        command::run("dmsetup", ["create", &name, "--noudevsync", "--table", &table])?;
        let link = Path::new("/dev/mapper").join(&name);
        let node = fs::canonicalize(&link).context(|| format!("find {}", link.display()))?;
        let mut mapped = Mapped { name, node, below };
        mapped.node = mapped.numbered()?;
        Ok(mapped)
    }

    /// The node by the kernel's name; what dmsetup makes without udev has its own.
    fn numbered(&self) -> Result<PathBuf> {
        let arguments = ["info", "--columns", "--noheadings", "-o", "blkdevname", &self.name];
        Ok(Path::new("/dev").join(command::run("dmsetup", arguments)?.trim()))
    }

    /// The device below.
    pub fn below(&self) -> &Given {
        &self.below
    }
}

impl BlockDevice for Mapped {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _busy = command::run("dmsetup", ["remove", "--noudevsync", "--retry", &self.name]);
    }
}
