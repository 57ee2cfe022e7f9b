//! The device itself is slow now and then, or fails requests.

use super::*;
use crate::analysis::summary::{Bucket, DeviceSummary};
use crate::analysis::{Direction, Interval};

/// From which time on a single request is an outlier: a healthy 7200 rpm disk stayed below 160 ms
/// under load in M. Brooker's comparison (2013), its failing sibling took 1.15 s.
const OUTLIER_NS: u64 = 200_000_000;
/// The same of flash: garbage collection, heat and power states make stalls of 5 to 150 ms where
/// most requests take 0.1 ms. Chosen, above what a busy host adds.
const OUTLIER_FLASH_NS: u64 = 20_000_000;
/// And there this multiple of the median. Chosen.
const TIMES_MEDIAN_FLASH: f64 = 50.0;
/// What no healthy device takes, however rarely: one of them is worth a warning.
const NEVER_NS: u64 = 1_000_000_000;
/// An outlier takes at least this multiple of the median. Chosen.
const TIMES_MEDIAN: f64 = 20.0;
/// And this multiple of what the queue in front of it explains (Little's law). Chosen.
const TIMES_QUEUE: f64 = 8.0;
/// At most this share of the requests: where more are slow, it is not the tail.
const RARE: f64 = 0.05;
/// What errors are a share of at least: one error of one request is no dead device yet.
const LEAST_REQUESTS: u64 = 100;
/// Errors that devices and paths give for what they cannot do: EIO, ENODATA (medium), EILSEQ
/// (protection), ETIMEDOUT, EREMOTEIO, ENOLINK. ETIME is a limit that the host itself has set.
const FAILING: &[i32] = &[-5, -61, -84, -110, -121, -67];

rule!(
    "device-slow-tail",
    "a device that is slow or fails now and then",
    "Most requests are fast, a few take tens to thousands of times longer between the driver and the \
     completion (D2C), and what they delay waits for them: commits, pages, whole queues. The queue in \
     front of the device does not explain them, and neither does the load. Disks do this when they \
     retry a sector, SSDs when they collect garbage or near their end, networks when they lose a \
     packet. Averages hide it: one in a thousand requests of a second doubles a mean of a millisecond.",
    "Outliers that go with bursts of load, or that a sibling device under the same load has too.",
);

struct Tail {
    requests: u64,
    time_ns: f64,
    whole_ns: u64,
    p50_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    all: u64,
}

fn judge(facts: &Facts<'_>) -> Judged {
    if let Some(failing) = failing(facts) {
        return Ok(failing);
    }
    let mut worst: Option<(f64, Finding)> = None;
    for device in facts.devices().iter().filter(|it| !it.bio_based && it.stalled_ns.is_none()) {
        for direction in [Direction::Read, Direction::Write] {
            let is_flash = facts.setting(device, "queue/rotational") == Some("0");
            let Some(tail) = tail(device, direction, is_flash) else { continue };
            if worst.as_ref().is_none_or(|(most, _)| tail.time_ns > *most) {
                worst = Some((tail.time_ns, finding(facts, device, direction, &tail)));
            }
        }
    }
    Ok(worst.map_or(Verdict::Clear, |(_, finding)| finding.into()))
}

