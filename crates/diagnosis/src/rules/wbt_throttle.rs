//! Writeback throttling delays writers.

use super::super::bottleneck::{bound, kind::BottleneckKind};
use super::super::programs::{self, FileRole};
use super::*;
use facts::Waited;
use facts::calls::READ;
use iowhy_analysis::summary::{Bucket, StageTime};

/// The least share of Q2G in the request time, if kernel workers are throttled, whose waits are not
/// programs'. Chosen.
const HELD: f64 = 0.3;
/// The least share of the interval that each such thread sleeps in it, for hardly any write to
/// pass. Chosen.
const ASLEEP: f64 = 0.9;
/// The least share of the interval that readers of the device wait, which it protects. Chosen.
const READERS: f64 = 0.1;
/// The least mean depth of a device at which the throttle is not what holds its writes back: where
/// it is, it admits a few at a time. Chosen.
const FULL: f64 = 8.0;
/// The window in which the kernel compares the shortest read with the target, seconds: blk-wbt.c,
/// RWB_WINDOW_NSEC.
const WINDOW_S: f64 = 0.1;
/// The greatest number of reads below the target for each window, of a device that hardly ever
/// meets it. Chosen.
const BELOW: f64 = 0.1;
/// The least number of reads to know that from. Chosen.
const READS: u64 = 100;
/// The mean depth from which reads may be long because of each other. Chosen.
const SHALLOW: f64 = 4.0;
/// A target that a device can meet, as a multiple of what nine of ten of its reads take. Chosen.
const ROOM: f64 = 2.0;
/// The kernel's own targets for reads: blk-wbt.c, wbt_default_latency_nsec().
const OF_DISKS_US: u32 = 75_000;
const OF_FLASH_US: u32 = 2_000;

/// Classes of waits for data to be written.
const FOR_WRITEBACK: &[WaitClass] =
    &[WaitClass::Fsync, WaitClass::JournalCommit, WaitClass::JournalSpace];

rule!(
    "wbt-throttle",
    "writeback throttling",
    "The block layer compares read latency with a target (queue/wbt_lat_usec). If reads take \
     longer, it admits fewer buffered writes, down to one at a time. That protects readers, but \
     with a target that the device can never meet, writes are slow although the device could take \
     more.",
    "Writes wait although wbt is off (wbt_lat_usec 0).",
    place: Throttle,
    needs: [Waits],
    trial: "wbt_lat_usec=0",
);

fn judge(facts: &Facts<'_>) -> Judged {
    facts.need_waits()?;
    let waited = facts.waits_for(WaitClass::Wbt);
    if waited.class_ns > 0 {
        let of_programs = Finding::of_class(facts, &waited, String::new());
        let found = finding(facts, &waited, waited.subject(), of_programs);
        let holds_enough = facts.device_of(&found.subject).is_some_and(holds_enough);
        let most = if holds_enough { Severity::Info } else { Severity::Critical };
        return Ok(unless_meant(facts, &waited, found).at_most(most).into());
    }
    Ok(of_kernel(facts).map_or(RuleVerdict::Clear, RuleVerdict::from))
}

/// Limits the severity to `Info` if the kernel's default target works as intended.
fn unless_meant(facts: &Facts<'_>, waited: &Waited<'_>, finding: Finding) -> Finding {
    let is_meant = is_default(facts, &finding.subject)
        && !is_out_of_reach(facts, &finding.subject)
        && is_meant(facts, waited, &finding.subject);
    // As little as its own limits allow.
    finding.at_most(if is_meant { Severity::Info } else { Severity::Critical })
}

/// Whether the device has all the writes that it can take: more of them would only wait longer.
fn is_full(device: &DeviceSummary) -> bool {
    bound::is_saturated(device) && bound::depth(device) >= FULL
}

/// The kernel's own target, microseconds. One that was set before the disk was known to be flash
/// stays.
fn own_target_us(facts: &Facts<'_>, device: &DeviceSummary) -> u32 {
    let is_flash = facts.number(device, "queue/rotational") == Some(0.0);
    let is_of_disks = target_ns(facts, device) == Some(f64::from(OF_DISKS_US) * 1e3);
    if is_flash && !is_of_disks { OF_FLASH_US } else { OF_DISKS_US }
}

