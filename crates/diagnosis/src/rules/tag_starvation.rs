//! The queue allows too few requests in flight.

use super::*;
use facts::Waited;
use facts::thresholds::BEFORE_DRIVER;

/// The largest short queue, for any device that serves more than one request at a time: SATA has
/// 32, NVMe hundreds.
const SHORT: f64 = 32.0;
/// The depth of SATA's own queue (NCQ): with `none` this many tags are the device's, not a setting.
const NCQ: f64 = 31.0;
/// The least ratio of the tags that a queue reports to those in use while threads wait for one,
/// from which the reported number is not believed. Chosen.
const TIMES_SEEN: f64 = 2.0;
/// The most tags that, all in use, make the rate even by themselves. Chosen.
const FEW: f64 = 8.0;

rule!(
    "tag-starvation",
    "tag starvation",
    "Every request needs a tag (its slot at the device), and a queue has a fixed number of them \
     (queue/nr_requests, and the device's own depth). When all are in use, the next thread sleeps \
     until one is freed. With few tags a fast device never gets enough requests, and threads wait \
     for tags instead of the device.",
    "A long queue is full: then the device is slow.",
    place: Queue,
    needs: [Queueing, Settings],
    trial: "nr_requests=256",
    bound: [
        "of the blocked time, or of the request time: the waits for a tag",
        "what waits there would wait at the device instead",
    ],
    picture: Heat,
);

/// Returns the current number of tags of each hardware queue.
fn tags(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    facts.latest_number(device, "queue/nr_requests")
}

/// Returns the number of tags of all hardware queues.
fn all_tags(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let queues = facts.number(device, "queue/nr_hw_queues").unwrap_or(1.0).max(1.0);
    Some(tags(facts, device)? * queues)
}

/// Whether the setting, and not the device, allows so few.
fn is_short(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let unscheduled =
        facts.setting(device, "queue/scheduler").is_some_and(|it| it.contains("[none]"));
    let is_ncq = unscheduled && device.transport.as_deref() == Some("sata");
    let is_own = |tags: f64| is_ncq && tags >= NCQ || is_device(facts, device, tags);
    all_tags(facts, device).is_some_and(|it| it <= SHORT && !is_own(it))
}

/// Whether the device itself takes no more than `tags`.
fn is_device(facts: &Facts<'_>, device: &DeviceSummary, tags: f64) -> bool {
    facts.latest_number(device, "device/queue_depth").is_some_and(|it| it <= tags)
}

/// Returns the mean number of tags in use while the device was busy, if threads wait for one and
/// that is far below what the queue reports.
fn seen(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let sum = |at| facts::stage_sum(device, at) as f64;
    let busy_ns = device.util_share? * facts.duration_ns() as f64;
    let held = (sum(Interval::Q2c) - sum(Interval::Q2g)) / busy_ns.max(1.0);
    let (waited, share) = waits(facts, device);
    let known = waited.groups.iter().any(|group| group.device.as_ref() == Some(&device.device));
    // It may have reported another number while they waited.
    let mut changed = facts.summary().changed_settings.iter();
    let is_changed = changed
        .any(|it| it.setting == "queue/nr_requests" && it.device.as_ref() == Some(&device.device));
    let all = all_tags(facts, device)?;
    let is_less = held * TIMES_SEEN <= all && held <= SHORT && !is_device(facts, device, all);
    (known && !is_changed && share >= BEFORE_DRIVER && is_less).then_some(held)
}

/// Returns the waits for the device's tags, and their share of the blocked time without other
/// devices.
fn waits<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> (Waited<'a>, f64) {
    let name = &device.device;
    let waited = facts.waits(|group| {
        group.class == WaitClass::Tag && group.device.as_ref().is_none_or(|device| device == name)
    });
    let share = waited.class_ns as f64 / facts.blocked_near(name).max(1) as f64;
    (waited, share)
}

/// Returns the share of the time spent waiting for a tag: of the requests', or of the threads'.
fn starved_share(facts: &Facts<'_>, device: &DeviceSummary) -> f64 {
    let whole = facts::stage_sum(device, Interval::Q2c).max(1) as f64;
    let of_requests = facts::stage_sum(device, Interval::Q2g) as f64 / whole;
    if of_requests > 0.0 { of_requests.max(waits(facts, device).1) } else { 0.0 }
}

fn is_starved(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    is_short(facts, device) && starved_share(facts, device) >= BEFORE_DRIVER
        || seen(facts, device).is_some()
}

