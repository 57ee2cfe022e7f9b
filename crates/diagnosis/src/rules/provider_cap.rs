//! A provider's limit behind the device caps requests or bytes per second.

use super::super::bottleneck::bound::DEEP;
use super::*;
use facts::thresholds::{BIN_NS, FLAT};
use facts::{Seller, shape};
use iowhy_analysis::summary::DirectionSummary;
use iowhy_analysis::summary::patterns::{Bin, Timeline};
use iowhy_model::compact_sort::CompactSort;

/// The least number of bins.
const BINS: usize = 6;
/// The largest variation of a rate that only a counting limit sets. Limits vary by 0 to
/// 0.6 % in the labs, a device that takes a millisecond per request by 0.8 to 0.9 %, and disks by
/// several per cent from second to second.
const EVEN: f64 = 0.003;
/// The number of requests by which a bin varies by chance.
const CHANCE: f64 = 2.0;
/// The largest variation of a provider's volume at its limit, without its highest and its lowest
/// bin: samples of half a second of AWS gp2 at its 3,000 requests per second vary by 3.7 to 4.5 %
/// (github.com/dyu/vps-comparison).
const LOOSE: f64 = 0.05;
/// The least mean latency to judge a device, nanoseconds: limits of providers are thousands of
/// requests per second, behind which a few requests wait a millisecond and more.
const SLOW_NS: f64 = 1_000_000.0;
/// The same for a volume that is known to be a provider's: a limit of 16,000 requests per second,
/// as gp3 has, with four in flight. Local flash is faster.
const SLOW_SOLD_NS: f64 = 250_000.0;
/// The least share of the time between the first request and the last in which some are in flight.
/// At a limit there are always some; a device that idles between the bursts of a program has the
/// program's pace. Chosen.
const ALWAYS_BUSY: f64 = 0.95;
/// The least mean size of requests of a stream, bytes: the kernel's own window of read-ahead.
const LARGE: u64 = 128 << 10;
/// The least ratio of each device's variation to that of all devices of an instance together.
/// Chosen.
const TIMES_TOGETHER: f64 = 3.0;

rule!(
    "provider-cap",
    "provider limit behind the device",
    "Cloud volumes, hypervisors and storage networks limit requests or bytes per second. Below the \
     limit the device is fast. At the limit the rate stays flat whatever the load, and each \
     additional request only waits longer: time = requests in flight / rate (Little's law). That \
     time counts as device time (D2C, issue to completion), so the device looks slow. An instance \
     has limits of its own, for all of its volumes together: then their sum stays flat while each \
     of them varies. A limit is often the baseline after a burst credit is exhausted.",
    "The rate varies, or rises with the size or depth of the requests: then it is the device. A \
     local drive at its own maximum looks the same, and is not judged.",
    place: Volume,
    least: LeastData::for_time(BINS as u64 * BIN_NS),
    bound: [
        "the time at the device; if the volume counts the time at its limits, that share of it",
        "the device's own time is hidden behind the limit",
    ],
    picture: Limit,
    refuted: refuted,
);

fn judge(facts: &Facts<'_>) -> Judged {
    if let Some(finding) = reported(facts) {
        return Ok(finding.into());
    }
    let possible = facts.devices().iter().filter(|device| !reports_none(device));
    let flat = possible.filter_map(|device| plateau(facts, device).map(|it| (device, it)));
    let (own, sold): (Vec<_>, Vec<_>) = flat.partition(|(device, _)| is_own_end(facts, device));
    let surest = sold.iter().rev().max_by_key(|(_, plateau)| plateau.sure);
    if let Some((device, plateau)) = surest.filter(|surest| surest.1.sure > Confidence::Possible) {
        return Ok(finding(facts, device, plateau).into());
    }
    if let Some(together) = together(facts) {
        return Ok(of_instance(facts, &together).into());
    }
    if let Some((device, plateau)) = surest {
        return Ok(finding(facts, device, plateau).into());
    }
    let missing = own.first().map(|(device, plateau)| own_end(device, plateau));
    Ok(missing.or_else(|| too_short(facts)).map_or(Clear, Into::into))
}

