//! Somebody behind the device lets only so many requests or bytes a second through.

use super::*;
use crate::analysis::Interval;
use crate::analysis::patterns::{Bin, Timeline};
use crate::analysis::summary::DeviceSummary;
use facts::shape;

/// Bins are made this long, so that each holds enough requests, nanoseconds.
const BIN_NS: u64 = 500_000_000;
/// Bins that must be seen.
const BINS: usize = 6;
/// How much a capped rate may vary: a limit that counts is more even than any load. Limits vary by 0 to 0.6 %
/// in the labs, a device that takes a millisecond for each request by 0.8 to 0.9 %, and disks by several per
/// cent from second to second.
const EVEN: f64 = 0.003;
/// So many requests more or less are in a bin by chance.
const CHANCE: f64 = 2.0;
/// How much it may vary at most where bins hold few requests.
const EVEN_OF_FEW: f64 = 0.025;
/// How near the rate must be to a number that a person would choose.
const ROUND: f64 = 0.03;
/// The device's mean time from which on it is worth asking: limits of providers are thousands of
/// requests a second, behind which a few requests wait a millisecond and more.
const SLOW_NS: f64 = 1_000_000.0;
/// Requests that must wait on average: with fewer it is the program that sets the pace.
const DEPTH: f64 = 1.5;

