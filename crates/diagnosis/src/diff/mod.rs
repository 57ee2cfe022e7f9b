//! Compares two watches: before and after, host against host, a drive against its sibling. The
//! result: differences of the environment and the load, and the stages or wait classes whose time
//! differs.
//!
//! | where | what |
//! |---|---|
//! | `pairs` | which devices are compared with each other |
//! | [`load`] | the loads, and whether they are similar enough to compare times |
//! | [`times`] | time for each request, by stage and by wait class, ranked |
//! | [`work`] | time for each call of a program, where the load itself changed |
//! | [`environment`] | kernel, settings, mounts, devices, and the stages that each can explain |
//! | `explanations` | which difference can explain which time |
//! | `doubts` | losses, and data that one of them lacks |
//! | `sentence` | the first sentence |
//!
//! Time is compared per request, since the watches may differ in length. The stages of requests and
//! the waits before a request was queued do not overlap, so both are ranked together; waits for the
//! requests themselves are contained in the stages.
//!
//! What does not belong here: how it is shown; naming causes (see [`crate`]).

mod doubts;
pub mod environment;
mod explanations;
pub mod load;
mod pairs;
mod sentence;
#[cfg(test)]
mod tests;
pub mod times;
pub mod work;

use crate::{Diagnosis, Severity};
use environment::Difference;
use iowhy_analysis::summary::{DeviceSummary, Summary};
use load::{LoadSimilarity, PairLoad};
use serde::Serialize;
use times::TimeGroup;
use work::WorkTime;

pub use pairs::UnknownDevice;

/// Requests that each side must have of a device and direction for its times to be compared.
/// Chosen: the p99 of fewer is one request's.
pub const LEAST_REQUESTS: u64 = 100;

/// One of two watches.
#[derive(Clone, Copy, Debug)]
pub struct DiffSide<'a> {
    /// The watch's name, as given by the user.
    pub name: &'a str,
    /// The watch's summary.
    pub summary: &'a Summary,
    /// The watch's diagnosis.
    pub diagnosis: &'a Diagnosis,
}

/// The verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffVerdict {
    /// Too few requests, or no common device.
    NotEnough,
    /// The loads differ too much to compare times.
    LoadDiffers,
    /// A device of one of them completed nothing at its end, so completed requests say little.
    Stalled,
    /// Similar loads take similar times.
    Same,
    /// Similar loads take similar times on average, but the slowest requests of one far longer.
    TailDiffers,
    /// Similar loads, and a stage or a wait class takes longer in one.
    Moved,
}

/// One of the two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SideName {
    /// The first.
    A,
    /// The second.
    B,
}

impl SideName {
    /// `A` or `B`.
    pub const fn word(self) -> &'static str {
        match self {
            SideName::A => "A",
            SideName::B => "B",
        }
    }

    /// Returns the side's index in a pair.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The side with the larger figure.
    fn larger(figures: [f64; 2]) -> SideName {
        if figures[1] >= figures[0] { SideName::B } else { SideName::A }
    }

    fn other(self) -> SideName {
        match self {
            SideName::A => SideName::B,
            SideName::B => SideName::A,
        }
    }
}

/// A side in a few figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchedSide {
    /// The watch's name, as given by the user.
    pub name: String,
    /// The host.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Requests with a record.
    pub requests: u64,
    /// Requests without a record.
    pub lost_requests: u64,
    /// Causes above `info` that are found in it and not in the other.
    pub findings: Vec<&'static str>,
    /// Devices with requests that are not compared.
    pub unpaired: Vec<String>,
}

/// The comparison of two watches. Arrays of two hold A and B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The two watches, in a few figures.
    pub sides: [WatchedSide; 2],
    /// The verdict.
    pub verdict: DiffVerdict,
    /// The verdict in one sentence.
    pub sentence: String,
    /// Doubts and missing data, a sentence each.
    pub doubts: Vec<String>,
    /// The loads of each pair of devices.
    pub loads: Vec<PairLoad>,
    /// The times per request; the largest difference first.
    pub times: Vec<TimeGroup>,
    /// The time of programs' file calls for each write or read, which stays comparable where the
    /// load of the devices differs.
    pub work: Vec<WorkTime>,
    /// Differences of the environment; those that can explain a stage that differs come first.
    pub environment: Vec<Difference>,
}

/// A device of A and the one of B that it is compared with.
#[derive(Clone, Copy, Debug)]
struct DevicePair<'a> {
    devices: [&'a DeviceSummary; 2],
}

impl DevicePair<'_> {
    fn names(&self) -> [String; 2] {
        self.devices.map(|device| device.device.clone())
    }
}

/// The pairs that are compared.
struct ComparedTimes<'a> {
    sides: [DiffSide<'a>; 2],
    pairs: Vec<DevicePair<'a>>,
    /// Whether the user selected the devices.
    chosen: bool,
}