/// Whether a volume reports that its own limit did not hold it back: what looks like a limit is
/// none, or that of the instance (`instance-limit`).
fn reports_none(device: &DeviceSummary) -> bool {
    health::limit_times(device).is_some_and(|it| !it.is_worth(it.of_volume().0))
}

/// A limit that the volume itself counts.
fn reported(facts: &Facts<'_>) -> Option<Finding> {
    let held = facts.devices().iter().filter_map(|device| {
        let times = health::limit_times(device)?;
        times.is_worth(times.of_volume().0).then_some((device, times))
    });
    let (device, times) =
        held.max_by_key(|(device, it)| (it.of_volume().0, facts::device_time_ns(device)))?;
    let ((time_ns, what), of_ns) = (times.of_volume(), times.of_ns);
    let share = time_ns as f64 / of_ns.max(1) as f64;
    let name = &device.device;
    let sentence = format!(
        "{name} reports that its limit of {what} held it back for {} of {}",
        words::time(time_ns as f64),
        words::time(of_ns as f64),
    );
    let at_device = facts::stage_sum(device, Interval::D2c);
    let whole = facts::device_time_ns(device).max(at_device);
    let command = format!("iowhy -d {name}");
    Some(
        Finding::of_device(facts, (at_device as f64 * share) as u64, whole, sentence)
            .about(facts::subject_of(name, facts.top_process(device, |_| true)))
            .sure(Confidence::Certain)
            .upper_bound()
            .shown("time at the volume's limit", time_ns as f64, "ns", command.as_str())
            .also("share of the time", share * 100.0, "%")
            .shown(
                "mean requests in flight",
                device.in_flight_mean,
                "requests",
                format!("iowhy -d {name}"),
            )
            .fix(FIX)
            .check(CHECK),
    )
}

/// Volumes that stay at an even rate although they report that no limit held them back, as a
/// sentence each.
fn refuted(facts: &Facts<'_>) -> Vec<String> {
    let unlimited = facts
        .devices()
        .iter()
        .filter(|device| health::limit_times(device).is_some_and(|times| times.are_none()));
    let flat = unlimited
        .filter_map(|unlimited| plateau(facts, unlimited).map(|plateau| (unlimited, plateau)));
    let sentence = |(device, plateau): (&DeviceSummary, Plateau)| {
        let name = &device.device;
        format!(
            "{name} stays at {}, but the volume reports that it was not limited",
            plateau.words()
        )
    };
    flat.map(sentence).collect()
}

/// Whether the rate may be the device's own maximum: of a local drive, or of one of unknown kind
/// that a single program streams to or from.
fn is_own_end(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let streams = || {
        let top = facts.top_process(device, |_| true)?;
        Some(facts.is_copied_by(device, &top.subject.process, None))
    };
    let is_sold = facts.seller(device) != Seller::Unknown;
    facts.is_own_drive(device) || !is_sold && is_large(device) && streams() == Some(true)
}

/// Whether requests are as large as a device needs them for its best throughput.
fn is_large(device: &DeviceSummary) -> bool {
    let sum = |of: fn(&DirectionSummary) -> u64| {
        device.directions.0.iter().map(of).fold(0, u64::saturating_add)
    };
    sum(|direction| direction.bytes) >= LARGE * sum(|direction| direction.requests)
}

/// A local drive at its own maximum looks the same.
fn own_end(device: &DeviceSummary, plateau: &Plateau) -> Missing {
    Missing(format!(
        "{} does {} and no more: that may be its own maximum",
        device.device,
        plateau.words(),
    ))
}

fn too_short(facts: &Facts<'_>) -> Option<Missing> {
    let needed = BINS as u64 * BIN_NS;
    (facts.duration_ns() < needed && !facts.devices().is_empty())
        .then(|| Missing(format!("the watch is shorter than {}", words::time(needed as f64))))
}

