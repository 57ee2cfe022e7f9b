//! A device-mapper layer adds latency.

use super::super::bottleneck::bound::SLOW_NS;
use super::*;
use iowhy_model::environment::is_part_of;

/// The least share of the upper device's time that its lower ones do not explain. Chosen.
const GAP: f64 = 0.3;
/// The utilization of the upper device below which fast requests delay no process. Chosen, as for
/// all shares of a device's time.
const BUSY: f64 = 0.5;
/// The share of the interval spent waiting for it above which it matters all the same. Chosen.
const WAITED: f64 = 0.25;
/// The least number of requests to judge.
const REQUESTS: u64 = 50;
/// Targets by the kernel functions and threads that implement them.
const TARGETS: &[(&str, &[&str])] = &[
    ("dm-crypt", &["kcryptd*", "crypt_*", "dmcrypt_write", "crypto_*"]),
    ("dm-snapshot", &["snapshot_*", "copy_callback", "persistent_*", "pending_complete"]),
    ("dm-thin", &["thin_*", "process_bio", "do_worker"]),
    ("dm-delay", &["delay_*", "flush_delayed*", "flush_expired_bios"]),
    ("dm-mirror", &["mirror_*", "do_mirror", "rh_*"]),
    ("dm-cache", &["cache_map*", "mg_*"]),
];

rule!(
    "dm-layer",
    "device-mapper overhead",
    "Encryption, snapshots, thin volumes and caches sit between the file system and the disk. They \
     do work of their own (encryption, copy on first write, mapping lookups), serially or on few \
     CPUs, and that time shows on the upper device and not on the lower one.",
    "The lower device's time explains the upper one's.",
    place: Queue,
    needs: [Settings],
    least: LeastData::for_requests(REQUESTS),
);

fn judge(facts: &Facts<'_>) -> Judged {
    let uppers = facts.devices().iter().filter(|device| device.device.starts_with("dm-"));
    let gaps = uppers.filter_map(|it| gap(facts, it).map(|gap| (it, gap)));
    let lost = |(upper, gap): &(&DeviceSummary, Gap)| {
        (gap.share * facts::stage_sum(upper, Interval::Q2c) as f64) as u64
    };
    let Some((upper, gap)) = gaps.max_by_key(lost) else { return Ok(RuleVerdict::Clear) };
    if let Some(other) = shares(facts, upper, &gap.lower).filter(|_| !gap.is_exact) {
        let name = &upper.device;
        return Err(RuleVerdict::NotEnough(format!(
            "{} serves {other} as well as {name}, so its mean time is not that of {name}'s \
             requests",
            gap.lower,
        )));
    }
    Ok(finding(facts, upper, &gap).into())
}

/// Returns `Info` if the layer is mostly idle, threads hardly wait for it, and its requests are
/// fast anyway.
fn most(facts: &Facts<'_>, upper: &DeviceSummary, gap: &Gap) -> Severity {
    let waited = facts.waits(|it| it.device.as_ref() == Some(&upper.device));
    let is_idle = upper.util_share.is_some_and(|share| share < BUSY)
        && (waited.time_ns as f64) < WAITED * facts.duration_ns() as f64;
    if is_idle && gap.upper_ns < SLOW_NS { Severity::Info } else { Severity::Critical }
}

fn finding(facts: &Facts<'_>, upper: &DeviceSummary, gap: &Gap) -> Finding {
    let (name, below) = (&upper.device, &gap.lower);
    let lowers = upper.below.join(", ");
    let carries = |functions: &[&str]| {
        [name, below].iter().any(|it| !facts.paths_on(it, functions).is_empty())
    };
    let target = TARGETS.iter().find(|(_, functions)| carries(functions)).map(|(name, _)| *name);
    let sentence = format!(
        "{} on {name} takes {} of the request time; {lowers} below it takes the rest",
        target.unwrap_or("the device mapper"),
        words::percent(gap.share),
    );
    let sum = facts::stage_sum(upper, Interval::Q2c);
    let is_seen = target.is_some() && gap.is_exact;
    Finding::of_device(facts, (gap.share * sum as f64) as u64, sum, sentence)
        .about(facts::subject_of(name, facts.top_process(upper, |_| true)))
        .sure(if is_seen { Confidence::Certain } else { Confidence::Likely })
        .at_most(most(facts, upper, gap))
        .shown(
            "mean latency on the upper device",
            gap.upper_ns,
            "ns",
            format!("iowhy stages -d {name}"),
        )
        .shown(
            "mean latency on the lower device",
            gap.lower_ns,
            "ns",
            format!("iowhy stages -d {below}"),
        )
        .fix(
            "depends on its target (`dmsetup table`): dm-crypt since Linux 5.9: `cryptsetup \
             refresh --perf-no_read_workqueue --perf-no_write_workqueue NAME` (LUKS2: \
             `--persistent` keeps it), a CPU with AES instructions; snapshots: remove unneeded \
             ones; thin: provision what is written most beforehand",
        )
        .check(format!(
            "`iowhy probe {name}`, and the same for {below} (both only read): if both are as slow, \
                        reads do not wait for the layer"
        ))
}

/// Returns another device that shares the lower one: its requests are part of the lower one's mean.
/// Two logical volumes on one disk may differ as much as their loads.
fn shares<'a>(facts: &Facts<'a>, upper: &DeviceSummary, lower: &str) -> Option<&'a str> {
    let requests = |it: &DeviceSummary| {
        it.directions.0.iter().map(|it| it.requests).fold(0_u64, u64::saturating_add)
    };
    let uses = |device: &&DeviceSummary| {
        device.device != upper.device
            && device.below.iter().any(|below| is_part_of(lower, below))
            && requests(device) as f64 >= OTHER * requests(upper) as f64
    };
    facts.devices().iter().find(uses).map(|device| device.device.as_str())
}

