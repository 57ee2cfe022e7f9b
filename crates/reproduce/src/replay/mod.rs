//! The exact sequence of a recording: each request at its time, of its size, on files that are laid
//! out anew.
//!
//! fio's own replay sleeps for the difference to the line before and never makes up for what it
//! lost, and it does not reap completions meanwhile; so iowhy replays itself, by the clock.
//!
//! | where | what |
//! |---|---|
//! | [`sequence`] | the requests of a source, in bounded memory |
//! | [`places`] | where they fall on files without holes |
//! | [`script`] | the sequence of a program as text |
//! | [`player`] | doing it |
//!
//! What does not belong here: loads that are only like the original (see [`crate::planning`]).

pub mod places;
pub mod player;
pub mod script;
pub mod sequence;
#[cfg(test)]
mod tests;

use crate::jobs;
use crate::plan::{PlannedProgram, PlannedStep};
use iowhy_model::compact_sort::CompactSort;
use places::Places;
use rustc_hash::{FxHashMap, FxHashSet};
use script::{MOST_MEMORY, ReplayFile, ReplayKind, ReplayLine, ReplayScript};
use sequence::{ReplayTally, SequencedRequest};

/// The most bytes of the files of one disk. Beyond them places come closer together.
const MOST_BYTES: u64 = 4 << 30;
/// Threads at least and at most.
const LEAST_LANES: u64 = 4;
const MOST_LANES: u64 = 256;
/// The program of requests that no program owns: the journal, metadata, writeback by nobody.
const NOBODY: &str = "rest";

/// A program's sequences as text, with the names of their files below the reproduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayText {
    /// The name of the step.
    pub name: String,
    /// The sequence.
    pub text: String,
}

/// A program of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedProgram {
    /// The program in the plan.
    pub planned: PlannedProgram,
    /// The original's name; empty if it stands for requests that no program owns.
    pub original: String,
}

/// The choice of names, and the length of the watch.
pub struct ReplayContext<'a> {
    /// The length of the watch, microseconds.
    pub period_us: u64,
    /// The disks by the kernel's name, in the plan's order.
    pub disks: &'a [String],
    /// The name of a program here, by its number.
    pub program: &'a dyn Fn(usize, &str) -> String,
    /// The name of a class of files here, by its number.
    pub file: &'a dyn Fn(usize, &str) -> String,
    /// Whether a disk, by its number, was used without files.
    raw: Vec<bool>,
}

impl<'a> ReplayContext<'a> {
    /// A context for these requests.
    pub fn new(
        tally: &ReplayTally,
        period_us: u64,
        disks: &'a [String],
        program: &'a dyn Fn(usize, &str) -> String,
        file: &'a dyn Fn(usize, &str) -> String,
    ) -> ReplayContext<'a> {
        let is_file =
            |sequenced_request: &&SequencedRequest| !tally.text(sequenced_request.class).is_empty();
        let with_files: Vec<&str> = tally
            .requests
            .iter()
            .filter(is_file)
            .map(|request| tally.text(request.device))
            .collect();
        let raw = disks.iter().map(|disk| !with_files.contains(&disk.as_str())).collect();
        ReplayContext { period_us, disks, program, file, raw }
    }

    fn is_raw(&self, disk: usize) -> bool {
        self.raw.get(disk).copied().unwrap_or(false)
    }
}

