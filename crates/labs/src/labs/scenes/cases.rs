//! The five investigations that iowhy is made for, except those that are listed with their cause.

use super::*;
use crate::LabError;
use crate::error::Context;
use std::path::PathBuf;
use std::time::Duration;

/// The labs. iostat must show the symptom that the document begins with.
pub const LABS: &[Lab] = &[
    Lab::cause("case-word-counter", &["temp-file-churn"], |stage| word_counter(stage, true))
        .showing(&[("w_await", 1000.0), ("util", 95.0)]),
    Lab::near("temp-file-churn-near", &["temp-file-churn"], |stage| word_counter(stage, false)),
    Lab::cause("case-stat-storm", &["metadata-scan"], |stage| stat_storm(stage, true))
        .showing(&[("r/s", 50.0), ("util", 80.0)]),
    Lab::cause("case-stat-storm-no-frames", &["metadata-scan"], |stage| stat_storm(stage, false))
        .showing(&[("r/s", 50.0), ("util", 80.0)]),
    Lab::cause("case-suspicious-drive", &["device-slow-tail"], suspicious_drive)
        .showing(&[("r_await", 1.2 * HEALTHY_MS as f64)]),
    Lab::cause("case-phantom-reads", &["readahead-waste"], caching::phantom_reads)
        .showing(&[("r/s", 50.0), ("rkB/s", 5000.0)]),
    Lab::cause("case-snapshot", &["lock-behind-io"], snapshot).showing(&[("w_await", 100.0)]),
];

/// The latency of a healthy drive's read in the document of the suspicious one, milliseconds.
const HEALTHY_MS: u64 = 6;

/// A web application that answers each request with a thousand small files, written, read back and
/// removed; or that keeps them.
fn word_counter(stage: &mut LabStage, removes: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(900)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let rate = stage.dice.between(900, 1200) << 10;
    hidden.limit("write_bps", rate)?;
    // The document's kernel did not throttle writes in favour of reads.
    stage.set(disk.device(), "wbt_lat_usec", "0")?;
    let bdi = PathBuf::from(format!("/sys/dev/block/{}/bdi", disk.device().number()?));
    // Stands for the memory of the document's machine: this much may be dirty, the rest must be
    // written. Restoring a limit in bytes may fail, because memory has changed by then.
    stage.set_file(bdi.join("max_ratio"), "100")?;
    stage.set_file(bdi.join("strict_limit"), "1")?;
    let dirty = stage.dice.between(14, 18) * MIB;
    stage.set_file(bdi.join("max_bytes"), &dirty.to_string())?;
    let port = stage.dice.between(20_000, 40_000);
    let files = stage.dice.between(200, 250);
    // The files of two users exceed the dirty limit and are removed within a watch: the document's
    // minutes, scaled.
    let bytes = (dirty + 2 * rate) / (2 * files);
    let program = given(
        include_str!("../../../programs/word_counter.py"),
        &[("keep", &u8::from(!removes)), ("files", &files), ("bytes", &bytes), ("port", &port)],
    );
    need_flask()?;
    stage.python(&program, &[disk.path()])?;
    wait_until("the web application listens", || is_served(port))?;
    let ask = given(include_str!("../../../programs/word_counter_ask.py"), &[("port", &port)]);
    // Two users send requests concurrently.
    stage.python(&ask, &[])?;
    stage.python(&ask, &[])?;
    std::thread::sleep(Duration::from_secs(3));
    stage.keep(disk);
    Ok(())
}

fn need_flask() -> Result<()> {
    let hint = "run `scripts/python-env`, which sets up a Python with Flask, and put the folder \
                that it prints first in PATH";
    crate::command::output_of(crate::labs::stage::python("import flask", &[])?)
        .map(drop)
        .map_err(|_not_there| LabError::missing("Flask in its python3", hint))
}

/// A monitor of disk usage.
const MONITOR: &str = include_str!("../../../programs/monitor.java");

fn stat_storm(stage: &mut LabStage, frames: bool) -> Result<()> {
    let (device, hidden) = stage.hidden(768)?;
    let disk = stage.mounted(device, FileSystemKind::Ext4)?;
    let make = include_str!("../../../programs/stat_storm_make.py");
    script(make, disk.path())?;
    let source = stage.scratch.path().join("DiskUsageMonitor.java");
    std::fs::write(&source, MONITOR).context(|| "write the monitor".to_owned())?;
    crate::command::run("javac", ["-d".as_ref(), stage.scratch.path(), &source])?;
    let small = stage.scratch.fresh("warm");
    std::fs::create_dir_all(small.join("a")).context(|| "make a small tree".to_owned())?;
    let flags =
        if frames { "-XX:+PreserveFramePointer -XX:-Inline" } else { "-XX:-PreserveFramePointer" };
    // Its symbol map is written when it is warm; then it starts.
    let script = format!(
        "mkfifo \"$1/go\"; java {flags} -cp \"$1\" DiskUsageMonitor \"$2\" \"$3\" <\"$1/go\" & \
         pid=$!; exec 3>\"$1/go\"; sleep 5; {} echo >&3; wait $pid",
        if frames { "jcmd $pid Compiler.perfmap;" } else { "" },
    );
    let folder = stage.scratch.path().to_owned();
    // Before it starts: it keeps the folders open that it reads.
    disk.remount()?;
    stage.set_file(
        format!("/sys/fs/ext4/{}/inode_readahead_blks", disk.device().name()).into(),
        "1",
    )?;
    stage.shell(&script, &[&folder, disk.path(), &small])?;
    std::thread::sleep(Duration::from_secs(5));
    stage.uneven(&hidden, 60, 110);
    std::thread::sleep(Duration::from_secs(3));
    stage.keep(disk);
    Ok(())
}

/// Two drives under the same load; one has rare, long outliers.
fn suspicious_drive(stage: &mut LabStage) -> Result<()> {
    let healthy = Duration::from_millis(HEALTHY_MS);
    let (sibling, hand) = stage.hidden(256)?;
    let (drive, sick) = stage.hidden(256)?;
    let depth = stage.dice.between(3, 5);
    for device in [&sibling, &drive] {
        let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 16_384)
            .direct()
            .with("size", (200 * MIB).to_string())
            .with("iodepth", depth.to_string());
        stage.fio(job)?;
    }
    stage.uneven_latency(&hand, healthy);
    stage.uneven_latency(&sick, healthy);
    stage.watched = format!("{} {}", drive.name(), sibling.name());
    let mut dice = stage.dice.clone();
    stage.again(1500, move || {
        let stall = dice.between(500, 1150);
        sick.stall(Duration::from_millis(stall));
        stall + dice.between(1200, 2200)
    });
    stage.keep(sibling);
    stage.keep(drive);
    Ok(())
}

/// A database snapshot, concurrently with a monitor that writes a burst to another volume every
/// second.
fn snapshot(stage: &mut LabStage) -> Result<()> {
    let other = stage.fast(128)?;
    let beside = other.name().to_owned();
    let program = include_str!("../../../programs/snapshot.py");
    stage.python(program, &[other.path()])?;
    stage.keep(other);
    journals::lock(stage, true)?;
    stage.watched = format!("{} {beside}", stage.watched);
    Ok(())
}
