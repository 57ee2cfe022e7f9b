//! Devices of the device mapper, over another device.

use super::{BlockDevice, GivenDevice};
use crate::error::Context;
use crate::{Result, command};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers the devices of one process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A device of the device mapper, removed on drop; then the device below goes.
#[derive(Debug)]
pub struct MappedDevice<Below: BlockDevice = GivenDevice> {
    name: String,
    node: PathBuf,
    below: Below,
}

impl<Below: BlockDevice> MappedDevice<Below> {
    /// Makes a device that passes all I/O to `below`, at the same place.
    pub fn linear(below: Below) -> Result<MappedDevice<Below>> {
        MappedDevice::new(below, "linear", "")
    }

    /// Makes a device whose target has more arguments after device and offset: `delay` with ` 20`.
    pub fn new(below: Below, target: &str, more: &str) -> Result<MappedDevice<Below>> {
        let arguments = format!("{} 0{more}", below.path().display());
        MappedDevice::of(below, target, &arguments)
    }

    /// Makes a device as large as `below`, whose target has these arguments.
    pub fn of(below: Below, target: &str, arguments: &str) -> Result<MappedDevice<Below>> {
        let sectors = command::run("blockdev", [Path::new("--getsz"), below.path()])?;
        let sectors = sectors.trim().parse().context(|| format!("understand {sectors:?}"))?;
        MappedDevice::sized(below, sectors, target, |_| arguments.to_owned())
    }

    /// Makes a device of so many sectors, whose target's arguments are made of the path of `below`.
    pub fn sized(
        below: Below,
        sectors: u64,
        target: &str,
        arguments: impl Fn(&str) -> String,
    ) -> Result<MappedDevice<Below>> {
        command::run("modprobe", ["dm_mod"])?;
        let arguments = arguments(&below.path().display().to_string());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("iowhy-{target}-{}-{count}", std::process::id());
        let table = format!("0 {sectors} {target} {arguments}");
        command::run("dmsetup", ["create", &name, "--noudevsync", "--table", &table])?;
        let mut mapped = MappedDevice { name, node: PathBuf::new(), below };
        mapped.node = mapped.numbered()?;
        Ok(mapped)
    }

    /// Returns the node by the kernel's name; dmsetup makes its own names without udev.
    fn numbered(&self) -> Result<PathBuf> {
        let arguments = ["info", "--columns", "--noheadings", "-o", "blkdevname", &self.name];
        Ok(Path::new("/dev").join(command::run("dmsetup", arguments)?.trim()))
    }

    /// Sends a message to the target: `create_thin 0`.
    pub fn tell(&self, message: &str) -> Result<()> {
        command::run("dmsetup", ["message", &self.name, "0", message]).map(drop)
    }

    /// The command of a shell that sends a message to the target.
    pub fn message(&self, message: &str) -> String {
        format!("dmsetup message {} 0 '{message}'", self.name)
    }

    /// The device below.
    pub fn below(&self) -> &Below {
        &self.below
    }
}

impl<Below: BlockDevice> BlockDevice for MappedDevice<Below> {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl<Below: BlockDevice> Drop for MappedDevice<Below> {
    fn drop(&mut self) {
        let _busy = command::run("dmsetup", ["remove", "--noudevsync", "--retry", &self.name]);
    }
}
