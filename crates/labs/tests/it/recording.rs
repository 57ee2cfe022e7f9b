//! Reads a recording, and the invariants of every recording.

use crate::support::{LostTooMany, is_guest};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use iowhy_labs::machine::DiskStats;
use iowhy_model::recording::RecordingReader;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{
    Environment, FileActivity, Name, Names, Operation, Origin, Process, Request, RequestPart,
    Sample, Stack, Status, Wait, WaitChain,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const SECTOR: u64 = 512;
/// Pieces of a request that have their offset in the file, at least.
const MANY_PIECES: usize = 16;
/// Kinds of parts in a message.
const MOST_LISTED: usize = 40;

/// The content of a recording.
pub struct Recording {
    pub environment: Environment,
    pub requests: Vec<Request>,
    pub parts: Vec<RequestPart>,
    pub waits: Vec<Wait>,
    pub files: Vec<FileActivity>,
    pub chains: Vec<WaitChain>,
    pub stacks: Vec<Stack>,
    pub processes: Vec<Process>,
    pub samples: Vec<Sample>,
    names: Names,
}

/// The time before its beginning at which a watch may see a wait begin, and by which one may
/// outlast it: while programs are attached and detached.
const ATTACHING_NS: u64 = 20_000_000_000;

/// Checks that no wait, and no chain of waits, of a watch begins long before it or outlasts it.
fn hold_to_watch(environment: &Environment, batch: &Batch) {
    if environment.source != "live" || environment.end_ns == 0 {
        return;
    }
    let (start_ns, watched_ns) = (environment.start_ns, environment.duration_ns());
    let waits = batch.waits.iter().map(|row| (row.start_ns, row.duration_ns, row.tid));
    let chains = batch.wait_chains.iter().map(|row| (row.start_ns, row.duration_ns, row.tid));
    for (begun_ns, lasted_ns, tid) in waits.chain(chains) {
        let within = begun_ns + ATTACHING_NS >= start_ns && lasted_ns <= watched_ns + ATTACHING_NS;
        assert!(
            within,
            "{tid} slept for {lasted_ns} ns from {begun_ns} in a watch of {watched_ns}"
        );
    }
}

/// A part and the request that it belongs to.
pub type Pair<'a> = (&'a Request, &'a RequestPart);

impl Recording {
    /// Reads the whole recording in `folder`.
    pub fn open(folder: &Path) -> Result<Recording> {
        let action = || format!("read the recording {}", folder.display());
        let mut reader = RecordingReader::open(folder).context(action)?;
        let (mut names, mut batch) = (Names::new(), Batch::default());
        while reader.fill(&mut batch, &mut names).context(action)? == Progress::More {}
        hold_to_watch(reader.environment(), &batch);
        Ok(Recording {
            environment: reader.environment().clone(),
            requests: batch.requests,
            parts: batch.parts,
            waits: batch.waits,
            files: batch.files,
            chains: batch.wait_chains,
            stacks: batch.stacks,
            processes: batch.processes,
            samples: batch.samples,
            names,
        })
    }

    /// The functions of the user stacks of a thread's waits.
    pub fn user_stacks(&self, thread: &str) -> BTreeSet<&str> {
        let rows = self.chains.iter().filter(|row| self.text(row.thread) == thread);
        let ids: BTreeSet<u64> = rows.filter_map(|row| row.user_stack_id).collect();
        let stacks = self.stacks.iter().filter(|stack| stack.user && ids.contains(&stack.stack_id));
        stacks.flat_map(|stack| &stack.frames).map(|name| self.names.get(*name)).collect()
    }

    /// The text of a name; the empty text for none.
    pub fn text(&self, name: impl Into<Option<Name>>) -> &str {
        name.into().map_or("", |name| self.names.get(name))
    }

    /// Returns whether any text of any row contains `secret`.
    pub fn tells(&self, secret: &str) -> bool {
        let mut texts = (0..self.names.len()).map(|index| self.names.get(Name::from_index(index)));
        texts.any(|text| text.contains(secret))
    }

    /// The functions of a stack, the innermost first.
    pub fn frames(&self, stack_id: Option<u64>) -> Vec<&str> {
        let stack = self.stacks.iter().find(|stack| Some(stack.stack_id) == stack_id);
        stack
            .map_or(&[][..], |stack| &stack.frames)
            .iter()
            .map(|name| self.names.get(*name))
            .collect()
    }

    /// Returns the growth of a counter from its first to its last sample; `None` without one.
    pub fn growth(&self, metric: &str, is_subject: impl Fn(&str) -> bool) -> Option<f64> {
        let own = self.samples.iter().filter(|sample| {
            self.text(sample.metric) == metric && is_subject(self.text(sample.subject))
        });
        let values: Vec<f64> = own.map(|sample| sample.value).collect();
        Some(values.last()? - values.first()?)
    }

    /// Every part with its request.
    pub fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        let requests: BTreeMap<u64, &Request> =
            self.requests.iter().map(|request| (request.request_id, request)).collect();
        self.parts.iter().map(move |part| {
            let request = requests.get(&part.request_id);
            (*request.expect("each part has its request in the recording"), part)
        })
    }

    /// The parts that belong to `file`, with their requests.
    pub fn of_file(&self, file: &Path) -> Vec<Pair<'_>> {
        let wanted = file.to_str().expect("tests name their files in UTF-8");
        self.pairs().filter(|(_, part)| self.text(part.file) == wanted).collect()
    }

    /// Returns the number of requests without a record.
    pub fn lost(&self) -> u64 {
        self.environment.losses.requests()
    }

    /// Returns the losses at one place.
    pub fn lost_at(&self, place: &str) -> u64 {
        let items = &self.environment.losses.items;
        items.iter().filter(|loss| loss.place == place).map(|loss| loss.count).sum()
    }

    /// Checks that few are lost: a kernel may hide a few in a hundred (docs/architecture.md, known
    /// limits); more is a defect, counted or not. A kernel that preempts programs hides more where
    /// an emulated CPU is long in each.
    fn expect_few_lost(&self) {
        let (kept, recorded) = (self.lost_at("programs"), self.requests.len() as u64);
        let (lost, of_emulated) = (self.lost() - kept, if is_guest() { 20 } else { 50 });
        let few = lost <= 3 + recorded / 50 && kept <= 3 + recorded / of_emulated;
        let items = &self.environment.losses.items;
        if !few {
            let text = format!("{lost} and {kept} lost beside {recorded}: {items:#?}");
            std::panic::panic_any(LostTooMany(text));
        }
    }

    /// Checks `found` of `expected`: each missing one was counted as lost, and none is there twice.
    pub fn expect_count(&self, what: &str, found: usize, expected: u64) {
        let (found, lost) = (found as u64, self.lost());
        self.expect_few_lost();
        assert!(
            found <= expected && found + lost >= expected,
            "{what}: {found} found and {lost} counted as lost, expected {expected}\n{}",
            self.overview()
        );
    }

    /// Checks that the bytes of `pairs` are those of `expected` (offset, length), each exactly
    /// once. Of a request made of very many pieces only the first have their offset; the rest must
    /// add up. If requests were lost, no others may be there, and none twice.
    pub fn expect_ranges(&self, what: &str, pairs: &[Pair], expected: &[(u64, u64)]) {
        let known: Vec<(u64, u64)> =
            pairs.iter().filter_map(|(_, part)| Some((part.file_offset?, part.bytes))).collect();
        let unknown: u64 = self.bytes_without_offset(pairs);
        let (found, wanted) = (joined(known.clone()), joined(expected.to_vec()));
        let bytes = |ranges: &[(u64, u64)]| ranges.iter().map(|range| range.1).sum::<u64>();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        let complete = if self.lost() > 0 {
            self.expect_few_lost();
            found.iter().all(|range| is_within(*range, &wanted))
        } else if unknown == 0 {
            found == wanted
        } else {
            known.iter().all(|range| expected.contains(range))
                && BTreeSet::from_iter(&known).len() == known.len()
                && bytes(&found) + unknown == bytes(&wanted)
        };
        assert!(
            complete,
            "{what}: bytes of the file\nfound    {} and {unknown} B without offset\nexpected {}\n\
             missing  {}\nbeyond   {}\ntwice    {}\n{}",
            listed(&found),
            listed(&wanted),
            listed(&without(&wanted, &found)),
            listed(&without(&found, &wanted)),
            listed(&overlapping(known)),
            self.overview()
        );
    }

    fn bytes_without_offset(&self, pairs: &[Pair]) -> u64 {
        let mut pieces: BTreeMap<u64, usize> = BTreeMap::new();
        for part in self.parts.iter().filter(|part| part.file_offset.is_some()) {
            *pieces.entry(part.request_id).or_default() += 1;
        }
        let without = pairs.iter().filter(|(_, part)| part.file_offset.is_none());
        without
            .map(|(request, part)| {
                let known = pieces.get(&request.request_id).copied().unwrap_or(0);
                assert!(known >= MANY_PIECES, "no offset in {part:?} of {request:?}");
                part.bytes
            })
            .sum()
    }

    /// Checks the invariants of every watch of a quiet device: it agrees with the device's own
    /// counters, the stages of each request add up, the parts of each request add up.
    pub fn check(&self, device: &str, within: DiskStats, around: DiskStats) {
        for request in &self.requests {
            assert_eq!(
                self.text(request.device),
                device,
                "the watch was of one device: {request:?}"
            );
        }
        self.check_each();
        let bio_based =
            self.environment.devices.iter().any(|known| known.name == device && known.bio_based);
        if !bio_based {
            self.check_totals(device, within, around);
        }
    }

    /// Checks the invariants of every request and its parts.
    pub fn check_each(&self) {
        assert!(self.environment.finished, "the recording is not finished: {:?}", self.environment);
        self.requests.iter().for_each(check_stages);
        self.check_parts();
    }

    fn check_parts(&self) {
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for (request, part) in self.pairs() {
            *bytes.entry(request.request_id).or_default() += part.bytes;
            assert!(
                part.bytes > 0 || request.bytes == 0,
                "a part without bytes: {part:?} of {request:?}"
            );
            assert_eq!(
                part.file.is_none(),
                part.file_reason.is_some(),
                "a file or the reason for none: {} {part:?}",
                self.text(part.file_reason)
            );
            assert!(
                part.owner_pid.is_some() || part.owner_reason.is_some(),
                "an owner or the reason for none: {part:?}"
            );
            let metadata =
                matches!(request.origin, Origin::Metadata | Origin::Journal | Origin::Flush);
            assert!(
                !metadata || part.file.is_none(),
                "{} is named by a {} request: {part:?}",
                self.text(part.file),
                request.origin.word()
            );
        }
        for request in &self.requests {
            if let Some(sum) = bytes.get(&request.request_id) {
                assert_eq!(*sum, request.bytes, "the parts of {request:?} add up to {sum} bytes");
            }
        }
    }

    /// Checks that the recorded figures of a device lie between its counters within the watch and
    /// around it.
    pub fn check_totals(&self, device: &str, within: DiskStats, around: DiskStats) {
        let of = |operations: &[Operation]| {
            let requests = self.requests.iter().filter(|request| {
                operations.contains(&request.operation)
                    && matches!(request.status, Status::Complete | Status::Error)
                    && self.text(request.device) == device
            });
            requests.fold((0, 0), |(count, bytes), request| (count + 1, bytes + request.bytes))
        };
        let (reads, read_bytes) = of(&[Operation::Read]);
        let (_, written) = of(&[Operation::Write, Operation::WriteZeroes]);
        let (writes, _) = of(&[Operation::Write, Operation::WriteZeroes, Operation::Flush]);
        let (discards, discarded) = of(&[Operation::Discard, Operation::SecureErase]);
        let found = [reads, read_bytes, writes, written, discards, discarded];
        let (mut low, high) = (totals(within), totals(around));
        let lost = self.lost();
        if lost > 0 {
            self.expect_few_lost();
            // Each lost request may have been of any operation and size.
            low = low.map(|counted| counted.saturating_sub(lost));
            [1, 3, 5].into_iter().for_each(|bytes| low[bytes] = 0);
        }
        assert!(
            (0..found.len()).all(|index| (low[index]..=high[index]).contains(&found[index])),
            "{device}: [reads, their bytes, writes and flushes, their bytes, discards, their \
             bytes]\nrecorded\n    {found:?}\ncounted by the device within the watch\n    \
             {low:?}\nand around it\n    {high:?}\n{}",
            self.overview()
        );
    }

    /// Formats a table of the requests, for messages.
    pub fn overview(&self) -> String {
        let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (request, part) in self.pairs() {
            let key = format!(
                "{} {} {} by {} ({:?}): {}{} owner {} {}",
                request.status.word(),
                self.text(request.rwbs),
                request.origin.word(),
                self.text(request.process),
                request.pid,
                self.text(part.file),
                self.text(part.file_reason),
                self.text(part.owner),
                self.text(part.owner_reason)
            );
            let row = rows.entry(key).or_default();
            row.0 += 1;
            row.1 += part.bytes;
        }
        let with_parts: BTreeSet<u64> = self.parts.iter().map(|part| part.request_id).collect();
        let bare = self
            .requests
            .iter()
            .filter(|request| !with_parts.contains(&request.request_id))
            .count();
        let mut text = format!("{} requests, {bare} without parts\n", self.requests.len());
        for (key, (count, bytes)) in rows.iter().take(MOST_LISTED) {
            text += &format!("{count:6} parts {bytes:10} B  {key}\n");
        }
        if rows.len() > MOST_LISTED {
            text += &format!("and {} more kinds of parts\n", rows.len() - MOST_LISTED);
        }
        text + &self.shortcomings()
    }

    /// Losses and limits of the watch, for messages.
    pub fn shortcomings(&self) -> String {
        let losses = self.environment.losses.items.iter();
        let mut text: String =
            losses.map(|loss| format!("lost ({}): {}\n", loss.place, loss.sentence())).collect();
        if text.is_empty() {
            text.push_str("nothing was lost\n");
        }
        self.environment.limits.iter().for_each(|limit| text += &format!("limit: {limit}\n"));
        text
    }
}

