//! Rates that only a limit keeps even, and others.

use crate::{Confidence, Finding, Severity, diagnose};
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::WaitClass;
use iowhy_model::environment::Device;
use iowhy_model::script::Script;

const HALF_A_SECOND: u64 = 500_000_000;

/// Eight concurrent reads of 2 ms each; a half second has a share `more` more of them than the
/// next.
fn is_capped(more: f64) -> bool {
    judged(more, Script::new(10))
}

fn judged(more: f64, script: Script) -> bool {
    found(more, script).is_some()
}

fn found(more: f64, mut script: Script) -> Option<Finding> {
    let mut at = 0;
    while at < 9_500_000_000_u64 {
        let first = (at / HALF_A_SECOND).is_multiple_of(2);
        let factor = if first { 1.0 + more / 2.0 } else { 1.0 - more / 2.0 };
        script
            .read("sda", 4096)
            .by(7, "fio")
            .at(at as i64)
            .sector(at)
            .direct(0, 0, 2_000_000)
            .add();
        at += (250_000.0 / factor) as u64;
    }
    of(&script)
}

fn of(script: &Script) -> Option<Finding> {
    let found = diagnose(&script.summary()).findings;
    found.into_iter().find(|it| it.cause == "provider-cap")
}

/// On a drive of that model and transport.
fn on(model: &str, transport: &str, is_virtual: Option<bool>) -> Script {
    let mut script = Script::new(10);
    script.environment.is_virtual = is_virtual;
    script.environment.devices.push(Device {
        name: "sda".to_owned(),
        major: 8,
        model: Some(model.to_owned()),
        transport: Some(transport.to_owned()),
        ..Device::default()
    });
    script
}

#[test]
fn a_drive_of_ones_own_has_no_provider() {
    let drive = "SAMSUNG MZ7LH960";
    assert!(!judged(0.0, on(drive, "sata", Some(false))));
    for (model, transport, is_virtual) in [
        (drive, "sata", Some(true)),
        (drive, "sata", None),
        (drive, "fc", Some(false)),
        ("Amazon Elastic Block Store", "pcie", Some(false)),
    ] {
        assert!(
            judged(0.0, on(model, transport, is_virtual)),
            "{model} {transport} {is_virtual:?}"
        );
    }
}

/// Blocks of a MiB, in order or not, eight at once, by one program; another waits for them.
fn streams(apart: u64, other_ms: u64) -> bool {
    let mut script = Script::new(10);
    for index in 0..950_u64 {
        let read = script.read("sda", 1 << 20).by(7, "convert").at((index * 10_000_000) as i64);
        read.sector(index * 2048 * apart % (1 << 32)).direct(0, 0, 80_000_000).add();
    }
    let (wait_ns, device) = (other_ms * 1_000_000, script.batch.requests[0].device);
    script.wait((8, "db"), WaitClass::Device, wait_ns, wait_ns, 0);
    script.batch.waits[0].device = Some(device);
    of(&script).is_some()
}

#[test]
fn a_copy_at_the_speed_of_an_unknown_disk_is_at_no_limit() {
    assert!(!streams(1, 0));
    assert!(streams(7919, 0), "at random");
    assert!(streams(1, 5000), "others wait");
}

#[test]
fn only_what_counts_is_as_even() {
    assert!(is_capped(0.0) && is_capped(0.004));
    // Like a device that takes as long for each.
    assert!(!is_capped(0.017));
}

#[test]
fn volumes_of_clouds_are_less_even() {
    let (cloud, more) = ("Amazon Elastic Block Store", 0.09);
    // Every second bin has 4.5 % more, every other one as much less.
    let ebs = found(more, on(cloud, "pcie", Some(true))).unwrap();
    assert_eq!((ebs.confidence, ebs.severity), (Confidence::Possible, Severity::Warning));
    let text = "sda stays at 3,99";
    assert!(ebs.sentence.starts_with(text) && ebs.fix.starts_with("find out first"), "{ebs:?}");
    assert_eq!(found(0.12, on(cloud, "pcie", Some(true))), None);
    // A hypervisor's disk may be at its own maximum; others are not reported.
    let guest = found(more, on("", "virtio", Some(true))).unwrap();
    assert_eq!((guest.confidence, guest.severity), (Confidence::Possible, Severity::Info));
    assert_eq!(found(more, Script::new(10)), None);
}

