//! From ten seconds to minutes and hours: rows of the analysis become rows of the files.
//!
//! What does not belong here: the files ([`super::files`]).

use super::causes::RecentCalls;
use super::exact::ExactCounters;
use super::wakes::{Wake, WakeWatch};
use super::{
    DeviceBytes, DriveWear, JOURNAL, METADATA, SWAP, WriterId, WriterKind, WriterRecord, WriterRow,
    WriterSums, WriterTotals,
};
use iowhy_analysis::summary::{AskedCalls, AskedRow, MovedRow};
use iowhy_analysis::summary::{Summary, Writers};
use iowhy_analysis::{Direction, processes};
use iowhy_model::environment::{Environment, Thinning};
use iowhy_model::metric::process_of;
use iowhy_model::path_patterns::without_numbers;
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Names, Origin};
use std::collections::{BTreeMap, HashMap};

/// Rows of a minute while it lasts.
const MOST_MINUTE_ROWS: usize = 2048;
/// Rows of an hour while it lasts.
const MOST_HOUR_ROWS: usize = 1024;
/// Rows of files in a line of a minute, and as many of programs.
const MINUTE_ROWS: usize = 10;
/// Rows of files in a line of an hour, and as many of programs.
const HOUR_ROWS: usize = 32;
/// Files whose writers are remembered.
const MOST_FILES: usize = 4096;
/// Characters of a name that are kept: file names may have thousands.
const MOST_NAME: usize = 160;
/// Bytes of pages made dirty for each byte that calls wrote, beyond which a process writes through
/// a mapping: a page for each line of 40 bytes that is synced.
const MOST_PAGES_PER_BYTE: f64 = 100.0;
const HOUR_S: i64 = 3_600;
/// The gap after the last minute, in seconds, from which on a minute is of another time: the clock
/// was set, or the machine slept.
const MOST_GAP_S: i64 = 600;

/// The program and container that wrote a file; `None` if several did.
type Writer = Option<(String, String)>;

/// Writes that the kernel counted of a program, beyond its calls that were seen.
#[derive(Clone, Debug, Default)]
struct CountedBytes {
    container: Option<String>,
    bytes: u64,
    calls: u64,
}

/// Sums of the current minute and hour.
#[derive(Debug)]
pub struct WriterAccount {
    minute: WriterTotals,
    hour: HourAccount,
    recent: RecentCalls,
    /// Bytes of programs whose calls were not seen, by program and container.
    counted: BTreeMap<String, CountedBytes>,
    /// Whether the minute's requests are estimates.
    is_thinned: bool,
    /// The only writer of each file by calls, if there is only one, by device and file.
    writers: HashMap<(String, String), Writer>,
    exact: ExactCounters,
    wakes: WakeWatch,
}

/// The hour so far.
#[derive(Debug)]
struct HourAccount {
    rows: WriterTotals,
    time_s: i64,
    until_s: i64,
    watched_s: u64,
    devices: BTreeMap<String, DeviceBytes>,
    drives: BTreeMap<String, DriveWear>,
}

/// The time of a minute.
#[derive(Clone, Copy, Debug)]
pub struct MinuteSpan {
    /// The time at which it began, seconds since 1970.
    pub time_s: i64,
    /// The time at which it ended.
    pub until_s: i64,
    /// The part of it that was watched, seconds.
    pub watched_s: u64,
}

impl MinuteSpan {
    /// The same as if the clock had not been set in it: it must not cover time that is to come, or
    /// none.
    fn without_jumps(self) -> MinuteSpan {
        let seconds = self.until_s.saturating_sub(self.time_s);
        let watched_s = i64::try_from(self.watched_s).unwrap_or(MOST_GAP_S);
        match (0..=MOST_GAP_S).contains(&seconds) {
            true => self,
            false => MinuteSpan { until_s: self.time_s.saturating_add(watched_s), ..self },
        }
    }
}

