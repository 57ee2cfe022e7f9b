//! Writeback throttling holds writers back.

use super::*;
use crate::analysis::Interval;
use crate::analysis::summary::DeviceSummary;
use crate::model::WaitClass;
use facts::Waited;

/// The share of all the requests' time that is spent before they get a request (Q2G) where kernel
/// workers, whose waits are not programs', are the ones throttled. Chosen.
const HELD: f64 = 0.3;
/// The kernel's own targets for reads: blk-wbt.c, wbt_default_latency_nsec().
const OF_DISKS_US: u32 = 75_000;
const OF_FLASH_US: u32 = 2_000;

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
    if waited.class_ns > 0 {
        let of_programs = Finding::of_blocked(facts, waited.class_ns, String::new());
        return Ok(finding(facts, &waited, waited.subject(), of_programs).into());
    }
    Ok(of_kernel(facts).map_or(Verdict::Clear, Verdict::from))
}

/// Flushers that are throttled: nobody waits for them at once, but what they write stands still.
fn of_kernel(facts: &Facts<'_>) -> Option<Finding> {
    let waited = facts.kernel_waits(|group| group.class == WaitClass::Wbt);
    let on = waited.subject().device;
    let device = facts.busiest(|it| on.as_ref().is_none_or(|on| *on == it.device) && is_held(it))?;
    if waited.class_ns == 0 {
        return None;
    }
    let (q2g, q2c) = (Interval::Q2g, Interval::Q2c);
    let (time, whole) = (facts::stage_sum(device, q2g), facts::stage_sum(device, q2c));
    let found = Finding::of_device(facts, time, whole, String::new());
    // The flusher writes for whoever made the pages dirty.
    let subject = facts::subject_of(&device.device, facts.top_process(device, |_| true));
    Some(finding(facts, &waited, subject, found))
}

fn is_held(device: &DeviceSummary) -> bool {
    let sum = |at| facts::stage_sum(device, at) as f64;
    sum(Interval::Q2g) >= HELD * sum(Interval::Q2c).max(1.0)
}

fn finding(facts: &Facts<'_>, waited: &Waited<'_>, subject: Subject, finding: Finding) -> Finding {
    let device = facts.devices().iter().find(|it| Some(&it.device) == subject.device.as_ref());
    let number = device.and_then(|it| facts.number(it, "queue/wbt_lat_usec"));
    let target = number.filter(|it| *it > 0.0);
    let said = target.map_or_else(String::new, |target| {
        format!(": its target for reads is {}", words::time(target * 1e3))
    });
    let name = subject.device.clone().unwrap_or_else(|| "DEVICE".to_owned());
    let flash = device.and_then(|it| facts.setting(it, "queue/rotational")) == Some("0");
    let default = if flash { OF_FLASH_US } else { OF_DISKS_US };
    let sentence = format!("writeback throttling on {name} lets few writes in{said}");
    let finding = finding
        .saying(sentence)
        .about(subject)
        .sure(Confidence::Certain)
        // What is let in waits for the device instead, if for less long.
        .upper_bound()
        .shown("waits for writeback throttling", waited.class_ns as f64, "ns", "iowhy waits");
    let show = format!("cat /sys/block/{name}/queue/wbt_lat_usec");
    let finding = match target {
        Some(target) => finding.shown("target for reads", target * 1e3, "ns", show),
        None => finding,
    };
    finding
        .fix(format!(
            "a target that the device can keep, several times what its reads take (the kernel's own is \
             {default} for such a device): `echo {} > /sys/block/{name}/queue/wbt_lat_usec`, or 0 to \
             switch it off, after which reads may wait behind writes; -1 is the default",
            4 * default,
        ))
        .check("with 0 the writes are as fast as the device; if not, something else throttles them")
}

#[cfg(test)]
mod tests {
    use crate::diagnosis::{Finding, diagnose};
    use crate::model::environment::Device;
    use crate::model::{Origin, WaitClass};
    use crate::script::Script;

    const MS: u64 = 1_000_000;

    /// A flusher whose writes wait `before_ms` for a request, and which waits so for `class`.
    fn found(class: WaitClass, before_ms: u64, rotational: &str) -> Option<Finding> {
        let mut script = Script::new(10);
        let settings = [("queue/wbt_lat_usec", "2000"), ("queue/rotational", rotational)];
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: settings.map(|(name, value)| (name.into(), value.into())).into(),
            ..Device::default()
        });
        for index in 0..200 {
            let write = script.write("sda", 65_536).by(7, "kworker/u8:1").origin(Origin::Writeback);
            let write = write.at((index * 40 * MS) as i64).sector(index * 7919 * 8);
            write.direct(before_ms * MS, 500, 10 * MS).add();
        }
        script.wait((7, "kworker/u8:1"), class, 5000 * MS, 0, 0);
        let sda = script.names.intern("sda");
        let wait = script.batch.waits.last_mut().unwrap();
        (wait.kernel_thread, wait.device) = (true, Some(sda));
        script.wait((8, "db"), WaitClass::PageRead, 100 * MS, 0, 0);
        diagnose(&script.summary()).findings.into_iter().find(|it| it.cause == "wbt-throttle")
    }

    #[test]
    fn a_throttled_flusher_is_seen() {
        let flash = found(WaitClass::Wbt, 25, "0").unwrap();
        assert_eq!(flash.subject.device.as_deref(), Some("sda"));
        assert!(flash.fix.contains("own is 2000"), "{}", flash.fix);
        assert!(found(WaitClass::Wbt, 25, "1").unwrap().fix.contains("own is 75000"));
    }

    #[test]
    fn a_flusher_that_waits_for_the_device_is_not_throttled() {
        assert_eq!(found(WaitClass::Tag, 25, "0"), None);
        assert_eq!(found(WaitClass::Wbt, 1, "0"), None, "next to nothing of its time");
    }
}
