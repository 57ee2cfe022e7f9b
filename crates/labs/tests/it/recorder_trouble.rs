//! The flight recorder in trouble: a full disk, a state directory on a disk that hangs, a power
//! cut, devices that come and go, hostile names, files of an older run; and its hook and readers.

use crate::recorder_host::{TestDaemon, read};
use crate::support::{finish, printed, trial};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine, process};
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("recorder_trouble::a_signal_is_an_incident", signal),
        trial("recorder_trouble::the_hook_runs_as_another_user", hook),
        trial("recorder_trouble::a_full_disk", full),
        trial("recorder_trouble::its_own_disk_hangs", sick),
        trial("recorder_trouble::a_power_cut_right_after_its_line", power_cut),
        trial("recorder_trouble::nobody_else_reads_or_reaches_it", private),
        trial("recorder_trouble::a_thread_that_waits_is_an_incident", hung_task),
        trial("recorder_trouble::devices_come_and_go", devices),
        trial("recorder_trouble::what_an_older_one_left", older),
        trial("recorder_trouble::hostile_names", hostile),
    ]
}

fn signal() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    let disk = daemon.disk.name().to_owned();
    daemon.start(&[&disk], "")?;
    daemon.read_disk()?;
    daemon.signal(Signal::USR1);
    let incident = daemon.wait_for_incident(1);
    assert_eq!(incident["triggers"][0]["kind"], "signal", "{incident:#}");
    let report = daemon.directory(1);
    let mut show = crate::support::iowhy(["report", "--json"])?;
    show.arg(&report);
    let shown = finish(show)?;
    assert!(shown.status.success(), "{}", printed(&shown));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    assert!(shown["watch"]["requests"].as_u64() >= Some(100), "{}", shown["watch"]);
    Ok(())
}

fn hook() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    let disk = daemon.disk.name().to_owned();
    // A directory that everybody may read and write: the scratch directory is for root.
    let folder = tempfile::tempdir().context(|| "make a directory".to_owned())?;
    let (program, told) = (folder.path().join("hook"), folder.path().join("told"));
    let script = format!(
        "#!/bin/sh\necho \"$(id -un) $IOWHY_EVENT $IOWHY_INCIDENT $# $1\" >> {}\n",
        told.display()
    );
    let everybody = |mode| std::fs::Permissions::from_mode(mode);
    let written = std::fs::write(&program, script)
        .and_then(|()| std::fs::set_permissions(&program, everybody(0o755)))
        .and_then(|()| std::fs::set_permissions(folder.path(), everybody(0o777)));
    written.context(|| "write the hook".to_owned())?;
    daemon.start(&[&disk], &format!("[hook]\nprogram = {program:?}\nuser = \"nobody\"\n"))?;
    daemon.printed(&["capture", "a test"])?;
    let lines = || std::fs::read_to_string(&told).unwrap_or_default();
    daemon.wait_for("two runs of the hook", || lines().lines().count() == 2);
    let directory = daemon.directory(1);
    let directory = directory.display();
    let wanted = format!("nobody begin 1 1 {directory}\nnobody end 1 1 {directory}\n");
    assert_eq!(lines(), wanted, "{}", daemon.log());
    Ok(())
}

/// A file system of the test's own for the state directory.
fn small_disk(scratch: &std::sync::Arc<Scratch>, mib: u64) -> Result<LabFileSystem> {
    let disk = LoopDevice::new(scratch, Backing::Tmpfs, mib * MIB)?;
    LabFileSystem::new(scratch, disk, FileSystemKind::Ext4)
}