impl WriterAccount {
    /// Makes an account of the devices `only`; of all if it is empty.
    pub fn new(only: &[String]) -> WriterAccount {
        WriterAccount {
            minute: WriterTotals::new(MOST_MINUTE_ROWS),
            hour: HourAccount::new(),
            recent: RecentCalls::default(),
            counted: BTreeMap::new(),
            is_thinned: false,
            writers: HashMap::new(),
            exact: ExactCounters::new(only),
            wakes: WakeWatch::default(),
        }
    }

    /// Begins another watch at `now_ns`, CLOCK_MONOTONIC.
    pub fn begin(&mut self, now_ns: u64) {
        self.wakes.begin(now_ns);
    }

    /// Adds rows as they come: the kernel's counters, and requests that wake a disk.
    pub fn look(&mut self, batch: &Batch, names: &Names) {
        self.exact.add(batch, names);
        self.wakes.add(batch, names);
    }

    /// Adds a window of ten seconds.
    pub fn add(&mut self, summary: &Summary) {
        let Some(writers) = &summary.writers else { return };
        self.recent.fade();
        for row in &writers.asked {
            self.add_asked(row);
        }
        let environment = &summary.environment;
        self.is_thinned |= has_level(environment, |level| level.requests_one_in > 1);
        if has_level(environment, |level| !level.calls) {
            self.add_counted(summary, writers);
        }
        for row in &writers.moved {
            self.add_moved(row);
        }
        for wake in self.wakes.take() {
            self.add_wake(wake);
        }
    }

    fn add_asked(&mut self, row: &AskedRow) {
        // A file on no disk is in memory or on another host.
        let Some(device) = row.device.clone() else { return };
        let Some(program) = &row.program else {
            let rest = WriterId::for_rest(WriterKind::Others, &device, false);
            self.minute.add(&rest, &asked(row));
            return;
        };
        let id = WriterId {
            program: program_name(program),
            container: shortened(row.container.as_deref().unwrap_or_default()),
            file: file_name(row.file.as_deref()),
            device,
            ..WriterId::default()
        };
        self.recent.note(&id, &row.calls);
        if row.calls.writes > 0 {
            self.note_writer(&id);
        }
        // A program that only reads from the page cache has no row.
        self.minute.add(&id, &asked(row));
    }

    /// Adds the writes that the kernel counted of processes beyond the calls that were seen: to
    /// keep its budget, the watch does not count calls on a busy machine.
    fn add_counted(&mut self, summary: &Summary, writers: &Writers) {
        for (program, all) in counted_writes(summary) {
            let own = writers.asked.iter().filter(|row| row.device.is_some());
            let own = own
                .filter(|row| row.program.as_deref().map(program_name).as_ref() == Some(&program));
            let mut seen = AskedCalls::default();
            own.for_each(|row| seen.add(&row.calls));
            let bytes = all.bytes.saturating_sub(seen.write_bytes);
            if bytes > 0 && (self.counted.len() < MOST_FILES || self.counted.contains_key(&program))
            {
                let known = self.counted.entry(program).or_default();
                known.bytes = known.bytes.saturating_add(bytes);
                known.calls = known.calls.saturating_add(all.calls.saturating_sub(seen.writes));
                known.container = known.container.take().or(all.container);
            }
        }
        // Without calls, writes of data tell who causes the journal.
        for row in writers.moved.iter().filter(|row| row.program.is_some() && !row.is_below) {
            let is_data = !matches!(row.origin, None | Some(Origin::Journal | Origin::Metadata));
            let id = self.id_of(row, row.origin.unwrap_or(Origin::Unknown));
            if is_data && id.file.starts_with('/') {
                self.recent.note_requests(&id, row.directions[Direction::Write].requests);
            }
        }
    }