/// A rate that stays flat while requests wait for it.
pub(super) struct Plateau {
    /// Requests or bytes per second.
    rate: f64,
    /// Whether `rate` is in bytes.
    bytes: bool,
    /// The variation from bin to bin.
    variation: f64,
    /// The confidence that it is a limit.
    sure: Confidence,
}

impl Plateau {
    /// The rate as text.
    fn words(&self) -> String {
        if self.bytes {
            format!("{} per second", words::bytes(self.rate))
        } else {
            format!("{} requests per second", words::number(self.rate))
        }
    }

    fn unit(&self) -> &'static str {
        if self.bytes { "bytes/s" } else { "1/s" }
    }
}

/// Returns the timeline in bins of half a second, without those in which the load begins and ends.
pub fn even_bins(timeline: &Timeline) -> Timeline {
    let count = (BIN_NS / timeline.bin_ns.max(1)).max(1) as usize;
    let active = Timeline { bin_ns: timeline.bin_ns, bins: shape::active(timeline).to_vec() };
    let mut coarse = active.coarser(count);
    if coarse.bins.len() > 2 {
        coarse.bins.remove(0);
        coarse.bins.pop();
    }
    coarse
}

/// Returns a device's mean time from issue to completion, nanoseconds.
fn mean_ns(device: &DeviceSummary) -> f64 {
    let stages = device.directions.0.iter().filter_map(|it| it.intervals[Interval::D2c]);
    let (sum, count) = stages.fold((0, 0), |all, it| (all.0 + it.sum_ns, all.1 + it.requests));
    sum as f64 / count.max(1) as f64
}

fn is_deep(device: &DeviceSummary) -> bool {
    device.in_flight_mean >= DEEP && device.stalled_ns.is_none()
}

/// Whether requests wait at the device for long.
pub fn is_saturated(device: &DeviceSummary) -> bool {
    mean_ns(device) >= SLOW_NS && is_deep(device)
}

/// Whether flushes take much of the device's time: a program that waits for each of them has the
/// rate that the flush allows, which is even by itself.
fn is_flushing(device: &DeviceSummary) -> bool {
    let flush = facts::stage(device, Direction::Flush, Interval::D2c).map_or(0, |it| it.sum_ns);
    flush as f64 >= FLUSHING * facts::stage_sum(device, Interval::D2c) as f64 && flush > 0
}

/// The least share of the device time of flushes that set the pace. Chosen.
const FLUSHING: f64 = 0.3;

