//! Too few requests may be in flight at once.

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
/// What SATA's own queue (NCQ) holds: with `none` as many tags are the device's, not a setting.
const NCQ: f64 = 31.0;
/// How many times more requests a queue must claim to hold than ever held one, while threads wait for
/// one, so that the claim is not believed. Chosen.
const TIMES_SEEN: f64 = 2.0;
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
    symptoms: ["io-uring-punt", "blocking-submit"],
);

/// How many requests each hardware queue may hold now.
fn tags(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    facts.latest_number(device, "queue/nr_requests")
}

/// How many all of its hardware queues may hold.
fn all_tags(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let queues = facts.number(device, "queue/nr_hw_queues").unwrap_or(1.0).max(1.0);
    Some(tags(facts, device)? * queues)
}

/// Whether so few are allowed by the setting, and not by the device.
fn is_short(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let unscheduled =
        facts.setting(device, "queue/scheduler").is_some_and(|it| it.contains("[none]"));
    let is_ncq = unscheduled && device.transport.as_deref() == Some("sata");
    let is_own = |tags: f64| is_ncq && tags >= NCQ || is_device(facts, device, tags);
    all_tags(facts, device).is_some_and(|it| it <= SHORT && !is_own(it))
}

/// Whether the device itself takes no more than so many.
fn is_device(facts: &Facts<'_>, device: &DeviceSummary, tags: f64) -> bool {
    facts.latest_number(device, "device/queue_depth").is_some_and(|it| it <= tags)
}

/// How many requests held a tag on average while the device was busy, where threads wait for one and
/// that is far below what the queue claims to hold.
fn seen(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let sum = |at| facts::stage_sum(device, at) as f64;
    let busy_ns = device.util_share? * facts.duration_ns() as f64;
    let held = (sum(Interval::Q2c) - sum(Interval::Q2g)) / busy_ns.max(1.0);
    let (waited, share) = waits(facts, device);
    let known = waited.groups.iter().any(|it| it.device.as_ref() == Some(&device.device));
    // What it claims now it may not have claimed while they waited.
    let mut changed = facts.summary().changed_settings.iter();
    let is_changed = changed.any(|it| {
        it.setting == "queue/nr_requests" && it.device.as_ref() == Some(&device.device)
    });
    let all = all_tags(facts, device)?;
    let is_less = held * TIMES_SEEN <= all && held <= SHORT && !is_device(facts, device, all);
    (known && !is_changed && share >= SHARE && is_less).then_some(held)
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
        || seen(facts, device).is_some()
}

/// Whether so few tags, while others wait for one, make an even rate by themselves: each comes back after
/// as long as the device takes, so that the rate says nothing of what the device could do.
pub(super) fn sets_the_pace(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let few = |it: f64| it <= FEW;
    let is_few = tags(facts, device).is_some_and(few) || seen(facts, device).is_some_and(few);
    is_few && is_starved(facts, device)
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let device = facts.busiest(|device| is_starved(facts, device));
    let Some(device) = device else { return Ok(Verdict::Clear) };
    let allowed = tags(facts, device).unwrap_or(0.0);
    let name = &device.device;
    let (held, whole) =
        (facts::stage_sum(device, Interval::Q2g), facts::stage_sum(device, Interval::Q2c));
    let (waited, of_threads) = waits(facts, device);
    let of_requests = words::percent(held as f64 / whole.max(1) as f64);
    let seen = seen(facts, device).filter(|_| !is_short(facts, device));
    let sentence = match seen {
        Some(seen) => format!(
            "threads wait for a free tag of {name} although its queue claims to hold {allowed:.0}: about \
             {} are in flight at a time",
            words::number(seen.max(1.0)),
        ),
        None => format!(
            "{name} may have only {allowed:.0} requests in flight{}: others wait for one to complete, \
             {of_requests} of their time",
            match facts.number(device, "queue/nr_hw_queues") {
                Some(queues) if queues > 1.0 => " for each hardware queue",
                _ => "",
            },
        ),
    };
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
        .shown("nr_requests", allowed, "requests", format!("cat /sys/block/{name}/queue/nr_requests"))
        .shown("requests that hold one, while it is busy", seen_or_depth(device, seen), "requests", format!("iowhy -d {name}"))
        .shown("threads' waits for a tag", waited.class_ns as f64, "ns", "iowhy waits")
        .fix(fix(device, seen.is_some()))
        .check("with more of them the time before a request is got (Q2G) falls; if the time at the device (D2C) rises by as much, the device was the limit after all")
        .into())
}

