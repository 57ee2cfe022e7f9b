//! Maps a sector of a disk to the partition that holds it.
//!
//! What does not belong here: what is inside a partition.

use super::LocateError;
use crate::host::{read_number, read_text};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A range of a device that can hold a file system of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePart {
    /// The node to read it from.
    pub node: PathBuf,
    /// The first sector on the device that the user named, in sectors of 512 bytes.
    pub start: u64,
    /// Length, sectors.
    pub sectors: u64,
    /// Device number: major, minor; `None` for an image.
    pub number: Option<(u32, u32)>,
    /// Devices that use it as a whole: device mapper, md.
    pub holders: Vec<String>,
}

/// The parts of `path`: its partitions and then itself, or only itself.
pub(super) fn parts(path: &Path) -> Result<Vec<DevicePart>, LocateError> {
    let about = fs::metadata(path).map_err(LocateError::read(path))?;
    if about.is_file() {
        let (node, sectors) = (path.to_owned(), about.len() / 512);
        return Ok(vec![DevicePart { node, start: 0, sectors, number: None, holders: Vec::new() }]);
    }
    if !about.file_type().is_block_device() {
        return Err(LocateError::NoDevice { path: path.to_owned() });
    }
    let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    let folder = sysfs(number);
    let mut found: Vec<DevicePart> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| partition(&entry.path()))
        .collect();
    let (node, sectors) = (path.to_owned(), read_number(folder.join("size")).unwrap_or(0));
    let holders = holders(&folder);
    found.push(DevicePart { node, start: 0, sectors, number: Some(number), holders });
    Ok(found)
}

/// A device's directory in sysfs.
pub(super) fn sysfs((major, minor): (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn partition(folder: &Path) -> Option<DevicePart> {
    read_number(folder.join("partition"))?;
    let text = read_text(folder.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(DevicePart {
        node: Path::new("/dev").join(folder.file_name()?),
        start: read_number(folder.join("start"))?,
        sectors: read_number(folder.join("size"))?,
        number: Some((major.parse().ok()?, minor.parse().ok()?)),
        holders: holders(folder),
    })
}

fn holders(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
