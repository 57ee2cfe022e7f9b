//! The last minutes of a watch, kept in memory as encoded segments of a recording, and saved on
//! request.
//!
//! A request takes 20 to 30 bytes here, and some hundred as a row. Nothing is written to a disk
//! before it is saved, and a killed process leaves no files.
//!
//! What does not belong here: which minutes are worth keeping.

use super::chunk::Encoder;
use super::error::{ErrorCause, RecordingError};
use super::segment::{Segment, SegmentBody, file_name};
use super::tables::{TABLES, TableInfo, columns, rows};
use super::writer::{RecordingWriter, SegmentLimits};
use crate::compact_sort::CompactSort;
use crate::environment::Cost;
use crate::source::Batch;
use crate::table::{Columns, Table};
use crate::{Environment, Losses, Name, Names, Process, Sample, Scope, Stack};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

/// Rows that are taken from a batch before the limits are looked at again.
const TOGETHER: usize = 4096;
/// Processes of which more than the name is kept; when there are more, the list begins anew.
const MOST_PROCESSES: usize = 1 << 16;

type SampleKey = (Scope, Name, Name);

/// The limits of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RecordingRingLimits {
    /// Bytes of all that has ended.
    pub bytes: usize,
    /// The longest time that is kept, nanoseconds.
    pub span_ns: u64,
    /// The length of a round, nanoseconds: by so much the beginning may be off.
    pub round_ns: u64,
}

impl Default for RecordingRingLimits {
    fn default() -> RecordingRingLimits {
        RecordingRingLimits { bytes: 64 << 20, span_ns: 600_000_000_000, round_ns: 5_000_000_000 }
    }
}

/// The bytes of tables that have rows.
type Segments = Vec<(&'static TableInfo, Vec<u8>)>;

/// The rows of a few seconds.
struct MemoryRound {
    from_ns: u64,
    until_ns: u64,
    segments: Arc<Segments>,
    /// The last value of each counter that was read in it.
    latest: FxHashMap<SampleKey, Sample>,
    /// Losses, and the cost of watching, when the round began.
    losses: Losses,
    cost: Cost,
}

impl MemoryRound {
    fn bytes(&self) -> usize {
        let segments: usize = self.segments.iter().map(|(_, bytes)| bytes.len()).sum();
        segments + self.latest.len() * size_of::<(SampleKey, Sample)>()
    }
}

/// One table's rows of the round that is open.
struct RingTable {
    table: &'static TableInfo,
    columns: Columns,
    body: SegmentBody<Cursor<Vec<u8>>>,
    is_open: bool,
}

impl RingTable {
    fn write(&mut self, names: &Names, encoder: &mut Encoder) -> Result<(), ErrorCause> {
        if self.columns.is_empty() {
            return Ok(());
        }
        if !self.is_open {
            self.body.begin(Cursor::new(Vec::new()), self.table)?;
            self.is_open = true;
        }
        self.body.add(&self.columns, self.table, names, encoder)?;
        self.columns.clear();
        Ok(())
    }
}

/// The time that was saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedSpan {
    /// Length, nanoseconds.
    pub duration_ns: u64,
    /// Whether earlier seconds did not fit in memory.
    pub is_cut: bool,
}

/// Keeps the last minutes.
pub struct RecordingRing {
    limits: RecordingRingLimits,
    tables: Vec<RingTable>,
    encoder: Encoder,
    rounds: VecDeque<MemoryRound>,
    bytes: usize,
    from_ns: u64,
    losses: Losses,
    cost: Cost,
    latest: FxHashMap<SampleKey, Sample>,
    /// Counters as they were before the oldest round.
    baseline: FxHashMap<SampleKey, Sample>,
    processes: FxHashMap<u32, Process>,
    stacks: FxHashMap<(u64, bool), Stack>,
    is_cut: bool,
}

impl RecordingRing {
    /// An empty one of a watch that began at `start_ns`.
    ///
    /// # Errors
    /// Fails if the encoder cannot be made.
    pub fn new(
        limits: RecordingRingLimits,
        start_ns: u64,
    ) -> Result<RecordingRing, RecordingError> {
        let encoder =
            Encoder::new().map_err(|cause| RecordingError::create(Path::new("memory"), cause))?;
        let table = |(table, columns)| RingTable {
            table,
            columns,
            body: SegmentBody::default(),
            is_open: false,
        };
        Ok(RecordingRing {
            limits,
            tables: TABLES.iter().zip(columns()).map(table).collect(),
            encoder,
            rounds: VecDeque::new(),
            bytes: 0,
            from_ns: start_ns,
            losses: Losses::default(),
            cost: Cost::default(),
            latest: FxHashMap::default(),
            baseline: FxHashMap::default(),
            processes: FxHashMap::default(),
            stacks: FxHashMap::default(),
            is_cut: false,
        })
    }

