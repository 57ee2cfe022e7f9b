//! The I/O scheduler holds requests longer than the device takes.

use super::*;
use iowhy_model::environment::chosen;

/// The least share of the request time in the scheduler. Chosen.
const SHARE: f64 = 0.3;
/// And at least this multiple of the device's time: if both are alike, the device is full. Chosen.
const TIMES_DEVICE: f64 = 1.5;
/// The least time of a starved request: mq-deadline, which sorts too, delays a read at most this
/// long (read_expire).
const STARVED_NS: u64 = 500_000_000;
/// The least share of a full device's queue depth. Chosen.
const FULL: f64 = 0.8;
/// And at least this multiple of the longest time at the device: what delays all requests is in
/// both. Chosen.
const TIMES_LONGEST: u64 = 10;

rule!(
    "scheduler-overhead",
    "I/O scheduler overhead",
    "A scheduler sorts requests and shares the device among processes. On a device that serves \
     many requests in parallel it gains nothing: bfq dispatches few requests at a time and idles \
     for a process's next one, while queued requests could have been served. That time is I2D. It \
     may also favour some processes for seconds and starve others: few requests, which wait very \
     long, and those still queued have no I2D at all.",
    "The device has as many requests as it can take while the others wait in the scheduler: then \
     it is full, and any queue would hold them.",
    place: Setting,
    needs: [Queueing],
    trial: "scheduler=none",
    bound: [
        "of the blocked time, or of the request time: the waits in the scheduler",
        "what waits there would wait at the device instead",
    ],
    picture: Heat,
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let device = facts.busiest(|device| {
        // Requeued requests are inserted again, even without a scheduler.
        if scheduler_of(facts, device) == Some("none") {
            return false;
        }
        let sums = SchedulerTimes::new(facts, device);
        let is_longer = sums.held_ns as f64 >= TIMES_DEVICE * sums.at_device_ns as f64;
        sums.held_ns as f64 >= SHARE * sums.whole_ns as f64
            && (is_longer || sums.starved_ns.is_some())
            && device.stalled_ns.is_none()
            && (sums.starved_ns.is_some() || !is_full(facts, device))
    });
    let device = device.ok_or(Clear)?;
    Ok(finding(facts, device).into())
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary) -> Finding {
    let sums = SchedulerTimes::new(facts, device);
    let of_whole = |time_ns: u64| time_ns as f64 / sums.whole_ns as f64;
    let (held, at_device) = (of_whole(sums.held_ns), of_whole(sums.at_device_ns));
    let name = &device.device;
    let scheduler = scheduler_of(facts, device).unwrap_or("the scheduler");
    let longest_ns = longest_of(device, Interval::I2d).max(sums.starved_ns.unwrap_or(0));
    let up_to =
        sums.starved_ns.map(|starved_ns| format!(", some for {}", words::time(starved_ns as f64)));
    let up_to = up_to.unwrap_or_default();
    let sentence = format!(
        "{scheduler} delays requests of {name}{up_to}: {} of their time in its queue, {} at the \
         device",
        words::percent(held),
        words::percent(at_device),
    );
    let top = facts.top_process(device, |_| true);
    Finding::of_device(facts, sums.held_ns, sums.whole_ns, sentence)
        .about(facts::subject_of(name, top))
        // A device with a greater depth may take longer for each.
        .upper_bound()
        .shown(
            "share of the time in the scheduler (I2D)",
            held * 100.0,
            "%",
            format!("iowhy stages -d {name}"),
        )
        .also("share of the time at the device (D2C)", at_device * 100.0, "%")
        .also("longest time in the scheduler", longest_ns as f64, "ns")
        .shown(
            "requests in the scheduler at the end",
            device.in_scheduler.requests as f64,
            "requests",
            format!("iowhy -d {name}"),
        )
        .also(
            "mean requests at the device",
            sums.at_device_ns as f64 / facts.duration_ns().max(1) as f64,
            "requests",
        )
        .fix(fix(facts, device))
        .check(format!(
            "with another scheduler the time in it (I2D) is gone; if the time at the device (D2C) \
             rises by as much, the device is full and the scheduler only showed it{}",
            words::tried("scheduler=none"),
        ))
}

