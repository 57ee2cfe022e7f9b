//! Devices that are slow, capped or hung, flush much, discard much, or get their writes in bursts.
//!
//! What does not belong here: what the kernel's log or a drive says (see [`super::log`]).

use super::load::{CountedLoad, rates};
use super::{loads, of_counters, of_messages};
use crate::bottleneck;
use crate::bottleneck::bound::{DEEP, SATURATED};
use crate::facts::thresholds::{BUSY, DEVICE_SHARE};
use crate::facts::{self, Facts, shape};
use crate::finding::{Confidence, Finding, Severity};
use crate::place::Place;
use crate::rule::Rule;
use crate::rules;
use crate::words;
use iowhy_analysis::summary::Direction;
use iowhy_model::Metric;
use iowhy_model::compact_sort::CompactSort;

/// The least requests that a mean is made of. Chosen.
const LEAST_REQUESTS: u64 = 10;
/// The least time that a device takes for a request by itself to be slow, nanoseconds: a disk of
/// 5400 rpm needs at most 12 ms for the seek and 11 ms for the rotation; twice that.
const SLOW_NS: f64 = 45_000_000.0;
/// The bytes that any disk moves in a second: they are no slowness.
const TRANSFER_PER_S: f64 = 30e6;
/// The least mean requests in flight; less, and %util counts idle time, as kernels from 5.0 on do.
const LEAST_DEPTH: f64 = 0.3;
/// The least ratio of the time of a sick disk's requests to that of its siblings' requests. Chosen:
/// siblings of the public fail-slow drives stay within 1.1.
const TIMES_SIBLINGS: f64 = 3.0;
/// The most by which the requests of siblings may differ for a comparison, as a factor. Chosen.
const ALIKE: f64 = 3.0;
/// The least mean of a slow sibling's requests, nanoseconds: flash and disk.
const FELT_NS: f64 = 5_000_000.0;
/// The least mean time of a flush, nanoseconds: etcd's limit for a sync, halved.
const SLOW_FLUSH_NS: f64 = 5_000_000.0;
/// The least intervals that a rate is even over, and its largest variation.
const EVEN: (usize, f64) = (5, 0.02);

pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    // Without a time there are no rates and no shares.
    if facts.duration_ns() == 0 {
        return Vec::new();
    }
    let summary = facts.summary();
    let all: Vec<CountedLoad<'_>> = loads(summary)
        .into_iter()
        .filter(|load| !load.is_stacked() && !load.is_part(summary))
        .collect();
    let mut found: Vec<Finding> = Vec::new();
    for load in &all {
        let slow = sibling(load, &all, facts)
            .or_else(|| hung(load, facts))
            .or_else(|| capped(load, facts))
            .or_else(|| slow(load, facts))
            .or_else(|| one_by_one(load, facts));
        found.extend(slow);
        found.extend(flushes(load, facts));
        found.extend(discards(load, facts));
        found.extend(bursts(load, facts));
    }
    found
}

/// Evidence that every finding about a device has.
fn about(load: &CountedLoad<'_>, facts: &Facts<'_>, finding: Finding) -> Finding {
    let stat = format!("iowhy stat -d {}", load.name());
    let mut finding = finding.about(facts::subject_of(load.name(), None));
    if let Some(mean_ns) = load.mean_ns() {
        finding = finding.shown("mean request time (await)", mean_ns, "ns", stat.clone());
    }
    if let Some(util) = load.util {
        finding = finding.shown("busy", util * 100.0, "%", stat.clone());
    }
    finding.shown("requests", load.per_s(facts.seconds()), "1/s", stat)
}

/// The weight of a warning without a share of the time, in the middle of those with one.
const WEIGHT: f64 = 0.5;