/// Whether the target is the kernel's default.
fn is_default(facts: &Facts<'_>, subject: &Subject) -> bool {
    let device = facts.device_of(subject);
    device.is_some_and(|device| {
        target_ns(facts, device) == Some(f64::from(own_target_us(facts, device)) * 1e3)
    })
}

/// The target, nanoseconds, if it is on.
fn target_ns(facts: &Facts<'_>, device: &DeviceSummary) -> Option<f64> {
    let target = facts.number(device, "queue/wbt_lat_usec").filter(|target| *target > 0.0)?;
    Some(target * 1e3)
}

/// Whether hardly a read of the device is as short as the target: then the kernel admits one write
/// at a time for as long as anybody reads, and no read becomes shorter by it. Reads that are long
/// beside many others say nothing about the device.
fn is_out_of_reach(facts: &Facts<'_>, subject: &Subject) -> bool {
    let known = facts.device_of(subject).filter(|device| bound::depth(device) < SHALLOW);
    let target = known.and_then(|device| Some((device, target_ns(facts, device)?)));
    let Some((device, target)) = target else { return false };
    let buckets = &facts::of(device, Direction::Read).d2c_histogram;
    let sum = |is_short: &dyn Fn(&Bucket) -> bool| -> u64 {
        let chosen = buckets.iter().filter(|bucket| is_short(bucket));
        chosen.map(|bucket| bucket.requests).fold(0, u64::saturating_add)
    };
    let (all, short) = (sum(&|_| true), sum(&|bucket| (bucket.from_ns as f64) < target));
    // A window without a read is none that the target misses.
    let windows = (facts.seconds() / WINDOW_S).min(all as f64);
    all >= READS && short as f64 <= BELOW * windows
}

/// Whether it works as intended: it throttles writers in favour of other readers of the device, or
/// a database's writes of its data files, for which no client waits, or a copy to the speed of its
/// device.
fn is_meant(facts: &Facts<'_>, waited: &Waited<'_>, subject: &Subject) -> bool {
    let is_held = |pid: u32| waited.groups.iter().any(|group| group.pid == pid);
    let readers = facts.waits(|it| {
        facts.is_call(it.syscall, READ) && it.device == subject.device && !is_held(it.pid)
    });
    let role = |wait_group: &WaitGroup| {
        programs::role_of(Some(&wait_group.process), wait_group.file.as_deref()?)
    };
    let of_data = waited.groups.iter().filter(|group| role(group) == Some(FileRole::Data));
    let data_ns: u64 = of_data.map(|of_data| of_data.class_ns()).fold(0, u64::saturating_add);
    readers.time_ns as f64 >= READERS * facts.duration_ns() as f64
        || 2 * data_ns >= waited.class_ns
        || facts.is_about_copy(subject)
}

/// Whether a device that reads nothing, and that is not at its limit all the time, holds many
/// writes already: no read was too slow for the target, and one more waits behind the others.
fn holds_enough(device: &DeviceSummary) -> bool {
    let reads = facts::of(device, Direction::Read).requests;
    reads == 0 && bound::depth(device) >= FULL && !bound::is_saturated(device)
}

/// Throttled flushers: no thread waits for them immediately, but their writes stall.
fn of_kernel(facts: &Facts<'_>) -> Option<Finding> {
    let waited = facts.kernel_waits(|group| group.class == WaitClass::Wbt);
    let on = waited.subject().device;
    let threads: u64 = waited.groups.iter().map(|group| group.threads).fold(0, u64::saturating_add);
    let asleep = waited.class_ns as f64 / (threads * facts.duration_ns()).max(1) as f64;
    let is_asleep = asleep >= ASLEEP;
    let fits = |device: &DeviceSummary| is_asleep || is_held(device);
    let device = facts.busiest(|it| on.as_ref().is_none_or(|on| *on == it.device) && fits(it))?;
    if waited.class_ns == 0 {
        return None;
    }
    let (q2g, q2c) = (Interval::Q2g, Interval::Q2c);
    let (time, whole) = (facts::stage_sum(device, q2g), facts::stage_sum(device, q2c));
    // What waits for data that the worker holds waits for no device yet.
    let behind = facts.waits(|it| it.device.is_none() && FOR_WRITEBACK.contains(&it.class));
    let found = match is_asleep {
        // What waits there has no record yet.
        true => Finding::of_share(ImpactOf::DeviceTime, asleep.min(1.0), 1.0, String::new())
            .claiming(Claims::of_device(facts, &device.device).and(&Claims::of_waits(&behind))),
        false => Finding::of_device(facts, time, whole, String::new()),
    };
    // The flusher writes on behalf of the dirtiers.
    let subject = facts::subject_of(&device.device, facts.top_process(device, |_| true));
    Some(unless_meant(facts, &waited, finding(facts, &waited, subject, found)))
}

