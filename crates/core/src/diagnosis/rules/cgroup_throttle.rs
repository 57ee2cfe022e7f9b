//! A cgroup's I/O limit delays bios before they become requests.

use super::*;
use crate::analysis::summary::DeviceSummary;
use crate::model::WaitClass;

/// Functions that queue a throttled bio.
const DISPATCH: &[&str] = &["blk_throtl_dispatch_work_fn", "throtl_pd_offline"];
/// Functions in which a thread waits off its cgroup's debt: io.latency of a neighbour, or io.cost
/// (blkcg_schedule_throttle). A limit of io.max never makes a thread wait there.
const OF_DEBT: &[&str] =
    &["blkcg_maybe_throttle_current", "__blkcg_maybe_throttle_*", "blkcg_iolatency_throttle"];
/// The one of them that only io.latency uses.
const OF_LATENCY: &[&str] = &["blkcg_iolatency_throttle"];
/// The least share of the requests' time, queued by the throttle worker, to blame the limit without
/// waits (asynchronous programs). Chosen.
const DISPATCHED: f64 = 0.3;

rule!(
    "cgroup-throttle",
    "cgroup I/O throttling",
    "A limit on a cgroup (io.max, or blkio.throttle.* of version 1) makes the kernel hold bios \
     until the cgroup may submit more. They are not queued yet, so iostat, blktrace and the device \
     show short requests and an idle disk, while the program waits many times longer. A kernel \
     worker (blk_throtl_dispatch_work_fn) queues them later, which identifies the limit. \
     io.latency throttles the neighbours of a cgroup that misses its target, and io.cost a cgroup \
     in debt for swap or metadata: their threads wait in the kernel.",
    "The same program waits without the worker, or waits as long after the limit was raised.",
    symptoms: [
        "lock-behind-io", "journal-commit", "serial-reads", "inode-lock", "provider-cap",
        "fsync-heavy", "bulk-scan", "device-slow-tail", "noisy-neighbour", "burst-credits",
        "readahead-waste",
    ],
);

fn judge(facts: &Facts<'_>) -> Judged {
    let waited = facts.waits_for(WaitClass::CgroupThrottle);
    let dispatched = facts.path_share(DISPATCH);
    let held_ns = waited.class_ns;
    if held_ns == 0 && dispatched < DISPATCHED {
        if facts.need_waits().is_err() {
            facts.need_stacks()?;
        }
        return Ok(RuleVerdict::Clear);
    }
    let mut subject = waited.subject();
    let finding = if held_ns > 0 {
        Finding::of_blocked(facts, held_ns, String::new())
    } else {
        // The worker's name does not say which process is throttled.
        let held = |it: &&DeviceSummary| !facts.paths_on(&it.device, DISPATCH).is_empty();
        subject.device = facts.devices().iter().find(held).map(|it| it.device.clone());
        Finding::of_share(ImpactOf::DeviceTime, dispatched, 1.0, String::new())
    };
    let by = Throttle::of(facts);
    let (who, on, pid) = (words::who(&subject), words::on(&subject), words::pid(&subject));
    let mut finding = finding
        .saying(match by {
            Throttle::Limit => format!("the I/O limit of its cgroup throttles {who}{on}"),
            Throttle::Latency => format!(
                "io.latency throttles {who}{on}: a neighbour of its cgroup misses its target"
            ),
            Throttle::Debt => format!(
                "{who}{on} is throttled for its cgroup's debt: io.latency of a neighbour, or \
                 io.cost"
            ),
        })
        .about(subject)
        .sure(if held_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .fix(by.fix(&pid))
        .check(format!(
            "without the limit the waits end and the device gets busier; if they stay, the limit \
             is not the cause{}",
            words::tried("limits=none"),
        ));
    // Either sign may be missing: programs that do not wait themselves, or no stack of the worker.
    if held_ns > 0 {
        finding = finding
            .shown("throttled before the request was queued", held_ns as f64, "ns", "iowhy waits")
            .shown("longest wait", waited.longest_ns() as f64, "ns", "iowhy waits");
    }
    if dispatched > 0.0 {
        finding = finding.shown(
            "share of request time queued by the throttle worker",
            dispatched * 100.0,
            "%",
            "iowhy stacks",
        );
    }
    Ok(finding.into())
}

/// What throttles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Throttle {
    /// io.max, or version 1's blkio.throttle.
    Limit,
    /// io.latency.
    Latency,
    /// io.latency or io.cost: the kernel makes a thread wait for both in the same function.
    Debt,
}

