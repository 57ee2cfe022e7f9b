//! The figures of a stage analysis, which a screen draws and JSON holds, with unmatched events
//! beside every latency.
//!
//! What does not belong here: how they look (crate `iowhy-views`).

use super::devices::OTHER_DEVICES;
use super::samples::{Average, Distances, Stage, StageSamples, StageSet};
use super::statistics::{DeviceStages, OTHER_PROCESSES, StageTotals, TransferVolume};
use iowhy_model::Losses;
use serde::{Serialize, Serializer};

/// A function that names a device by its number.
pub type Naming<'a> = &'a dyn Fn(u32) -> String;

/// Counts of events, bios and requests that had no partner, or were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Completions without an issue or a queued bio.
    pub completions: u64,
    /// Bios that never completed although a later one at their sector did.
    pub stale: u64,
    /// Bios and requests that were still open at the end.
    pub open: u64,
    /// Of these, the ones that were at the device.
    pub in_flight: u64,
    /// Bios given up because more were open than are kept.
    pub given_up: u64,
    /// Events of devices beyond [`super::devices::MAX_DEVICES`].
    pub devices: u64,
    /// Completions of no data without an issue.
    pub flushes: u64,
}

impl Unmatched {
    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Unmatched) {
        self.completions += other.completions;
        self.stale += other.stale;
        self.open += other.open;
        self.in_flight += other.in_flight;
        self.given_up += other.given_up;
        self.devices += other.devices;
        self.flushes += other.flushes;
    }
}

/// Everything that an analysis of stages knows.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct StagesSummary {
    /// Sentences that each name something the data cannot tell.
    pub missing: Vec<&'static str>,
    /// Events that had no partner, or were left out.
    pub unmatched: Losses,
    /// The stages of all devices together, by name.
    #[serde(serialize_with = "by_name")]
    pub stages: Vec<StageFigures>,
    /// The devices, in the order of their first events.
    pub devices: Vec<DeviceFigures>,
    /// The processes; who takes most time of requests first.
    pub processes: Vec<ProcessFigures>,
}

/// The times of one stage.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StageFigures {
    /// The stage.
    #[serde(skip)]
    pub stage: Stage,
    /// The number of measurements.
    pub count: u64,
    /// All of it, nanoseconds.
    pub sum_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Half of them took at most this; like all percentiles `None` where they are not kept.
    pub p50_ns: Option<u64>,
    /// 90 % took at most this.
    pub p90_ns: Option<u64>,
    /// 99 % took at most this.
    pub p99_ns: Option<u64>,
    /// 99.9 % took at most this.
    pub p999_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

/// The figures of one device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceFigures {
    /// Its name, or its numbers; `others` for all that are not distinguished.
    pub device: String,
    /// Its stages, by name.
    #[serde(serialize_with = "by_name")]
    pub stages: Vec<StageFigures>,
    /// The parts of Q2C; `None` where it is not known of any request.
    pub shares: Option<Shares>,
    /// Bios queued; `None` where no Q was recorded of any device.
    pub queued: Option<u64>,
    /// Bios merged into requests; `None` as `queued`.
    pub merged: Option<u64>,
    /// Requests issued, again after a requeue too; `None` where no D was recorded of any device.
    pub issued: Option<u64>,
    /// Requests given back by the driver; `None` as `issued`.
    pub requeues: Option<u64>,
    /// Reads that completed.
    pub reads: TransferVolume,
    /// Writes, discards and zone commands that completed.
    pub writes: TransferVolume,
    /// Flushes that completed.
    pub flushes: TransferVolume,
    /// Distances from Q to Q; `None` where there are none.
    pub queue_seeks: Option<Seeks>,
    /// Distances from D to D; `None` where there are none.
    pub issue_seeks: Option<Seeks>,
    /// Periods in which a request was at the device; `None` where none is known from D to C.
    pub active: Option<Active>,
    /// Periods in which it was plugged; `None` where there are no single events to tell.
    pub plugs: Option<PlugFigures>,
}