fn is_held(device: &DeviceSummary) -> bool {
    let sum = |at| facts::stage_sum(device, at) as f64;
    sum(Interval::Q2g) >= HELD * sum(Interval::Q2c).max(1.0)
}

/// Returns the sentence, how sure it is, and the most that it can be worth.
fn verdict(
    facts: &Facts<'_>,
    subject: &Subject,
    is_full: bool,
    message: &str,
) -> (String, Confidence, Severity) {
    match is_full {
        true => (too_much(facts, subject), Confidence::Likely, Severity::Warning),
        false => (
            format!(
                "writeback throttling on {} admits few writes{message}",
                subject.device.as_deref().unwrap_or("DEVICE"),
            ),
            Confidence::Certain,
            Severity::Critical,
        ),
    }
}

/// Says who writes more than the device can take, and who waits for that.
fn too_much(facts: &Facts<'_>, subject: &Subject) -> String {
    let name = subject.device.as_deref().unwrap_or("DEVICE");
    let throttled = "the device is saturated, and writeback throttling makes";
    if subject.process.is_none() {
        return format!("programs write more to {name} than it can take: {throttled} them wait");
    }
    let waiter = words::who(subject);
    if let Some(heavier) = facts.heavier_writer(subject) {
        let writer = words::who(&heavier);
        return format!(
            "{writer} writes more to {name} than it can take: {throttled} {waiter} wait"
        );
    }
    let file = subject.file.as_ref().map_or_else(String::new, |file| format!(" ({file})"));
    format!("{waiter} writes more to {name} than it can take{file}: {throttled} it wait")
}

/// Returns what to do where a device is full: the program's own setting first, if it writes most.
fn fix_of_full(facts: &Facts<'_>, waited: &Waited<'_>, subject: &Subject, name: &str) -> String {
    let general = format!(
        "write less at once, or use a faster device. A larger \
         /sys/block/{name}/queue/wbt_lat_usec would only move the wait into the device, and delay \
         reads"
    );
    let kind = waited.groups.first().map(|group| BottleneckKind::new(facts, group));
    let own = kind.filter(|_| facts.heavier_writer(subject).is_none());
    match own.and_then(|kind| kind.advice(subject)) {
        Some(own) => format!("{own}; else {general}"),
        None => general,
    }
}

fn finding(facts: &Facts<'_>, waited: &Waited<'_>, subject: Subject, finding: Finding) -> Finding {
    let device = facts.device_of(&subject);
    let target = device.and_then(|device| target_ns(facts, device));
    let reads = device.and_then(|device| facts::stage(device, Direction::Read, Interval::D2c));
    let reads = reads.filter(|_| is_out_of_reach(facts, &subject));
    let mut message = target.map_or_else(String::new, |target| {
        format!(": its target for read latency is {}", words::time(target))
    });
    if let Some(reads) = reads {
        let usual = words::time(reads.p50_ns as f64);
        message.push_str(&format!(", and hardly a read is so short (half take {usual} or more)"));
    }
    let name = subject.device.clone().unwrap_or_else(|| "DEVICE".to_owned());
    let default = device.map_or(OF_DISKS_US, |device| own_target_us(facts, device));
    let is_full = device.is_some_and(is_full);
    let (sentence, sure, most) = verdict(facts, &subject, is_full, &message);
    let of_full = is_full.then(|| fix_of_full(facts, waited, &subject, &name));
    let finding = finding
        .saying(sentence)
        .about(subject)
        .sure(sure)
        .at_most(most)
        // Admitted writes wait for the device instead, but shorter.
        .upper_bound()
        .shown(
            "time throttled by writeback throttling",
            waited.class_ns as f64,
            "ns",
            "iowhy waits",
        );
    let show = format!("cat /sys/block/{name}/queue/wbt_lat_usec");
    let finding = match target {
        Some(target) => finding.shown("read latency target", target, "ns", show),
        None => finding,
    };
    if let Some(of_full) = of_full {
        return finding.fix(of_full).check(format!(
            "`iowhy stat -d {name} 1`: while it is less than 90 % busy, something else holds \
                 the writers back"
        ));
    }
    finding.fix(fix(&name, default, target, reads)).check(format!(
        "with 0 the writes are as fast as the device; if not, something else throttles them{}",
        words::tried("wbt_lat_usec=0"),
    ))
}

