//! Too few requests may be under way at once.

use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;
use crate::model::WaitClass;
use facts::Waited;

/// Up to so many a queue is short for any device that works on more than one request at a time: SATA
/// has 32, NVMe hundreds.
const SHORT: f64 = 32.0;
/// The share of the requests' time before they get one, or of the threads' that wait for one: a thread that
/// sends many sleeps for each tag in turn, so that each of its requests waits for a moment only. Chosen.
const SHARE: f64 = 0.2;
/// Up to so many are few enough that, all taken, they make the rate even by themselves. Chosen.
const FEW: f64 = 8.0;

rule!(
    "tag-starvation",
    "too few requests at once",
    "Every request needs a tag (its number at the device), of which a queue has so many and no more \
     (queue/nr_requests, and the device's own depth). When all are taken, the next thread sleeps until \
     one comes back. With few tags a fast device is never given enough to do, and threads wait for tags \
     instead of the device.",
    "A long queue that is full: then the device is what is slow.",
    needs: [Queueing, Settings],
    // io_uring hands to its workers what finds no tag.
    symptoms: ["io-uring-punt"],
);

/// How many requests may be under way now.
fn tags(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    facts.latest_number(device, "queue/nr_requests")
}

/// Whether the queue is short: by its setting, or by what was seen, since a setting is not always what
/// the driver goes by (a loop device may keep an earlier one). Where the device itself takes no more
/// (NCQ's 32 without a scheduler), it is not the queue that is short.
fn is_short(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let Some(tags) = tags(facts, device) else { return false };
    let own = facts.latest_number(device, "device/queue_depth");
    let is_device = own.is_some_and(|it| it <= tags);
    !is_device && (tags <= SHORT || seen(facts, device).is_some_and(|it| it <= SHORT.min(tags / 2.0)))
}

/// How many were in flight while threads waited for a tag, where they did for long: so many there are.
fn seen(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let mut changed = facts.summary().changed_settings.iter();
    let is_steady = !changed.any(|it| {
        it.setting == "queue/nr_requests" && it.device.as_ref() == Some(&device.device)
    });
    let (_, share) = waits(facts, device);
    device.busy_depth_mean.filter(|_| is_steady && share >= SHARE)
}

/// The waits for one of the device's tags, and their share of the blocked time beside other devices.
fn waits<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> (Waited<'a>, f64) {
    let name = &device.device;
    let waited = facts.waits(|group| {
        group.class == WaitClass::Tag && group.device.as_ref().is_none_or(|it| it == name)
    });
    let share = waited.class_ns as f64 / facts.blocked_near(name).max(1) as f64;
    (waited, share)
}

/// The share of the time that is spent waiting for a tag: of the requests', or of the threads'.
fn starved_share(facts: &Facts<'_>, device: &DeviceSummary) -> f64 {
    let whole = facts::stage_sum(device, Interval::Q2c).max(1) as f64;
    let of_requests = facts::stage_sum(device, Interval::Q2g) as f64 / whole;
    if of_requests > 0.0 { of_requests.max(waits(facts, device).1) } else { 0.0 }
}

fn is_starved(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    is_short(facts, device) && starved_share(facts, device) >= SHARE
}

/// Whether so few tags, while others wait for one, make an even rate by themselves: each comes back after
/// as long as the device takes, so that the rate says nothing of what the device could do.
pub(super) fn sets_the_pace(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    tags(facts, device).is_some_and(|it| it <= FEW) && is_starved(facts, device)
}

