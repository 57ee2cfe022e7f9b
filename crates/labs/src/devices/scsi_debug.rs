//! scsi_debug: a SCSI disk that the kernel makes up, with errors on request.

use super::BlockDevice;
use crate::error::Context;
use crate::{LabError, Result, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DRIVER: &str = "/sys/bus/pseudo/drivers/scsi_debug";
/// The time that the kernel may take to find the disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// The trouble of a disk of scsi_debug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No trouble.
    None,
    /// Reads of sectors 0x1234 to 0x123d fail.
    MediumErrors,
    /// The host rejects every n-th command for the moment.
    Busy(u32),
    /// Every n-th command gets no answer, until the kernel aborts it.
    Silence(u32),
}

/// The module's disk, gone with the module on drop. There can be one.
#[derive(Debug)]
pub struct ScsiDebug {
    node: PathBuf,
}

impl ScsiDebug {
    /// A disk of 16 MiB in memory that answers at once.
    pub fn new() -> Result<ScsiDebug> {
        command::run("modprobe", ["sd_mod"])?;
        command::run("modprobe", ["scsi_debug", "dev_size_mb=16", "delay=0"]).map_err(|cause| {
            LabError::unsupported(format!("scsi_debug ({cause})"), "its module")
        })?;
        // Created before the disk is found, so that the module is always removed.
        let mut device = ScsiDebug { node: PathBuf::new() };
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(name) = disk_below(Path::new("/sys/block")) {
                device.node = Path::new("/dev").join(name);
                return Ok(device);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(LabError::failed("find scsi_debug's disk", "it did not appear"))
    }

    /// Sets its trouble from now on.
    pub fn trouble(&self, trouble: Trouble) -> Result<()> {
        let (options, every) = match trouble {
            Trouble::None => (0, 0),
            Trouble::MediumErrors => (0x2, 0),
            Trouble::Busy(every) => (0x8000, every),
            Trouble::Silence(every) => (0x4, every),
        };
        for (name, value) in [("opts", options), ("every_nth", every)] {
            let path = Path::new(DRIVER).join(name);
            fs::write(&path, value.to_string()).context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    /// Sets the seconds that the kernel waits before it aborts a command.
    pub fn time_limit(&self, seconds: u32) -> Result<()> {
        let name = self.node.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("device/timeout");
        fs::write(&path, seconds.to_string()).context(|| format!("write {}", path.display()))
    }
}

/// The disk among those of `folder` whose model is the module's.
fn disk_below(folder: &Path) -> Option<String> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let model = fs::read_to_string(entry.path().join("device/model")).ok()?;
        let size = fs::read_to_string(entry.path().join("size")).ok()?;
        let found = model.trim() == "scsi_debug" && size.trim() != "0";
        found.then(|| entry.file_name().to_string_lossy().into_owned())
    })
}

impl BlockDevice for ScsiDebug {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for ScsiDebug {
    fn drop(&mut self) {
        let _busy = command::run("modprobe", ["-r", "scsi_debug"]);
    }
}