/// Whether the device has about as many requests in flight as it takes: then any queue above it
/// holds the others. SATA drives take 32, whatever the queue depth of their adapter.
fn is_full(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let at_device = facts::stage_sum(device, Interval::D2c) as f64;
    let busy_ns = device.util_share.unwrap_or(1.0) * facts.duration_ns() as f64;
    takes(facts, device).is_some_and(|takes| at_device / busy_ns.max(1.0) >= FULL * takes)
}

/// Returns how many requests a device takes at once: its SCSI queue depth, else half of the
/// scheduler's queue, which the kernel makes twice as long as the device's (blk_mq_init_sched).
fn takes(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let of_queue = || Some(facts.latest_number(device, "queue/nr_requests")? / 2.0);
    let takes = facts.number(device, "device/queue_depth").or_else(of_queue)?;
    (takes >= 1.0).then_some(takes)
}

fn fix(facts: &Facts<'_>, device: &DeviceSummary) -> String {
    let name = &device.device;
    let path = format!("/sys/block/{name}/queue/scheduler");
    match facts.setting(device, "queue/rotational") {
        Some("0") => format!(
            "`echo none > {path}` (a udev rule makes it persistent), or mq-deadline; ionice and \
             bfq weights then have no effect"
        ),
        Some("1") if scheduler_of(facts, device) == Some("mq-deadline") => {
            "it rotates, and mq-deadline is the scheduler for that: give it fewer requests at a \
             time (fewer programs on one device, or at another time), or a device without seeks"
                .to_owned()
        }
        Some("1") => format!(
            "it rotates: `echo mq-deadline > {path}`, which sorts and starves no request for long; \
             none would make it slower"
        ),
        _ => format!(
            "`cat /sys/block/{name}/queue/rotational`: if it is 0, `echo none > {path}`; if it is \
             1, `echo mq-deadline > {path}`"
        ),
    }
}

/// Returns the device's scheduler, if known.
fn scheduler_of<'a>(facts: &Facts<'a>, device: &DeviceSummary) -> Option<&'a str> {
    facts.setting(device, "queue/scheduler").map(chosen)
}

/// The times of a device's requests by place, nanoseconds. Requests still in the scheduler count
/// with their time so far.
struct SchedulerTimes {
    held_ns: u64,
    at_device_ns: u64,
    whole_ns: u64,
    /// The longest time in the scheduler, if some requests are starved.
    starved_ns: Option<u64>,
}

impl SchedulerTimes {
    fn new(facts: &Facts<'_>, device: &DeviceSummary) -> SchedulerTimes {
        let sum = |at| facts::stage_sum(device, at);
        let scheduled_ns = facts::scheduled_ns(device);
        let (queued_ns, longest_wait_ns) = queued(facts, device);
        let longest_ns = longest_of(device, Interval::I2d).max(device.in_scheduler.longest_ns);
        let longest_ns = longest_ns.max(longest_wait_ns);
        let starved_ns = is_starving(device, longest_ns).then_some(longest_ns);
        // Requests whose end was not recorded show only in the waits of their threads.
        let held_ns = if starved_ns.is_some() { scheduled_ns.max(queued_ns) } else { scheduled_ns };
        let beyond_ns = held_ns.saturating_sub(sum(Interval::I2d));
        SchedulerTimes {
            held_ns,
            at_device_ns: sum(Interval::D2c),
            whole_ns: sum(Interval::Q2c).saturating_add(beyond_ns).max(1),
            starved_ns,
        }
    }
}

