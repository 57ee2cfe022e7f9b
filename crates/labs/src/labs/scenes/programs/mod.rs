//! Real programs from Debian's packages, each sick in a documented way, and a healthy twin of each.
//!
//! | where | what |
//! |---|---|
//! | [`postgres`] | PostgreSQL: commits, checkpoint, spill, scan, vacuum |
//! | [`databases`] | other servers: MariaDB, etcd, Redis, Prometheus |
//! | [`embedded`] | databases within a program: SQLite, RocksDB |
//! | [`languages`] | what runs in a JVM or in Go's runtime |
//! | [`system`] | git, dpkg, rsync, rsyslogd, updatedb |
//!
//! Each program has its files on the lab's own device, speaks on a socket of that device or on
//! 127.0.0.1, and is ended with the lab. The packages' own servers are left alone.
//!
//! What does not belong here: recognising a program, and the advice for it (crate
//! `iowhy-diagnosis`).

use super::*;
use crate::command;
use crate::devices::{DeviceSpeed, Hand, LabFileSystem};
use crate::error::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

pub mod databases;
pub mod embedded;
pub mod languages;
pub mod postgres;
pub mod system;

/// Correct causes of any trouble with syncs.
const SYNCS: &[&str] = &["slow-sync", "flush-cost", "fsync-heavy"];
/// Correct causes of reads that one program takes from another.
const READS: &[&str] =
    &["bulk-scan", "noisy-neighbour", "slow-reads", "device-saturated", "page-cache-thrash"];
/// Correct causes of a device that writes saturate.
const WRITES: &[&str] = &[
    "device-saturated",
    "dirty-throttle",
    "slow-writes",
    "slow-sync",
    "writeback-burst",
    "sync-storm",
    "flush-cost",
    "checkpoint-burst",
];

/// The cache flush time of a healthy flash drive, microseconds.
const QUICK_FLUSH_US: u64 = 200;
/// The latency of a flash drive's request.
const LATENCY: Duration = Duration::from_micros(150);

/// Returns the speed of a flash drive with this cache flush time.
fn flushing_in(microseconds: u64) -> DeviceSpeed {
    let flush = Duration::from_micros(microseconds);
    DeviceSpeed {
        latency: LATENCY,
        flush,
        write_bps: 300 * MIB,
        read_bps: 300 * MIB,
        ..DeviceSpeed::default()
    }
}

/// A drive of so many MiB a second, more or less.
fn paced_at(mib: u64) -> DeviceSpeed {
    let bps = mib * MIB;
    let flush = Duration::from_micros(1500);
    let drive = DeviceSpeed { uneven_percent: 15, ..DeviceSpeed::default() };
    DeviceSpeed { latency: LATENCY, flush, write_bps: bps, read_bps: bps, ..drive }
}

/// Makes a file system on a device whose speed the handle changes: as fast as memory until then.
fn disk(stage: &mut LabStage, mib: u64, kind: FileSystemKind) -> Result<(LabFileSystem, Hand)> {
    let (device, hand) = stage.hidden(mib)?;
    Ok((stage.mounted(device, kind)?, hand))
}

/// Makes a folder on a file system, owned by `user` if it is given, else by root.
fn folder(stage: &LabStage, disk: &LabFileSystem, user: Option<&str>) -> Result<PathBuf> {
    let folder = disk.path().join("data");
    std::fs::create_dir(&folder).context(|| format!("make {}", folder.display()))?;
    if let Some(user) = user {
        stage.scratch.let_pass()?;
        let owner = format!("{user}:");
        command::run("chown", [Path::new(&owner), &folder])?;
        command::run("chmod", [Path::new("700"), &folder])?;
    }
    Ok(folder)
}

/// A program run by a user that its package has made.
fn as_user(user: &str, program: &Path) -> Result<Command> {
    if command::run("id", ["-u", user]).is_err() {
        return Err(LabError::missing(format!("the user {user}"), "scripts/install-deps programs"));
    }
    let mut setpriv = Command::new(command::find("setpriv")?);
    setpriv.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(program);
    // It does not use the home or working directory of others.
    setpriv.current_dir("/");
    Ok(setpriv)
}

/// A number that a load writes into a file after each operation.
fn number_in(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file).context(|| format!("read {}", file.display()))?;
    text.trim().parse().context(|| format!("read the number in {}", file.display()))
}
