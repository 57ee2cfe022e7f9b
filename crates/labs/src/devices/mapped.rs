//! Devices of the device mapper, over another device.

use super::{BlockDevice, Given};
use crate::{Result, command};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells apart the devices of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A device of the device mapper, removed on drop; then the device below goes.
#[derive(Debug)]
pub struct Mapped<Below: BlockDevice = Given> {
    name: String,
    node: PathBuf,
    below: Below,
}

impl<Below: BlockDevice> Mapped<Below> {
    /// One that hands everything on to `below`, at the same place.
    pub fn linear(below: Below) -> Result<Mapped<Below>> {
        Mapped::new(below, "linear", "")
    }

    /// One whose target has more arguments after device and offset: `delay` with ` 20`.
    pub fn new(below: Below, target: &str, more: &str) -> Result<Mapped<Below>> {
        let arguments = format!("{} 0{more}", below.path().display());
        Mapped::of(below, target, &arguments)
    }

    /// One as large as `below`, whose target has these arguments.
    pub fn of(below: Below, target: &str, arguments: &str) -> Result<Mapped<Below>> {
        command::run("modprobe", ["dm_mod"])?;
        let sectors = command::run("blockdev", [Path::new("--getsz"), below.path()])?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("iowhy-{target}-{}-{count}", std::process::id());
        let table = format!("0 {} {target} {arguments}", sectors.trim());
        command::run("dmsetup", ["create", &name, "--noudevsync", "--table", &table])?;
        let mut mapped = Mapped { name, node: PathBuf::new(), below };
        mapped.node = mapped.numbered()?;
        Ok(mapped)
    }

    /// The node by the kernel's name; what dmsetup makes without udev has its own.
    fn numbered(&self) -> Result<PathBuf> {
        let arguments = ["info", "--columns", "--noheadings", "-o", "blkdevname", &self.name];
        Ok(Path::new("/dev").join(command::run("dmsetup", arguments)?.trim()))
    }

    /// Tells the target something: `create_thin 0`.
    pub fn tell(&self, message: &str) -> Result<()> {
        command::run("dmsetup", ["message", &self.name, "0", message]).map(drop)
    }

    /// The device below.
    pub fn below(&self) -> &Below {
        &self.below
    }
}

impl<Below: BlockDevice> BlockDevice for Mapped<Below> {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl<Below: BlockDevice> Drop for Mapped<Below> {
    fn drop(&mut self) {
        let _busy = command::run("dmsetup", ["remove", "--noudevsync", "--retry", &self.name]);
    }
}
