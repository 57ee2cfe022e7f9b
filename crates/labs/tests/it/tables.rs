//! Tables other than requests, of real watches: processes, their arguments, and counters that a
//! known load changes by a known amount.

use crate::recording::Recording;
use crate::support::{COUNTED, finish, iowhy, is_guest, printed, trial, trial_alone};
use iowhy_labs::devices::{Backing, BlockDevice, FileSystemKind, LabFileSystem, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{self, Engine, FioAccess, Job};
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command};
use iowhy_model::Process;
use iowhy_model::metric::process_subject;
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const SECRET: &str = "hunter2-of-the-labs";
const READS: u64 = 250;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("tables::no_arguments_unless_asked_for", || arguments(false)),
        trial("tables::arguments_where_asked_for", || arguments(true)),
        trial("tables::processes_say_who", processes_say_who),
        trial("tables::who_only_counts_has_a_user_too", who_only_counts),
        trial("tables::samples_move_with_the_load", samples_move),
        trial_alone("tables::page_cache_has_the_file", page_cache),
    ]
}

/// A device that fio reads for some seconds, with a secret in its command line.
struct ReadDevice {
    scratch: Arc<Scratch>,
    device: LoopDevice,
}

impl ReadDevice {
    fn new() -> Result<ReadDevice> {
        machine::need_bpf()?;
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 16 * MIB)?;
        Ok(ReadDevice { scratch, device })
    }

    fn fio(&self) -> Result<Command> {
        let job = Job::strided(self.device.path(), Engine::Psync, FioAccess::Read, READS, 4096);
        let job = job.with("rate_iops", "100").with("description", SECRET);
        job.command(&self.scratch.fresh("fio.json"))
    }

    /// Records it; returns the recording and its path. The load begins once the counters were read
    /// first, which may take a while if there are many.
    fn record(&self, options: &[&str]) -> Result<(PathBuf, Recording)> {
        let output = self.scratch.fresh("recording");
        let mut record = iowhy(["record", "-d", self.device.name(), "-o"])?;
        record.arg(&output).args(options).args(["--", "/bin/sh", "-c"]);
        record.arg(format!("sleep 1.5; {COUNTED}")).arg("sh");
        record.arg(format!("/sys/block/{}/stat", self.device.name()));
        record.arg(output.with_extension("stat"));
        let fio = self.fio()?;
        record.arg(fio.get_program()).args(fio.get_args());
        let result = finish(record)?;
        assert!(result.status.success(), "{}", printed(&result));
        assert!(!printed(&result).contains(SECRET), "{}", printed(&result));
        let recording = Recording::open(&output)?;
        Ok((output, recording))
    }
}

/// Every file of a recording.
fn files_of(recording: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(recording).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            folder if folder.is_dir() => files_of(&folder),
            file => vec![file],
        })
        .collect()
}

/// A command line can hold secrets: no text of a recording has one unless `--args` was given.
fn arguments(asked: bool) -> Result<()> {
    let stage = ReadDevice::new()?;
    let (path, recording) = stage.record(if asked { &["--args"] } else { &[] })?;
    let own = recording.processes.iter().filter(|row| recording.text(row.process) == "fio");
    let lines: Vec<&str> = own.map(|row| recording.text(row.arguments)).collect();
    assert!(!lines.is_empty(), "fio has a row");
    assert_eq!(recording.tells(SECRET), asked, "{lines:?}");
    let mut report = iowhy(["report", "--json"])?;
    let report = command::output_of({
        report.arg(&path);
        report
    })?;
    if asked {
        let whole = lines.iter().any(|line| line.contains(&format!("--description={SECRET}")));
        assert!(whole, "{lines:?}");
        return Ok(());
    }
    assert!(recording.processes.iter().all(|row| row.arguments.is_none()));
    assert!(!report.contains(SECRET));
    for file in files_of(&path) {
        let bytes = fs::read(&file).context(|| format!("read {}", file.display()))?;
        let held = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!held, "{}", file.display());
    }
    Ok(())
}

fn processes_say_who() -> Result<()> {
    let stage = ReadDevice::new()?;
    let (_, recording) = stage.record(&[])?;
    let request =
        recording.requests.iter().find(|request| recording.text(request.process) == "fio");
    let request = request.expect("fio's reads were seen");
    let row = recording.processes.iter().find(|row| Some(row.tid) == request.tid);
    let row = row.expect("its thread has a row");
    let program = command::find("fio")?;
    let program = fs::canonicalize(&program).context(|| "find fio".to_owned())?;
    assert_eq!(recording.text(row.executable), program.to_string_lossy());
    assert_eq!((recording.text(row.user), recording.text(row.process)), ("root", "fio"));
    assert_eq!((Some(row.pid), row.cgroup), (request.pid, request.cgroup));
    assert!(row.parent_pid > 0 && row.parent_pid != row.pid, "{row:?}");
    let watch = recording.environment.start_ns..recording.environment.end_ns;
    assert!(watch.contains(&row.start_ns), "it began during {watch:?}: {row:?}");
    Ok(())
}

