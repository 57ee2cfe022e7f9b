//! The ring: full records of the last minutes, as a recording of which the oldest rounds are
//! removed. It is kept in memory (tmpfs), so that recording never waits for a disk.
//!
//! A watch ends and another begins once an hour, or when it has met too many names: each is a
//! *generation* with a recording of its own, since names and ids start anew. Where its file system
//! is full, a generation ends early, and what comes is counted as lost until another one begins.
//!
//! What does not belong here: when an incident is cut out of it (see [`crate::incidents`]).

use crate::disk;
use crate::error::is_lack;
use iowhy_model::recording::{
    RecordingError, RecordingWriter, SegmentLimits, add_open_round, cut, remove_round, round_bytes,
};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rows of a table, and their bytes, that are gathered before they are written: a quarter of what
/// other recordings gather, since this memory is taken for as long as the host runs.
const GROUP_ROWS: usize = 16 << 10;
const GROUP_BYTES: usize = 3 << 19;

/// The limits of the ring.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// The time that it reaches back, in nanoseconds.
    pub keep_ns: u64,
    /// The bytes that it may take.
    pub bytes: u64,
}

/// The segments of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRound {
    /// The number.
    pub number: u32,
    /// The time at which it began, CLOCK_MONOTONIC nanoseconds.
    pub from_ns: u64,
    /// The time at which it ended.
    pub until_ns: u64,
    /// The bytes that its removal frees.
    pub bytes: u64,
}

/// The rounds of one generation.
#[derive(Debug)]
struct Generation {
    directory: PathBuf,
    environment: Environment,
    rounds: VecDeque<RingRound>,
    /// Bytes of stacks and processes, which stay as long as the generation.
    referred_bytes: u64,
}

impl Generation {
    fn bytes(&self) -> u64 {
        self.referred_bytes + self.rounds.iter().map(|round| round.bytes).sum::<u64>()
    }

    /// Returns the first and last round that overlap the time, if there is one.
    fn within(&self, from_ns: u64, until_ns: u64) -> Option<(RingRound, RingRound)> {
        let mut rounds = self.rounds.iter();
        let is_within = |round: &&RingRound| round.until_ns > from_ns && round.from_ns < until_ns;
        let first = *rounds.clone().find(is_within)?;
        let last = *rounds.rfind(is_within)?;
        Some((first, last))
    }

    /// Cuts the time out of the generation, as a recording of its own.
    fn cut(&self, to: &Path, from_ns: u64, until_ns: u64) -> Result<Option<u64>, RecordingError> {
        let Some((first, last)) = self.within(from_ns, until_ns) else { return Ok(None) };
        let is_whole = first.from_ns <= self.environment.start_ns;
        let environment = Environment {
            start_ns: first.from_ns.max(self.environment.start_ns),
            end_ns: last.until_ns,
            finished: true,
            ended_by: "flight recorder".to_owned(),
            ..self.environment.clone()
        };
        let environment = if is_whole { environment } else { begun_later(environment) };
        cut(&self.directory, to, first.number..=last.number, &environment)?;
        Ok(Some(environment.start_ns))
    }
}

/// Returns the environment without the readings of the beginning of the watch, long before.
fn begun_later(mut environment: Environment) -> Environment {
    for device in &mut environment.devices {
        device.stat_start.clear();
        device.stat_end.clear();
        device.stat_read_ns = None;
        device.in_flight_start = None;
        device.in_flight_end = None;
    }
    environment
}

/// Returns how many of the oldest rounds must go at `now_ns`, so that the others and `other_bytes`,
/// which cannot go, are within the limits. Pure.
pub fn outdated(
    rounds: &VecDeque<RingRound>,
    now_ns: u64,
    limits: RingLimits,
    other_bytes: u64,
) -> usize {
    let mut bytes = other_bytes + rounds.iter().map(|round| round.bytes).sum::<u64>();
    let from_ns = now_ns.saturating_sub(limits.keep_ns);
    let mut count = 0;
    for round in rounds {
        if round.until_ns > from_ns && bytes <= limits.bytes {
            break;
        }
        bytes -= round.bytes;
        count += 1;
    }
    count
}

/// The time that a cut covers.
#[derive(Clone, Copy, Debug)]
pub struct CutSpan {
    /// Its beginning, CLOCK_MONOTONIC nanoseconds.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
}