/// A full disk is reported once and tried again; the incident is written once there is space.
fn full() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let small = small_disk(&scratch, 16)?;
    let mut daemon = TestDaemon::new(Some(small.path().join("state")))?;
    let disk = daemon.disk.name().to_owned();
    daemon.start(&[&disk], "")?;
    let filler = small.path().join("filler");
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=4k", "status=none"]).arg(format!("of={}", filler.display()));
    assert!(printed(&finish(dd)?).contains("No space left"), "the disk is not full");
    daemon.read_disk()?;
    assert!(daemon.printed(&["capture", "full"])?.contains("incident 1"));
    daemon.wait_for("a message", || daemon.log().contains("No space left on device"));
    assert!(daemon.incident(1).is_none() && daemon.is_running());
    std::fs::remove_file(&filler).context(|| "make space".to_owned())?;
    let incident = daemon.wait_for_incident(1);
    assert_eq!(incident["triggers"][0]["sentence"], "full", "{incident:#}");
    let left = std::fs::read_dir(daemon.runtime.join("incidents"));
    let left = left.map_or(0, |entries| entries.count());
    assert_eq!(left, 0, "what is on disk is still in memory");
    Ok(())
}

/// The state directory is on a disk that hangs: the daemon answers, records and goes on, and both
/// incidents are on disk once it completes requests again.
fn sick() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let own = small_disk(&scratch, 64)?;
    let mut daemon = TestDaemon::new(Some(own.path().join("state")))?;
    let disk = daemon.disk.name().to_owned();
    daemon.start(&[&disk], "")?;
    let frozen = own.freeze()?;
    for number in [1, 2] {
        daemon.read_disk()?;
        let asked = Instant::now();
        let answer = daemon.printed(&["capture", "its own disk hangs"])?;
        assert!(answer.contains(&format!("incident {number}")), "{answer}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        let pending = daemon.runtime.join(format!("incidents/{number:06}/incident.json"));
        daemon.wait_for("a complete incident in memory", || {
            std::fs::read_to_string(&pending).is_ok_and(|text| text.contains("\"complete\": true"))
        });
    }
    // It still reads the kernel: the ring grows.
    let ring = |daemon: &TestDaemon| {
        let listed = command::output_of({
            let mut find = Command::new("find");
            find.arg(daemon.runtime.join("ring")).args(["-name", "*.parquet"]);
            find
        });
        listed.map(|text| text.lines().count())
    };
    let before = ring(&daemon)?;
    daemon.read_disk()?;
    daemon.wait_for("another round", || ring(&daemon).is_ok_and(|count| count > before));
    drop(frozen);
    for number in [1, 2] {
        daemon.wait_for_incident(number);
    }
    assert!(daemon.is_running());
    Ok(())
}

/// A power cut leaves only the data on the disk when the incident is reported as complete: its file
/// system writes nothing by itself for ten minutes.
fn power_cut() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let disk = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let image = disk.file().to_owned();
    let own = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
    let mut daemon = TestDaemon::new(Some(own.path().join("state")))?;
    let watched = daemon.disk.name().to_owned();
    daemon.start(&[&watched], "")?;
    daemon.read_disk()?;
    daemon.printed(&["capture", "a power cut"])?;
    daemon.wait_for("its line", || daemon.log().contains("incident 1 is complete"));
    let (copy, point) = (scratch.memory()?.join("image"), scratch.fresh("afterwards"));
    std::fs::copy(&image, &copy).context(|| "copy the disk".to_owned())?;
    std::fs::create_dir(&point).context(|| "make a directory".to_owned())?;
    command::run("mount", ["-o".as_ref(), "loop".as_ref(), copy.as_path(), point.as_path()])?;
    let incident = point.join("state/incidents/000001");
    let text = std::fs::read_to_string(incident.join("incident.json")).unwrap_or_default();
    let mut report = crate::support::iowhy(["report", "--json"])?;
    report.arg(&incident);
    let report = finish(report)?;
    let files = command::run("find", [&incident]).unwrap_or_default();
    // Also after a failure.
    command::run("umount", [&point])?;
    assert!(text.contains("\"complete\": true"), "{text}\n{files}");
    assert!(files.contains("findings.json"), "{files}");
    assert!(report.status.success(), "{}\n{files}", printed(&report));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap_or_default();
    assert!(report["watch"]["requests"].as_u64() >= Some(100), "{}", report["watch"]);
    Ok(())
}

