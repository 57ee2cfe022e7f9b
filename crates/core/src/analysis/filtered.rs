//! Filtered watches: the summary of the filtered part, and the one for the diagnosis.
//!
//! A filter selects requests to show, not those that cause slowness: rates, shares, evenness and
//! other users of a device depend on all requests of the device. So the diagnosis uses all requests
//! of the filter's devices and ignores its other conditions.
//!
//! What does not belong here: filters (see [`crate::model::filter`]), and the diagnosis.

use super::charts::{ChartTally, Charts};
use super::summarizer::Summarizer;
use super::summary::Summary;
use crate::model::filter::SilentWaits;
use crate::model::{Environment, Filter, Names};
use crate::source::Batch;

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
    /// What charts draw of what the filter keeps, where they were asked for.
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

    /// For a source that is read as fast as it can be: see [`Summarizer::on_two_threads`].
    #[must_use]
    pub fn on_two_threads(mut self) -> Filtered {
        self.shown.summarizer = self.shown.summarizer.on_two_threads();
        self.whole = self
            .whole
            .map(|whole| FilteredPart { summarizer: whole.summarizer.on_two_threads(), ..whole });
        self
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
        let finish = |part: FilteredPart| part.finish(environment, names);
        Summaries { shown: finish(shown), whole: whole.map(finish), charts }
    }
}

/// The rows that a filter keeps.
#[derive(Clone, Debug)]
struct FilteredPart {
    filter: Filter,
    summarizer: Summarizer,
    silent: SilentWaits,
    charts: Option<ChartTally>,
}

impl FilteredPart {
    fn new(environment: &Environment, filter: Filter) -> FilteredPart {
        FilteredPart {
            filter,
            summarizer: Summarizer::new(environment),
            silent: SilentWaits::default(),
            charts: None,
        }
    }

    fn add(&mut self, batch: &Batch, names: &Names, until_ns: u64) {
        if self.filter.is_empty() {
            return self.take(batch, names);
        }
        let mut kept = batch.clone();
        self.silent.add(kept.retain(&self.filter, names, until_ns));
        self.summarizer.leave_out(batch, &kept);
        self.take(&kept, names);
    }

    fn take(&mut self, batch: &Batch, names: &Names) {
        self.summarizer.add(batch, names);
        if let Some(charts) = &mut self.charts {
            charts.add(batch, names);
        }
    }

    fn finish(self, environment: &Environment, names: &Names) -> Summary {
        let mut environment = environment.clone();
        environment.keep(&self.filter);
        environment.limits.extend(self.silent.sentences());
        self.summarizer.finish(&environment, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    fn summaries(filter: Filter) -> Summaries {
        let mut script = Script::new(10);
        for (device, pid) in [("sda", 1), ("sda", 2), ("sdb", 2)] {
            script.read(device, 512).by(pid, "cat").direct(0, 0, 1_000).add();
            script.wait((pid, "cat"), crate::model::WaitClass::PageRead, 500, 0, 0);
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
}
