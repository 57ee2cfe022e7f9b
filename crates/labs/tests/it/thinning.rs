//! A watch that keeps to a budget: what it leaves out is known, and its sums are still right.

use crate::recording::Recording;
use crate::support::{finish, iowhy, said, trial_alone};
use iowhy_core::model::Operation;
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::machine::DiskStats;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine};
use libtest_mimic::Trial;

const MIB: u64 = 1 << 20;
/// So little that requests are thinned at the rate of a loop device over memory.
const BUDGET: &str = "0.2";

pub fn tests() -> Vec<Trial> {
    vec![
        trial_alone("thinning::weighted_sums_are_the_kernel_s", weighted),
        trial_alone("thinning::every_leaves_nothing_out", every),
    ]
}

/// Reads for four seconds as fast as possible. Returns the recording, what the kernel counted, and
/// the screen.
fn recorded(options: &[&str]) -> Result<(Recording, DiskStats, String)> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 * MIB)?;
    let fio = Job::new(device.path(), Engine::Libaio, FioAccess::RandomRead, 4096)
        .direct()
        .with("iodepth", "8")
        .with("size", (64 * MIB).to_string())
        .timed(4)
        .command(&scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let before = DiskStats::of(device.name())?;
    let mut record = iowhy(["record"].iter().chain(options))?;
    record.args(["-d", device.name(), "-o"]).arg(&output).arg("--");
    record.arg(fio.get_program()).args(fio.get_args());
    let shown = command::shown(&record);
    let result = finish(record)?;
    assert!(result.status.success(), "{shown}: {}", said(&result));
    let counted = DiskStats::of(device.name())?.since(before);
    let mut report = iowhy(["report"])?;
    report.arg(&output);
    let screen = said(&finish(report)?);
    Ok((Recording::open(&output)?, counted, screen))
}

fn weighted() -> Result<()> {
    let (recording, counted, screen) = recorded(&["--budget", BUDGET])?;
    let environment = &recording.environment;
    let one_in = environment.requests_one_in();
    assert!(one_in.is_some_and(|one_in| one_in > 1), "{:?}", environment.thinning);
    let (rows, reads) = (recording.requests.len() as u64, counted.reads);
    assert!(rows + recording.lost() < reads * 9 / 10, "{rows} rows of {reads} reads");
    // Exact: what the kernel's program counted.
    let exact: u64 = environment
        .exact_counts
        .iter()
        .filter(|count| count.operation == Operation::Read.word())
        .map(|count| count.requests)
        .sum();
    assert!(exact <= reads && exact + exact / 500 + 100 >= reads, "{exact} of {reads} reads");
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
    // What is slow is there, and stands for itself.
    let slow = recording.requests.iter().filter(|row| row.q2c_ns >= Some(10_000_000));
    assert!(slow.clone().all(|row| row.stands_for() == 1), "{:?}", slow.collect::<Vec<_>>());
    assert!(screen.contains("recorded, counts exact"), "{screen}");
    // What the screen calls requests is exact.
    let total = iowhy_core::figures::grouped(exact);
    assert!(screen.contains(&total) || environment.exact_counts.len() > 1, "{total}: {screen}");
    Ok(())
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
