//! Copies of the kernel's counters, and their growth from one copy to the next. `/proc/diskstats`
//! and node_exporter's metrics are such copies.
//!
//! What does not belong here: tables of rates (see `rows`).

use super::RowsOut;
use super::figures::ReportClock;
use crate::book::{COLUMNS, CounterBook};
use iowhy_model::Metric;
use iowhy_model::figures::counted;
use iowhy_model::metric::Shape;
use std::collections::BTreeMap;

/// Devices of one copy that are kept.
const MOST_DEVICES: usize = 4096;

/// Counters of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskCounters {
    pub number: (u32, u32),
    pub values: [Option<f64>; COLUMNS],
}

/// One copy.
#[derive(Clone, Debug, Default)]
struct CounterCopy {
    devices: BTreeMap<String, DiskCounters>,
    others: BTreeMap<Metric, f64>,
    /// The times at which it was taken and at which the machine was booted, seconds since 1970.
    time_s: Option<f64>,
    boot_s: Option<f64>,
    /// The time since the copy before, seconds, as the lines between them tell it.
    interval_s: Option<f64>,
}

/// Growth of counters between two copies.
type Growth = (CounterCopy, CounterCopy);

/// The copies so far.
#[derive(Debug, Default)]
pub(super) struct CounterCopies {
    current: CounterCopy,
    before: Option<CounterCopy>,
    copies: u64,
    left_out: u64,
    /// The first two copies between which no time is told, and how many there are.
    untimed: Option<Growth>,
    untimed_count: u64,
    /// Whether rows of `vmstat -d` follow.
    is_vmstat: bool,
}

