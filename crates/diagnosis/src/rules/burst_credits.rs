//! The device could burst above its limit until its credit was used up.

use super::provider_cap::{even_bins, is_saturated};
use super::*;
use facts::moment::Around;
use facts::shape::{self, RateStep};
use facts::thresholds::SAME_READS;
use iowhy_analysis::summary::patterns::{Bin, Timeline};

/// The largest variation of request sizes and of the rate after the drop. Chosen: as for a cap,
/// with room for the bin of the change. Requests that complete together, as many as are in flight,
/// make a bin's count uneven by themselves: if few complete in a bin, that much is allowed.
const EVEN: f64 = 0.06;
/// The largest variation of the rate before the drop: it may be the burst limit, or whatever load
/// and device reached. Every bin of it lies above every bin after the drop. Chosen.
const EVEN_BEFORE: f64 = 0.35;
/// The rate after the drop is at most this share of the rate before. Chosen.
const DROP: f64 = 0.7;
/// The least number of bins of half a second.
const BINS: usize = 8;
const AS_DEEP: f64 = 0.65;

rule!(
    "burst-credits",
    "exhausted burst credits",
    "Many cloud volumes and instances may exceed their baseline for a while, using a credit that \
     refills under lower load. When the credit is exhausted, the rate drops to the baseline at \
     once and stays there, although the load is the same. A volume created from a snapshot shows \
     the same when blocks are read for the first time. A local SSD does the same when its fast \
     write cache (SLC) is full, or when it throttles because it is too hot.",
    "The load changed at the same moment: other processes, sizes or depth.",
    place: Volume,
    picture: Limit,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let dropped =
        |device: &&DeviceSummary| is_saturated(device) && drop_of(facts, device).is_some();
    let Some(device) = facts.devices().iter().find(dropped) else {
        facts.need_bins(BINS)?;
        return Ok(RuleVerdict::Clear);
    };
    let Some(Fall { step, since_ns, extra }) = drop_of(facts, device) else {
        return Ok(RuleVerdict::Clear);
    };
    let name = &device.device;
    let Some(used_up) = used_up(facts, device) else {
        return Err(RuleVerdict::NotEnough(format!(
            "{name} is slower than before, but is a local drive: it has no burst credit"
        )));
    };
    let limited = health::limit_times(device).map(|limit_time| !limit_time.are_none());
    if limited == Some(false) {
        // It reports that no limit held it back.
        return Ok(RuleVerdict::Clear);
    }
    let sure = if limited == Some(true) { Confidence::Certain } else { used_up.sure };
    let sentence = format!(
        "{name} does {} instead of {} requests per second since {}, same mix, size and depth: {}",
        words::number(step.after),
        words::number(step.before),
        words::time(since_ns),
        used_up.what,
    );
    let whole = facts::device_time_ns(device);
    Ok(Finding::of_device(facts, (extra * whole as f64) as u64, whole, sentence)
        .sure(sure)
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .shown("request rate before", step.before, "1/s", format!("iowhy stat -d {name} 1"))
        .also("request rate since", step.after, "1/s")
        .shown(
            "mean requests in flight",
            device.in_flight_mean,
            "requests",
            format!("iowhy -d {name}"),
        )
        .fix(used_up.fix.replace("/dev/NAME", &format!("/dev/{name}")))
        .check(used_up.check)
        .into())
}

/// An allowance that was exhausted, in the words of an operator of such a device.
struct UsedUp {
    what: &'static str,
    sure: Confidence,
    fix: &'static str,
    check: &'static str,
}

/// A provider's volume that is written.
const VOLUME: UsedUp = UsedUp {
    what: "an exhausted burst credit",
    sure: Confidence::Likely,
    fix: "check the credit (EBS: BurstBalance) before buying: reduce the load until it is back, or \
          use a volume whose base limit is enough (gp3 or provisioned instead of gp2)",
    check: CREDIT,
};

