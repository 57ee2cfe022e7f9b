//! Threads that need memory reclaim it themselves, or wait for it.

use super::*;
use facts::WaitsByStack;
use facts::thresholds::WARNING_SHARE;
use iowhy_analysis::summary::patterns::WaitStack;
use iowhy_model::Metric;

/// Functions of a thread that reclaims memory itself or waits for it.
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
/// Functions that reclaim for one cgroup.
const OF_CGROUP: &[&str] = &["try_to_free_mem_cgroup_pages", "try_charge*", "charge_memcg"];
/// Functions of the soft limit, which makes a task above it sleep.
const HIGH: &[&str] = &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"];
/// Functions of a thread that writes to a file of a disk through the page cache, if it is in none
/// of those of a tmpfs.
const FILE_WRITES: &[&str] =
    &["generic_perform_write", "iomap_file_buffered_write*", "btrfs_buffered_write*"];
const TMPFS: &[&str] = &["shmem_*"];
/// Functions that make space for a large page.
const COMPACTION: &[&str] =
    &["try_to_compact_pages", "__alloc_pages_direct_compact", "compact_zone*"];

rule!(
    "memory-reclaim",
    "direct memory reclaim",
    "A thread that needs a page when none is free reclaims some itself (direct reclaim): it scans \
     the page lists, and may wait until pages are written or read back. A cgroup at its limit does \
     that although the machine has free memory; above memory.high every return to user space is \
     delayed. For a large page the kernel also migrates others (compaction). To the program this \
     looks like a slow read, write or page fault.",
    "Only kswapd reclaims, which runs in the background and blocks no one.",
    place: Memory,
    needs: [Waits],
    trial: "memory=none",
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let stacked = facts.stacked_where(|stack| {
        stack.class == WaitClass::Reclaim || facts::has_function(&stack.functions, RECLAIM)
    });
    let waited = facts.waits_for(WaitClass::Reclaim);
    let time_ns = stacked.time_ns.max(waited.class_ns);
    clear_if(time_ns == 0)?;
    let kind = Exhausted::from_stacks(&stacked);
    let subject = match stacked.stacks.is_empty() {
        true => waited.subject(),
        false => stacked.subject(),
    };
    let subject = Subject { device: None, file: None, ..subject };
    let filler = match kind {
        Exhausted::Limit => Filler::of(facts, &stacked),
        _ => None,
    };
    let subject = filler.as_ref().map_or(subject, |filler| filler.victim.clone());
    let holder = match kind {
        _ if filler.is_some() => None,
        Exhausted::High | Exhausted::Limit => facts.memory_holder_within(&subject),
        Exhausted::Machine => facts.memory_holder(&subject),
        Exhausted::Compaction => None,
    };
    let who_has_it = holder.map(|holder| holder.words(&subject)).unwrap_or_default();
    let fills = filler.as_ref().map(Filler::words).unwrap_or_default();
    let sentence = format!("{} {}{who_has_it}{fills}", words::who(&subject), kind.does());
    let pid = words::pid(&subject);
    let fix = filler.as_ref().map(Filler::fix).unwrap_or_default() + &kind.fix(&pid);
    let mut finding = Finding::of_blocked(facts, time_ns, sentence)
        .about(subject)
        .sure(Confidence::Certain)
        .shown("blocked time in reclaim", time_ns as f64, "ns", "iowhy waits")
        .also("longest wait", stacked.longest_ns.max(waited.longest_ns()) as f64, "ns");
    if let Some(filler) = &filler {
        let of_others = facts
            .waits(|group| group.class == WaitClass::Reclaim && group.process != filler.process);
        finding = finding.claiming(Claims::of_class(&of_others)).causing(Claims::of_class(&waited));
    }
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
        .fix(fix)
        .check(
            "with more memory the waits end; if they stay while `grep pgscan_direct /proc/vmstat` \
             does not grow (for a cgroup: its memory.stat), reclaim is not the cause",
        )
        .into())
}

/// A process that reclaims the pages of files that it writes, and another one that needs memory.
struct Filler {
    process: String,
    pid: u32,
    victim: Subject,
}

