//! A cgroup's I/O limit holds requests back before the block layer's clock starts.

use super::*;
use crate::model::WaitClass;

/// Functions that queue a bio which a limit held back.
const DISPATCH: &[&str] = &["blk_throtl_dispatch_work_fn", "throtl_pd_offline"];
/// From which share of the requests' time, queued by the limit's worker, on it is the limit where no
/// wait tells (asynchronous programs). Chosen.
const DISPATCHED: f64 = 0.3;

rule!(
    "cgroup-throttle",
    "a cgroup's I/O limit",
    "A limit on a cgroup (io.max, or blkio.throttle.* of version 1) makes the kernel keep a bio until \
     the cgroup may send more. The bio is not queued yet, so iostat, blktrace and the device see short \
     requests and an idle disk, while the program waits many times longer. A kernel worker \
     (blk_throtl_dispatch_work_fn) queues the bio when its time has come, which is how iowhy knows.",
    "Waits of the same program without the worker in between, or the same waits after the limit was \
     raised.",
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
        return Ok(Verdict::Clear);
    }
    let mut subject = waited.subject();
    let finding = if held_ns > 0 {
        Finding::of_blocked(facts, held_ns, String::new())
    } else {
        let paths = facts.paths(DISPATCH);
        subject.process = paths.first().and_then(|row| row.subject.process.clone());
        subject.device = facts.devices().first().map(|device| device.device.clone());
        Finding::of_share(ImpactOf::DeviceTime, dispatched, 1.0, String::new())
    };
    let who = words::who(&subject);
    let on = words::on(&subject);
    let flags = words::flags(&subject);
    Ok(finding
        .saying(format!("the I/O limit of its cgroup holds {who} back{on}"))
        .about(subject)
        .sure(if held_ns > 0 { Confidence::Certain } else { Confidence::Likely })
        .shown("waits for the limit, before the request was queued", held_ns as f64, "ns", "iowhy waits")
        .shown("requests' time queued by the limit's worker", dispatched * 100.0, "%", format!("iowhy stacks{flags}"))
        .shown("longest wait", waited.longest_ns() as f64, "ns", "iowhy waits")
        .fix("raise or remove the limit (io.max; version 1: blkio.throttle.*), or give the program less to do")
        .check("without the limit the waits end and the device gets busier; if they stay, it was not the limit")
        .into())
}