/// Rows that are not final, with their texts.
#[derive(Clone, Copy, Debug)]
pub struct OpenRows<'a> {
    /// The rows.
    pub batch: &'a Batch,
    /// The texts.
    pub names: &'a Names,
}

/// A change of whether the ring keeps what comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RingChange {
    /// It does not, for a reason that passes: no room, no descriptors.
    Stopped(String),
    /// It does again.
    GoesOn,
}

/// The ring of the last minutes.
pub struct Ring {
    directory: PathBuf,
    limits: RingLimits,
    counter: u64,
    earlier: VecDeque<Generation>,
    current: Option<(Generation, RecordingWriter)>,
    /// Whether rows were lost since a round was written last.
    has_stopped: bool,
    changes: Vec<RingChange>,
    lost_requests: u64,
}

impl Ring {
    /// Makes an empty ring in `directory`, whose content is removed.
    ///
    /// # Errors
    /// Fails if the directory cannot be made.
    pub fn new(directory: &Path, limits: RingLimits) -> std::io::Result<Ring> {
        disk::remove(directory);
        disk::make(directory)?;
        Ok(Ring {
            directory: directory.to_owned(),
            limits,
            counter: 0,
            earlier: VecDeque::new(),
            current: None,
            has_stopped: false,
            changes: Vec::new(),
            lost_requests: 0,
        })
    }