/// The figures of one process: of the requests that it queued.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProcessFigures {
    /// Its number; `None` for all processes that are not distinguished.
    pub pid: Option<u32>,
    /// Its name, where the data tells it.
    pub process: Option<String>,
    /// Bytes completed.
    pub bytes: u64,
    /// The parts of Q2C.
    #[serde(flatten)]
    pub shares: Shares,
}

/// The parts of Q2C, as shares of it from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Shares {
    /// Requests of which Q2C is known.
    pub requests: u64,
    /// Their mean.
    pub q2c_mean_ns: f64,
    /// From Q to G.
    pub q2g_share: f64,
    /// From G to I.
    pub g2i_share: f64,
    /// From I to D.
    pub i2d_share: f64,
    /// From G to D, without I.
    pub g2d_share: f64,
    /// From G or I to D while the cache was flushed before the data.
    pub preflush_share: f64,
    /// From the first D to the last.
    pub requeue_share: f64,
    /// From the last D to C.
    pub d2c_share: f64,
}

/// Distances between successive requests or bios, in sectors.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Seeks {
    /// The number of seeks.
    pub count: u64,
    /// The share that touches the one before.
    pub adjacent_share: f64,
    /// The median.
    pub median_sectors: u64,
    /// 90 % of those that do not touch are at most this far; `None` where that is not kept.
    pub p90_sectors: Option<u64>,
    /// The mean.
    pub mean_sectors: f64,
}

/// Periods in which a request was at the device.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Active {
    /// The number of periods.
    pub periods: u64,
    /// Their mean length; `None` without any.
    pub mean_ns: Option<f64>,
    /// Their share of the time from the device's first event to its last.
    pub time_share: f64,
}

/// Periods in which a device was plugged.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PlugFigures {
    /// The number of periods that ended.
    pub periods: u64,
    /// Of these, by a timer or the scheduler.
    pub by_timer: u64,
    /// Their share of the time from the device's first event to its last.
    pub time_share: f64,
    /// Requests released at the end of each; `None` without any.
    pub mean_requests: Option<f64>,
}

impl StagesSummary {
    /// The figures of `totals`; `name` says how devices are called, `events` whether they are of
    /// single events, which alone tell of plugs.
    pub fn new(
        totals: &StageTotals,
        unmatched: &Unmatched,
        name: Naming<'_>,
        events: bool,
    ) -> StagesSummary {
        let known = KnownSteps::new(totals, events);
        let devices = totals.devices().iter().map(|device| of_device(device, name, known));
        let processes = totals.processes().into_iter().filter_map(|(pid, process)| {
            let requests = process.stages[Stage::Q2c as usize].count;
            let shares = Shares::new(requests, |stage| process.stages[stage as usize].total)?;
            let process_name = totals.name(pid).map(str::to_owned);
            let pid = (pid != OTHER_PROCESSES).then_some(pid);
            Some(ProcessFigures { pid, process: process_name, bytes: process.bytes, shares })
        });
        StagesSummary {
            missing: if totals.devices().is_empty() { Vec::new() } else { missing(totals) },
            unmatched: losses_of(unmatched),
            stages: of_set(&totals.all()),
            devices: devices.collect(),
            processes: processes.collect(),
        }
    }
}

/// `major,minor`, or `others` for all that are not distinguished.
pub fn device_name(device: u32) -> String {
    if device == OTHER_DEVICES {
        return "others".to_owned();
    }
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

/// Returns a sentence for each thing that the present events cannot tell.
fn missing(totals: &StageTotals) -> Vec<&'static str> {
    let (devices, all) = (totals.devices(), totals.all());
    let has = |stage: Stage| all.get(stage).average.count > 0;
    let (queued, issued) =
        devices.iter().fold((0, 0), |(q, d), device| (q + device.queued, d + device.issued));
    let sentences = [
        (queued == 0, "no Q: who asked, and how long requests waited, is not known"),
        (issued == 0, "no D: which part of Q2C is the device's is not known"),
        (!has(Stage::D2c) && !has(Stage::Q2c), "no request that began and completed"),
    ];
    sentences.into_iter().filter_map(|(missing, meaning)| missing.then_some(meaning)).collect()
}

