//! Time is lost in a layer of the device mapper.

use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;
use crate::model::environment::is_part_of;

/// The share of the upper device's time that its lower ones do not explain. Chosen.
const GAP: f64 = 0.3;
/// Requests below which there is nothing to judge.
const REQUESTS: u64 = 50;
/// Targets by the functions and threads of the kernel that carry them out.
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
    "a layer of the device mapper",
    "Encryption, snapshots, thin volumes and caches stand between the file system and the disk. They do \
     work of their own (encrypting, copying on the first write, looking up a map), one piece after \
     another or on few CPUs, and that time is in the upper device and not in the lower one.",
    "A lower device whose own time explains the upper one's.",
    needs: [Settings],
    symptoms: ["serial-reads", "device-slow-tail"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let uppers = facts.devices().iter().filter(|device| device.device.starts_with("dm-"));
    let Some((upper, gap)) = uppers.filter_map(|it| gap(facts, it).map(|gap| (it, gap))).next() else {
        return Ok(Verdict::Clear);
    };
    let name = &upper.device;
    let lowers = upper.below.join(", ");
    if let Some(other) = shares(facts, upper, &gap.lower) {
        return Err(Missing(format!(
            "{} serves {other} as well as {name}, so that its mean time is not that of {name}'s requests",
            gap.lower,
        )));
    }
    let below = &gap.lower;
    let carries = |functions: &[&str]| [name, below].iter().any(|it| !facts.paths_on(it, functions).is_empty());
    let target = TARGETS.iter().find(|(_, functions)| carries(functions)).map(|(name, _)| *name);
    let sentence = format!(
        "{} on {name} takes {} of its requests' time; {lowers} below it takes the rest",
        target.unwrap_or("the device mapper"),
        words::percent(gap.share),
    );
    let sum = facts::stage_sum(upper, Interval::Q2c);
    Ok(Finding::of_device(facts, (gap.share * sum as f64) as u64, sum, sentence)
        .about(facts::subject_of(name, facts.top_process(upper, |_| true)))
        .sure(if target.is_some() { Confidence::Certain } else { Confidence::Likely })
        .shown("mean time on the upper device", gap.upper_ns, "ns", format!("iowhy stages -d {name}"))
        .shown("mean time below it", gap.lower_ns, "ns", format!("iowhy stages -d {below}"))
        .fix(
            "of its target (`dmsetup table`): dm-crypt from Linux 5.9 on: `cryptsetup refresh \
             --perf-no_read_workqueue --perf-no_write_workqueue NAME` (LUKS2: with `--persistent` it \
             stays), a CPU with AES; snapshots: remove those that nobody needs; thin: provision what is \
             written most beforehand",
        )
        .check(format!("`iowhy probe {name}`, and the same of {below} (they only read): if both are as slow, reads do not wait for the layer"))
        .into())
}

/// Another device that uses the same lower one as much: its requests are in the lower one's mean. Two
/// logical volumes on one disk may be as different as their loads are.
fn shares<'a>(facts: &Facts<'a>, upper: &DeviceSummary, lower: &str) -> Option<&'a str> {
    let requests = |it: &DeviceSummary| it.directions.0.iter().map(|it| it.requests).sum::<u64>();
    let uses = |it: &&DeviceSummary| {
        it.device != upper.device
            && it.below.iter().any(|below| is_part_of(lower, below))
            && requests(it) as f64 >= OTHER * requests(upper) as f64
    };
    facts.devices().iter().find(uses).map(|it| it.device.as_str())
}

/// The requests of another device on the same disk, of those of the one that is judged, from which on the
/// disk's mean is of both. Chosen.
const OTHER: f64 = 0.1;

struct Gap {
    share: f64,
    upper_ns: f64,
    /// The slowest of the lower devices.
    lower: String,
    lower_ns: f64,
}

fn gap(facts: &Facts<'_>, upper: &DeviceSummary) -> Option<Gap> {
    let mean = |device: &DeviceSummary| {
        let stages = device.directions.0.iter().filter_map(|it| it.intervals[Interval::Q2c]);
        let (sum, count) = stages.fold((0, 0), |all, it| (all.0 + it.sum_ns, all.1 + it.requests));
        (count >= REQUESTS).then(|| sum as f64 / count as f64)
    };
    let is_below = |it: &&DeviceSummary| upper.below.iter().any(|below| is_part_of(&it.device, below));
    let lowers = facts.devices().iter().filter(is_below).filter_map(|it| Some((it, mean(it)?)));
    let (lower, lower_ns) = lowers.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let upper_ns = mean(upper)?;
    let share = 1.0 - lower_ns / upper_ns.max(1.0);
    (share >= GAP).then(|| Gap { share, upper_ns, lower: lower.device.clone(), lower_ns })
}
