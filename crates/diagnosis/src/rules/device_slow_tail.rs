//! The device itself is occasionally slow, or fails requests.

use super::*;
use facts::thresholds::TIMES_MEDIAN;
use iowhy_analysis::summary::Bucket;
use iowhy_analysis::summary::patterns::{Bin, Slow, Timeline};
use std::ops::RangeInclusive;

/// The least time of an outlier: a healthy 7200 rpm disk stayed below 160 ms under load in M.
/// Brooker's comparison (2013), its failing sibling took 1.15 s.
const OUTLIER_NS: u64 = 200_000_000;
/// The same for local flash: garbage collection, thermal throttling and link power-up take 5 to 150
/// ms, while a read takes 0.1 ms. Chosen below what databases' own logs call slow.
const OF_FLASH_NS: u64 = 5_000_000;
/// The same for other flash, and this multiple of the median: a hypervisor, a network and a busy
/// host add some milliseconds. Chosen.
const OF_SHARED_FLASH_NS: u64 = 20_000_000;
const TIMES_MEDIAN_SHARED: f64 = 50.0;
/// A single request this long is worth a warning: five times the longest of a healthy disk. Chosen.
const LONG_NS: u64 = 1_000_000_000;
/// And at least this multiple of what the queue in front of it explains (Little's law). Chosen.
const TIMES_QUEUE: f64 = 8.0;
/// And at least this multiple of what the bytes in flight explain at the rate that the device
/// reached: while a queue drains, the mean is half of what its last request waits for, and bins
/// blur it. Chosen.
const TIMES_BYTES: f64 = 4.0;
/// At most this share of the requests: if more are slow, it is not the tail. Chosen.
const RARE: f64 = 0.1;
/// The least number of requests that errors are a share of: one failed request of one does not make
/// a dead device.
const LEAST_REQUESTS: u64 = 100;
/// The least number of outliers, after which hardly another request completes, for a device that
/// stays slow. Chosen.
const LEAST_LASTING: usize = 3;
/// Errors of failing devices and paths: EIO, ENODATA (medium), EILSEQ (protection), ETIMEDOUT,
/// EREMOTEIO, ENOLINK. ETIME is a limit set by the host itself.
const FAILING: &[i32] = &[-5, -61, -84, -110, -121, -67];

rule!(
    "device-slow-tail",
    "device latency outliers or errors",
    "Most requests are fast, but a few take tens to thousands of times longer from issue to \
     completion (D2C), and commits, pages or whole queues wait for them. Neither the queue in \
     front of the device nor the load explains them. Disks do this when they retry a sector, SSDs \
     during garbage collection or near the end of their life, networks when they lose a packet. \
     Averages hide it: one request in a thousand that takes a second doubles a mean of a \
     millisecond.",
    "The outliers coincide with bursts of load, or a sibling device under the same load has them \
     too.",
    place: Device,
    picture: Tail,
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
    let answering =
        facts.devices().iter().filter(|device| !device.bio_based && device.stalled_ns.is_none());
    let found: Vec<Finding> = answering.filter_map(|device| of_device(facts, device)).collect();
    Ok(found.into())
}

