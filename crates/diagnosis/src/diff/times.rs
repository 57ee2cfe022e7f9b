//! Time per request, by stage and by class of waits before the requests were queued.

use super::load::{LoadSimilarity, PairLoad, is_enough};
use super::{ComparedTimes, DevicePair, LEAST_REQUESTS, SideName};
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{
    ByDirection, Direction, DirectionSummary, Interval, StageTime, Summary,
};
use iowhy_model::WaitClass;
use iowhy_model::compact_sort::CompactSort;
use serde::Serialize;

/// Minimum difference of a stage, as a share of the longer time of a request. Chosen: two equal
/// runs on a busy machine differ by a tenth.
const MOVED: f64 = 0.15;
/// Minimum difference, nanoseconds; smaller ones are noise of the clock and the cache.
const LEAST_NS: f64 = 1_000.0;
/// Factor of the p99.9 from which the slowest differ although means are equal, if it has this least
/// length, nanoseconds, and this least number of requests. Chosen: the p99.9 of fewer is one
/// request's.
const TAIL: f64 = 3.0;
const TAIL_NS: u64 = 1_000_000;
const TAIL_REQUESTS: u64 = 1_000;
/// Share of the blocked time from which threads are throttled before they can submit.
const HELD_BACK: f64 = 0.3;

/// The stages that add up to a request's time.
const STAGES: [Interval; 5] =
    [Interval::Q2g, Interval::G2i, Interval::I2d, Interval::G2d, Interval::D2c];
/// Waits before a request is submitted that do not depend on the device.
const BEFORE: [WaitClass; 11] = [
    WaitClass::CgroupThrottle,
    WaitClass::DirtyThrottle,
    WaitClass::Wbt,
    WaitClass::Iocost,
    WaitClass::Tag,
    WaitClass::JournalSpace,
    WaitClass::FsLock,
    WaitClass::Reclaim,
    WaitClass::NetworkFs,
    WaitClass::Fuse,
    WaitClass::Fanotify,
];
/// Waits for requests of others, which grow with those requests' stages.
const FOLLOWING: [WaitClass; 9] = [
    WaitClass::DirtyThrottle,
    WaitClass::JournalCommit,
    WaitClass::JournalSpace,
    WaitClass::PageLock,
    WaitClass::PageRead,
    WaitClass::PageFault,
    WaitClass::Fsync,
    WaitClass::FsLock,
    WaitClass::Swap,
];

/// The kind of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// A stage of requests.
    Stage,
    /// A class of waits, without the time of requests and the wait for a CPU.
    Wait,
}

/// The times of one pair of devices and direction, or of threads' waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeGroup {
    /// The devices; empty for the waits of the watch.
    pub devices: [String; 2],
    /// The direction of its requests; `None` for waits.
    pub direction: Option<&'static str>,
    /// Number of requests in the means.
    pub requests: [u64; 2],
    /// The total time per request.
    pub whole: TimePart,
    /// The parts of that time; the largest difference first.
    pub parts: Vec<TimePart>,
    /// Whether any part differs, and the loads are similar enough to compare.
    pub moved: bool,
    /// Whether the loads differ too much to compare its times.
    pub incomparable: bool,
}

/// A stage or a wait class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimePart {
    /// The part's word: `i2d`, `cgroup_throttle` …
    pub what: &'static str,
    /// The part's kind.
    pub kind: TimeKind,
    /// Mean time per request, nanoseconds.
    pub mean_ns: [f64; 2],
    /// B minus A, nanoseconds.
    pub difference_ns: f64,
    /// Share of all differences.
    pub share: f64,
    /// Median, nanoseconds.
    pub p50_ns: [Option<u64>; 2],
    /// 99th percentile, nanoseconds.
    pub p99_ns: [Option<u64>; 2],
    /// 99.9th percentile, nanoseconds.
    pub p999_ns: [Option<u64>; 2],
    /// The longest, nanoseconds.
    pub max_ns: [Option<u64>; 2],
    /// Whether it differs by more than equal watches do.
    pub moved: bool,
    /// Whether it only follows from a stage that differs in the same direction.
    pub follows: bool,
    /// Differences of the environment that can explain it, as indices in their list.
    pub beside: Vec<usize>,
}

impl TimePart {
    fn new(what: &'static str, kind: TimeKind, mean_ns: [f64; 2]) -> TimePart {
        TimePart {
            what,
            kind,
            mean_ns,
            difference_ns: mean_ns[1] - mean_ns[0],
            share: 0.0,
            p50_ns: [None; 2],
            p99_ns: [None; 2],
            p999_ns: [None; 2],
            max_ns: [None; 2],
            moved: false,
            follows: false,
            beside: Vec::new(),
        }
    }