/// Whether few tags, while others wait for one, make an even rate by themselves: each is freed
/// after the device's latency, so the rate says nothing about the device's capacity.
pub(super) fn sets_the_pace(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let few = |it: f64| it <= FEW;
    let is_few = tags(facts, device).is_some_and(few) || seen(facts, device).is_some_and(few);
    is_few && is_starved(facts, device)
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let device = facts.busiest(|device| is_starved(facts, device));
    let device = device.ok_or(Clear)?;
    let allowed = tags(facts, device).unwrap_or(0.0);
    let name = &device.device;
    let (held, whole) =
        (facts::stage_sum(device, Interval::Q2g), facts::stage_sum(device, Interval::Q2c));
    let (waited, of_threads) = waits(facts, device);
    let of_requests = words::percent(held as f64 / whole.max(1) as f64);
    let seen = seen(facts, device).filter(|_| !is_short(facts, device));
    let sentence = match seen {
        Some(seen) => format!(
            "threads wait for a free tag of {name} although its queue reports {allowed:.0} tags: \
             about {} are in flight at a time",
            words::number(seen.max(1.0)),
        ),
        None => format!(
            "{name} allows only {allowed:.0} requests in flight{}: others wait for a tag, \
             {of_requests} of the request time",
            match facts.number(device, "queue/nr_hw_queues") {
                Some(queues) if queues > 1.0 => " per hardware queue",
                _ => "",
            },
        ),
    };
    let top = facts.top_process(device, |_| true);
    let finding = if of_threads > held as f64 / whole.max(1) as f64 {
        Finding::of_class(facts, &waited, sentence)
    } else {
        Finding::of_device(facts, held, whole, sentence)
    };
    Ok(finding
        .about(facts::subject_of(name, top))
        // With more tags threads still wait for the device, but less.
        .upper_bound()
        .sure(if waited.class_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .shown(
            "share of the time before a tag was allocated (Q2G)",
            held as f64 / whole.max(1) as f64 * 100.0,
            "%",
            format!("iowhy stages -d {name}"),
        )
        .shown(
            "nr_requests",
            allowed,
            "requests",
            format!("cat /sys/block/{name}/queue/nr_requests"),
        )
        .shown(
            "mean requests with a tag while busy",
            seen_or_depth(device, seen),
            "requests",
            format!("iowhy -d {name}"),
        )
        .shown("blocked time for tags", waited.class_ns as f64, "ns", "iowhy waits")
        .fix(fix(device, seen.is_some()))
        .check(
            "with more tags the time before a tag is allocated (Q2G) falls; if the time at the \
             device (D2C) rises by as much, the device is the limit after all",
        )
        .into())
}

fn seen_or_depth(device: &DeviceSummary, seen: Option<f64>) -> f64 {
    seen.or(device.busy_depth_mean).unwrap_or(device.in_flight_mean)
}

fn fix(device: &DeviceSummary, is_claimed: bool) -> String {
    let name = &device.device;
    if is_claimed {
        return format!(
            "find the smaller limit behind the setting: a loop device may keep an earlier, lower \
             depth even when it is attached anew (write another number to \
             /sys/block/{name}/queue/nr_requests and then this one); disks of one host adapter \
             share its tags (/sys/class/scsi_host/host*/can_queue); for SCSI device/queue_depth"
        );
    }
    format!(
        "`echo 256 > /sys/block/{name}/queue/nr_requests` (per hardware queue); with scheduler \
         none at most what the device takes (\"Invalid argument\"): there raise device/queue_depth \
         for SCSI, the host's queue size for virtio; with a scheduler, requests beyond what the \
         device takes only wait in it"
    )
}

#[cfg(test)]
mod tests {
    use crate::{Diagnosis, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::{Device, SettingChange};
    use iowhy_model::script::{MS, START_NS, Script};

    /// A queue with this many tags.
    fn script(tags: &str) -> Script {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/nr_requests".to_owned(), tags.to_owned())].into(),
            ..Device::default()
        });
        script
    }

    /// Four concurrent reads, of 8 ms each, from such a queue, for which a process waits on
    /// `device`.
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
        let found =
            found.findings.into_iter().find(|finding| finding.cause == "tag-starvation").unwrap();
        assert!(found.sentence.contains("reports 128"), "{}", found.sentence);
        assert!(found.fix.contains("loop device"), "{}", found.fix);
        // A queue that is as full as it reports, and waits for another device.
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
            assert_eq!(
                has(&diagnose(&script.summary()), "tag-starvation"),
                is_found,
                "{transport}"
            );
        }
    }

    fn has(diagnosis: &Diagnosis, cause: &str) -> bool {
        diagnosis.findings.iter().any(|finding| finding.cause == cause)
    }

    #[test]
    fn few_tags_make_an_even_rate() {
        let found = judged("4", "sda");
        assert!(has(&found, "tag-starvation") && !has(&found, "provider-cap"), "{found:#?}");
        // With free tags, or while no thread waits for one, something behind the queue is even.
        for other in [judged("4", "sdb"), judged("256", "sdb")] {
            assert!(!has(&other, "tag-starvation") && has(&other, "provider-cap"), "{other:#?}");
        }
    }
}
