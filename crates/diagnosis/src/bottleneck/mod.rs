//! The layer below the named causes: where threads wait most, from the ledger alone.
//!
//! A bottleneck names the process, the call, the file and the device of the waits, their mean
//! length, and what bounds them. It claims no mechanism: a named cause that explains the same time
//! ranks above it (see `rank`). It is a warning only if waits are slow by the standards of the
//! field (see `bound`); below that it is information.
//!
//! | where | what |
//! |---|---|
//! | `kind` | the kind of call that a wait is in |
//! | `group` | the waits of one kind for one device, by program |
//! | `bound` | what bounds them, and whether they are slow |
//! | `backlog` | reads of the same program that nobody waits for |
//! | `saturated` | a saturated device, with or without waits for it |
//! | `report` | the finding: sentence, evidence, fix and check |
//!
//! What does not belong here: mechanisms (see [`super::rules`]), and names of programs (see
//! [`super::programs`]).

mod backlog;
pub(super) mod bound;
pub(super) mod group;
pub(super) mod kind;
mod report;
mod saturated;
#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::facts::thresholds::{MOST, WARNING_SHARE};
use super::finding::{Finding, FindingLayer};
use super::place::Place;
use super::rule::{Judged, Rule, RuleVerdict};
use iowhy_analysis::summary::ChainRow;
use iowhy_analysis::summary::patterns::WaitGroup;
use kind::BottleneckKind;

/// Every bottleneck, with its explanation.
pub const ALL: &[Rule] = &[
    Rule {
        trial: Some("sync=none"),
        ..rule(
            "slow-sync",
            "threads wait for syncs",
            "A call such as fsync returns when the data, the journal's commit and the device's \
             cache are on stable storage. A thread that commits waits for all of that, one commit \
             after another.",
            "Syncs that take less than a few milliseconds, or that nobody waits for.",
            |facts| wait(facts, BottleneckKind::Sync),
        )
    },
    rule(
        "slow-reads",
        "threads wait for reads",
        "A read that misses the page cache waits for the device, and for the requests queued ahead \
         of it.",
        "Reads take less than ten milliseconds on a device that is not saturated.",
        |facts| wait(facts, BottleneckKind::Read),
    ),
    rule(
        "slow-writes",
        "threads wait for writes",
        "A direct or synchronous write waits for the device; a buffered one waits if the page \
         cache, the journal or a lock blocks it.",
        "The writer is only throttled to the speed of its device, and no other thread waits.",
        |facts| wait(facts, BottleneckKind::Write),
    ),
    rule(
        "slow-metadata",
        "threads wait for metadata",
        "Calls such as open, stat, rename and unlink read directories and inodes one at a time, \
         and change them under the journal and its locks.",
        "Calls are served from memory, or take less than ten milliseconds.",
        |facts| wait(facts, BottleneckKind::Metadata),
    ),
    rule(
        "slow-async",
        "threads wait for asynchronous I/O completions",
        "A program that keeps many requests in flight sleeps until some complete. That is normal \
         unless each request is slow.",
        "Requests complete within ten milliseconds: the program chose its own depth.",
        |facts| wait(facts, BottleneckKind::Async),
    ),
    rule(
        "memory-wait",
        "threads wait for memory",
        "A thread that needs a page waits while the kernel reclaims one, or while its own page is \
         read back from swap.",
        "The waits are short, or no memory limit is reached.",
        |facts| wait(facts, BottleneckKind::Memory),
    ),
    BLOCKED_UNKNOWN,
    DEVICE_SATURATED,
];

/// Waits of which the call and the kernel's functions are not known.
pub(super) const BLOCKED_UNKNOWN: Rule = rule(
    "blocked-unknown",
    "threads are blocked on storage in an unknown place",
    "The kernel reports that these threads sleep for storage; the call and the kernel \
     functions that they wait in are not in the data.",
    "A recording with kernel stacks names the functions.",
    |facts| wait(facts, BottleneckKind::Unknown),
);
/// A device that is at its limit, with or without waits for it.
pub(super) const DEVICE_SATURATED: Rule = rule(
    "device-saturated",
    "saturated device",
    "If a device always has more requests in flight than it serves in parallel, every further \
     request waits for those ahead of it.",
    "The device can serve more requests in parallel than it gets: busy is not its limit.",
    saturated::judge,
);