/// A warning about a device that takes a share of the time, 0 to 1, if the share is known.
fn warning(
    load: &CountedLoad<'_>,
    facts: &Facts<'_>,
    of: Rule,
    share: Option<f64>,
    sentence: String,
) -> Finding {
    let finding = match share {
        Some(share) => of_counters(of, share, Severity::Warning, sentence),
        None => of_messages(of, WEIGHT, Severity::Warning, sentence),
    };
    about(load, facts, finding)
}

const EXAMINE: &str = "examine the drive: its health log (`smartctl -a`, `nvme smart-log`), the \
                       kernel's log, cable and slot, a rebuild or self-test that runs; a shingled \
                       (SMR) drive is slow at random writes, and a virtual disk may be limited by \
                       its provider";

/// A disk that takes much longer than others of its kind for as much work.
fn sibling(load: &CountedLoad<'_>, all: &[CountedLoad<'_>], facts: &Facts<'_>) -> Option<Finding> {
    let mean_ns = load.mean_ns().filter(|mean| *mean >= FELT_NS)?;
    let is_alike = |counted_load: &&CountedLoad<'_>| {
        let times = counted_load.requests as f64 / load.requests.max(1) as f64;
        counted_load.name() != load.name()
            && counted_load.kind() == load.kind()
            && !counted_load.kind().is_empty()
            && counted_load.requests >= LEAST_REQUESTS
            && (1.0 / ALIKE..=ALIKE).contains(&times)
    };
    let mut others: Vec<f64> =
        all.iter().filter(is_alike).filter_map(CountedLoad::mean_ns).collect();
    if others.len() < 2 || load.requests < LEAST_REQUESTS {
        return None;
    }
    others.compact_sort_by(f64::total_cmp);
    let (median, slowest) = (others[others.len() / 2], others[others.len() - 1]);
    let times = mean_ns / median;
    if times < TIMES_SIBLINGS || slowest * 1.5 > mean_ns {
        return None;
    }
    let sentence = format!(
        "{} is slower than its siblings: {} each request, and {} others of its kind with as much \
         work take {}",
        load.name(),
        words::time(mean_ns),
        others.len(),
        words::time(median),
    );
    Some(
        warning(load, facts, rules::slow_member::RULE.placed(Place::Device), load.util, sentence)
            .sure(Confidence::Likely)
            .shown("times its siblings' request time", times, "", "iowhy stat")
            .fix(EXAMINE)
            .check(
                "swap its slot or load with a sibling: if the slowness moves along, it is the disk",
            ),
    )
}

/// A device that is busy and completes nothing.
fn hung(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let is_hung = load.requests == 0
        && load.util.is_some_and(|util| util >= BUSY)
        && load.depth.is_none_or(|depth| depth > LEAST_DEPTH)
        && load.device.kernel.is_some_and(|kernel| {
            kernel.undirected.is_some() || kernel.directions[Direction::Read].is_some()
        });
    let depth = load.depth.unwrap_or(0.0);
    let sentence = format!(
        "{} completes no request although {} are in flight all the time",
        load.name(),
        words::number(depth),
    );
    is_hung.then(|| {
        warning(load, facts, rules::hung_io::RULE, Some(1.0), sentence)
            .sure(Confidence::Possible)
            .fix("check the path and the device: `dmesg`, its state, its cable and power")
            .check(
                "some kernels count a request as in flight for ever after an error: then \
                 nobody waits, and no task is in state D",
            )
    })
}