    /// Shares the counted writes of a program out to the files that were written for it, by their
    /// bytes; if there is none, the program has a row without a file.
    fn share_counted(&mut self) {
        for (program, counted) in std::mem::take(&mut self.counted) {
            let own = self
                .minute
                .rows()
                .filter(|(id, sums)| id.program == program && !id.is_below && sums.data_bytes > 0);
            let mut own: Vec<(WriterId, u64)> =
                own.map(|(id, sums)| (id.clone(), sums.data_bytes)).collect();
            own.sort();
            if own.is_empty() {
                let container = shortened(&counted.container.unwrap_or_default());
                own.push((WriterId { program, container, ..WriterId::default() }, 1));
            }
            let total: u128 = own.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
            let (mut before, mut given) = (0_u128, WriterSums::default());
            for (id, bytes) in own {
                before += u128::from(bytes);
                let until = |whole: u64| (u128::from(whole) * before / total.max(1)) as u64;
                let share = WriterSums {
                    asked_bytes: until(counted.bytes) - given.asked_bytes,
                    asked_calls: until(counted.calls) - given.asked_calls,
                    ..WriterSums::default()
                };
                given.add(&share);
                self.minute.add(&id, &share);
            }
        }
    }

    fn note_writer(&mut self, id: &WriterId) {
        let writer = (id.program.clone(), id.container.clone());
        let key = (id.device.clone(), id.file.clone());
        if id.file.is_empty() {
            return;
        }
        match self.writers.get_mut(&key) {
            Some(known) if known.as_ref() == Some(&writer) => (),
            Some(known) => *known = None,
            None => {
                if self.writers.len() >= MOST_FILES {
                    self.writers.clear();
                }
                self.writers.insert(key, Some(writer));
            }
        }
    }

    fn add_moved(&mut self, row: &MovedRow) {
        let sums = moved(row);
        let Some(origin) = row.origin else {
            let rest = WriterId::for_rest(WriterKind::Others, &row.device, row.is_below);
            self.minute.add(&rest, &sums);
            return;
        };
        let id = self.id_of(row, origin);
        let written = sums.journal_bytes.saturating_add(sums.metadata_bytes);
        if !row.is_kernel || row.is_below || written == 0 {
            self.minute.add(&id, &sums);
            return;
        }
        self.share_out(&id, &sums);
    }

    /// Shares the journal and metadata that a kernel thread wrote out to the programs that caused
    /// it.
    fn share_out(&mut self, id: &WriterId, sums: &WriterSums) {
        let journal = self.recent.share(&id.device, sums.journal_bytes);
        if journal.is_empty() {
            let file = if sums.journal_bytes > 0 { JOURNAL } else { METADATA };
            let nobody = WriterId {
                file: file.to_owned(),
                ..WriterId::for_rest(WriterKind::Unknown, &id.device, false)
            };
            self.minute.add(&nobody, sums);
            return;
        }
        let metadata = self.recent.share(&id.device, sums.metadata_bytes);
        let requests = self.recent.share(&id.device, sums.requests);
        for (((id, journal_bytes), (_, metadata_bytes)), (_, requests)) in
            journal.into_iter().zip(metadata).zip(requests)
        {
            let share =
                WriterSums { journal_bytes, metadata_bytes, requests, ..WriterSums::default() };
            self.minute.add(&id, &share);
        }
        // Its other writes are its own.
        let rest = WriterSums { journal_bytes: 0, metadata_bytes: 0, requests: 0, ..*sums };
        self.minute.add(id, &rest);
    }

    fn id_of(&self, row: &MovedRow, origin: Origin) -> WriterId {
        let file = match origin {
            Origin::Swap => SWAP.to_owned(),
            Origin::Journal => JOURNAL.to_owned(),
            Origin::Metadata if row.file.is_none() => METADATA.to_owned(),
            _ => file_name(row.file.as_deref()),
        };
        let container = shortened(row.container.as_deref().unwrap_or_default());
        let (device, is_below) = (row.device.clone(), row.is_below);
        if let Some(program) = &row.program {
            let program = program_name(program);
            return WriterId { program, container, file, device, is_below, ..WriterId::default() };
        }
        // Its only writer, if there is one, dirtied it before the watch.
        let key = (device, file);
        let only = self.writers.get(&key).cloned().flatten();
        let (device, file) = key;
        let kind = if only.is_some() { WriterKind::Program } else { WriterKind::Unknown };
        let (program, container) = only.unwrap_or_default();
        WriterId { kind, program, container, file, device, is_below }
    }

