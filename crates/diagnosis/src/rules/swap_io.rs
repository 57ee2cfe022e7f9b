//! Memory is swapped to and from disk.

use super::super::finding::LEAST_IMPACT;
use super::*;
use facts::Waited;
use iowhy_model::Metric;

rule!(
    "swap-io",
    "swapping",
    "Memory is short, so the kernel writes anonymous pages to swap and reads them back when they \
     are accessed. A program then waits for the disk on plain memory accesses that have nothing to \
     do with files.",
    "Swap traffic causes no waits: unused pages go out once and are not read back.",
    place: Memory,
    needs: [Waits],
);

/// The least pages read from swap in memory per second for which its CPU time matters: at ten
/// microseconds for the fault, the page and the one that goes out instead, a twentieth of a CPU.
/// Chosen.
const THRASHING: f64 = 5_000.0;
/// Bytes of a page where vm.page-cluster is set for zram.
const PAGE_BYTES: f64 = 4096.0;

/// Returns the reads of swap per second.
fn reads_per_s(device: &DeviceSummary) -> f64 {
    device.directions[Direction::Read].requests_per_s
}

/// Whether pages come from swap in memory, and others go there, so fast that it costs CPU time.
fn is_thrashing(device: &DeviceSummary) -> bool {
    let written = device.directions[Direction::Write].requests_per_s;
    let both = reads_per_s(device).min(2.0 * written);
    device.device.starts_with("zram") && both >= THRASHING
}

/// Swap-in from zram costs CPU time and no disk I/O: there a larger vm.swappiness is intended.
fn fix(device: &str) -> &'static str {
    match device.starts_with("zram") {
        true => {
            "give the program or its cgroup more memory (memory.max and memory.high; version 1: \
             memory.limit_in_bytes), or reduce its memory use; swap on zram is compressed memory: \
             it costs CPU time"
        }
        false => {
            "give the program or its cgroup more memory (memory.max and memory.high; version 1: \
             memory.limit_in_bytes), or reduce its memory use; a smaller vm.swappiness only moves \
             the loss to the page cache"
        }
    }
}

/// The fix where memory is not short.
const BROUGHT_BACK: &str = "find why these pages were swapped out: the limit of their cgroup \
                            (memory.high, memory.max; version 1: memory.limit_in_bytes), a \
                            program that has it emptied (memory.reclaim; version 1: \
                            memory.force_empty), or an earlier shortage; they come back as they \
                            are used";

/// The fix where each page is read by itself from a disk.
const CLUSTER: &str = "`sysctl vm.page-cluster=3` (the default) reads eight pages of swap at once; \
                       0 suits swap in memory (zram) only";

/// Whether the kernel is told to read each page of a disk's swap by itself, and does.
fn reads_single_pages(facts: &Facts<'_>, device: &DeviceSummary) -> bool {
    let settings = &facts.summary().environment.settings_start;
    let is_told = settings.get("vm/page-cluster").is_some_and(|pages| pages.trim() == "0");
    let reads = &device.directions[Direction::Read];
    let mean_bytes = reads.bytes_per_s / reads.requests_per_s.max(1.0);
    is_told && !device.device.starts_with("zram") && mean_bytes < 2.0 * PAGE_BYTES
}

/// Returns the memory that is available where nothing is swapped out or reclaimed meanwhile, bytes;
/// `None` where memory is short, or that is not known.
fn spare_bytes(facts: &Facts<'_>) -> Option<f64> {
    let system = |metric| facts.summary().samples.system(metric);
    let is_idle = |metric| system(metric).is_some_and(|series| series.change == Some(0.0));
    let is_kept = [Metric::SwappedOut, Metric::ScannedBackground, Metric::ScannedDirect]
        .into_iter()
        .all(is_idle);
    let available = system(Metric::MemoryAvailable).and_then(|series| series.min)?;
    (is_kept && !facts.is_memory_short()).then_some(available)
}

/// Settings of a device, or of a partition, that is swap: the kernel fills areas of a higher
/// priority first.
const PRIORITY: &str = "swap/priority";
const USED: &str = "swap/used_kb";
/// The highest priority.
const HIGHEST: i32 = 32_767;

