//! Rows of tables as growth of counters: iostat, sar, vmstat, pidstat, and copies of
//! `/proc/diskstats`.
//!
//! What does not belong here: rows that are requests (see `requests`).

use super::RowsOut;
use super::figures::{self, ReportClock, number, time_of_day};
use super::header::TableHeader;
use crate::book::{COLUMNS, CounterBook};
use crate::kind::ForeignKind;
use iowhy_core::figures::counted;
use iowhy_core::model::Metric;
use std::collections::BTreeMap;

/// Rows of one report that are kept.
const MOST_ROWS: usize = 16 << 10;
/// Bytes of a sector.
const SECTOR: f64 = 512.0;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The report whose rows are being read.
#[derive(Debug, Default)]
pub(super) struct PendingReport {
    header: Option<TableHeader>,
    rows: Vec<Vec<String>>,
    /// Reports that were taken, and whether the one since boot was left out, of iostat and vmstat.
    reports: u64,
    since_boot: Option<SinceBoot>,
    /// The last copy of `/proc/diskstats`: the counters of each device.
    copies: BTreeMap<String, [f64; COLUMNS]>,
    /// Devices of the copy that is being read.
    seen: Vec<String>,
    snapshots: u64,
    assumed: u64,
    left_out: u64,
}

/// The first report of iostat and vmstat is the mean since boot.
#[derive(Clone, Debug)]
struct SinceBoot {
    header: TableHeader,
    rows: Vec<Vec<String>>,
}

impl PendingReport {
    /// Begins the report of `header`, whose line may tell the time.
    pub fn begin(
        &mut self,
        header: &TableHeader,
        clock: &mut ReportClock,
        line: &str,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        self.end_rows(clock, book, out);
        if let (Some(time), _) = time_of_day(line) {
            clock.at(time);
        }
        self.header = Some(header.clone());
    }

    /// Takes a row; false if it is none of the table.
    pub fn row(
        &mut self,
        header: &TableHeader,
        line: &str,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> bool {
        let (time, rest) = time_of_day(line.trim_start_matches("Average:"));
        let mut words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        if header.kind == ForeignKind::Pidstat && words.len() > header.columns.len() {
            let command = words.split_off(header.columns.len() - 1).join(" ");
            words.push(command);
        }
        let time = match header.kind {
            // `-t` puts date and time behind.
            ForeignKind::Vmstat if words.len() > header.columns.len() => {
                let behind = words.split_off(header.columns.len());
                behind.iter().find_map(|word| figures::clock(word))
            }
            _ => time,
        };
        let figures = words.iter().filter(|word| number(word).is_some()).count();
        if words.len() != header.columns.len() || figures * 2 < words.len() {
            return false;
        }
        if line.starts_with("Average:") {
            return true;
        }
        self.header.get_or_insert_with(|| header.clone());
        if let Some(time) = time {
            self.meet(time, clock, book, out);
        }
        if header.kind == ForeignKind::Vmstat {
            self.rows.push(words);
            self.end_rows(clock, book, out);
            self.header = Some(header.clone());
            return true;
        }
        if self.rows.len() < MOST_ROWS {
            self.rows.push(words);
        } else {
            self.left_out += 1;
        }
        true
    }

    /// A row's time: if it is another than that of the rows before, their report has ended.
    fn meet(
        &mut self,
        time: f64,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        let header = self.header.clone();
        if clock.is_later(time) && !self.rows.is_empty() {
            self.end_rows(clock, book, out);
        }
        clock.at(time);
        self.header = header;
    }

    /// Adds the rows of the report to the book.
    pub fn end_rows(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        let rows = std::mem::take(&mut self.rows);
        let Some(header) = self.header.take().filter(|_| !rows.is_empty()) else { return };
        let is_first = self.reports == 0 && self.since_boot.is_none() && !header.is_cpu;
        if is_first && matches!(header.kind, ForeignKind::Iostat | ForeignKind::Vmstat) {
            self.since_boot = Some(SinceBoot { header, rows });
            return;
        }
        if header.is_cpu {
            // Its interval is that of the devices below it.
            return cpu(&header, &rows, figures::ASSUMED_S, book);
        }
        self.reports += 1;
        self.take(&header, &rows, clock.interval(), book);
        self.assumed = clock.assumed();
        book.sample(out.batch, out.names);
    }

    fn take(
        &mut self,
        header: &TableHeader,
        rows: &[Vec<String>],
        seconds: f64,
        book: &mut CounterBook,
    ) {
        book.advance(seconds);
        for words in rows {
            let row = TableRow { header, words, seconds };
            match header.kind {
                ForeignKind::Iostat | ForeignKind::Sar => device(&row, book),
                ForeignKind::Pidstat => process(&row, book),
                ForeignKind::Vmstat => machine(&row, book),
                _ => {}
            }
        }
    }

    /// Takes a row of `/proc/diskstats`.
    pub fn diskstats(
        &mut self,
        line: &str,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        let Some((number, name, columns)) = diskstats(line) else { return };
        if self.seen.iter().any(|it| it == name) {
            self.end_copy(book, out);
        }
        if self.seen.is_empty() {
            self.snapshots += 1;
            if self.snapshots > 1 {
                book.advance(clock.interval());
                self.assumed = clock.assumed();
            } else {
                let _ = clock.take_passed();
            }
        }
        if self.seen.len() >= MOST_ROWS {
            self.left_out += 1;
            return;
        }
        self.seen.push(name.to_owned());
        if let Some(before) = self.copies.insert(name.to_owned(), columns.all) {
            book.number(name, number);
            let grown = |column: usize| columns.all[column] - before[column];
            let known = (0..columns.count).map(|column| match column {
                8 => (8, columns.all[8]),
                _ => (column, grown(column).max(0.0)),
            });
            book.add(name, &known.collect::<Vec<_>>());
        }
    }

    fn end_copy(&mut self, book: &mut CounterBook, out: &mut RowsOut<'_>) {
        self.seen.clear();
        if self.snapshots > 1 {
            book.sample(out.batch, out.names);
        }
    }

    /// Ends the last report. If there is no other, the one since boot is what is known.
    pub fn finish(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        self.end_rows(clock, book, out);
        if !self.seen.is_empty() {
            self.end_copy(book, out);
        }
        if self.reports == 0
            && let Some(SinceBoot { header, rows }) = self.since_boot.clone()
        {
            self.take(&header, &rows, figures::ASSUMED_S, book);
            book.sample(out.batch, out.names);
        }
    }

    /// Sentences on what the reports do not tell.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        match (&self.since_boot, self.reports) {
            (Some(_), 0) => limits.push(
                "its only report is usually the mean since boot: `iostat -x -t 1 10` shows what \
                 happens now"
                    .to_owned(),
            ),
            (Some(_), _) => limits
                .push("the first report, usually the mean since boot, was left out".to_owned()),
            (None, _) => {}
        }
        if self.assumed > 0 {
            let meaning = "intervals have no time in the text and were taken for a second: rates \
                           are right, totals and its length may not be (`-t` adds the \
                           time)";
            limits.push(counted(self.assumed, meaning));
        }
        if self.snapshots == 1 {
            limits.push(
                "one copy of /proc/diskstats tells no rates: two do, with /proc/uptime before each"
                    .to_owned(),
            );
        }
        if self.left_out > 0 {
            limits.push(counted(self.left_out, "rows of very long reports were left out"));
        }
        limits
    }
}

