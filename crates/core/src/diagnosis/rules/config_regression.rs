//! A setting changed while the watch ran.

use super::*;
use crate::analysis::patterns::{Bin, Timeline};
use crate::analysis::summary::{ChangedSetting, DeviceSummary};
use crate::figures::plural;
use facts::shape;

/// Bins are made this long, so that each holds enough requests, nanoseconds.
const BIN_NS: u64 = 500_000_000;
/// Bins before and after the change that must be seen, and of how many next to it each must be slower than
/// each before. Chosen.
const LEAST_BINS: usize = 3;
const NEAREST: usize = 10;
/// Requests that a bin must hold for its mean to say anything.
const LEAST: u64 = 5;
/// How much longer the same takes since. Chosen: no bin after the change may be as fast as one before it,
/// too, which with three of each is one in twenty by chance.
const SLOWER: f64 = 1.3;
/// How much depth, size and rate may differ between the two parts, as for a neighbour; and the share of reads.
const SAME: f64 = 0.35;
const SAME_READS: f64 = 0.1;
/// What is done since, of what was done before, where other numbers of requests wait than before: a load
/// that asks for more gets more, or as much. Chosen, as for a neighbour.
const LESS: f64 = 0.7;
/// Requests in flight before, up to which the device had time for more: whoever asks as often since has
/// not filled it. Chosen.
const IDLE: f64 = 0.8;
/// Settings that decide how large requests are: since they changed, only bytes can be compared.
const OF_SIZES: &[&str] = &["queue/read_ahead_kb", "queue/max_sectors_kb", "queue/nomerges"];

rule!(
    "config-regression",
    "a setting that differs",
    "The same load behaves differently under another scheduler, queue length, read-ahead, mount option or \
     kernel. Within one watch iowhy looks at the settings of devices once a second, and compares the times \
     before and after a change; between two hosts, or before and after an update, iowhy diff A B shows what \
     differs and in which stage the time differs.",
    "Times that changed at another moment than the setting, or with the load.",
    needs: [Settings],
    symptoms: [
        "burst-credits", "device-slow-tail", "noisy-neighbour", "provider-cap", "readahead-waste",
        "scheduler-overhead", "serial-reads", "small-writes", "split-requests", "tag-starvation",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let changed = &facts.summary().changed_settings;
    let found = changed.iter().filter_map(|change| Some((change, slower(facts, change)?)));
    // Of those that were seen at once the first: a scheduler brings its own nr_requests.
    let worst = found.reduce(|a, b| if b.1.share > a.1.share { b } else { a });
    match worst {
        Some((change, slower)) => Ok(regression(facts, change, &slower).into()),
        None => Ok(told(changed)),
    }
}

/// A change that nothing is known to have become slower by.
fn told(changed: &[ChangedSetting]) -> Verdict {
    let Some(first) = changed.iter().find(|it| it.device.is_some()).or(changed.first()) else {
        return Verdict::Clear;
    };
    let of = first.device.as_deref().unwrap_or("the machine");
    let (before, after) = values(first);
    let sentence =
        format!("{} of {of} changed during the watch, from {before} to {after}", first.setting);
    let impact = super::super::finding::LEAST_IMPACT;
    Finding::of_share(ImpactOf::DeviceTime, impact, 0.0, sentence)
        .about(Subject { device: first.device.clone(), ..Subject::default() })
        .sure(Confidence::Certain)
        .at_most(super::super::finding::Severity::Info)
        .shown("settings that changed", changed.len() as f64, "settings", "iowhy diff A B")
        .fix("find what changed it (a tuning daemon, udev, a script), and set it back if the times got worse")
        .check("`iowhy diff BEFORE AFTER` of a recording before and one after: no stage differs if it does not matter")
        .into()
}

/// What a setting was and is; of a list the one that is chosen.
fn values(change: &ChangedSetting) -> (&str, &str) {
    let of = |text| words::chosen(text).unwrap_or(text);
    (of(&change.before), of(&change.after))
}

/// What takes longer since a setting changed.
struct Slower<'a> {
    device: &'a DeviceSummary,
    /// When it changed, about, nanoseconds after the watch began.
    at_ns: u64,
    of_sizes: bool,
    before: Part,
    since: Part,
    /// The share of the device's time that the same would not have taken before.
    share: f64,
}

