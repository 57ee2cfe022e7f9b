//! The peculiarities of a diagnosis of another tool's data: how much a finding needs, and paths of
//! a machine that is not this one.
//!
//! What does not belong here: the causes themselves (see [`super::rules`]).

use super::finding::{Finding, ImpactOf};
use super::words;
use iowhy_analysis::summary::{DeviceSummary, Summary};

/// Returns the reason why a cause cannot be judged from so little of a capture; `None` if it can
/// be.
pub(super) fn too_few(cause: &str, summary: &Summary) -> Option<String> {
    let watch = &summary.watch;
    let least = super::rule_of(cause)?.least;
    if !summary.environment.is_imported() || watch.requests == 0 {
        return None;
    }
    if watch.requests < least.requests {
        let found = iowhy_model::figures::plural(watch.requests, "request");
        return Some(format!("{found} are too few: it takes {}", least.requests));
    }
    (watch.duration_ns < least.time_ns).then(|| {
        let [found, needed] =
            [watch.duration_ns, least.time_ns].map(|time_ns| words::time(time_ns as f64));
        format!("a capture of {found} is too short: it takes {needed}")
    })
}

/// A finding of another tool's data: such data has no time in which threads were blocked, and
/// devices go by the numbers that it has.
pub(super) fn adapted(mut finding: Finding, summary: &Summary) -> Finding {
    if !summary.environment.is_imported() {
        return finding;
    }
    if summary.ledger.is_none() {
        finding.impact_of = ImpactOf::DeviceTime;
    }
    for device in &summary.devices {
        for text in [&mut finding.fix, &mut finding.check] {
            *text = with_paths(text, device);
        }
    }
    finding
}

/// `text` with the device's directory in sysfs by its number, which every device has: of a capture
/// that is called otherwise, of a partition, which has no queue, and of one without a name.
fn with_paths(text: &str, device: &DeviceSummary) -> String {
    let DeviceSummary { device: name, major, minor, .. } = device;
    if *major == 0 {
        return text.to_owned();
    }
    let disk = if is_partition(name, *major, *minor) { "../" } else { "" };
    text.replace(&format!("/sys/block/{name}/"), &format!("/sys/dev/block/{major}:{minor}/{disk}"))
}

/// Whether it is a part of a disk, by the kernel's names and fixed numbers.
fn is_partition(name: &str, major: u32, minor: u32) -> bool {
    let per_disk = match major {
        3 | 22 | 33 | 34 => 64,
        8 | 65..=71 | 128..=135 | 202 => 16,
        179 => 8,
        _ => 0,
    };
    if per_disk > 0 {
        return !minor.is_multiple_of(per_disk);
    }
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = stem.len() < name.len();
    let behind_p = stem
        .strip_suffix('p')
        .is_some_and(|disk| disk.ends_with(|letter: char| letter.is_ascii_digit()));
    let lettered = ["sd", "vd", "hd", "xvd"].iter().any(|kind| stem.starts_with(kind));
    is_numbered && (behind_p || lettered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use crate::rule::LeastData;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::Environment;
    use iowhy_model::script::Script;

    #[test]
    fn partitions() {
        for (name, major, minor, expected) in [
            ("sda", 8, 0, false),
            ("sda1", 8, 1, true),
            ("trace", 8, 0, false),
            ("8:17", 8, 17, true),
            ("nvme0n1", 259, 0, false),
            ("nvme0n1p2", 259, 2, true),
            ("vda1", 254, 1, true),
            ("dm-1", 253, 1, false),
            ("252:0", 252, 0, false),
        ] {
            assert_eq!(is_partition(name, major, minor), expected, "{name}");
        }
    }

    /// Causes that a capture of `requests`, each waiting in the scheduler, is too small to judge.
    fn unjudged(requests: u64, source: &str) -> usize {
        let mut script = Script::new(1);
        for number in 0..requests {
            let read = script.read("sda", 4096).by(7, "cat").sector(number * 8_000);
            read.at(number as i64 * 1_000_000).scheduled(1_000, 1_000, 2_000_000, 6_000).add();
        }
        let mut summary = script.summary();
        let environment = Environment { source: source.to_owned(), ..summary.environment };
        summary.environment = environment;
        let few = |missing: &&super::super::NotJudged| missing.reason.contains("are too few");
        diagnose(&summary).not_judged.iter().filter(few).count()
    }

    #[test]
    fn a_capture_of_few_requests_is_not_judged() {
        let most = crate::rules::ALL.iter().map(|rule| rule.least.requests).max().unwrap();
        assert!(unjudged(LeastData::RATE.requests - 1, "blktrace") > 40);
        assert!((1..20).contains(&unjudged(LeastData::RATE.requests, "blktrace")));
        assert_eq!(unjudged(most, "blktrace"), 0);
        assert_eq!(unjudged(1, "live"), 0);
    }
}