/// Nobody else can read its files, and it listens on no network unless it is configured to.
fn private() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    let disk = daemon.disk.name().to_owned();
    daemon.start(&[&disk], "")?;
    daemon.read_disk()?;
    daemon.printed(&["capture", "a test"])?;
    daemon.wait_for_incident(1);
    // Files in memory are below a closed directory; kept files may be copied, so each of them is
    // closed, too.
    let mut find = Command::new("find");
    find.arg(&daemon.state).args(["-perm", "/007"]);
    let open = command::output_of(find)?;
    assert!(open.is_empty(), "readable for others: {open}");
    let mode =
        std::fs::metadata(&daemon.runtime).map_or(0o777, |metadata| metadata.permissions().mode());
    assert_eq!(mode & 0o007, 0, "{mode:o}");
    let listening = daemon.network_sockets();
    assert!(listening.is_empty(), "{listening:?}");
    drop(daemon);
    let mut daemon = TestDaemon::new(None)?;
    let disk = daemon.disk.name().to_owned();
    // The kernel chooses a free port.
    daemon.start(&[&disk], "[metrics]\nlisten = \"127.0.0.1:0\"\n")?;
    let listening = daemon.network_sockets();
    assert!(listening.len() == 1 && listening[0].contains(" 0100007F:"), "{listening:?}");
    Ok(())
}

/// A program that waits in fsync for a frozen file system is a condition.
fn hung_task() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let below = small_disk(&scratch, 64)?;
    let disk = LoopDevice::inside_as(Backing::File, &scratch, below.path(), 16 * MIB)?;
    let upper = LabFileSystem::new(&scratch, disk, FileSystemKind::Ext4)?;
    let mut daemon = TestDaemon::new(None)?;
    let name = upper.device().name().to_owned();
    daemon.start_with_limit(&[&name], "3s", "")?;
    let script = "open F, '>>', $ARGV[0] or die; for (;;) { syswrite F, 'x' x 4096; \
                  F->sync; select undef, undef, undef, 0.02 }";
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-MIO::Handle", "-e", script]).arg(upper.path().join("orders"));
    let mut writer = perl.spawn().context(|| "start perl".to_owned())?;
    std::thread::sleep(Duration::from_secs(1));
    let frozen = below.freeze()?;
    let in_memory = daemon.runtime.join("incidents/000001/incident.json");
    daemon.wait_for("an incident", || in_memory.exists() || daemon.directory(1).exists());
    drop(frozen);
    process::end(&mut writer);
    process::wait_or_kill(&mut writer, Duration::from_secs(20));
    let incident = daemon.wait_for_incident(1);
    assert_eq!(incident["triggers"][0]["kind"], "hung-task", "{incident:#}");
    let sentence = incident["triggers"][0]["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("perl ("), "{sentence}");
    Ok(())
}

/// Disks appear, are read and go, while all are watched.
fn devices() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    daemon.start(&[], "")?;
    let mut names = Vec::new();
    for _ in 0..5 {
        let disk = LoopDevice::new(&daemon.scratch, Backing::Tmpfs, 16 * MIB)?;
        read(disk.path())?;
        names.push(disk.name().to_owned());
    }
    assert!(daemon.is_running(), "{}", daemon.log());
    daemon.printed(&["capture", "devices"])?;
    daemon.wait_for_incident(1);
    let mut show = crate::support::iowhy(["report", "--json"])?;
    show.arg(daemon.directory(1));
    let shown = finish(show)?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let devices = shown["devices"].as_array().cloned().unwrap_or_default();
    for name in &names {
        assert!(devices.iter().any(|device| device["device"] == **name), "{name}: {devices:#?}");
    }
    Ok(())
}

