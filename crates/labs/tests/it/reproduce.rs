//! `iowhy reproduce`, the run of a reproduction and `iowhy verify`: the load is made again, nothing
//! but named places is written to, and everything is given back however it ends.

use crate::support::{finish, iowhy, printed, refused, trial, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, iowhy as built, machine, process};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// A name that must not be in a reproduction.
const SECRET: &str = "payroll";

pub fn tests() -> Vec<Trial> {
    vec![
        trial("reproduce::a_synced_log_is_made_again", synced_log),
        trial("reproduce::a_device_is_used_only_when_named_and_empty", device),
        trial("reproduce::refuses_places_with_data", refuses),
        trial("reproduce::an_interrupted_run_gives_everything_back", interrupted),
        trial("reproduce::the_next_run_cleans_up_after_a_kill", killed),
        trial("reproduce::verify_gives_settings_back", verify),
        trial("reproduce::bad_recordings_are_refused_or_noted", bad_recordings),
    ]
}

/// A disk with a file system, and a reproduction of a load on it.
struct Reproduced {
    scratch: Arc<Scratch>,
    disk: LabFileSystem,
    folder: PathBuf,
}

impl Reproduced {
    /// Records writes of 4 KiB, each of which is synced, and reproduces them.
    fn new(options: &[&str]) -> Result<Reproduced> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
        let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
        let file = disk.path().join(SECRET);
        fs::write(&file, vec![b'x'; MIB as usize]).context(|| "make a file".to_owned())?;
        let job = Job::new(&file, Engine::Psync, FioAccess::Write, 4096).timed(3);
        let job = job.with("fdatasync", "1").with("thinktime", "5000");
        let recording = scratch.fresh("recording");
        record(disk.device().name(), &recording, job.command(&scratch.fresh("fio.json"))?)?;
        let folder = scratch.fresh("reproduction");
        let mut write = iowhy(["reproduce"])?;
        write.args(options).arg(&recording).arg("-o").arg(&folder);
        succeeded(write)?;
        Ok(Reproduced { scratch, disk, folder })
    }

    fn empty(&self) -> Result<PathBuf> {
        let empty = self.disk.path().join("empty");
        fs::create_dir_all(&empty).context(|| format!("make {}", empty.display()))?;
        Ok(empty)
    }

    /// `run` in an empty directory of the same disk.
    fn run(&self) -> Result<Command> {
        let mut run = run(&self.folder)?;
        run.args(["--json", "-t", "2", "--on"]).arg(self.empty()?);
        Ok(run)
    }

    /// The directory is empty, no process of a run lives, and the scheduler is as before.
    fn nothing_is_left(&self, scheduler: &str) -> Result<()> {
        let left = entries(&self.empty()?);
        assert_eq!(left, [] as [PathBuf; 0]);
        let name = self.disk.device().name();
        assert_eq!(setting(name)?, scheduler);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        assert!(!mounts.contains("/run/iowhy-reproduce/"), "{mounts}");
        Ok(())
    }
}

fn setting(device: &str) -> Result<String> {
    let path = format!("/sys/block/{device}/queue/scheduler");
    fs::read_to_string(&path).context(|| format!("read {path}"))
}

fn record(device: &str, recording: &Path, load: Command) -> Result<()> {
    let mut record = iowhy(["record", "-d", device, "-o"])?;
    record.arg(recording).arg("--").arg(load.get_program()).args(load.get_args());
    succeeded(record).map(drop)
}

