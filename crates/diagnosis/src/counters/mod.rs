//! Findings from counters and the kernel's log alone: known causes from the summaries of other
//! tools, which tell of devices, of the machine and of processes by the interval, and of no
//! request.
//!
//! A counter shows that something takes time, seldom who is to blame. So a finding here is
//! `certain` only if the kernel or a drive said it in words, and what a summary cannot tell stays
//! among the causes that could not be judged.
//!
//! | where | what |
//! |---|---|
//! | `load` | what a device did, whichever counters there are |
//! | `devices` | slow, capped and hung devices, flushes, discards, bursts |
//! | `machine` | swapping, memory, CPUs, blocked threads |
//! | `log` | errors, hung tasks, servers, arrays that rebuild |
//!
//! What does not belong here: data with requests (see [`super::rules`]), and other tools' formats
//! (crate `iowhy-foreign`).

mod devices;
mod load;
mod log;
mod machine;
#[cfg(test)]
mod tests;

use super::bottleneck::DEVICE_SATURATED;
use super::facts::Facts;
use super::facts::thresholds::MOST;
use super::finding::{Confidence, Finding, FindingLayer, ImpactOf, Severity};
use super::place::Place;
use super::rule::Rule;
use super::words;
use iowhy_analysis::summary::Summary;
use iowhy_model::Metric;
use iowhy_model::compact_sort::CompactSort;
use load::CountedLoad;

/// The most devices that a sentence names.
const NAMED: usize = 3;

/// A sentence on what counters alone say: there is nothing else in the data.
pub(super) fn sentence(summary: &Summary) -> String {
    let used = loads(summary);
    let said: Vec<String> = used.iter().take(NAMED).map(load_words).collect();
    let source = &summary.environment.source;
    let devices = match said.is_empty() {
        true => format!("No problem is visible in {source}, which has no device's requests."),
        false => format!(
            "Only counters are known, from {source}: {}. Who, which file and why is not in them.",
            said.join("; ")
        ),
    };
    match machine_words(summary) {
        Some(machine) => format!("{devices} {machine}"),
        None => devices,
    }
}

/// Words on how busy a device was, and how long its requests took.
fn load_words(load: &CountedLoad<'_>) -> String {
    let mean = load.mean_ns().map(|ns| format!(", {} each request", words::time(ns)));
    let busy = load
        .util
        .filter(|util| *util > 0.0)
        .map(|util| format!(" busy {} of the time", words::percent(util)));
    format!("{}{}{}", load.name(), busy.unwrap_or_default(), mean.unwrap_or_default())
}

/// A finding of a rule, not yet complete: a warning, or what else is given, that takes a share of
/// the time, 0 to 1.
fn of_counters(of: Rule, share: f64, severity: Severity, sentence: String) -> Finding {
    Finding::of_share(ImpactOf::DeviceTime, share, share, sentence)
        .of_rule(&of)
        .upper_bound()
        .at_least(severity)
        .at_most(severity)
}

/// A finding of a rule that the source tells of, without its share of any time; `weight`, 0 to 1,
/// orders it among others.
fn of_messages(of: Rule, weight: f64, severity: Severity, sentence: String) -> Finding {
    of_counters(of, weight, severity, sentence).without_share()
}

/// Whether there is nothing but counters and messages.
pub(super) fn are_all(summary: &Summary) -> bool {
    summary.environment.is_imported()
        && summary.watch.requests == 0
        && summary.patterns.waits.is_empty()
}

/// Adds what counters say to what rules found in them, and puts both in order: the more severe
/// first, then what acts earlier.
pub(super) fn with_counters(found: Vec<Finding>, facts: &Facts<'_>) -> Vec<Finding> {
    if !are_all(facts.summary()) {
        return found;
    }
    let mut own: Vec<Finding> = log::findings(facts)
        .into_iter()
        .chain(machine::findings(facts))
        .chain(devices::findings(facts))
        .map(|finding| finding.complete(FindingLayer::Cause, facts))
        .filter(Finding::matters)
        .collect();
    let mut kept: Vec<Finding> = Vec::new();
    for mut other in found {
        name_user(&mut other, facts);
        let is_same = |finding: &Finding| {
            finding.cause == other.cause
                && (finding.subject.device == other.subject.device
                    || finding.subject.device.is_none())
        };
        if own.iter().any(is_same) {
            continue;
        }
        match own.iter().position(|finding| explains(finding, &other)) {
            Some(at) => own[at].explain(&other),
            None => kept.push(other),
        }
    }
    kept.extend(own);
    kept.compact_sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.place));
    kept
}

/// Whether a cause explains that a device is saturated: it is that device's, or the traffic is that
/// of memory.
fn explains(cause: &Finding, other: &Finding) -> bool {
    let is_near = cause.subject.device == other.subject.device
        || cause.subject.device.is_none() && cause.place == Place::Memory;
    other.layer == FindingLayer::Bottleneck
        && is_near
        && cause.severity > Severity::Info
        && cause.confidence >= Confidence::Likely
}

/// Names the process that causes most of the bytes, where `pidstat` or `iotop` tells.
fn name_user(finding: &mut Finding, facts: &Facts<'_>) {
    if finding.cause != DEVICE_SATURATED.cause || finding.subject.process.is_some() {
        return;
    }
    let Some((user, share)) = main_user(facts) else { return };
    let (pid, name) = user.split_once(' ').unwrap_or(("", user));
    finding.subject.process = Some(name.to_owned());
    finding.subject.pid = pid.parse().ok();
    finding.sentence = format!(
        "{}; {name} ({pid}) causes {} of the bytes of all processes",
        finding.sentence,
        super::words::percent(share),
    );
}

/// The process with most bytes read and written, and its share.
fn main_user<'a>(facts: &Facts<'a>) -> Option<(&'a str, f64)> {
    let samples = &facts.summary().samples;
    let mut bytes = std::collections::BTreeMap::<&str, f64>::new();
    for metric in [Metric::CausedRead, Metric::CausedWrite] {
        for series in samples.of(metric) {
            *bytes.entry(series.subject.as_str()).or_default() += series.grown();
        }
    }
    let all: f64 = bytes.values().sum();
    let (user, most) = bytes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most > MOST * all).then_some((user, most / all.max(1.0)))
}

/// Returns the load of the machine's CPUs and threads, in a sentence; `None` if the data does not
/// tell.
pub(super) fn machine_words(summary: &Summary) -> Option<String> {
    machine::words(summary)
}

/// Returns the loads of devices, busiest first.
pub(super) fn loads<'a>(summary: &'a Summary) -> Vec<CountedLoad<'a>> {
    let mut loads: Vec<CountedLoad<'a>> =
        summary.devices.iter().filter_map(CountedLoad::new).collect();
    loads.compact_sort_by(|a, b| b.util.unwrap_or(0.0).total_cmp(&a.util.unwrap_or(0.0)));
    loads
}