/// Incidents and history of other versions stay as they are, and numbers go on.
fn older() -> Result<()> {
    let mut daemon = TestDaemon::new(None)?;
    let disk = daemon.disk.name().to_owned();
    let old = daemon.directory(41);
    let history = daemon.state.join("history");
    let made = std::fs::create_dir_all(&old).and_then(|()| std::fs::create_dir_all(&history));
    let written = made
        .and_then(|()| std::fs::write(old.join("incident.json"), r#"{"number": 41}"#))
        .and_then(|()| std::fs::create_dir_all(daemon.directory(42)))
        .and_then(|()| {
            let newer = r#"{"format": 99, "number": 42, "shape": "unknown"}"#;
            std::fs::write(daemon.directory(42).join("incident.json"), newer)
        })
        .and_then(|()| std::fs::write(history.join("2020-01-01.jsonl"), "{\"time_s\": 5}\n"));
    written.context(|| "write what an older one left".to_owned())?;
    daemon.start(&[&disk], "")?;
    let answer = daemon.printed(&["capture", "after an upgrade"])?;
    assert!(answer.contains("incident 43"), "{answer}");
    daemon.wait_for_incident(43);
    let list = daemon.printed(&["incidents"])?;
    assert!(list.contains(" 41 ") && list.contains(" 43 "), "{list}");
    assert!(list.contains("1 more cannot be read"), "{list}");
    let printed = daemon.printed(&["incidents", "show", "42"])?;
    assert!(printed.contains("its format is 99"), "{printed}");
    assert!(history.join("2020-01-01.jsonl").exists());
    Ok(())
}

/// A process and a file whose names could break a terminal, a page, a query or a parser.
fn hostile() -> Result<()> {
    const NAME: &str = "x\u{1b}[2J\"<b>\n";
    let mut daemon = TestDaemon::new(None)?;
    let disk = LoopDevice::new(&daemon.scratch, Backing::Tmpfs, 64 * MIB)?;
    let disk = LabFileSystem::new(&daemon.scratch, disk, FileSystemKind::Ext4)?;
    let textfile = daemon.scratch.path().join("iowhy.prom");
    let device = disk.device().name().to_owned();
    let settings = format!("[metrics]\ntextfile = {textfile:?}\n");
    daemon.start(&[&device], &settings)?;
    let file = disk.path().join("a\u{1b}[2J\"'<img src=x>\u{202e}\nb");
    let script = "$0 = $ARGV[1]; open F, '>>', $ARGV[0] or die; for (1 .. 1500) { \
                  syswrite F, 'x' x 65536; F->sync; select undef, undef, undef, 0.01 }";
    let mut perl = Command::new(command::find("perl")?);
    perl.args(["-MIO::Handle", "-e", script]).arg(&file).arg(NAME).stdin(Stdio::null());
    let mut writer = perl.spawn().context(|| "start perl".to_owned())?;
    daemon.wait_for("figures", || textfile.exists());
    daemon.printed(&["capture", NAME])?;
    let incident = daemon.wait_for_incident(1);
    process::end(&mut writer);
    process::wait_or_kill(&mut writer, Duration::from_secs(20));
    let harmless = |what: &str, text: &str| {
        let is_hostile = |character: char| {
            (character.is_control() && character != '\n') || character == '\u{202e}'
        };
        assert!(!text.is_empty() && !text.contains(is_hostile), "{what}: {text:?}");
    };
    harmless("the log", &daemon.log());
    harmless("metrics", &std::fs::read_to_string(&textfile).unwrap_or_default());
    harmless("the list", &daemon.printed(&["incidents"])?);
    harmless("an incident", &daemon.printed(&["incidents", "show", "1"])?);
    let mut report = crate::support::iowhy(["report", "--full"])?;
    report.arg(daemon.directory(1));
    let report = printed(&finish(report)?);
    harmless("a report", &report);
    assert!(report.contains("img src=x"), "the file is not there: {report}");
    let page = daemon.directory(1).join("report.html");
    if let Ok(page) = std::fs::read_to_string(page) {
        assert!(!page.contains("<img src=x") && !page.contains('\u{202e}'), "the page has markup");
    }
    assert!(incident["findings"].is_array(), "{incident:#}");
    Ok(())
}