/// A provider's volume that is read.
const VOLUME_READ: UsedUp = UsedUp {
    what: "an exhausted burst credit, or blocks that are read for the first time",
    sure: Confidence::Likely,
    fix: "check the credit (EBS: BurstBalance) before buying: reduce the load until it is back, or \
          use a volume whose base limit is enough (gp3 or provisioned instead of gp2). For a \
          volume restored from a snapshot: read it once (`dd if=/dev/NAME of=/dev/null bs=1M`, \
          which only reads), or use fast snapshot restore",
    check: CREDIT,
};
const CREDIT: &str = "the provider's graph of the credit (EBS: BurstBalance; of the instance: \
                      EBSIOBalance%, EBSByteBalance%): not near zero means something else slowed \
                      it; blocks that were read before and are fast are a first touch, no credit";

/// A local SSD that is written.
const WRITTEN: UsedUp = UsedUp {
    what: "its fast write cache is full, or it is too hot",
    sure: Confidence::Possible,
    fix: "write less at once, use a drive built for sustained writes, or improve its cooling",
    check: HEALTH,
};

/// A local SSD that is read.
const READ: UsedUp = UsedUp {
    what: "it may have become too hot",
    sure: Confidence::Possible,
    fix: "improve its cooling, or reduce the load",
    check: HEALTH,
};
const HEALTH: &str = "its health log (`smartctl -a`, `nvme smart-log`): a temperature warning or \
                      time spent throttled means heat; if there is neither, and nothing is \
                      written, something else slowed it";