/// Returns the finding about a device, of reads or of writes, whichever lose more.
fn of_device(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Finding> {
    let tails = [Direction::Read, Direction::Write]
        .into_iter()
        .filter_map(|direction| Some((direction, tail(facts, device, direction)?)));
    let (direction, tail) = tails.max_by(|a, b| a.1.time_ns.total_cmp(&b.1.time_ns))?;
    Some(of_tail(facts, device, direction, &tail))
}

/// Returns the least time of an outlier of the device, nanoseconds, and its least multiple of the
/// median.
fn outlier(facts: &Facts<'_>, device: &DeviceSummary) -> (f64, f64) {
    match facts.setting(device, "queue/rotational") == Some("0") {
        true if facts.is_own_drive(device) => (OF_FLASH_NS as f64, TIMES_MEDIAN),
        true => (OF_SHARED_FLASH_NS as f64, TIMES_MEDIAN_SHARED),
        false => (OUTLIER_NS as f64, TIMES_MEDIAN),
    }
}

/// The requests of one direction that are far slower than most and than the queue explains.
fn tail(facts: &Facts<'_>, device: &DeviceSummary, direction: Direction) -> Option<Tail> {
    let stage = facts::stage(device, direction, Interval::D2c)?;
    let p50 = stage.p50_ns as f64;
    let (floor, times) = outlier(facts, device);
    let slow = (p50 * times).max(floor);
    let is_slow = |bucket: &&Bucket| bucket.from_ns as f64 >= slow;
    let buckets = facts::of(device, direction).d2c_histogram.iter().filter(is_slow);
    let (mut requests, mut time_ns) = (0, 0.0);
    for bucket in buckets {
        requests += bucket.requests;
        time_ns += bucket.requests as f64 * bucket.from_ns as f64;
    }
    let left = unexplained(facts, device, direction, slow, p50);
    let requests = (requests as f64 * left).round() as u64;
    let rare = requests as f64 <= RARE * stage.requests as f64;
    let is_tail = requests > 0 && rare && !stays_slow(facts, device, direction, slow);
    is_tail.then_some(Tail {
        requests,
        time_ns: time_ns * left,
        whole_ns: stage.sum_ns,
        p50_ns: stage.p50_ns,
        p999_ns: stage.p999_ns,
        max_ns: stage.max_ns,
        // Of a thinned watch the kernel counted more than rows stand for.
        all: stage.requests.max(facts::of(device, direction).requests),
    })
}

/// Returns the share of the outliers' time that the device's other work meanwhile does not explain.
fn unexplained(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    direction: Direction,
    slow: f64,
    p50: f64,
) -> f64 {
    let Some(patterns) = facts.patterns(&device.device) else { return 1.0 };
    let write = direction == Direction::Write;
    let all = patterns.slowest.iter().filter(|it| it.write == write && it.d2c_ns as f64 >= slow);
    let (mut of_all, mut of_left) = (0.0, 0.0);
    for it in all {
        let depth = depth(&patterns.timeline, it).max(device.in_flight_mean).max(1.0);
        of_all += it.d2c_ns as f64;
        let d2c_ns = it.d2c_ns as f64;
        let transfer_ns = transfer_ns(&patterns.timeline, it);
        if d2c_ns >= TIMES_QUEUE * depth * p50 && d2c_ns >= TIMES_BYTES * transfer_ns {
            of_left += d2c_ns;
        }
    }
    if of_all > 0.0 { of_left / of_all } else { 1.0 }
}

/// Returns the bins of the timeline during which a slow request was at the device.
fn span(timeline: &Timeline, slow: &Slow) -> RangeInclusive<usize> {
    let bin_ns = timeline.bin_ns.max(1);
    let begin = (slow.ended_ns.saturating_sub(slow.d2c_ns) / bin_ns) as usize;
    begin..=(slow.ended_ns / bin_ns) as usize
}

/// Returns the time the device takes for all bytes in flight with a slow request, at the highest
/// rate that it reached, nanoseconds.
fn transfer_ns(timeline: &Timeline, slow: &Slow) -> f64 {
    let bin_ns = timeline.bin_ns.max(1) as f64;
    let bins = timeline.bins.get(span(timeline, slow)).unwrap_or_default();
    let held: u64 = bins.iter().map(|bin| bin.held_byte_us).fold(0, u64::saturating_add);
    let in_flight = held as f64 * 1000.0 / (bins.len().max(1) as f64 * bin_ns);
    let most = timeline.bins.iter().map(|bin| bin.bytes).max().unwrap_or(0);
    in_flight * bin_ns / most.max(1) as f64
}

/// Returns the mean number of other requests in service during a slow one. Only those that
/// completed meanwhile count: what completes with it may have waited for it.
fn depth(timeline: &Timeline, slow: &Slow) -> f64 {
    let bin_ns = timeline.bin_ns.max(1) as f64;
    let time = |bins: &[Bin]| bins.iter().map(|bin| bin.d2c_ns as f64).sum::<f64>();
    let span = span(timeline, slow);
    let (begin, end) = span.clone().into_inner();
    if end > begin + 1 {
        let inner = timeline.bins.get(begin + 1..end).unwrap_or_default();
        return time(inner) / (inner.len().max(1) as f64 * bin_ns);
    }
    let last = timeline.bins.get(span).unwrap_or_default();
    let others = (time(last) - slow.d2c_ns as f64).max(0.0);
    others / (last.len().max(1) as f64 * bin_ns)
}

/// Whether hardly any other request of the direction completed after the first outlier began: then
/// the device stays slow, and this is not a tail.
fn stays_slow(facts: &Facts<'_>, device: &DeviceSummary, direction: Direction, slow: f64) -> bool {
    let Some(patterns) = facts.patterns(&device.device) else { return false };
    let is_write = direction == Direction::Write;
    let is_slow = |it: &&Slow| it.write == is_write && it.d2c_ns as f64 >= slow;
    let outliers: Vec<&Slow> = patterns.slowest.iter().filter(is_slow).collect();
    let begins = outliers.iter().map(|outlier| *span(&patterns.timeline, outlier).start());
    let Some(first) = begins.min() else { return false };
    let completed = |bin: &Bin| if is_write { bin.requests - bin.reads } else { bin.reads };
    // The first bin also holds what completed before it.
    let since = patterns.timeline.bins.get(first + 1..).unwrap_or_default();
    let all: u64 = since.iter().map(completed).fold(0, u64::saturating_add);
    outliers.len() >= LEAST_LASTING && all < 2 * outliers.len() as u64
}

/// Returns the claims on waits for a device that are as long as its outliers: such a thread waited
/// for one of them, or for a thread that did.
fn claims_of(facts: &Facts<'_>, name: &str, tail: &Tail) -> Claims {
    let waited = |of_threads: bool| {
        facts.waits(|group| {
            let is_long = group.longest_ns >= tail.max_ns / 2;
            let is_here = group.device.as_deref() == Some(name);
            is_here && is_long && group.class.is_for_thread() == of_threads
        })
    };
    let claims = Claims::of_service(&waited(false)).and(&Claims::of_waits(&waited(true)));
    claims.limited_to(tail.time_ns as u64)
}

fn of_tail(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    direction: Direction,
    tail: &Tail,
) -> Finding {
    let name = &device.device;
    let word = direction.word();
    let sentence = format!(
        "{name} itself is occasionally slow: {} of {} {word}s ({}) account for at least {} of \
         its busy time, up to {} each; the median is {}",
        words::count(tail.requests),
        words::count(tail.all),
        words::percent(tail.requests as f64 / tail.all.max(1) as f64),
        words::percent((tail.time_ns / tail.whole_ns.max(1) as f64).min(1.0)),
        words::time(tail.max_ns as f64),
        words::time(tail.p50_ns as f64),
    );
    let device_name = Some(name.clone());
    // A few slow requests prove less than many.
    let sure = match (reported_events(device), tail.requests) {
        (1.., _) => Confidence::Certain,
        (0, 3..) => Confidence::Likely,
        _ => Confidence::Possible,
    };
    // A request that no queue explains is worth reporting, even if it is a small part of the total
    // time.
    let least = if tail.max_ns >= LONG_NS { Severity::Warning } else { Severity::Info };
    let claims = claims_of(facts, name, tail);
    Finding::of_device(facts, tail.time_ns as u64, tail.whole_ns, sentence)
        .claiming(claims.and(&Claims::of_own_requests(facts, name, tail.time_ns as u64)))
        .at_least(least)
        .about(Subject { device: device_name, ..Subject::default() })
        .sure(sure)
        .shown(
            format!("longest {word} (D2C)"),
            tail.max_ns as f64,
            "ns",
            format!("iowhy stages -d {name}"),
        )
        .shown(
            "99.9th percentile (D2C)",
            tail.p999_ns as f64,
            "ns",
            format!("iowhy latency -d {name}"),
        )
        .also("median (D2C)", tail.p50_ns as f64, "ns")
        .shown(
            "share of the time before the driver",
            facts::queue_share(device, direction) * 100.0,
            "%",
            format!("iowhy stages -d {name}"),
        )
        .fix(format!(
            "compare it with another device of its model under the same load (`iowhy diff \
             RECORDING -d {name}=OTHER`), and {}",
            health::how_to_ask(device),
        ))
        .check(
            "if the other device shows the same outliers under the same load, the load or the \
             driver causes them; `iowhy -t 60` shows whether they recur",
        )
}

/// Returns what the device itself and its driver counted during the watch: media errors, times it
/// throttled itself, timeouts.
fn reported_events(device: &DeviceSummary) -> u64 {
    health::grown(device, |it| it.media_errors)
        .saturating_add(u64::from(health::throttled(device)))
        .saturating_add(health::timeouts(device))
}

/// A device that completes requests with errors.
fn failing(facts: &Facts<'_>) -> Option<RuleVerdict> {
    let failed = |device: &DeviceSummary| -> u64 {
        let known = device.errors.iter().filter(|error| FAILING.contains(&error.error));
        known.map(|it| it.requests).fold(0, u64::saturating_add)
    };
    let device = facts.devices().iter().max_by_key(|device| failed(device))?;
    let errors = failed(device);
    let all: u64 = device.directions.0.iter().map(|it| it.requests).fold(0, u64::saturating_add);
    if errors == 0 {
        return None;
    }
    let name = &device.device;
    let sentence = format!(
        "{name} fails requests: {} of {} completed with an error",
        words::count(errors),
        words::count(all)
    );
    // Even a single error matters; many matter more.
    let share = errors as f64 / all.max(LEAST_REQUESTS) as f64;
    let impact = share.max(facts::thresholds::WARNING_SHARE);
    let finding = Finding::of_share(ImpactOf::DeviceTime, impact, 1.0, sentence)
        .about(Subject { device: Some(name.clone()), ..Subject::default() })
        .sure(Confidence::Certain)
        .at_most(if share < facts::thresholds::WARNING_SHARE {
            Severity::Warning
        } else {
            Severity::Critical
        })
        .shown("failed requests", errors as f64, "requests", format!("iowhy snoop -d {name}"))
        .fix(
            "read dmesg and the device's health log (`smartctl -a`, `nvme smart-log`); if they \
             report a failing device, copy its data and replace it",
        )
        .check("errors of a removed or reset path stop on their own: watch again");
    Some(finding.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script, US};

    fn of(script: &Script) -> Option<Finding> {
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "device-slow-tail")
    }

    /// 2,744 reads of a disk in 30 s, 10.5 ms each, except that the one in the middle takes
    /// `longest_ms`.
    fn disk(longest_ms: u64) -> Option<Finding> {
        let mut script = Script::new(30);
        for index in 0..2744_u64 {
            let takes = if index == 1372 { longest_ms * MS } else { 10_500 * US };
            let read = script.read("sdb", 8192).at((index * 10_600 * US) as i64);
            read.sector(index * 7919 * 8).issued(takes).add();
        }
        of(&script)
    }

    #[test]
    fn its_health_is_asked_where_it_has_any() {
        let advice = |name: &str, transport: Option<&str>| {
            let mut script = Script::new(30);
            script.environment.devices.push(Device {
                name: name.to_owned(),
                major: 8,
                transport: transport.map(str::to_owned),
                ..Device::default()
            });
            for index in 0..2744_u64 {
                let takes = if index == 1372 { 1153 * MS } else { 10_500 * US };
                let read = script.read(name, 8192).at((index * 10_600 * US) as i64);
                read.sector(index * 7919 * 8).issued(takes).add();
            }
            of(&script).unwrap().fix
        };
        assert!(advice("nvme0n1", Some("pcie")).contains("`nvme smart-log /dev/nvme0n1`"));
        assert!(advice("sda", Some("sata")).contains("`smartctl -a /dev/sda`"));
        let virtual_disk = advice("vda", Some("virtio"));
        assert!(virtual_disk.contains("ask the provider") && !virtual_disk.contains("smartctl"));
        assert!(!advice("loop0", None).contains("smartctl"));
    }

    #[test]
    fn one_request_of_a_second_tells_of_a_disk() {
        let found = disk(1153).unwrap();
        assert_eq!((found.severity, found.confidence), (Severity::Warning, Confidence::Possible));
        assert_eq!(disk(160), None, "its sibling");
        assert!(disk(999).is_none_or(|it| it.severity == Severity::Info));
    }

    /// An SSD that answers in 80 µs, and occasionally in `stall`.
    fn flash(stall: u64, is_virtual: bool, rotational: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(is_virtual);
        script.environment.devices.push(Device {
            name: "nvme0n1".to_owned(),
            transport: Some("pcie".to_owned()),
            settings_start: [("queue/rotational".to_owned(), rotational.to_owned())].into(),
            ..Device::default()
        });
        for index in 0..10_000_u64 {
            let takes = if index % 1000 == 999 { stall } else { 80 * US };
            let read = script.read("nvme0n1", 4096).at((index * MS) as i64);
            read.sector(index * 7919 * 8).direct(500, 500, takes).add();
        }
        of(&script)
    }

    #[test]
    fn flash_that_stalls_for_milliseconds_is_named() {
        assert_eq!(flash(20 * MS, false, "0").unwrap().severity, Severity::Info, "2 % of a second");
        assert!(flash(120 * MS, false, "0").unwrap().severity >= Severity::Warning);
        assert_eq!(flash(4 * MS, false, "0"), None);
        assert_eq!(flash(15 * MS, true, "0"), None, "a hypervisor adds milliseconds");
        assert!(flash(25 * MS, true, "0").is_some());
        assert_eq!(flash(100 * MS, false, "1"), None, "a disk that seeks");
    }

    /// A thousand reads of `each` nanoseconds, except that `slow` of them take `longest`.
    fn among(rotates: &str, each: u64, slow: u64, longest: u64) -> Option<Finding> {
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
        of(&script)
    }

    #[test]
    fn flash_stalls_for_less_time_than_a_disk_seeks() {
        assert!(among("0", 80_000, 5, OF_SHARED_FLASH_NS + 5 * MS).is_some());
        assert_eq!(among("0", 80_000, 5, OF_SHARED_FLASH_NS - 5 * MS), None);
        assert_eq!(among("1", 80_000, 5, OF_SHARED_FLASH_NS + 5 * MS), None);
        // Slow, but normal for such a device.
        assert_eq!(among("0", MS, 5, (TIMES_MEDIAN_SHARED as u64 - 5) * MS), None);
    }

    #[test]
    fn a_second_is_too_long_however_rare() {
        let found = |longest| among("1", 8 * MS, 1, longest);
        let once = found(LONG_NS + 150 * MS).unwrap();
        assert_eq!((once.severity, once.confidence), (Severity::Warning, Confidence::Possible));
        assert!(found(LONG_NS - 300 * MS).is_none_or(|it| it.severity == Severity::Info));
    }

    /// Reads of a disk; those in the fourth second take 400 ms, while the disk completes `writes`
    /// writes of others, or nothing.
    fn burst(writes: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..1000_u64 {
            let inside = (400..404).contains(&index);
            let takes = if inside { 400 * MS } else { 5 * MS };
            let read = script.read("sda", 8192).at((index * 10 * MS) as i64);
            read.sector(index * 7919 * 8).direct(500, 500, takes).add();
        }
        for index in 0..writes {
            let at = 3900 + index * 700 / writes.max(1);
            let write = script.write("sda", 65_536).origin(Origin::Writeback).at((at * MS) as i64);
            write.sector(index * 104_729 * 8).direct(500, 500, 300 * MS).add();
        }
        of(&script)
    }

    /// A small write every 5 ms, and once a batch of writes of `bytes` that takes the device 400 ms
    /// at 40 MB/s, or that it holds as long for no reason.
    fn volume(bytes: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: [("queue/rotational".to_owned(), "0".to_owned())].into(),
            ..Device::default()
        });
        for index in 0..2000_u64 {
            let write = script.write("sda", 8192).by(7, "db").at((index * 5 * MS) as i64);
            write.sector(index * 16).direct(500, 500, 400 * US).add();
        }
        for index in 0..16_u64 {
            let write = script.write("sda", bytes).origin(Origin::Writeback).at(4_000 * MS as i64);
            let takes = (index + 1) * 25 * MS;
            write.sector((1 << 20) + index * 104_729 * 8).direct(500, 500, takes).add();
        }
        of(&script)
    }

    #[test]
    fn a_burst_of_large_writes_explains_their_time() {
        assert_eq!(volume(1 << 20), None);
        assert!(volume(8192).is_some(), "the device did nothing else meanwhile");
    }

    /// A write every 2 ms until the fifth second; then five that take 900 ms each, with or without
    /// other writes between them.
    fn cliff(between: bool) -> Option<Finding> {
        let mut script = Script::new(10);
        let mut write = |at_ms: u64, takes: u64| {
            let write = script.write("sda", 65_536).by(7, "db").at((at_ms * MS) as i64);
            write.sector(at_ms * 7919 * 8 % (1 << 30)).direct(500, 500, takes).add();
        };
        (0..2500).for_each(|index| write(index * 2, MS));
        (0..5).for_each(|index| write(5000 + index * 1000, 900 * MS));
        if between {
            (0..5).for_each(|at| (0..40).for_each(|index| write(5905 + at * 1000 + index * 2, MS)));
        }
        of(&script)
    }

    #[test]
    fn what_stays_slow_is_no_tail() {
        assert!(cliff(true).is_some());
        assert_eq!(cliff(false), None);
    }

    #[test]
    fn a_burst_of_writes_explains_slow_reads() {
        assert!(burst(0).is_some());
        assert_eq!(burst(60), None);
    }
}
