//! Predicted gains beside measured ones: what a finding says that its program would gain, and what
//! it gains with its file on a tmpfs, where no read waits.

use crate::chains::compiled_once;
use crate::support::{finish, iowhy, printed, trial_alone};
use iowhy_labs::devices::{BlockDevice, ServedDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, command, machine};
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// How long the program is watched, seconds, and how much longer it runs.
const WATCHED: u64 = 8;
const AROUND: u64 = 6;
/// How far the prediction may be off.
const NEAR: f64 = 0.15;
/// How often a watch is repeated that a busy machine spoilt.
const ROUNDS: u32 = 3;

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("gains::a_reader_that_waits_for_the_worker", || barrier(18, 73)),
        trial_alone("gains::a_worker_that_waits_for_the_reader", || barrier(18, 4)),
        trial_alone("gains::a_worker_that_waits_a_little", || barrier(24, 16)),
    ]
}

/// Two threads that meet at a barrier, one of which reads for so many milliseconds while the other
/// works.
fn barrier(read_ms: u64, work_ms: u64) -> Result<()> {
    machine::need_bpf()?;
    let program = compiled_once("barrier.c", "meets-barrier")?;
    let mut round = 0;
    loop {
        round += 1;
        let (predicted, measured, said) = compared(&program, read_ms, work_ms)?;
        println!("{read_ms} ms beside {work_ms}: {predicted:.2} predicted, {measured:.2} measured");
        let is_near = (predicted - measured).abs() <= NEAR;
        // Where the worker is last, a faster device is said not to help.
        let is_said = measured > NEAR || said.contains("a faster disk would not help");
        if is_near && is_said {
            return Ok(());
        }
        assert!(round < ROUNDS, "{predicted:.2} predicted, {measured:.2} measured: {said}");
    }
}

/// What is predicted and what is measured, as shares of the program's time, and what iowhy says.
fn compared(program: &Path, read_ms: u64, work_ms: u64) -> Result<(f64, f64, String)> {
    let scratch = Scratch::new()?;
    let device = ServedDevice::new(&scratch, 64 * MIB)?;
    device.hand().latency(Duration::from_millis(read_ms));
    let chrt = command::find("chrt")?;
    let run = |file: &Path, seconds: u64| {
        // Ahead of all that is not real time: a wait for a CPU is no work.
        let mut run = Command::new(&chrt);
        run.args(["--fifo", "1"])
            .arg(program)
            .arg(file)
            .arg(work_ms.to_string())
            .arg(seconds.to_string());
        run
    };
    let mut slow = run(device.path(), WATCHED + AROUND);
    let slow = slow.stdout(Stdio::piped()).spawn().context(|| "start the program".to_owned())?;
    std::thread::sleep(Duration::from_secs(1));
    let watched = WATCHED.to_string();
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", &watched, "-d", device.name(), "-o"])?;
    record.arg(&output);
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let slow = slow.wait_with_output().context(|| "wait for the program".to_owned())?;
    let folder = scratch.memory()?;
    let file = folder.join("file");
    std::fs::write(&file, vec![1; MIB as usize]).context(|| "write the file".to_owned())?;
    let fast = command::output_of(run(&file, 4))?;
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
        if text(&finding["gain"]["process"]) == "meets-barrier" {
            predicted = predicted.max(finding["gain"]["share"].as_f64().unwrap_or(0.0));
        }
    }
    Ok((predicted, measured, said))
}

fn rate(printed: &str) -> Result<f64> {
    let number = printed.trim().parse();
    number.map_err(|_| LabError::failed("read the rate of rounds", printed.to_owned()))
}