/// A program that copies memory has counters and no request: its user is known all the same.
fn who_only_counts() -> Result<()> {
    let stage = ReadDevice::new()?;
    let output = stage.scratch.fresh("recording");
    let mut record = iowhy(["record", "-d", stage.device.name(), "-o"])?;
    record.arg(&output).args(["--", "/bin/sh", "-c"]);
    let copy = "setpriv --reuid=65534 --clear-groups dd if=/dev/zero of=/dev/null bs=64k";
    // Counters are read once a second, later on a busy machine.
    let seconds = if is_guest() { 10 } else { 3 };
    let numbers = stage.scratch.fresh("numbers");
    record.arg(format!(
        "sleep 1.5; {copy} status=none & sleep {seconds}; kill -STOP $!; sleep 0.1; \
         cat /proc/$!/io >{}; kill -KILL $!; wait $!; sleep {}",
        numbers.display(),
        seconds / 2,
    ));
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let is_copier = |row: &&Process| {
        recording.text(row.process) == "dd" && recording.text(row.user) == "nobody"
    };
    let rows: Vec<&Process> = recording.processes.iter().filter(is_copier).collect();
    let [row] = rows.as_slice() else { panic!("one row: {rows:?}") };
    assert!(recording.text(row.executable).ends_with("/dd"), "{row:?}");
    // The kernel adds the program's counters to its parent's, which waits for its end: there only
    // the growth after the last poll remains, and everything is reported once.
    let read = |pid: u32, name: &str| {
        recording.growth("io.rchar", |subject| subject == process_subject(pid, name)).unwrap_or(0.0)
    };
    let (own, parents) = (read(row.pid, "dd"), read(row.parent_pid, "sh"));
    let numbers = std::fs::read_to_string(&numbers).context(|| "read dd's numbers".to_owned())?;
    let all: f64 =
        numbers.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let near = (own + parents - all).abs() <= 0.01 * all;
    assert!(own > 0.1 * all && near, "dd {own}, sh {parents}, {all} in all");
    let mut proc = iowhy(["proc", "--json"])?;
    proc.arg(&output);
    let proc: serde_json::Value = serde_json::from_str(&command::output_of(proc)?)
        .context(|| "read iowhy's JSON".to_owned())?;
    assert!(tells(&proc, row.pid, "nobody"), "{proc}");
    Ok(())
}

/// Returns whether some object in it is of that process and that user.
fn tells(json: &serde_json::Value, pid: u32, user: &str) -> bool {
    match json {
        serde_json::Value::Object(fields) => {
            let is_own = fields.get("pid").and_then(|field| field.as_u64()) == Some(u64::from(pid))
                && fields.get("user").and_then(|field| field.as_str()) == Some(user);
            is_own || fields.values().any(|field| tells(field, pid, user))
        }
        serde_json::Value::Array(rows) => rows.iter().any(|row| tells(row, pid, user)),
        _ => false,
    }
}

/// The counters of the device and of its reader grow by the bytes read.
fn samples_move() -> Result<()> {
    let stage = ReadDevice::new()?;
    // A device that has never done anything has no samples yet.
    let warm = Job::strided(stage.device.path(), Engine::Psync, FioAccess::Read, 1, 4096);
    warm.run(&stage.scratch.fresh("fio.json"))?;
    let before = DiskStats::for_device(stage.device.name())?;
    let (_, recording) = stage.record(&[])?;
    let around = DiskStats::for_device(stage.device.name())?.since(before);
    let name = stage.device.name();
    let grown = |metric: &str| recording.growth(metric, |subject| subject == name);
    assert_eq!(grown("diskstats.reads"), Some(around.reads as f64));
    assert_eq!(grown("diskstats.read_bytes"), Some((around.sectors_read * 512) as f64));
    assert!(around.reads >= READS, "{around:?}");
    let of_fio = |metric: &str| {
        let subjects = recording.samples.iter().map(|sample| recording.text(sample.subject));
        let mut subjects: Vec<&str> =
            subjects.filter(|subject| subject.ends_with(" fio")).collect();
        subjects.sort_unstable();
        subjects.dedup();
        let grown =
            subjects.iter().filter_map(|own| recording.growth(metric, |subject| subject == *own));
        grown.fold(0.0, f64::max)
    };
    // It reads for 2.5 s and is sampled every second: a part of it comes after the last sample. Its
    // device reads include pages of its program, and its calls a few bytes of a pipe.
    let all = (READS * 4096) as f64;
    let (called, read) = (of_fio("io.rchar"), of_fio("io.read_bytes"));
    assert!(called > 0.2 * all && called <= all + 4096.0, "{called} of {all}");
    assert!(read > 0.2 * all, "{read} of {all}");
    let seconds: std::collections::BTreeSet<u64> =
        recording.samples.iter().map(|sample| sample.time_ns / 1_000_000_000).collect();
    assert!(seconds.len() >= 3, "about once a second: {seconds:?}");
    Ok(())
}

/// With --page-cache each page that enters and leaves counts: those of a file that is read and
/// removed.
fn page_cache() -> Result<()> {
    const SIZE: u64 = 32 * MIB;
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 128 * MIB)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    let file = fio::prepare(&disk.path().join("data"), SIZE)?;
    disk.remount()?;
    let script = format!(
        "sleep 1.5; cat {0} >/dev/null; rm {0}; sync -f {1}",
        file.display(),
        disk.path().display()
    );
    let record = |options: &[&str], script: &str| -> Result<Recording> {
        let output = scratch.fresh("recording");
        let mut record = iowhy(["record", "-d", disk.device().name(), "-o"])?;
        record.arg(&output).args(options).args(["--", "/bin/sh", "-c", script]);
        let result = finish(record)?;
        assert!(result.status.success(), "{}", printed(&result));
        Recording::open(&output)
    };
    let recording = record(&["--page-cache"], &script)?;
    for metric in ["page_cache.added", "page_cache.removed"] {
        let grown = recording.growth(metric, |subject| subject.is_empty());
        // Other programs on this machine read files too, but not gigabytes.
        let expected = SIZE as f64..(SIZE + 1024 * MIB) as f64;
        assert!(grown.is_some_and(|grown| expected.contains(&grown)), "{metric}: {grown:?}");
    }
    let without = record(&[], "sleep 0.1")?;
    assert_eq!(without.growth("page_cache.added", |_| true), None);
    Ok(())
}