    fn add_wake(&mut self, wake: Wake) {
        let sums = WriterSums { wakes: 1, ..WriterSums::default() };
        let row = MovedRow {
            device: wake.device,
            is_below: wake.is_below,
            program: wake.program,
            container: wake.container,
            file: wake.file,
            ..MovedRow::default()
        };
        let id = self.id_of(&row, wake.origin);
        let due = match wake.origin {
            Origin::Journal | Origin::Metadata => self.recent.most(&id.device).cloned(),
            _ => None,
        };
        // The same program has rows with its container.
        let known = |id: &WriterId| {
            let mut own = self.minute.rows().map(|(known, _)| known);
            own.find(|own| WriterId { container: String::new(), ..(*own).clone() } == *id).cloned()
        };
        let id = due.unwrap_or(id);
        let id = if id.container.is_empty() { known(&id).unwrap_or(id) } else { id };
        self.minute.add(&id, &sums);
    }

    /// Ends a minute: returns its record, and those of the hours that end with it.
    pub fn end_minute(
        &mut self,
        span: MinuteSpan,
        drives: &BTreeMap<String, DriveWear>,
    ) -> (WriterRecord, Vec<WriterRecord>) {
        let span = span.without_jumps();
        self.share_counted();
        let mut rows = std::mem::replace(&mut self.minute, WriterTotals::new(MOST_MINUTE_ROWS));
        let devices = self.exact.settle(&mut rows, std::mem::take(&mut self.is_thinned));
        let mut over = Vec::new();
        if self.hour.is_over_for(span) {
            over.extend(self.end_hour());
        }
        self.hour.add(span, &rows, &devices, drives);
        let minute = WriterRecord {
            time_s: span.time_s,
            until_s: span.until_s,
            watched_s: span.watched_s,
            devices,
            drives: BTreeMap::new(),
            rows: rows.top(MINUTE_ROWS),
        };
        (minute, over)
    }

    /// Ends the hour, even if it is not over; `None` if it has no minutes.
    pub fn end_hour(&mut self) -> Option<WriterRecord> {
        let hour = std::mem::replace(&mut self.hour, HourAccount::new());
        (hour.until_s > hour.time_s).then(|| WriterRecord {
            time_s: hour.time_s,
            until_s: hour.until_s,
            watched_s: hour.watched_s,
            devices: hour.devices,
            drives: hour.drives,
            rows: hour.rows.top(HOUR_ROWS),
        })
    }
}

impl HourAccount {
    fn new() -> HourAccount {
        HourAccount {
            rows: WriterTotals::new(MOST_HOUR_ROWS),
            time_s: 0,
            until_s: 0,
            watched_s: 0,
            devices: BTreeMap::new(),
            drives: BTreeMap::new(),
        }
    }

    /// Returns whether a minute is of another hour, or of another time: the clock may have been set
    /// between the two, and they must not be added up.
    fn is_over_for(&self, minute: MinuteSpan) -> bool {
        let is_begun = self.until_s > self.time_s;
        let is_other = minute.time_s.div_euclid(HOUR_S) != self.time_s.div_euclid(HOUR_S);
        let is_jump = minute.time_s + MOST_GAP_S / 10 < self.until_s
            || minute.time_s > self.until_s + MOST_GAP_S;
        is_begun && (is_other || is_jump)
    }

    fn add(
        &mut self,
        span: MinuteSpan,
        rows: &WriterTotals,
        devices: &BTreeMap<String, DeviceBytes>,
        drives: &BTreeMap<String, DriveWear>,
    ) {
        if self.until_s == self.time_s {
            self.time_s = span.time_s;
        }
        self.until_s = span.until_s.max(self.time_s + 1);
        self.watched_s += span.watched_s;
        rows.rows().for_each(|(id, sums)| self.rows.add(id, sums));
        for (device, bytes) in devices {
            self.devices.entry(device.clone()).or_default().add(bytes);
        }
        self.drives.clone_from(drives);
    }
}

