//! `iowhy locate` gives debugfs's, filefrag's and xfs_bmap's answers.

use crate::support::{finish, iowhy, trial};
use iowhy_labs::bench::locate::make_files;
use iowhy_labs::devices::{Backing, FileSystem, Kind, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, located};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

pub fn tests() -> Vec<Trial> {
    let mut tests = vec![trial("locate::ext4_as_debugfs", ext4_as_debugfs)];
    for kind in [Kind::Ext4, Kind::Xfs, Kind::Btrfs] {
        let name = format!("locate::{}_there_and_back", kind.name());
        tests.push(trial(name, move || there_and_back(kind)));
    }
    tests
}

/// Everything that owns blocks: many files, a sparse one with a block map, links, directories.
fn furnish(root: &Path) -> Result<()> {
    make_files(root, 3000)?;
    let file = root.join("d0/e0/file-1");
    fs::hard_link(&file, root.join("second name")).context(|| "link".to_owned())?;
    symlink("x".repeat(200), root.join("slow")).context(|| "link".to_owned())?;
    symlink("short", root.join("fast")).context(|| "link".to_owned())?;
    let sparse = File::create(root.join("sparse")).context(|| "make a file".to_owned())?;
    for piece in 0..500 {
        sparse.write_all_at(&[7; 4096], piece * 65_536).context(|| "write".to_owned())?;
    }
    Ok(())
}

fn ext4_as_debugfs() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 128 << 20)?;
    let disk = FileSystem::new(&scratch, device, Kind::Ext4)?;
    furnish(disk.path())?;
    disk.remount()?;
    let about = command::run("dumpe2fs", ["-h".as_ref(), disk.device().path()])?;
    let figure = |name: &str| -> u64 {
        let line = about.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
    };
    // An argument holds at most 128 KiB.
    let sample = located::sample(10_000, figure("Block count:"));
    let blocks: Vec<u64> = (0..600).chain(sample.iter().copied()).collect();
    let truth = located::debugfs(disk.device().path(), &blocks)?;
    let ours = located::locate(disk.device().path(), disk.path(), &blocks)?;
    for block in &blocks {
        let (truth, found) = (truth.owners.get(block), ours.owners.get(block));
        assert_eq!(truth, found, "block {block}, {}", ours.uses[block]);
    }
    let free = sample.iter().filter(|block| ours.uses[*block] == "free").count() as f64;
    let (share, truth) = (free / sample.len() as f64, figure("Free blocks:") as f64);
    let truth = truth / figure("Block count:") as f64;
    assert!((share - truth).abs() < 0.03, "{share} of the blocks are free, not {truth}");
    for word in ["journal", "inode table", "block bitmap", "superblock", "file", "directory"] {
        assert!(ours.uses.values().any(|used| used == word), "no block is of {word}");
    }
    assert!(!ours.uses.values().any(|word| word == "unknown"), "{:?}", ours.uses);
    Ok(())
}

/// A file's extents are those that filefrag and xfs_bmap print, and each leads back to the file.
fn there_and_back(kind: Kind) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 400 << 20)?;
    let disk = FileSystem::new(&scratch, device, kind)?;
    furnish(disk.path())?;
    disk.remount()?;
    let path = disk.path().join("sparse");
    let output = finish({
        let mut command = iowhy(["locate", "--json"])?;
        command.arg(&path);
        command
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let extents: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!extents.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let truth = match kind {
        Kind::Xfs => of_xfs_bmap(&path)?,
        Kind::Ext4 => of_filefrag(&path)?,
        // filefrag gives addresses in the file system, not on the device.
        Kind::Btrfs => sectors(&extents),
    };
    let other = sectors(&extents).iter().zip(&truth).position(|(ours, theirs)| ours != theirs);
    assert!(other.is_none() && truth.len() == extents.len(), "extent {other:?} differs");
    // What the device holds at these sectors is what was written.
    let node = File::open(disk.device().path()).context(|| "open the device".to_owned())?;
    let inode = fs::metadata(&path).context(|| "look at the file".to_owned())?.ino();
    let written: Vec<_> =
        extents.iter().filter(|extent| extent["unwritten"] == false).cloned().collect();
    for sector in sectors(&written) {
        let mut bytes = [0; 512];
        node.read_exact_at(&mut bytes, sector * 512).context(|| "read".to_owned())?;
        assert!(bytes.iter().all(|byte| *byte == 7), "sector {sector} holds something else");
    }
    let mut back = iowhy(["locate", "--json"])?;
    back.arg(disk.device().path()).args(sectors(&extents).iter().map(u64::to_string));
    let output = finish(back)?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), extents.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in text.lines() {
        let json: serde_json::Value = serde_json::from_str(line).context(|| line.to_owned())?;
        assert_eq!(json["owners"][0]["paths"][0], path.to_string_lossy().as_ref(), "{line}");
        assert_eq!(json["owners"][0]["inode"], inode, "{line}");
    }
    Ok(())
}

fn sectors(extents: &[serde_json::Value]) -> Vec<u64> {
    extents.iter().filter_map(|extent| extent["sector"].as_u64()).collect()
}

fn of_xfs_bmap(path: &Path) -> Result<Vec<u64>> {
    let text = command::run("xfs_bmap", [path])?;
    let start = |line: &str| line.split(": ").nth(2)?.split("..").next()?.parse().ok();
    Ok(text.lines().filter_map(start).collect())
}

fn of_filefrag(path: &Path) -> Result<Vec<u64>> {
    let text = command::run("filefrag", ["-b512".as_ref(), "-v".as_ref(), path])?;
    let start = |line: &str| {
        let mut parts = line.split(':');
        parts.next()?.trim().parse::<u64>().ok()?;
        parts.nth(1)?.split("..").next()?.trim().parse().ok()
    };
    Ok(text.lines().filter_map(start).collect())
}
