//! Events for blktrace's users where blktrace cannot run: single events of a live watch, as text,
//! as stages, and as files for the old tools.

use crate::blktrace::{answer, blkparse, btt, dump, replay};
use crate::support::{NO_PERMISSION, finish, iowhy, printed, trial};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, machine};
use libtest_mimic::Trial;
use std::path::Path;

const READS: u64 = 97;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("blktrace_live::recorded_events_are_taken_by_the_old_tools", recorded_events),
        trial("blktrace_live::a_watch_without_a_source_ends", a_watch_without_a_source_ends),
    ]
}

/// 97 reads, each with its Q and C, in every shape that events have.
fn recorded_events() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 << 20)?;
    let recording = scratch.fresh("recording");
    record(&device, &recording, &scratch)?;
    let source = [recording];
    let text = answer(&["events", "-q"], &source)?;
    for action in ["Q", "D", "C"] {
        let is_read = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(5) == Some(&action)
                && words.get(6).is_some_and(|rwbs| rwbs.starts_with('R'))
                && words.get(9) == Some(&"8")
        };
        assert_eq!(text.lines().filter(is_read).count() as u64, READS, "{action}: {text}");
    }
    let queued = text.lines().filter(|line| line.contains("  Q   R "));
    assert!(queued.clone().all(|line| line.ends_with("[fio]")), "{text}");

    let folder = scratch.fresh("files");
    let export = ["export", "--format", "blktrace", "-o", &folder.to_string_lossy()];
    answer(&export, &source)?;
    let name = [device.name().to_owned()];
    let total = format!(" Reads Completed: {READS:8}, {:8}KiB", READS * 4);
    let theirs = blkparse(&folder, &name, &[])?;
    assert!(theirs.contains(&total), "{theirs}");
    let merged = folder.join("merged");
    dump(&folder, &name, &merged)?;
    assert_eq!(answer(&["stages", "--btt-compat"], &source)?, btt(&merged, &[])?);
    let fio = replay(&merged)?;
    assert_eq!(fio["jobs"][0]["read"]["total_ios"].as_u64(), Some(READS));
    Ok(())
}

fn record(device: &LoopDevice, output: &Path, scratch: &Scratch) -> Result<()> {
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, READS, 4096);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let mut record = iowhy(["record", "--events", "-d", device.name(), "-o"])?;
    record.arg(output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    if result.status.code() == Some(NO_PERMISSION) {
        return Err(LabError::missing("BPF", printed(&result)));
    }
    assert!(result.status.success(), "{}", printed(&result));
    Ok(())
}

/// Nothing happens on the device: that is an answer.
fn a_watch_without_a_source_ends() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 << 20)?;
    let watch = ["-t", "0.2", "-d", device.name()];
    assert_eq!(answer(&[&["events", "-q"][..], &watch].concat(), &[])?, "");
    let stages = answer(&[&["stages"][..], &watch].concat(), &[])?;
    assert!(stages.contains("no requests"), "{stages}");
    Ok(())
}
