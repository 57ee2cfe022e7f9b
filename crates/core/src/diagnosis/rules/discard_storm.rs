//! Freed space is given back to the device while others wait.

use super::*;
use crate::analysis::summary::DeviceSummary;
use crate::analysis::{Direction, Interval};

/// The share of the device's time that discards take. Chosen.
const SHARE: f64 = 0.1;
/// Discards in the whole watch below which it is no storm.
const LEAST: u64 = 20;

rule!(
    "discard-storm",
    "a storm of discards",
    "With the mount option discard, every deletion tells the device at once which blocks are free. Many \
     devices do this slowly, in the same queue as reads and writes, and file systems wait for it in \
     their commits. A large deletion then stops everything for seconds.",
    "Discards that nobody waits for.",
    symptoms: ["device-slow-tail", "journal-commit", "noisy-neighbour", "inode-lock"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let time = |device: &DeviceSummary| {
        let stage = facts::stage(device, Direction::Discard, Interval::Q2c)
            .or(facts::stage(device, Direction::Discard, Interval::D2c));
        stage.map_or(0, |stage| stage.sum_ns)
    };
    let fits = |device: &DeviceSummary| {
        facts::of(device, Direction::Discard).requests >= LEAST
            && time(device) as f64 >= SHARE * facts::device_time_ns(device) as f64
    };
    let Some(device) = facts.busiest(fits) else { return Ok(Verdict::Clear) };
    let name = &device.device;
    let discards = facts::of(device, Direction::Discard);
    let stage = facts::stage(device, Direction::Discard, Interval::D2c);
    let mounted = facts.mounts(device).iter().any(|mount| {
        mount.options.split(',').any(|word| word.starts_with("discard"))
    });
    let top = facts.top_process(device, |row| row.usage.directions[Direction::Discard].requests > 0);
    let sentence = format!(
        "{name} is busy with discards, {} a second of {} each: {} of its time",
        words::number(discards.requests_per_s),
        words::bytes(discards.average_bytes.unwrap_or(0.0)),
        words::percent(time(device) as f64 / facts::device_time_ns(device).max(1) as f64),
    );
    let because = if mounted { " (it is mounted with discard)" } else { "" };
    Ok(Finding::of_device(facts, time(device), facts::device_time_ns(device), sentence)
        .about(facts::subject_of(name, top))
        .sure(Confidence::Certain)
        .shown("discards", discards.requests_per_s, "1/s", format!("iowhy stat -d {name}"))
        .shown("mean discard at the device", stage.map_or(0.0, |stage| stage.mean_ns), "ns", format!("iowhy stages -d {name}"))
        .fix(format!("mount without discard{because} and let fstrim.timer give space back once a week; smaller deletions; queue/discard_max_bytes"))
        .check("`mount -o remount,nodiscard`: the discards end; if not, a program sends them itself (blkdiscard, fstrim)")
        .into())
}
