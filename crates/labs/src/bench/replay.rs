//! `cargo lab bench-replay`: fio's random reads at a rate are recorded, and the exact sequence is
//! replayed on the same device by iowhy and by fio, to compare their punctuality.
//!
//! What does not belong here: loads that are only like the original (see [`super::reproduce`]).

use super::{Benchmark, TableOutput, table_of};
use crate::devices::{Backing, BlockDevice, LoopDevice};
use crate::error::Context;
use crate::fio::{self, Engine, FioAccess, Job};
use crate::machine::DiskStats;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, process};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BYTES: u64 = 256 << 20;
/// The time that a replay takes to begin.
const BEGINNING: Duration = Duration::from_secs(2);

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplaySettings {
    /// Requests per second to record, and again; repeat for more
    #[arg(long, default_values_t = [2000, 20_000])]
    pub rate: Vec<u64>,
    /// Seconds to record
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

/// One rate.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayedRate {
    /// Requests in the recording, the time from the first to the last, and the time after which the
    /// sequence begins anew, seconds.
    requests: u64,
    took_s: f64,
    period_s: f64,
    /// The time that iowhy takes for as many, seconds.
    ours_s: f64,
    /// The share that begins more than a millisecond late, and the mean delay, nanoseconds.
    late: f64,
    late_ns: f64,
    /// The time that fio takes, seconds.
    fio_s: f64,
}

impl Benchmark for ReplaySettings {
    const TARGET: &'static str = "bench-replay";
    const PAGE: &'static str = "docs/reproduce.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let mut rates = Vec::new();
        for rate in &self.rate {
            let measured = self.one(*rate)?;
            progress(&format!("{rate}: {measured:?}"));
            rates.push((*rate, measured));
        }
        table_of(|text| table(text, machine, self.seconds, &rates))
    }
}

impl ReplaySettings {
    /// Records a rate and replays it twice.
    fn one(&self, rate: u64) -> Result<ReplayedRate> {
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, BYTES)?;
        // Data everywhere: a hole would be read from nowhere.
        fio::prepare(device.file(), BYTES)?;
        let recording = self.recorded(&scratch, &device, rate)?;
        let log = scratch.fresh("iolog");
        let mut export = Command::new(iowhy::binary()?);
        export.args(["export", "--format", "iolog", "-o"]).arg(&log).arg(&recording);
        command::output_of(export)?;
        let folder = scratch.fresh("reproduction");
        let mut write = Command::new(iowhy::binary()?);
        write.args(["reproduce", "--replay", "-o"]).arg(&folder).arg(&recording);
        command::output_of(write)?;
        let sequence = fs::read_dir(folder.join("replay"))
            .context(|| "list the sequences".to_owned())?
            .flatten()
            .max_by_key(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
            .ok_or_else(|| LabError::missing("a sequence", "record a load with requests"))?;
        let mut rate = times_in(&sequence.path())?;
        self.ours(&mut rate, &scratch, &device, &sequence.path())?;
        rate.fio_s = by_fio(&scratch, &log)?;
        Ok(rate)
    }

    fn recorded(&self, scratch: &Arc<Scratch>, device: &LoopDevice, rate: u64) -> Result<PathBuf> {
        let job = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4096)
            .direct()
            .with("iodepth", "16")
            .with("size", BYTES.to_string())
            .with("rate_iops", rate.to_string())
            .timed(self.seconds);
        let load = job.command(&scratch.fresh("fio.json"))?;
        let recording = scratch.fresh("recording");
        let mut record = Command::new(iowhy::binary()?);
        record.args(["record", "--every", "-d", device.name(), "-o"]).arg(&recording);
        record.arg("--").arg(load.get_program()).args(load.get_args());
        command::output_of(record)?;
        Ok(recording)
    }

    /// Plays the sequence, and counts at the device for as long as its period.
    fn ours(
        &self,
        rate: &mut ReplayedRate,
        scratch: &Arc<Scratch>,
        device: &LoopDevice,
        sequence: &Path,
    ) -> Result<()> {
        let mut play = Command::new(iowhy::binary()?);
        play.arg("replay").arg(sequence).arg(device.path()).arg("run");
        scratch.mark(&mut play);
        let child = play.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.context(|| "start the replay".to_owned())?;
        std::thread::sleep(BEGINNING);
        let (before, begun) = (DiskStats::for_device(device.name())?, Instant::now());
        std::thread::sleep(Duration::from_secs_f64(rate.period_s));
        let (done, took) = (DiskStats::for_device(device.name())?.since(before), begun.elapsed());
        process::end(&mut child);
        let output = child.wait_with_output().context(|| "wait for the replay".to_owned())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let figure = |name: &str| last.as_ref().and_then(|last| last[name].as_f64()).unwrap_or(0.0);
        let began = figure("done").max(1.0);
        (rate.late, rate.late_ns) = (figure("late") / began, figure("late_ns") / began);
        // A period that holds fewer requests is slower by as much.
        let slower = rate.requests as f64 / done.reads.max(1) as f64;
        rate.ours_s = rate.took_s * slower * took.as_secs_f64() / rate.period_s.max(1e-9);
        Ok(())
    }
}