    fn of_stages(what: Interval, mean_ns: [f64; 2], stages: [Option<StageTime>; 2]) -> TimePart {
        let each = |of: fn(&StageTime) -> u64| stages.map(|stage| stage.as_ref().map(of));
        TimePart {
            p50_ns: each(|stage| stage.p50_ns),
            p99_ns: each(|stage| stage.p99_ns),
            p999_ns: each(|stage| stage.p999_ns),
            max_ns: each(|stage| stage.max_ns),
            ..TimePart::new(what.word(), TimeKind::Stage, mean_ns)
        }
    }

    /// The side that takes longer.
    pub fn slower(&self) -> SideName {
        SideName::larger(self.mean_ns)
    }
}

impl TimeGroup {
    /// The part that differs most and does not follow from another.
    pub fn foremost(&self) -> Option<&TimePart> {
        self.parts.iter().find(|part| part.moved && !part.follows)
    }

    /// The stage whose slowest requests differ most, if means are equal.
    pub fn tail(&self) -> Option<&TimePart> {
        let enough = self.requests.iter().all(|count| *count >= TAIL_REQUESTS);
        let factor = |part: &TimePart| match part.p999_ns {
            [Some(a), Some(b)] if a.max(b) >= TAIL_NS => {
                (a as f64 / b.max(1) as f64).max(b as f64 / a.max(1) as f64)
            }
            _ => 0.0,
        };
        let differ = self.parts.iter().filter(|part| enough && factor(part) >= TAIL);
        // A stage with hardly any time is ignored.
        let slowest = |part: &&TimePart| part.p999_ns.iter().flatten().copied().max();
        differ.max_by_key(slowest)
    }

    /// The weight of its difference: nanoseconds of requests per second.
    fn weight(&self, seconds: [f64; 2]) -> f64 {
        let rates = [0, 1].map(|at| self.requests[at] as f64 / seconds[at].max(1e-9));
        if self.incomparable {
            return 0.0;
        }
        let moved = self.parts.iter().filter(|part| part.moved && !part.follows);
        let sum: f64 = moved.map(|part| part.difference_ns.abs()).sum();
        sum * (rates[0] + rates[1]) / 2.0
    }
}

/// Whether threads spend much of their blocked time before they submit.
pub(super) fn is_held_back(summary: &Summary) -> bool {
    let Some(ledger) = &summary.ledger else { return false };
    let before = BEFORE.map(WaitClass::word);
    let rows = ledger.classes.iter().filter(|row| before.contains(&row.class));
    rows.map(|row| row.time_share).sum::<f64>() >= HELD_BACK
}

/// The groups; the largest difference first.
pub(super) fn groups(compared: &ComparedTimes<'_>, loads: &[PairLoad]) -> Vec<TimeGroup> {
    let mut groups: Vec<TimeGroup> = Vec::new();
    for (pair, load) in compared.pairs.iter().zip(loads) {
        for direction in Direction::ALL {
            groups.extend(of_requests(pair, direction, load.alike));
        }
    }
    groups.extend(of_waits(compared, loads));
    let stages: f64 = groups
        .iter()
        .filter(|group| group.direction.is_some())
        .flat_map(|group| &group.parts)
        .filter(|part| part.moved)
        .map(|part| part.difference_ns.signum())
        .sum();
    for part in groups
        .iter_mut()
        .filter(|group| group.direction.is_none())
        .flat_map(|group| &mut group.parts)
    {
        let follows = FOLLOWING.iter().any(|class| class.word() == part.what);
        part.follows = follows && part.difference_ns * stages > 0.0;
    }
    for group in &mut groups {
        group.moved = !group.incomparable && group.foremost().is_some();
    }
    let seconds = compared.sides.map(|side| side.summary.watch.duration_ns as f64 / 1e9);
    let weight = |group: &TimeGroup| (group.moved, group.weight(seconds));
    groups.compact_sort_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    share_out(&mut groups, seconds);
    groups
}

/// Computes each part's share of all differences.
fn share_out(groups: &mut [TimeGroup], seconds: [f64; 2]) {
    let all: f64 = groups.iter().map(|group| group.weight(seconds)).sum();
    for group in groups {
        let weight = group.weight(seconds);
        let moved = |part: &TimePart| part.moved && !part.follows;
        let own: f64 = group
            .parts
            .iter()
            .filter(|part| moved(part))
            .map(|part| part.difference_ns.abs())
            .sum();
        for part in group.parts.iter_mut().filter(|part| part.moved && !part.follows) {
            part.share = part.difference_ns.abs() / own.max(1e-9) * weight / all.max(1e-9);
        }
    }
}

