//! The layer below the named causes: where threads wait most, told from the ledger alone.
//!
//! A bottleneck says who waits in which call for which file and device, how long each wait is, and
//! what bounds it. It claims no mechanism: a named cause that explains the same time stands above
//! it (see `rank`). It is worth a warning only where waits are slow by the standards of the field
//! (see `bound`); below that it is information.
//!
//! | where | what |
//! |---|---|
//! | `kind` | what sort of call a wait is in |
//! | `group` | the waits of one sort for one device, by program |
//! | `bound` | what bounds them, and whether they are slow |
//! | `saturated` | a device that is busy all the time, whatever waits for it |
//! | `report` | the finding: sentence, evidence, fix and check |
//!
//! What does not belong here: mechanisms (see [`super::rules`]), and names of programs (see
//! [`super::programs`]).

pub(super) mod bound;
pub(super) mod group;
pub(super) mod kind;
mod report;
mod saturated;
#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::needs::Need;
use super::rule::{Judged, Rule, Verdict};
use kind::Kind;

/// Every bottleneck, with the page that explains it.
pub const ALL: &[Rule] = &[
    rule(
        "slow-sync",
        "threads wait until data is durable",
        "A call such as fsync returns when the data, the journal's commit and the device's cache \
         are on stable storage. A thread that commits waits for all of that, one commit after another.",
        "Syncs that take less than a few milliseconds, or that nobody waits for.",
        |facts| wait(facts, Kind::Sync),
    ),
    rule(
        "slow-reads",
        "threads wait for reads",
        "A read that the page cache cannot answer waits for the device, and for the requests that \
         are ahead of it there.",
        "Reads that take less than ten milliseconds on a device that is not saturated.",
        |facts| wait(facts, Kind::Read),
    ),
    rule(
        "slow-writes",
        "threads wait for writes",
        "A direct or synchronous write waits for the device; a buffered one waits where the page \
         cache, the journal or a lock makes it.",
        "A writer that is only held to the speed of its device, with nobody else who waits.",
        |facts| wait(facts, Kind::Write),
    ),
    rule(
        "slow-metadata",
        "threads wait for names, directories and attributes",
        "Calls such as open, stat, rename and unlink read directories and inodes one at a time, \
         and change them under the journal and its locks.",
        "Calls that are answered from memory, or that take less than ten milliseconds.",
        |facts| wait(facts, Kind::Metadata),
    ),
    rule(
        "slow-async",
        "threads wait for completions of asynchronous I/O",
        "A program that keeps many requests in flight sleeps until some complete. That is how it \
         should be unless each request is slow.",
        "Requests that complete within ten milliseconds: the program chose its own depth.",
        |facts| wait(facts, Kind::Async),
    ),
    rule(
        "memory-wait",
        "threads wait for memory",
        "A thread that needs a page waits while the kernel frees one, or while its own page comes \
         back from swap.",
        "Waits that are short, or a limit of memory that nobody reaches.",
        |facts| wait(facts, Kind::Memory),
    ),
    rule(
        "blocked-unknown",
        "threads are blocked in storage, in a way that iowhy does not know",
        "The kernel says that these threads sleep for storage; which call or which part of the \
         kernel they wait in is not in the data.",
        "A recording with kernel stacks, which names the part.",
        |facts| wait(facts, Kind::Unknown),
    ),
    rule(
        "device-saturated",
        "a device that is busy all the time",
        "A device that always has requests in flight, more than it serves at once, makes every \
         further request wait for those ahead of it.",
        "A device that serves more requests at once than it is given: busy is not its limit.",
        saturated::judge,
    ),
];

/// A bottleneck as a rule, so that it is judged and explained like one.
const fn rule(
    cause: &'static str,
    title: &'static str,
    mechanism: &'static str,
    changes: &'static str,
    judge: fn(&Facts<'_>) -> Verdict,
) -> Rule {
    let needs: &[Need] = &[];
    Rule { cause, title, mechanism, changes, judge, needs, symptoms: &[], symptoms_of_file: &[] }
}

fn wait(facts: &Facts<'_>, kind: Kind) -> Verdict {
    let judged = || -> Judged {
        facts.need_waits()?;
        let Some(group) = group::largest(facts, kind) else { return Ok(Verdict::Clear) };
        Ok(report::finding(facts, &group).into())
    };
    judged().unwrap_or_else(Into::into)
}

/// What to say of the waits of a watch in which nothing is worth a warning; `None` where waits are
/// not in the data.
pub(super) fn quiet(facts: &Facts<'_>) -> Option<String> {
    let ledger = facts.summary().ledger.as_ref()?;
    let time = super::words::time(ledger.blocked_ns as f64);
    let seconds = super::words::time(facts.duration_ns() as f64);
    let threads = ledger.blocked_ns as f64 / facts.duration_ns().max(1) as f64;
    Some(match threads {
        it if it < NOBODY => {
            format!("No thread waits for storage: {time} in all within {seconds}.")
        }
        _ => format!("Threads were blocked {time} in all within {seconds}."),
    })
}

/// Threads blocked on average over the watch below which nobody waits: what the kernel's
/// documentation of pressure stall information shows for an idle machine rounds to 0.00 %; one
/// thread blocked 1 % of the time is the least that a finding says ([`super::finding`]).
const NOBODY: f64 = super::finding::LEAST_IMPACT;
