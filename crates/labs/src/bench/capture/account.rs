//! The breakdown of the cost: a long watch, and the kernel's own figures of each BPF program.

use super::CostSettings;
use super::watcher::{RunningVariant, Variant};
use crate::bench::load::FioLoad;
use crate::error::Context;
use crate::fio::FioReport;
use crate::recorded::RecordedTotals;
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy, machine, process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The kernel counts runs and time of BPF programs while the descriptor of BPF_ENABLE_STATS is
/// open. Perl is part of every Debian and can call bpf(2); this script ends with its input.
const HOLD_STATS: &str = include_str!("../../../programs/hold_stats.pl");

/// Measurements of the time to the first record.
const FIRST_RECORDS: usize = 5;
/// Seconds of the load in which a watch finds its level.
const SETTLES: u64 = 3;

/// One BPF program's figures.
#[derive(Clone, Debug)]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub nanoseconds: u64,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct CostAccount {
    /// The long watch.
    pub sustained: RecordedTotals,
    /// Its I/Os per second.
    pub sustained_iops: f64,
    /// I/Os that fio did during it.
    pub sustained_ios: u64,
    /// Milliseconds from starting iowhy under load to the first request that it recorded, in
    /// order.
    pub first_record_ms: Vec<f64>,
    /// Size of the binary that was measured, bytes.
    pub binary: u64,
    /// The largest resident memory of iowhy, bytes.
    pub resident: u64,
    /// The largest anonymous part of it, bytes.
    pub anonymous: u64,
    /// Memory of the BPF maps, bytes.
    pub maps: u64,
    /// Without a budget, and within it.
    pub every: CountedPrograms,
    pub within: CountedPrograms,
}

/// The cost of a watch while the kernel counted its programs.
#[derive(Clone, Debug, Default)]
pub struct CountedPrograms {
    pub programs: Vec<ProgramCost>,
    /// I/Os in that time.
    pub ios: u64,
    /// CPU time of iowhy's own process in that time, nanoseconds.
    pub own_ns: f64,
}

impl CountedPrograms {
    /// Returns the time of all programs for each I/O, nanoseconds.
    pub fn ns_per_io(&self) -> f64 {
        let all: u64 = self.programs.iter().map(|program| program.nanoseconds).sum();
        all as f64 / self.ios.max(1) as f64
    }
}

impl CostAccount {
    pub fn take(scratch: &Scratch, load: &FioLoad, settings: &CostSettings) -> Result<CostAccount> {
        let mut account = CostAccount::default();
        let binary = iowhy::binary()?;
        account.binary = std::fs::metadata(binary).map_or(0, |about| about.len());
        for _ in 0..FIRST_RECORDS {
            account.first_record(scratch, load)?;
        }
        account.first_record_ms.sort_by(f64::total_cmp);
        account.long_watch(scratch, load, settings.sustain)?;
        account.every = counted(Variant::Every, scratch, load, settings.seconds)?;
        account.within = counted(Variant::Iowhy, scratch, load, settings.seconds)?;
        Ok(account)
    }

    /// Starts a watch in the middle of a load and finds when its first request began.
    fn first_record(&mut self, scratch: &Scratch, load: &FioLoad) -> Result<()> {
        let mut fio = load.start(&scratch.fresh("fio.json"), 6)?;
        std::thread::sleep(Duration::from_secs(2));
        let output = scratch.fresh("recording");
        let mut record = Command::new(iowhy::binary()?);
        record.args(["record", "-t", "1", "-o"]).arg(&output);
        let started = machine::monotonic_ns();
        let recorded = command::output_of(record);
        let _ended = fio.wait();
        recorded?;
        // A request's start can lie before the watch; only those that began after it count.
        let first = RecordedTotals::from_folder(&output)?.first_ns;
        self.first_record_ms.extend(first.map(|first| first.saturating_sub(started) as f64 / 1e6));
        Ok(())
    }

