//! Eight live labs: a cause is made on a real kernel, and iowhy names it first. They work on a busy
//! machine with two CPUs; the others are in `cargo lab matrix`.

use crate::support::trial_alone;
use iowhy_labs::labs::outcome::Mark;
use iowhy_labs::labs::run::{self, LabSettings};
use iowhy_labs::labs::{self};
use iowhy_labs::{LabError, Result};
use libtest_mimic::Trial;

/// Long enough for each rule; all eight take about two minutes on an idle machine.
const SECONDS: u64 = 6;

pub fn tests() -> Vec<Trial> {
    [
        "cgroup-throttle",
        "hung-io",
        "split-requests",
        "small-writes",
        "metadata-scan",
        "fsync-heavy",
        "lock-behind-io",
        "io-uring-punt",
    ]
    .into_iter()
    .map(|name| trial_alone(format!("live_labs::{name}"), move || found_first(name)))
    .collect()
}

fn found_first(name: &str) -> Result<()> {
    let lab = labs::lab(name).ok_or_else(|| LabError::missing(name, "it was renamed"))?;
    let settings = LabSettings {
        name: None,
        seconds: SECONDS,
        seed: None,
        whole: false,
        budget: None,
        keep: None,
    };
    let outcome = run::watch(lab, &settings, &mut |_| ())?;
    if let Some(what) = outcome.skipped {
        return Err(LabError::unsupported(what, "another machine"));
    }
    assert_eq!(outcome.mark(lab), Mark::Right, "{outcome:#?}");
    Ok(())
}
