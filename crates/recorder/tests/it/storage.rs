//! What the daemon does beside watching, in scripted time: minutes of the history and of who
//! writes, incidents that are moved to the state directory, metrics. The thread that writes is the
//! daemon's own; the clock on the wall is an argument.
//!
//! What does not belong here: which rows, and what happens to the disk.

use crate::host::S;
use iowhy_model::Names;
use iowhy_model::script::START_NS;
use iowhy_model::source::Batch;
use iowhy_recorder::history::{HistoryLimits, HistoryMinute};
use iowhy_recorder::incidents::record::IncidentRecord;
use iowhy_recorder::incidents::store::{RECORDING, write_record};
use iowhy_recorder::metrics::MetricTotals;
use iowhy_recorder::ring::{CutSpan, Ring};
use iowhy_recorder::rolling::EndedWindow;
use iowhy_recorder::saver::{Saver, SaverLimits, SaverReport, SaverTask};
use iowhy_recorder::writers::account::{MinuteSpan, WriterAccount};
use iowhy_recorder::writers::files::WriterSeries;
use iowhy_recorder::writers::{WriterRecord, WriterSums};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MINUTE_NS: u64 = 60 * S;
/// When the scripted day begins: midnight in UTC.
pub const BEGUN_S: i64 = 1_800_057_600;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSums {
    /// Minutes handed to the saver.
    pub minutes: u64,
    /// Requests of the windows.
    pub requests: u64,
    /// Lines, of the history and of who writes, that the disk refused.
    pub refused_lines: u64,
    /// Requests of refused lines of the history.
    pub refused_requests: u64,
    /// Incidents begun.
    pub incidents: u32,
    /// Incidents that are on the disk, or were.
    pub saved: u32,
    /// Attempts to save an incident that failed.
    pub failed: u32,
}

/// The other half of the daemon.
pub struct Storage {
    saver: Saver,
    runtime: PathBuf,
    minute: HistoryMinute,
    account: WriterAccount,
    pub metrics: MetricTotals,
    /// How far the clock on the wall is off, seconds.
    pub off_by_s: i64,
    waiting: VecDeque<SaverTask>,
    pub sums: StoredSums,
}

impl Storage {
    /// With its files in `runtime` and `state`, and a budget of incidents.
    pub fn new(runtime: &Path, state: &Path, incident_bytes: u64) -> Storage {
        let limits = SaverLimits {
            state: state.to_owned(),
            textfile: None,
            runtime: runtime.to_owned(),
            incident_bytes,
            history: HistoryLimits { days: 31, bytes: 200_000_000 },
        };
        Storage {
            saver: Saver::start(limits).unwrap(),
            runtime: runtime.to_owned(),
            minute: HistoryMinute { time_s: BEGUN_S, ..HistoryMinute::default() },
            account: WriterAccount::new(&[]),
            metrics: MetricTotals::default(),
            off_by_s: 0,
            waiting: VecDeque::new(),
            sums: StoredSums::default(),
        }
    }

    /// The clock on the wall at `now_ns`.
    pub fn wall_s(&self, now_ns: u64) -> i64 {
        BEGUN_S + ((now_ns - START_NS) / S) as i64 + self.off_by_s
    }

