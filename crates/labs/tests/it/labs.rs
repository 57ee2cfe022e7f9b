//! The labs' own promises: devices are always removed, and workloads do exactly their documented
//! I/O.

use crate::support::{labs_program, trial};
use iowhy_labs::devices::{
    Backing, BlockDevice, FileSystemKind, LabCgroup, LabFileSystem, Limit, LoopDevice, Zram,
};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::score;
use iowhy_labs::scratch::{self, Scratch};
use iowhy_labs::workload::{self, PAGE, Workload};
use iowhy_labs::{Result, command, process};
use libtest_mimic::Trial;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("labs::devices_are_removed", devices_are_removed),
        trial("labs::a_killed_lab_is_cleaned_up", killed_lab),
        trial("labs::strided_job_is_exact", strided_job),
        trial("labs::dirty_leaves_exactly_its_pages", dirty_pages),
        trial("labs::storm_leaves_its_names", storm_names),
        trial("labs::cgroup_limits", cgroup_limits),
        trial("labs::kept_recordings_score_right", kept_recordings_score_right),
    ]
}

/// The labelled recordings of the repository, as `iowhy-labs score` judges them.
fn kept_recordings_score_right() -> Result<()> {
    let labels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnosis/tests/labels");
    let scored = score::score(&labels)?;
    let missed: Vec<String> = scored
        .iter()
        .filter(|scored| scored.mark != score::mark::ScoreMark::Right)
        .map(score::table::line)
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(scored.len() > 5, "{}", labels.display());
    Ok(())
}

fn devices_are_removed() -> Result<()> {
    let scratch = Scratch::new()?;
    let path = scratch.path().to_owned();
    for backing in [Backing::Tmpfs, Backing::File, Backing::DirectFile] {
        for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs, FileSystemKind::Btrfs] {
            let disk =
                LabFileSystem::new(&scratch, LoopDevice::new(&scratch, backing, 320 * MIB)?, kind)?;
            assert!(machine::mounts_below(&path).contains(&disk.path().to_owned()));
            assert_eq!(machine::loops_below(&path), [disk.device().path()]);
            drop(disk);
            assert_eq!(machine::mounts_below(&path), [] as [PathBuf; 0]);
            assert_eq!(machine::loops_below(&path), [] as [PathBuf; 0]);
        }
    }
    drop(scratch);
    assert!(!path.exists());
    Ok(())
}

/// A lab that is killed leaves everything behind; the next one removes it.
fn killed_lab() -> Result<()> {
    machine::need_root()?;
    let mut lab = Command::new(labs_program())
        .arg("hold")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "start a lab".to_owned())?;
    let mut printed = String::new();
    let output = lab.stdout.take().expect("its output is piped");
    BufReader::new(output)
        .read_line(&mut printed)
        .context(|| "read what the lab says".to_owned())?;
    lab.kill().context(|| "kill the lab".to_owned())?;
    lab.wait().context(|| "wait for the lab".to_owned())?;
    let path = Path::new(printed.trim());
    assert!(path.join("lock").exists(), "the lab did not say where it is: {printed}");
    let devices = machine::loops_below(path);
    assert_eq!(devices.len(), 2, "a device in memory and one that the lab served");
    let settings = std::fs::read_to_string(path.join("settings"));
    let settings = settings.context(|| "read the settings".to_owned())?;
    let (setting, before) = settings.trim().split_once('\t').expect("a setting and its value");
    let variable = format!("IOWHY_LAB={}", path.display());
    assert_eq!(process::with_environment(&variable).count(), 1);
    // Where another test has begun meanwhile, it has removed it.
    let removed = scratch::remove_dead()?;
    assert!(!removed.left.iter().any(|left| left == path), "{removed}");
    assert_eq!(process::with_environment(&variable).count(), 0);
    if let Ok(now) = std::fs::read_to_string(setting) {
        assert_eq!(now.trim(), before);
    }
    assert_eq!(machine::loops_below(path), [] as [PathBuf; 0]);
    assert_eq!(machine::mounts_below(path), [] as [PathBuf; 0]);
    assert!(!path.exists(), "{}", path.display());
    Ok(())
}

fn strided_job() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    for engine in Engine::DIRECT {
        let log = scratch.fresh("iolog");
        let job = Job::strided(device.path(), engine, FioAccess::Read, 997, 4096);
        let before = DiskStats::for_device(device.name())?;
        let report = job.with("write_iolog", &log).run(&scratch.fresh("fio.json"))?;
        let counted = DiskStats::for_device(device.name())?.since(before);
        let expected: Vec<(u64, u64)> = (0..997).map(|index| (index * 8192, 4096)).collect();
        assert_eq!(fio::read_iolog(&log)?, expected, "{engine:?}");
        assert_eq!((report.read.total_ios, report.read.io_bytes), (997, 997 * 4096), "{engine:?}");
        assert_eq!((counted.reads, counted.sectors_read), (997, 997 * 8), "{engine:?}");
    }
    Ok(())
}

fn dirty_pages() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 320 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Xfs)?;
    let file = fio::prepare(&disk.path().join("data"), 4 * MIB)?;
    disk.remount()?;
    let dirty = Workload::Dirty { file: file.clone(), pages: 101, fsync: false };
    let before = DiskStats::for_device(disk.device().name())?;
    command::output_of(dirty.command(labs_program()))?;
    let meanwhile = DiskStats::for_device(disk.device().name())?.since(before);
    assert_eq!(meanwhile.sectors_written, 0, "it leaves them dirty");
    workload::syncfs(disk.path())?;
    let counted = DiskStats::for_device(disk.device().name())?.since(before);
    assert!(counted.sectors_written >= 101 * PAGE / 512, "{counted:?}");
    let data = std::fs::read(&file).context(|| "read the file back".to_owned())?;
    let changed = data.chunks(PAGE as usize).map(|page| page.iter().all(|byte| *byte == 0xa5));
    let offsets: Vec<u64> = changed
        .enumerate()
        .filter(|(_, dirty)| *dirty)
        .map(|(index, _)| index as u64 * PAGE)
        .collect();
    assert_eq!(offsets, workload::every_other_page(101).collect::<Vec<_>>());
    Ok(())
}

fn storm_names() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let storm = Workload::Storm { folder: folder.path().to_owned(), files: 301 };
    command::output_of(storm.command(labs_program()))?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder.path()).context(|| "list it".to_owned())?.flatten() {
        let inner = std::fs::read_dir(entry.path()).context(|| "list it".to_owned())?;
        found.extend(inner.flatten().map(|file| {
            let (folder, file) = (entry.file_name(), file.file_name());
            format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy())
        }));
    }
    let mut expected: Vec<String> = workload::storm_names(301).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    Ok(())
}

fn cgroup_limits() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let zram = Zram::new(&scratch, MIB)?;
    let path = {
        let cgroup = LabCgroup::block(&scratch)?;
        cgroup.limit(&device, Limit::ReadIops(100))?;
        cgroup.limit(&zram, Limit::WriteBytes(MIB))?;
        let report = scratch.fresh("fio.json");
        let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, 97, 4096);
        command::output_of(cgroup.inside(&job.command(&report)?))?;
        let reads = fio::FioReport::read(&report)?.read;
        assert!(reads.iops < 200.0, "{} IOPS under a limit of 100", reads.iops);
        cgroup.path().to_owned()
    };
    assert!(!path.exists());
    let node = zram.path().to_owned();
    drop(zram);
    assert!(!node.exists());
    Ok(())
}