/// Returns the writes of each program that the kernel counted in a window. A process wrote at most
/// the bytes of its calls, which also go to pipes and sockets, and at most the pages that it made
/// dirty; of its calls, the same share as of their bytes.
fn counted_writes(summary: &Summary) -> BTreeMap<String, CountedBytes> {
    let seconds = summary.watch.duration_ns as f64 / 1e9;
    let calls = summary.samples.of(Metric::WriteCalls).iter();
    let calls: BTreeMap<u32, f64> =
        calls.filter_map(|series| Some((process_of(&series.subject)?.0, series.mean?))).collect();
    let mut counted: BTreeMap<String, CountedBytes> = BTreeMap::new();
    for process in processes::processes(summary) {
        let written = process.logical_write_bytes_per_s.unwrap_or(0.0);
        let pages = process.write_bytes_per_s.unwrap_or(0.0);
        let is_mapped = pages > written * MOST_PAGES_PER_BYTE;
        let asked = if is_mapped { 0.0 } else { written.min(pages) };
        let calls = calls.get(&process.pid).copied().unwrap_or(0.0) * (asked / written.max(1.0));
        let sum = counted.entry(program_name(&process.process)).or_default();
        sum.bytes = sum.bytes.saturating_add((asked * seconds).round() as u64);
        sum.calls = sum.calls.saturating_add((calls * seconds).ceil() as u64);
        sum.container = sum.container.take().or(process.container);
    }
    counted
}

/// Returns whether a level of thinning was in force for a part of the window.
fn has_level(window: &Environment, is_meant: impl Fn(&Thinning) -> bool) -> bool {
    let ends = window.thinning.iter().skip(1).map(|level| level.from_ns).chain([u64::MAX]);
    let mut levels = window.thinning.iter().zip(ends);
    levels.any(|(level, until_ns)| {
        is_meant(level) && level.from_ns < window.end_ns && until_ns > window.start_ns
    })
}

fn asked(row: &AskedRow) -> WriterSums {
    WriterSums {
        asked_bytes: row.calls.write_bytes,
        asked_calls: row.calls.writes,
        syncs: row.calls.syncs,
        ..WriterSums::default()
    }
}

fn moved(row: &MovedRow) -> WriterSums {
    let bytes = |direction| row.directions[direction].bytes;
    let written = bytes(Direction::Write).saturating_add(bytes(Direction::Other));
    let mut sums = WriterSums {
        read_bytes: bytes(Direction::Read),
        discarded_bytes: bytes(Direction::Discard),
        requests: row.directions.iter().map(|(_, flow)| flow.requests).sum(),
        ..WriterSums::default()
    };
    match row.origin {
        Some(Origin::Journal) => sums.journal_bytes = written,
        Some(Origin::Metadata) => sums.metadata_bytes = written,
        _ => sums.data_bytes = written,
    }
    sums
}

/// Returns a program's name; kernel workers, whose names change with their work, have one name.
fn program_name(name: &str) -> String {
    let worker = name.split(['/', ':']).next().filter(|first| *first == "kworker");
    shortened(worker.unwrap_or(name))
}

/// Returns a file's name, with N for its numbers.
fn file_name(path: Option<&str>) -> String {
    shortened(&without_numbers(path.unwrap_or_default()))
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(MOST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns the bytes that the rows of a device wrote, which add up to the kernel's counter, except
/// records that are still to come; for tests and `--json`.
pub fn written_by_rows(rows: &[WriterRow], device: &str) -> u64 {
    let own = rows.iter().filter(|row| row.id.device == device);
    own.map(|row| row.sums.written_bytes()).fold(0, u64::saturating_add)
}
