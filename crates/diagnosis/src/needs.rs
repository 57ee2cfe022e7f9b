//! The data that a watch needs to rule out a cause. A rule that finds nothing because its data is
//! missing reports that, instead of "not detected".
//!
//! What does not belong here: what a rule needs to find its cause (each checks that itself).

use super::facts::Facts;
use super::facts::thresholds::MOST;
use super::missing::Missing;
use super::words;
use iowhy_model::Origin;

/// Bins longer than this hide bursts that come every few seconds, nanoseconds: the kernel's flusher
/// wakes up every 5 s (vm.dirty_writeback_centisecs).
const COARSE_NS: u64 = 5_000_000_000;

/// Data that a watch may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Waits of threads.
    Waits,
    /// Threads that waited for a thread that waited for storage.
    Chains,
    /// The submitters of requests.
    Processes,
    /// Code paths of requests.
    Stacks,
    /// Files of requests.
    Files,
    /// Calls of programs on files.
    Calls,
    /// The origins of requests.
    Origins,
    /// The times at which requests were queued.
    Queueing,
    /// Settings, mounts and lower devices.
    Settings,
    /// Bins short enough to show what recurs every few seconds.
    FineTime,
}

/// Returns what is missing to rule a cause out that has these needs; `None` where nothing is, or
/// where there was nothing to see.
pub(super) fn missing(needs: &[Need], facts: &Facts<'_>) -> Option<String> {
    let summary = facts.summary();
    if summary.watch.requests == 0 {
        let nothing = "the data has neither requests nor waits";
        return summary.environment.is_imported().then(|| nothing.to_owned());
    }
    needs.iter().find_map(|need| lacks(*need, facts))
}

fn lacks(need: Need, facts: &Facts<'_>) -> Option<String> {
    let message = |missing: Result<(), Missing>| missing.err().map(|missing| missing.0);
    let unless = |there: bool, what: &str| (!there).then(|| format!("{what} are not in the data"));
    let summary = facts.summary();
    match need {
        Need::Waits => message(facts.need_waits()),
        Need::Chains if summary.environment.waits_one_in().is_some() => Some(sampled("waits")),
        Need::Chains => unless(
            summary.environment.fills("wait_chains"),
            "threads that waited for a waiting thread",
        ),
        Need::Processes => message(facts.need_processes()),
        Need::Stacks => message(facts.need_stacks()),
        Need::Queueing => message(facts.need_queueing()),
        Need::Files => message(facts.need_files()),
        Need::Calls if summary.environment.lacks_calls() => Some(sampled("calls on files")),
        Need::Calls => unless(summary.activity.is_some(), "calls on files"),
        Need::Origins => unless(knows_origins(facts), "the origins of requests"),
        Need::Settings => unless(knows_settings(facts), "settings and mounts"),
        Need::FineTime => {
            let timelines = summary.patterns.devices.iter().map(|device| device.timeline.bin_ns);
            let longest = timelines.max().filter(|bin_ns| *bin_ns > COARSE_NS)?;
            Some(format!(
                "a watch this long is kept in steps of {}: watch for some minutes",
                words::time(longest as f64)
            ))
        }
    }
}

/// Returns the reason why a sample is not enough, where a single occurrence would decide.
fn sampled(what: &str) -> String {
    format!("the budget left out some {what} (--every records all)")
}

fn knows_origins(facts: &Facts<'_>) -> bool {
    let rows = &facts.summary().origins.rows;
    let all: u64 = rows.iter().map(|row| row.usage.requests).fold(0, u64::saturating_add);
    let unknown = rows.iter().filter(|row| row.subject.origin == Origin::Unknown);
    let unknown: u64 = unknown.map(|row| row.usage.requests).fold(0, u64::saturating_add);
    (unknown as f64) < MOST * all.max(1) as f64
}

fn knows_settings(facts: &Facts<'_>) -> bool {
    facts.devices().iter().any(|device| !device.settings.is_empty())
}
