//! Writes are fast until a cache is full, then many times slower, with pauses; reads stay fast.

use super::*;
use iowhy_analysis::summary::patterns::{Bin, Timeline};

/// The least factor by which writes take longer after the cliff. Reports on shingled disks and on
/// flash without free blocks name 10 to 100 times (openzfs#10214, storj#3854).
const SLOWER: f64 = 10.0;
/// The largest factor by which reads may take longer after it and still count as fast. Chosen.
const READS_FINE: f64 = 3.0;
/// The least number of writes before the cliff, and after it, where few complete. Chosen.
const WRITES: u64 = 30;
const WRITES_AFTER: u64 = 3;
/// The largest ratio of bytes per second after to before, for collapsed writes. Chosen.
const LEFT: f64 = 0.5;
/// The least mean number of writes at the device since: a program that stopped writing is not a
/// cliff. Chosen.
const BUSY: f64 = 0.5;
/// The least number of reads on each side to compare them. Chosen.
const READS: u64 = 10;
/// A bin is a pause if writes complete at less than this share of their rate before. Chosen.
const PAUSE: f64 = 0.1;
/// The least share of pauses after the cliff: a limit slows writes evenly, such a device stops and
/// starts. Chosen.
const PAUSED: f64 = 0.2;
/// The least number of bins of half a second on each side: a shorter one is a burst of other
/// writes.
const BINS: usize = 3;

rule!(
    "write-cliff",
    "exhausted fast-write cache of a device",
    "A shingled disk (SMR) takes writes into a cache zone, and a flash drive into free or fast \
     blocks. When these are exhausted, the device must rewrite whole zones or erase blocks before \
     it can take more: writes take ten to a hundred times longer and pause for seconds, while \
     reads are as fast as before. After some idle time it recovers.",
    "Reads are as slow, or writes are slowed evenly: then it is a limit.",
    place: Program,
    needs: [FineTime],
    least: LeastData::for_requests(WRITES + WRITES_AFTER),
    picture: Bytes,
);

fn judge(facts: &Facts<'_>) -> Judged {
    let found = facts.devices().iter().filter_map(|device| {
        let timeline = &facts.patterns(&device.device)?.timeline;
        Some((device, cliff(timeline)?))
    });
    let Some((device, cliff)) = found.max_by_key(|(_, cliff)| cliff.extra_ns) else {
        return Ok(RuleVerdict::Clear);
    };
    let name = &device.device;
    let kind = kind_of(facts, device);
    let waited = facts.waits(|it| it.device.as_deref() == Some(name));
    let sentence = format!(
        "writes to {name} take {} instead of {} since {}, and pause \
             repeatedly: {}",
        words::time(cliff.after_ns),
        words::time(cliff.before_ns),
        words::moment(facts.summary(), cliff.since_ns as u64),
        kind.what,
    );
    let whole = facts::device_time_ns(device);
    let finding = match waited.time_ns {
        0 => Finding::of_device(facts, cliff.extra_ns.min(whole), whole, sentence),
        time => Finding::of_blocked(facts, cliff.extra_ns.min(time), sentence),
    };
    let sure = if kind.is_known && cliff.reads.is_some() {
        Confidence::Likely
    } else {
        Confidence::Possible
    };
    let mut finding = finding
        .about(facts::subject_of(name, facts.top_process(device, |_| true)))
        .sure(sure)
        .shown(
            "mean write latency before",
            cliff.before_ns,
            "ns",
            format!("iowhy stat -d {name} 1"),
        )
        .also("mean write latency since", cliff.after_ns, "ns")
        .also("share of time with hardly a completed write", cliff.paused * 100.0, "%");
    if let Some((before, after)) = cliff.reads {
        finding = finding
            .shown("mean read latency before", before, "ns", format!("iowhy stat -d {name} 1"))
            .also("mean read latency since", after, "ns");
    }
    Ok(finding
        .fix(kind.fix)
        .check(
            "leave it idle for some minutes: if writes are then as fast as at first, and slow \
         again after as many bytes, this confirms it; a provider's limit does not depend on bytes \
         written",
        )
        .into())
}

/// The kind of device, as far as it reports it.
struct DeviceKind {
    what: &'static str,
    fix: &'static str,
    /// Whether it is known to be of that kind.
    is_known: bool,
}

