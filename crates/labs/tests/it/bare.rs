//! Machines that hide something: a kernel without BTF, a container without /sys, no tracefs. iowhy
//! reports in one line what is missing and what still works, and ends with the right exit code.
//! Files are hidden in a mount namespace of the test.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};

/// The exit code if watching is impossible.
pub const NO_KERNEL: i32 = 69;
const READS: u64 = 31;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("bare::no_btf", no_btf),
        trial("bare::no_sys", no_sys),
        trial("bare::no_tracefs", no_tracefs),
    ]
}

/// Runs iowhy where `hide`, a script, has hidden something.
fn hidden(hide: &str, arguments: &[&str]) -> Result<Output> {
    machine::need_bpf()?;
    let own = iowhy(arguments)?;
    let mut unshare = Command::new(command::find("unshare")?);
    unshare.args(["--mount", "--propagation", "private", "/bin/sh", "-c"]);
    unshare.arg(format!("{hide} && exec \"$@\"")).arg("sh");
    unshare.arg(own.get_program()).args(own.get_args());
    finish(unshare)
}

/// An impossible watch: the exit code, and one line that says what is missing and what works.
fn refused(hide: &str, missing: &str, works: &str) -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let output = folder.path().join("recording");
    let record = ["record", "-t", "1", "-o", &output.to_string_lossy()];
    for arguments in [&record[..], &["-t", "1"], &["snoop", "-t", "1"], &["stat", "1", "1"]] {
        let result = hidden(hide, arguments)?;
        let text = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(NO_KERNEL), "{arguments:?}: {}", printed(&result));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("iowhy: ")).collect();
        assert!(
            matches!(lines[..], [line] if line.contains(missing) && line.contains(works)),
            "{arguments:?}: not one line with {missing:?} and {works:?}:\n{text}"
        );
        assert!(text.contains("hint: "), "{arguments:?}: no hint:\n{text}");
        assert!(!text.contains("libbpf: "), "{arguments:?}: words of a library:\n{text}");
    }
    assert!(!output.exists(), "a recording of nothing");
    let check = hidden(hide, &["check"])?;
    assert!(check.status.success() && !printed(&check).contains("panicked"), "{}", printed(&check));
    Ok(())
}

fn no_btf() -> Result<()> {
    let hide = "mount -t tmpfs iowhy-labs /sys/kernel/btf";
    refused(hide, "types from /sys/kernel/btf/vmlinux", "counters, recordings and captures")?;
    // The counters that still work are shown.
    let screen = hidden(hide, &["-t", "1"])?;
    let shown = String::from_utf8_lossy(&screen.stdout);
    assert!(shown.contains("DEVICES"), "{}", printed(&screen));
    let check = printed(&hidden(hide, &["check"])?);
    assert!(check.contains("no /sys/kernel/btf/vmlinux"), "{check}");
    Ok(())
}

fn no_sys() -> Result<()> {
    refused(
        "mount -t tmpfs iowhy-labs /sys",
        "/sys is not mounted",
        "recordings and captures can still be read",
    )
}

/// Nothing of tracefs or debugfs is needed: the watch is whole.
fn no_tracefs() -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 << 20)?;
    let job = Job::strided(device.path(), Engine::Psync, FioAccess::Read, READS, 4096);
    let fio = command::shown(&job.command(&scratch.fresh("fio.json"))?);
    let output = scratch.fresh("recording").display().to_string();
    let hide = "for point in /sys/kernel/debug /sys/kernel/tracing; do \
        [ ! -e $point ] || mount -t tmpfs iowhy-labs $point; done";
    let record = ["record", "-d", device.name(), "-o", &output, "--", "/bin/sh", "-c", &fio];
    let result = hidden(hide, &record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(Path::new(&output))?;
    recording.expect_count("reads", recording.requests.len(), READS);
    let limits = recording.environment.limits.join("; ");
    assert!(!limits.contains("tracefs"), "{limits}");
    Ok(())
}
