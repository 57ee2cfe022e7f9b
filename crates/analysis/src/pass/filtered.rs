//! Filtered watches: the summary of the filtered part, and the one for the diagnosis.
//!
//! A filter selects requests to show, not those that cause slowness: rates, shares, evenness and
//! other users of a device depend on all requests of the device. So the diagnosis uses all requests
//! of the filter's devices and ignores its other conditions.
//!
//! What does not belong here: filters (see [`iowhy_model::filter`]), and the diagnosis.

use super::summarizer::Summarizer;
use super::threads::{BatchSharer, ConsumerThread, SharedRows};
use crate::charts::scaled::Calibrations;
use crate::charts::{ChartTally, Charts};
use crate::summary::Summary;
use crate::waits::blame::BlameTally;
use iowhy_model::filter::SilentWaits;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Filter, Names};

/// Computes both summaries from the batches of a source, or one if they are the same.
#[derive(Clone, Debug)]
pub struct Filtered {
    shown: FilteredPart,
    whole: Option<FilteredPart>,
}

/// Both summaries.
#[derive(Clone, Debug)]
pub struct Summaries {
    /// The summary of what the filter keeps.
    pub shown: Summary,
    /// The summary of all requests of its devices; `None` if it is the same.
    whole: Option<Summary>,
    /// Charts of what the filter keeps, where they were asked for.
    pub charts: Option<Charts>,
}

impl Summaries {
    /// The summary for the diagnosis.
    pub fn judged(&self) -> &Summary {
        self.whole.as_ref().unwrap_or(&self.shown)
    }
}

impl Filtered {
    /// For a source whose environment is `environment` now, as for [`Summarizer::new`].
    pub fn new(environment: &Environment, filter: &Filter) -> Filtered {
        let filter = filter.on_disks(&environment.devices);
        let devices = filter.of_devices();
        let whole = (devices != filter).then(|| FilteredPart::new(environment, devices));
        Filtered { shown: FilteredPart::new(environment, filter), whole }
    }

    /// The same on several threads, for a source that is read as fast as it can be.
    pub fn on_threads(self) -> FilteredOnThreads {
        let sharer = BatchSharer::new();
        FilteredOnThreads {
            shown: PartOnThreads::new(self.shown, &sharer),
            whole: self.whole.map(|whole| PartOnThreads::new(whole, &sharer)),
            sharer,
        }
    }

    /// Also makes what charts draw.
    #[must_use]
    pub fn with_charts(mut self, environment: &Environment) -> Filtered {
        self.shown.charts = Some(ChartTally::new(environment));
        self
    }

    /// Adds an unfiltered batch, whose texts are in `names`; the watch ends at `until_ns`, as far
    /// as that is known.
    pub fn add(&mut self, batch: &Batch, names: &Names, until_ns: u64) {
        self.shown.add(batch, names, until_ns);
        if let Some(whole) = &mut self.whole {
            whole.add(batch, names, until_ns);
        }
    }

    /// The summaries of all batches, with the final `environment`.
    pub fn finish(self, environment: &Environment, names: &Names) -> Summaries {
        let Filtered { mut shown, whole } = self;
        let charts = shown.charts.take().map(|charts| charts.finish(environment, names));
        let (shown, ratios) = shown.finish(environment, names);
        let charts = charts.map(|mut charts| {
            charts.is_estimated |= environment.is_sampled();
            if charts.is_estimated && !shown.environment.hides_others() {
                charts.scale(&ratios);
                charts.count(&shown, names);
            }
            charts
        });
        let whole = whole.map(|whole| whole.finish(environment, names).0);
        Summaries { shown, whole, charts }
    }
}

/// The rows that a filter keeps, added up.
#[derive(Clone, Debug)]
struct FilteredPart {
    keeper: RowKeeper,
    summarizer: Summarizer,
    charts: Option<ChartTally>,
}

