//! `cargo lab vm`: a command in a guest, for manual tests.

use super::{DiskLimits, Guest, GuestDisk, Kernel};
use crate::error::Context;
use crate::{LabError, Result, command};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `cargo lab vm` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct GuestSettings {
    /// Which kernel: 5.10, 6.1, 6.12, sid, or sid's version.
    kernel: String,
    /// Loads a module first (may be repeated).
    #[arg(long, short, value_name = "NAME")]
    module: Vec<String>,
    /// One more argument for the kernel (may be repeated).
    #[arg(long, short, value_name = "TEXT")]
    append: Vec<String>,
    /// An empty disk of so many MiB, /dev/disk/NAME in the guest, which may be held to so many I/Os
    /// a second from outside (may be repeated).
    #[arg(long, short, value_name = "NAME=MIB[@IOPS]", value_parser = disk)]
    disk: Vec<GuestDisk>,
    /// Puts a program with its libraries, or a file, at the same place in the guest (may be
    /// repeated).
    #[arg(long, short, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Copies what the command leaves in the guest's /out to this new folder.
    #[arg(long, short, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Memory, MiB.
    #[arg(long, default_value_t = 2048)]
    memory: u64,
    /// Kills the guest after so many seconds.
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// The command, run by bash; without one: what iowhy can see there.
    #[arg(last = true)]
    command: Vec<String>,
}

fn disk(text: &str) -> std::result::Result<GuestDisk, String> {
    let parsed = || {
        let (name, size) = text.split_once('=')?;
        let (mib, iops) = size.split_once('@').unwrap_or((size, "0"));
        Some((name, mib.parse::<u64>().ok()?, iops.parse().ok()?))
    };
    let (name, mib, iops) = parsed().ok_or("give NAME=MIB or NAME=MIB@IOPS")?;
    Ok(GuestDisk::memory(name, mib << 20).limited(DiskLimits::iops(iops)))
}

/// Runs it, and returns the command's exit code.
pub fn run(settings: &GuestSettings, say: &mut dyn FnMut(&str)) -> Result<ExitCode> {
    if let Some(out) = settings.out.as_ref().filter(|out| out.exists()) {
        return Err(LabError::failed(format!("make {}", out.display()), "it exists"));
    }
    let kernel = Kernel::fetch(&settings.kernel, say)?;
    let mut guest =
        Guest::new(kernel).memory(settings.memory).patience(Duration::from_secs(settings.patience));
    for module in &settings.module {
        guest = guest.module(module);
    }
    for argument in &settings.append {
        guest = guest.argument(argument);
    }
    for disk in &settings.disk {
        guest = guest.disk(disk.clone());
    }
    for file in &settings.file {
        let path = std::path::absolute(file).context(|| format!("find {}", file.display()))?;
        guest = guest.file(path.clone(), path);
    }
    let own = std::env::current_exe().context(|| "find this program".to_owned())?;
    guest = guest.file("/usr/bin/iowhy-labs", own);
    let words = match settings.command.as_slice() {
        [] => "uname -r; iowhy check".to_owned(),
        words => words.join(" "),
    };
    let begun = Instant::now();
    let outcome = guest.run_saying(&words, say)?;
    if let Some(out) = &settings.out {
        command::run("cp", [Path::new("-rT"), outcome.out(), out])?;
    }
    say(&format!("ended with {} after {:.1} s", outcome.status, begun.elapsed().as_secs_f64()));
    Ok(u8::try_from(outcome.status).map_or(ExitCode::FAILURE, ExitCode::from))
}