impl Throttle {
    fn of(facts: &Facts<'_>) -> Throttle {
        let of_class = |functions: &[&str]| {
            let fits = |functions: &[&str], stack: &[String]| facts::has_function(stack, functions);
            let known = facts.waits_with(|it| {
                it.class == WaitClass::CgroupThrottle && fits(functions, &it.functions)
            });
            known.0
        };
        let (debt, latency) = (of_class(OF_DEBT), of_class(OF_LATENCY));
        let all = facts.waits_for(WaitClass::CgroupThrottle).time_ns;
        if debt == 0 || debt * 2 < all {
            Throttle::Limit
        } else if latency * 2 >= debt {
            Throttle::Latency
        } else {
            Throttle::Debt
        }
    }

    fn fix(self, pid: &str) -> String {
        match self {
            Throttle::Limit => format!(
                "raise or remove the limit of its cgroup (`cat /proc/{pid}/cgroup`) or of one \
                 above it: `echo \"MAJ:MIN rbps=max wbps=max riops=max wiops=max\" > io.max` \
                 (version 1: blkio.throttle.*). systemd (IOReadIOPSMax= and the like) or the \
                 container's settings may set it again"
            ),
            Throttle::Latency | Throttle::Debt => format!(
                "raise the target in io.latency of the neighbours of its cgroup (`cat \
                 /proc/{pid}/cgroup`), or remove it; if `cat /sys/fs/cgroup/io.cost.qos` shows \
                 enable=1, raise io.weight of its cgroup, or set a model that fits the device \
                 (io.cost.model)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::{Stack, WaitClass};
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    fn found(script: &Script) -> Finding {
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|it| it.cause == "cgroup-throttle").unwrap()
    }

    /// The evidence labels.
    fn rows(found: &Finding) -> Vec<&str> {
        assert!(found.evidence.iter().all(|row| row.figure > 0.0), "{found:?}");
        found.evidence.iter().map(|row| row.what.as_str()).collect()
    }

    #[test]
    fn what_was_not_seen_has_no_row() {
        let mut waits = Script::new(10);
        waits.wait((7, "cat"), WaitClass::CgroupThrottle, 5000 * MS, 0, 0);
        let rows_of_waits = ["throttled before the request was queued", "longest wait"];
        assert_eq!(rows(&found(&waits)), rows_of_waits);
        let mut worker = Script::new(10);
        let read = worker.read("sda", 4096).by(9, "kworker/0:1").direct(1000, 1000, 5000 * MS);
        read.stacks(&["blk_throtl_dispatch_work_fn", "process_one_work"], &[], 1).add();
        let found = found(&worker);
        assert_eq!(rows(&found), ["share of request time queued by the throttle worker"]);
        // The throttled process is not the worker.
        assert_eq!(found.sentence, "the I/O limit of its cgroup throttles a process on sda");
    }

    #[test]
    fn what_is_owed_is_no_limit_of_io_max() {
        let text = |function: Option<&str>| {
            let mut script = Script::new(10);
            script.wait((7, "cat"), WaitClass::CgroupThrottle, 5000 * MS, 0, 0);
            if let Some(function) = function {
                let frames = vec![script.names.intern(function)];
                let stack = Stack {
                    stack_id: 1,
                    user: false,
                    frames,
                    complete: true,
                    reason: None,
                    unwound_by: None,
                };
                script.batch.stacks.push(stack);
                script.batch.waits[0].stack_id = Some(1);
            }
            found(&script)
        };
        assert!(text(None).fix.contains("io.max"));
        assert!(text(Some("blk_throtl_bio")).sentence.starts_with("the I/O limit of its cgroup"));
        let debt = text(Some("__blkcg_maybe_throttle_blkg"));
        assert!(debt.sentence.contains("io.latency of a neighbour, or io.cost"), "{debt:?}");
        assert!(!debt.fix.contains("io.max") && debt.fix.contains("io.cost.qos"));
        let latency = text(Some("blkcg_iolatency_throttle"));
        assert!(latency.sentence.starts_with("io.latency throttles cat (7)"), "{latency:?}");
    }
}
