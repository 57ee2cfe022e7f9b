//! `iowhy probe` only reads, and writes into a file of its own, which is removed however it ends.

use crate::support::{finish, iowhy, printed, refused, trial, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, LabCgroup, Limit, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::prepare;
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, process};
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("probe::reads_a_device", reads_a_device),
        trial("probe::reads_a_file", reads_a_file),
        trial("probe::writes_and_removes", writes_and_removes),
        trial("probe::depths_and_etcd", depths_and_etcd),
        trial("probe::names_limits", names_limits),
        trial("probe::interrupted", || ended_by(Signal::INT)),
        trial("probe::terminated", || ended_by(Signal::TERM)),
        trial("probe::hung_up", || ended_by(Signal::HUP)),
        trial("probe::refuses_what_it_may_not_write", refuses),
    ]
}

/// Runs the probe, and returns its tests, with the figures in its JSON.
fn probe(target: &Path, arguments: &[&str]) -> Result<Vec<serde_json::Value>> {
    command::find("fio")?;
    let mut probe = iowhy(["probe", "--json", "-t", "0.3"])?;
    probe.arg(target).args(arguments);
    let output = finish(probe)?;
    assert!(output.status.success(), "{}", printed(&output));
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).context(|| "read its JSON".to_owned())?;
    let tests = json["tests"].as_array().cloned().unwrap_or_default();
    for test in &tests {
        assert!(test["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{test}");
    }
    Ok(tests)
}

/// The kernel's own counters of the device grow by reads and not by writes.
fn reads_a_device() -> Result<()> {
    machine::need_root()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let before = DiskStats::for_device(device.name())?;
    assert_eq!(probe(device.path(), &[])?.len(), 3);
    let done = DiskStats::for_device(device.name())?.since(before);
    assert!(done.reads > 0, "{done:?}");
    assert_eq!((done.writes, done.discards, done.flushes), (0, 0, 0), "{done:?}");
    Ok(())
}

fn reads_a_file() -> Result<()> {
    let folder = tempfile::tempdir_in("/var/tmp").context(|| "make a folder".to_owned())?;
    let file = prepare(&folder.path().join("data"), 4 * MIB)?;
    let look = || {
        fs::metadata(&file).and_then(|metadata| metadata.modified()).context(|| "look".to_owned())
    };
    let (before, content) = (look()?, fs::read(&file).context(|| "read it".to_owned())?);
    assert_eq!(probe(&file, &[])?.len(), 3);
    assert_eq!(look()?, before, "it was not touched");
    assert!(fs::read(&file).context(|| "read it".to_owned())? == content, "nor changed");
    assert_eq!(entries(folder.path()), [file], "nothing was put beside it");
    Ok(())
}

fn writes_and_removes() -> Result<()> {
    let folder = tempfile::tempdir_in("/var/tmp").context(|| "make a folder".to_owned())?;
    assert_eq!(probe(folder.path(), &["--write"])?.len(), 6);
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
    // A file that is named is created, and removed; one that exists is refused (see below).
    let tests = probe(&folder.path().join("scratch"), &["--write"])?;
    let synced =
        tests.iter().find(|test| test["test"].as_str().is_some_and(|name| name.contains("sync")));
    assert!(synced.is_some_and(|synced| synced["p99_ns"].as_f64() > Some(0.0)), "{tests:?}");
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
    Ok(())
}

/// A cgroup's limit is named, and that the probe reached it.
fn names_limits() -> Result<()> {
    machine::need_root()?;
    command::find("fio")?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let group = LabCgroup::block(&scratch)?;
    group.limit(&device, Limit::ReadIops(200))?;
    let mut probe = iowhy(["probe", "--json", "-t", "2"])?;
    probe.arg(device.path());
    let output = finish(group.inside(&probe))?;
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).context(|| printed(&output))?;
    let limits = json["limits"].as_array().cloned().unwrap_or_default();
    let reads = limits.iter().find(|limit| limit["limit"].as_f64() == Some(200.0));
    let reads = reads.ok_or_else(|| LabError::failed("find the limit", format!("{json:#}")))?;
    assert_eq!(reads["reached"], true, "{json:#}");
    Ok(())
}

/// Growing depths only read; etcd's check writes a file of its own and measures its syncs.
fn depths_and_etcd() -> Result<()> {
    let folder = tempfile::tempdir_in("/var/tmp").context(|| "make a folder".to_owned())?;
    let tests = probe(folder.path(), &["--etcd"])?;
    assert!(tests.len() == 1 && tests[0]["p99_ns"].as_f64() > Some(0.0), "{tests:?}");
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
    let file = prepare(&folder.path().join("data"), 4 * MIB)?;
    assert_eq!(probe(&file, &["--sizes"])?.len(), 5);
    let depths = probe(&file, &["--depths"])?;
    assert_eq!(depths.len(), 7);
    assert_eq!(entries(folder.path()), [file]);
    Ok(())
}

/// For every signal that ends it while it writes, its file is removed, and fio ends.
fn ended_by(signal: Signal) -> Result<()> {
    command::find("fio")?;
    let folder = tempfile::tempdir_in("/var/tmp").context(|| "make a folder".to_owned())?;
    let mut probe = iowhy(["probe", "--write", "-t", "60"])?;
    probe.arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = probe.spawn().context(|| "start iowhy".to_owned())?;
    let filling = wait_until("its file", || {
        let grown = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() >= MIB);
        Ok(entries(folder.path()).iter().any(|own| entries(own).iter().any(grown)))
    });
    let fio: Vec<u32> = process::below(&[child.id()]);
    process::signal(&child, signal);
    let ended = wait_until("its end", || Ok(is_over(&mut child)));
    if ended.is_err() {
        process::signal(&child, Signal::KILL);
    }
    let output = child.wait_with_output().context(|| "wait for iowhy".to_owned())?;
    filling.and(ended)?;
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("interrupted") && !text.contains("panicked"), "{text}");
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new(), "{text}");
    let is_gone = || Ok(fio.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    wait_until("the end of fio", is_gone)
}

fn refuses() -> Result<()> {
    let folder = tempfile::tempdir().context(|| "make a folder".to_owned())?;
    let small = prepare(&folder.path().join("small"), 4096)?;
    let nothing = folder.path().join("nothing");
    for (target, arguments) in [
        (small.as_path(), &[][..]),
        (&small, &["--write"]),
        (folder.path(), &[]),
        (&nothing, &[]),
        (Path::new("/dev/null"), &[]),
    ] {
        let mut probe = iowhy(["probe"])?;
        probe.arg(target).args(arguments);
        let (_, text) = refused(probe)?;
        assert!(text.contains("hint: "), "{text}");
    }
    assert_eq!(entries(folder.path()), [small], "nothing was made or removed");
    Ok(())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_over(child: &mut Child) -> bool {
    child.try_wait().is_ok_and(|status| status.is_some())
}
