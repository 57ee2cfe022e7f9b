//! A watch that keeps to a budget: the number of its omitted rows is known, and its sums are still
//! right.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, trial_alone, wait_until};
use iowhy_labs::devices::{Backing, BlockDevice, LabCgroup, LoopDevice, ServedDevice};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::machine::DiskStats;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine, process};
use iowhy_model::{Operation, Status, Wait};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// A budget so small that requests are thinned at the rate of a loop device over memory.
const BUDGET: &str = "0.2";

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("thinning::weighted_sums_are_the_kernel_s", weighted),
        trial_alone("thinning::every_leaves_nothing_out", every),
        trial_alone("thinning::what_lasts_is_recorded", lasting),
        trial_alone("thinning::no_open_is_left_out", opens),
        trial_alone("thinning::the_whole_machine_as_a_budget", whole),
        trial("thinning::a_budget_of_nothing_is_refused", nothing),
        trial_alone("thinning::a_limit_of_iowhy_s_own_cpu_time", limited),
    ]
}

/// As many reads as the CPUs allow.
fn fast_reads(device: &Path) -> Job {
    Job::new(device, Engine::Libaio, FioAccess::RandomRead, 4096)
        .direct()
        .with("iodepth", "8")
        .with("size", (64 * MIB).to_string())
}

/// Reads for four seconds as fast as possible. Returns the recording, the kernel's counters, and
/// the screen.
fn recorded(options: &[&str]) -> Result<(Recording, DiskStats, String)> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let fio = fast_reads(device.path()).timed(4).command(&scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let before = DiskStats::for_device(device.name())?;
    let mut record = iowhy(["record"].iter().chain(options))?;
    record.args(["-d", device.name(), "-o"]).arg(&output).arg("--");
    record.arg(fio.get_program()).args(fio.get_args());
    let shown = command::shown(&record);
    let result = finish(record)?;
    assert!(result.status.success(), "{shown}: {}", printed(&result));
    let counted = DiskStats::for_device(device.name())?.since(before);
    let mut report = iowhy(["report"])?;
    report.arg(&output);
    let screen = printed(&finish(report)?);
    Ok((Recording::open(&output)?, counted, screen))
}

fn weighted() -> Result<()> {
    let (recording, counted, screen) = recorded(&["--budget", BUDGET])?;
    let environment = &recording.environment;
    let one_in = environment.requests_one_in();
    assert!(one_in.is_some_and(|one_in| one_in > 1), "{:?}", environment.thinning);
    // Skipping all the others would cost more than such a budget.
    assert!(environment.thinning.iter().any(|level| level.resting), "{:?}", environment.thinning);
    let (rows, reads) = (recording.requests.len() as u64, counted.reads);
    assert!(rows + recording.lost() < reads * 9 / 10, "{rows} rows of {reads} reads");
    counted_exactly(&recording, reads, &screen);
    // Estimated: of the windows of a jiffy one in so many is recorded, and there are at least 250
    // a second on two CPUs. Four standard deviations of such a sample: a fair one misses them once
    // in ten thousand runs, a biased one nearly always.
    let windows = environment.duration_ns() as f64 / 1e9 * 500.0 / f64::from(one_in.unwrap_or(1));
    let allowed = 4.0 / windows.sqrt();
    assert!(allowed < 1.0, "{windows} windows say nothing");
    let weighed: u64 = recording.requests.iter().map(|row| row.stands_for()).sum();
    let error = (weighed as f64 - reads as f64).abs() / reads as f64;
    let levels = &environment.thinning;
    assert!(error < allowed, "{weighed} estimated, {reads} counted, {allowed}: {levels:?}");
    // Slow requests are all there, each with weight one.
    let slow = recording.requests.iter().filter(|row| row.q2c_ns >= Some(10_000_000));
    assert!(slow.clone().all(|row| row.stands_for() == 1), "{:?}", slow.collect::<Vec<_>>());
    assert!(screen.contains("recorded, counts exact"), "{screen}");
    // All bytes of a row that stands for several have its file.
    assert!(!screen.contains("no part of the record covers"), "{screen}");
    Ok(())
}

