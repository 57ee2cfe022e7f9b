//! Threads that need memory free it themselves, or wait until somebody has.

use super::*;
use crate::model::{Metric, WaitClass};
use facts::Stacked;

/// What a thread goes through that frees memory itself or waits for it.
const RECLAIM: &[&str] = &[
    "try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "reclaim_throttle",
    "shrink_node*",
    "mem_cgroup_handle_over_high",
    "__mem_cgroup_handle_over_high",
    "try_to_compact_pages",
    "__alloc_pages_direct_compact",
    "wait_iff_congested",
    "congestion_wait",
];
/// The part of it that is for one cgroup.
const OF_CGROUP: &[&str] = &["try_to_free_mem_cgroup_pages", "try_charge*", "charge_memcg"];
/// The soft limit, which makes a task that exceeds it sleep.
const HIGH: &[&str] = &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"];
/// Room for a large page.
const COMPACTION: &[&str] =
    &["try_to_compact_pages", "__alloc_pages_direct_compact", "compact_zone*"];

rule!(
    "memory-reclaim",
    "threads that must free memory before they go on",
    "A thread that needs a page when none is free frees some itself (direct reclaim): it walks the \
     lists of pages, and may wait until others are written or read back. A cgroup at its limit \
     does that although the machine has memory; above memory.high every return to the program is \
     delayed. For a large page the kernel also moves others out of the way (compaction). To the \
     program all of it looks like a slow read, write or page fault.",
    "Reclaim by kswapd only, which runs in the background and blocks nobody.",
    needs: [Waits],
    symptoms: ["page-cache-thrash", "major-faults"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|stack| {
        stack.class == WaitClass::Reclaim || facts::has_function(&stack.functions, RECLAIM)
    });
    let waited = facts.waits_for(WaitClass::Reclaim);
    let time_ns = stacked.time_ns.max(waited.class_ns);
    if time_ns == 0 {
        return Ok(Verdict::Clear);
    }
    let kind = Kind::of(&stacked);
    let subject = match stacked.stacks.is_empty() {
        true => waited.subject(),
        false => stacked.subject(),
    };
    let subject = Subject { device: None, file: None, ..subject };
    let sentence = format!("{} {}", words::who(&subject), kind.does());
    let pid = words::pid(&subject);
    let mut finding = Finding::of_blocked(facts, time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits while memory is freed", time_ns as f64, "ns", "iowhy waits")
        .shown("longest", stacked.longest_ns.max(waited.longest_ns()) as f64, "ns", "iowhy waits");
    if let Some((cgroup, file, bytes)) = limit_of(facts, &finding.subject) {
        let what = format!("{file} of {cgroup}");
        finding = finding.shown(what, bytes as f64, "bytes", format!("cat /proc/{pid}/cgroup"));
    }
    for (what, metric) in SIGNS {
        let grown = facts.summary().samples.system(*metric).map_or(0.0, |it| it.grown());
        if grown > 0.0 {
            let unit = if *metric == Metric::PressureMemorySome { "ns" } else { "bytes" };
            finding = finding.shown(*what, grown, unit, "iowhy cache");
        }
    }
    Ok(finding
        .fix(kind.fix(&pid))
        .check(
            "with more memory the waits end; if they stay while `grep pgscan_direct /proc/vmstat` \
             stalls (on a cgroup: its memory.stat), it was not reclaim",
        )
        .into())
}

/// The limit of the memory of the subject's cgroup, or of the nearest one above that has one.
fn limit_of<'a>(facts: &Facts<'a>, subject: &Subject) -> Option<(&'a str, &'static str, u64)> {
    let container = subject.container.as_deref()?;
    let rows = &facts.summary().containers.rows;
    let row = rows.iter().find(|row| row.subject.container == container)?;
    let cgroups = facts.summary().environment.cgroups.iter();
    let around = cgroups.filter(|it| row.subject.cgroup.starts_with(&it.path));
    let limited = around.filter_map(|it| Some((it.path.as_str(), it.memory_limit()?)));
    let nearest = limited.max_by_key(|(path, _)| path.len())?;
    Some((nearest.0, nearest.1.0, nearest.1.1))
}

