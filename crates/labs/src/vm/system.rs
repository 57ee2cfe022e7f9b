//! A Debian with systemd for guests: its root file system on a disk, which outlives the guest, so
//! that a guest can be killed and started again with the data of its disk.
//!
//! What does not belong here: the packages in it, which are up to the guest's command.

use crate::error::Context;
use crate::{Result, command, machine};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The name of the disk that a guest boots from.
pub const DISK: &str = "system";
/// The release, and the size of its disk: its files take a quarter of it.
const SUITE: &str = "bookworm";
const BYTES: u64 = 1200 << 20;

/// A disk of its own with a fresh system, as a file in `folder`. Fails without root or
/// `debootstrap`, or if the mirror cannot be reached the first time.
pub fn fresh(folder: &Path) -> Result<PathBuf> {
    let image = image()?;
    let copy = folder.join("system.image");
    command::run("cp", [Path::new("--sparse=always"), &image, &copy])?;
    Ok(copy)
}

/// Returns the image that is kept; made the first time.
fn image() -> Result<PathBuf> {
    let _lock = super::lock_cache()?;
    let folder = super::cache()?;
    let path = folder.join(format!("{DISK}-{SUITE}.ext4"));
    if path.exists() {
        return Ok(path);
    }
    machine::need_root()?;
    let root = tempfile::Builder::new()
        .prefix("system-")
        .tempdir_in(&folder)
        .context(|| format!("make a folder in {}", folder.display()))?;
    fs::set_permissions(root.path(), Permissions::from_mode(0o755))
        .context(|| format!("open {}", root.path().display()))?;
    let options = ["--variant=minbase", "--include=systemd-sysv", SUITE].map(Path::new);
    command::run("debootstrap", options.into_iter().chain([root.path()]))?;
    let packages = root.path().join("var/cache/apt/archives");
    let _there_are_none = fs::remove_dir_all(&packages);
    let new = path.with_extension("new");
    File::create(&new)
        .and_then(|file| file.set_len(BYTES))
        .context(|| format!("make {}", new.display()))?;
    let options = ["-q", "-F", "-d"].map(Path::new);
    command::run("mkfs.ext4", options.into_iter().chain([root.path(), new.as_path()]))?;
    fs::rename(&new, &path).context(|| format!("rename {}", new.display()))?;
    Ok(path)
}