/// Checks that the programs' counts are the kernel's, and those on the screen.
fn counted_exactly(recording: &Recording, reads: u64, screen: &str) {
    let counts = &recording.environment.exact_counts;
    let read = counts.iter().filter(|count| count.operation == Operation::Read.word());
    let exact: u64 = read.map(|count| count.requests).sum();
    assert!(exact <= reads && exact + exact / 500 + 100 >= reads, "{exact} of {reads} reads");
    let total = iowhy_model::figures::grouped(exact);
    assert!(screen.contains(&total) || counts.len() > 1, "{total}: {screen}");
}

fn every() -> Result<()> {
    let (recording, counted, screen) = recorded(&[])?;
    let environment = &recording.environment;
    assert!(environment.thinning.is_empty() && environment.exact_counts.is_empty());
    assert!(recording.requests.iter().all(|row| row.weight.is_none()));
    let seen = recording.requests.len() as u64 + recording.lost();
    assert!(seen >= counted.reads, "{seen} of {}", counted.reads);
    assert!(!screen.contains("counts exact"), "{screen}");
    Ok(())
}

/// A load in the background, ended on drop.
struct Background(Child);

impl Background {
    fn start(job: &Job, report: &Path) -> Result<Background> {
        Background::run(job.command(report)?)
    }

    fn run(mut command: Command) -> Result<Background> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Background).context(|| "start a load".to_owned())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        process::end(&mut self.0);
    }
}

/// While a load is sampled, a thread reads from a slow disk, which stalls in the end: each of its
/// waits and requests is recorded, also those that still last.
fn lasting() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let fast = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let slow = ServedDevice::new(&scratch, 16 * MIB)?;
    slow.hand().latency(Duration::from_millis(30));
    let reads = fast_reads(fast.path()).timed(60);
    let _fast = Background::start(&reads, &scratch.fresh("fio.json"))?;
    let reads = Job::new(slow.path(), Engine::Psync, FioAccess::RandomRead, 4096)
        .direct()
        .with("size", (16 * MIB).to_string())
        .timed(60);
    let _slow = Background::start(&reads, &scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "--budget", BUDGET, "-t", "8", "-o"])?;
    record.arg(&output).stdout(Stdio::null()).stderr(Stdio::null());
    let mut record = record.spawn().context(|| "start iowhy".to_owned())?;
    // The stall must begin in the watch, however late that begins.
    wait_until("the watch", || Ok(output.exists()))?;
    std::thread::sleep(Duration::from_secs(6));
    slow.hand().stall(Duration::from_secs(30));
    let _status = record.wait();
    slow.hand().open();
    let recording = Recording::open(&output)?;
    let environment = &recording.environment;
    assert!(environment.requests_one_in() > Some(1), "{:?}", environment.thinning);
    assert!(environment.waits_one_in() > Some(1), "{:?}", environment.thinning);
    // On the fast disk: the kept requests of the slow one name their submitter, as below.
    assert!(environment.thinning.iter().any(|level| level.resting), "{:?}", environment.thinning);
    // The disk is slow, the loop device over it and iowhy's own scratch file are not the load.
    let name = slow.name().to_owned();
    let requests = recording.requests.iter().filter(|row| recording.text(row.device) == name);
    let (open, ended): (Vec<_>, Vec<_>) = requests.partition(|row| row.status == Status::InFlight);
    let ended = ended.iter().filter(|row| row.q2c_ns >= Some(25_000_000));
    assert!(ended.clone().all(|row| row.stands_for() == 1), "{:?}", environment.thinning);
    let reader = open.first().and_then(|row| row.pid);
    let of_reader = |row: &&Wait| recording.text(row.device) == name && Some(row.pid) == reader;
    let waits: Vec<&Wait> = recording.waits.iter().filter(of_reader).collect();
    let (lasting, over): (Vec<&Wait>, Vec<&Wait>) =
        waits.iter().partition(|row| row.censored && row.duration_ns > 500_000_000);
    assert_eq!((open.len(), lasting.len()), (1, 1), "{open:?} {lasting:?}");
    let over = over.iter().filter(|row| row.duration_ns >= 25_000_000);
    assert!(over.clone().all(|row| row.stands_for() == 1));
    let (over, ended) = (over.count(), ended.count());
    assert!(ended > 20 && over.abs_diff(ended) <= 2, "{over} waits for {ended} requests");
    Ok(())
}