/// A row of a table.
struct TableRow<'a> {
    header: &'a TableHeader,
    words: &'a [String],
    seconds: f64,
}

impl TableRow<'_> {
    fn text(&self, names: &[&str]) -> Option<&str> {
        let column = self.header.column(names)?;
        self.words.get(column).map(String::as_str)
    }

    fn get(&self, names: &[&str]) -> Option<f64> {
        number(self.text(names)?)
    }

    /// Sectors per second, whatever unit the column has.
    fn sectors(&self, names: [&str; 3]) -> Option<f64> {
        let [kib, mib, sectors] = names;
        self.get(&[kib])
            .map(|it| it * KIB / SECTOR)
            .or_else(|| self.get(&[mib]).map(|it| it * MIB / SECTOR))
            .or_else(|| self.get(&[sectors]))
    }
}

/// A row of iostat or sar about a device.
fn device(row: &TableRow<'_>, book: &mut CounterBook) {
    let Some(name) = row.text(&["Device", "DEV"]) else { return };
    let seconds = row.seconds;
    let mut grown = Vec::new();
    let mut add = |column: usize, value: Option<f64>| {
        grown.extend(value.map(|value| (column, value)));
    };
    let per_s = |value: Option<f64>| value.map(|it| it * seconds);
    for (first, rate, merged, sectors, wait) in [
        (0, "r/s", "rrqm/s", ["rkB/s", "rMB/s", "rsec/s"], "r_await"),
        (4, "w/s", "wrqm/s", ["wkB/s", "wMB/s", "wsec/s"], "w_await"),
        (11, "d/s", "drqm/s", ["dkB/s", "dMB/s", "dsec/s"], "d_await"),
    ] {
        let requests = per_s(row.get(&[rate]));
        add(first, requests);
        add(first + 1, per_s(row.get(&[merged])));
        let moved = row.sectors(sectors);
        let plain = match first {
            0 => row.sectors(["kB_read/s", "MB_read/s", "Blk_read/s"]),
            4 => row.sectors(["kB_wrtn/s", "MB_wrtn/s", "Blk_wrtn/s"]),
            _ => row.sectors(["kB_dscd/s", "MB_dscd/s", "Blk_dscd/s"]),
        };
        add(first + 2, per_s(moved.or(plain)));
        add(first + 3, requests.zip(row.get(&[wait])).map(|(count, wait)| count * wait));
    }
    let flushes = per_s(row.get(&["f/s"]));
    add(15, flushes);
    add(16, flushes.zip(row.get(&["f_await"])).map(|(count, wait)| count * wait));
    let share = row.get(&["%util"]).map(|it| it.clamp(0.0, 100.0) / 100.0);
    add(9, share.map(|it| it * seconds * 1e3));
    let depth = row.get(&["aqu-sz", "avgqu-sz"]);
    add(10, depth.map(|it| it * seconds * 1e3));
    let name = sar_name(name, book);
    book.add(&name, &grown);
}