    fn long_watch(&mut self, scratch: &Scratch, load: &FioLoad, seconds: u64) -> Result<()> {
        let output = scratch.fresh("recording");
        let mut record = Command::new(iowhy::binary()?);
        record.args(["record", "--every", "-o"]).arg(&output);
        record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let maps = bpf_objects("map")?;
        let mut watch = record.spawn().context(|| "start iowhy".to_owned())?;
        std::thread::sleep(Duration::from_secs(2));
        self.maps = new_since(&maps, bpf_objects("map")?)
            .filter_map(|map| map["bytes_memlock"].as_u64())
            .sum();
        let report = scratch.fresh("fio.json");
        let mut fio = load.start(&report, seconds)?;
        self.sample_memory(&watch, &mut fio);
        process::end(&mut watch);
        let figures = FioReport::read(&report)?.read;
        self.sustained = RecordedTotals::from_folder(&output)?;
        (self.sustained_iops, self.sustained_ios) = (figures.iops, figures.total_ios);
        let _gone = std::fs::remove_dir_all(&output);
        Ok(())
    }

    fn sample_memory(&mut self, watch: &Child, fio: &mut Child) {
        while fio.try_wait().is_ok_and(|status| status.is_none()) {
            let line = |name| machine::memory_of(watch.id(), name).unwrap_or(0);
            self.anonymous = self.anonymous.max(line("RssAnon"));
            self.resident = self.resident.max(line("VmHWM"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Has the kernel count the programs of a watch, from the time at which it has found its level.
fn counted(
    variant: Variant,
    scratch: &Scratch,
    load: &FioLoad,
    seconds: u64,
) -> Result<CountedPrograms> {
    let programs = bpf_objects("prog")?;
    let watcher = RunningVariant::start(scratch, variant)?;
    let mut settles = load.start(&scratch.fresh("fio.json"), SETTLES)?;
    let _ended = settles.wait();
    let stats = Stats::hold()?;
    let report = scratch.fresh("fio.json");
    let before = watcher.cpu_seconds();
    let mut fio = load.start(&report, seconds)?;
    let _ended = fio.wait();
    let own_ns = (watcher.cpu_seconds() - before) * 1e9;
    let mut programs: Vec<ProgramCost> = new_since(&programs, bpf_objects("prog")?)
        .filter_map(|program| {
            Some(ProgramCost {
                name: program["name"].as_str()?.to_owned(),
                runs: program["run_cnt"].as_u64()?,
                nanoseconds: program["run_time_ns"].as_u64()?,
            })
        })
        .collect();
    drop(stats);
    programs.sort_by_key(|program| std::cmp::Reverse(program.nanoseconds));
    let ios = FioReport::read(&report)?.read.total_ios;
    watcher.stop()?;
    Ok(CountedPrograms { programs, ios, own_ns })
}

/// The kernel's counting of BPF programs, as long as this lives.
struct Stats {
    holder: Child,
}

impl Stats {
    fn hold() -> Result<Stats> {
        let mut command = Command::new(command::find("perl")?);
        command.args(["-e", HOLD_STATS]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let holder = command.spawn().context(|| "start perl".to_owned())?;
        let mut stats = Stats { holder };
        let mut said = String::new();
        if let Some(output) = stats.holder.stdout.take() {
            BufReader::new(output).read_line(&mut said).context(|| "wait for perl".to_owned())?;
        }
        if said.trim() == "ready" {
            Ok(stats)
        } else {
            Err(LabError::failed(
                "have the kernel count BPF programs",
                "bpf(BPF_ENABLE_STATS) is refused",
            ))
        }
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        process::wait_or_kill(&mut self.holder, Duration::from_secs(5));
    }
}

/// Every BPF program or map of the machine.
fn bpf_objects(kind: &str) -> Result<Vec<serde_json::Value>> {
    let text = command::run("bpftool", ["--json", kind, "show"])?;
    serde_json::from_str(&text).context(|| "read what bpftool says".to_owned())
}

/// The entries of `now` that are not in `before`.
fn new_since(
    before: &[serde_json::Value],
    now: Vec<serde_json::Value>,
) -> impl Iterator<Item = serde_json::Value> {
    let known: BTreeSet<u64> = before.iter().filter_map(|object| object["id"].as_u64()).collect();
    now.into_iter()
        .filter(move |object| object["id"].as_u64().is_some_and(|id| !known.contains(&id)))
}