/// Swap that is used only when another one is full.
struct SecondSwap<'a> {
    /// Its device or partition.
    name: &'a str,
    priority: i32,
    /// The device or partition that is used, and its priority.
    first: (&'a str, i32),
    is_empty: bool,
}

impl<'a> SecondSwap<'a> {
    /// Returns the swap that nobody uses while `device` swaps; not one in memory, nor one that
    /// rotates where the other does not, which ought to be the second.
    fn of(facts: &Facts<'a>, device: &DeviceSummary) -> Option<SecondSwap<'a>> {
        let all = &facts.summary().environment.devices;
        let areas = || {
            all.iter().filter_map(|area| {
                let disk = area.partition_of.as_ref().unwrap_or(&area.name);
                let priority: i32 = area.settings_start.get(PRIORITY)?.trim().parse().ok()?;
                Some((area, disk, priority))
            })
        };
        let (own, _, own_priority) = areas().find(|(_, disk, _)| **disk == device.device)?;
        let rotates = |disk: &str| {
            let disk = all.iter().find(|it| it.name == disk);
            disk.and_then(|it| it.settings_start.get("queue/rotational"))
                .is_some_and(|it| it == "1")
        };
        let swaps = |disk: &str| {
            let row = facts.devices().iter().find(|row| row.device == disk);
            row.is_some_and(|row| facts::origin_of(row, Origin::Swap).1 > 0)
        };
        let mut later = areas().filter(|(area, disk, priority)| {
            let is_apt =
                !area.name.starts_with("zram") && (facts.rotates(device) || !rotates(disk));
            *priority < own_priority && own_priority < HIGHEST && is_apt && !swaps(disk)
        });
        let (area, _, priority) = later.next()?;
        let used = area.settings_start.get(USED).and_then(|used| used.trim().parse::<u64>().ok());
        Some(SecondSwap {
            name: &area.name,
            priority,
            first: (&own.name, own_priority),
            is_empty: used == Some(0),
        })
    }

    fn words(&self) -> String {
        let (first, its) = self.first;
        format!(
            "; swap on {} is not used, since its priority is lower ({}; of {first}: {its})",
            self.name, self.priority
        )
    }

    fn fix(&self) -> String {
        let (name, priority) = (self.name, self.first.1.saturating_add(1).max(0));
        let now = match self.is_empty {
            true => {
                format!(
                    "`swapoff /dev/{name} && swapon -p {priority} /dev/{name}`, as it is empty; "
                )
            }
            false => String::new(),
        };
        format!(
            "if {name} is the faster one, give it the higher priority: {now}pri={priority} in \
             /etc/fstab"
        )
    }
}

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let mut swapping =
        facts.devices().iter().map(|device| (device, facts::origin_of(device, Origin::Swap)));
    let found = swapping.find(|(_, (_, requests, _))| *requests > 0);
    let waited = facts.waits_for(WaitClass::Swap);
    let Some((device, (_, requests, bytes))) = found else { return Ok(RuleVerdict::Clear) };
    // Swap in memory takes CPU time of the thread that needs the page, which is no wait.
    let is_thrashing = is_thrashing(device);
    clear_if(waited.time_ns == 0 && !is_thrashing)?;
    let mut subject = match waited.time_ns {
        0 => facts::subject_of(&device.device, facts.top_process(device, |_| true)),
        _ => waited.subject(),
    };
    subject.device = Some(device.device.clone());
    subject.file = None;
    let how = match device.device.starts_with("zram") {
        true => "to be decompressed from",
        false => "to come from swap on",
    };
    // A cgroup at its limit has no use for what the machine has.
    let spare = spare_bytes(facts).filter(|_| facts.memory_holder_within(&subject).is_none());
    let waits = format!("{} waits for pages {how} {}", words::who(&subject), device.device);
    let sentence = match spare {
        Some(bytes) => format!("{waits}, although {} of memory are available", words::bytes(bytes)),
        None => {
            let holder = facts.memory_holder(&subject);
            let who_has_it = holder.map(|holder| holder.words(&subject)).unwrap_or_default();
            format!("memory is short: {waits}{who_has_it}")
        }
    };
    let is_single = reads_single_pages(facts, device);
    let sentence = match is_single {
        true => format!("{sentence}; each page is read by itself (vm.page-cluster is 0)"),
        false => sentence,
    };
    let fix = spare.map_or(fix(&device.device), |_| BROUGHT_BACK);
    let fix = match is_single {
        true => format!("{CLUSTER}; else {fix}"),
        false => fix.to_owned(),
    };
    let (sentence, fix) = match SecondSwap::of(facts, device) {
        None => (sentence, fix),
        Some(second) => (sentence + &second.words(), format!("{}; else {fix}", second.fix())),
    };
    // Memory is short for all programs: each of them loses a little.
    let share = waited.time_ns as f64 / facts.duration_ns().max(1) as f64;
    let finding = weighed(facts, device, &waited, is_thrashing, sentence);
    Ok(finding
        .holding(share.min(1.0))
        .about(subject)
        .sure(Confidence::Certain)
        .at_least(if is_thrashing && spare.is_none() { Severity::Warning } else { Severity::Info })
        .shown(
            "swap requests",
            requests as f64 / facts.seconds(),
            "1/s",
            format!("iowhy -d {}", device.device),
        )
        .shown("swap throughput", bytes as f64 / facts.seconds(), "bytes/s", "iowhy cache")
        .fix(fix)
        .check("`vmstat 1`: if si and so are zero, nothing swaps")
        .into())
}