/// While another program's calls cost more than the whole budget, `iowhy opens` prints each open:
/// of numbered files none is missing between the first line and the last.
fn opens() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let mut copy = Command::new("dd");
    copy.args(["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let _calls = Background::run(copy)?;
    let mut watch = iowhy(["opens", "--json", "-t", "4", "-f"])?;
    watch.arg(scratch.path()).args(["-p", &std::process::id().to_string()]);
    let watch = std::thread::spawn(move || finish(watch));
    let mut made = 0_usize;
    while !watch.is_finished() {
        // None of these files exists.
        assert!(std::fs::File::open(scratch.path().join(made.to_string())).is_err());
        made += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    let result = watch.join().expect("it does not panic")?;
    assert!(result.status.success(), "{}", printed(&result));
    let text = String::from_utf8_lossy(&result.stdout).into_owned();
    let number = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["file"].as_str()?.rsplit('/').next()?.parse::<usize>().ok()
    };
    let seen: Vec<usize> = text.lines().filter_map(number).collect();
    let steps = seen.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(steps && seen.len() > 100, "{seen:?} of {made}: {}", printed(&result));
    Ok(())
}

/// Nothing costs more than all CPUs: no level is ever lowered.
fn whole() -> Result<()> {
    let (recording, counted, screen) = recorded(&["--budget", "100"])?;
    assert!(recording.environment.thinning.is_empty(), "{:?}", recording.environment.thinning);
    let seen = recording.requests.len() as u64 + recording.lost();
    // If other programs kept iowhy from a CPU, the ring buffer filled up. Then the counts are
    // exact, and that is reported.
    if recording.environment.is_sampled() {
        assert!(seen < counted.reads, "{seen} of {}: {screen}", counted.reads);
        assert!(screen.contains("a sample recorded, counts exact"), "{screen}");
        counted_exactly(&recording, counted.reads, &screen);
    } else {
        assert!(seen >= counted.reads, "{seen} of {}: {screen}", counted.reads);
    }
    Ok(())
}

fn nothing() -> Result<()> {
    for budget in ["0", "-1", "101", "NaN", "inf", "three", ""] {
        let scratch = Scratch::new()?;
        let mut record = iowhy(["record", "-t", "1"])?;
        record.arg(format!("--budget={budget}")).arg("-o").arg(scratch.fresh("recording"));
        let result = finish(record)?;
        let text = printed(&result);
        assert_eq!(result.status.code(), Some(2), "{budget}: {text}");
        let says_why = text.contains("percent of the CPUs") || text.contains("not a number");
        assert!(says_why && text.contains("--budget") && !text.contains("panicked"), "{text}");
    }
    Ok(())
}

/// In a cgroup with little CPU time, iowhy reports it; data that it could not record is counted.
fn limited() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let cgroup = LabCgroup::cpu(&scratch, 10)?;
    let reads = fast_reads(device.path()).timed(60);
    let _fast = Background::start(&reads, &scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-t", "4", "--budget", "3", "-d", device.name(), "-o"])?;
    record.arg(&output);
    let result = finish(cgroup.inside(&record))?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let environment = &recording.environment;
    let limit = environment.limits.iter().find(|limit| limit.contains("its CPU limit"));
    assert!(limit.is_some(), "{:?}", environment.limits);
    let exact: u64 = environment.exact_counts.iter().map(|count| count.requests).sum();
    let seen: u64 = recording.requests.iter().map(|row| row.stands_for()).sum();
    let seen = seen + recording.lost();
    assert!(exact > 0 && seen >= exact / 2, "{seen} of {exact}");
    Ok(())
}