/// Returns a target that the device can meet. Beyond the kernel's window one has no effect.
fn fix(name: &str, default: u32, target: Option<f64>, reads: Option<StageTime>) -> String {
    let needed_us = reads.map_or(0.0, |reads| ROOM * reads.p90_ns as f64 / 1e3);
    // The kernel's own, if the target is below that; never less than now; in whole milliseconds.
    let more_us = target.map_or(0.0, |target| target / 1e3);
    let more_us = if more_us < f64::from(default) { 0.0 } else { ROOM * more_us };
    let better_us = f64::from(default).max(more_us).max((needed_us / 1e3).ceil() * 1e3);
    if better_us >= WINDOW_S * 1e6 {
        return format!(
            "turn it off: `echo 0 > /sys/block/{name}/queue/wbt_lat_usec`; reads may then wait \
             behind writes"
        );
    }
    format!(
        "set a target that the device can meet, in microseconds (the kernel's own is {default} for \
         such a device): `echo {better_us} > /sys/block/{name}/queue/wbt_lat_usec`; 0 turns it \
         off, and reads may then wait behind writes"
    )
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Severity, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};
    use iowhy_model::{Origin, WaitClass};

    /// A flusher whose writes wait `before_ms` for a request, with waits of `class`.
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
        diagnose(&script.summary())
            .findings
            .into_iter()
            .find(|finding| finding.cause == "wbt-throttle")
    }

    #[test]
    fn a_throttled_flusher_is_seen() {
        let flash = found(WaitClass::Wbt, 25, "0").unwrap();
        assert_eq!(flash.subject.device.as_deref(), Some("sda"));
        assert!(flash.fix.contains("own is 2000"), "{}", flash.fix);
        assert!(found(WaitClass::Wbt, 25, "1").unwrap().fix.contains("own is 75000"));
    }

    /// A program whose writes are throttled for three seconds with a target, while another reads as
    /// long.
    fn beside(process: &str, file: &str, target: &str, reads: u32) -> Severity {
        let mut script = Script::new(10);
        let settings = [("queue/wbt_lat_usec", target), ("queue/rotational", "0")];
        script.environment.devices.push(Device {
            name: "sda".to_owned(),
            settings_start: settings.map(|(name, value)| (name.into(), value.into())).into(),
            ..Device::default()
        });
        for index in 0..200 {
            let write = script.write("sda", 65_536).by(7, process).at((index * 50 * MS) as i64);
            write.direct(20 * MS, 500, 2 * MS).add();
        }
        for _ in 0..reads {
            script.wait((8, "db"), WaitClass::Device, 20 * MS, 0, 0);
            script.waited_on("sda", "/table", 17);
        }
        script.wait((7, process), WaitClass::Wbt, 3000 * MS, 0, 0);
        script.waited_on("sda", file, 18);
        let findings = diagnose(&script.summary()).findings;
        findings.iter().find(|finding| finding.cause == "wbt-throttle").unwrap().severity
    }

    #[test]
    fn what_it_is_there_for_is_no_trouble() {
        assert!(beside("dd", "/out", "2000", 0) > Severity::Info);
        assert!(beside("dd", "/out", "2000", 40) > Severity::Info, "readers wait for 0.8 s");
        assert_eq!(beside("dd", "/out", "2000", 60), Severity::Info);
        assert!(beside("dd", "/out", "300", 60) > Severity::Info, "a configured target");
        assert_eq!(beside("postgres", "/db/base/1/2", "2000", 0), Severity::Info, "a checkpoint");
        assert!(beside("postgres", "/db/pg_wal/1", "2000", 0) > Severity::Info, "commits");
    }

    #[test]
    fn a_target_that_no_read_meets_protects_nobody() {
        let found = |read_ms: u64| {
            let mut script = Script::new(10);
            let settings = [("queue/wbt_lat_usec", "2000"), ("queue/rotational", "0")];
            script.environment.devices.push(Device {
                name: "sda".to_owned(),
                settings_start: settings.map(|(name, value)| (name.into(), value.into())).into(),
                ..Device::default()
            });
            for index in 0..1_200_u64 {
                let (time, at) = (read_ms * MS, (index * 8 * MS) as i64);
                script
                    .read("sda", 4096)
                    .by(8, "api")
                    .at(at)
                    .sector(index * 8)
                    .direct(5, 5, time)
                    .add();
                script.wait((8, "api"), WaitClass::Device, time, 0, 0);
                script.waited_on("sda", "/cold", 17);
            }
            script.wait((7, "ingest"), WaitClass::Wbt, 9000 * MS, 0, 0);
            script.waited_on("sda", "/store", 18);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "wbt-throttle").unwrap()
        };
        let never = found(5);
        assert_eq!(never.severity, Severity::Critical);
        assert!(never.sentence.contains("(half take 5.00 ms or more)"), "{}", never.sentence);
        assert!(never.fix.contains("echo 10000 >"), "{}", never.fix);
        assert_eq!(found(1).severity, Severity::Info);
    }

    #[test]
    fn a_device_that_takes_no_more_is_what_holds_writes_back() {
        let found = |together: u64| {
            let mut script = Script::new(10);
            for index in 0..200 * together {
                let at = index / together * 50 * MS;
                let write = script.write("sda", 65_536).by(7, "dd").at(at as i64);
                write.sector(index * 128).direct(500, 500, 49 * MS).add();
            }
            script.wait((7, "dd"), WaitClass::Wbt, 9000 * MS, 0, 0);
            script.waited_on("sda", "/out", 18);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "wbt-throttle").unwrap()
        };
        assert_eq!(found(1).severity, Severity::Critical);
        let full = found(16);
        assert_eq!(full.severity, Severity::Warning);
        let said = "dd (7) writes more to sda than it can take (/out): the device is saturated";
        assert!(full.sentence.starts_with(said), "{}", full.sentence);
        assert!(full.fix.starts_with("write less at once"), "{}", full.fix);
    }

    #[test]
    fn who_fills_the_device_is_named_with_its_own_setting() {
        let found = |writer: (u32, &'static str)| {
            let mut script = Script::new(10);
            for index in 0..3200_u64 {
                let write = script.write("sda", 65_536).by(writer.0, writer.1);
                let write = write.at((index / 16 * 50 * MS) as i64).sector(index * 128);
                write.direct(500, 500, 49 * MS).add();
            }
            script.wait((7, "mosquitto"), WaitClass::Wbt, 9000 * MS, 0, 0);
            script.waited_on("sda", "/srv/mosquitto.db.new", 74);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "wbt-throttle").unwrap()
        };
        let own = found((7, "mosquitto"));
        assert!(own.fix.contains("autosave_on_changes"), "{}", own.fix);
        let other = found((8, "tool"));
        let said = "tool (8) writes more to sda than it can take";
        assert!(other.sentence.starts_with(said), "{}", other.sentence);
        assert!(other.sentence.contains("makes mosquitto (7) wait"), "{}", other.sentence);
        assert!(!other.fix.contains("autosave"), "{}", other.fix);
    }

    #[test]
    fn a_thread_that_sleeps_in_it_all_the_time_lets_nothing_through() {
        let found = |ms: u64| {
            let mut script = Script::new(10);
            script.write("sda", 4096).by(7, "z_wr_iss").direct(500, 500, MS).add();
            script.wait((7, "z_wr_iss"), WaitClass::Wbt, ms * MS, 0, 0);
            let sda = script.names.intern("sda");
            let wait = script.batch.waits.last_mut().unwrap();
            (wait.kernel_thread, wait.device) = (true, Some(sda));
            script.wait((8, "db"), WaitClass::Fsync, 9900 * MS, 0, 0);
            let findings = diagnose(&script.summary()).findings;
            findings.into_iter().find(|finding| finding.cause == "wbt-throttle")
        };
        assert!(found(9100).is_some());
        assert_eq!(found(8900), None);
    }

    #[test]
    fn a_flusher_that_waits_for_the_device_is_not_throttled() {
        assert_eq!(found(WaitClass::Tag, 25, "0"), None);
        assert_eq!(found(WaitClass::Wbt, 1, "0"), None, "next to nothing of its time");
    }
}
