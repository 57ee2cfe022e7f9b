//! The first sentence of a comparison: the load, what takes longer, and differences that can
//! explain it.

use super::doubts::both;
use super::environment::Difference;
use super::load::{LoadSimilarity, PairLoad};
use super::times::{TimeGroup, TimeKind, TimePart};
use super::work::WorkTime;
use super::{ComparedTimes, DiffVerdict};
use crate::words;
use iowhy_model::WaitClass;

/// Maximum number of differences of the environment in it.
const NAMED: usize = 2;
/// Medians that differ by less than this factor are equal; then the tail differs.
const ALIKE: f64 = 1.1;
/// Factor from which tails differ.
const TAIL: f64 = 1.5;

/// The subject of the sentence.
pub(super) struct SentenceParts<'a> {
    pub compared: &'a ComparedTimes<'a>,
    pub loads: &'a [PairLoad],
    pub times: &'a [TimeGroup],
    pub work: &'a [WorkTime],
}

impl SentenceParts<'_> {
    /// The sentence.
    pub fn sentence(&self, verdict: DiffVerdict, environment: &[Difference]) -> String {
        let (loads, times) = (self.loads, self.times);
        match verdict {
            DiffVerdict::NotEnough => match self.gained() {
                Some(gained) => format!("too few requests to compare stages: {gained}"),
                None => "not enough data to compare".to_owned(),
            },
            DiffVerdict::Stalled => self.stalled(),
            DiffVerdict::LoadDiffers => {
                let reasons = loads.iter().find(|load| load.alike == LoadSimilarity::Different);
                let reasons = reasons.map(|reason| reason.reasons.join("; ")).unwrap_or_default();
                match self.gained() {
                    Some(gained) => format!("the loads differ ({reasons}): {gained}"),
                    None => format!("the loads differ too much to compare times: {reasons}"),
                }
            }
            DiffVerdict::Same => {
                let text = opening(worst(loads), loads);
                format!("{text}, and no stage takes longer in one than in the other")
            }
            DiffVerdict::TailDiffers => slowest(loads, times),
            DiffVerdict::Moved => moved(loads, times, environment),
        }
    }

    /// Returns how the time for each call changed, of the program with most time, whatever the
    /// requests.
    fn gained(&self) -> Option<String> {
        let WorkTime { process, call, time_ns: [a, b], differs, .. } = self.work.first()?;
        if !differs {
            let time = words::time(*b);
            return Some(format!("{process} takes the same {time} for each {call} in both"));
        }
        let (word, times) = if b < a { ("faster", a / b) } else { ("slower", b / a) };
        Some(format!(
            "{process} is {} times {word} in B, {} for each {call} against {}",
            words::number(times),
            words::time(*b),
            words::time(*a),
        ))
    }

    /// Requests that completed before a device stalled do not represent those that wait.
    fn stalled(&self) -> String {
        let Some((which, device)) = self.compared.stalled() else { return String::new() };
        format!(
            "{} completed nothing in the last {} of {} and did not stall in {}: the times of what \
             completed are not what matters",
            device.device,
            words::time(device.stalled_ns.unwrap_or(0) as f64),
            which.word(),
            which.other().word(),
        )
    }
}

fn worst(loads: &[PairLoad]) -> LoadSimilarity {
    let comparable =
        loads.iter().map(|load| load.alike).filter(|alike| *alike != LoadSimilarity::Different);
    comparable.max().unwrap_or(LoadSimilarity::Same)
}

/// The means are equal; the slowest requests are not.
fn slowest(loads: &[PairLoad], times: &[TimeGroup]) -> String {
    let found =
        times.iter().filter(|time| !time.incomparable).find_map(|time| Some((time, time.tail()?)));
    let Some((group, part)) = found else { return String::new() };
    let [a, b] = part.p999_ns.map(|p999_ns| p999_ns.unwrap_or(0) as f64);
    // The larger mean may be the other side's.
    let part = TimePart { mean_ns: [a, b], ..part.clone() };
    let (slow, fast) = if a > b { (a, b) } else { (b, a) };
    format!(
        "{} and the same mean time; the slowest differ: in {} 0.1 % take {} and more against {} \
         for each {}",
        opening(worst(loads), loads),
        part.what.to_uppercase(),
        words::time(slow),
        words::time(fast),
        of_what(group, &part),
    )
}