impl FilteredPart {
    fn new(environment: &Environment, filter: Filter) -> FilteredPart {
        let keeper = RowKeeper { filter, silent: SilentWaits::default(), left_out: (0, 0) };
        FilteredPart { keeper, summarizer: Summarizer::new(environment), charts: None }
    }

    fn add(&mut self, batch: &Batch, names: &Names, until_ns: u64) {
        let kept = (!self.keeper.filter.is_empty()).then(|| {
            let mut kept = batch.clone();
            self.keeper.keep(&mut kept, names, until_ns);
            kept
        });
        let batch = kept.as_ref().unwrap_or(batch);
        self.summarizer.add(batch, names);
        if let Some(charts) = &mut self.charts {
            charts.add(batch, names);
        }
    }

    fn finish(self, environment: &Environment, names: &Names) -> (Summary, Calibrations) {
        let mut environment = environment.clone();
        environment.keep(&self.keeper.filter);
        environment.limits.extend(self.keeper.silent.sentences());
        let mut summarizer = self.summarizer;
        summarizer.left_out = self.keeper.left_out;
        summarizer.finish_calibrated(&environment, names)
    }
}

/// Removes rows that a filter leaves out, and counts them.
#[derive(Clone, Debug)]
struct RowKeeper {
    filter: Filter,
    silent: SilentWaits,
    /// Requests and waits.
    left_out: (u64, u64),
}

impl RowKeeper {
    fn keep(&mut self, batch: &mut Batch, names: &Names, until_ns: u64) {
        if self.filter.is_empty() {
            return;
        }
        let (requests, waits) = (batch.requests.len(), batch.waits.len());
        self.silent.add(batch.retain(&self.filter, names, until_ns));
        self.left_out.0 += (requests - batch.requests.len()) as u64;
        self.left_out.1 += (waits - batch.waits.len()) as u64;
    }
}

/// As [`Filtered`], with a thread for each part of the work.
pub struct FilteredOnThreads {
    shown: PartOnThreads,
    whole: Option<PartOnThreads>,
    sharer: BatchSharer,
}

impl FilteredOnThreads {
    /// Takes an unfiltered batch, whose texts are in `names`, and leaves an empty one in its place;
    /// the watch ends at `until_ns`, as far as that is known.
    pub fn add(&mut self, batch: &mut Batch, names: &Names, until_ns: u64) {
        let mut batch = std::mem::replace(batch, self.sharer.empty());
        let mut whole = self.whole.as_mut().map(|part| (batch.clone(), part));
        self.shown.keeper.keep(&mut batch, names, until_ns);
        let shown = self.sharer.share(batch, names);
        self.shown.give(&shown);
        if let Some((batch, part)) = &mut whole {
            part.keeper.keep(batch, names, until_ns);
            part.give(&shown.with(std::mem::take(batch)));
        }
    }

    /// As [`Filtered::finish`].
    pub fn finish(self, environment: &Environment, names: &Names) -> Summaries {
        let (shown, whole) = (self.shown.join(), self.whole.map(PartOnThreads::join));
        Filtered { shown, whole }.finish(environment, names)
    }
}

/// A [`FilteredPart`] on threads.
struct PartOnThreads {
    keeper: RowKeeper,
    summarizer: ConsumerThread<Summarizer>,
    blame: Option<ConsumerThread<BlameTally>>,
    charts: Option<ConsumerThread<ChartTally>>,
}

impl PartOnThreads {
    fn new(part: FilteredPart, sharer: &BatchSharer) -> PartOnThreads {
        let FilteredPart { keeper, mut summarizer, charts } = part;
        let blame = summarizer.take_blame().map(|blame| sharer.spawn(blame));
        PartOnThreads {
            keeper,
            summarizer: sharer.spawn(summarizer),
            blame,
            charts: charts.map(|charts| sharer.spawn(charts)),
        }
    }

    fn give(&self, rows: &SharedRows) {
        self.summarizer.give(rows);
        self.blame.iter().for_each(|thread| thread.give(rows));
        self.charts.iter().for_each(|thread| thread.give(rows));
    }

