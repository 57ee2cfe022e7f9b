//! The files of who writes: `history/writers/minutes/2026-11-24.jsonl`, a line for each minute, for
//! two days, and `history/writers/hours/2026-11-24.jsonl`, a line for each hour, as long as the
//! history is kept.
//!
//! An hour has a line when it is over; until then, and where the daemon was killed, its minutes
//! stand for it. Hours and minutes never count twice: a minute is read unless a line of an hour
//! covers it.
//!
//! What does not belong here: figures.

use super::WriterRecord;
use super::over_days::{OverDaysFinding, found};
use crate::history::{HistoryFiles, HistoryLimits};
use iowhy_model::compact_sort::CompactSort;
use std::io;
use std::path::Path;

/// Days of which the minutes are kept.
const MINUTE_DAYS: u32 = 2;
/// Bytes of all minutes.
const MINUTE_BYTES: u64 = 12_000_000;
/// Bytes of all hours.
const HOUR_BYTES: u64 = 13_000_000;
const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

/// The two series of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterSeries {
    /// A line for each minute.
    Minutes,
    /// A line for each hour.
    Hours,
}

/// Returns the findings over days, as of now.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn found_over_days(files: &WriterFiles, now_s: i64) -> io::Result<Vec<OverDaysFinding>> {
    let records = files.records(now_s - 8 * DAY_S, now_s + 1)?;
    let minutes = files.minutes(now_s - DAY_S, now_s + 1)?;
    Ok(found(&records, &minutes, now_s))
}

/// The files of both series.
#[derive(Clone, Debug)]
pub struct WriterFiles {
    minutes: HistoryFiles,
    hours: HistoryFiles,
}

impl WriterFiles {
    /// Returns the files below the state directory `state`.
    pub fn below(state: &Path) -> WriterFiles {
        let writers = state.join("history/writers");
        WriterFiles {
            minutes: HistoryFiles::within(writers.join("minutes")),
            hours: HistoryFiles::within(writers.join("hours")),
        }
    }

    /// Appends a line of the time `time_s`, seconds since 1970; `limits` are those of the history.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn append(
        &self,
        series: WriterSeries,
        time_s: i64,
        line: &str,
        limits: HistoryLimits,
    ) -> io::Result<()> {
        let within = |days: u32, bytes: u64| HistoryLimits {
            days: days.min(limits.days),
            bytes: bytes.min(limits.bytes),
        };
        match series {
            WriterSeries::Minutes => {
                self.minutes.append(time_s, line, within(MINUTE_DAYS, MINUTE_BYTES))
            }
            WriterSeries::Hours => self.hours.append(time_s, line, within(u32::MAX, HOUR_BYTES)),
        }
    }

    /// Returns the hours, and the minutes that none of them covers, from `from_s` on until before
    /// `until_s`, in order. An hour belongs to the time in which it began.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn records(&self, from_s: i64, until_s: i64) -> io::Result<Vec<WriterRecord>> {
        let is_within = |record: &WriterRecord| (from_s..until_s).contains(&record.time_s);
        // An hour that began before may cover minutes.
        let hours: Vec<WriterRecord> = self.hours.lines(from_s - HOUR_S, until_s)?;
        let mut records = Vec::new();
        for minute in self.minutes(from_s, until_s)? {
            let covers = |hour: &&WriterRecord| {
                is_within(hour) && (hour.time_s..hour.until_s).contains(&minute.time_s)
            };
            if !hours.iter().any(|hour| covers(&hour)) {
                records.push(minute);
            }
        }
        records.extend(hours.into_iter().filter(is_within));
        records.compact_sort_by_key(|record| record.time_s);
        Ok(records)
    }

    /// Returns the minutes from `from_s` on until before `until_s`, in order.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn minutes(&self, from_s: i64, until_s: i64) -> io::Result<Vec<WriterRecord>> {
        let mut minutes: Vec<WriterRecord> = self.minutes.lines(from_s, until_s)?;
        minutes.retain(|minute| (from_s..until_s).contains(&minute.time_s));
        minutes.compact_sort_by_key(|minute| minute.time_s);
        Ok(minutes)
    }
}