/// Runs it, and gives what it printed.
fn succeeded(command: Command) -> Result<String> {
    let shown = command::shown(&command);
    let output = finish(command)?;
    assert!(output.status.success(), "{shown}: {}", printed(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(folder: &Path) -> Result<Command> {
    let mut run = Command::new(folder.join("run"));
    run.env("IOWHY", built::binary()?).stdin(Stdio::null());
    Ok(run)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).context(|| format!("read {text}"))
}

/// The same writes and syncs come again, without the original's names.
fn synced_log() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    let mut texts = String::new();
    for part in ["", "jobs", "programs"] {
        for path in entries(&made.folder.join(part)).iter().filter(|path| path.is_file()) {
            texts.push_str(&fs::read_to_string(path).context(|| "read a file".to_owned())?);
        }
    }
    assert!(texts.contains("fdatasync=1"), "{texts}");
    assert!(texts.contains("bs=4096"), "{texts}");
    for name in [SECRET, "iowhy-labs", made.disk.device().name()] {
        assert!(!texts.contains(name), "{name} is in\n{texts}");
    }
    let answer = json(&succeeded(made.run()?)?)?;
    let rows = answer["fidelity"]["rows"].as_array().cloned().unwrap_or_default();
    let figure = |what: &str, which: &str| {
        let row = rows.iter().find(|row| row["what"] == what);
        row.and_then(|row| row[which].as_f64()).unwrap_or_default()
    };
    // A busy machine changes rates, not what is written and synced.
    assert!(figure("write requests", "now") > 0.0, "{answer:#}");
    let (was, is) = (figure("write size", "original"), figure("write size", "now"));
    assert!((is / was - 1.0).abs() < 0.5, "{was} and {is} bytes: {answer:#}");
    assert!(figure("flushes", "now") > 0.0, "{answer:#}");
    made.nothing_is_left(&before)?;
    assert!(made.folder.join("run-1/recording.json").is_file());
    Ok(())
}

/// The device itself: never with data, unless that is named, and never while it is mounted.
fn device() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 128 * MIB)?;
    let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4096).direct();
    let job = job.with("iodepth", "4").with("rate_iops", "500").with("size", "64m").timed(3);
    let recording = scratch.fresh("recording");
    record(device.name(), &recording, job.command(&scratch.fresh("fio.json"))?)?;
    let folder = scratch.fresh("reproduction");
    let mut write = iowhy(["reproduce", "-o"])?;
    write.arg(&folder).arg(&recording);
    succeeded(write)?;
    let on_device = |more: &[&str]| -> Result<Command> {
        let mut run = run(&folder)?;
        run.args(["--json", "-t", "1", "--on-device"]).arg(device.path()).args(more);
        Ok(run)
    };
    std::os::unix::fs::FileExt::write_all_at(
        &fs::OpenOptions::new().write(true).open(device.path()).context(|| "open".to_owned())?,
        b"precious",
        0,
    )
    .context(|| "write to the device".to_owned())?;
    let (_, text) = refused(on_device(&[])?)?;
    assert!(text.contains("it is not empty") && text.contains("--destroy"), "{text}");
    let (_, text) = refused(on_device(&["--destroy", "another"])?)?;
    assert!(text.contains("it is not empty"), "{text}");
    let first = fs::read(device.file()).context(|| "read the device".to_owned())?;
    assert!(first.starts_with(b"precious"), "what was refused was not touched");
    succeeded(on_device(&["--destroy", device.name()])?)?;
    // It has the mark of a reproduction now, so that it counts as empty.
    let answer = json(&succeeded(on_device(&[])?)?)?;
    assert_eq!(answer["fidelity"]["findings"].as_array().map(Vec::len), Some(2), "{answer:#}");
    Ok(())
}

fn refuses() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let refusal = |arguments: &[&Path]| -> Result<String> {
        let mut run = run(&made.folder)?;
        run.args(arguments);
        Ok(refused(run)?.1)
    };
    let on = Path::new("--on");
    let text = refusal(&[on, made.disk.path()])?;
    assert!(text.contains("it is not empty") && text.contains(SECRET), "{text}");
    let mounted = made.disk.device().path();
    for destroy in [&[][..], &[Path::new("--destroy"), Path::new(made.disk.device().name())]] {
        let arguments = [&[Path::new("--on-device"), mounted], destroy].concat();
        let text = refusal(&arguments)?;
        assert!(text.contains("is mounted"), "{text}");
    }
    let memory = tempfile::tempdir_in("/dev/shm").context(|| "make a folder".to_owned())?;
    let text = refusal(&[on, memory.path()])?;
    assert!(text.contains("has no disk"), "{text}");
    let text = refusal(&[])?;
    assert!(text.contains("no place is named"), "{text}");
    assert_eq!(fs::read(made.disk.path().join(SECRET)).map(|it| it.len() as u64).ok(), Some(MIB));
    Ok(())
}

