//! Compares two watches: before and after, host against host, a drive against its sibling. What differs
//! in the environment, in the load, and in which stage or wait class the time differs.
//!
//! | where | what lives there |
//! |---|---|
//! | `pairs` | which device of the one is compared with which of the other |
//! | [`load`] | what was asked of them, and whether it is alike enough to compare times |
//! | [`times`] | time for each request, by stage and by wait class, ranked |
//! | [`environment`] | kernel, settings, mounts, devices; which of it can explain which stage |
//! | `doubts` | losses, streams that one of them lacks |
//! | `sentence` | the one sentence that leads |
//!
//! Time is compared for each request, since the watches need not last equally long. The stages of
//! requests and the waits before a request was queued do not overlap, so that both are ranked
//! together; what threads waited for requests themselves is the stages' time already.
//!
//! What does not belong here: how it looks; naming causes (see [`crate::diagnosis`]).

mod doubts;
pub mod environment;
pub mod load;
mod pairs;
mod sentence;
#[cfg(test)]
mod tests;
pub mod times;

use crate::analysis::Summary;
use crate::analysis::summary::DeviceSummary;
use crate::diagnosis::{Diagnosis, Severity};
use environment::Difference;
use load::{Alike, PairLoad};
use serde::Serialize;
use times::Group;

pub use pairs::UnknownDevice;

/// Requests that each side must have of a device and direction for its times to be compared. Chosen: the
/// p99 of fewer is one request's.
pub const LEAST_REQUESTS: u64 = 100;

/// One of two watches.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What its user calls it.
    pub name: &'a str,
    /// What was watched.
    pub summary: &'a Summary,
    /// What iowhy says about it alone.
    pub diagnosis: &'a Diagnosis,
}

/// What came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too few requests, or no device that both have.
    NotEnough,
    /// The loads differ too much to compare times.
    LoadDiffers,
    /// A device of one of them completed nothing at its end: what completed says little.
    Stalled,
    /// Alike loads take alike times.
    Same,
    /// Alike loads take alike times on average, and the slowest requests of one far longer.
    TailDiffers,
    /// Alike loads, and a stage or a wait class takes longer in one.
    Moved,
}

/// Which of the two: A, the first, or B.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

impl Which {
    /// `A` or `B`.
    pub const fn word(self) -> &'static str {
        match self {
            Which::A => "A",
            Which::B => "B",
        }
    }

    /// Its place in a pair.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The one with the larger figure.
    fn larger(figures: [f64; 2]) -> Which {
        if figures[1] >= figures[0] { Which::B } else { Which::A }
    }

    fn other(self) -> Which {
        match self {
            Which::A => Which::B,
            Which::B => Which::A,
        }
    }
}

/// What was watched, in a few figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Watched {
    /// What its user calls it.
    pub name: String,
    /// The host.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// How long, nanoseconds.
    pub duration_ns: u64,
    /// Requests with a record.
    pub requests: u64,
    /// Requests without.
    pub lost_requests: u64,
    /// Causes that iowhy names in it and not in the other, above `info`.
    pub findings: Vec<&'static str>,
    /// Devices with requests that are compared with none of the other.
    pub unpaired: Vec<String>,
}

/// Two watches, compared. Arrays of two are A's and B's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was watched.
    pub sides: [Watched; 2],
    /// What came out.
    pub verdict: Verdict,
    /// The same in one sentence.
    pub sentence: String,
    /// What speaks against it, or is missing; a sentence each.
    pub doubts: Vec<String>,
    /// What was asked of each pair of devices.
    pub loads: Vec<PairLoad>,
    /// Where the time for each request differs; what explains most first.
    pub times: Vec<Group>,
    /// What differs in the environment; what can explain the stage that moved first.
    pub environment: Vec<Difference>,
}

/// A device of A and the one of B that it is compared with.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    devices: [&'a DeviceSummary; 2],
}

impl Pair<'_> {
    fn names(&self) -> [String; 2] {
        self.devices.map(|device| device.device.clone())
    }
}

/// What is compared.
struct Compared<'a> {
    sides: [Side<'a>; 2],
    pairs: Vec<Pair<'a>>,
    /// Whether the user chose the devices.
    chosen: bool,
}

impl Compared<'_> {
    /// The device that stalls in one of them and not in the other.
    fn stalled(&self) -> Option<(Which, &DeviceSummary)> {
        self.pairs.iter().find_map(|pair| match pair.devices.map(|it| it.stalled_ns.is_some()) {
            [true, false] => Some((Which::A, pair.devices[0])),
            [false, true] => Some((Which::B, pair.devices[1])),
            _ => None,
        })
    }
}

/// Compares two watches. `mapped` says which device of A stands for which of B; without any, devices of
/// the same name do, else the busiest of each.
pub fn compare(
    sides: [Side<'_>; 2],
    mapped: &[(String, String)],
) -> Result<Comparison, UnknownDevice> {
    let pairs = pairs::pairs(&sides, mapped)?;
    let compared = Compared { sides, pairs, chosen: !mapped.is_empty() };
    let held_back = compared.sides.iter().any(|side| times::is_held_back(side.summary));
    let loads: Vec<PairLoad> =
        compared.pairs.iter().map(|pair| load::of(pair, held_back)).collect();
    let mut times = times::groups(&compared, &loads);
    let mut environment = environment::differences(&compared);
    environment::set_beside(&mut environment, &mut times);
    let doubts = doubts::doubts(&compared);
    let verdict = verdict(&compared, &loads, &times);
    let told = sentence::Told { compared: &compared, loads: &loads, times: &times };
    let sentence = told.sentence(verdict, &environment);
    let watched = [0, 1].map(|at| watched(&compared, at));
    Ok(Comparison { sides: watched, verdict, sentence, doubts, loads, times, environment })
}

fn verdict(compared: &Compared<'_>, loads: &[PairLoad], times: &[Group]) -> Verdict {
    if compared.stalled().is_some() {
        return Verdict::Stalled;
    }
    if times.iter().any(|group| group.moved) {
        return Verdict::Moved;
    }
    let comparable = |it: &&PairLoad| it.alike != Alike::Different;
    if times.is_empty() {
        return Verdict::NotEnough;
    }
    let tail = |group: &Group| !group.incomparable && group.tail().is_some();
    match loads.iter().any(|it| comparable(&it)) {
        true if times.iter().any(tail) => Verdict::TailDiffers,
        true => Verdict::Same,
        false => Verdict::LoadDiffers,
    }
}

fn watched(compared: &Compared<'_>, at: usize) -> Watched {
    let Side { name, summary, diagnosis } = compared.sides[at];
    let told = |diagnosis: &Diagnosis| -> Vec<&'static str> {
        let worth = diagnosis.findings.iter().filter(|it| it.severity > Severity::Info);
        worth.map(|it| it.cause).collect()
    };
    let others = told(compared.sides[1 - at].diagnosis);
    Watched {
        name: name.to_owned(),
        host: summary.environment.host.clone(),
        kernel: summary.environment.kernel.clone(),
        duration_ns: summary.watch.duration_ns,
        requests: summary.watch.requests,
        lost_requests: summary.watch.lost_requests,
        findings: told(diagnosis).into_iter().filter(|it| !others.contains(it)).collect(),
        unpaired: pairs::unpaired(compared, at),
    }
}