/// `same load`, or `similar load (reads of 4.00 KiB against 6.00 KiB)`.
fn opening(alike: LoadSimilarity, loads: &[PairLoad]) -> String {
    let reason =
        loads.iter().find(|load| load.alike == alike).and_then(|load| load.reasons.first());
    match (alike, reason) {
        (LoadSimilarity::Same, _) | (_, None) => "same load".to_owned(),
        (_, Some(reason)) => format!("similar load ({reason})"),
    }
}

fn moved(loads: &[PairLoad], times: &[TimeGroup], environment: &[Difference]) -> String {
    let first = times.iter().find(|group| group.moved);
    let Some((group, part)) = first.and_then(|group| Some((group, group.foremost()?))) else {
        return String::new();
    };
    let load = loads.iter().find(|load| load.devices == group.devices);
    let alike = load.or(loads.first()).map_or(LoadSimilarity::Same, |load| load.alike);
    let mut text = format!(
        "{}, {} more {} for each {}{}",
        opening(alike, loads),
        words::time(part.difference_ns.abs()),
        place(part),
        of_what(group, part),
        tail(part),
    );
    let slower = part.slower();
    let beside: Vec<String> = part
        .beside
        .iter()
        .filter_map(|place| environment.get(*place))
        .take(NAMED)
        .map(|difference| {
            let value = |at: usize| difference.values[at].as_deref().unwrap_or("none");
            let name = difference.name.strip_prefix("queue/").unwrap_or(&difference.name);
            format!("{name} {} against {}", value(slower.index()), value(slower.other().index()))
        })
        .collect();
    if !beside.is_empty() {
        text.push_str(": ");
        text.push_str(&beside.join("; "));
    } else if part.what == "d2c" {
        text.push_str(
            ": no setting differs that could explain it, so it is the device or what is behind it",
        );
    }
    text
}

/// `in I2D`, or `of waits (cgroup limit)`.
fn place(part: &TimePart) -> String {
    match part.kind {
        TimeKind::Stage => format!("in {}", part.what.to_uppercase()),
        TimeKind::Wait => format!("of waits ({})", WaitClass::phrase_of(part.what)),
    }
}

/// `read of sda in B`; `read of sdb than of sda`.
fn of_what(group: &TimeGroup, part: &TimePart) -> String {
    let slower = part.slower();
    let noun = group.direction.unwrap_or("request");
    if group.devices[0] == group.devices[1] {
        let of = if group.devices[0].is_empty() {
            String::new()
        } else {
            format!(" of {}", group.devices[0])
        };
        return format!("{noun}{of} in {}", slower.word());
    }
    if group.direction.is_none() {
        return format!("{noun} of {} in {}", both(&group.devices), slower.word());
    }
    let of = |at: usize| &group.devices[at];
    format!("{noun} of {} than of {}", of(slower.index()), of(slower.other().index()))
}

/// Returns the difference of the slow requests, if the medians are equal.
fn tail(part: &TimePart) -> String {
    let known = |pair: [Option<u64>; 2]| match pair {
        [Some(a), Some(b)] if a > 0 && b > 0 => Some([a as f64, b as f64]),
        _ => None,
    };
    let factor = |pair: [f64; 2]| (pair[0] / pair[1]).max(pair[1] / pair[0]);
    let (Some(p50), Some(p999)) = (known(part.p50_ns), known(part.p999_ns)) else {
        return String::new();
    };
    if factor(p50) > ALIKE || factor(p999) < TAIL {
        return String::new();
    }
    let slower = part.slower();
    format!(
        ", in the tail (p99.9 {} against {}; the median is equal)",
        words::time(p999[slower.index()]),
        words::time(p999[slower.other().index()]),
    )
}