/// The finding by its blocked time; of swap in memory that is hardly any, by its part of the
/// device's time.
fn weighed(
    facts: &Facts<'_>,
    device: &DeviceSummary,
    waited: &Waited<'_>,
    is_thrashing: bool,
    sentence: String,
) -> Finding {
    let blocked = Finding::of_waits(facts, waited, sentence.clone());
    let finding = match is_thrashing && blocked.impact < LEAST_IMPACT {
        true => {
            let used = facts::origin_of(device, Origin::Swap).0 as f64;
            let share = used / facts::device_time_ns(device).max(1) as f64;
            let busy = device.util_share.unwrap_or(0.0);
            Finding::of_share(ImpactOf::DeviceTime, share, busy, sentence)
        }
        false => blocked,
    };
    match waited.time_ns {
        0 => finding,
        time => finding.shown("blocked time for swap", time as f64, "ns", "iowhy waits"),
    }
}

#[cfg(test)]
mod tests {
    use super::{PRIORITY, USED};
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Metric, Origin, WaitClass};
    use std::collections::BTreeMap;

    fn found(device: &str, class: WaitClass) -> Option<Finding> {
        found_with(device, class, BTreeMap::new())
    }

    fn found_with(
        device: &str,
        class: WaitClass,
        settings: BTreeMap<String, String>,
    ) -> Option<Finding> {
        let mut script = Script::new(10);
        script.environment.settings_start = settings.into();
        for index in 0..500 {
            let read = script.read(device, 4096).by(7, "java").at((index * 20 * MS) as i64);
            read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
        }
        script.wait((7, "java"), class, 5000 * MS, 4000 * MS, 0);
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "swap-io")
    }

    #[test]
    fn pages_that_come_one_by_one_are_read_together() {
        for (device, cluster, is_told) in
            [("sda", "0", true), ("sda", "3", false), ("zram0", "0", false)]
        {
            let cluster = ("vm/page-cluster".to_owned(), cluster.to_owned());
            let found = found_with(device, WaitClass::Swap, [cluster].into()).unwrap();
            assert_eq!(found.fix.contains("vm.page-cluster=3"), is_told, "{device} {found:?}");
            assert_eq!(found.sentence.contains("each page is read by itself"), is_told);
        }
    }

    #[test]
    fn swap_that_waits_behind_one_of_higher_priority_is_named() {
        let found_beside = |other: &str, priority: &str, used: &str| {
            let mut script = Script::new(10);
            for (name, priority, used) in [("sda", "-2", "9000"), (other, priority, used)] {
                let disk = (name != "sda").then(|| "sdb".to_owned());
                let mut device =
                    Device { name: name.to_owned(), partition_of: disk, ..Device::default() };
                let settings = [(PRIORITY, priority), (USED, used)];
                let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
                device.settings_start.extend(settings);
                script.environment.devices.push(device);
            }
            for index in 0..500 {
                let read = script.read("sda", 4096).by(7, "java").at((index * 20 * MS) as i64);
                read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
            }
            script.wait((7, "java"), WaitClass::Swap, 5000 * MS, 4000 * MS, 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "swap-io").unwrap()
        };
        let second = found_beside("sdb2", "-3", "0");
        let said = "swap on sdb2 is not used, since its priority is lower (-3; of sda: -2)";
        assert!(second.sentence.contains(said), "{}", second.sentence);
        let now = "`swapoff /dev/sdb2 && swapon -p 0 /dev/sdb2`";
        assert!(second.fix.contains(now), "{}", second.fix);
        let in_use = found_beside("sdb2", "-3", "120");
        assert!(
            in_use.sentence.contains(said) && !in_use.fix.contains("swapoff"),
            "{}",
            in_use.fix
        );
        for (other, priority) in [("sdb2", "5"), ("zram0", "-3"), ("sdb2", "inf")] {
            let beside = found_beside(other, priority, "0");
            assert!(!beside.sentence.contains("priority"), "{other} {priority}");
        }
    }

    #[test]
    fn swap_in_memory_takes_cpu_time_that_is_no_wait() {
        let judged = |pages: u64, written: u64| {
            let mut script = Script::new(1);
            for index in 0..pages {
                let read = script.read("zram0", 4096).by(7, "java").at((index * 20_000) as i64);
                read.origin(Origin::Swap).sector(index * 8).direct(0, 0, 2_000).add();
            }
            for index in 0..written {
                let write = script.write("zram0", 4096).by(7, "java").at((index * 20_000) as i64);
                write.origin(Origin::Swap).sector(index * 8).direct(0, 0, 3_000).add();
            }
            script.wait((8, "cat"), WaitClass::Device, MS, MS, 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "swap-io")
        };
        let thrashing = judged(5_100, 5_100).unwrap();
        assert!(thrashing.severity == Severity::Warning, "{thrashing:?}");
        assert_eq!(thrashing.subject.process.as_deref(), Some("java"));
        assert_eq!(judged(4_900, 4_900), None);
        assert_eq!(judged(20_000, 100), None, "they come back, and nothing goes out");
    }

    #[test]
    fn swap_on_zram_is_compressed_memory() {
        let disk = found("sda", WaitClass::Swap).unwrap();
        assert!(disk.sentence.ends_with("to come from swap on sda"), "{}", disk.sentence);
        let zram = found("zram0", WaitClass::Swap).unwrap();
        assert!(zram.sentence.ends_with("to be decompressed from zram0"), "{}", zram.sentence);
        assert!(zram.fix.contains("CPU time") && !zram.fix.contains("swappiness"), "{}", zram.fix);
        assert_eq!(found("sda", WaitClass::PageRead), None);
    }

    #[test]
    fn where_memory_is_available_it_is_not_short() {
        let found = |written: f64, available: f64| {
            let mut script = Script::new(10);
            script.environment.memory_bytes = 16 << 30;
            for index in 0..500 {
                let read = script.read("sda", 4096).by(7, "ps").at((index * 20 * MS) as i64);
                read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
            }
            script.wait((7, "ps"), WaitClass::Swap, 5000 * MS, 4000 * MS, 0);
            for (at, grown) in [(0, 0.0), (1000 * MS, written)] {
                script.sample(at, Metric::SwappedOut, "", grown);
                script.sample(at, Metric::ScannedBackground, "", 0.0);
                script.sample(at, Metric::ScannedDirect, "", 0.0);
                script.sample(at, Metric::MemoryAvailable, "", available);
            }
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "swap-io").unwrap()
        };
        let gib = (1_u64 << 30) as f64;
        let spare = found(0.0, 8.0 * gib);
        let said = "from swap on sda, although 8.00 GiB of memory are available";
        assert!(spare.sentence.ends_with(said), "{}", spare.sentence);
        assert!(spare.fix.contains("memory.force_empty"), "{}", spare.fix);
        for short in [found(4096.0, 8.0 * gib), found(0.0, gib)] {
            assert!(short.sentence.starts_with("memory is short"), "{}", short.sentence);
        }
    }
}