/// Returns what the device can have exhausted; `None` for a local rotating disk.
fn used_up(facts: &Facts<'_>, device: &DeviceSummary) -> Option<&'static UsedUp> {
    let requests = |direction| facts::of(device, direction).requests;
    let is_written = requests(Direction::Write) > requests(Direction::Read);
    if !facts.is_own_drive(device) {
        return Some(if is_written { &VOLUME } else { &VOLUME_READ });
    }
    let kind = if is_written { &WRITTEN } else { &READ };
    (facts.number(device, "queue/rotational") == Some(0.0)).then_some(kind)
}

/// A drop to a lower rate.
struct Fall {
    step: RateStep,
    /// The time at which it happened, nanoseconds since the watch began.
    since_ns: f64,
    /// The share of the device's time by which requests take longer since.
    extra: f64,
}

fn drop_of(facts: &Facts<'_>, device: &DeviceSummary) -> Option<Fall> {
    let timeline = even_bins(&facts.patterns(&device.device)?.timeline);
    let rates: Vec<f64> = timeline.bins.iter().map(|bin| timeline.per_s(bin.requests)).collect();
    let sizes: Vec<f64> =
        timeline.bins.iter().map(|bin| bin.bytes as f64 / bin.requests.max(1) as f64).collect();
    if rates.len() < BINS || shape::variation(&sizes) > EVEN {
        return None;
    }
    let step = shape::step(&rates, EVEN_BEFORE)?;
    let (left, right) = shape::around(&rates, step.at);
    let counts: Vec<f64> = timeline.bins.iter().map(|bin| bin.requests as f64).collect();
    let together = device.in_flight_mean / shape::mean(shape::around(&counts, step.at).1).max(1.0);
    let lowest = left.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = right.iter().copied().fold(0.0, f64::max);
    if shape::variation(right) > EVEN.max(together) || highest >= lowest {
        return None;
    }
    let since_ns = (step.at + 1) as f64 * timeline.bin_ns as f64;
    let sums = |bins: &[Bin]| -> (f64, f64) {
        bins.iter()
            .fold((0.0, 0.0), |sum, bin| (sum.0 + bin.q2c_ns as f64, sum.1 + bin.requests as f64))
    };
    let (before, after) = timeline.bins.split_at(step.at);
    let ((before_ns, before_count), (after_ns, after_count)) = (sums(before), sums(after));
    let as_before_ns = before_ns / before_count.max(1.0) * after_count;
    let extra = (after_ns - as_before_ns).max(0.0) / (before_ns + after_ns).max(1.0);
    let dropped = step.after <= DROP * step.before && step.after > 0.0;
    (dropped && is_same_load(facts, device, step.at, &timeline)).then_some(Fall {
        step,
        since_ns,
        extra,
    })
}

/// Whether the same programs submit the same mix at the same depth before and after the bin `at` of
/// `timeline`: another load has another rate.
fn is_same_load(facts: &Facts<'_>, device: &DeviceSummary, at: usize, timeline: &Timeline) -> bool {
    let Some(patterns) = facts.patterns(&device.device) else { return false };
    // The first bins of the device are not in `timeline`.
    let quiet = patterns.timeline.bins.iter().take_while(|bin| bin.requests == 0).count() as u64;
    let at_ns = quiet * patterns.timeline.bin_ns + (at + 1) as u64 * timeline.bin_ns;
    let since = |from_ns: u64| Around::new(patterns, from_ns, at_ns + timeline.bin_ns);
    // Where the drop comes early, the bin next to it is needed too.
    let around = since(at_ns.saturating_sub(timeline.bin_ns)).or_else(|| since(at_ns));
    let Some(around) = around else { return false };
    let (before, since) = (around.before, around.since);
    let same_mix = (before.read_share() - since.read_share()).abs() <= SAME_READS;
    same_mix && since.depth() >= AS_DEEP * before.depth() && !around.is_another_program()
}

#[cfg(test)]
mod tests {
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::Script;

    /// The finding's text for a drive that does 4000 reads or writes per second for five seconds,
    /// then 1000, at a queue depth of eight.
    fn sentence_for(transport: &str, rotational: &str, is_read: bool) -> Option<String> {
        let mut script = Script::new(10);
        script.environment.is_virtual = Some(false);
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            transport: Some(transport.to_owned()),
            settings_start: [("queue/rotational".to_owned(), rotational.to_owned())].into(),
            ..Device::default()
        });
        let mut at = 0;
        while at < 9_900_000_000_u64 {
            let takes = if at < 5_000_000_000 { 250_000 } else { 1_000_000 };
            let one = if is_read { script.read("sda", 4096) } else { script.write("sda", 4096) };
            one.by(7, "db").at(at as i64).sector(at).direct(0, 0, takes * 8).add();
            at += takes;
        }
        let found = diagnose(&script.summary()).findings;
        found.into_iter().find(|it| it.cause == "burst-credits").map(|it| it.sentence)
    }

    #[test]
    fn a_drive_of_ones_own_has_no_credit() {
        let ends = |sentence: Option<String>, end: &str| {
            sentence.is_some_and(|sentence| sentence.ends_with(end))
        };
        assert!(ends(sentence_for("fc", "0", true), "or blocks that are read for the first time"));
        assert!(ends(sentence_for("fc", "0", false), "an exhausted burst credit"));
        assert!(ends(sentence_for("sata", "0", true), "it may have become too hot"));
        assert!(ends(sentence_for("sata", "0", false), "is full, or it is too hot"));
        assert_eq!(sentence_for("sata", "1", false), None);
    }

    /// Whether a cloud volume that drops to a quarter in the middle is reported as out of credit,
    /// by the share of reads, the depth and the program before and after.
    fn is_credit(reads: [u64; 2], depth: [u64; 2], who: [&str; 2]) -> bool {
        let mut script = Script::new(10);
        let (mut at, mut index) = (0, 0);
        while at < 9_900_000_000_u64 {
            let half = usize::from(at >= 5_000_000_000);
            let takes = [250_000, 1_000_000][half];
            let is_read = index % 10 < reads[half];
            let one = if is_read { script.read("sda", 4096) } else { script.write("sda", 4096) };
            let one = one.by(7 + half as u32, who[half]).file("/data/table");
            one.at(at as i64).sector(at).direct(0, 0, takes * depth[half]).add();
            (at, index) = (at + takes, index + 1);
        }
        let found = diagnose(&script.summary()).findings;
        found.iter().any(|it| it.cause == "burst-credits")
    }

    #[test]
    fn another_load_has_another_rate() {
        assert!(is_credit([5, 5], [8, 8], ["db", "db"]));
        // Reads that become writes of a checkpoint; fewer at once; another program.
        assert!(!is_credit([9, 2], [8, 8], ["db", "db"]));
        assert!(!is_credit([5, 5], [8, 2], ["db", "db"]));
        assert!(!is_credit([5, 5], [8, 8], ["db", "dump"]));
    }
}