/// Counters of the machine that speak for it.
const SIGNS: &[(&str, Metric)] = &[
    ("pages that threads scanned themselves", Metric::ScannedDirect),
    ("file pages read back soon after they were dropped", Metric::RefaultsFile),
    ("time in which a task waited for memory", Metric::PressureMemorySome),
];

/// What runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    High,
    Limit,
    Compaction,
    Machine,
}

impl Kind {
    /// What most of the time is for.
    fn of(stacked: &Stacked<'_>) -> Kind {
        let parts = [
            (Kind::High, stacked.time_in(HIGH)),
            (Kind::Limit, stacked.time_in(OF_CGROUP)),
            (Kind::Compaction, stacked.time_in(COMPACTION)),
        ];
        let most = parts.into_iter().max_by_key(|(_, time)| *time);
        match most {
            Some((kind, time)) if 2 * time > stacked.time_ns => kind,
            _ => Kind::Machine,
        }
    }

    fn does(self) -> &'static str {
        match self {
            Kind::High => "is above memory.high of its cgroup, and sleeps for it",
            Kind::Limit => {
                "is at the memory limit of its cgroup, and frees pages itself before it \
                 gets new ones"
            }
            Kind::Compaction => "waits while the kernel moves pages to make room for a large one",
            Kind::Machine => "waits while memory is freed: the machine has none left",
        }
    }

    fn fix(self, pid: &str) -> String {
        match self {
            Kind::High | Kind::Limit => format!(
                "raise the limit of its cgroup (`cat /proc/{pid}/cgroup`; memory.high and \
                 memory.max, version 1: memory.limit_in_bytes; in Kubernetes the container's \
                 memory limit, which also holds the page cache of its files), or let the program \
                 use less"
            ),
            Kind::Compaction => "huge pages only where they are asked for: \
                 `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`, and `defer+madvise` \
                 into .../defrag; for the kernel's own large buffers more free memory \
                 (vm.min_free_kbytes)"
                .to_owned(),
            Kind::Machine => "free memory: `ps aux --sort=-rss | head`, and what fills a tmpfs \
                 (`df -t tmpfs`); a larger vm.min_free_kbytes or vm.watermark_scale_factor lets \
                 kswapd begin earlier; more memory"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Severity, diagnose};
    use crate::script::Script;

    const S: u64 = 1_000_000_000;

    /// A wait with the stack, beside one second of other waits.
    fn found(frames: &[&str], ns: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "java"), WaitClass::Reclaim, ns, 0, 0);
        script.stacked(frames);
        script.wait((8, "cat"), WaitClass::PageRead, S, S, 0);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "memory-reclaim")
    }

    #[test]
    fn what_runs_out_is_named() {
        let high =
            found(&["schedule_timeout_killable", "mem_cgroup_handle_over_high"], 5 * S).unwrap();
        assert!(high.sentence.contains("memory.high"), "{}", high.sentence);
        assert_eq!((high.severity, high.confidence), (Severity::Critical, Confidence::Certain));
        assert_eq!(high.subject.process.as_deref(), Some("java"));
        let limit =
            ["reclaim_throttle", "shrink_node", "try_to_free_mem_cgroup_pages", "charge_memcg"];
        assert!(found(&limit, 5 * S).unwrap().sentence.contains("memory limit of its cgroup"));
        let compact =
            ["migrate_pages", "compact_zone", "try_to_compact_pages", "__alloc_pages_slowpath"];
        assert!(found(&compact, 5 * S).unwrap().sentence.contains("large one"));
        let machine = ["reclaim_throttle", "shrink_node", "try_to_free_pages"];
        assert!(found(&machine, 5 * S).unwrap().sentence.contains("the machine"));
    }

    #[test]
    fn a_moment_of_reclaim_is_no_news() {
        let stack = ["reclaim_throttle", "shrink_node", "try_to_free_pages"];
        assert_eq!(found(&stack, S / 20).map(|it| it.severity), Some(Severity::Info));
        assert_eq!(found(&stack, S / 200), None);
        let mut script = Script::new(10);
        script.wait((8, "cat"), WaitClass::PageRead, S, S, 0);
        assert!(diagnose(&script.summary()).findings.iter().all(|it| it.cause != "memory-reclaim"));
    }
}