fn regression(facts: &Facts<'_>, change: &ChangedSetting, slower: &Slower<'_>) -> Finding {
    let Slower { device, before, since, .. } = slower;
    let name = &device.device;
    let (was, setting) = (values(change).0, &change.setting);
    let figure = if slower.of_sizes { "bytes a second" } else { "mean time of a request" };
    let unit = if slower.of_sizes { "bytes" } else { "ns" };
    let whole = facts::device_time_ns(device);
    let extra_ns = slower.share * whole as f64;
    Finding::of_device(facts, extra_ns as u64, whole, sentence(facts, change, slower))
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(Confidence::Likely)
        .shown(format!("{figure} before"), slower.figure(before), unit, format!("iowhy stat -d {name} 1"))
        .shown(format!("{figure} since"), slower.figure(since), unit, format!("iowhy stat -d {name} 1"))
        .shown("requests in flight before", before.depth(), "requests", format!("iowhy stat -d {name} 1"))
        .shown("requests in flight since", since.depth(), "requests", format!("iowhy stat -d {name} 1"))
        .fix(format!("`echo {was} > /sys/block/{name}/{setting}`, and find what changed it (a tuning daemon, udev, a script)"))
        .check(format!("`iowhy stat -d {name} 1` while it is set back: if nothing becomes faster at once, something else changed at the same moment"))
}

fn sentence(facts: &Facts<'_>, change: &ChangedSetting, slower: &Slower<'_>) -> String {
    let name = &slower.device.device;
    let (now, then) = (slower.figure(&slower.since), slower.figure(&slower.before));
    let what = if slower.of_sizes {
        format!("{name} gives {} instead of {} a second", words::bytes(now), words::bytes(then))
    } else {
        format!("requests of {name} take {} instead of {}", words::time(now), words::time(then))
    };
    let at_once = |it: &&ChangedSetting| {
        it.device == change.device && it.between_ns == change.between_ns && it.setting != change.setting
    };
    let others = facts.summary().changed_settings.iter().filter(at_once).count();
    let (was, is) = values(change);
    format!(
        "{what} since {}{} was changed from {was} to {is}, about {} after the watch began",
        change.setting,
        if others > 0 { format!(" (and {} with it)", plural(others as u64, "setting")) } else { String::new() },
        words::time(slower.at_ns as f64),
    )
}

impl Slower<'_> {
    /// What is compared: bytes a second, or a request's mean time.
    fn figure(&self, part: &Part) -> f64 {
        if self.of_sizes { part.bytes_per_s() } else { part.mean_ns() }
    }
}

/// What a device did in some of its bins.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    time_ns: f64,
    requests: f64,
    reads: f64,
    bytes: f64,
    q2c_ns: f64,
}

impl Part {
    fn of(timeline: &Timeline, bins: &[Bin]) -> Part {
        let sum = |of: fn(&Bin) -> u64| bins.iter().map(of).sum::<u64>() as f64;
        Part {
            time_ns: (timeline.bin_ns * bins.len() as u64) as f64,
            requests: sum(|bin| bin.requests),
            reads: sum(|bin| bin.reads),
            bytes: sum(|bin| bin.bytes),
            q2c_ns: sum(|bin| bin.q2c_ns),
        }
    }

    fn bytes_per_s(&self) -> f64 {
        self.bytes * 1e9 / self.time_ns.max(1.0)
    }

    /// Of a request, from queueing to completion.
    fn mean_ns(&self) -> f64 {
        self.q2c_ns / self.requests.max(1.0)
    }

    fn depth(&self) -> f64 {
        self.q2c_ns / self.time_ns.max(1.0)
    }

    /// What is done in it: bytes where sizes may differ, else requests.
    fn work(&self, of_sizes: bool) -> f64 {
        if of_sizes { self.bytes } else { self.requests }
    }