/// The programs of a replay, and their sequences.
pub fn programs(
    context: &ReplayContext<'_>,
    tally: &ReplayTally,
) -> (Vec<ReplayedProgram>, Vec<ReplayText>) {
    let mut by_step: FxHashMap<(u32, usize), Vec<&SequencedRequest>> = FxHashMap::default();
    for request in &tally.requests {
        let device = tally.text(request.device);
        if let Some(disk) = context.disks.iter().position(|disk| disk == device) {
            by_step.entry((request.program, disk)).or_default().push(request);
        }
    }
    let mut steps: Vec<_> = by_step.into_iter().collect();
    steps.compact_sort_by_key(|(key, own)| (std::cmp::Reverse(own.len()), *key));
    let places = Places::new(tally, MOST_BYTES);
    let mut programs: Vec<(u32, ReplayedProgram)> = Vec::new();
    let mut texts = Vec::new();
    let mut laid_out: FxHashSet<(usize, String)> = FxHashSet::default();
    for ((program, disk), own) in steps {
        let number = programs.iter().position(|known| known.0 == program).unwrap_or_else(|| {
            programs.push((program, named(context, programs.len(), tally.text(program))));
            programs.len() - 1
        });
        let Some((_, replayed)) = programs.get_mut(number) else { continue };
        let script = script_of(context, tally, &places, (disk, own));
        // A file that several programs use is laid out once.
        let is_new = |file: &&ReplayFile| laid_out.insert((disk, file.name.clone()));
        let step = PlannedStep::Replay {
            disk,
            raw: context.is_raw(disk),
            requests: script.lines.len() as u64,
            bytes: script.files.iter().filter(is_new).map(|file| file.bytes).sum(),
        };
        let planned = &mut replayed.planned;
        let name = jobs::step_name(planned, planned.steps.len(), &step);
        planned.steps.push(step);
        texts.push(ReplayText { name, text: script.to_string() });
    }
    (programs.into_iter().map(|program| program.1).collect(), texts)
}

fn named(context: &ReplayContext<'_>, number: usize, original: &str) -> ReplayedProgram {
    let name = match original {
        "" => NOBODY.to_owned(),
        text => (context.program)(number, text),
    };
    let planned = PlannedProgram { name, ..PlannedProgram::default() };
    ReplayedProgram { planned, original: original.to_owned() }
}

/// The sequence of one program on one disk.
fn script_of(
    context: &ReplayContext<'_>,
    tally: &ReplayTally,
    places: &Places,
    (disk, mut requests): (usize, Vec<&SequencedRequest>),
) -> ReplayScript {
    requests.sort_by_key(|request| request.at_ns);
    let mut number: FxHashMap<u32, usize> = FxHashMap::default();
    let mut files: Vec<ReplayFile> = Vec::new();
    let mut lines = Vec::with_capacity(requests.len());
    for request in &requests {
        let file = *number.entry(request.class).or_insert_with(|| {
            let name = match (tally.text(request.class), context.is_raw(disk)) {
                ("", true) => script::DEVICE.to_owned(),
                ("", false) => NOBODY.to_owned(),
                (class, _) => (context.file)(request.class as usize, class),
            };
            files.push(ReplayFile { name, bytes: places.bytes(request.device, request.class) });
            files.len() - 1
        });
        let bytes = match request.kind {
            ReplayKind::Flush => 0,
            _ => u64::from(request.bytes),
        };
        let (at_us, offset) = (request.at_ns / 1000, places.place(request));
        lines.push(ReplayLine { at_us, kind: request.kind, file, offset, bytes });
    }
    // What reads it refuses more.
    let longest = lines.iter().map(|line| line.bytes).max().unwrap_or(0);
    let most_lanes = (MOST_MEMORY / longest.max(1)).max(1);
    ReplayScript {
        period_us: context.period_us.max(lines.last().map_or(0, |line| line.at_us)).max(1),
        lanes: lanes(&requests).min(most_lanes),
        files,
        lines,
    }
}

/// Threads that suffice: half as many again as requests were in flight, since each has to come back
/// before it takes the next.
fn lanes(requests: &[&SequencedRequest]) -> u64 {
    let mut ends = std::collections::BinaryHeap::new();
    let mut most = 0;
    for request in requests {
        while ends.peek().is_some_and(|end: &std::cmp::Reverse<u64>| end.0 <= request.at_ns) {
            ends.pop();
        }
        ends.push(std::cmp::Reverse(request.at_ns.saturating_add(request.length_ns)));
        most = most.max(ends.len() as u64);
    }
    (most + most / 2 + 1).clamp(LEAST_LANES, MOST_LANES)
}