/// Starts a run and waits until it has made its directory.
fn started(made: &Reproduced) -> Result<Child> {
    let mut run = run(&made.folder)?;
    run.args(["-t", "60", "--on"]).arg(made.empty()?);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.context(|| "start the run".to_owned())?;
    let empty = made.empty()?;
    wait_until("the load", || {
        if child.try_wait().is_ok_and(|it| it.is_some()) {
            return Err(LabError::failed("run", "it ended before it was asked to"));
        }
        Ok(entries(&empty).iter().any(|path| entries(path).len() > 1)
            && process::below(&[child.id()]).len() > 1)
    })?;
    Ok(child)
}

fn interrupted() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    let mut child = started(&made)?;
    let load = process::below(&[child.id()]);
    process::signal(&child, Signal::TERM);
    wait_until("its end", || Ok(child.try_wait().is_ok_and(|it| it.is_some())))?;
    let output = child.wait_with_output().context(|| "wait for it".to_owned())?;
    assert!(!output.status.success() && !printed(&output).contains("panicked"));
    wait_until("the end of the load", || Ok(load.iter().all(|pid| is_gone(*pid))))?;
    made.nothing_is_left(&before)
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Killed while it runs on another scheduler: the next run ends the load, removes the files and
/// gives the scheduler back, although it is refused itself.
fn killed() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let name = made.disk.device().name().to_owned();
    let before = setting(&name)?;
    // The original's scheduler, which the run sets.
    fs::write(format!("/sys/block/{name}/queue/scheduler"), "mq-deadline")
        .context(|| "set the scheduler".to_owned())?;
    let other = setting(&name)?;
    let mut child = started(&made)?;
    assert_eq!(setting(&name)?, before, "the run has set the original's scheduler");
    let load = process::below(&[child.id()]);
    process::signal(&child, Signal::KILL);
    let _killed = child.wait();
    let mut next = run(&made.folder)?;
    next.arg("--on").arg(made.disk.path());
    let (_, text) = refused(next)?;
    assert!(text.contains("not empty"), "{text}");
    wait_until("the end of the load", || Ok(load.iter().all(|pid| is_gone(*pid))))?;
    made.nothing_is_left(&other)
}

fn verify() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    let mut verify = iowhy(["verify", "--json", "--rounds", "2", "-t", "1"])?;
    verify.args(["--with", "scheduler=mq-deadline", "--on"]).arg(made.empty()?).arg(&made.folder);
    let answer = json(&succeeded(verify)?)?;
    for kind in ["without", "with"] {
        assert_eq!(answer[kind].as_array().map(Vec::len), Some(2), "{answer:#}");
    }
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    let writes = rows.iter().find(|row| row["what"] == "writes");
    let writes = writes.map(|row| &row["compared"]["interval"]);
    assert_eq!(writes.and_then(Value::as_array).map(Vec::len), Some(2), "{answer:#}");
    made.nothing_is_left(&before)?;
    let mark = made.scratch.fresh("mark");
    let mut verify = iowhy(["verify", "--json", "--rounds", "2", "-t", "1"])?;
    verify.arg("--with-command").arg(format!("touch {}", mark.display()));
    verify.arg("--undo-command").arg(format!("rm -f {}", mark.display()));
    verify.arg("--on").arg(made.empty()?).arg(&made.folder);
    succeeded(verify)?;
    assert!(!mark.exists(), "the command was undone");
    let mut wrong = iowhy(["verify", "--with", "kernel.panic=1", "--on"])?;
    wrong.arg(made.empty()?).arg(&made.folder);
    let (_, text) = refused(wrong)?;
    assert!(text.contains("--with-command"), "{text}");
    made.nothing_is_left(&before)
}

/// A recording without I/O is refused; one without calls is reproduced with a note.
fn bad_recordings() -> Result<()> {
    let scratch = Scratch::new()?;
    let nothing = scratch.fresh("nothing");
    fs::create_dir(&nothing).context(|| "make a folder".to_owned())?;
    let mut write = iowhy(["reproduce", "-o"])?;
    write.arg(scratch.fresh("out")).arg(&nothing);
    refused(write)?;
    let mut write = iowhy(["reproduce", "-o"])?;
    write.arg(&nothing).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording"));
    let output = finish(write)?;
    assert!(output.status.success(), "an empty directory is used: {}", printed(&output));
    assert!(nothing.join("plan.json").is_file());
    Ok(())
}
