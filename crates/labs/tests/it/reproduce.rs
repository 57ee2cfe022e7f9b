//! `iowhy reproduce`, the run of a reproduction and `iowhy verify`: the load is made again, only
//! named places are written to, and everything is restored however it ends.

use crate::support::{finish, iowhy, printed, refused, trial, trial_alone, wait_until};
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
        trial("reproduce::a_fit_adjusts_the_plan_and_saves_it", fit),
        // Other tests check for mounts that are left.
        trial_alone("reproduce::an_empty_device_is_formatted_and_blank_again", formatted),
        trial("reproduce::a_small_disk_is_refused", too_small),
        trial("reproduce::memory_that_was_scarce_is_scarce_again", scarce_memory),
        trial("reproduce::the_script_passes_shellcheck", shellcheck),
        trial("reproduce::a_replay_does_each_request_on_files_of_its_own", replay),
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

    /// Checks that the directory is empty, no process of a run lives, and the scheduler is as
    /// before.
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

/// Runs it, and returns its output.
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

/// The reproduction makes the original's writes and syncs again, without its names.
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
    // A busy machine changes rates, not the written and synced data.
    assert!(figure("write requests", "now") > 0.0, "{answer:#}");
    let (was, is) = (figure("write size", "original"), figure("write size", "now"));
    assert!((is / was - 1.0).abs() < 0.5, "{was} and {is} bytes: {answer:#}");
    assert!(figure("flushes", "now") > 0.0, "{answer:#}");
    made.nothing_is_left(&before)?;
    assert!(made.folder.join("run-1/recording.json").is_file());
    Ok(())
}

/// The device itself: only without data, unless that is named, and never while it is mounted.
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
    assert_eq!(
        fs::read(made.disk.path().join(SECRET)).map(|content| content.len() as u64).ok(),
        Some(MIB)
    );
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
        if child.try_wait().is_ok_and(|status| status.is_some()) {
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
    wait_until("its end", || Ok(child.try_wait().is_ok_and(|status| status.is_some())))?;
    let output = child.wait_with_output().context(|| "wait for it".to_owned())?;
    assert!(!output.status.success() && !printed(&output).contains("panicked"));
    wait_until("the end of the load", || Ok(load.iter().all(|pid| is_gone(*pid))))?;
    made.nothing_is_left(&before)
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Killed while it runs on another scheduler: the next run ends the load, removes the files and
/// restores the scheduler, although it is refused itself.
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

/// Reads the plan of a reproduction.
fn plan(folder: &Path) -> Result<Value> {
    let path = folder.join("plan.json");
    let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    json(&text)
}

fn fit() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    // A pause that is far too long.
    let mut wrong = plan(&made.folder)?;
    wrong["programs"][0]["jobs"][0]["think_us"] = 100_000.into();
    wrong["programs"][0]["jobs"][0]["think_after"] = 1.into();
    fs::write(made.folder.join("plan.json"), wrong.to_string())
        .context(|| "change the plan".to_owned())?;
    let mut run = made.run()?;
    run.arg("--fit=2");
    let output = finish(run)?;
    let said = printed(&output);
    assert!(output.status.success() && said.contains("fit 1: 1 of 1 jobs adjusted"), "{said}");
    let fitted = plan(&made.folder)?;
    let job = &fitted["programs"][0]["jobs"][0];
    let each = |job: &Value| {
        job["think_us"].as_f64().unwrap_or(0.0) / job["think_after"].as_f64().unwrap_or(1.0)
    };
    assert!(each(job) < 90_000.0, "the pause is shorter, and saved: {job:#}");
    assert!(!made.folder.join(".fit").exists(), "the recording of a fit is removed");
    made.nothing_is_left(&before)
}

/// The file system is made on a device of our own, and nothing is found there afterwards.
fn formatted() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let device = LoopDevice::new(&made.scratch, Backing::Tmpfs, 256 * MIB)?;
    let on_device = |more: &[&str]| -> Result<Command> {
        let mut run = run(&made.folder)?;
        run.args(["--json", "-t", "1", "--on-device"]).arg(device.path()).args(more);
        Ok(run)
    };
    let first = || -> Result<Vec<u8>> {
        let bytes = fs::read(device.file()).context(|| "read the device".to_owned())?;
        Ok(bytes.into_iter().take(MIB as usize).collect())
    };
    let blank_after = |run: Command| -> Result<()> {
        let answer = json(&succeeded(run)?)?;
        let rows = answer["fidelity"]["rows"].as_array().cloned().unwrap_or_default();
        let writes = rows.iter().find(|row| row["what"] == "write requests");
        assert!(writes.is_some_and(|writes| writes["now"].as_f64() > Some(0.0)), "{answer:#}");
        let bytes = first()?;
        assert!(bytes.starts_with(b"iowhy-reproduction: "), "it has the mark");
        // ext4's signature is at 1080.
        assert_eq!(bytes.get(1080..1082), Some(&[0_u8, 0][..]), "no file system is found");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let node = device.path().display().to_string();
        assert!(!mounts.lines().any(|line| line.starts_with(&format!("{node} "))), "{mounts}");
        Ok(())
    };
    blank_after(on_device(&[])?)?;
    // Again, without an option: it has only the mark.
    blank_after(on_device(&[])?)?;
    command::run("mkfs.ext4", ["-q".as_ref(), "-F".as_ref(), device.path()])?;
    let before = first()?;
    let (_, text) = refused(on_device(&[])?)?;
    assert!(text.contains("it is not empty") && text.contains("--destroy"), "{text}");
    assert!(first()? == before, "what was refused was not touched");
    blank_after(on_device(&["--destroy", device.name()])?)
}