/// Returns a bottleneck as a rule, so that it is judged and explained like one.
const fn rule(
    cause: &'static str,
    title: &'static str,
    mechanism: &'static str,
    changes: &'static str,
    judge: fn(&Facts<'_>) -> RuleVerdict,
) -> Rule {
    Rule { cause, title, mechanism, changes, judge, ..Rule::USUAL }
}

fn wait(facts: &Facts<'_>, kind: BottleneckKind) -> RuleVerdict {
    let judged = || -> Judged {
        facts.need_waits()?;
        let groups = group::all(facts, kind);
        let group = groups.first().ok_or(RuleVerdict::Clear)?;
        Ok(report::finding(facts, group).into())
    };
    judged().unwrap_or_else(Into::into)
}

/// Returns where threads wait, for each kind of call and each device; a kind that the data cannot
/// show is not a bottleneck.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let complete = |rule: &Rule, finding: Finding| {
        finding.of_rule(rule).complete(FindingLayer::Bottleneck, facts)
    };
    let mut found: Vec<Finding> = Vec::new();
    for (rule, kind) in ALL.iter().zip(KINDS) {
        if facts.need_waits().is_ok() {
            let groups = group::all(facts, *kind);
            found.extend(groups.iter().map(|group| complete(rule, report::finding(facts, group))));
        }
    }
    if let RuleVerdict::Finding(finding) = saturated::judge(facts) {
        found.push(complete(&DEVICE_SATURATED, *finding));
    }
    found.retain(Finding::matters);
    found
}

/// The kinds of the bottlenecks in [`ALL`], in its order; the saturated device has none.
const KINDS: &[BottleneckKind] = &[
    BottleneckKind::Sync,
    BottleneckKind::Read,
    BottleneckKind::Write,
    BottleneckKind::Metadata,
    BottleneckKind::Async,
    BottleneckKind::Memory,
    BottleneckKind::Unknown,
];

/// What is said of waits if nothing is worth a warning.
pub(super) struct QuietWaits {
    /// Whom storage holds up most, for what, and what bounds it; that nobody is if no program loses
    /// a tenth of its time.
    pub sentence: String,
    /// Whether that program does little else than wait.
    pub is_bound: bool,
    /// Whether the sentence says why: by a cause that is no warning.
    pub is_explained: bool,
}

impl QuietWaits {
    fn from_sentence(sentence: String) -> QuietWaits {
        QuietWaits { sentence, is_bound: false, is_explained: false }
    }
}

/// Returns the sentence about waits if nothing is worth a warning, with what was found that is
/// none; `None` if waits are not in the data.
pub(super) fn quiet(facts: &Facts<'_>, found: &[Finding]) -> Option<QuietWaits> {
    let ledger = facts.summary().ledger.as_ref()?;
    let time = super::words::time(ledger.blocked_ns as f64);
    let seconds = super::words::time(facts.duration_ns() as f64);
    let threads = ledger.blocked_ns as f64 / facts.duration_ns().max(1) as f64;
    let all_kinds = KINDS.iter().flat_map(|kind| group::all(facts, *kind));
    let most = all_kinds
        .max_by_key(|group| group.programs.first().map_or(0, |program| program.waited.time_ns));
    let held = most.as_ref().and_then(|group| held_up(facts, group, found));
    if let Some(held) = held.or_else(|| behind(facts).map(QuietWaits::from_sentence)) {
        return Some(held);
    }
    Some(QuietWaits::from_sentence(match threads {
        _ if ledger.blocked_ns == 0 => format!("No thread waits for storage within {seconds}."),
        share if share < NOBODY => {
            format!("Threads hardly wait for storage: {time} in total within {seconds}.")
        }
        share if share < WARNING_SHARE => {
            format!("No program waits for storage much: {time} in total within {seconds}.")
        }
        _ => format!(
            "Threads wait for storage {time} in total within {seconds}: nothing that is worth a \
             warning."
        ),
    }))
}

