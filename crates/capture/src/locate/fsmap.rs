//! The map of blocks that XFS itself reports (GETFSMAP), as `xfs_io` prints it: free space on every
//! XFS, and owners of directories and trees if it was made with a reverse map (`rmapbt=1`).
//!
//! What does not belong here: files, whose extents come from FIEMAP (see [`super::walk`]).

use super::index::RangeRole;
use iowhy_model::compact_sort::CompactSort;
use std::path::Path;
use std::process::{Command, Stdio};

/// The use of a range of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeUse {
    /// Free space.
    Free,
    /// The file system itself.
    System(RangeRole),
    /// An inode: its data, or its metadata.
    Inode(u64, Option<RangeRole>),
    /// In use, and this XFS does not record the owner.
    Unknown,
}

/// Ranges of sectors of 512 bytes, in order: the first, the first after it, the owner.
#[derive(Debug, Default)]
pub struct FsMap(Vec<(u64, u64, RangeUse)>);

impl FsMap {
    /// Reads the map of the XFS mounted at `root`, whose data is on device `number`.
    ///
    /// # Errors
    /// Fails if there is no map, with the reason.
    pub fn read(root: &Path, number: (u32, u32)) -> Result<FsMap, String> {
        let mut command = Command::new(iowhy_fs::programs::find_or_name("xfs_io"));
        command.args(["-r", "-c", "fsmap"]).arg(root).stdin(Stdio::null());
        let output = command.output().map_err(|cause| format!("xfs_io cannot be run: {cause}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || !said.trim().is_empty() {
            return Err(refusal(said.trim()));
        }
        Ok(FsMap::parse(&String::from_utf8_lossy(&output.stdout), number))
    }

    fn parse(text: &str, (major, minor): (u32, u32)) -> FsMap {
        let device = format!("{major}:{minor}");
        let mut ranges: Vec<_> = text.lines().filter_map(|line| range(line, &device)).collect();
        ranges.compact_sort_by_key(|(start, ..)| *start);
        FsMap(ranges)
    }

    /// The owner of the sector; `None` if the map does not cover it.
    pub fn at(&self, sector: u64) -> Option<RangeUse> {
        let index = self.0.partition_point(|(start, ..)| *start <= sector).checked_sub(1)?;
        self.0.get(index).filter(|(_, end, _)| sector < *end).map(|(.., owner)| *owner)
    }
}

/// The error of xfs_io, with the missing privilege if it was refused.
fn refusal(said: &str) -> String {
    let needed =
        if said.contains("Operation not permitted") { " (needs CAP_SYS_ADMIN)" } else { "" };
    format!("xfs_io: {said}{needed}")
}

/// Parses `5: 7:4 [8..15]: inode 131 data 8..15 8` if it is of `device`.
fn range(line: &str, device: &str) -> Option<(u64, u64, RangeUse)> {
    let (_, rest) = line.trim().split_once(": ")?;
    let rest = rest.strip_prefix(device)?.trim_start().strip_prefix('[')?;
    let (range, owner) = rest.split_once("]: ")?;
    let (start, last) = range.split_once("..")?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    Some((start.parse().ok()?, end, owner_of(owner)))
}

/// Parses xfs_io's words for an owner.
fn owner_of(text: &str) -> RangeUse {
    if let Some(rest) = text.strip_prefix("inode ")
        && let Some((number, what)) = rest.split_once(' ')
        && let Ok(number) = number.parse()
    {
        let role = match what {
            what if what.starts_with("data extent map") => Some(RangeRole::Mapping),
            what if what.starts_with("attr") => Some(RangeRole::Attributes),
            _ => None,
        };
        return RangeUse::Inode(number, role);
    }
    match text {
        text if text.starts_with("free space btree") => RangeUse::System(RangeRole::Metadata),
        text if text.starts_with("free space") => RangeUse::Free,
        text if text.starts_with("journalling log") => RangeUse::System(RangeRole::Journal),
        text if text.starts_with("static fs metadata") => RangeUse::System(RangeRole::Superblock),
        text if text.starts_with("per-AG metadata") => {
            RangeUse::System(RangeRole::GroupDescriptors)
        }
        text if text.starts_with("inodes") => RangeUse::System(RangeRole::InodeTable),
        text if text.contains("btree") => RangeUse::System(RangeRole::Metadata),
        _ => RangeUse::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_privilege() {
        assert!(refusal("fsmap: Operation not permitted").ends_with("(needs CAP_SYS_ADMIN)"));
        assert_eq!(refusal("/mnt: not an XFS"), "xfs_io: /mnt: not an XFS");
    }

    #[test]
    fn the_words_of_xfs_io_are_understood() {
        let text = "\t0: 7:4 [0..7]: static fs metadata 8\n\t1: 7:4 [8..15]: inode 131 data 8..15 \
                    8\n\
                    \t2: 7:4 [16..23]: inode 131 data extent map 8\n\t3: 7:4 [24..39]: inode btree \
                    16\n\
                    \t4: 7:4 [48..55]: free space 8\n\t5: 7:40 [0..900]: free space 901\n\
                    \t6: 7:4 [56..63]: unknown 8\nnonsense\n\t7: 7:4 [9..1x]: free space 1\n";
        let map = FsMap::parse(text, (7, 4));
        let owners = [0, 7, 8, 16, 39, 40, 48, 63, 64].map(|sector| map.at(sector));
        let expected = [
            Some(RangeUse::System(RangeRole::Superblock)),
            Some(RangeUse::System(RangeRole::Superblock)),
            Some(RangeUse::Inode(131, None)),
            Some(RangeUse::Inode(131, Some(RangeRole::Mapping))),
            Some(RangeUse::System(RangeRole::Metadata)),
            None,
            Some(RangeUse::Free),
            Some(RangeUse::Unknown),
            None,
        ];
        assert_eq!(owners, expected);
    }
}