/// A device that takes long for each request by itself, not because many are queued.
fn slow(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let seconds = facts.seconds();
    let (service_ns, mean_ns) = (load.service_ns(seconds)?, load.mean_ns()?);
    let bytes = load.bytes as f64 / load.requests.max(1) as f64;
    let expected_ns = SLOW_NS + bytes / TRANSFER_PER_S * 1e9;
    let depth = load.depth.unwrap_or_else(|| load.wait_ns as f64 / (seconds * 1e9));
    let is_slow = load.requests >= LEAST_REQUESTS
        && service_ns >= expected_ns
        && mean_ns >= expected_ns
        && depth >= LEAST_DEPTH;
    let sentence = format!(
        "{} is slow by itself: {} requests a second keep it busy {} of the time, {} of the \
         device's time each",
        load.name(),
        words::number(load.per_s(seconds)),
        words::percent(load.util.unwrap_or(0.0)),
        words::time(service_ns),
    );
    is_slow.then(|| {
        let share = load.util.unwrap_or(0.0);
        let severity = if share >= DEVICE_SHARE { Severity::Warning } else { Severity::Info };
        about(load, facts, of_counters(rules::device_slow_tail::RULE, share, severity, sentence))
            .sure(Confidence::Likely)
            .shown("its own time for each request", service_ns, "ns", "iowhy stat")
            .fix(EXAMINE)
            .check("read one megabyte of it while nothing else runs: a healthy disk needs 30 ms")
    })
}

/// A device that is busy with one request after another: nothing queues, and a program that
/// waits for each of them, as syncs and reads in order do, waits for the medium.
fn one_by_one(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let mean_ns = load.mean_ns()?;
    let util = load.util.filter(|util| *util >= SATURATED)?;
    let is_one = load.requests >= LEAST_REQUESTS
        && load.depth.is_some_and(|depth| depth < DEEP)
        && mean_ns >= FELT_NS;
    let sentence = format!(
        "{} is busy {} of the time with one request after another, {} each: more at a time, or \
         fewer syncs and reads in order, would help",
        load.name(),
        words::percent(util),
        words::time(mean_ns),
    );
    is_one.then(|| {
        warning(load, facts, bottleneck::DEVICE_SATURATED, Some(util), sentence)
            .sure(Confidence::Likely)
            .fix(
                "find who waits (`pidstat -d`, `iotop`): commit several changes with one sync, \
                 read ahead or with several threads; else use a faster device",
            )
            .check("a device that does more with more requests at a time was not its limit")
    })
}

/// A volume whose rate stays the same in each interval while requests queue.
fn capped(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let mean_ns = load.mean_ns()?;
    let is_queued = load.util.is_none_or(|util| util >= BUSY)
        && load.depth.is_some_and(|depth| depth >= 1.5)
        && mean_ns >= 1_000_000.0;
    if !is_queued {
        return None;
    }
    let summary = facts.summary();
    let sum = |metrics: [Metric; 2]| -> Vec<f64> {
        let [reads, writes] = metrics.map(|metric| rates(summary, metric, load.name()));
        match (reads.len(), writes.len()) {
            (a, b) if a == b => reads.iter().zip(&writes).map(|(a, b)| a.1 + b.1).collect(),
            (a, b) if a > b => reads.iter().map(|read| read.1).collect(),
            _ => writes.iter().map(|write| write.1).collect(),
        }
    };
    let is_even = |rate: &[f64]| rate.len() >= EVEN.0 && shape::variation(rate) <= EVEN.1;
    let counts = sum([Metric::Reads, Metric::Writes]);
    let bytes = sum([Metric::ReadBytes, Metric::WriteBytes]);
    let words = match () {
        () if is_even(&counts) => {
            format!("{} requests/s", words::number(shape::mean(&counts)))
        }
        () if is_even(&bytes) => format!("{}/s", words::bytes(shape::mean(&bytes))),
        () => return None,
    };
    let is_round = shape::is_round(shape::mean(&counts), 0.01).is_some() && is_even(&counts);
    let is_sold = matches!(load.kind(), "vd" | "xvd");
    let sure = match is_round || is_sold {
        true => Confidence::Likely,
        false => Confidence::Possible,
    };
    let sentence = format!(
        "{} does {words} in every interval and no more, and each request waits {}: a limit behind \
         it sets the rate",
        load.name(),
        words::time(mean_ns),
    );
    Some(
        warning(load, facts, rules::provider_cap::RULE, load.util, sentence)
            .sure(sure)
            .fix(
                "compare it with the limit of the volume and of the instance (the provider's \
                 graphs), and raise that limit, spread the load over volumes, or do less",
            )
            .check("a rate that varies, or grows with more load, is no limit"),
    )
}