/// Returns who waits in a group of waits, and what bounds it, if it loses a tenth of its time.
fn held_up(
    facts: &Facts<'_>,
    group: &group::GroupedWaits<'_>,
    found: &[Finding],
) -> Option<QuietWaits> {
    let program = group.programs.first()?;
    let share = program.waited.time_ns as f64 / facts.duration_ns().max(1) as f64;
    if share < WARNING_SHARE {
        return None;
    }
    let bound = bound::bound(group);
    let call = program.call(facts).map_or_else(|| group.kind.doing().to_owned(), str::to_owned);
    let how_long = match share {
        share if share < 1.0 => format!("{} of the time", super::words::percent(share)),
        share => format!("with {} threads at a time", super::words::number(share)),
    };
    let first = program.waited.groups.first();
    let not_helped = first.and_then(|group| facts.not_helped(group));
    let mut sentence = format!(
        "{} waits {how_long} in {call}, {} each: bounded by {}{}.",
        program.process,
        super::words::time(program.waited.mean_ns()),
        bound.by,
        not_helped.map(|why| format!("; {why}")).unwrap_or_default(),
    );
    let is_bound = share >= MOST;
    let is_about = |finding: &&Finding, layer| {
        let subject = &finding.subject;
        let is_here = group.device.map(|it| &it.device) == subject.device.as_ref();
        finding.layer == layer && is_here && subject.process.as_deref() == Some(program.process)
    };
    let of_layer = |layer| found.iter().find(|it| is_bound && is_about(it, layer));
    let is_background = first.is_some_and(|group| facts.is_background(group));
    let is_meant = |wait: &WaitGroup| {
        wait.process == program.process && BottleneckKind::new(facts, wait) == group.kind
    };
    let tells = |cause: &&Finding| {
        let is_of_it = cause.claims.share_of_waits(facts, is_meant) >= MOST;
        // What works in the background may take its time, unless something is set up so.
        is_of_it && (!is_background || cause.place == Place::Setting)
    };
    if let Some(cause) = of_layer(FindingLayer::Cause).filter(tells) {
        sentence += &format!(" Because: {}. What helps: {}.", cause.sentence, cause.fix);
        return Some(QuietWaits { sentence, is_bound, is_explained: true });
    }
    // Who waits for little else is as fast as the device: less work is all that helps.
    let own = of_layer(FindingLayer::Bottleneck).and_then(|finding| finding.advice);
    let own = own.or_else(|| group.kind.advice(&program.waited.subject()));
    if let Some(advice) = own.filter(|_| is_bound && !is_background) {
        sentence += &format!(" What helps: {advice}.");
    }
    Some(QuietWaits { sentence, is_bound, is_explained: false })
}

/// Returns who waits for another thread that waits for storage, if each loses a tenth of its time.
fn behind(facts: &Facts<'_>) -> Option<String> {
    let rows = facts.chains();
    let share = |row: &&ChainRow| {
        let threads = row.steps.first().map_or(1, |first| first.threads.max(1));
        row.time_ns as f64 / threads as f64 / facts.duration_ns().max(1) as f64
    };
    let all = rows.filter(|row| !row.is_in_ledger);
    let most = all.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let (share, first) = (share(&most), most.steps.first()?);
    let holder = super::convoy::holder(most);
    let share = (share >= WARNING_SHARE).then(|| super::words::percent(share))?;
    Some(format!("{} waits {share} of the time for {holder}.", first.process))
}

/// The mean number of blocked threads below which no thread waits: what the kernel's documentation
/// of pressure stall information shows for an idle machine rounds to 0.00 %; one thread blocked 1 %
/// of the time is the least that a finding reports ([`super::finding`]).
const NOBODY: f64 = super::finding::LEAST_IMPACT;