#[test]
fn a_drive_may_be_even_by_itself() {
    let sure =
        |transport, is_virtual| found(0.0, on("WDC", transport, is_virtual)).unwrap().confidence;
    assert_eq!(sure("sata", None), Confidence::Possible);
    assert_eq!(sure("sata", Some(true)), Confidence::Likely);
    assert_eq!(sure("virtio", Some(true)), Confidence::Likely);
    // Streams of large requests, few per bin.
    let stream = |transport| {
        let mut script = on("WDC", transport, Some(true));
        for index in 0..760_u64 {
            let at = (index * 12_500_000) as i64;
            let read = script.read("sda", 1 << 20).by(7, "dd").at(at).sector(index * 2048);
            read.direct(0, 0, 50_000_000).add();
        }
        of(&script).map(|it| it.confidence)
    };
    assert_eq!(stream("sata"), Some(Confidence::Possible));
    assert_eq!(stream("virtio"), Some(Confidence::Likely));
}

#[test]
fn a_limit_of_many_requests_takes_less_than_a_millisecond_each() {
    let capped = |model: &str, d2c: u64| {
        let mut script = on(model, "pcie", Some(true));
        for at in (0..9_500_000_u64).step_by(100) {
            let read = script.read("sda", 4096).by(7, "db").at((at * 1000) as i64).sector(at);
            read.direct(0, 0, d2c).add();
        }
        of(&script)
    };
    assert!(capped("Amazon Elastic Block Store", 400_000).is_some());
    // Flash that is local to the host is fast.
    assert_eq!(capped("Amazon Elastic Block Store", 200_000), None);
}

/// Two volumes with alternating load, and a limit for both.
fn instance(swing: u64, of_all: u64) -> Option<Finding> {
    let mut script = on("Amazon Elastic Block Store", "pcie", Some(true));
    let second =
        Device { name: "sdb".to_owned(), minor: 16, ..script.environment.devices[0].clone() };
    script.environment.devices.push(second);
    for bin in 0..19_u64 {
        let low = 500 - swing;
        let (a, b) = if bin % 2 == 0 { (low, 500 + swing) } else { (500 + swing, low) };
        let b = if bin % 4 < 2 { b + of_all } else { b };
        for (name, count) in [("sda", a), ("sdb", b)] {
            for index in 0..count {
                let at = bin * HALF_A_SECOND + index * HALF_A_SECOND / count;
                let read = script.read(name, 4096).by(7, "db").at(at as i64).sector(at);
                read.direct(0, 0, 4_000_000).add();
            }
        }
    }
    of(&script)
}

#[test]
fn a_limit_of_the_instance_is_in_the_sum() {
    let found = instance(150, 0).unwrap();
    assert!(found.sentence.starts_with("sda and sdb together stay at 2,0"), "{found:?}");
    assert_eq!(found.confidence, Confidence::Likely);
    // Two volumes that vary, and their sum with them.
    assert_eq!(instance(150, 400), None);
}

/// Four writes every four milliseconds that take so long, and a flush, of a program that waits
/// for all of them.
fn in_bursts(write_ns: u64, flush_ns: u64) -> bool {
    let mut script = Script::new(10);
    for turn in 0..2400_u64 {
        let at = (turn * 4_000_000) as i64;
        for write in 0..4 {
            let sector = turn * 64 + write * 8;
            let write = script.write("sda", 4096).by(7, "etcd").at(at).sector(sector);
            write.direct(0, 0, write_ns).add();
        }
        let asked = script.request("sda", iowhy_model::Operation::Flush).at(at);
        asked.by(7, "etcd").issued(flush_ns).add();
    }
    of(&script).is_some()
}

#[test]
fn who_idles_between_bursts_or_waits_for_flushes_has_a_pace_of_its_own() {
    assert!(in_bursts(4_000_000, 100_000), "always some in flight: a limit");
    assert!(!in_bursts(3_000_000, 100_000), "idle for a quarter of the time");
    assert!(!in_bursts(4_000_000, 10_000_000), "flushes");
}
