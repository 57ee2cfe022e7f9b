//! A watch of which a part is shown: the summary of that part, and the one that causes are judged by.
//!
//! A filter says whose requests somebody wants to see, not who makes them slow: rates, shares, evenness
//! and who else used a device are those of all that the device did. So causes are judged by all that the
//! filter's devices did, whatever else it asks for.
//!
//! What does not belong here: what a filter keeps (see [`crate::model::filter`]), and judging.

use super::summarizer::Summarizer;
use super::summary::Summary;
use crate::model::filter::Silent;
use crate::model::{Environment, Filter, Names};
use crate::source::Batch;

/// Makes both summaries of the batches of one source; one where they are the same.
#[derive(Clone, Debug)]
pub struct Filtered {
    shown: Part,
    whole: Option<Part>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Summaries {
    /// Of what the filter keeps.
    pub shown: Summary,
    /// Of all that its devices did; `None` where that is the same.
    whole: Option<Summary>,
}

impl Summaries {
    /// What causes are judged by.
    pub fn judged(&self) -> &Summary {
        self.whole.as_ref().unwrap_or(&self.shown)
    }
}

impl Filtered {
    /// For a source whose environment is `environment` now, as for [`Summarizer::new`].
    pub fn new(environment: &Environment, filter: &Filter) -> Filtered {
        let filter = filter.on_disks(&environment.devices);
        let devices = filter.of_devices();
        let whole = (devices != filter).then(|| Part::new(environment, devices));
        Filtered { shown: Part::new(environment, filter), whole }
    }

    /// Adds a batch that no filter has seen, whose texts are in `names`; the watch ended at `until_ns`, as
    /// far as that is known.
    pub fn add(&mut self, batch: &Batch, names: &Names, until_ns: u64) {
        self.shown.add(batch, names, until_ns);
        if let Some(whole) = &mut self.whole {
            whole.add(batch, names, until_ns);
        }
    }

    /// The summaries of all that was added, with what `environment` tells at the end.
    pub fn finish(self, environment: &Environment, names: &Names) -> Summaries {
        let finish = |part: Part| part.finish(environment, names);
        Summaries { shown: finish(self.shown), whole: self.whole.map(finish) }
    }
}

/// What one filter keeps.
#[derive(Clone, Debug)]
struct Part {
    filter: Filter,
    summarizer: Summarizer,
    silent: Silent,
}

impl Part {
    fn new(environment: &Environment, filter: Filter) -> Part {
        Part { filter, summarizer: Summarizer::new(environment), silent: Silent::default() }
    }

    fn add(&mut self, batch: &Batch, names: &Names, until_ns: u64) {
        if self.filter.is_empty() {
            return self.summarizer.add(batch, names);
        }
        let mut kept = batch.clone();
        self.silent.add(kept.retain(&self.filter, names, until_ns));
        self.summarizer.leave_out(batch, &kept);
        self.summarizer.add(&kept, names);
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