fn too_small() -> Result<()> {
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    let mut large = plan(&made.folder)?;
    large["disks"][0]["bytes"] = (1_u64 << 40).into();
    let other = made.scratch.fresh("large");
    fs::create_dir(&other).context(|| "make a folder".to_owned())?;
    for (name, text) in [("plan.json", large.to_string()), ("run", String::new())] {
        fs::write(other.join(name), text).context(|| format!("write {name}"))?;
    }
    let mut rerun = iowhy(["rerun"])?;
    rerun.arg(&other).arg("--on").arg(made.empty()?);
    let (_, text) = refused(rerun)?;
    assert!(text.contains("are needed") && text.contains("are free"), "{text}");
    let small = LoopDevice::new(&made.scratch, Backing::Tmpfs, MIB)?;
    let mut rerun = run(&made.folder)?;
    rerun.arg("--on-device").arg(small.path());
    let (_, text) = refused(rerun)?;
    assert!(text.contains("are needed"), "{text}");
    made.nothing_is_left(&before)
}

/// A cgroup has the memory that the original had, as long as the load runs.
fn scarce_memory() -> Result<()> {
    const MEMORY: u64 = 96 * MIB;
    let made = Reproduced::new(&[])?;
    let before = setting(made.disk.device().name())?;
    let mut scarce = plan(&made.folder)?;
    scarce["available_bytes"] = MEMORY.into();
    fs::write(made.folder.join("plan.json"), scarce.to_string())
        .context(|| "change the plan".to_owned())?;
    let mut child = started(&made)?;
    let found = wait_until("the cgroup", || Ok(limited_to(MEMORY)));
    process::signal(&child, Signal::TERM);
    wait_until("its end", || Ok(child.try_wait().is_ok_and(|status| status.is_some())))?;
    found?;
    assert!(!limited_to(MEMORY), "the cgroup is gone");
    made.nothing_is_left(&before)
}

/// Whether a reproduction's cgroup has this limit of memory and a process.
fn limited_to(bytes: u64) -> bool {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];
    let groups = roots.iter().flat_map(|root| entries(Path::new(root)));
    groups.filter(|group| group.to_string_lossy().contains("/iowhy-reproduce-")).any(|group| {
        let read = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
        let limits = [read("memory.max"), read("memory.limit_in_bytes")];
        limits.iter().any(|limit| limit.trim() == bytes.to_string())
            && !read("cgroup.procs").is_empty()
    })
}

fn shellcheck() -> Result<()> {
    command::find("shellcheck")?;
    let scratch = Scratch::new()?;
    let folder = scratch.fresh("reproduction");
    let mut write = iowhy(["reproduce", "-o"])?;
    write.arg(&folder).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording"));
    succeeded(write)?;
    let script = folder.join("run");
    command::run("shellcheck", ["--severity=style".as_ref(), script.as_path()]).map(drop)
}

/// Random reads of a file, one after the other at their times: the same sizes and as many of them;
/// the original file and its name are gone.
fn replay() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 256 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = disk.path().join(SECRET);
    fs::write(&file, vec![b'x'; 32 * MIB as usize]).context(|| "make a file".to_owned())?;
    let job = Job::new(&file, Engine::Libaio, FioAccess::RandomRead, 8192).direct();
    let job = job.with("iodepth", "4").with("rate_iops", "400").timed(3);
    let recording = scratch.fresh("recording");
    record(disk.device().name(), &recording, job.command(&scratch.fresh("fio.json"))?)?;
    let folder = scratch.fresh("reproduction");
    let mut write = iowhy(["reproduce", "--replay", "-o"])?;
    write.arg(&folder).arg(&recording);
    succeeded(write)?;
    let sequences = entries(&folder.join("replay"));
    assert!(!sequences.is_empty());
    for path in [sequences, vec![folder.join("plan.json"), folder.join("README.md")]].concat() {
        let text = fs::read_to_string(&path).context(|| "read a file".to_owned())?;
        assert!(!text.contains(SECRET) && !text.contains(disk.device().name()), "{text}");
    }
    // Neither recording nor original is needed.
    fs::remove_dir_all(&recording).context(|| "remove the recording".to_owned())?;
    fs::remove_file(&file).context(|| "remove the file".to_owned())?;
    let empty = disk.path().join("empty");
    fs::create_dir(&empty).context(|| "make a folder".to_owned())?;
    let mut run = run(&folder)?;
    run.args(["--json", "-t", "3", "--on"]).arg(&empty);
    let output = finish(run)?;
    let said = printed(&output);
    assert!(output.status.success() && said.contains("of them began within 1 ms"), "{said}");
    let answer = json(&String::from_utf8_lossy(&output.stdout))?;
    let rows = answer["fidelity"]["rows"].as_array().cloned().unwrap_or_default();
    for (what, most) in [("read size", 0.001), ("read requests", 0.5)] {
        let row = rows.iter().find(|row| row["what"] == what);
        let differs = row.and_then(|row| row["difference"].as_f64());
        // Rates suffer on a busy machine; bench-replay measures them.
        assert!(differs.is_some_and(|differs| differs.abs() <= most), "{what}: {answer:#}");
    }
    assert_eq!(entries(&empty), [] as [PathBuf; 0]);
    Ok(())
}
