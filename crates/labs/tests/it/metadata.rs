//! A storm of small files and folders: not one false file name.

use crate::support::{labs_program, trial, watch};
use iowhy_labs::Result;
use iowhy_labs::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::workload::{self, Workload};
use iowhy_model::Origin;
use libtest_mimic::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;

const FILES: u64 = 3001;

pub fn tests() -> Vec<Trial> {
    [FileSystemKind::Xfs, FileSystemKind::Btrfs, FileSystemKind::Ext4]
        .map(|kind| trial(format!("metadata::storm_{}", kind.name()), move || storm(kind)))
        .into()
}

fn storm(kind: FileSystemKind) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 512 << 20)?;
    let disk = LabFileSystem::new(&scratch, device, kind)?;
    let folder = disk.path().to_owned();
    disk.remount()?;
    let workload = Workload::Storm { folder: folder.clone(), files: FILES };
    let recording =
        watch(disk.device(), &scratch.fresh("recording"), &workload.command(labs_program()))?;

    let path = |name: String| folder.join(name).to_string_lossy().into_owned();
    let known: BTreeSet<String> = workload::storm_all_names(FILES).map(path).collect();
    let left: BTreeMap<String, u64> = workload::storm_names(FILES)
        .map(path)
        .filter_map(|path| Some((path.clone(), std::fs::metadata(path).ok()?.ino())))
        .collect();
    let mut named = 0_u64;
    for (request, part) in recording.pairs() {
        let Some(file) = part.file else { continue };
        named += part.bytes;
        let file = recording.text(file);
        assert!(known.contains(file), "{file} is not a file of the storm: {request:?} {part:?}");
        if let (Some(inode), Some(real)) = (part.inode, left.get(file)) {
            assert_eq!(inode, *real, "{file} has another inode: {request:?} {part:?}");
        }
        assert!(
            !recording.text(request.rwbs).contains('M'),
            "{file} is named by a metadata request: {request:?}"
        );
    }
    for request in &recording.requests {
        // With data=ordered jbd2 also writes the files' data that a commit needs.
        let journal = recording.text(request.process).starts_with("jbd2/");
        assert!(
            !journal
                || matches!(request.origin, Origin::Journal | Origin::Flush | Origin::Writeback),
            "jbd2 wrote what is called {}: {request:?}",
            request.origin.word()
        );
    }
    assert!(named > 0, "the storm's data is there too:\n{}", recording.overview());
    Ok(())
}