impl CounterCopies {
    /// Takes a line of `vmstat -d`; false if it is none.
    pub fn vmstat(
        &mut self,
        line: &str,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> bool {
        if is_vmstat_disks(line) {
            self.is_vmstat = true;
            return true;
        }
        if !self.is_vmstat {
            return false;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"total") {
            return true;
        }
        let [name, ref figures @ ..] = words[..] else { return false };
        let figures: Vec<f64> = figures
            .iter()
            .map_while(|figure| figure.parse::<u64>().ok())
            .map(|figure| figure as f64)
            .collect();
        let [columns @ .., in_flight, busy_s] = &figures[..] else { return false };
        if columns.len() != 8 {
            return false;
        }
        let mut counters = DiskCounters::default();
        let busy_ms = busy_s * 1e3;
        let told = columns.iter().copied().chain([*in_flight, busy_ms]);
        for (slot, value) in counters.values.iter_mut().zip(told) {
            *slot = Some(value);
        }
        self.device(name, counters, clock, book, out);
        true
    }

    /// Takes the counters of a device; those of one that is there already begin the next copy.
    pub fn device(
        &mut self,
        name: &str,
        counters: DiskCounters,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) {
        if self.current.devices.contains_key(name) {
            self.end(clock, book, out);
        }
        if self.current.devices.is_empty() {
            let passed = clock.take_passed();
            self.current.interval_s = self.before.as_ref().and(passed);
        }
        if self.current.devices.len() < MOST_DEVICES {
            self.current.devices.insert(name.to_owned(), counters);
        } else {
            self.left_out += 1;
        }
    }

    /// Takes one column of a device.
    pub fn column(&mut self, name: &str, column: usize, value: f64) {
        let is_known = self.current.devices.contains_key(name);
        if !is_known && self.current.devices.len() >= MOST_DEVICES {
            self.left_out += 1;
            return;
        }
        let counters = self.current.devices.entry(name.to_owned()).or_default();
        if let Some(held) = counters.values.get_mut(column) {
            *held = Some(value);
        }
    }

    /// Whether a column of a device is part of this copy.
    pub fn has(&self, name: &str, column: usize) -> bool {
        self.current.devices.get(name).is_some_and(|device| device.values[column].is_some())
    }

    /// Adds to a value of the machine.
    pub fn other(&mut self, metric: Metric, value: f64) {
        *self.current.others.entry(metric).or_default() += value;
    }

    /// Takes the times of the copy.
    pub fn times(&mut self, time_s: Option<f64>, boot_s: Option<f64>) {
        self.current.time_s = time_s.or(self.current.time_s);
        self.current.boot_s = boot_s.or(self.current.boot_s);
    }

    /// Ends the copy: the growth since the one before is added to the book.
    pub fn end(&mut self, clock: &mut ReportClock, book: &mut CounterBook, out: &mut RowsOut<'_>) {
        let copy = std::mem::take(&mut self.current);
        if copy.devices.is_empty() && copy.others.is_empty() {
            return;
        }
        self.copies += 1;
        let Some(before) = self.before.replace(copy.clone()) else { return };
        let told = copy.time_s.zip(before.time_s).map(|(now, then)| now - then);
        let told = told.or(copy.interval_s).or_else(|| clock.take_passed());
        let Some(seconds) = told.filter(|seconds| *seconds > 0.0) else {
            self.untimed_count += 1;
            self.untimed.get_or_insert((before, copy));
            return;
        };
        book.advance(seconds);
        copy.add_since(&before, book);
        book.sample(out.batch, out.names);
    }

    /// Ends the last copy. A single one has the growth since boot, if it has the time of the boot.
    pub fn finish(
        &mut self,
        clock: &mut ReportClock,
        book: &mut CounterBook,
        out: &mut RowsOut<'_>,
    ) -> Option<String> {
        self.end(clock, book, out);
        if let Some((before, copy)) = self.untimed.take() {
            return Some(self.without_time(&before, &copy, book));
        }
        let only = self.before.as_ref().filter(|_| self.copies == 1)?;
        let uptime = only.time_s.zip(only.boot_s).map(|(now, boot)| now - boot);
        let Some(uptime) = uptime.filter(|uptime| *uptime > 0.0) else {
            return Some(
                "one copy of the counters tells no rates: two do, with the time before each \
                 (`cat /proc/uptime /proc/diskstats`)"
                    .to_owned(),
            );
        };
        book.advance(uptime);
        only.add_since(&CounterCopy::default(), book);
        book.sample(out.batch, out.names);
        Some("one copy of the counters tells means since boot: two tell what happens now".into())
    }

    /// Adds what grew in a time that is not told, if nothing else tells of any time: mean times of
    /// requests are known then, and no rates.
    fn without_time(
        &self,
        before: &CounterCopy,
        copy: &CounterCopy,
        book: &mut CounterBook,
    ) -> String {
        if book.has_passed() {
            let meaning =
                "intervals were left out: no time is told between these copies of the counters";
            return counted(self.untimed_count, meaning);
        }
        copy.add_since(before, book);
        "nothing tells how much time lies between copies of the counters: rates and %util are not \
         known, mean times of requests are (`cat /proc/uptime /proc/diskstats` adds the time)"
            .to_owned()
    }

    /// Devices that did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl CounterCopy {
    /// Adds the growth since another copy.
    fn add_since(&self, before: &CounterCopy, book: &mut CounterBook) {
        for (name, counters) in &self.devices {
            if counters.number != (0, 0) {
                book.number(name, counters.number);
            }
            let earlier = before.devices.get(name);
            let grown = counters.values.iter().enumerate().filter_map(|(column, value)| {
                let value = (*value)?;
                let was = earlier.and_then(|earlier| earlier.values[column]).unwrap_or(0.0);
                // Requests in flight are a gauge.
                Some((column, if column == 8 { value } else { (value - was).max(0.0) }))
            });
            book.add(name, &grown.collect::<Vec<_>>());
        }
        for (metric, value) in &self.others {
            let was = before.others.get(metric).copied().unwrap_or(0.0);
            let value = match metric.info().shape {
                Shape::Gauge => *value,
                Shape::Counter => (value - was).max(0.0),
            };
            book.other(*metric, "", value);
        }
    }
}

/// Whether a line is the first of `vmstat -d`.
pub(super) fn is_vmstat_disks(line: &str) -> bool {
    line.trim_start().starts_with("disk- ----")
}

/// Name and counters of a row of `/proc/diskstats`.
pub(super) fn diskstats(line: &str) -> Option<(&str, DiskCounters)> {
    let mut words = line.split_whitespace();
    let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words
        .next()
        .filter(|word| word.starts_with(|character: char| character.is_ascii_lowercase()))?;
    let mut counters = DiskCounters { number, ..DiskCounters::default() };
    let mut count = 0;
    for word in words {
        let value: u64 = word.parse().ok()?;
        if let Some(slot) = counters.values.get_mut(count) {
            *slot = Some(value as f64);
            count += 1;
        }
    }
    (count >= 11).then_some((name, counters))
}

/// Adds a row of `/proc/diskstats` as the growth since boot; partitions are part of their disk.
pub fn since_boot(line: &str, book: &mut CounterBook) {
    if let Some((name, counters)) = diskstats(line) {
        book.number(name, counters.number);
        let known =
            counters.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        book.add(name, &known.collect::<Vec<_>>());
    }
}