    /// What is done in a nanosecond.
    fn pace(&self, of_sizes: bool) -> f64 {
        self.work(of_sizes) / self.time_ns.max(1.0)
    }

    /// The time of requests for each of what is done.
    fn cost(&self, of_sizes: bool) -> f64 {
        self.q2c_ns / self.work(of_sizes).max(1.0)
    }
}

fn slower<'a>(facts: &Facts<'a>, change: &ChangedSetting) -> Option<Slower<'a>> {
    let (name, (since_ns, by_ns)) = (change.device.as_ref()?, change.between_ns?);
    let device = facts.devices().iter().find(|it| it.device == *name && it.stalled_ns.is_none())?;
    let timeline = &facts.patterns(name)?.timeline;
    let timeline = timeline.coarser((BIN_NS / timeline.bin_ns.max(1)).max(1) as usize);
    let of_sizes = OF_SIZES.contains(&change.setting.as_str());
    let (early, late) = around(&timeline, since_ns, by_ns);
    let (left, right) = (nearest(early.iter().rev()), nearest(late.iter()));
    let costs = |bins: &[Bin]| -> Vec<f64> {
        bins.iter().map(|bin| Part::of(&timeline, &[*bin]).cost(of_sizes)).collect()
    };
    let longest = costs(&left).into_iter().fold(0.0, f64::max);
    let shortest = costs(&right).into_iter().fold(f64::INFINITY, f64::min);
    let (before, since) = (Part::of(&timeline, &left), Part::of(&timeline, &right));
    let is_seen = left.len() >= LEAST_BINS && right.len() >= LEAST_BINS;
    let is_slower = shortest > longest && since.cost(of_sizes) >= SLOWER * before.cost(of_sizes);
    if !(is_seen && is_slower && is_same_load(&before, &since, of_sizes)) {
        return None;
    }
    let share = extra_share(&timeline, early, &before, of_sizes);
    let at_ns = since_ns.midpoint(by_ns);
    Some(Slower { device, at_ns, of_sizes, before, since, share })
}

/// The share of the device's time that what was done after `early` would not have taken at the cost of
/// before: of the requests' time, or of a load's that waits for each of them and therefore sends fewer.
fn extra_share(timeline: &Timeline, early: &[Bin], before: &Part, of_sizes: bool) -> f64 {
    let used = shape::active(timeline);
    let whole = Part::of(timeline, used);
    // The bin in which the load begins is not among the early ones.
    let after = Part::of(timeline, used.get(early.len() + 1..).unwrap_or_default());
    let of_requests = 1.0 - before.cost(of_sizes) * after.work(of_sizes) / after.q2c_ns.max(1.0);
    let of_pace = 1.0 - after.pace(of_sizes) / before.pace(of_sizes).max(f64::MIN_POSITIVE);
    let of_requests = of_requests.max(0.0) * after.q2c_ns / whole.q2c_ns.max(1.0);
    let of_pace = of_pace.max(0.0) * after.time_ns / whole.time_ns.max(1.0);
    of_requests.max(of_pace)
}

/// The bins in which the device was used, those before `since_ns` and those from `by_ns` on.
fn around(timeline: &Timeline, since_ns: u64, by_ns: u64) -> (&[Bin], &[Bin]) {
    let used = shape::active(timeline).len();
    let first = timeline.bins.iter().position(|bin| bin.requests > 0).unwrap_or(0);
    // Those in which the load begins and ends are not full.
    let (first, last) = (first + 1, (first + used).saturating_sub(1));
    let bin = |at_ns: u64| (at_ns / timeline.bin_ns.max(1)) as usize;
    let part = |from: usize, to: usize| timeline.bins.get(from..to).unwrap_or_default();
    let next = bin(by_ns.saturating_sub(1)) + 1;
    (part(first, bin(since_ns).min(last)), part(next.max(first), last))
}

/// The bins nearest to the change, as far as they hold enough.
fn nearest<'b>(bins: impl Iterator<Item = &'b Bin>) -> Vec<Bin> {
    bins.filter(|bin| bin.requests >= LEAST).take(NEAREST).copied().collect()
}