fn losses_of(unmatched: &Unmatched) -> Losses {
    let mut losses = Losses::default();
    for (place, count, meaning) in [
        (
            "completions",
            unmatched.completions,
            "completions have no issue and no queued bio: their beginning is not in the data",
        ),
        (
            "stale",
            unmatched.stale,
            "queued bios never completed although a later one at their sector did",
        ),
        ("open", unmatched.open, "bios or requests had not completed at the end"),
        ("in_flight", unmatched.in_flight, "of these at the device"),
        (
            "given_up",
            unmatched.given_up,
            "open bios were given up: more were open than iowhy keeps",
        ),
        ("flushes", unmatched.flushes, "flush requests completed without an issue"),
        (
            "devices",
            unmatched.devices,
            "events are of devices beyond the first 1024, which are aggregated as others",
        ),
    ] {
        losses.add(place, count, meaning, false);
    }
    losses
}

fn of_set(set: &StageSet) -> Vec<StageFigures> {
    let known = Stage::ALL.into_iter().map(|stage| (stage, set.get(stage)));
    known.filter_map(|(stage, measured)| StageFigures::new(stage, measured)).collect()
}

impl StageFigures {
    fn new(stage: Stage, measured: &StageSamples) -> Option<StageFigures> {
        let Average { count, min, max, total } = measured.average;
        (count > 0).then(|| StageFigures {
            stage,
            count,
            sum_ns: total,
            min_ns: min,
            mean_ns: total as f64 / count as f64,
            p50_ns: measured.percentile(50.0),
            p90_ns: measured.percentile(90.0),
            p99_ns: measured.percentile(99.0),
            p999_ns: measured.percentile(99.9),
            max_ns: max,
        })
    }
}

/// The steps of requests that the data tell of.
#[derive(Clone, Copy)]
struct KnownSteps {
    /// Whether it is single events.
    events: bool,
    queues: bool,
    issues: bool,
    /// From D to C.
    service: bool,
}

impl KnownSteps {
    /// What is zero of all devices was not recorded, if it is single events; a watch of ours
    /// records each step.
    fn new(totals: &StageTotals, events: bool) -> KnownSteps {
        let any = |count: fn(&DeviceStages) -> u64| totals.devices().iter().any(|it| count(it) > 0);
        KnownSteps {
            events,
            queues: !events || any(|device| device.queued),
            issues: !events || any(|device| device.issued),
            service: !events || totals.all().get(Stage::D2c).average.count > 0,
        }
    }
}

fn of_device(device: &DeviceStages, name: Naming<'_>, known: KnownSteps) -> DeviceFigures {
    let span = device.last.saturating_sub(device.first).max(1) as f64;
    let (periods, live, _) = device.live.periods();
    let plugs = &device.plugs;
    let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
    DeviceFigures {
        device: name(device.number),
        stages: of_set(&device.stages),
        shares: Shares::new(device.stages.get(Stage::Q2c).average.count, |stage| {
            device.whole_ns[stage as usize]
        }),
        queued: known.queues.then_some(device.queued),
        merged: known.queues.then_some(device.merged),
        issued: known.issues.then_some(device.issued),
        requeues: known.issues.then_some(device.requeues),
        reads: device.reads,
        writes: device.writes,
        flushes: device.flushes,
        queue_seeks: Seeks::from_distances(&device.queue_seeks),
        issue_seeks: Seeks::from_distances(&device.issue_seeks),
        active: known.service.then(|| Active {
            periods,
            mean_ns: mean(live, periods),
            time_share: live as f64 / span,
        }),
        plugs: known.events.then(|| PlugFigures {
            periods: plugs.count,
            by_timer: plugs.timer,
            time_share: plugs.time as f64 / span,
            mean_requests: mean(plugs.requests, plugs.count),
        }),
    }
}