fn seen_or_depth(device: &DeviceSummary, seen: Option<f64>) -> f64 {
    seen.or(device.busy_depth_mean).unwrap_or(device.in_flight_mean)
}

fn fix(device: &DeviceSummary, is_claimed: bool) -> String {
    let name = &device.device;
    if is_claimed {
        return format!(
            "find the smaller limit behind the setting: a loop device may keep an earlier, lower depth \
             (write another number into /sys/block/{name}/queue/nr_requests and then this one, or \
             detach it and attach it anew); disks of one host adapter share its tags \
             (/sys/class/scsi_host/host*/can_queue); for SCSI device/queue_depth"
        );
    }
    format!(
        "`echo 256 > /sys/block/{name}/queue/nr_requests` (it counts for each hardware queue); with \
         scheduler none no more than the device takes (\"Invalid argument\"): there device/queue_depth \
         for SCSI, the host's queue size for virtio; with a scheduler more than the device takes only \
         wait in it"
    )
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

    #[test]
    fn a_claim_that_threads_refute_is_not_believed() {
        // Sysfs says 128, four are in flight, and threads wait for a tag.
        let found = judged("128", "sda");
        let found = found.findings.into_iter().find(|it| it.cause == "tag-starvation").unwrap();
        assert!(found.sentence.contains("claims to hold 128"), "{}", found.sentence);
        assert!(found.fix.contains("loop device"), "{}", found.fix);
        // A queue that is as full as it claims, and waits for another device.
        assert!(!has(&judged("7", "sdb"), "tag-starvation"));
        assert!(!has(&judged("128", "sdb"), "tag-starvation"));
    }

    #[test]
    fn what_the_device_itself_takes_is_not_the_queue_s_doing() {
        let mut own = script("32");
        let settings = &mut own.environment.devices[0].settings_start;
        settings.insert("device/queue_depth".to_owned(), "32".to_owned());
        assert!(!has(&waited(own, "sda"), "tag-starvation"));
    }

    #[test]
    fn the_device_s_own_queue_is_no_setting() {
        for (transport, is_found) in [("sata", false), ("virtio", true)] {
            let mut script = script("32");
            let device = &mut script.environment.devices[0];
            device.transport = Some(transport.to_owned());
            device.settings_start.insert("queue/scheduler".to_owned(), "[none] bfq".to_owned());
            for index in 0..32 * 300_u64 {
                let read = script.read("sda", 4096).by(7, "fio").at((index / 32 * 32 * MS) as i64);
                read.sector(index * 7919 * 8).direct(12 * MS, 1000, 31 * MS).add();
            }
            script.wait((7, "fio"), WaitClass::Tag, 9000 * MS, 0, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
            assert_eq!(has(&diagnose(&script.summary()), "tag-starvation"), is_found, "{transport}");
        }
    }

    fn has(diagnosis: &Diagnosis, cause: &str) -> bool {
        diagnosis.findings.iter().any(|it| it.cause == cause)
    }

    #[test]
    fn few_tags_make_an_even_rate() {
        let found = judged("4", "sda");
        assert!(has(&found, "tag-starvation") && !has(&found, "provider-cap"), "{found:#?}");
        // With room in the queue, or while nobody waits for its tags, something behind it is even.
        for other in [judged("4", "sdb"), judged("256", "sdb")] {
            assert!(!has(&other, "tag-starvation") && has(&other, "provider-cap"), "{other:#?}");
        }
    }
}