fn of_requests(
    pair: &DevicePair<'_>,
    direction: Direction,
    alike: LoadSimilarity,
) -> Option<TimeGroup> {
    if !is_enough(pair, direction) {
        return None;
    }
    let both: [&DirectionSummary; 2] = pair.devices.map(|device| &device.directions[direction]);
    // Captures of issues only have no queueing; the stages that both have are compared.
    let has = |at: Interval| both.iter().all(|side| side.intervals[at].is_some());
    let whole_at = if has(Interval::Q2c) { Interval::Q2c } else { Interval::D2c };
    let wholes = both.map(|side| side.intervals[whole_at]);
    let [Some(a), Some(b)] = wholes else { return None };
    if a.requests.min(b.requests) < LEAST_REQUESTS {
        return None;
    }
    let count = [a.requests, b.requests];
    let whole = TimePart::of_stages(whole_at, [a.mean_ns, b.mean_ns], wholes);
    let parts = if whole_at == Interval::D2c {
        vec![whole.clone()]
    } else {
        STAGES.iter().filter_map(|at| stage(&both, *at, count)).collect()
    };
    let names = (pair.names(), Some(direction.word()));
    Some(group(names, count, whole, parts, alike == LoadSimilarity::Different))
}

/// The mean of a stage over all requests, also those without it: with `none` nothing is inserted.
fn stage(both: &[&DirectionSummary; 2], at: Interval, count: [u64; 2]) -> Option<TimePart> {
    let stages = both.map(|side| side.intervals[at]);
    if stages.iter().all(Option::is_none) {
        return None;
    }
    let sum = stages.map(|stage| stage.map_or(0, |stage| stage.sum_ns) as f64);
    let mean = [0, 1].map(|side| sum[side] / count[side].max(1) as f64);
    Some(TimePart::of_stages(at, mean, stages))
}

/// Waits of programs' threads per request, without the time spent on requests.
fn of_waits(compared: &ComparedTimes<'_>, loads: &[PairLoad]) -> Option<TimeGroup> {
    let [a, b] = compared.sides.map(|side| side.summary);
    a.ledger.as_ref().and(b.ledger.as_ref())?;
    let devices: [Vec<&str>; 2] = [0, 1].map(|at| {
        let names = compared.pairs.iter().map(|pair| pair.devices[at].device.as_str());
        names.collect()
    });
    let all = |at: usize| !compared.chosen || compared.sides[at].summary.devices.len() == 1;
    let fits = |at: usize, group: &WaitGroup| {
        all(at) || group.device.as_deref().is_some_and(|device| devices[at].contains(&device))
    };
    let requests = [0, 1].map(|at| {
        let own = compared.pairs.iter().map(|pair| &pair.devices[at].directions);
        own.map(count).fold(0_u64, u64::saturating_add)
    });
    if requests.iter().any(|count| *count < LEAST_REQUESTS) {
        return None;
    }
    let time = |at: usize, class: WaitClass| {
        let groups = compared.sides[at].summary.patterns.waits.iter().filter(|wait| fits(at, wait));
        groups.map(|group| of_class(group, class)).fold(0_u64, u64::saturating_add) as f64
            / requests[at] as f64
    };
    let own = WaitClass::ALL
        .iter()
        .filter(|class| !matches!(class, WaitClass::Device | WaitClass::Queue));
    let parts: Vec<TimePart> = own
        .map(|class| {
            TimePart::new(class.word(), TimeKind::Wait, [time(0, *class), time(1, *class)])
        })
        .filter(|part| part.mean_ns.iter().any(|mean| *mean > 0.0))
        .collect();
    if parts.is_empty() {
        return None;
    }
    // Wait classes are compared with the total wait per request.
    let whole = [0, 1].map(|at| WaitClass::ALL.iter().map(|class| time(at, *class)).sum::<f64>());
    let whole = TimePart::new("blocked", TimeKind::Wait, whole);
    let names = if compared.chosen { compared.pairs[0].names() } else { Default::default() };
    let different = loads.iter().all(|load| load.alike == LoadSimilarity::Different);
    Some(group((names, None), requests, whole, parts, different))
}

fn count(directions: &ByDirection<DirectionSummary>) -> u64 {
    directions.0.iter().map(|direction| direction.requests).sum()
}

/// The part of a group of waits that is of `class`, nanoseconds.
fn of_class(group: &WaitGroup, class: WaitClass) -> u64 {
    let own = if group.class == class { group.class_ns() } else { 0 };
    own + match class {
        WaitClass::Device => group.device_ns,
        WaitClass::Queue => group.queue_ns,
        WaitClass::RunQueue => group.run_queue_ns,
        _ => 0,
    }
}

fn group(
    (devices, direction): ([String; 2], Option<&'static str>),
    requests: [u64; 2],
    whole: TimePart,
    mut parts: Vec<TimePart>,
    incomparable: bool,
) -> TimeGroup {
    let longer = whole.mean_ns[0].max(whole.mean_ns[1]);
    for part in &mut parts {
        let distance = part.difference_ns.abs();
        part.moved = distance >= LEAST_NS && distance >= MOVED * longer;
    }
    parts.compact_sort_by(|a, b| b.difference_ns.abs().total_cmp(&a.difference_ns.abs()));
    TimeGroup { devices, direction, requests, whole, parts, moved: false, incomparable }
}