fn fix(name: &str, is_hidden: bool) -> String {
    let more = format!(
        "`echo 256 > /sys/block/{name}/queue/nr_requests`, which with none is at most what the driver \
         allows (\"Invalid argument\"); for SCSI also device/queue_depth, for virtio the host's queue size"
    );
    match is_hidden {
        true => format!(
            "the driver goes by a lower depth than nr_requests says (a loop device keeps an earlier one): \
             set it anew, {more}"
        ),
        false => more,
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let device = facts.busiest(|device| is_starved(facts, device));
    let Some(device) = device else { return Ok(Verdict::Clear) };
    let set = tags(facts, device).unwrap_or(0.0);
    let name = &device.device;
    let seen = seen(facts, device).filter(|it| *it <= set / 2.0);
    let allowed = match seen {
        Some(seen) => format!("about {} requests (nr_requests says {set:.0})", words::number(seen)),
        None => format!("only {set:.0} requests for each hardware queue"),
    };
    let (held, whole) =
        (facts::stage_sum(device, Interval::Q2g), facts::stage_sum(device, Interval::Q2c));
    let (waited, of_threads) = waits(facts, device);
    let sentence = format!(
        "{name} has {allowed} in flight at once: others wait for a free tag, {} of their time",
        words::percent(held as f64 / whole.max(1) as f64),
    );
    let top = facts.top_process(device, |_| true);
    let finding = if of_threads > held as f64 / whole.max(1) as f64 {
        Finding::of_blocked(facts, waited.class_ns, sentence)
    } else {
        Finding::of_device(facts, held, whole, sentence)
    };
    Ok(finding
        .about(facts::subject_of(name, top))
        // With more tags threads wait for the device, if less.
        .upper_bound()
        .sure(if waited.class_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .shown("time before a request was got (Q2G)", held as f64 / whole.max(1) as f64 * 100.0, "%", format!("iowhy stages -d {name}"))
        .shown("nr_requests", set, "requests", format!("cat /sys/block/{name}/queue/nr_requests"))
        .shown("threads' waits for a tag", waited.class_ns as f64, "ns", "iowhy waits")
        .fix(fix(name, seen.is_some()))
        .check("with more of them the time before a request is got (Q2G) falls; if the time at the device (D2C) rises by as much, the device was the limit after all")
        .into())
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Diagnosis, diagnose};
    use crate::model::WaitClass;
    use crate::model::environment::{Device, SettingChange};
    use crate::script::{START_NS, Script};

    const MS: u64 = 1_000_000;

    /// A queue of so many tags.
    fn script(tags: &str) -> Script {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/nr_requests".to_owned(), tags.to_owned())].into(),
            ..Device::default()
        });
        script
    }

    /// Four reads at once, of 8 ms each, from such a queue, for which somebody waits on `device`.
    fn judged(tags: &str, device: &str) -> Diagnosis {
        waited(script(tags), device)
    }

    fn waited(mut script: Script, device: &str) -> Diagnosis {
        for index in 0..4 * 1248_u64 {
            let read = script.read("sda", 4096).by(7, "fio").at((index / 4 * 8 * MS) as i64);
            read.sector(index * 7919 * 8).direct(1000, 1000, 8 * MS - 2000).add();
        }
        script.wait((7, "fio"), WaitClass::Tag, 9000 * MS, 0, 0);
        let device = script.names.intern(device);
        script.batch.waits.last_mut().unwrap().device = Some(device);
        diagnose(&script.summary())
    }

    #[test]
    fn what_became_short_meanwhile_is_short_unless_it_is_long_again() {
        let mut changed = script("256");
        for (after, by_ns, is_found) in [("4", 1, true), ("256", 2, false)] {
            let change = SettingChange {
                setting: "queue/nr_requests".to_owned(),
                after: after.to_owned(),
                by_ns: START_NS + by_ns,
                ..SettingChange::default()
            };
            changed.environment.devices[0].settings_changed.push(change);
            assert_eq!(has(&waited(changed.clone(), "sda"), "tag-starvation"), is_found);
        }
    }

    fn has(diagnosis: &Diagnosis, cause: &str) -> bool {
        diagnosis.findings.iter().any(|it| it.cause == cause)
    }

    #[test]
    fn what_was_seen_counts_more_than_a_setting() {
        // Four in flight, and somebody who waits for a tag nearly all of the time.
        let found = judged("128", "sda");
        let found = found.findings.iter().find(|it| it.cause == "tag-starvation").unwrap();
        assert!(found.sentence.contains("nr_requests says 128"), "{found:?}");
        assert!(!has(&judged("7", "sdb"), "tag-starvation"));
        // What the device itself takes is not the queue's doing.
        let mut own = script("32");
        let settings = &mut own.environment.devices[0].settings_start;
        settings.insert("device/queue_depth".to_owned(), "32".to_owned());
        assert!(!has(&waited(own, "sda"), "tag-starvation"));
    }

    #[test]
    fn few_tags_make_an_even_rate() {
        let found = judged("4", "sda");
        assert!(has(&found, "tag-starvation") && !has(&found, "provider-cap"), "{found:#?}");
        // With room in the queue, or while nobody waits for its tags, something behind it is even.
        for other in [judged("4", "sdb")] {
            assert!(!has(&other, "tag-starvation") && has(&other, "provider-cap"), "{other:#?}");
        }
    }
}
