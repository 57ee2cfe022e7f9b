//! A watch second by second, with the findings of its last seconds: what `iowhy top` shows.
//!
//! | where | what |
//! |---|---|
//! | [`MomentCutter`] | batches into moments |
//! | [`RecordedMoments`] | a recording into all of its moments, and one of the whole |
//! | [`Moment`] | what a screen needs of one interval, without the rest of its summary |
//! | [`History`] | the last minutes of them, in bounded memory |
//!
//! What does not belong here: when to look at the clock, and drawing.

mod cutter;
mod history;
mod recorded;

pub use cutter::MomentCutter;
pub use history::History;
pub use recorded::RecordedMoments;

use crate::Diagnosis;
use iowhy_analysis::processes::{ProcessActivity, processes};
use iowhy_analysis::summary::Breakdown;
use iowhy_analysis::summary::{DeviceSummary, Ledger, Summary};
use std::sync::Arc;

/// The number of moments that are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MomentSpan {
    /// One: the latest.
    #[default]
    One,
    /// The last ten.
    Ten,
    /// The last sixty: a minute of seconds.
    Minute,
    /// All since the watch began.
    All,
}

impl MomentSpan {
    /// All spans, the shortest first.
    pub const ALL: [MomentSpan; 4] =
        [MomentSpan::One, MomentSpan::Ten, MomentSpan::Minute, MomentSpan::All];

    /// Returns the largest number of moments in the span; `None` for all.
    pub const fn moments(self) -> Option<u64> {
        match self {
            MomentSpan::One => Some(1),
            MomentSpan::Ten => Some(10),
            MomentSpan::Minute => Some(60),
            MomentSpan::All => None,
        }
    }

    /// The next longer one; after all, a single moment again.
    pub fn next(self) -> MomentSpan {
        let place = Self::ALL.iter().position(|span| *span == self).unwrap_or(0);
        Self::ALL.get(place + 1).copied().unwrap_or_default()
    }
}

/// Processes that a moment lists.
const PROCESSES: usize = 200;

/// One interval of a watch.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Time at which the interval began, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// Time at which the interval ended, CLOCK_MONOTONIC nanoseconds.
    pub end_ns: u64,
    /// Requests that have a record.
    pub requests: u64,
    /// Requests that were lost since the watch began.
    pub lost_requests: u64,
    /// CPU time of iowhy and its BPF programs in the last second or so, of all CPUs; `None` where
    /// it is not recorded.
    pub cost_share: Option<f64>,
    /// The devices that had requests, most time first.
    pub devices: Vec<DeviceSummary>,
    /// Number of other devices.
    pub idle_devices: u64,
    /// The activity of each process, those that moved most bytes first.
    pub processes: Vec<ProcessActivity>,
    /// Number of processes that are not among them.
    pub unlisted_processes: usize,
    /// The waits of blocked threads; `None` if the source does not know them.
    pub ledger: Option<Ledger>,
    /// The details behind each line.
    pub breakdown: Breakdown,
    /// The latest diagnosis of the watch until then.
    pub judged: Option<Arc<JudgedWindow>>,
}

/// The diagnosis of the seconds up to a moment.
#[derive(Clone, Debug)]
pub struct JudgedWindow {
    /// Time at which the data that was judged begins, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// Time at which that data ends, CLOCK_MONOTONIC nanoseconds.
    pub end_ns: u64,
    /// The diagnosis of that data.
    pub diagnosis: Diagnosis,
}

impl Moment {
    /// Takes from `summary`, which is of the interval from `start_ns` to `end_ns`, the parts that a
    /// screen shows.
    pub fn new(summary: Summary, (start_ns, end_ns): (u64, u64)) -> Moment {
        let mut all = processes(&summary);
        let unlisted_processes = all.len().saturating_sub(PROCESSES);
        all.truncate(PROCESSES);
        let mut devices = summary.devices;
        // Settings are the same in every interval, and in no table.
        devices.iter_mut().for_each(|device| device.settings.clear());
        Moment {
            start_ns,
            end_ns,
            requests: summary.watch.requests,
            lost_requests: summary.watch.lost_requests,
            cost_share: None,
            devices,
            idle_devices: summary.idle_devices,
            processes: all,
            unlisted_processes,
            ledger: summary.ledger,
            breakdown: summary.breakdown.unwrap_or_default(),
            judged: None,
        }
    }

    /// Returns the length of the interval, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Roughly the memory that it takes without the subjects of its breakdown, bytes.
    fn bytes(&self) -> usize {
        let histograms = |device: &DeviceSummary| {
            let figures = device.directions.iter().map(|(_, figures)| figures);
            figures
                .map(|figure| figure.q2c_histogram.len() + figure.d2c_histogram.len())
                .sum::<usize>()
        };
        let buckets: usize = self.devices.iter().map(histograms).sum();
        let waiters =
            self.ledger.as_ref().map_or(0, |ledger| ledger.processes.len() + ledger.classes.len());
        size_of::<Moment>()
            + self.devices.len() * (size_of::<DeviceSummary>() + 2048)
            + buckets * size_of::<iowhy_analysis::summary::Bucket>()
            + self.processes.len() * (size_of::<ProcessActivity>() + 64)
            + waiters * 256
            + self.breakdown.bytes()
    }
}
