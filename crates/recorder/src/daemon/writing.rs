//! The account of writers, minute by minute, and the lines of it that the saver writes.
//!
//! What does not belong here: how it is added up ([`crate::writers`]).

use super::{Daemon, DaemonWatch};
use crate::history::{HistoryFinding, HistoryMinute};
use crate::saver::SaverTask;
use crate::writers::account::{MinuteSpan, WriterAccount};
use crate::writers::files::WriterSeries;
use crate::writers::over_days::OverDaysFinding;
use crate::writers::{DriveWear, WriterRecord};
use iowhy_model::environment::Environment;
use iowhy_model::source::Source;
use std::collections::BTreeMap;

/// The daemon's state of who writes.
#[derive(Debug)]
pub(super) struct WriterWatch {
    /// The figures so far.
    pub account: WriterAccount,
    drives: BTreeMap<String, DriveWear>,
    /// Findings over days, kept until the next minute is written.
    found: Vec<OverDaysFinding>,
}

impl WriterWatch {
    /// Watches the devices `only`; all if it is empty.
    pub fn new(only: &[String]) -> WriterWatch {
        let (account, drives) = (WriterAccount::new(only), BTreeMap::new());
        WriterWatch { account, drives, found: Vec::new() }
    }

    /// Keeps the findings over days.
    pub fn note_found(&mut self, found: Vec<OverDaysFinding>) {
        self.found = found;
    }
}

/// Returns the wear that drives report.
fn wear(environment: &Environment) -> BTreeMap<String, DriveWear> {
    let known = environment.devices.iter().filter_map(|device| {
        let health = device.health_end.as_ref().or(device.health_start.as_ref())?;
        let nvme = health.nvme.as_ref().map(|log| (Some(log.used_percent), log.written_bytes));
        let drive = health.drive.as_ref().map(|log| (log.used_percent, log.written_bytes));
        let (used, written_bytes) = nvme.or(drive)?;
        Some((device.name.clone(), DriveWear { used_percent: used? as f64, written_bytes }))
    });
    known.collect()
}

impl Daemon<'_> {
    /// Updates the wear of drives, which are asked once a minute.
    pub(super) fn note_wear(&mut self, watch: &DaemonWatch) {
        self.writing.drives = wear(watch.live.environment());
    }

    /// Ends a minute of the account, and adds the findings over days to the minute of the history.
    pub(super) fn write_writers(&mut self, minute: &mut HistoryMinute, until_s: i64) {
        let span = MinuteSpan {
            time_s: minute.time_s,
            until_s,
            watched_s: minute.watched_ns / 1_000_000_000,
        };
        let (record, hours) = self.writing.account.end_minute(span, &self.writing.drives);
        self.metrics.add_writers(&record);
        self.offer_writers(WriterSeries::Minutes, &record);
        for hour in &hours {
            self.offer_writers(WriterSeries::Hours, hour);
        }
        if !hours.is_empty() {
            self.offer(SaverTask::OverDays { now_s: until_s });
        }
        let found = std::mem::take(&mut self.writing.found).into_iter();
        minute.findings.extend(found.map(|finding| HistoryFinding {
            cause: finding.cause.to_owned(),
            device: Some(finding.device),
            process: Some(finding.program),
            severity: "info".to_owned(),
        }));
    }

    /// Writes the unfinished hour, because no more minutes come.
    pub(super) fn finish_writers(&mut self) {
        if let Some(hour) = self.writing.account.end_hour() {
            self.offer_writers(WriterSeries::Hours, &hour);
        }
    }

    fn offer_writers(&mut self, series: WriterSeries, record: &WriterRecord) {
        if let Ok(line) = serde_json::to_string(record) {
            self.offer(SaverTask::Writers { series, time_s: record.time_s, line });
        }
    }
}