/// Returns how long threads waited for requests in the device's scheduler, and the longest such
/// wait, nanoseconds; zero if requests wait as long before it.
fn queued(facts: &Facts<'_>, device: &DeviceSummary) -> (u64, u64) {
    let before = facts::stage_sum(device, Interval::Q2g) + facts::stage_sum(device, Interval::G2i);
    if before >= facts::scheduled_ns(device) {
        return (0, 0);
    }
    let own = [WaitClass::Device, WaitClass::PageRead, WaitClass::PageFault];
    let waited = facts
        .waits(|group| own.contains(&group.class) && group.device.as_ref() == Some(&device.device));
    let longest = waited.groups.iter().map(|group| group.longest_ns.min(group.queue_ns)).max();
    (
        waited.groups.iter().map(|group| group.queue_ns).fold(0, u64::saturating_add),
        longest.unwrap_or(0),
    )
}

/// Whether some requests, the longest for `longest_ns`, stay in the scheduler very long while the
/// device is fast and most others pass: a full device delays all of them, and a stalling device
/// holds some as long itself.
fn is_starving(device: &DeviceSummary, longest_ns: u64) -> bool {
    let stages = |at| device.directions.0.iter().map(move |it| it.intervals[at]);
    let both = stages(Interval::I2d).zip(stages(Interval::D2c));
    let both = both.filter_map(|(held, at_device)| Some((held?, at_device?)));
    let most_pass = both
        .max_by_key(|(held, _)| held.requests)
        .is_some_and(|(held, at_device)| held.p50_ns <= at_device.p50_ns);
    let at_device = longest_of(device, Interval::D2c);
    most_pass && longest_ns >= STARVED_NS && longest_ns >= TIMES_LONGEST * at_device
}