/// Reads, their bytes, writes and flushes, their bytes, discards, their bytes. An empty flush
/// counts as a write in one place and as a flush in the other.
fn totals(counted: DiskStats) -> [u64; 6] {
    [
        counted.reads,
        counted.sectors_read * SECTOR,
        counted.writes + counted.flushes,
        counted.sectors_written * SECTOR,
        counted.discards,
        counted.sectors_discarded * SECTOR,
    ]
}

/// Checks that the stages of a request add up to its total time, exactly.
fn check_stages(request: &Request) {
    let (Status::Complete | Status::Error, Some(whole)) = (request.status, request.q2c_ns) else {
        return;
    };
    let stages = [request.q2g_ns, request.g2i_ns, request.i2d_ns, request.g2d_ns, request.d2c_ns];
    if stages.iter().all(Option::is_none) {
        return; // A bio-based device has none.
    }
    let sum: u64 = stages.into_iter().flatten().sum();
    if request.pid.is_none() && stages[..4].iter().all(Option::is_none) {
        // Queued while the watch's programs were detached: only its end was seen.
        assert!(sum <= whole, "the stages of {request:?}");
        return;
    }
    assert_eq!(sum, whole, "the stages of {request:?}");
    assert!(
        request.g2d_ns.is_none() || request.i2d_ns.is_none(),
        "I2D where it was inserted, G2D where not: {request:?}"
    );
}

