//! Memory is swapped to and from disk.

use super::super::finding::LEAST_IMPACT;
use super::*;
use facts::Waited;

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

/// The least pages read from swap in memory per second for which its CPU time matters: at some
/// microseconds to decompress each, a twentieth of a CPU. Chosen.
const THRASHING: f64 = 10_000.0;

/// Returns the reads of swap per second.
fn reads_per_s(device: &DeviceSummary) -> f64 {
    device.directions[Direction::Read].requests_per_s
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

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let mut swapping =
        facts.devices().iter().map(|device| (device, facts::origin_of(device, Origin::Swap)));
    let found = swapping.find(|(_, (_, requests, _))| *requests > 0);
    let waited = facts.waits_for(WaitClass::Swap);
    let Some((device, (_, requests, bytes))) = found else { return Ok(RuleVerdict::Clear) };
    // Swap in memory takes CPU time of the thread that needs the page, which is no wait.
    let is_thrashing = device.device.starts_with("zram") && reads_per_s(device) >= THRASHING;
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
    let holder = facts.memory_holder(&subject);
    let who_has_it = holder.map(|holder| holder.words(&subject)).unwrap_or_default();
    let sentence = format!(
        "memory is short: {} waits for pages {how} {}{who_has_it}",
        words::who(&subject),
        device.device,
    );
    // Memory is short for all programs: each of them loses a little.
    let share = waited.time_ns as f64 / facts.duration_ns().max(1) as f64;
    let finding = weighed(facts, device, &waited, is_thrashing, sentence);
    Ok(finding
        .holding(share.min(1.0))
        .about(subject)
        .sure(Confidence::Certain)
        .at_least(if is_thrashing { Severity::Warning } else { Severity::Info })
        .shown(
            "swap requests",
            requests as f64 / facts.seconds(),
            "1/s",
            format!("iowhy -d {}", device.device),
        )
        .shown("swap throughput", bytes as f64 / facts.seconds(), "bytes/s", "iowhy cache")
        .fix(fix(&device.device))
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
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Origin, WaitClass};

    fn found(device: &str, class: WaitClass) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500 {
            let read = script.read(device, 4096).by(7, "java").at((index * 20 * MS) as i64);
            read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
        }
        script.wait((7, "java"), class, 5000 * MS, 4000 * MS, 0);
        diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == "swap-io")
    }

    #[test]
    fn swap_in_memory_takes_cpu_time_that_is_no_wait() {
        let judged = |pages: u64| {
            let mut script = Script::new(1);
            for index in 0..pages {
                let read = script.read("zram0", 4096).by(7, "java").at((index * 20_000) as i64);
                read.origin(Origin::Swap).sector(index * 8).direct(0, 0, 2_000).add();
            }
            script.wait((8, "cat"), WaitClass::Device, MS, MS, 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "swap-io")
        };
        let thrashing = judged(20_000).unwrap();
        assert!(thrashing.severity == Severity::Warning, "{thrashing:?}");
        assert_eq!(thrashing.subject.process.as_deref(), Some("java"));
        assert_eq!(judged(2_000), None);
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
}