pub(super) fn plateau(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Plateau> {
    let is_sold = facts.seller(device) != Seller::Unknown;
    let slow_ns = if is_sold { SLOW_SOLD_NS } else { SLOW_NS };
    let waits = mean_ns(device) >= slow_ns && is_deep(device);
    let has_own_pace = super::tag_starvation::sets_the_pace(facts, device)
        || super::raid_resync::sets_the_pace(facts, device)
        || is_flushing(device)
        || !is_sold && super::serial_reads::pool_of(facts, device).is_some();
    if !waits || has_own_pace {
        return None;
    }
    let whole = &facts.patterns(&device.device)?.timeline;
    let timeline = even_bins(whole);
    if timeline.bins.len() < BINS || idles_between(facts, device, whole) {
        return None;
    }
    let requests = rates(&timeline, |bin| bin.requests);
    let bytes = rates(&timeline, |bin| bin.bytes);
    let in_bin = shape::mean(&requests) * timeline.bin_ns as f64 / 1e9;
    let even = (EVEN + CHANCE / in_bin).min(FLAT);
    let levels = [(requests, false), (bytes, true)];
    let flat = |most: f64, variation: fn(&[f64]) -> f64, sure| {
        let found = levels.iter().find(|(values, _)| variation(values) <= most)?;
        let rate = shape::mean(&found.0);
        Some(Plateau { rate, bytes: found.1, variation: variation(&found.0), sure })
    };
    let strict = match is_saturated(device) {
        true => flat(even, shape::variation, sureness(facts, device, even)),
        false => None,
    };
    strict.or_else(|| flat(LOOSE, trimmed, Confidence::Possible).filter(|_| is_sold))
}

/// Whether the device has nothing to do for some of the time between the first request and the
/// last.
fn idles_between(facts: &Facts<'_>, device: &DeviceSummary, timeline: &Timeline) -> bool {
    let active_ns = shape::active(timeline).len() as u64 * timeline.bin_ns;
    let busy = |share: f64| share * facts.duration_ns() as f64;
    device.util_share.is_some_and(|share| busy(share) < ALWAYS_BUSY * active_ns as f64)
}

/// Returns the confidence that an even rate is a limit: a drive passed through to a virtual
/// machine, or one of unknown kind, streams large requests at an even pace of its own.
fn sureness(facts: &Facts<'_>, device: &DeviceSummary, even: f64) -> Confidence {
    let is_drive = |it: &str| ["sata", "sas", "usb", "mmc"].contains(&it);
    let may_be_own = device.transport.as_deref().is_some_and(is_drive)
        && (even > 2.0 * EVEN || facts.summary().environment.is_virtual.is_none());
    if may_be_own { Confidence::Possible } else { Confidence::Likely }
}

fn rates(timeline: &Timeline, of: fn(&Bin) -> u64) -> Vec<f64> {
    timeline.bins.iter().map(|bin| timeline.per_s(of(bin))).collect()
}

/// Returns the variation without the highest and the lowest value.
fn trimmed(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.compact_sort_by(f64::total_cmp);
    let inner = values.get(1..values.len().saturating_sub(1)).unwrap_or_default();
    shape::variation(inner)
}

/// Volumes whose sum stays flat although each of them varies.
struct Together<'a> {
    devices: Vec<&'a DeviceSummary>,
    plateau: Plateau,
    /// The variation of the steadiest of them by itself.
    each: f64,
}

fn together<'a>(facts: &Facts<'a>) -> Option<Together<'a>> {
    let is_held = |device: &DeviceSummary| {
        health::limit_times(device).is_none_or(|times| times.is_worth(times.of_instance().0))
    };
    let sold = |device: &&DeviceSummary| {
        facts.seller(device) != Seller::Unknown && is_deep(device) && is_held(device)
    };
    let devices: Vec<&DeviceSummary> = facts.devices().iter().filter(sold).collect();
    let first = devices.first()?;
    let mut devices: Vec<&DeviceSummary> =
        devices.iter().copied().filter(|device| device.transport == first.transport).collect();
    devices.compact_sort_by_key(|device| &device.device);
    if devices.len() < 2 || devices.iter().all(|device| mean_ns(device) < SLOW_SOLD_NS) {
        return None;
    }
    let timelines: Vec<&Timeline> = devices
        .iter()
        .filter_map(|device| Some(&facts.patterns(&device.device)?.timeline))
        .collect();
    let all = even_bins(&sum(&timelines)?);
    let found = [(false, (|bin| bin.requests) as fn(&Bin) -> u64), (true, |bin| bin.bytes)];
    found.into_iter().find_map(|(bytes, of)| {
        let values = rates(&all, of);
        let variation = trimmed(&values);
        let each = timelines.iter().map(|timeline| trimmed(&rates(&even_bins(timeline), of)));
        let each = each.fold(f64::INFINITY, f64::min);
        let is_flat = values.len() >= BINS && variation <= LOOSE;
        let plateau =
            Plateau { rate: shape::mean(&values), bytes, variation, sure: Confidence::Likely };
        (is_flat && each.is_finite() && each >= TIMES_TOGETHER * variation.max(EVEN))
            .then(|| Together { devices: devices.clone(), plateau, each })
    })
}

