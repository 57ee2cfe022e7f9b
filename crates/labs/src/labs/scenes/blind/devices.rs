//! Limits, stacked devices, the CPU.

use super::*;
use crate::command;
use crate::error::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The labs.
pub const LABS: &[Lab] = &[
    blind("blind-neighbour", &["noisy-neighbour"], neighbour),
    blind("blind-credits-bytes", &["burst-credits"], credits_in_bytes),
    blind("blind-cgroup-bytes", &["cgroup-throttle"], cgroup_in_bytes),
    blind("blind-frozen-below", &["hung-io"], frozen_below),
    blind("blind-unlinks-discard", &["discard-storm"], unlinks_discard),
    blind("blind-nice-reader", &["cpu-starvation"], nice_reader),
    blind("blind-two-caches", &["double-caching"], two_caches),
];

/// Another process, on the same disk but not on the watched device, starts in the middle of the
/// watch.
fn neighbour(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let iops = stage.dice.between(700, 1100);
    hidden.iops(iops)?;
    let own = (iops * stage.dice.between(30, 45) / 100).to_string();
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4 * KIB)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", stage.dice.between(1, 4).to_string())
        .with("rate_iops", own);
    stage.fio(job)?;
    let backing = format!("/sys/block/{}/loop/backing_file", device.name());
    let below = fs::read_to_string(&backing).context(|| format!("read {backing}"))?;
    let start = stage.dice.between(stage.seconds / 2 + 1, stage.seconds / 2 + 3).to_string();
    let depth = stage.dice.between(24, 48).to_string();
    let other = Job::new(Path::new(below.trim()), Engine::Libaio, FioAccess::RandomRead, 8 * KIB)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", depth)
        .with("startdelay", start);
    stage.fio(other)?;
    stage.expected = Expected::fix(&["move", "neighbour", "provider"]).on(device.name());
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// A volume whose throughput drops in one step during large sequential writes.
fn credits_in_bytes(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(256)?;
    let base = stage.dice.one(&[10, 15, 20]);
    let full = base * stage.dice.between(3, 4);
    hidden.limit("write_bps", full * MIB)?;
    let block = stage.dice.one(&[128 * KIB, 256 * KIB]);
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::Write, block)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", stage.dice.between(4, 8).to_string());
    stage.fio(job)?;
    let at = 3000 + stage.seconds * 100 * stage.dice.between(2, 5);
    let later = hidden.clone();
    stage.after(at, move || drop(later.limit("write_bps", base * MIB)));
    stage.expected = Expected::fix(&["gp3", "provision", "credit"]).on(device.name()).by("fio");
    stage.keep(hidden);
    stage.keep(device);
    Ok(())
}

/// Two readers of large blocks in a cgroup with a limit on bytes read per second.
fn cgroup_in_bytes(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(256)?;
    let cgroup = LabCgroup::block(&stage.scratch)?;
    cgroup.limit(&device, Limit::ReadBytes(stage.dice.between(4, 12) * MIB))?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::Read, 256 * KIB)
        .direct()
        .with("size", (100 * MIB).to_string())
        .with("numjobs", "2")
        .with("offset_increment", (100 * MIB).to_string());
    stage.fio_inside(job, &cgroup)?;
    stage.expected = Expected::fix(&["raise", "limit"]).on(device.name()).by("fio");
    stage.keep(cgroup);
    stage.keep(device);
    Ok(())
}