/// Cache flushes that take long.
fn flushes(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let counted = load.device.kernel?.directions[Direction::Flush]?;
    let mean_ns = counted.wait_ns as f64 / counted.requests.max(1) as f64;
    let share = counted.wait_ns as f64 / (facts.seconds() * 1e9);
    let is_slow =
        counted.requests >= LEAST_REQUESTS && mean_ns >= SLOW_FLUSH_NS && share >= DEVICE_SHARE;
    let sentence = format!(
        "{} takes {} for each flush of its cache, {} a second: each sync and each commit of a \
         journal waits for one",
        load.name(),
        words::time(mean_ns),
        words::number(counted.requests as f64 / facts.seconds()),
    );
    is_slow.then(|| {
        warning(load, facts, rules::flush_cost::RULE, Some(share.min(1.0)), sentence)
            .sure(Confidence::Likely)
            .shown("mean time of a flush (f_await)", mean_ns, "ns", "iowhy stat")
            .fix(
                "sync less often (group commit, fewer small transactions), or use a drive \
                 with power-loss protection, which answers flushes at once",
            )
            .check("`iowhy waits` on the machine: syncs that nobody waits for do no harm")
    })
}

/// Discards that take most of the device's time.
fn discards(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let counted = load.device.kernel?.directions[Direction::Discard]?;
    let of_all = counted.wait_ns as f64 / load.wait_ns.max(1) as f64;
    let share = counted.wait_ns as f64 / (facts.seconds() * 1e9);
    let is_much = counted.requests >= LEAST_REQUESTS && of_all >= 0.5 && share >= DEVICE_SHARE;
    let sentence = format!(
        "{} spends {} of its requests' time on discards: {} a second, {} each",
        load.name(),
        words::percent(of_all),
        words::number(counted.requests as f64 / facts.seconds()),
        words::time(counted.wait_ns as f64 / counted.requests.max(1) as f64),
    );
    is_much.then(|| {
        warning(
            load,
            facts,
            rules::discard_storm::RULE.placed(Place::Setting),
            Some(of_all),
            sentence,
        )
        .sure(Confidence::Likely)
        .fix("mount without `discard` and run `fstrim` at a quiet time instead")
        .check("`fstrim.timer` or a deletion of many files at that time is the reason")
    })
}

/// Writes that come in bursts with quiet time between them.
fn bursts(load: &CountedLoad<'_>, facts: &Facts<'_>) -> Option<Finding> {
    let writes = rates(facts.summary(), Metric::WriteBytes, load.name());
    let peak = writes.iter().map(|write| write.1).fold(0.0, f64::max);
    let high = writes.iter().filter(|write| write.1 >= peak / 2.0).count();
    let quiet = writes.iter().filter(|write| write.1 <= peak / 10.0).count();
    let counted = load.device.kernel?.directions[Direction::Write]?;
    let mean_ns = counted.wait_ns as f64 / counted.requests.max(1) as f64;
    let is_bursty = writes.len() >= 8
        && (2..=writes.len() / 3).contains(&high)
        && quiet * 2 >= writes.len()
        && mean_ns >= 10.0 * FELT_NS;
    let sentence = format!(
        "writes to {} come in bursts of {}/s with quiet time between them, and wait {} each",
        load.name(),
        words::bytes(peak),
        words::time(mean_ns),
    );
    is_bursty.then(|| {
        let of = rules::writeback_burst::RULE.placed(Place::Throttle);
        about(load, facts, of_messages(of, DEVICE_SHARE, Severity::Warning, sentence))
            .sure(Confidence::Possible)
            .fix(
                "let the kernel write earlier and less at once: smaller \
                 vm.dirty_background_bytes and vm.dirty_bytes; of a database spread its \
                 checkpoints",
            )
            .check("`grep Dirty /proc/meminfo` in the quiet time: it grows until the burst")
    })
}