/// The least ratio of another device's requests to those of the judged one, for the disk's mean to
/// be of both. Chosen.
const OTHER: f64 = 0.1;

struct Gap {
    share: f64,
    upper_ns: f64,
    /// The slowest of the lower devices.
    lower: String,
    lower_ns: f64,
    /// Whether each upper request was compared with its own lower ones, instead of comparing means.
    is_exact: bool,
}

fn gap(facts: &Facts<'_>, upper: &DeviceSummary) -> Option<Gap> {
    let mean = |device: &DeviceSummary| {
        let stages = device.directions.0.iter().filter_map(|it| it.intervals[Interval::Q2c]);
        let (sum, count) = stages.fold((0, 0), |all, it| (all.0 + it.sum_ns, all.1 + it.requests));
        (count >= REQUESTS).then(|| sum as f64 / count as f64)
    };
    let is_below =
        |device: &&DeviceSummary| upper.below.iter().any(|below| is_part_of(&device.device, below));
    let lowers =
        facts.devices().iter().filter(is_below).filter_map(|device| Some((device, mean(device)?)));
    let (lower, mean_ns) = lowers.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let own = facts.patterns(&upper.device).map(|pattern| pattern.layer).unwrap_or_default();
    let is_exact = own.requests >= REQUESTS;
    let (upper_ns, lower_ns) = match is_exact {
        true => {
            let each = |ns: u64| ns as f64 / own.requests as f64;
            (each(own.time_ns), each(own.below_ns))
        }
        false => (mean(upper)?, mean_ns),
    };
    let share = 1.0 - lower_ns / upper_ns.max(1.0);
    let lower = lower.device.clone();
    (share >= GAP).then_some(Gap { share, upper_ns, lower, lower_ns, is_exact })
}

#[cfg(test)]
mod tests {
    use crate::{Confidence, Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    fn script() -> Script {
        let mut script = Script::new(10);
        for (minor, name) in (0..).zip(["sda", "dm-0", "dm-1"]) {
            let below = if name == "sda" { vec![] } else { vec!["sda".to_owned()] };
            let name = name.to_owned();
            script.environment.devices.push(Device { name, minor, below, ..Device::default() });
        }
        script
    }

    /// A read of a volume that takes `above` ns, of which its request on sda takes `below`.
    fn read(
        script: &mut Script,
        volume: &str,
        at: u64,
        (above, below): (u64, u64),
        frames: &[&str],
    ) {
        let upper = script.batch.requests.len() as u64 + 2;
        let lower = script.read("sda", 4096).at(at as i64).sector(at / 512).parent(upper);
        lower.stacks(frames, &[], 1).direct(0, 0, below).add();
        script.read(volume, 4096).by(7, "db").at(at as i64).sector(at / 512).bio(above).add();
    }

    fn found(script: &Script) -> Option<Finding> {
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "dm-layer")
    }

    #[test]
    fn two_volumes_of_one_disk_are_no_layer() {
        let mut script = script();
        // One volume reads 100 times per second, 10 ms each; the other nine times as often, 0.2 ms
        // each.
        for index in 0..990_u64 {
            read(&mut script, "dm-0", index * 10 * MS, (10 * MS, 10 * MS), &[]);
            for more in 0..9 {
                let at = index * 10 * MS + more * MS;
                read(&mut script, "dm-1", at, (MS / 5, MS / 5), &[]);
            }
        }
        assert_eq!(found(&script), None);
    }

    #[test]
    fn a_layer_that_is_seldom_used_and_fast_is_no_trouble() {
        let severity = |every: u64, above: u64| {
            let mut script = script();
            for index in 0..10_000 / every {
                read(&mut script, "dm-0", index * every * MS, (above * MS, MS), &[]);
            }
            found(&script).map(|it| it.severity)
        };
        assert_eq!(severity(20, 8), Some(Severity::Info));
        assert!(severity(20, 12) > Some(Severity::Info), "slow");
        let waited = |ms: u64| {
            let mut script = script();
            for index in 0..500 {
                read(&mut script, "dm-0", index * 20 * MS, (8 * MS, MS), &[]);
            }
            script.wait((7, "db"), WaitClass::Device, ms * MS, 0, 0);
            script.waited_on("dm-0", "/table", 17);
            found(&script).map(|it| it.severity)
        };
        assert_eq!(waited(2400), Some(Severity::Info));
        assert!(waited(2600) > Some(Severity::Info), "a thread waits");
        assert!(severity(10, 8) > Some(Severity::Info), "busy");
    }

    #[test]
    fn what_passes_above_is_the_layer_s() {
        for (below, is_layer) in [(6, true), (8, false)] {
            let mut script = script();
            for index in 0..990_u64 {
                let frames = ["kcryptd_crypt", "process_one_work"];
                read(&mut script, "dm-0", index * 10 * MS, (10 * MS, below * MS), &frames);
            }
            let found = found(&script);
            assert_eq!(found.is_some(), is_layer, "{found:?}");
            let Some(found) = found else { continue };
            assert!((0.39..0.41).contains(&found.impact), "{found:?}");
            assert_eq!(found.confidence, Confidence::Certain);
            assert!(found.sentence.starts_with("dm-crypt on dm-0 takes 40 %"), "{found:?}");
        }
    }
}
