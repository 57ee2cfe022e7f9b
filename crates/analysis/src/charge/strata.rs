//! Stretches the code paths of sampled stacks to all requests, within each process and origin.
//!
//! One request in several has a stack, and not equally many of each process: a share of all stacks
//! would be a share of those who have most of them. So each process's requests of one origin are
//! divided by their own stacks.
//!
//! What does not belong here: which requests have a stack, which the recording decides.

use crate::sums::calibration::Calibration;
use crate::sums::device_layer::DeviceLayer;
use crate::sums::keys::CodePath;
use crate::sums::usage_by_key::{Bounded, Used};
use iowhy_model::{Name, Origin, Request};
use rustc_hash::FxHashMap;

/// The reason for requests of a process and origin of which no stack was taken.
pub(crate) const NO_STACK: &str = "no stack taken";

/// Requests that are divided by their own stacks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SampleStratum {
    pub origin: Origin,
    pub process: Option<Name>,
}

impl SampleStratum {
    pub fn for_request(request: &Request) -> SampleStratum {
        SampleStratum { origin: request.origin, process: request.process }
    }

    fn for_path(path: &CodePath) -> SampleStratum {
        SampleStratum { origin: path.origin, process: path.process }
    }
}

/// Stretches the usage of `paths` so that the paths of a stratum add up to it. Returns what the
/// strata without any stack used.
pub(crate) fn stretch(
    paths: &mut Bounded<CodePath>,
    strata: &Bounded<SampleStratum>,
) -> Vec<(DeviceLayer, Used)> {
    let mut sampled: FxHashMap<(DeviceLayer, SampleStratum), Used> = FxHashMap::default();
    for row in paths.rows() {
        let key = (row.device_layer, SampleStratum::for_path(&row.key));
        sampled.entry(key).or_default().add(&row.used);
    }
    let whole: FxHashMap<(DeviceLayer, SampleStratum), Used> =
        strata.rows().iter().map(|row| ((row.device_layer, row.key), row.used)).collect();
    paths.change(|device_layer, path, used| {
        let key = (device_layer, SampleStratum::for_path(path));
        let (Some(sampled), Some(whole)) = (sampled.get(&key), whole.get(&key)) else { return };
        for (direction, sum) in used.ended.iter_mut() {
            Calibration::between(&sampled.ended[direction], &whole.ended[direction]).apply(sum);
        }
        Calibration::between(&sampled.open, &whole.open).apply(&mut used.open);
    });
    let without = strata.rows().iter().filter(|row| {
        let key = (row.device_layer, row.key);
        !sampled.contains_key(&key)
    });
    without.map(|row| (row.device_layer, row.used)).collect()
}

#[cfg(test)]
mod tests {
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    const MS: u64 = 1_000_000;

    #[test]
    fn code_paths_have_the_shares_of_their_processes() {
        let mut script = Script::new(10);
        // A third of the time is grep's, of which every fourth request has a stack that stands for
        // a hundred; find has a stack in fifty, which stands for ten.
        for index in 0..400 {
            let grep = script.read("sda", 4096).by(1, "grep").direct(0, 0, MS);
            let grep = if index % 4 == 0 { grep.stacks(&["ahead"], &["main"], 100) } else { grep };
            grep.add();
            let find = script.read("sda", 4096).by(2, "find").direct(0, 0, 2 * MS);
            let path = if index % 100 == 0 { "stat" } else { "open" };
            let find = if index % 50 == 0 { find.stacks(&[path], &["main"], 10) } else { find };
            find.add();
        }
        script.read("sda", 4096).by(3, "cat").direct(0, 0, 12 * MS).add();
        let summary = script.summary();
        let paths = &summary.code_paths;
        let share = |process: &str| -> f64 {
            let own = paths.table.rows.iter();
            let own = own.filter(|row| row.subject.process.as_deref() == Some(process));
            own.map(|row| row.usage.time_share).sum()
        };
        for row in summary.programs.rows.iter().filter(|row| row.subject.process != "cat") {
            let difference = share(&row.subject.process) - row.usage.time_share;
            assert!(difference.abs() < 1e-6, "{}: {difference}", row.subject.process);
        }
        let unknown = &paths.table.unknown[0];
        assert_eq!((unknown.reason.as_str(), unknown.usage.requests), (super::NO_STACK, 1));
        let all = share("grep") + share("find") + unknown.usage.time_share;
        assert!((all - 1.0).abs() < 1e-6, "{all}");
        assert_eq!((paths.sampled_requests, paths.represented_requests), (108, 800));
        let samples = paths.table.rows.iter().map(|row| row.subject.samples);
        assert_eq!(samples.sum::<u64>(), 108);
    }
}