    fn join(self) -> FilteredPart {
        let mut summarizer = self.summarizer.join();
        self.blame.into_iter().for_each(|blame| summarizer.give_blame(blame.join()));
        let charts = self.charts.map(ConsumerThread::join);
        FilteredPart { keeper: self.keeper, summarizer, charts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    fn summaries(filter: Filter) -> Summaries {
        let mut script = Script::new(10);
        for (device, pid) in [("sda", 1), ("sda", 2), ("sdb", 2)] {
            script.read(device, 512).by(pid, "cat").direct(0, 0, 1_000).add();
            script.wait((pid, "cat"), iowhy_model::WaitClass::PageRead, 500, 0, 0);
            let device = script.names.intern(device);
            script.batch.waits.last_mut().unwrap().device = Some(device);
        }
        let mut filtered = Filtered::new(&script.environment, &filter);
        for batch in script.source(1).batches {
            filtered.add(&batch, &script.names, script.environment.end_ns);
        }
        filtered.finish(&script.environment, &script.names)
    }

    fn counts(summary: &Summary) -> (u64, u64, u64, &str) {
        let watch = &summary.watch;
        let left_out = (watch.left_out_requests, watch.left_out_waits);
        (watch.requests, left_out.0, left_out.1, &summary.environment.filter)
    }

    #[test]
    fn causes_are_judged_by_all_that_the_devices_did() {
        let (processes, devices) = (vec!["1".to_owned()], vec!["sda".to_owned()]);
        let all = summaries(Filter::default());
        assert_eq!(counts(&all.shown), (3, 0, 0, ""));
        assert_eq!(all.judged(), &all.shown);
        let one = summaries(Filter { processes: processes.clone(), ..Filter::default() });
        assert_eq!(counts(&one.shown), (1, 2, 2, "--process 1"));
        assert_eq!(counts(one.judged()), (3, 0, 0, ""));
        let of_device = summaries(Filter { devices: devices.clone(), ..Filter::default() });
        assert_eq!(counts(of_device.judged()), (2, 1, 1, "--device sda"));
        let both = summaries(Filter { devices, processes, ..Filter::default() });
        assert_eq!(counts(&both.shown), (1, 2, 2, "--device sda --process 1"));
        assert_eq!(counts(both.judged()), (2, 1, 1, "--device sda"));
    }
    #[test]
    fn threads_find_the_same() {
        let mut script = Script::new(10);
        for number in 0..3_000_u64 {
            let (device, pid) = (["sda", "sdb", "dm-0"][number as usize % 3], number as u32 % 7);
            let read = script.read(device, 512 << (number % 4)).at(number as i64 * 3_000_000);
            let read = read.by(pid, "cat").file(&format!("/srv/{}", number % 50));
            let id = read.direct(0, 1_000, 20_000 + number).add();
            script.wait_for((pid, "cat"), number * 3_000_000, 21_000 + number, &[id]);
        }
        for filter in [
            Filter::default(),
            Filter { processes: vec!["1".to_owned()], ..Filter::default() },
            Filter { devices: vec!["sda".to_owned()], ..Filter::default() },
        ] {
            let new = || {
                let filtered = Filtered::new(&script.environment, &filter);
                filtered.with_charts(&script.environment)
            };
            let (mut plain, mut threads) = (new(), new().on_threads());
            for mut batch in script.source(100).batches {
                plain.add(&batch, &script.names, script.environment.end_ns);
                threads.add(&mut batch, &script.names, script.environment.end_ns);
                assert!(batch.is_empty());
            }
            let plain = plain.finish(&script.environment, &script.names);
            let threads = threads.finish(&script.environment, &script.names);
            assert!(plain.judged().blame.is_some() && plain.shown.watch.requests > 0);
            assert_eq!(plain.shown, threads.shown);
            assert_eq!(plain.judged(), threads.judged());
            assert_eq!(format!("{:?}", plain.charts), format!("{:?}", threads.charts));
        }
    }
}