/// Whether as much was asked for before a change as since.
fn is_same_load(before: &Part, since: &Part, of_sizes: bool) -> bool {
    let alike = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b);
    let reads = |part: &Part| part.reads / part.requests.max(1.0);
    let size = |part: &Part| part.bytes / part.requests.max(1.0);
    let (had, has) = (before.pace(of_sizes), since.pace(of_sizes));
    let is_asked_alike = alike(before.depth(), since.depth())
        || has <= LESS * had
        || before.depth() < IDLE && alike(had, has);
    (reads(before) - reads(since)).abs() <= SAME_READS
        && (of_sizes || alike(size(before), size(since)))
        && is_asked_alike
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::environment::{Device, SettingChange};
    use crate::script::{START_NS, Script};

    const MS: u64 = 1_000_000;

    /// A load of so many at once, each of so many bytes and milliseconds.
    #[derive(Clone, Copy)]
    struct Load {
        at_once: u64,
        bytes: u64,
        ms: u64,
    }

    /// What is said of a load that becomes another in the middle of ten seconds, where `setting` was seen to
    /// change within the second that ends at `seen_s`.
    fn found(setting: &str, seen_s: u64, loads: [Load; 2]) -> Finding {
        let mut script = Script::new(10);
        let change = SettingChange {
            setting: setting.to_owned(),
            before: Some("[none] bfq".to_owned()),
            after: Some("none [bfq]".to_owned()),
            since_ns: START_NS + (seen_s - 1) * 1000 * MS,
            by_ns: START_NS + seen_s * 1000 * MS,
        };
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            major: 8,
            settings_changed: vec![change],
            ..Device::default()
        });
        let (mut at, mut sector) = (0, 0);
        while at < 9_900 * MS {
            let Load { at_once, bytes, ms } = loads[usize::from(at >= 5_000 * MS)];
            for _ in 0..at_once {
                let read = script.read("sda", bytes).by(7, "db").at(at as i64).sector(sector);
                read.direct(1000, 1000, ms * MS).add();
                sector = (sector + 7919 * 8) % (1 << 24);
            }
            at += ms * MS;
        }
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "config-regression").unwrap()
    }

    const fn load(at_once: u64, bytes: u64, ms: u64) -> Load {
        Load { at_once, bytes, ms }
    }

    #[test]
    fn what_takes_longer_since_a_change_is_its_doing() {
        let found = found("queue/scheduler", 6, [load(4, 4096, 5), load(4, 4096, 20)]);
        assert!(found.severity > crate::diagnosis::Severity::Info, "{found:#?}");
        assert!((0.25..0.45).contains(&found.impact), "{found:#?}");
        assert!(found.sentence.ends_with("from none to bfq, about 5.50 s after the watch began"), "{found:#?}");
        assert!(found.fix.starts_with("`echo none > /sys/block/sda/queue/scheduler`"), "{found:#?}");
    }

    #[test]
    fn what_was_slow_before_or_became_so_later_is_not() {
        for seen_s in [3, 8] {
            let found = found("queue/scheduler", seen_s, [load(4, 4096, 5), load(4, 4096, 20)]);
            assert_eq!(found.severity, crate::diagnosis::Severity::Info, "{found:#?}");
        }
    }

    #[test]
    fn another_load_is_none() {
        // More at once on a device that gives no more; and larger requests.
        for after in [load(16, 4096, 20), load(4, 65_536, 20)] {
            let found = found("queue/scheduler", 6, [load(4, 4096, 5), after]);
            assert_eq!(found.severity, crate::diagnosis::Severity::Info, "{found:#?}");
        }
    }

    #[test]
    fn smaller_requests_are_compared_by_their_bytes() {
        let found = found("queue/read_ahead_kb", 6, [load(2, 131_072, 5), load(1, 4096, 2)]);
        assert!(found.severity > crate::diagnosis::Severity::Info, "{found:#?}");
        assert!(found.sentence.contains("a second since queue/read_ahead_kb"), "{found:#?}");
    }
}
