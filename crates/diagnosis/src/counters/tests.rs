//! Each judgement at both sides of its limit.

use crate::{Confidence, Finding, diagnose};
use iowhy_analysis::script::ScriptSummary;
use iowhy_analysis::summary::Summary;
use iowhy_model::environment::{Device, Environment};
use iowhy_model::health::HostMessage;
use iowhy_model::script::Script;

/// A device with so many reads and writes in ten seconds, each of so many ms.
fn counted(name: &str, (reads, read_ms): (u64, u64), (writes, write_ms): (u64, u64)) -> Device {
    let busy = (reads * read_ms + writes * write_ms).min(10_000);
    let queued = reads * read_ms + writes * write_ms;
    Device {
        name: name.to_owned(),
        major: 8,
        stat_start: vec![0; 17],
        stat_end: vec![
            reads,
            0,
            reads * 8,
            reads * read_ms,
            writes,
            0,
            writes * 8,
            writes * write_ms,
            0,
            busy,
            queued,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        ..Device::default()
    }
}

fn summary(devices: Vec<Device>, messages: Vec<HostMessage>) -> Summary {
    let mut script = Script::new(10);
    script.environment = Environment {
        source: "iostat".to_owned(),
        devices: devices.into(),
        host_messages: messages,
        ..script.environment
    };
    script.summary()
}

fn found(devices: Vec<Device>) -> Vec<Finding> {
    diagnose(&summary(devices, Vec::new())).findings
}

fn has(findings: &[Finding], cause: &str, device: &str) -> bool {
    findings
        .iter()
        .any(|finding| finding.cause == cause && finding.subject.device.as_deref() == Some(device))
}

#[test]
fn a_device_is_slow_by_itself_or_not() {
    assert!(has(&found(vec![counted("sda", (80, 120), (0, 0))]), "device-slow-tail", "sda"));
    // A healthy disk under random reads: saturated at most.
    assert!(!has(&found(vec![counted("sda", (1000, 40), (0, 0))]), "device-slow-tail", "sda"));
    // Three requests are no mean.
    assert!(!has(&found(vec![counted("sda", (3, 900), (0, 0))]), "device-slow-tail", "sda"));
}

#[test]
fn a_sibling_is_slower_for_as_much_work() {
    let disks = |slow: u64| {
        let others = ["sdb", "sdc", "sdd"].map(|name| counted(name, (500, 8), (0, 0)));
        let mut all = others.to_vec();
        all.push(counted("sda", (400, slow), (0, 0)));
        all
    };
    let finding = found(disks(60));
    assert!(has(&finding, "slow-member", "sda"), "{finding:?}");
    assert!(!has(&found(disks(20)), "slow-member", "sda"));
    let mut busier = disks(60);
    busier[3] = counted("sda", (4000, 60), (0, 0));
    assert!(!has(&found(busier), "slow-member", "sda"), "more work explains it");
}

#[test]
fn flushes_that_take_long_are_said() {
    let flushing = |flushes: u64, ms: u64| {
        let mut device = counted("sda", (10, 1), (400, 1));
        device.stat_end[15] = flushes;
        device.stat_end[16] = flushes * ms;
        found(vec![device])
    };
    assert!(has(&flushing(200, 20), "flush-cost", "sda"));
    assert!(!has(&flushing(200, 4), "flush-cost", "sda"));
    assert!(!has(&flushing(9, 200), "flush-cost", "sda"));
}

#[test]
fn discards_that_take_most_are_said() {
    let mut device = counted("sda", (10, 1), (10, 1));
    device.stat_end[11] = 100;
    device.stat_end[14] = 4000;
    assert!(has(&found(vec![device.clone()]), "discard-storm", "sda"));
    device.stat_end[14] = 500;
    assert!(!has(&found(vec![device]), "discard-storm", "sda"));
}

#[test]
fn a_device_that_completes_nothing_may_hang() {
    let mut device = counted("sda", (0, 0), (0, 0));
    (device.stat_end[9], device.stat_end[10]) = (10_000, 110_000);
    let finding = found(vec![device]);
    assert!(has(&finding, "hung-io", "sda"), "{finding:?}");
    assert_eq!(finding[0].confidence, Confidence::Possible);
}

#[test]
fn a_hung_task_counts_if_its_stack_waits_for_storage() {
    let message = |frames: &[&str]| HostMessage {
        kind: "hung_task".to_owned(),
        process: "postgres".to_owned(),
        count: 3,
        frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
        ..HostMessage::default()
    };
    let causes = |frames: &[&str]| -> Vec<&'static str> {
        let summary = summary(Vec::new(), vec![message(frames)]);
        diagnose(&summary).findings.iter().map(|finding| finding.cause).collect()
    };
    assert_eq!(causes(&["schedule", "jbd2_log_wait_commit", "ext4_sync_file"]), ["hung-io"]);
    assert_eq!(causes(&["schedule", "nfs_wait_bit_killable"]), ["network-filesystem"]);
    assert_eq!(causes(&[]), ["hung-io"]);
    assert!(causes(&["schedule", "nvidia_modeset_lock"]).is_empty());
}
