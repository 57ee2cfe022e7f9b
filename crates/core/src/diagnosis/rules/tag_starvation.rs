//! Too few requests may be under way at once.

use super::*;
use crate::analysis::Interval;
use crate::model::WaitClass;

/// Up to so many a queue is short for any device that works on more than one request at a time: SATA
/// has 32, NVMe hundreds.
const SHORT: f64 = 32.0;
/// The share of the requests' time before they get one, or of the threads' that wait for one: a thread that
/// sends many sleeps for each tag in turn, so that each of its requests waits for a moment only. Chosen.
const SHARE: f64 = 0.2;
const WAIT: &[&str] = &["blk_mq_get_tag"];

rule!(
    "tag-starvation",
    "too few requests at once",
    "Every request needs a tag, of which a queue has a fixed number (queue/nr_requests, and the \
     device's own depth). When all are taken, the next thread sleeps until one comes back. With few \
     tags a fast device is never given enough to do, and threads wait for tags instead of the device.",
    "A long queue that is full: then the device is what is slow.",
    needs: [Queueing, Settings],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_queueing()?;
    let waited = facts.waits_for(WaitClass::Tag);
    let of_threads = waited.class_ns as f64 / facts.blocked_ns().max(1) as f64;
    let device = facts.busiest(|device| {
        let short = facts.number(device, "queue/nr_requests").is_some_and(|it| it <= SHORT);
        let whole = facts::stage_sum(device, Interval::Q2c).max(1) as f64;
        let of_requests = facts::stage_sum(device, Interval::Q2g) as f64 / whole;
        short && of_requests > 0.0 && of_requests.max(of_threads) >= SHARE
    });
    let Some(device) = device else { return Ok(Verdict::Clear) };
    let tags = facts.number(device, "queue/nr_requests").unwrap_or(0.0);
    let name = &device.device;
    let (held, whole) =
        (facts::stage_sum(device, Interval::Q2g), facts::stage_sum(device, Interval::Q2c));
    let sentence = format!(
        "{name} may have only {tags:.0} requests under way: others wait for one to come back, {} of their time",
        words::percent(held as f64 / whole.max(1) as f64),
    );
    let seen = waited.class_ns > 0 || facts.path_share(WAIT) > 0.0;
    let top = facts.top_process(device, |_| true);
    let finding = if of_threads > held as f64 / whole.max(1) as f64 {
        Finding::of_blocked(facts, waited.class_ns, sentence)
    } else {
        Finding::of_device(facts, held, whole, sentence)
    };
    Ok(finding
        .about(facts::subject_of(name, top))
        // With more tags threads wait for the device, if less.
        .upper_bound()
        .sure(if seen { Confidence::Certain } else { Confidence::Likely })
        .shown("time before a request was got (Q2G)", held as f64 / whole.max(1) as f64 * 100.0, "%", format!("iowhy stages -d {name}"))
        .shown("nr_requests", tags, "requests", format!("cat /sys/block/{name}/queue/nr_requests"))
        .shown("threads' waits for a tag", waited.class_ns as f64, "ns", "iowhy waits")
        .fix(format!("echo 256 > /sys/block/{name}/queue/nr_requests; for SCSI also device/queue_depth, for virtio the host's queue size"))
        .check("with more tags Q2G falls; if D2C rises by as much, the device was the limit after all")
        .into())
}
