//! Loop devices over a file in memory or on disk.

use super::BlockDevice;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Result, command};
use rustix::fs::FallocateFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The storage of a loop device's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A file on a tmpfs of its own: no other device is involved.
    Tmpfs,
    /// A file on disk, read and written through the page cache.
    File,
    /// A file on disk, without the page cache (`losetup --direct-io=on`).
    DirectFile,
}

/// Settings that a loop device keeps for the next user of its number, and the kernel's own values.
/// The scheduler comes first, since it brings settings of its own; the number of requests is set
/// twice, since the kernel ignores a write of the current value, and the value that it shows may be
/// larger than the real one.
const DEFAULTS: &[(&str, &str)] = &[
    ("scheduler", "none"),
    ("nr_requests", "64"),
    ("nr_requests", "128"),
    ("read_ahead_kb", "128"),
    ("wbt_lat_usec", "-1"),
    ("nomerges", "0"),
    ("rq_affinity", "1"),
    ("iostats", "1"),
];
/// The kernel's default of the largest request (BLK_DEF_MAX_SECTORS_CAP), KiB.
const MOST_KIB: u64 = 1280;

/// A loop device, detached and its file removed on drop.
#[derive(Debug)]
pub struct LoopDevice {
    node: PathBuf,
    file: PathBuf,
    tmpfs: Option<PathBuf>,
    _scratch: Arc<Scratch>,
}

impl LoopDevice {
    /// Makes one of `bytes`. On disk all of them are allocated, so that writing does not allocate;
    /// a tmpfs takes memory only for written data.
    pub fn new(scratch: &Arc<Scratch>, backing: Backing, bytes: u64) -> Result<LoopDevice> {
        LoopDevice::make(scratch, backing, bytes, false)
    }

    /// One in memory that can have partitions.
    pub fn with_partitions(scratch: &Arc<Scratch>, bytes: u64) -> Result<LoopDevice> {
        LoopDevice::make(scratch, Backing::Tmpfs, bytes, true)
    }

    fn make(
        scratch: &Arc<Scratch>,
        backing: Backing,
        bytes: u64,
        partitions: bool,
    ) -> Result<LoopDevice> {
        let mut device = LoopDevice {
            node: PathBuf::new(),
            file: scratch.fresh("image"),
            tmpfs: None,
            _scratch: Arc::clone(scratch),
        };
        if backing == Backing::Tmpfs {
            let folder = scratch.memory()?;
            device.file = folder.join("image");
            device.tmpfs = Some(folder);
        }
        device.attach(backing, bytes, partitions)?;
        Ok(device)
    }

    /// Makes one of `bytes` over a file in `folder`, which must outlive it, past the page cache.
    pub fn inside(scratch: &Arc<Scratch>, folder: &Path, bytes: u64) -> Result<LoopDevice> {
        LoopDevice::inside_as(Backing::DirectFile, scratch, folder, bytes)
    }

    /// Makes one like [`LoopDevice::inside`], read and written through the page cache or past it:
    /// on 5.10 and 6.1 a frozen file system below blocks only writes through the cache.
    pub fn inside_as(
        backing: Backing,
        scratch: &Arc<Scratch>,
        folder: &Path,
        bytes: u64,
    ) -> Result<LoopDevice> {
        let mut device = LoopDevice {
            node: PathBuf::new(),
            file: folder.join("image"),
            tmpfs: None,
            _scratch: Arc::clone(scratch),
        };
        device.attach(backing, bytes, false)?;
        Ok(device)
    }

    /// Makes one over all of a file or another device, past the page cache.
    pub fn over(scratch: &Arc<Scratch>, below: &Path) -> Result<LoopDevice> {
        let options = ["--find", "--show", "--direct-io=on"].map(Path::new);
        let node = command::run("losetup", options.into_iter().chain([below]))?;
        // No file of its own: nothing to remove but the device.
        let file = scratch.fresh("none");
        let node = PathBuf::from(node.trim());
        let device = LoopDevice { node, file, tmpfs: None, _scratch: Arc::clone(scratch) };
        device.forget_settings();
        Ok(device)
    }

    fn attach(&mut self, backing: Backing, bytes: u64, partitions: bool) -> Result<()> {
        allocate(&self.file, bytes, backing)?;
        let direct = if backing == Backing::DirectFile { "on" } else { "off" };
        let direct = format!("--direct-io={direct}");
        let mut arguments = vec!["--find", "--show", &direct];
        arguments.extend(partitions.then_some("--partscan"));
        let arguments = arguments.into_iter().map(Path::new).chain([self.file.as_path()]);
        let node = command::run("losetup", arguments)?;
        self.node = PathBuf::from(node.trim());
        self.forget_settings();
        Ok(())
    }

    /// Gives the queue the kernel's own settings: the last user of this number may have left
    /// others.
    fn forget_settings(&self) {
        let queue = PathBuf::from(format!("/sys/block/{}/queue", self.name()));
        let most = fs::read_to_string(queue.join("max_hw_sectors_kb")).unwrap_or_default();
        let most = most.trim().parse::<u64>().unwrap_or(MOST_KIB).min(MOST_KIB).to_string();
        for (setting, value) in DEFAULTS.iter().chain([&("max_sectors_kb", most.as_str())]) {
            // Not every kernel has each of them.
            let _kernel_without_it = fs::write(queue.join(setting), value);
        }
    }

    /// The file behind it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Detaches the device while it may still be in use: it vanishes when its last user closes it.
    pub fn detach(&self) -> Result<()> {
        command::run("losetup", [Path::new("--detach"), &self.node]).map(drop)
    }
}

fn allocate(path: &Path, bytes: u64, backing: Backing) -> Result<()> {
    let file = File::create_new(path).context(|| format!("make {}", path.display()))?;
    let action = || format!("allocate {bytes} bytes for {}", path.display());
    if backing == Backing::Tmpfs {
        return file.set_len(bytes).context(action);
    }
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).context(action)
}

impl BlockDevice for LoopDevice {
    fn path(&self) -> &Path {
        &self.node
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Each may be gone already; a busy one is removed by the next lab.
        if !self.node.as_os_str().is_empty() {
            // Others may get its number next.
            self.forget_settings();
            let _gone = self.detach();
        }
        let _gone = fs::remove_file(&self.file);
        if let Some(folder) = &self.tmpfs {
            let _busy = command::run("umount", [folder]);
        }
    }
}
