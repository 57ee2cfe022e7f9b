//! RAID of the kernel's md driver.

use super::BlockDevice;
use crate::error::Context;
use crate::{Result, command};
use std::fs;
use std::path::{Path, PathBuf};

/// An array, stopped on drop; then its legs go.
#[derive(Debug)]
pub struct Raid<Leg: BlockDevice> {
    node: PathBuf,
    legs: Vec<Leg>,
}

impl<Leg: BlockDevice> Raid<Leg> {
    /// An array of a level (0, 1, 5 or linear) that is in step from the start. There can be one of
    /// each level.
    pub fn new(level: &str, legs: Vec<Leg>) -> Result<Raid<Leg>> {
        let number = if level == "linear" { "9" } else { level };
        let node = PathBuf::from(format!("/dev/md{number}"));
        let mut create = std::process::Command::new(command::find("mdadm")?);
        create.arg("--create").arg(&node).args(["--run", "--metadata=1.2"]);
        create.arg(format!("--level={level}"));
        if matches!(level, "1" | "5") {
            create.args(["--assume-clean", "--bitmap=none"]);
        }
        create.arg(format!("--raid-devices={}", legs.len()));
        create.args(legs.iter().map(BlockDevice::path));
        command::output_of(create)?;
        Ok(Raid { node, legs })
    }

    /// Returns its legs.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// Returns the sector of a leg at which data begins.
    pub fn data_offset(&self, leg: usize) -> Result<u64> {
        let path = format!("/sys/block/{}/md/rd{leg}/offset", self.name());
        let text = fs::read_to_string(&path).context(|| format!("read {path}"))?;
        text.trim().parse().context(|| format!("read {path}"))
    }
}

impl<Leg: BlockDevice> BlockDevice for Raid<Leg> {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl<Leg: BlockDevice> Drop for Raid<Leg> {
    fn drop(&mut self) {
        let _busy = command::run("mdadm", [Path::new("--stop"), &self.node]);
    }
}