/// Returns the longest time of a stage in any direction, nanoseconds.
fn longest_of(device: &DeviceSummary, at: Interval) -> u64 {
    let stages = device.directions.0.iter().filter_map(|it| it.intervals[at]);
    stages.map(|stage| stage.max_ns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::Status;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    fn script(schedulers: &str) -> Script {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/scheduler".to_owned(), schedulers.to_owned())].into(),
            ..Device::default()
        });
        script
    }

    fn found(script: &Script) -> Option<Finding> {
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "scheduler-overhead")
    }

    /// Two readers that are served all the time, each request in `d2c`, after `i2d` in the
    /// scheduler.
    fn served(i2d: u64, d2c: u64) -> Script {
        served_by("none [bfq]", i2d, d2c)
    }

    fn served_by(schedulers: &str, i2d: u64, d2c: u64) -> Script {
        let mut script = script(schedulers);
        let each = i2d + d2c + 2000;
        for index in 0..2 * 9_900 * MS / each {
            let at = (index / 2 * each) as i64;
            let read = script.read("sda", 4096).by(7 + (index % 2) as u32, "fast").at(at);
            read.sector(index * 7919 * 8).scheduled(1000, 1000, i2d, d2c).add();
        }
        script
    }

    /// Adds readers whose request is in the scheduler since `at`.
    fn starved(script: &mut Script, readers: u32, at: u64) {
        for reader in 0..readers {
            let mut read = script.read("sda", 4096).by(70 + reader, "slow").at(at as i64);
            (read.request.q2g_ns, read.request.g2i_ns) = (Some(1000), Some(1000));
            read.status(Status::InFlight).add();
        }
    }

    #[test]
    fn what_stands_in_the_scheduler_at_the_end_counts() {
        let mut script = served(5000, MS);
        assert_eq!(found(&script), None);
        starved(&mut script, 2, 4000 * MS);
        let found = found(&script).unwrap();
        // Twelve seconds there, twenty at the device.
        assert!(
            (0.34..0.41).contains(&found.impact) && found.severity == Severity::Warning,
            "{found:?}"
        );
        assert!(
            found.sentence.starts_with("bfq delays requests of sda, some for 6.00 s: "),
            "{found:?}"
        );
    }

    #[test]
    fn what_completed_at_last_is_starved_too() {
        let mut script = served(5000, MS);
        for reader in 0..3_u32 {
            for turn in 0..2_u64 {
                let read =
                    script.read("sda", 4096).by(70 + reader, "slow").at((turn * 4900 * MS) as i64);
                read.sector(turn * 8).scheduled(1000, 1000, 4800 * MS, MS).add();
            }
        }
        assert!(found(&script).unwrap().sentence.contains("some for 4.80 s"));
    }

    #[test]
    fn the_waits_of_threads_tell_of_requests_that_were_overtaken() {
        let mut script = served(5000, MS);
        starved(&mut script, 2, 4000 * MS);
        // The end of an overtaken request may be lost.
        script.environment.losses.add("ring", 1, "requests that have no record", true);
        assert_eq!(found(&script), None);
        let last = script.batch.requests.len() as u64;
        for (pid, id) in [(70, last - 1), (71, last)] {
            script.wait_for((pid, "slow"), 4000 * MS, 6000 * MS, &[id]);
        }
        assert!(found(&script).unwrap().sentence.contains("some for 6.00 s"));
    }

    #[test]
    fn a_drive_that_has_all_it_takes_is_full() {
        let mut script = served(9 * MS, MS);
        assert!(found(&script).is_some());
        let settings = &mut script.environment.devices[0].settings_start;
        settings.insert("device/queue_depth".to_owned(), "32".to_owned());
        assert!(found(&script).is_some());
        let settings = &mut script.environment.devices[0].settings_start;
        settings.insert("device/queue_depth".to_owned(), "1".to_owned());
        assert_eq!(found(&script), None);
    }

    /// A SATA disk behind a SAS adapter in writeback: 256 requests, 32 of which are at the drive
    /// (nr_requests is twice the adapter's queue, at most 256).
    #[test]
    fn a_sata_disk_behind_an_adapter_is_full() {
        let full = |settings: &[(&str, &str)]| {
            let mut script = script("none [mq-deadline]");
            let known = &mut script.environment.devices[0].settings_start;
            known
                .extend(settings.iter().map(|(name, value)| (name.to_string(), value.to_string())));
            for index in 0..2000_u64 {
                let write =
                    script.write("sda", 65_536).by(7, "kworker").at((index * 5 * MS) as i64);
                write.sector(index * 7919 * 8).scheduled(1000, 1000, 1120 * MS, 160 * MS).add();
            }
            found(&script)
        };
        assert_eq!(full(&[("device/queue_depth", "32"), ("queue/nr_requests", "256")]), None);
        // A drive that takes more than it is given.
        assert!(full(&[("device/queue_depth", "254"), ("queue/nr_requests", "256")]).is_some());
        // If the depth is unknown, the queue length decides.
        assert_eq!(full(&[("queue/nr_requests", "64")]), None);
        assert!(full(&[("queue/nr_requests", "256")]).is_some());
    }

    #[test]
    fn a_rotating_disk_keeps_a_scheduler() {
        for (rotates, wanted) in [("1", "mq-deadline"), ("0", "echo none")] {
            let mut script = served(9 * MS, MS);
            let settings = &mut script.environment.devices[0].settings_start;
            settings.insert("queue/rotational".to_owned(), rotates.to_owned());
            let fix = found(&script).unwrap().fix;
            assert!(fix.contains(wanted), "{fix}");
            assert_eq!(fix.contains("echo none"), rotates == "0", "{fix}");
        }
    }

    #[test]
    fn without_a_scheduler_nothing_stands_in_one() {
        // Such as requests that a driver requeues until it has a path again.
        assert!(found(&served_by("none [bfq]", 9 * MS, MS)).is_some());
        assert_eq!(found(&served_by("[none] bfq", 9 * MS, MS)), None);
    }

    #[test]
    fn a_full_device_starves_nobody() {
        // All spend about as long in the scheduler as at the device.
        let mut script = served(9 * MS, 10 * MS);
        starved(&mut script, 2, 9_985 * MS);
        assert_eq!(found(&script), None);
        // One in thousands is older than the others.
        let mut script = served(5000, MS);
        starved(&mut script, 1, 8000 * MS);
        assert_eq!(found(&script), None);
    }

    #[test]
    fn a_device_that_pauses_starves_nobody() {
        let mut script = served(5000, MS);
        script.read("sda", 4096).by(7, "fast").at(0).scheduled(1000, 1000, 5000, 5000 * MS).add();
        starved(&mut script, 2, 3000 * MS);
        assert_eq!(found(&script), None);
    }
}
