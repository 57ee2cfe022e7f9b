//! zram: a device without a request queue, so the kernel sends it bios and no requests.

use super::BlockDevice;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONTROL: &str = "/sys/class/zram-control";

/// A zram device, removed on drop.
#[derive(Debug)]
pub struct Zram {
    node: PathBuf,
    number: String,
    note: PathBuf,
    _scratch: Arc<Scratch>,
}

impl Zram {
    /// Makes one of about `bytes`. The process id is part of the size, which distinguishes a
    /// leftover from a device of another program.
    pub fn new(scratch: &Arc<Scratch>, bytes: u64) -> Result<Zram> {
        let made = fs::read_to_string(format!("{CONTROL}/hot_add"))
            .map_err(|cause| LabError::unsupported(format!("zram ({cause})"), "modprobe zram"))?;
        let number = made.trim().to_owned();
        let size = bytes + 4096 * u64::from(std::process::id() % 1024 + 1);
        let note = scratch.path().join(format!("zram-{number}"));
        let device = Zram {
            node: format!("/dev/zram{number}").into(),
            number,
            note,
            _scratch: Arc::clone(scratch),
        };
        fs::write(&device.note, size.to_string()).context(|| "note the zram device".to_owned())?;
        let setting = format!("/sys/block/zram{}/disksize", device.number);
        fs::write(&setting, size.to_string()).context(|| format!("write {setting}"))?;
        Ok(device)
    }
}

impl BlockDevice for Zram {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // Fails while the device is open; its note stays then and the next lab removes it.
        if fs::write(format!("{CONTROL}/hot_remove"), &self.number).is_ok() {
            let _gone = fs::remove_file(&self.note);
        }
    }
}