/// A device of sar without `-p` is `dev8-0`: its numbers.
fn sar_name(name: &str, book: &mut CounterBook) -> String {
    let numbers = name.strip_prefix("dev").and_then(|it| it.split_once('-'));
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((major, minor)) = numbers else { return name.to_owned() };
    let name = format!("{major}:{minor}");
    book.number(&name, (major, minor));
    name
}

/// A row of `pidstat -d`.
fn process(row: &TableRow<'_>, book: &mut CounterBook) {
    let (Some(pid), Some(name)) = (row.text(&["PID"]), row.text(&["Command"])) else { return };
    let subject = format!("{pid} {name}");
    for (column, metric) in [
        ("kB_rd/s", Metric::CausedRead),
        ("kB_wr/s", Metric::CausedWrite),
        ("kB_ccwr/s", Metric::CancelledWrite),
    ] {
        // -1 stands for what may not be read.
        if let Some(rate) = row.get(&[column]).filter(|it| *it >= 0.0) {
            book.other(metric, &subject, rate * KIB * row.seconds);
        }
    }
}

/// The shares of CPU time of a row, on one CPU: only their proportions are known.
fn cpu(header: &TableHeader, rows: &[Vec<String>], seconds: f64, book: &mut CounterBook) {
    let Some(words) = rows.first() else { return };
    cpu_shares(&TableRow { header, words, seconds }, book);
}

fn cpu_shares(row: &TableRow<'_>, book: &mut CounterBook) {
    for (names, metric) in [
        (["%user", "us"], Metric::CpuUser),
        (["%system", "sy"], Metric::CpuSystem),
        (["%idle", "id"], Metric::CpuIdle),
        (["%iowait", "wa"], Metric::CpuIoWait),
        (["%steal", "st"], Metric::CpuSteal),
    ] {
        if let Some(percent) = row.get(&names) {
            book.other(metric, "", percent.clamp(0.0, 100.0) / 100.0 * row.seconds * 1e9);
        }
    }
}

/// A row of vmstat; its blocks are of 1024 bytes, and so is its memory.
fn machine(row: &TableRow<'_>, book: &mut CounterBook) {
    for (name, metric, unit) in [
        ("r", Metric::Running, 1.0),
        ("b", Metric::Blocked, 1.0),
        ("free", Metric::MemoryFree, KIB),
        ("buff", Metric::Buffers, KIB),
        ("cache", Metric::Cached, KIB),
        ("si", Metric::SwappedIn, KIB * row.seconds),
        ("so", Metric::SwappedOut, KIB * row.seconds),
        ("bi", Metric::PagedIn, KIB * row.seconds),
        ("bo", Metric::PagedOut, KIB * row.seconds),
    ] {
        if let Some(value) = row.get(&[name]) {
            book.other(metric, "", value * unit);
        }
    }
    cpu_shares(row, book);
}

/// The counters of a row of `/proc/diskstats`.
pub(super) struct DiskCounters {
    all: [f64; COLUMNS],
    count: usize,
}

/// Number, name and counters of a row of `/proc/diskstats`.
pub(super) fn diskstats(line: &str) -> Option<((u32, u32), &str, DiskCounters)> {
    let mut words = line.split_whitespace();
    let (major, minor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next().filter(|it| it.starts_with(|it: char| it.is_ascii_lowercase()))?;
    let mut counters = DiskCounters { all: [0.0; COLUMNS], count: 0 };
    for word in words {
        let value: u64 = word.parse().ok()?;
        if let Some(slot) = counters.all.get_mut(counters.count) {
            *slot = value as f64;
            counters.count += 1;
        }
    }
    (counters.count >= 11).then_some(((major, minor), name, counters))
}

/// Adds a row of `/proc/diskstats` as the growth since boot; partitions are part of their disk.
pub fn since_boot(line: &str, book: &mut CounterBook) {
    if let Some((number, name, counters)) = diskstats(line) {
        book.number(name, number);
        let known = counters.all.iter().copied().enumerate().take(counters.count);
        book.add(name, &known.collect::<Vec<_>>());
    }
}
