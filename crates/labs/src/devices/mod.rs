//! Scratch devices. Each is removed when its value is dropped, or by the next lab if the process
//! was killed.

mod cgroup;
mod file_system;
mod given;
mod loop_device;
mod mapped;
mod null_blk;
mod partition;
mod raid;
mod scsi_debug;
mod served;
mod silent;
mod trace;
mod user_space;
mod zram;

pub use cgroup::{LabCgroup, Limit};
pub use file_system::{FileSystemKind, Frozen, LabFileSystem};
pub use given::GivenDevice;
pub use loop_device::{Backing, LoopDevice};
pub use mapped::MappedDevice;
pub use null_blk::NullBlk;
pub use partition::Partition;
pub use raid::Raid;
pub use scsi_debug::{ScsiDebug, Trouble};
pub use served::{DeviceSpeed, Hand, ServedDevice};
pub use silent::SilentServer;
pub use trace::DebugFs;
pub use zram::Zram;

use crate::Result;
use crate::error::Context;
use std::path::Path;

/// A block device of a lab.
pub trait BlockDevice: std::fmt::Debug + Send {
    /// Its node: `/dev/loop3`.
    fn path(&self) -> &Path;

    /// The kernel's name: `loop3`.
    fn name(&self) -> &str {
        self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its number: `7:3`.
    fn number(&self) -> Result<String> {
        use std::os::unix::fs::MetadataExt;
        let about = std::fs::metadata(self.path())
            .context(|| format!("look at {}", self.path().display()))?;
        let number = about.rdev();
        Ok(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
    }
}