/// The requests of one direction that are far slower than most and than the queue explains.
fn tail(device: &DeviceSummary, direction: Direction, is_flash: bool) -> Option<Tail> {
    let stage = facts::stage(device, direction, Interval::D2c)?;
    // Requests come in bursts: what stands in front of one is what there is while the device is busy.
    let depth = device.busy_depth_mean.unwrap_or(1.0).max(device.in_flight_mean).max(1.0);
    let (times, floor) = match is_flash {
        true => (TIMES_MEDIAN_FLASH, OUTLIER_FLASH_NS),
        false => (TIMES_MEDIAN, OUTLIER_NS),
    };
    let slow = (stage.p50_ns as f64 * times.max(TIMES_QUEUE * depth)).max(floor as f64);
    let is_slow = |bucket: &&Bucket| bucket.from_ns as f64 >= slow;
    let buckets = facts::of(device, direction).d2c_histogram.iter().filter(is_slow);
    let (mut requests, mut time_ns) = (0, 0.0);
    for bucket in buckets {
        requests += bucket.requests;
        time_ns += bucket.requests as f64 * bucket.from_ns as f64;
    }
    let rare = requests as f64 <= RARE * stage.requests as f64;
    (requests > 0 && rare).then_some(Tail {
        requests,
        time_ns,
        whole_ns: stage.sum_ns,
        p50_ns: stage.p50_ns,
        p999_ns: stage.p999_ns,
        max_ns: stage.max_ns,
        all: stage.requests,
    })
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, direction: Direction, tail: &Tail) -> Finding {
    let name = &device.device;
    let word = direction.word();
    let sentence = format!(
        "{name} itself is slow now and then: {} of {} {word}s took {} or more of its time, up to {}, where half take {} at most",
        words::count(tail.requests),
        words::count(tail.all),
        words::percent((tail.time_ns / tail.whole_ns.max(1) as f64).min(1.0)),
        words::time(tail.max_ns as f64),
        words::time(tail.p50_ns as f64),
    );
    let device_name = Some(name.clone());
    // A few slow ones prove less than many.
    let sure = if tail.requests >= 3 { Confidence::Likely } else { Confidence::Possible };
    let least = if tail.max_ns >= NEVER_NS { Severity::Warning } else { Severity::Info };
    Finding::of_device(facts, tail.time_ns as u64, tail.whole_ns, sentence)
        .about(Subject { device: device_name, ..Subject::default() })
        .sure(sure)
        .at_least(least)
        .shown(format!("longest {word} between driver and completion"), tail.max_ns as f64, "ns", format!("iowhy stages -d {name}"))
        .shown("99.9 % take at most", tail.p999_ns as f64, "ns", format!("iowhy latency -d {name}"))
        .shown("half take at most", tail.p50_ns as f64, "ns", format!("iowhy latency -d {name}"))
        .shown("waiting before the driver, of all their time", facts::queue_share(device, direction) * 100.0, "%", format!("iowhy stages -d {name}"))
        .fix(format!(
            "compare it with a sibling under the same load (`iowhy diff RECORDING -d {name}=SIBLING`); look at its health log \
             (`smartctl -a /dev/{name}`, `nvme smart-log /dev/{name}`), and replace it where that tells of a failure; a \
             virtual disk has none: ask the provider"
        ))
        .check(
            "if a sibling shows the same outliers under the same load, the load or the driver makes \
             them; a few events prove little: `iowhy -t 60` shows whether they come again",
        )
}

/// A device that ends requests with errors.
fn failing(facts: &Facts<'_>) -> Option<Verdict> {
    let failed = |device: &DeviceSummary| -> u64 {
        let known = device.errors.iter().filter(|it| FAILING.contains(&it.error));
        known.map(|it| it.requests).sum()
    };
    let device = facts.devices().iter().max_by_key(|device| failed(device))?;
    let errors = failed(device);
    let all: u64 = device.directions.0.iter().map(|it| it.requests).sum();
    if errors == 0 {
        return None;
    }
    let name = &device.device;
    let sentence =
        format!("{name} fails: {} of {} requests ended with an error", words::count(errors), words::count(all));
    // An error matters however few they are; many matter more.
    let share = errors as f64 / all.max(LEAST_REQUESTS) as f64;
    let impact = share.max(super::super::finding::WARNING_IMPACT);
    let finding = Finding::of_share(ImpactOf::DeviceTime, impact, 1.0, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(Confidence::Certain)
        .shown("failed requests", errors as f64, "requests", format!("iowhy snoop -d {name}"))
        .fix("read dmesg and the device's health log (`smartctl -a`, `nvme smart-log`); where they say that it fails, copy what is on it, and replace it")
        .check("errors of a removed or reset path stop by themselves: watch again");
    Some(finding.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::diagnose;
    use crate::model::environment::Device;
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// A thousand reads of `each` nanoseconds, of which `slow` take `longest`.
    fn found(rotates: &str, each: u64, slow: u64, longest: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/rotational".to_owned(), rotates.to_owned())].into(),
            ..Device::default()
        });
        for index in 0..1000_u64 {
            let d2c = if index % 100 == 50 && index / 100 < slow { longest } else { each };
            let read = script.read("sda", 4096).by(7, "db").at((index * 9 * MS) as i64);
            read.sector(index * 7919 * 8 % (1 << 30)).direct(500, 500, d2c).add();
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "device-slow-tail")
    }

    #[test]
    fn flash_stalls_for_less_time_than_a_disk_seeks() {
        assert!(found("0", 80_000, 5, OUTLIER_FLASH_NS + 5 * MS).is_some());
        assert_eq!(found("0", 80_000, 5, OUTLIER_FLASH_NS - 5 * MS), None);
        assert_eq!(found("1", 80_000, 5, OUTLIER_FLASH_NS + 5 * MS), None);
        // Slow, but not for such a device.
        assert_eq!(found("0", MS, 5, (TIMES_MEDIAN_FLASH as u64 - 5) * MS), None);
    }

    #[test]
    fn a_second_is_too_long_however_rare() {
        let found = |longest| found("1", 8 * MS, 1, longest);
        let once = found(NEVER_NS + 150 * MS).unwrap();
        assert_eq!((once.severity, once.confidence), (Severity::Warning, Confidence::Possible));
        assert!(found(NEVER_NS - 300 * MS).is_none_or(|it| it.severity == Severity::Info));
    }
}
