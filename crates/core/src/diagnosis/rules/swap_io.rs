//! Memory is swapped to and from disk.

use super::*;
use crate::model::{Origin, WaitClass};

rule!(
    "swap-io",
    "swapping",
    "Memory is short, so the kernel writes anonymous pages to swap and reads them back when they \
     are accessed. A program then waits for the disk on plain memory accesses that have nothing to \
     do with files.",
    "Swap traffic causes no waits: unused pages go out once and are not read back.",
    needs: [Waits],
    symptoms: ["major-faults", "serial-reads", "page-cache-thrash", "readahead-waste"],
);

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
    let (Some((device, (_, requests, bytes))), true) = (found, waited.time_ns > 0) else {
        return Ok(RuleVerdict::Clear);
    };
    let mut subject = waited.subject();
    subject.device = Some(device.device.clone());
    subject.file = None;
    let how = match device.device.starts_with("zram") {
        true => "to be decompressed from",
        false => "to come from swap on",
    };
    let sentence = format!(
        "memory is short: {} waits for pages {how} {}",
        words::who(&subject),
        device.device,
    );
    Ok(Finding::of_blocked(facts, waited.time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("blocked time for swap", waited.time_ns as f64, "ns", "iowhy waits")
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

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::{Origin, WaitClass};
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    fn found(device: &str, class: WaitClass) -> Option<Finding> {
        let mut script = Script::new(10);
        for index in 0..500 {
            let read = script.read(device, 4096).by(7, "java").at((index * 20 * MS) as i64);
            read.origin(Origin::Swap).sector(index * 7919 * 8).direct(500, 500, MS).add();
        }
        script.wait((7, "java"), class, 5000 * MS, 4000 * MS, 0);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "swap-io")
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