    /// Adds rows, whose texts are in `names`: the same table for every batch.
    ///
    /// # Errors
    /// Fails if rows cannot be encoded.
    pub fn add(&mut self, batch: &Batch, names: &Names) -> Result<(), RecordingError> {
        if self.processes.len() > MOST_PROCESSES {
            self.processes.clear();
        }
        self.processes.extend(batch.processes.iter().map(|process| (process.pid, process.clone())));
        self.stacks
            .extend(batch.stacks.iter().map(|stack| ((stack.stack_id, stack.user), stack.clone())));
        self.latest.extend(batch.samples.iter().map(|sample| (key(sample), sample.clone())));
        let limits = SegmentLimits::default();
        for (table, rows) in self.tables.iter_mut().zip(rows(batch)) {
            if [Process::NAME, Stack::NAME].contains(&table.table.name) {
                continue;
            }
            let mut from = 0;
            while from < rows.count() {
                from += rows.put(from, TOGETHER, &mut table.columns);
                if table.columns.len() >= limits.group_rows
                    || table.columns.bytes() >= limits.group_bytes
                {
                    table.write(names, &mut self.encoder).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Records that all rows of what had ended by `until_ns` were added, and what `now` tells of
    /// losses and cost: ends the round that is open if it is long enough, and forgets the oldest
    /// ones.
    ///
    /// # Errors
    /// Fails if rows cannot be encoded.
    pub fn seen(
        &mut self,
        until_ns: u64,
        now: &Environment,
        names: &Names,
    ) -> Result<(), RecordingError> {
        let open: usize = self.tables.iter().map(|table| table.body.bytes()).sum();
        let is_long = until_ns.saturating_sub(self.from_ns) >= self.limits.round_ns;
        if is_long || open > self.limits.bytes / 4 {
            self.end_round(until_ns, now, names)?;
        }
        Ok(())
    }

    fn end_round(
        &mut self,
        until_ns: u64,
        now: &Environment,
        names: &Names,
    ) -> Result<(), RecordingError> {
        let mut segments = Vec::new();
        for table in &mut self.tables {
            table.write(names, &mut self.encoder).map_err(failed)?;
            table.is_open = false;
            if let Some(sink) = table.body.finish().map_err(failed)? {
                let mut bytes = sink.into_inner();
                bytes.shrink_to_fit();
                segments.push((table.table, bytes));
            }
        }
        let round = MemoryRound {
            from_ns: std::mem::replace(&mut self.from_ns, until_ns),
            until_ns,
            segments: Arc::new(segments),
            latest: std::mem::take(&mut self.latest),
            losses: std::mem::replace(&mut self.losses, now.losses.clone()),
            cost: std::mem::replace(&mut self.cost, now.cost.clone()),
        };
        self.bytes += round.bytes();
        self.rounds.push_back(round);
        let is_old =
            |round: &MemoryRound| until_ns.saturating_sub(round.until_ns) > self.limits.span_ns;
        while self.rounds.len() > 1
            && (self.bytes > self.limits.bytes || self.rounds.front().is_some_and(is_old))
        {
            self.is_cut |= self.bytes > self.limits.bytes;
            let Some(oldest) = self.rounds.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.baseline.extend(oldest.latest);
        }
        Ok(())
    }

    /// Returns all rows that are kept, as of `now`, to be written while the watch goes on.
    ///
    /// # Errors
    /// Fails if rows cannot be encoded.
    pub fn snapshot(
        &mut self,
        until_ns: u64,
        now: &Environment,
        names: &Names,
    ) -> Result<RingSnapshot, RecordingError> {
        self.end_round(until_ns, now, names)?;
        let about = self.about(now);
        let mut known = Batch {
            processes: self.processes.values().cloned().collect(),
            stacks: self.stacks.values().cloned().collect(),
            samples: self.baseline.values().cloned().collect(),
            ..Batch::default()
        };
        known.processes.compact_sort_by_key(|process| process.pid);
        known.stacks.compact_sort_by_key(|stack| (stack.stack_id, stack.user));
        known.samples.compact_sort_by_key(|sample| (sample.scope, sample.subject, sample.metric));
        known.samples.iter_mut().for_each(|sample| sample.time_ns = about.start_ns);
        let known = Arc::new(self.encode(&known, names)?);
        let rounds = self.rounds.iter().map(|round| Arc::clone(&round.segments));
        let rounds = std::iter::once(known).chain(rounds).collect();
        Ok(RingSnapshot { about, rounds, is_cut: self.is_cut })
    }

    /// All of a watch that has ended, whose final environment is `now`: as a recording of it would
    /// be, where everything is kept, else its last minutes.
    ///
    /// # Errors
    /// Fails if rows cannot be encoded.
    pub fn whole(
        mut self,
        now: &Environment,
        names: &Names,
    ) -> Result<RingSnapshot, RecordingError> {
        let snapshot = self.snapshot(now.end_ns, now, names)?;
        Ok(match self.is_cut {
            true => snapshot,
            false => RingSnapshot { about: now.clone(), ..snapshot },
        })
    }

    /// Encodes rows that rounds may refer to.
    fn encode(&mut self, batch: &Batch, names: &Names) -> Result<Segments, RecordingError> {
        let mut segments = Vec::new();
        for ((table, mut columns), rows) in TABLES.iter().zip(columns()).zip(rows(batch)) {
            let mut body = SegmentBody::default();
            let mut from = 0;
            while from < rows.count() {
                from += rows.put(from, TOGETHER, &mut columns);
                if from == TOGETHER.min(rows.count()) {
                    body.begin(Cursor::new(Vec::new()), table).map_err(failed)?;
                }
                body.add(&columns, table, names, &mut self.encoder).map_err(failed)?;
                columns.clear();
            }
            let sink = body.finish().map_err(failed)?;
            segments.extend(sink.map(|sink| (table, sink.into_inner())));
        }
        Ok(segments)
    }

    /// Returns the environment of the minutes that are kept.
    fn about(&self, now: &Environment) -> Environment {
        let mut about = now.clone();
        let Some((first, last)) = self.rounds.front().zip(self.rounds.back()) else {
            return about;
        };
        (about.start_ns, about.end_ns) = (first.from_ns, last.until_ns);
        about.finished = true;
        if about.ended_by.is_empty() {
            "saved from iowhy top".clone_into(&mut about.ended_by);
        }
        let before = &first.cost;
        about.cost.cpu_ns = now.cost.cpu_ns.saturating_sub(before.cpu_ns);
        about.cost.start_cpu_ns = now.cost.start_cpu_ns.saturating_sub(before.cpu_ns);
        let programs_ns = |now_ns: u64| now_ns.saturating_sub(before.bpf_ns.unwrap_or(0));
        about.cost.bpf_ns = now.cost.bpf_ns.map(programs_ns);
        about.cost.spent_ns = about.end_ns.saturating_sub(about.start_ns);
        for loss in &mut about.losses.items {
            let before = first.losses.items.iter().find(|item| item.place == loss.place);
            loss.count = loss.count.saturating_sub(before.map_or(0, |before| before.count));
        }
        about.losses.items.retain(|loss| loss.count > 0);
        for device in &mut about.devices {
            // Read when the watch began, which may be long ago; samples tell what the kernel
            // counted.
            device.stat_start.clear();
            device.stat_end.clear();
            device.stat_read_ns = None;
            (device.in_flight_start, device.in_flight_end) = (None, None);
            device.settings_changed.retain(|change| change.by_ns > first.from_ns);
        }
        if self.is_cut {
            let seconds = about.duration_ns() / 1_000_000_000;
            let mib = self.limits.bytes >> 20;
            about.limits.push(format!(
                "only the last {seconds} s of a watch: more do not fit in the {mib} MiB kept"
            ));
        }
        about
    }
}

/// The last minutes as they were at one time.
pub struct RingSnapshot {
    about: Environment,
    rounds: Vec<Arc<Segments>>,
    is_cut: bool,
}

impl RingSnapshot {
    /// Writes it as the recording `directory`.
    ///
    /// # Errors
    /// Fails if something is in the directory already, or it cannot be written.
    pub fn write(mut self, directory: &Path) -> Result<SavedSpan, RecordingError> {
        let writer = RecordingWriter::create(directory, &self.about)?;
        for (number, round) in (1_u32..).zip(&self.rounds) {
            // The last table first: what a row refers to is there before it.
            for (table, bytes) in round.iter().rev() {
                let path = directory.join(table.name).join(file_name(number));
                Segment::copy(writer.folder(), table, number, bytes)
                    .map_err(|cause| RecordingError::write(&path, cause))?;
            }
        }
        writer.finish(&mut self.about, &Names::new())?;
        Ok(SavedSpan { duration_ns: self.about.duration_ns(), is_cut: self.is_cut })
    }
}

fn key(sample: &Sample) -> SampleKey {
    (sample.scope, sample.subject, sample.metric)
}

fn failed(cause: ErrorCause) -> RecordingError {
    RecordingError::write(Path::new("memory"), cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::rows_of;
    use crate::script::{START_NS, Script};

    const S: u64 = 1_000_000_000;

    /// A request every 100 ms, and the ring told so every second.
    fn kept(seconds: u64, limits: RecordingRingLimits) -> (Script, RecordingRing) {
        let mut script = Script::new(seconds);
        let mut ring = RecordingRing::new(limits, START_NS).unwrap();
        script.process(7, "cat", "/jobs", "jobs.service");
        for second in 0..seconds {
            for tenth in 0..10 {
                let at = (second * S + tenth * S / 10) as i64;
                let draft = script.read("sda", 4096).by(7, "cat").at(at).file("/etc/services");
                draft.stacks(&["vfs_read"], &["main"], 1).direct(100, 200, 1_000_000).add();
            }
            ring.add(&script.batch, &script.names).unwrap();
            script.batch.clear();
            let until_ns = START_NS + (second + 1) * S;
            ring.seen(until_ns, &script.environment, &script.names).unwrap();
        }
        (script, ring)
    }

    fn saved(script: &Script, ring: &mut RecordingRing, until_ns: u64) -> (SavedSpan, u64, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved");
        let snapshot = ring.snapshot(until_ns, &script.environment, &script.names).unwrap();
        let span = snapshot.write(&path).unwrap();
        let saved = rows_of(&path);
        let text = |name: Option<Name>| name.map(|name| saved.names.get(name));
        let process = saved.batch.processes.iter().find(|process| process.pid == 7).unwrap();
        assert_eq!(text(process.container), Some("jobs.service"));
        let request = &saved.batch.requests[0];
        assert_eq!(text(saved.batch.parts[0].file), Some("/etc/services"));
        let user =
            saved.batch.stacks.iter().find(|stack| Some(stack.stack_id) == request.user_stack_id);
        let frames = user.unwrap().frames.iter().map(|frame| saved.names.get(*frame));
        assert_eq!(frames.collect::<Vec<_>>(), ["main"]);
        let environment = &saved.environment;
        assert_eq!(environment.end_ns - environment.start_ns, span.duration_ns);
        (span, saved.requests().0 as u64, environment.start_ns)
    }

    #[test]
    fn what_is_saved_is_what_was_watched() {
        let (script, mut ring) = kept(12, RecordingRingLimits::default());
        let (span, requests, start_ns) = saved(&script, &mut ring, START_NS + 12 * S);
        assert_eq!((requests, start_ns), (120, START_NS));
        assert_eq!(span, SavedSpan { duration_ns: 12 * S, is_cut: false });
        let again = saved(&script, &mut ring, START_NS + 12 * S);
        assert_eq!(again.1, 120, "saving takes nothing away");
    }

    #[test]
    fn the_oldest_rounds_go() {
        let by_time = RecordingRingLimits { span_ns: 10 * S, ..RecordingRingLimits::default() };
        let (script, mut ring) = kept(60, by_time);
        let (span, requests, start_ns) = saved(&script, &mut ring, START_NS + 60 * S);
        assert_eq!((start_ns, span.is_cut), (START_NS + 45 * S, false));
        assert_eq!((requests, span.duration_ns), (150, 15 * S));
        let by_bytes = RecordingRingLimits { bytes: 64 << 10, ..RecordingRingLimits::default() };
        let (script, mut ring) = kept(60, by_bytes);
        assert!(ring.bytes <= 64 << 10, "{} bytes", ring.bytes);
        let (span, requests, _) = saved(&script, &mut ring, START_NS + 60 * S);
        assert!(span.is_cut && requests < 600);
        assert_eq!(requests, span.duration_ns / S * 10);
    }
}
