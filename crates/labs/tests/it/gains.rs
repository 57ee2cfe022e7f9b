//! Predicted gains beside measured ones: the share of its time that a finding says its program
//! would gain, and the share that it gains with its file on a tmpfs, where no read waits.

use crate::chains::compiled_once;
use crate::kernels::eprint_line;
use crate::support::{finish, iowhy, printed, trial_alone};
use iowhy_labs::devices::{BlockDevice, FileSystemKind, LabFileSystem, ServedDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, machine};
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Seconds for which the program is watched, and for which it runs beyond that.
const WATCHED: u64 = 8;
const AROUND: u64 = 6;
/// The largest difference between a prediction and its measurement, as shares of the time.
const NEAR: f64 = 0.15;
/// The most watches: a busy machine may spoil one.
const ROUNDS: u32 = 3;

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("gains::a_reader_that_waits_for_the_worker", || barrier(18, 73)),
        trial_alone("gains::a_worker_that_waits_for_the_reader", || barrier(18, 4)),
        trial_alone("gains::a_worker_that_waits_a_little", || barrier(24, 16)),
        trial_alone("gains::commits_of_sqlite", || python(COMMITS, 2)),
    ]
}

/// Commits of single rows by SQLite, in the folder $1 for $2 seconds; prints how many a second.
const COMMITS: &str = r#"
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1] + "/rows.db")
db.execute("create table rows (number integer, text text)")
begun, count = time.monotonic(), 0
while time.monotonic() - begun < float(sys.argv[2]):
    db.execute("insert into rows values (?, ?)", (count, "x" * 100))
    db.commit()
    count += 1
print(count / (time.monotonic() - begun))
"#;

/// A program with a file or a folder that runs for so many seconds and prints its rate.
type Rated = dyn Fn(&Path, u64) -> Result<Command>;

/// The storage on which it is watched.
#[derive(Clone, Copy)]
enum On {
    /// On the device itself, past the page cache.
    Device,
    /// On a file system of it.
    FileSystem,
}

/// Two threads that meet at a barrier, one of which reads for so many milliseconds while the other
/// works.
fn barrier(read_ms: u64, work_ms: u64) -> Result<()> {
    let program = compiled_once("barrier.c", "meets-barrier")?;
    let run = move |file: &Path, seconds: u64| {
        let mut run = ahead()?;
        run.arg(&program).arg(file).arg(work_ms.to_string()).arg(seconds.to_string());
        Ok(run)
    };
    gains("meets-barrier", read_ms, On::Device, &run)
}

fn python(program: &'static str, request_ms: u64) -> Result<()> {
    let run = move |folder: &Path, seconds: u64| {
        let mut run = ahead()?;
        run.arg(command::find("python3")?).args(["-c", program]);
        run.arg(folder).arg(seconds.to_string());
        Ok(run)
    };
    gains("python3", request_ms, On::FileSystem, &run)
}

/// Ahead of all that is not real time: a wait for a CPU is no work.
fn ahead() -> Result<Command> {
    let mut run = Command::new(command::find("chrt")?);
    run.args(["--fifo", "1"]);
    Ok(run)
}

/// Holds the predicted gain of a program to its measured one, on a device whose requests take so
/// many milliseconds.
fn gains(process: &str, request_ms: u64, on: On, run: &Rated) -> Result<()> {
    machine::need_bpf()?;
    let mut round = 0;
    loop {
        round += 1;
        let (predicted, measured, said) = compared(process, request_ms, on, run)?;
        eprint_line(&format!(
            "{process}, {request_ms} ms: {predicted:.2} predicted, {measured:.2} measured"
        ));
        let is_near = (predicted - measured).abs() <= NEAR;
        // Where nothing is gained, a faster device is said not to help.
        let is_said = measured > NEAR || said.contains("a faster disk would not help");
        if is_near && is_said {
            return Ok(());
        }
        assert!(round < ROUNDS, "{predicted:.2} predicted, {measured:.2} measured: {said}");
    }
}

/// Returns the predicted and the measured gain, as shares of the program's time, and the words of
/// the report.
fn compared(process: &str, request_ms: u64, on: On, run: &Rated) -> Result<(f64, f64, String)> {
    let scratch = Scratch::new()?;
    let device = ServedDevice::new(&scratch, 96 * MIB)?;
    let (name, hand) = (device.name().to_owned(), device.hand());
    let (at, fast_at) = (device.path().to_owned(), scratch.memory()?);
    let (_kept, at, fast_at) = match on {
        On::Device => {
            let file = fast_at.join("file");
            std::fs::write(&file, vec![1; MIB as usize]).context(|| "write a file".to_owned())?;
            (Err(device), at, file)
        }
        On::FileSystem => {
            let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
            let at = disk.path().to_owned();
            (Ok(disk), at, fast_at)
        }
    };
    hand.latency(Duration::from_millis(request_ms));
    let mut slow = run(&at, WATCHED + AROUND)?;
    let slow = slow.stdout(Stdio::piped()).spawn().context(|| "start the program".to_owned())?;
    std::thread::sleep(Duration::from_secs(2));
    let watched = WATCHED.to_string();
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", &watched, "-d", &name, "-o"])?;
    record.arg(&output);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let slow = slow.wait_with_output().context(|| "wait for the program".to_owned())?;
    hand.latency(Duration::ZERO);
    let fast = command::output_of(run(&fast_at, 4)?)?;
    let measured = 1.0 - rate(&String::from_utf8_lossy(&slow.stdout))? / rate(&fast)?;
    let mut report = iowhy(["report", "--json"])?;
    report.arg(&output);
    let json = finish(report)?;
    let report: Value = serde_json::from_slice(&json.stdout).context(|| printed(&json))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut said = text(&report["quiet"]);
    let mut predicted: f64 = 0.0;
    for finding in report["findings"].as_array().into_iter().flatten() {
        said.push_str(&format!("\n{}", text(&finding["sentence"])));
        if text(&finding["gain"]["process"]) == process {
            predicted = predicted.max(finding["gain"]["share"].as_f64().unwrap_or(0.0));
        }
    }
    Ok((predicted, measured, said))
}

fn rate(printed: &str) -> Result<f64> {
    let number = printed.trim().parse();
    number.map_err(|_| LabError::failed("read the rate of rounds", printed.to_owned()))
}
