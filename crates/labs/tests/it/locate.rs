//! `iowhy locate` gives debugfs's, filefrag's and xfs_bmap's answers.

use crate::support::{finish, iowhy, trial};
use iowhy_labs::bench::locate::make_files;
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice, Partition,
};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, located};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

pub fn tests() -> Vec<Trial> {
    let mut tests = vec![
        trial("locate::ext4_as_debugfs", ext4_as_debugfs),
        trial("locate::an_image_that_is_not_mounted", an_image_that_is_not_mounted),
        trial("locate::sectors_of_a_disk_with_a_partition", sectors_of_a_disk_with_a_partition),
        trial("locate::xfs_names_directories_and_free_space", xfs_names_directories_and_free_space),
    ];
    for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs, FileSystemKind::Btrfs] {
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
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
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

fn an_image_that_is_not_mounted() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 128 << 20)?;
    let image = device.file().to_owned();
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    furnish(disk.path())?;
    disk.unmount()?;
    let blocks = located::sample(2_000, 30_000);
    let truth = located::debugfs(&image, &blocks)?;
    // Paths are those inside the file system: it is mounted nowhere.
    let ours = located::locate(&image, Path::new("/nowhere"), &blocks)?;
    assert!(truth.owners.len() > 100, "{} blocks have an owner", truth.owners.len());
    for block in &blocks {
        let (truth, found) = (truth.owners.get(block), ours.owners.get(block));
        assert_eq!(truth, found, "block {block}, {}", ours.uses[block]);
    }
    disk.mount()
}

/// Returns the answer of `iowhy locate` for these sectors of `device`, a JSON object for each.
fn of_sectors(device: &Path, sectors: &[u64]) -> Result<Vec<serde_json::Value>> {
    let mut command = iowhy(["locate", "--json"])?;
    command.arg(device).args(sectors.iter().map(u64::to_string));
    let output = finish(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let read = |line| serde_json::from_str(line).context(|| format!("read {line}"));
    text.lines().map(read).collect()
}

fn sectors_of_a_disk_with_a_partition() -> Result<()> {
    const START: u64 = 6144;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::with_partitions(&scratch, 128 << 20)?;
    let node = disk.path().to_owned();
    let partition = Partition::new(disk, START, 200_000)?;
    let disk = LabFileSystem::new(&scratch, partition, FileSystemKind::Ext4)?;
    furnish(disk.path())?;
    disk.remount()?;
    let file = disk.path().join("sparse");
    let mut command = iowhy(["locate", "--json"])?;
    command.arg(&file);
    let output = finish(command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let extents: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sector = extents[0]["sector"].as_u64().unwrap_or_default();
    assert_eq!(extents[0]["device_start"], START, "{text}");
    let answers = of_sectors(&node, &[START + sector, START - 1, START + 2, START + 200_001])?;
    assert_eq!(answers[0]["owners"][0]["paths"][0], file.to_string_lossy().as_ref());
    assert_eq!(answers[0]["device"], disk.device().path().to_string_lossy().as_ref());
    assert_eq!(answers[2]["use"], "superblock");
    for outside in [&answers[1], &answers[3]] {
        assert_eq!(outside["use"], "unknown", "{outside}");
        assert_eq!(outside["device"], node.to_string_lossy().as_ref());
    }
    Ok(())
}

/// With a reverse map XFS names blocks that are no file's; without one it still names free space.
fn xfs_names_directories_and_free_space() -> Result<()> {
    for reverse_map in [true, false] {
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 400 << 20)?;
        let options: &[&str] = if reverse_map { &["-m", "rmapbt=1"] } else { &["-m", "rmapbt=0"] };
        let disk = LabFileSystem::with_options(&scratch, device, FileSystemKind::Xfs, options)?;
        furnish(disk.path())?;
        disk.remount()?;
        let map = command::run(
            "xfs_io",
            ["-r".as_ref(), "-c".as_ref(), Path::new("fsmap"), disk.path()],
        )?;
        let middle_of = |owner: &str| -> Option<u64> {
            let line = map.lines().find(|line| line.contains(owner))?;
            let (start, end) = line.split_once('[')?.1.split_once(']')?.0.split_once("..")?;
            Some((start.parse::<u64>().ok()? + end.parse::<u64>().ok()?) / 2)
        };
        let ask = |sector: Option<u64>| -> Result<serde_json::Value> {
            let sector = sector.unwrap_or_default();
            Ok(of_sectors(disk.device().path(), &[sector])?.remove(0))
        };
        assert_eq!(ask(middle_of("free space"))?["use"], "free", "{map}");
        if !reverse_map {
            continue;
        }
        let directory = disk.path().join("d0/e0");
        let inode = fs::metadata(&directory).context(|| "look at it".to_owned())?.ino();
        let answer = ask(middle_of(&format!("inode {inode} data ")))?;
        assert_eq!(answer["use"], "directory", "{map}");
        assert_eq!(answer["owners"][0]["paths"][0], directory.to_string_lossy().as_ref());
        assert_eq!(ask(middle_of("inodes"))?["use"], "inode table");
        assert_eq!(ask(middle_of("journalling log"))?["use"], "journal");
    }
    Ok(())
}

/// A file's extents are those that filefrag and xfs_bmap print, and each leads back to the file.
fn there_and_back(kind: FileSystemKind) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 400 << 20)?;
    let disk = LabFileSystem::new(&scratch, device, kind)?;
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
        FileSystemKind::Xfs => of_xfs_bmap(&path)?,
        FileSystemKind::Ext4 => of_filefrag(&path)?,
        // filefrag gives addresses in the file system, not on the device.
        FileSystemKind::Btrfs => sectors(&extents),
    };
    let other = sectors(&extents).iter().zip(&truth).position(|(ours, theirs)| ours != theirs);
    assert!(other.is_none() && truth.len() == extents.len(), "extent {other:?} differs");
    // The device holds the written data at these sectors.
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
