//! Writeback throttling holds writers back.

use super::*;
use crate::analysis::Interval;
use crate::model::WaitClass;

/// The share of all the requests' time that is spent before they get a request (Q2G) where kernel
/// workers, whose waits are not programs', are the ones held back. Chosen.
const HELD: f64 = 0.3;
const WAIT: &[&str] = &["wbt_wait", "rq_qos_wait"];

rule!(
    "wbt-throttle",
    "writeback throttling",
    "The block layer watches how long reads take (queue/wbt_lat_usec). When they take longer it lets \
     fewer buffered writes in, down to one at a time. That protects readers, but with a target that \
     the device can never keep, writes crawl although the device could take more.",
    "Writes that wait although wbt is off (wbt_lat_usec 0).",
    needs: [Waits],
    symptoms: ["writeback-burst", "tag-starvation", "noisy-neighbour"],
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::Wbt);
    let off = |setting: Option<&str>| setting == Some("0");
    let held = facts.busiest(|device| {
        let share = facts::stage_sum(device, Interval::Q2g) as f64
            / facts::stage_sum(device, Interval::Q2c).max(1) as f64;
        share >= HELD && !off(facts.setting(device, "queue/wbt_lat_usec"))
    });
    let kernel = facts.path_share(WAIT);
    let finding = match held {
        _ if waited.class_ns > 0 => Finding::of_blocked(facts, waited.class_ns, String::new()),
        Some(device) if kernel > 0.0 => {
            let (q2g, q2c) = (Interval::Q2g, Interval::Q2c);
            let (time, whole) = (facts::stage_sum(device, q2g), facts::stage_sum(device, q2c));
            Finding::of_device(facts, time, whole, String::new())
        }
        _ => return Ok(Verdict::Clear),
    };
    let mut subject = waited.subject();
    subject.device = subject.device.or(held.map(|device| device.device.clone()));
    let device = facts.devices().iter().find(|it| Some(&it.device) == subject.device.as_ref());
    let target = device.and_then(|it| facts.number(it, "queue/wbt_lat_usec")).filter(|it| *it > 0.0);
    let said = target.map_or_else(String::new, |target| format!(": its target for reads is {}", words::time(target * 1e3)));
    let name = subject.device.clone().unwrap_or_else(|| "DEVICE".to_owned());
    let finding = finding
        .saying(format!("writeback throttling on {name} lets few writes in{said}"))
        .about(subject)
        .sure(Confidence::Certain)
        .shown("waits for writeback throttling", waited.class_ns as f64, "ns", "iowhy waits");
    let finding = match target {
        Some(target) => finding.shown("target for reads", target * 1e3, "ns", format!("cat /sys/block/{name}/queue/wbt_lat_usec")),
        None => finding,
    };
    Ok(finding
        .fix(format!("a target that the device can keep: `echo 75000 > /sys/block/{name}/queue/wbt_lat_usec`, or 0 to switch it off, after which reads may wait behind writes; -1 is the default"))
        .check("with 0 the writes are as fast as the device; if not, something else holds them back")
        .into())
}