/// Returns the sum of all timelines, bin by bin.
fn sum(timelines: &[&Timeline]) -> Option<Timeline> {
    let bin_ns = timelines.first()?.bin_ns;
    let length = timelines.iter().map(|timeline| timeline.bins.len()).max()?;
    if timelines.iter().any(|timeline| timeline.bin_ns != bin_ns) {
        return None;
    }
    let bin = |at: usize| {
        let bins = timelines.iter().filter_map(|timeline| timeline.bins.get(at));
        bins.fold(Bin::default(), |all, bin| Bin {
            requests: all.requests + bin.requests,
            bytes: all.bytes + bin.bytes,
            ..all
        })
    };
    Some(Timeline { bin_ns, bins: (0..length).map(bin).collect() })
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, plateau: &Plateau) -> Finding {
    let name = &device.device;
    let sentence = format!(
        "{name} stays at {} (±{}) with {} in flight, {} each: a limit behind the device",
        plateau.words(),
        words::percent(plateau.variation),
        words::number(device.in_flight_mean),
        words::time(mean_ns(device)),
    );
    let at_device = facts::stage_sum(device, Interval::D2c);
    let whole = facts::device_time_ns(device).max(at_device);
    // A hypervisor's rate may be the maximum of its own disk.
    let most = match (plateau.sure, facts.seller(device)) {
        (Confidence::Possible, Seller::Cloud) => Severity::Warning,
        (Confidence::Possible, _) => Severity::Info,
        _ => Severity::Critical,
    };
    Finding::of_device(facts, at_device, whole, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(plateau.sure)
        .at_most(most)
        // The device's own latency is hidden behind the limit.
        .upper_bound()
        .shown("rate", plateau.rate, plateau.unit(), format!("iowhy stat -d {name}"))
        .shown("variation", plateau.variation * 100.0, "%", format!("iowhy stat -d {name} 1"))
        .shown(
            "mean requests in flight",
            device.in_flight_mean,
            "requests",
            format!("iowhy -d {name}"),
        )
        .fix(FIX)
        .check(CHECK)
}

fn of_instance(facts: &Facts<'_>, together: &Together<'_>) -> Finding {
    let Together { devices, plateau, each } = together;
    let names: Vec<&str> = devices.iter().map(|device| device.device.as_str()).collect();
    let sentence = format!(
        "{} together stay at {} (±{}), although each of them varies by {} or more: a limit of the \
         instance for all its volumes",
        names.join(" and "),
        plateau.words(),
        words::percent(plateau.variation),
        words::percent(*each),
    );
    let sums = |of: fn(&DeviceSummary) -> u64| {
        devices.iter().map(|device| of(device)).fold(0_u64, u64::saturating_add)
    };
    let at_device = sums(|it| facts::stage_sum(it, Interval::D2c));
    let whole = sums(facts::device_time_ns).max(at_device);
    let waiting: f64 = devices.iter().map(|device| device.in_flight_mean).sum();
    let subject =
        Subject { device: names.first().map(|name| (*name).to_owned()), ..Subject::default() };
    Finding::of_device(facts, at_device, whole, sentence)
        .about(subject)
        .sure(plateau.sure)
        .upper_bound()
        .shown("total rate", plateau.rate, plateau.unit(), "iowhy stat")
        .shown("variation", plateau.variation * 100.0, "%", "iowhy stat 1")
        .also("least variation of one volume", each * 100.0, "%")
        .shown("total requests in flight", waiting, "requests", "iowhy")
        .fix(FIX)
        .check(CHECK)
}

const FIX: &str = "find out first which limit it is, the volume's or the instance's; then use a \
                   volume or an instance with a higher one, fewer and larger requests if it counts \
                   requests (EBS counts up to 256 KiB as one on SSD volumes), or reduce the load";
const CHECK: &str = "the provider's counters: EBS `ebsnvme stats DEVICE` (exceeded: volume or \
                     instance) and BurstBalance of gp2 and T-type instances, Azure \"VM \
                     cached/uncached IOPS consumed\", throttled operations of GCP; a local SATA or \
                     rotating disk: its specification. With half as many requests in flight the \
                     rate stays and each takes half as long; if the rate falls too, it is not a \
                     limit";

#[cfg(test)]
#[path = "provider_cap/tests.rs"]
mod tests;