const SHINGLED: DeviceKind = DeviceKind {
    what: "a shingled disk rewrites its zones",
    fix: "write less at once, and sequentially; do not use such a disk for databases, RAID \
          rebuilds or ZFS resilvering: use a disk without shingles (CMR)",
    is_known: true,
};
const ROTATING: DeviceKind = DeviceKind {
    what: "like a shingled disk that rewrites its zones",
    is_known: false,
    ..SHINGLED
};
const FLASH: DeviceKind = DeviceKind {
    what: "its fast or free blocks are exhausted",
    fix: "trim free space (`fstrim -v MOUNTPOINT`, and fstrim.timer; this only reports unused file \
          system space to the drive, but data deleted by mistake is then beyond recovery), keep a \
          tenth of it unused, or use a drive built for sustained writes",
    is_known: false,
};

fn kind_of(facts: &Facts<'_>, device: &DeviceSummary) -> DeviceKind {
    let zoned = facts.setting(device, "queue/zoned").unwrap_or("none");
    match facts.setting(device, "queue/rotational") {
        _ if zoned.trim() == "host-aware" => SHINGLED,
        Some("1") => ROTATING,
        _ => FLASH,
    }
}

/// The point where writes became slow.
struct Cliff {
    since_ns: f64,
    before_ns: f64,
    after_ns: f64,
    /// The share of the time since in which hardly a write completed.
    paused: f64,
    /// The mean read latency before and since, nanoseconds, if there are enough.
    reads: Option<(f64, f64)>,
    extra_ns: u64,
}

/// Sums of one side of the cliff.
#[derive(Clone, Copy, Default)]
struct CliffSide {
    bytes: u64,
    writes: u64,
    write_ns: u64,
    reads: u64,
    read_ns: u64,
}

impl CliffSide {
    fn from_bins(bins: &[Bin]) -> CliffSide {
        bins.iter().fold(CliffSide::default(), |sum, bin| CliffSide {
            bytes: sum.bytes + bin.write_bytes,
            writes: sum.writes + (bin.requests - bin.reads),
            write_ns: sum.write_ns + bin.d2c_ns.saturating_sub(bin.read_d2c_ns),
            reads: sum.reads + bin.reads,
            read_ns: sum.read_ns + bin.read_d2c_ns,
        })
    }

    fn write(&self) -> f64 {
        self.write_ns as f64 / self.writes.max(1) as f64
    }

    fn read(&self) -> f64 {
        self.read_ns as f64 / self.reads.max(1) as f64
    }
}