impl Shares {
    /// Shares of `sum_ns`, the sums of the stages of `requests` whose Q2C is known.
    fn new(requests: u64, sum_ns: impl Fn(Stage) -> u64) -> Option<Shares> {
        let whole = sum_ns(Stage::Q2c);
        let share = |stage: Stage| sum_ns(stage) as f64 / whole.max(1) as f64;
        (requests > 0).then(|| Shares {
            requests,
            q2c_mean_ns: whole as f64 / requests as f64,
            q2g_share: share(Stage::Q2g),
            g2i_share: share(Stage::G2i),
            i2d_share: share(Stage::I2d),
            g2d_share: share(Stage::G2d),
            preflush_share: share(Stage::Preflush),
            requeue_share: share(Stage::Requeue),
            d2c_share: share(Stage::D2c),
        })
    }
}

impl Seeks {
    fn from_distances(seeks: &Distances) -> Option<Seeks> {
        let count = seeks.near + seeks.far.average.count;
        (count > 0).then(|| Seeks {
            count,
            adjacent_share: seeks.near as f64 / count as f64,
            median_sectors: seeks.median(),
            p90_sectors: seeks.far.percentile(90.0),
            mean_sectors: seeks.far.average.total as f64 / count as f64,
        })
    }
}

/// As an object whose keys are the stages.
fn by_name<S: Serializer>(stages: &[StageFigures], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(stages.iter().map(|figures| (word(figures.stage), figures)))
}

fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Q2q => "q2q",
        Stage::Q2g => "q2g",
        Stage::G2i => "g2i",
        Stage::I2d => "i2d",
        Stage::G2d => "g2d",
        Stage::D2c => "d2c",
        Stage::Q2c => "q2c",
        Stage::Preflush => "preflush",
        Stage::Postflush => "postflush",
        Stage::Requeue => "requeue",
        Stage::Q2m => "q2m",
        Stage::BioD2c => "bio_d2c",
        Stage::BioQ2c => "bio_q2c",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::stages::RequestStages;
    use iowhy_model::script::Script;

    #[test]
    fn the_figures_are_those_of_the_requests() {
        let mut script = Script::new(1);
        for number in 0..4_u64 {
            let read = script.read("sda", 4096).by(7, "cat").sector(number * 8);
            read.at(number as i64 * 100_000).scheduled(1_000, 1_000, 2_000, 6_000).add();
        }
        let mut stages = RequestStages::default();
        stages.take(&script.batch, &script.names);
        stages.finish();
        let found = stages.summary(&device_name);
        let [device] = &found.devices[..] else { panic!("{found:#?}") };
        assert_eq!((device.device.as_str(), device.reads.requests, device.plugs), ("8,0", 4, None));
        assert_eq!(device.active.unwrap().periods, 4);
        let shares = device.shares.unwrap();
        assert_eq!((shares.requests, shares.q2c_mean_ns), (4, 10_000.0));
        assert_eq!((shares.i2d_share, shares.d2c_share, shares.g2d_share), (0.2, 0.6, 0.0));
        assert_eq!(device.queue_seeks.unwrap().adjacent_share, 1.0);
        assert_eq!((found.processes[0].pid, found.processes[0].shares), (Some(7), shares));
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["stages"]["d2c"]["max_ns"], 6_000);
        assert_eq!(json["processes"][0]["i2d_share"], 0.2);
        assert!(json["devices"][0]["plugs"].is_null() && json["stages"]["g2d"].is_null());
    }

    #[test]
    fn nothing_lacks_nothing() {
        let (totals, unmatched) = (StageTotals::default(), Unmatched::default());
        let found = StagesSummary::new(&totals, &unmatched, &device_name, true);
        assert_eq!(found, StagesSummary::default());
    }
}