/// Requests of a sequence, and its period: it is played again and again.
fn times_in(sequence: &Path) -> Result<ReplayedRate> {
    let text = fs::read_to_string(sequence).context(|| "read the sequence".to_owned())?;
    let period = text.lines().find_map(|line| line.strip_prefix("period ")?.parse::<f64>().ok());
    let reads = text.lines().filter(|line| line.split(' ').nth(1) == Some("r"));
    let times: Vec<f64> = reads.filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    let took_us = times.last().unwrap_or(&0.0) - times.first().unwrap_or(&0.0);
    Ok(ReplayedRate {
        requests: times.len() as u64,
        took_s: took_us / 1e6,
        period_s: period.unwrap_or(0.0) / 1e6,
        ..ReplayedRate::default()
    })
}

/// Returns the time of fio, which reads the device itself.
fn by_fio(scratch: &Arc<Scratch>, log: &Path) -> Result<f64> {
    let mut fio = Command::new(command::find("fio")?);
    fio.args(["--name=replay", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--readonly"]);
    fio.arg("--output-format=json").arg(format!("--read_iolog={}", log.display()));
    fio.current_dir(scratch.path());
    let text = command::output_of(fio)?;
    let json = text.find('{').and_then(|at| text.get(at..)).unwrap_or_default();
    let json: Value = serde_json::from_str(json).context(|| "read what fio says".to_owned())?;
    let took = json["jobs"][0]["read"]["runtime"].as_f64();
    took.map(|took| took / 1e3).ok_or_else(|| LabError::failed("read what fio says", "no runtime"))
}

fn table(
    text: &mut String,
    machine: &str,
    seconds: u64,
    rates: &[(u64, ReplayedRate)],
) -> std::fmt::Result {
    writeln!(
        text,
        "{machine}. fio reads 4 KiB at random from a loop device in memory, so many a second for \
         {seconds} s, and all of it is recorded (`--every`). The sequence is replayed on the same \
         device by `iowhy reproduce --replay`, and by fio from `iowhy export --format iolog`. The \
         times are those from the first request to the last; iowhy's is by the kernel's count of \
         reads over a period of the sequence. Command: `make bench-replay`.\n"
    )?;
    writeln!(text, "| recorded | requests | took | iowhy | late by > 1 ms | mean | fio |")?;
    writeln!(text, "|--:|--:|--:|--:|--:|--:|--:|")?;
    for (rate, it) in rates {
        let off = |seconds: f64| (seconds / it.took_s.max(1e-9) - 1.0) * 100.0;
        writeln!(
            text,
            "| {rate}/s | {} | {:.2} s | {:.2} s ({:+.1} %) | {:.1} % | {:.3} ms | {:.2} s ({:+.1} \
             %) |",
            it.requests,
            it.took_s,
            it.ours_s,
            off(it.ours_s),
            it.late * 100.0,
            it.late_ns / 1e6,
            it.fio_s,
            off(it.fio_s),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_compared_with_the_recording() {
        let rate = ReplayedRate {
            requests: 100,
            took_s: 2.0,
            ours_s: 2.1,
            fio_s: 4.0,
            ..ReplayedRate::default()
        };
        let text = table_of(|text| table(text, "Linux", 2, &[(50, rate)])).unwrap();
        assert!(text.contains("| 50/s | 100 | 2.00 s | 2.10 s (+5.0 %) | 0.0 %"), "{text}");
        assert!(text.contains("4.00 s (+100.0 %) |"), "{text}");
    }
}