fn cliff(timeline: &Timeline) -> Option<Cliff> {
    let timeline = timeline.coarser((500_000_000 / timeline.bin_ns.max(1)).max(1) as usize);
    let bins = &timeline.bins;
    let first = bins.iter().position(|bin| bin.requests > bin.reads)?;
    let places = first + BINS..(bins.len() + 1).saturating_sub(BINS);
    let ratio = |at: usize| {
        CliffSide::from_bins(&bins[at..]).write()
            / CliffSide::from_bins(&bins[first..at]).write().max(1.0)
    };
    // The first of equally good split points, since bins without completions make no difference.
    let at = places.rev().max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))?;
    let (before, after) =
        (CliffSide::from_bins(&bins[first..at]), CliffSide::from_bins(&bins[at..]));
    let rate = before.writes as f64 / (at - first) as f64;
    let is_pause = |bin: &&Bin| ((bin.requests - bin.reads) as f64) < PAUSE * rate;
    let paused = bins[at..].iter().filter(is_pause).count() as f64 / (bins.len() - at) as f64;
    let reads =
        (before.reads >= READS && after.reads >= READS).then(|| (before.read(), after.read()));
    let fine = reads.is_none_or(|(before, after)| after <= READS_FINE * before);
    // One pause without a completion is a hang.
    let runs = bins[at..].chunk_by(|a, b| is_pause(&a) == is_pause(&b));
    let pauses = runs.filter(|run| is_pause(&&run[0])).count();
    let crawls = bins[at..].iter().filter(|bin| is_pause(bin) && bin.requests > bin.reads).count();
    let repeats = pauses > 1 || crawls > 1;
    let slow = repeats && after.write() >= SLOWER * before.write();
    // In writeback bursts each write is slow, too, but they move more than before.
    let span = (at - first) as f64 / (bins.len() - at) as f64;
    let moved = |side: &CliffSide, span: f64| side.bytes as f64 / span;
    let collapsed = moved(&after, 1.0) <= LEFT * moved(&before, span);
    let after_ns = (bins.len() - at) as f64 * timeline.bin_ns as f64;
    let busy = after.write_ns as f64 >= BUSY * after_ns;
    let seen = before.writes >= WRITES && after.writes >= WRITES_AFTER && collapsed && busy;
    (seen && slow && fine && paused >= PAUSED).then(|| Cliff {
        since_ns: at as f64 * timeline.bin_ns as f64,
        before_ns: before.write(),
        after_ns: after.write(),
        paused,
        reads,
        extra_ns: after.write_ns.saturating_sub((before.write() * after.writes as f64) as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    /// Writes of 2 ms for four seconds; then, if `stops`, one every two seconds takes that long,
    /// else each takes `slow` evenly. Reads take 4 ms, and `reads` from then on.
    fn found(zoned: &str, slow: u64, stops: bool, reads: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        let settings = [("queue/zoned", zoned), ("queue/rotational", "1")];
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Device::default()
        });
        let mut at = 0;
        while at + slow < 10_000 * MS {
            let is_late = at >= 4000 * MS;
            let d2c = if is_late { slow } else { 2 * MS };
            let write = script.write("sda", 65_536).at(at as i64).sector(at / MS * 128);
            write.by(7, "rsync").direct(0, 0, d2c).add();
            at += if is_late && stops { slow.max(1900 * MS) } else { d2c.max(10 * MS) };
        }
        for index in 0..99_u64 {
            let d2c = if index >= 40 { reads } else { 4 * MS };
            let read = script.read("sda", 4096).at((index * 100 * MS) as i64).sector(index * 7919);
            read.by(8, "cat").direct(0, 0, d2c).add();
        }
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "write-cliff")
    }

    #[test]
    fn a_single_pause_is_no_cliff() {
        let mut script = Script::new(10);
        for index in 0..500_u64 {
            let is_hung = (200..450).contains(&index);
            if is_hung && index != 200 {
                continue;
            }
            let d2c = if is_hung { 5000 * MS } else { MS };
            let write = script.write("sda", 4096).at((index * 20 * MS) as i64).sector(index * 8);
            write.by(7, "app").direct(0, 0, d2c).add();
        }
        let findings = diagnose(&script.summary()).findings;
        assert!(findings.iter().all(|finding| finding.cause != "write-cliff"), "{findings:#?}");
    }

    #[test]
    fn a_shingled_disk_is_likely_and_any_other_possible() {
        let known = found("host-aware", 1800 * MS, true, 5 * MS).unwrap();
        assert_eq!(known.confidence, Confidence::Likely);
        assert!(known.sentence.contains("shingled"), "{}", known.sentence);
        assert_eq!(
            found("none", 1800 * MS, true, 5 * MS).unwrap().confidence,
            Confidence::Possible
        );
    }

    #[test]
    fn limits_of_a_cliff() {
        assert!(found("host-aware", 20 * MS, true, 5 * MS).is_none(), "it hardly writes");
        let bin = |writes: u64, ns: u64, bytes: u64| Bin {
            requests: writes,
            d2c_ns: writes * ns,
            write_bytes: bytes,
            ..Bin::default()
        };
        let side = |after: Bin| {
            let mut bins = vec![bin(50, MS, 1000); 8];
            bins.extend([after, bin(0, 0, 0)].repeat(4));
            cliff(&Timeline { bin_ns: 500 * MS, bins })
        };
        assert!(side(bin(50, 10 * MS, 1000)).is_some());
        assert!(side(bin(50, 10 * MS - 1, 1000)).is_none(), "not ten times slower");
        assert!(side(bin(50, 10 * MS, 1001)).is_none(), "as much is moved");
    }

    #[test]
    fn slow_reads_or_an_even_limit_are_something_else() {
        assert_eq!(found("host-aware", 1800 * MS, true, 40 * MS), None);
        assert_eq!(found("host-aware", 40 * MS, false, 5 * MS), None);
        assert_eq!(found("host-aware", 2 * MS, false, 4 * MS), None);
    }
}
