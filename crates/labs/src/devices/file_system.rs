//! File systems made on a lab's device and mounted in its directory.

use super::BlockDevice;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The kind of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystemKind {
    /// ext4; jbd2's journal.
    Ext4,
    /// XFS; needs 300 MiB.
    Xfs,
    /// btrfs; needs 110 MiB.
    Btrfs,
}

impl FileSystemKind {
    /// The kernel's name of it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "ext4",
            FileSystemKind::Xfs => "xfs",
            FileSystemKind::Btrfs => "btrfs",
        }
    }

    /// Disables lazy initialisation, so that nothing is written later in the background.
    fn make_arguments(self) -> &'static [&'static str] {
        match self {
            FileSystemKind::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            FileSystemKind::Xfs => &["-q", "-f"],
            FileSystemKind::Btrfs => &["-q", "-f"],
        }
    }

    /// Disables writes by a timer: commits wait for ten minutes, or for a sync, and ext4 does not
    /// read its bitmaps in the background. Tried in this order: before 5.13 ext4 does so only on
    /// request, and does not know the option.
    fn mount_options(self) -> &'static [&'static str] {
        match self {
            FileSystemKind::Ext4 => {
                &["noatime,commit=600,no_prefetch_block_bitmaps", "noatime,commit=600"]
            }
            FileSystemKind::Btrfs => &["noatime,commit=600"],
            FileSystemKind::Xfs => &["noatime"],
        }
    }
}

/// A mounted file system, unmounted on drop; then its device goes.
#[derive(Debug)]
pub struct LabFileSystem {
    kind: FileSystemKind,
    point: PathBuf,
    device: Box<dyn BlockDevice>,
    _scratch: Arc<Scratch>,
}

impl LabFileSystem {
    /// Makes a file system on `device` and mounts it.
    pub fn new(
        scratch: &Arc<Scratch>,
        device: impl BlockDevice + 'static,
        kind: FileSystemKind,
    ) -> Result<LabFileSystem> {
        LabFileSystem::with_options(scratch, device, kind, &[])
    }

    /// Makes and mounts one, with more arguments for mkfs.
    pub fn with_options(
        scratch: &Arc<Scratch>,
        device: impl BlockDevice + 'static,
        kind: FileSystemKind,
        options: &[&str],
    ) -> Result<LabFileSystem> {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.split_whitespace().any(|word| word == kind.name()) {
            return Err(LabError::unsupported(kind.name(), format!("modprobe {}", kind.name())));
        }
        let mut arguments: Vec<&Path> =
            kind.make_arguments().iter().chain(options).map(Path::new).collect();
        arguments.push(device.path());
        command::run(&format!("mkfs.{}", kind.name()), arguments)?;
        let point = scratch.fresh(kind.name());
        fs::create_dir(&point).context(|| format!("make {}", point.display()))?;
        let made =
            LabFileSystem { kind, point, device: Box::new(device), _scratch: Arc::clone(scratch) };
        made.mount()?;
        Ok(made)
    }

    /// Lets direct writes be direct on btrfs, too: with checksums they go through the page cache
    /// since Linux 6.15 (968f19c5b1b7). For files made from now on.
    pub fn without_checksums(self) -> Result<LabFileSystem> {
        if self.kind == FileSystemKind::Btrfs {
            command::run("chattr", [Path::new("+C"), &self.point])?;
        }
        Ok(self)
    }

    /// Returns its mount point.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// The device it is on.
    pub fn device(&self) -> &dyn BlockDevice {
        self.device.as_ref()
    }

    /// Unmounts and mounts it again, which empties the page cache of its files and of itself.
    pub fn remount(&self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// Blocks every write to it, as a dead disk would, until the returned value is dropped.
    pub fn freeze(&self) -> Result<Frozen> {
        command::run("fsfreeze", [Path::new("--freeze"), &self.point])?;
        Ok(Frozen { point: self.point.clone() })
    }

    /// Mounts it where it was.
    pub fn mount(&self) -> Result<()> {
        let mut result = Ok(());
        for options in self.kind.mount_options() {
            result = self.mount_with(options);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn mount_with(&self, options: &str) -> Result<()> {
        command::run(
            "mount",
            [
                "-t".as_ref(),
                Path::new(self.kind.name()),
                "-o".as_ref(),
                Path::new(options),
                self.device.path(),
                &self.point,
            ],
        )
        .map(drop)
    }

    /// Unmounts it. A process that has just ended may still be letting go of its files.
    pub fn unmount(&self) -> Result<()> {
        let mut result = Ok(());
        for _ in 0..20 {
            result = command::run("umount", [&self.point]).map(drop);
            if result.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        result
    }
}

impl Drop for LabFileSystem {
    fn drop(&mut self) {
        let _left_for_the_next_lab = self.unmount();
    }
}

/// A file system that takes no writes; it does again when this is dropped.
#[derive(Debug)]
pub struct Frozen {
    point: PathBuf,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _unmounting_thaws_too =
            command::run("fsfreeze", [Path::new("--unfreeze"), &self.point]);
    }
}