    /// Begins a generation.
    ///
    /// # Errors
    /// Fails if its files cannot be written, for another reason than one that passes.
    pub fn begin(&mut self, environment: &Environment) -> Result<(), RecordingError> {
        self.counter += 1;
        let directory = self.directory.join(format!("{:06}", self.counter));
        // Rounds end only when this module ends them.
        let limits = SegmentLimits {
            group_rows: GROUP_ROWS,
            group_bytes: GROUP_BYTES,
            segment_bytes: usize::MAX,
            segment_age: Duration::MAX,
        };
        let writer = match RecordingWriter::with_limits(&directory, environment, limits) {
            Ok(writer) => writer,
            Err(cause) => return self.unless_it_passes(Err(cause), &Names::new()),
        };
        let environment = environment.clone();
        let rounds = VecDeque::new();
        let generation = Generation { directory, environment, rounds, referred_bytes: 0 };
        self.current = Some((generation, writer));
        Ok(())
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Fails if they cannot be written, for another reason than one that passes.
    pub fn add(&mut self, batch: &Batch, names: &Names) -> Result<(), RecordingError> {
        let Some((_, writer)) = &mut self.current else {
            self.lost_requests += batch.requests.len() as u64;
            return Ok(());
        };
        let added = writer.add(batch, names);
        self.unless_it_passes(added, names)
    }

    /// Ends the round that is being written, and removes the oldest rounds.
    ///
    /// # Errors
    /// Fails if it cannot be written, for another reason than one that passes.
    pub fn rotate(
        &mut self,
        now_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Result<(), RecordingError> {
        if let Some((_, writer)) = &mut self.current {
            writer.update(environment);
            let written = writer.rotate(names);
            self.unless_it_passes(written, names)?;
        }
        if let Some((generation, _)) = &mut self.current {
            generation.environment.clone_from(environment);
            let last = generation.rounds.back();
            let from_ns = last.map_or(environment.start_ns, |round| round.until_ns);
            let number = last.map_or(1, |round| round.number + 1);
            let bytes = round_bytes(&generation.directory, number);
            generation.referred_bytes += bytes.referred;
            let bytes = bytes.removable;
            generation.rounds.push_back(RingRound { number, from_ns, until_ns: now_ns, bytes });
            if std::mem::take(&mut self.has_stopped) {
                self.changes.push(RingChange::GoesOn);
            }
        }
        self.prune(now_ns);
        Ok(())
    }

    /// Ends the generation for a failure that passes, and lets others go on: a recording takes no
    /// more rows once one could not be written, and later rows refer to earlier ones.
    fn unless_it_passes(
        &mut self,
        result: Result<(), RecordingError>,
        names: &Names,
    ) -> Result<(), RecordingError> {
        let cause = match result {
            Err(cause) if is_lack(&cause) => cause,
            other => return other,
        };
        if let Some((mut generation, writer)) = self.current.take() {
            let before = generation.environment.losses.requests();
            // The earlier rounds can be read whether or not this can be written.
            let _ = writer.finish(&mut generation.environment, names);
            let lost = generation.environment.losses.requests().saturating_sub(before);
            self.lost_requests += lost;
            self.earlier.push_back(generation);
        }
        if !std::mem::replace(&mut self.has_stopped, true) {
            self.changes.push(RingChange::Stopped(cause.to_string()));
        }
        Ok(())
    }

    /// Returns the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<RingChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns how many requests were not kept since the last call.
    pub fn take_lost_requests(&mut self) -> u64 {
        std::mem::take(&mut self.lost_requests)
    }

    /// Returns whether rows are lost until another generation begins.
    pub fn has_stopped(&self) -> bool {
        self.current.is_none() && self.has_stopped
    }

    fn prune(&mut self, now_ns: u64) {
        loop {
            let total = self.bytes();
            let Some(oldest) =
                self.earlier.front_mut().or(self.current.as_mut().map(|current| &mut current.0))
            else {
                return;
            };
            let own: u64 = oldest.rounds.iter().map(|round| round.bytes).sum();
            let count = outdated(&oldest.rounds, now_ns, self.limits, total - own);
            for round in oldest.rounds.drain(..count) {
                remove_round(&oldest.directory, round.number);
            }
            if self.earlier.is_empty() || !self.earlier[0].rounds.is_empty() {
                return;
            }
            if let Some(empty) = self.earlier.pop_front() {
                disk::remove(&empty.directory);
            }
        }
    }

    /// Ends the generation, with its last rows added before.
    ///
    /// # Errors
    /// Fails if it cannot be written, for another reason than one that passes.
    pub fn end(
        &mut self,
        now_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Result<(), RecordingError> {
        self.rotate(now_ns, environment, names)?;
        if let Some((generation, writer)) = self.current.take() {
            self.earlier.push_back(generation);
            let finished = writer.finish(&mut environment.clone(), names);
            self.unless_it_passes(finished, names)?;
        }
        Ok(())
    }

    /// Returns the bytes of the ring.
    pub fn bytes(&self) -> u64 {
        let current = self.current.iter().map(|(generation, _)| generation);
        self.earlier.iter().chain(current).map(Generation::bytes).sum()
    }

    /// Returns the bytes of the stacks and processes that are kept as long as the generation.
    pub fn referred_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |(generation, _)| generation.referred_bytes)
    }

    /// Cuts a recording out of the generation that is being written, with `open` as rows that are
    /// not final. Returns its beginning, CLOCK_MONOTONIC nanoseconds; `None` if it is empty.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub fn cut(
        &self,
        to: &Path,
        span: CutSpan,
        open: Option<OpenRows<'_>>,
    ) -> Result<Option<u64>, RecordingError> {
        let current = self.current.as_ref().map(|(generation, _)| generation);
        let Some(generation) = current.or(self.earlier.back()) else { return Ok(None) };
        let begun = generation.cut(to, span.from_ns, span.until_ns)?;
        if let (Some(_), Some(open)) = (begun, open) {
            add_open_round(to, open.batch, open.names)?;
        }
        Ok(begun)
    }