/// A device backed by a file whose file system is frozen in the middle of the watch: writes hang.
fn frozen_below(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(512)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let above = crate::devices::LoopDevice::inside(&stage.scratch, disk.path(), 256 * MIB)?;
    stage.watched = above.name().to_owned();
    let job = Job::new(above.path(), Engine::Libaio, FioAccess::RandomWrite, 8 * KIB)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("iodepth", stage.dice.between(1, 4).to_string())
        .with("rate_iops", stage.dice.between(80, 160).to_string());
    stage.fio(job)?;
    let at = 3500 + stage.seconds * 100 * stage.dice.between(1, 3);
    let (point, held) = (disk.path().to_owned(), stage.seconds + 3);
    stage.after(at, move || {
        let freeze = |how: &str| command::run("fsfreeze", [Path::new(how), &point]);
        if freeze("--freeze").is_ok() {
            std::thread::sleep(Duration::from_secs(held));
            let _unmounting_thaws_too = freeze("--unfreeze");
        }
    });
    stage.expected = Expected::fix(&["path", "firmware"]).on(above.name());
    // Dropped in reverse order.
    stage.keep(disk);
    stage.keep(above);
    Ok(())
}

/// A file system mounted with `discard`, on which one process repeatedly removes every other of
/// many files while another reads. Changed since its first run, which had no discards: a loop
/// device on a loop device does not support them (`discard_max_bytes` is 0).
fn unlinks_discard(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(512)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let data = fio::prepare(&disk.path().join(stage.dice.name()), 64 * MIB)?;
    command::run("mount", [Path::new("-oremount,discard"), disk.path()])?;
    let reader = Job::new(&data, Engine::Psync, FioAccess::RandomRead, 4 * KIB)
        .direct()
        .with("size", (64 * MIB).to_string())
        .with("rate_iops", "300");
    stage.fio(reader)?;
    let files = stage.dice.between(300, 500);
    let program =
        given(include_str!("../../../../programs/unlinks_discard.py"), &[("files", &files)]);
    stage.python(&program, &[disk.path()])?;
    stage.expected = Expected::fix(&["fstrim"]).on(&name);
    stage.keep(disk);
    Ok(())
}

/// A low-priority reader on a CPU that other processes keep busy.
fn nice_reader(stage: &mut LabStage) -> Result<()> {
    let device = stage.fast(256)?;
    let job = Job::new(device.path(), Engine::Psync, FioAccess::RandomRead, 8 * KIB)
        .direct()
        .with("size", (200 * MIB).to_string())
        .with("cpus_allowed", "0")
        .with("nice", "19");
    stage.fio(job)?;
    for _ in 0..stage.dice.between(3, 4) {
        let mut busy = Command::new("taskset");
        busy.args(["-c", "0", "/bin/sh", "-c", "while :; do :; done"]);
        stage.start(busy)?;
    }
    stage.expected = Expected::fix(&["cpu"]).on(device.name()).by("fio");
    stage.keep(device);
    Ok(())
}

/// A buffered reader of a loop device that reads its backing file through the page cache.
fn two_caches(stage: &mut LabStage) -> Result<()> {
    let (device, hidden) = stage.hidden(640)?;
    let name = device.name().to_owned();
    let disk = stage.mounted(device, FileSystemKind::Xfs)?;
    let above = crate::devices::LoopDevice::inside(&stage.scratch, disk.path(), 256 * MIB)?;
    let node = above.path().to_owned();
    fill(&node)?;
    command::run("losetup", [Path::new("--direct-io=off"), &node])?;
    hidden.limit("read_bps", stage.dice.between(25, 45) * MIB)?;
    let memory = LabCgroup::memory(&stage.scratch, stage.dice.between(48, 72) * MIB)?;
    let mut reader = Command::new("/bin/sh");
    reader.args(["-c", "while :; do cat \"$1\" >/dev/null; done", "sh"]).arg(&node);
    stage.start(memory.inside(&reader))?;
    stage.watched = format!("{} {name}", above.name());
    stage.expected = Expected::fix(&["direct-io"]).on(above.name()).by("cat");
    stage.keep(memory);
    stage.keep(hidden);
    stage.keep(disk);
    stage.keep(above);
    Ok(())
}

/// Writes the whole device with direct I/O.
fn fill(node: &Path) -> Result<()> {
    let mut output = PathBuf::from("of=").into_os_string();
    output.push(node);
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=1M", "count=256", "oflag=direct", "status=none"]).arg(output);
    command::output_of(dd).map(drop)
}