/// Whether `range` lies in one of `wanted`, which do not touch.
fn is_within(range: (u64, u64), wanted: &[(u64, u64)]) -> bool {
    let holds = |one: &(u64, u64)| one.0 <= range.0 && range.0 + range.1 <= one.0 + one.1;
    wanted.iter().any(holds)
}

/// Sorted ranges, those that touch joined; one that overlaps another stays apart.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut result: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in ranges {
        match result.last_mut() {
            Some(last) if last.0 + last.1 == offset => last.1 += length,
            _ => result.push((offset, length)),
        }
    }
    result
}

/// Returns the part of `ranges` that `others` do not cover; both are sorted, without overlaps.
fn without(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    for (offset, length) in ranges {
        let (mut at, end) = (*offset, offset + length);
        for (begin, length) in
            others.iter().filter(|other| other.0 < end && other.0 + other.1 > *offset)
        {
            if *begin > at {
                left.push((at, begin - at));
            }
            at = at.max(begin + length);
        }
        if at < end {
            left.push((at, end - at));
        }
    }
    left
}

/// Returns the ranges that begin before the one before them ends.
fn overlapping(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    pairs.filter(|(one, next)| one.0 + one.1 > next.0).map(|(_, next)| *next).collect()
}

fn listed(ranges: &[(u64, u64)]) -> String {
    let bytes: u64 = ranges.iter().map(|range| range.1).sum();
    let first: Vec<String> =
        ranges.iter().take(8).map(|(offset, length)| format!("{offset}+{length}")).collect();
    format!("{bytes} B in {} ranges: {} …", ranges.len(), first.join(" "))
}