impl Filler {
    fn of(facts: &Facts<'_>, stacked: &WaitsByStack<'_>) -> Option<Filler> {
        let of_limit = |stack: &&&WaitStack| facts::has_function(&stack.functions, OF_CGROUP);
        let stacks: Vec<&WaitStack> = stacked.stacks.iter().filter(of_limit).copied().collect();
        let writes = |stack: &WaitStack| {
            facts::has_function(&stack.functions, FILE_WRITES)
                && !facts::has_function(&stack.functions, TMPFS)
        };
        let time_of = |process: &Option<String>| {
            let own = stacks.iter().filter(|stack| stack.process == *process);
            own.map(|stack| stack.time_ns).fold(0, u64::saturating_add)
        };
        let filler = stacks.iter().copied().find(|stack| writes(stack))?;
        let (process, pid) = (filler.process.clone()?, filler.pid?);
        // What writes files itself is no victim.
        let is_victim = |stack: &&WaitStack| {
            let mut own = stacks.iter().filter(|other| other.process == stack.process);
            stack.process.is_some()
                && own.all(|own| !writes(own))
                && is_same_cgroup(facts, filler, stack)
        };
        let victim = stacks.iter().copied().find(is_victim)?;
        let (held_ns, filling_ns) = (time_of(&victim.process), time_of(&filler.process));
        let is_held = held_ns as f64 >= WARNING_SHARE * facts.duration_ns() as f64;
        let victim = Subject {
            process: victim.process.clone(),
            pid: victim.pid,
            container: victim.container.clone(),
            ..Subject::default()
        };
        (is_held && filling_ns * 2 >= held_ns).then_some(Filler { process, pid, victim })
    }

    fn words(&self) -> String {
        let who = words::process(&self.process, Some(self.pid), None);
        format!("; {who} writes files meanwhile, whose pages the disk has to take first")
    }

    fn fix(&self) -> String {
        format!("run {} in a cgroup of its own, or let it write less at once; else ", self.process)
    }
}

/// Whether two threads are at the limit of one cgroup, as far as it is known.
fn is_same_cgroup(facts: &Facts<'_>, one: &WaitStack, other: &WaitStack) -> bool {
    let group = |stack: &WaitStack| facts.memory_group(stack.pid?, stack.process.as_deref()?);
    match group(one).zip(group(other)) {
        Some((one, other)) => one == other,
        None => one.container == other.container,
    }
}

/// Returns the memory limit of the subject's cgroup, or of the nearest ancestor that has one.
fn limit_of<'a>(facts: &Facts<'a>, subject: &Subject) -> Option<(&'a str, &'static str, u64)> {
    let container = subject.container.as_deref()?;
    let rows = &facts.summary().containers.rows;
    let row = rows.iter().find(|row| row.subject.container == container)?;
    let cgroups = facts.summary().environment.cgroups.iter();
    let around = cgroups.filter(|cgroup| row.subject.cgroup.starts_with(&cgroup.path));
    let limited = around.filter_map(|around| Some((around.path.as_str(), around.memory_limit()?)));
    let nearest = limited.max_by_key(|(path, _)| path.len())?;
    Some((nearest.0, nearest.1.0, nearest.1.1))
}

/// System-wide counters that support the finding.
const SIGNS: &[(&str, Metric)] = &[
    ("memory scanned by direct reclaim", Metric::ScannedDirect),
    ("file pages refaulted soon after eviction", Metric::RefaultsFile),
    ("time under memory pressure (PSI some)", Metric::PressureMemorySome),
];

/// The limit or resource that is exhausted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exhausted {
    High,
    Limit,
    Compaction,
    Machine,
}

impl Exhausted {
    /// Returns what most of the time is spent on.
    fn from_stacks(stacked: &WaitsByStack<'_>) -> Exhausted {
        let parts = [
            (Exhausted::High, stacked.time_in(HIGH)),
            (Exhausted::Limit, stacked.time_in(OF_CGROUP)),
            (Exhausted::Compaction, stacked.time_in(COMPACTION)),
        ];
        let most = parts.into_iter().max_by_key(|(_, time)| *time);
        match most {
            Some((kind, time)) if 2 * time > stacked.time_ns => kind,
            _ => Exhausted::Machine,
        }
    }