    /// Another watch begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.account.begin(now_ns);
    }

    pub fn look(&mut self, batch: &Batch, names: &Names) {
        self.account.look(batch, names);
    }

    /// Takes ten seconds that are over.
    pub fn window(&mut self, window: &EndedWindow, now_ns: u64) {
        self.sums.requests += window.summary.watch.requests;
        self.minute.add(&window.summary, &window.diagnosis);
        self.account.add(&window.summary);
        self.metrics.add(&window.summary, &window.diagnosis, 0);
        if self.minute.watched_ns >= MINUTE_NS {
            self.end_minute(self.wall_s(now_ns));
        }
    }

    fn end_minute(&mut self, until_s: i64) {
        self.sums.minutes += 1;
        let next = HistoryMinute { time_s: until_s, ..HistoryMinute::default() };
        let minute = std::mem::replace(&mut self.minute, next);
        let watched_s = minute.watched_ns / S;
        let span = MinuteSpan { time_s: minute.time_s, until_s, watched_s };
        let (record, hours) = self.account.end_minute(span, &BTreeMap::new());
        self.metrics.add_writers(&record);
        self.offer_writers(WriterSeries::Minutes, &record);
        hours.iter().for_each(|hour| self.offer_writers(WriterSeries::Hours, hour));
        let line = serde_json::to_string(&minute).unwrap();
        self.offer(SaverTask::History { time_s: minute.time_s, line });
        if self.settle().contains(&"append to the history".to_owned()) {
            let flows = minute.devices.values().flat_map(BTreeMap::values);
            self.sums.refused_requests += flows.map(|flow| flow.requests).sum::<u64>();
        }
        if let Some(task) = self.waiting.pop_front() {
            self.offer(task);
        }
    }

    fn offer_writers(&mut self, series: WriterSeries, record: &WriterRecord) {
        let line = serde_json::to_string(record).unwrap();
        self.offer(SaverTask::Writers { series, time_s: record.time_s, line });
    }

    /// Cuts an incident that is complete out of the ring, and has it saved.
    pub fn keep(&mut self, ring: &Ring, record: &IncidentRecord, span: CutSpan) {
        self.sums.incidents += 1;
        let number = self.sums.incidents;
        let pending = self.runtime.join(format!("incidents/{number:06}"));
        let record = IncidentRecord { number, ..record.clone() };
        std::fs::create_dir_all(&pending).unwrap();
        ring.cut(&pending.join(RECORDING), span, None).unwrap();
        let window = pending.join("window-1");
        ring.cut(&window, span, None).unwrap();
        write_record(&pending, &record).unwrap();
        let window = Some(window);
        self.offer(SaverTask::Incident { number, pending, window, is_last: true });
        self.settle();
    }

    fn offer(&mut self, task: SaverTask) {
        if let Some(task) = self.saver.offer(task) {
            self.settle();
            assert!(self.saver.offer(task).is_none(), "the saver takes no more");
        }
    }

    /// Waits until the saver has done all that it was given: what failed, in its words.
    fn settle(&mut self) -> Vec<String> {
        let mark = self.runtime.join("no such directory/mark");
        let said = format!("write {}", mark.display());
        let mark = SaverTask::File { path: mark, text: String::new() };
        assert!(self.saver.offer(mark).is_none(), "the saver takes no more");
        let mut failed = Vec::new();
        loop {
            match self.saver.reports.recv_timeout(Duration::from_secs(60)).unwrap() {
                SaverReport::Failed { what, .. } if what == said => return failed,
                SaverReport::Failed { what, task, .. } => {
                    self.sums.refused_lines += u64::from(what.starts_with("append"));
                    self.sums.failed += u32::from(task.is_some());
                    self.waiting.extend(task);
                    failed.push(what);
                }
                SaverReport::Saved { is_last, .. } => self.sums.saved += u32::from(is_last),
                SaverReport::OverDays { .. } => (),
            }
        }
    }

    /// Ends as the daemon does.
    pub fn finish(mut self) -> (StoredSums, MetricTotals) {
        if let Some(hour) = self.account.end_hour() {
            self.offer_writers(WriterSeries::Hours, &hour);
        }
        self.settle();
        // Each once more: the disk takes them now.
        for task in std::mem::take(&mut self.waiting) {
            self.offer(task);
            self.settle();
        }
        assert!(self.saver.finish(Duration::from_secs(60)));
        (self.sums, self.metrics)
    }
}

/// What rows of who writes add up to.
pub fn sums_of(records: &[WriterRecord]) -> WriterSums {
    let mut sums = WriterSums::default();
    let rows = records.iter().flat_map(|record| &record.rows).filter(|row| !row.id.is_below);
    rows.for_each(|row| sums.add(&row.sums));
    sums
}