    /// Cuts the time before the current generation began out of the previous one, if it has any of
    /// it.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub fn cut_earlier(&self, to: &Path, span: CutSpan) -> Result<Option<u64>, RecordingError> {
        let last = match &self.current {
            Some(_) => self.earlier.back(),
            None => self.earlier.iter().rev().nth(1),
        };
        let Some(generation) = last else { return Ok(None) };
        generation.cut(to, span.from_ns, span.until_ns)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.current = None;
        disk::remove(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::summarize;
    use iowhy_model::recording::RecordingReader;
    use iowhy_model::script::{START_NS, Script};

    const S: u64 = 1_000_000_000;

    fn rounds(count: u32, bytes: u64) -> VecDeque<RingRound> {
        let round = |number: u32| {
            let from_ns = u64::from(number) * 5 * S;
            RingRound { number, from_ns, until_ns: from_ns + 5 * S, bytes }
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn rounds_go_by_age_and_by_size() {
        let limits = RingLimits { keep_ns: 60 * S, bytes: 1_000 };
        assert_eq!(outdated(&rounds(12, 10), 60 * S, limits, 0), 0);
        assert_eq!(outdated(&rounds(14, 10), 70 * S, limits, 0), 2);
        assert_eq!(outdated(&rounds(12, 100), 60 * S, limits, 0), 2);
        assert_eq!(outdated(&rounds(12, 100), 60 * S, limits, 500), 7);
        assert_eq!(outdated(&rounds(12, 100), 60 * S, limits, 5_000), 12);
        assert_eq!(outdated(&VecDeque::new(), 60 * S, limits, 5_000), 0);
    }

    /// Returns a ring that got a request each second for so many seconds.
    fn ring_after(seconds: u64, folder: &Path, keep_s: u64) -> (Ring, Script) {
        let limits = RingLimits { keep_ns: keep_s * S, bytes: 100 << 20 };
        let mut ring = Ring::new(&folder.join("ring"), limits).unwrap();
        let mut script = Script::new(seconds);
        for second in 0..seconds {
            let at = (second * S) as i64;
            script.read("sda", 4096).by(7, "cat").at(at).direct(100, 200, 3_000).add();
        }
        let mut environment = script.environment.clone();
        environment.end_ns = 0;
        ring.begin(&environment).unwrap();
        for (second, batch) in script.source(1).batches.iter().enumerate() {
            ring.add(batch, &script.names).unwrap();
            if second % 5 == 4 {
                let now_ns = START_NS + (second as u64 + 1) * S;
                ring.rotate(now_ns, &environment, &script.names).unwrap();
            }
        }
        (ring, script)
    }

    #[test]
    fn a_cut_holds_the_time_that_was_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (ring, _) = ring_after(100, folder.path(), 60);
        let cut = folder.path().join("cut");
        let end_ns = START_NS + 100 * S;
        let span = CutSpan { from_ns: end_ns - 20 * S, until_ns: end_ns };
        let from_ns = ring.cut(&cut, span, None).unwrap();
        assert_eq!(from_ns, Some(end_ns - 20 * S));
        let summary = summarize(&mut RecordingReader::open(&cut).unwrap()).unwrap();
        assert_eq!((summary.watch.requests, summary.watch.duration_ns), (20, 20 * S));
        assert_eq!(summary.programs.rows[0].subject.process, "cat");
        // A time that the ring no longer has is missing.
        let all = folder.path().join("all");
        let span = CutSpan { from_ns: 0, until_ns: end_ns };
        assert_eq!(ring.cut(&all, span, None).unwrap(), Some(end_ns - 60 * S));
        assert!(ring.cut_earlier(&folder.path().join("none"), span).unwrap().is_none());
    }

    #[test]
    fn a_cut_outlives_the_ring() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ring, script) = ring_after(20, folder.path(), 60);
        ring.rotate(START_NS + 20 * S, &script.environment, &script.names).unwrap();
        let cut = folder.path().join("cut");
        let span = CutSpan { from_ns: 0, until_ns: u64::MAX };
        ring.cut(&cut, span, None).unwrap();
        drop(ring);
        assert!(!folder.path().join("ring").exists());
        let summary = summarize(&mut RecordingReader::open(&cut).unwrap()).unwrap();
        assert_eq!(summary.watch.requests, 20);
    }

    #[test]
    fn the_generation_before_is_kept_until_it_is_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ring, script) = ring_after(20, folder.path(), 60);
        let (environment, names) = (script.environment.clone(), &script.names);
        let end_ns = START_NS + 20 * S;
        ring.end(end_ns, &environment, names).unwrap();
        let later = Environment { start_ns: end_ns, ..environment.clone() };
        ring.begin(&later).unwrap();
        ring.rotate(end_ns + 5 * S, &later, names).unwrap();
        let (cut, span) = (folder.path().join("cut"), CutSpan { from_ns: 0, until_ns: end_ns });
        assert_eq!(ring.cut_earlier(&cut, span).unwrap(), Some(START_NS));
        for step in 2..16 {
            ring.rotate(end_ns + step * 5 * S, &later, names).unwrap();
        }
        assert!(ring.cut_earlier(&folder.path().join("gone"), span).unwrap().is_none());
        assert_eq!(std::fs::read_dir(folder.path().join("ring")).unwrap().count(), 1);
    }
}