rule!(
    "provider-cap",
    "a limit behind the device",
    "Cloud volumes, hypervisors and storage networks let only so many requests or bytes a second \
     through. Below the limit the device is fast. At the limit the rate stays flat at a round number \
     whatever the load, and each request more only waits longer: time = requests in flight / rate \
     (Little's law). The time counts as the device's (D2C, from the driver to the completion), so that \
     the device looks slow.",
    "A rate that varies, or that rises with the size or depth of the requests: then it is the device. A drive \
     of this machine itself that gives all it can looks the same, and is not judged.",
    symptoms: ["serial-reads", "device-slow-tail", "tag-starvation", "journal-commit"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let flat = facts.devices().iter().filter_map(|device| plateau(facts, device).map(|it| (device, it)));
    let (own, sold): (Vec<_>, Vec<_>) = flat.partition(|(device, _)| facts.is_own_drive(device));
    if let Some((device, plateau)) = sold.first() {
        return Ok(finding(facts, device, plateau).into());
    }
    let missing = own.first().map(|(device, plateau)| own_end(device, plateau));
    missing.or_else(|| too_short(facts)).map_or(Ok(Verdict::Clear), Err)
}

/// A drive of one's own that gives all it can looks the same.
fn own_end(device: &DeviceSummary, plateau: &Plateau) -> Missing {
    Missing(format!(
        "{} gives {} and no more, but is a drive of this machine, as far as it tells: that may be all it can",
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
    /// Requests or bytes a second.
    rate: f64,
    /// Whether it is bytes.
    bytes: bool,
    /// How much it varies from bin to bin.
    variation: f64,
}

impl Plateau {
    /// The rate in words.
    fn words(&self) -> String {
        if self.bytes {
            format!("{} a second", words::bytes(self.rate))
        } else {
            format!("{} requests a second", words::number(self.rate))
        }
    }
}

/// The timeline in bins of half a second, without those in which the load begins and ends.
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

/// Whether requests wait at the device in earnest.
pub fn is_saturated(device: &DeviceSummary) -> bool {
    let stages = device.directions.0.iter().filter_map(|it| it.intervals[Interval::D2c]);
    let (sum, count) = stages.fold((0, 0), |all, it| (all.0 + it.sum_ns, all.1 + it.requests));
    let mean = sum as f64 / count.max(1) as f64;
    mean >= SLOW_NS && device.in_flight_mean >= DEPTH && device.stalled_ns.is_none()
}

pub(super) fn plateau(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Plateau> {
    if !is_saturated(device) || super::tag_starvation::sets_the_pace(facts, device) {
        return None;
    }
    let timeline = even_bins(&facts.patterns(&device.device)?.timeline);
    if timeline.bins.len() < BINS {
        return None;
    }
    let rates = |of: fn(&Bin) -> u64| -> Vec<f64> {
        timeline.bins.iter().map(|bin| timeline.per_s(of(bin))).collect()
    };
    let requests = rates(|bin| bin.requests);
    let bytes = rates(|bin| bin.bytes);
    let in_bin = shape::mean(&requests) * timeline.bin_ns as f64 / 1e9;
    let even = (EVEN + CHANCE / in_bin).min(EVEN_OF_FEW);
    let flat = |values: &[f64]| shape::variation(values) <= even;
    if flat(&requests) && shape::is_round(shape::mean(&requests), ROUND).is_some() {
        let variation = shape::variation(&requests);
        return Some(Plateau { rate: shape::mean(&requests), bytes: false, variation });
    }
    let megabytes = shape::mean(&bytes) / 1e6;
    let mebibytes = shape::mean(&bytes) / 1_048_576.0;
    let round = shape::is_round(megabytes, ROUND).or(shape::is_round(mebibytes, ROUND)).is_some();
    (flat(&bytes) && round).then(|| Plateau {
        rate: shape::mean(&bytes),
        bytes: true,
        variation: shape::variation(&bytes),
    })
}

fn finding(facts: &Facts<'_>, device: &DeviceSummary, plateau: &Plateau) -> Finding {
    let name = &device.device;
    let sentence = format!(
        "{name} gives {} and no more: a limit behind it, since the rate is flat while {} requests wait",
        plateau.words(),
        words::number(device.in_flight_mean),
    );
    let at_device = facts::stage_sum(device, Interval::D2c);
    let unit = if plateau.bytes { "bytes/s" } else { "1/s" };
    let whole = facts::device_time_ns(device).max(at_device);
    Finding::of_device(facts, at_device, whole, sentence)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        // What the device takes by itself is hidden behind the limit.
        .upper_bound()
        .shown("rate", plateau.rate, unit, format!("iowhy stat -d {name}"))
        .shown("it varies by", plateau.variation * 100.0, "%", format!("iowhy stat -d {name} 1"))
        .shown("requests waiting at the device", device.in_flight_mean, "requests", format!("iowhy -d {name}"))
        .fix("a volume or instance with a higher limit; fewer and larger requests where the limit counts requests; less load")
        .check("with half as many requests at once (threads, queue depth) the rate stays and each takes half as long; if the rate falls too, it is no limit")
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::diagnose;
    use crate::model::environment::Device;
    use crate::script::Script;

    const HALF_A_SECOND: u64 = 500_000_000;

    /// Eight reads at once of 2 ms each, of which a half second has `more` (of one) more than the next.
    fn is_capped(more: f64) -> bool {
        judged(more, Script::new(10))
    }

    fn judged(more: f64, mut script: Script) -> bool {
        let mut at = 0;
        while at < 9_500_000_000_u64 {
            let first = (at / HALF_A_SECOND).is_multiple_of(2);
            let factor = if first { 1.0 + more / 2.0 } else { 1.0 - more / 2.0 };
            script.read("sda", 4096).by(7, "fio").at(at as i64).sector(at).direct(0, 0, 2_000_000).add();
            at += (250_000.0 / factor) as u64;
        }
        let found = diagnose(&script.summary()).findings;
        found.iter().any(|it| it.cause == "provider-cap")
    }

    /// On a drive of that model and transport.
    fn on(model: &str, transport: &str, is_virtual: Option<bool>) -> Script {
        let mut script = Script::new(10);
        script.environment.is_virtual = is_virtual;
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            model: Some(model.to_owned()),
            transport: Some(transport.to_owned()),
            ..Device::default()
        });
        script
    }

    #[test]
    fn a_drive_of_ones_own_has_no_provider() {
        let drive = "SAMSUNG MZ7LH960";
        assert!(!judged(0.0, on(drive, "sata", Some(false))));
        for (model, transport, is_virtual) in [
            (drive, "sata", Some(true)),
            (drive, "sata", None),
            (drive, "fc", Some(false)),
            ("Amazon Elastic Block Store", "pcie", Some(false)),
        ] {
            assert!(judged(0.0, on(model, transport, is_virtual)), "{model} {transport} {is_virtual:?}");
        }
    }

    #[test]
    fn only_what_counts_is_as_even() {
        assert!(is_capped(0.0) && is_capped(0.004));
        // As a device that takes as long for each.
        assert!(!is_capped(0.017));
    }
}