    fn does(self) -> &'static str {
        match self {
            Exhausted::High => "exceeds memory.high of its cgroup, and is throttled",
            Exhausted::Limit => {
                "is at the memory limit of its cgroup, and reclaims pages before it gets new ones"
            }
            Exhausted::Compaction => "waits while the kernel compacts memory for a large page",
            Exhausted::Machine => "waits for memory reclaim: the machine has no free memory",
        }
    }

    fn fix(self, pid: &str) -> String {
        match self {
            Exhausted::High | Exhausted::Limit => format!(
                "raise the limit of its cgroup (`cat /proc/{pid}/cgroup`; memory.high and \
                 memory.max, version 1: memory.limit_in_bytes; in Kubernetes the container's \
                 memory limit, which also holds the page cache of its files), or reduce the \
                 program's memory use"
            ),
            Exhausted::Compaction => "use huge pages only on request: `echo madvise > \
                 /sys/kernel/mm/transparent_hugepage/enabled`, and `defer+madvise` into \
                 .../defrag; for the kernel's own large buffers keep more memory free \
                 (vm.min_free_kbytes)"
                .to_owned(),
            Exhausted::Machine => {
                "free memory: `ps aux --sort=-rss | head`, and what fills a tmpfs \
                 (`df -t tmpfs`); raise vm.min_free_kbytes or vm.watermark_scale_factor so that \
                 kswapd starts earlier; add memory"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::script::{S, Script};

    /// A wait with the stack, and one second of other waits.
    fn found(frames: &[&str], ns: u64) -> Option<Finding> {
        let mut script = Script::new(10);
        script.wait((7, "java"), WaitClass::Reclaim, ns, 0, 0);
        script.stacked(frames);
        script.wait((8, "cat"), WaitClass::PageRead, S, S, 0);
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "memory-reclaim")
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
        assert!(found(&compact, 5 * S).unwrap().sentence.contains("large page"));
        let machine = ["reclaim_throttle", "shrink_node", "try_to_free_pages"];
        assert!(found(&machine, 5 * S).unwrap().sentence.contains("the machine"));
    }

    /// tar, which writes by this function, at its limit beside a program that waits so long.
    fn beside_tar(write: &str, other: &str, ns: u64) -> Finding {
        let mut script = Script::new(10);
        let limit = ["shrink_node", "try_to_free_mem_cgroup_pages", "charge_memcg"];
        script.wait((7, "tar"), WaitClass::Reclaim, 6 * S, 0, 0);
        script.stacked(&[&limit[..], &[write, "generic_perform_write"]].concat());
        script.wait((8, other), WaitClass::Reclaim, ns, 0, 0);
        script.stacked(&[&limit[..], &["do_anonymous_page", "handle_mm_fault"]].concat());
        let mut found = diagnose(&script.summary()).findings.into_iter();
        found.find(|finding| finding.cause == "memory-reclaim").unwrap()
    }

    #[test]
    fn who_fills_a_cgroup_by_writing_is_not_its_victim() {
        let found = beside_tar("ext4_da_write_begin", "app", 5 * S);
        assert_eq!(found.subject.process.as_deref(), Some("app"));
        assert!(found.sentence.contains("; tar (7) writes files"), "{}", found.sentence);
        assert!(found.fix.starts_with("run tar in a cgroup of its own"), "{}", found.fix);
        assert!(found.bottlenecks.contains(&"memory-wait"), "{found:?}");
        assert_eq!(found.gain.as_ref().and_then(|it| it.process.as_deref()), Some("app"));
        for (other, why) in [
            (beside_tar("shmem_write_begin", "app", 5 * S), "a tmpfs"),
            (
                beside_tar("ext4_da_write_begin", "tar", 5 * S),
                "another process of the same program",
            ),
            (beside_tar("ext4_da_write_begin", "app", S / 2), "hardly held up"),
        ] {
            assert!(!other.sentence.contains("writes files meanwhile"), "{why}: {other:?}");
        }
    }

    #[test]
    fn a_moment_of_reclaim_is_no_news() {
        let stack = ["reclaim_throttle", "shrink_node", "try_to_free_pages"];
        assert_eq!(found(&stack, S / 20).map(|it| it.severity), Some(Severity::Info));
        assert_eq!(found(&stack, S / 200), None);
        let mut script = Script::new(10);
        script.wait((8, "cat"), WaitClass::PageRead, S, S, 0);
        assert!(
            diagnose(&script.summary())
                .findings
                .iter()
                .all(|finding| finding.cause != "memory-reclaim")
        );
    }
}