impl ComparedTimes<'_> {
    /// The device that stalls in one of them and not in the other.
    fn stalled(&self) -> Option<(SideName, &DeviceSummary)> {
        self.pairs.iter().find_map(|pair| {
            match pair.devices.map(|device| device.stalled_ns.is_some()) {
                [true, false] => Some((SideName::A, pair.devices[0])),
                [false, true] => Some((SideName::B, pair.devices[1])),
                _ => None,
            }
        })
    }
}

/// Compares two watches. `mapped` pairs devices of A with devices of B; if it is empty, devices of
/// the same name are compared, else the busiest of each.
///
/// # Errors
///
/// Fails if a device in `mapped` is not in the data of its watch.
///
/// # Examples
///
/// Reads of a disk that takes ten times as long in B:
///
/// ```
/// use iowhy_analysis::script::ScriptSummary;
/// use iowhy_diagnosis::diagnose;
/// use iowhy_diagnosis::diff::{DiffSide, DiffVerdict, compare};
/// use iowhy_model::script::Script;
///
/// let summaries = [100_000, 1_000_000].map(|d2c_ns| {
///     let mut script = Script::new(10);
///     for index in 0..200 {
///         let read = script.read("sda", 4096).by(7, "cat").sector(index * 7919 % 1000 * 8);
///         read.at(index as i64 * 10_000_000).direct(300, 500, d2c_ns).add();
///     }
///     script.summary()
/// });
/// let [a, b] = &summaries;
/// let (of_a, of_b) = (diagnose(a), diagnose(b));
/// let sides = [
///     DiffSide { name: "before", summary: a, diagnosis: &of_a },
///     DiffSide { name: "after", summary: b, diagnosis: &of_b },
/// ];
/// let comparison = compare(sides, &[])?;
/// assert_eq!(comparison.verdict, DiffVerdict::Moved);
/// println!("{}", comparison.sentence);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(
    sides: [DiffSide<'_>; 2],
    mapped: &[(String, String)],
) -> Result<Comparison, UnknownDevice> {
    let pairs = pairs::pairs(&sides, mapped)?;
    let compared = ComparedTimes { sides, pairs, chosen: !mapped.is_empty() };
    let held_back = compared.sides.iter().any(|side| times::is_held_back(side.summary));
    let loads: Vec<PairLoad> =
        compared.pairs.iter().map(|pair| load::of(pair, held_back)).collect();
    let mut times = times::groups(&compared, &loads);
    let mut environment = environment::differences(&compared);
    explanations::link(&mut environment, &mut times);
    let doubts = doubts::doubts(&compared);
    let verdict = verdict(&compared, &loads, &times);
    let work = work::work(&compared);
    let parts =
        sentence::SentenceParts { compared: &compared, loads: &loads, times: &times, work: &work };
    let sentence = parts.sentence(verdict, &environment);
    let watched = [0, 1].map(|at| watched(&compared, at));
    Ok(Comparison { sides: watched, verdict, sentence, doubts, loads, times, work, environment })
}

fn verdict(compared: &ComparedTimes<'_>, loads: &[PairLoad], times: &[TimeGroup]) -> DiffVerdict {
    if compared.stalled().is_some() {
        return DiffVerdict::Stalled;
    }
    if times.iter().any(|group| group.moved) {
        return DiffVerdict::Moved;
    }
    let comparable = |pair_load: &&PairLoad| pair_load.alike != LoadSimilarity::Different;
    if times.is_empty() {
        return DiffVerdict::NotEnough;
    }
    let tail = |group: &TimeGroup| !group.incomparable && group.tail().is_some();
    match loads.iter().any(|load| comparable(&load)) {
        true if times.iter().any(tail) => DiffVerdict::TailDiffers,
        true => DiffVerdict::Same,
        false => DiffVerdict::LoadDiffers,
    }
}

fn watched(compared: &ComparedTimes<'_>, at: usize) -> WatchedSide {
    let DiffSide { name, summary, diagnosis } = compared.sides[at];
    let causes = |diagnosis: &Diagnosis| -> Vec<&'static str> {
        let worth = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
        worth.map(|finding| finding.cause).collect()
    };
    let others = causes(compared.sides[1 - at].diagnosis);
    WatchedSide {
        name: name.to_owned(),
        host: summary.environment.host.clone(),
        kernel: summary.environment.kernel.clone(),
        duration_ns: summary.watch.duration_ns,
        requests: summary.watch.requests,
        lost_requests: summary.watch.lost_requests,
        findings: causes(diagnosis).into_iter().filter(|cause| !others.contains(cause)).collect(),
        unpaired: pairs::unpaired(compared, at),
    }
}
