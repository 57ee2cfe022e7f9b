//! Compares the views with the tools that they replace, on one load: figures that must be equal in
//! every run.

use crate::support::{labs_program, trial};
use iowhy_labs::bench::views::compare::{ComparedFigures, compare};
use iowhy_labs::bench::views::scene;
use iowhy_labs::workload::steps::StepTotals;
use iowhy_labs::{LabError, Result, machine};
use libtest_mimic::Trial;

/// Duration of the tools.
const SECONDS: u64 = 40;
const STEPS: u64 = 800;

pub fn tests() -> Vec<Trial> {
    vec![trial("side_by_side::views_agree_with_the_tools_they_replace", agree)]
}

/// Rates of others are rounded, and their intervals are a little longer than they say.
const ROUNDING: f64 = 0.01;

fn agree() -> Result<()> {
    machine::need_bpf()?;
    let answers = scene::play(labs_program(), SECONDS, STEPS)?;
    let compared = compare(&answers)?;
    let done = StepTotals::by(STEPS);
    counts(&compared, &done);
    rates(&compared, &done);
    if compared.absent.is_empty() {
        return Ok(());
    }
    Err(LabError::missing(compared.absent.join("; "), "scripts/install-deps bench"))
}

/// Checks that counts of the load alone are exactly equal. Its file system may write a little
/// before it begins and after it ends, when only some tools watch.
fn counts(compared: &ComparedFigures, done: &StepTotals) {
    for line in &compared.lines {
        let is_of_load = line.figure.starts_with("opensnoop") || line.figure.contains(", read:");
        let is_counted =
            line.figure.starts_with("biolatency req") || line.figure.contains("diskstats");
        let room = match (is_of_load, is_counted) {
            (true, _) => 0.0,
            (_, true) => line.theirs * ROUNDING,
            _ => continue,
        };
        let lost = if is_counted { compared.lost } else { 0.0 };
        let more = line.theirs - line.ours;
        assert!((-room..=room + lost).contains(&more), "{line:?}, {lost} lost");
    }
    for (figure, least) in [
        ("/proc/diskstats, read: requests", done.direct),
        ("/proc/diskstats, write: requests", done.direct + done.syncs),
        ("/proc/diskstats, flush: requests", done.syncs),
        ("opensnoop opens", done.opens),
        ("opensnoop failed opens", done.opens),
    ] {
        if let Some(line) = compared.find(figure) {
            // Lost requests were counted.
            let lost = if figure.contains("diskstats") { compared.lost } else { 0.0 };
            let seen = line.ours + lost;
            assert!(seen >= least as f64, "{line:?} is less than {least}, {lost} lost");
        }
    }
}

/// Rates agree within rounding. Latencies are not invariant.
fn rates(compared: &ComparedFigures, done: &StepTotals) {
    let timed = ["_await", "aqu-sz", "%util"];
    let rates = compared.lines.iter().filter(|line| {
        let is_rate = line.figure.starts_with("iostat") || line.figure.starts_with("pidstat");
        is_rate && !timed.iter().any(|name| line.figure.contains(name))
    });
    for line in rates {
        let room = line.theirs.abs() * ROUNDING + ROUNDING * SECONDS as f64;
        assert!((line.theirs - line.ours).abs() <= room, "{line:?}");
    }
    if let Some(reads) = compared.find("iostat r/s × s") {
        assert!(reads.ours + 1.0 >= done.direct as f64, "{reads:?}");
    }
}
