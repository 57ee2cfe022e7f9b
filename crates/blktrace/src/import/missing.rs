//! Limits of a capture whose source did not record some events: the events, the figures that are
//! unknown without them, and the command that records them.
//!
//! What does not belong here: losses (see [`super`]), which the source meant to record.

use crate::trace::Action;
use iowhy_model::figures::counted;

/// Actions, and the figures that are unknown without them.
const NEEDED: &[(Action, &str, &str)] = &[
    (Action::Queue, "Q", "who asked, and how long requests waited"),
    (Action::GetRequest, "G", "the wait for a request and for tags"),
    (Action::Issue, "D", "which part of a latency is the device's"),
    (Action::Complete, "C", "latencies and %util; requests are counted when they were issued"),
];

/// The command by which each source records all events.
const RECORDED_BY: &[(&str, &str)] =
    &[("ftrace", "`trace-cmd record -e block`"), ("perf", "`perf record -a -e 'block:*'`")];
const BY_BLKTRACE: &str = "`blktrace -d DEVICE` without -a";

/// One sentence on the actions of which `counts`, by number, has none.
pub(super) fn actions(counts: &[u64; 32], tools: &str) -> Option<String> {
    let has = |action: Action| counts.get(action as usize).is_some_and(|count| *count > 0);
    let missing: Vec<_> = NEEDED.iter().filter(|(action, ..)| !has(*action)).collect();
    if missing.is_empty() {
        return None;
    }
    let letters: Vec<String> =
        missing.iter().map(|(_, letter, _)| format!("no {letter}")).collect();
    let unknown: Vec<&str> = missing.iter().map(|(.., unknown)| *unknown).collect();
    let by = RECORDED_BY.iter().find(|(tool, _)| *tool == tools);
    Some(format!(
        "it holds {}: not known is {}; {} records them",
        letters.join(", "),
        unknown.join("; "),
        by.map_or(BY_BLKTRACE, |(_, command)| command),
    ))
}

/// Requests of a device and kind of which no end is in the data.
pub(super) fn never_logged(
    counts: &[(u32, u64, u64)],
    name: impl Fn(u32) -> String,
) -> Vec<String> {
    let sentence = |(number, all, flushes): &(u32, u64, u64)| {
        let of = if flushes == all { ", all of them flushes," } else { "" };
        let meaning = format!(
            "requests of {}{of} never ended in the data, nor did any other of their kind: the \
             source does not log such ends, so nothing is known of their times",
            name(*number)
        );
        counted(*all, &meaning)
    };
    counts.iter().map(sentence).collect()
}

/// Returns sentences on the data that no such capture has.
pub(super) fn always(tools: &str) -> [String; 2] {
    [
        format!(
            "{tools} sees the block layer only: no files, cgroups, stacks or system calls, and no \
             wait before a request is queued"
        ),
        "its PIDs are those of threads, each under the first name that the thread had".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_records_it() {
        let mut counts = [1; 32];
        assert_eq!(actions(&counts, "blktrace"), None);
        counts[Action::Complete as usize] = 0;
        let sentence = actions(&counts, "blkparse").unwrap();
        assert!(sentence.starts_with("it holds no C: not known is latencies"), "{sentence}");
        assert!(sentence.contains("blktrace -d"), "{sentence}");
        counts[Action::Queue as usize] = 0;
        let sentence = actions(&counts, "perf").unwrap();
        assert!(sentence.starts_with("it holds no Q, no C"), "{sentence}");
        assert!(sentence.contains("perf record"), "{sentence}");
    }
}
