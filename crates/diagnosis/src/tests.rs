//! Tests that hold for every rule.

use super::*;
use iowhy_analysis::Filtered;
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::environment::Device;
use iowhy_model::script::{S, Script};
use iowhy_model::{Filter, Origin, WaitClass};
use needs::Need;
use std::collections::BTreeSet;

#[test]
fn nothing_is_found_in_nothing() {
    for script in [Script::new(10), Script::new(0)] {
        let diagnosis = diagnose(&script.summary());
        assert!(diagnosis.unjudged.is_some());
        assert_eq!(diagnosis.findings, []);
        assert_eq!(diagnosis.clear + diagnosis.not_judged.len(), rules::ALL.len());
    }
}

/// The build script lists the folder's files: each is a cause, called by its id.
#[test]
fn files_are_causes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stems = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
    let files: BTreeSet<String> = stems.filter(|stem| stem != "mod").collect();
    let ids: BTreeSet<String> =
        rules::ALL.iter().map(|rule| rule.cause.replace('-', "_")).collect();
    assert_eq!(files, ids);
}

#[test]
fn causes_are_distinguished() {
    let names: BTreeSet<&str> = rules::ALL.iter().map(|rule| rule.cause).collect();
    assert_eq!(names.len(), rules::ALL.len());
    for rule in rules::ALL {
        assert!(rule.mechanism.ends_with('.') && rule.changes.ends_with('.'), "{}", rule.cause);
        assert!(!rule.title.ends_with('.'), "{}", rule.cause);
    }
}

/// A watch of `seconds` with all data that rules need, as far as a script can: a process walks
/// inodes.
fn whole(seconds: u64) -> Script {
    let mut script = Script::new(seconds);
    let settings = [("queue/scheduler", "[none]"), ("queue/nr_requests", "64")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    script.environment.devices.push(Device {
        name: "sda".to_owned(),
        settings_start: settings.clone().into(),
        settings_end: settings.into(),
        ..Device::default()
    });
    for index in 0..seconds.min(100) * 100 {
        let at = (index * seconds * 10_000_000 / seconds.min(100)) as i64;
        let read = script.read("sda", 4096).by(7, "find").at(at).sector(index * 7919 * 8);
        let read = read.origin(Origin::Metadata).file("/data/x").direct(500, 500, 900_000);
        read.stacks(&["xfs_lookup", "vfs_statx"], &["main"], 1).add();
    }
    script.wait((7, "find"), WaitClass::PageRead, seconds * 900_000_000, seconds * 890_000_000, 0);
    script
}

fn judged(script: &Script) -> Diagnosis {
    diagnose(&script.summary())
}

/// The causes that need `need` and are neither found nor reported as not judged.
fn unsaid(diagnosis: &Diagnosis, need: Need) -> Vec<&'static str> {
    let needing = rules::ALL.iter().filter(|rule| rule.needs.contains(&need));
    let told = |cause: &str| {
        diagnosis.not_judged.iter().any(|missing| missing.cause == cause)
            || diagnosis.findings.iter().any(|finding| finding.cause == cause)
    };
    needing.map(|rule| rule.cause).filter(|cause| !told(cause)).collect()
}

#[test]
fn a_rule_without_its_data_says_so() {
    type Removed = (Need, fn(&mut Script));
    let cases: [Removed; 8] = [
        (Need::Waits, |script| script.batch.waits.clear()),
        (Need::Chains, |script| script.environment.tables.retain(|table| table != "wait_chains")),
        (Need::Processes, |script| {
            script
                .batch
                .requests
                .iter_mut()
                .for_each(|request| (request.pid, request.process) = (None, None));
            script
                .batch
                .parts
                .iter_mut()
                .for_each(|part| (part.owner_pid, part.owner) = (None, None));
        }),
        (Need::Stacks, |script| {
            for it in &mut script.batch.requests {
                (it.stack_id, it.user_stack_id, it.stack_weight) = (None, None, 0);
            }
        }),
        (Need::Files, |script| {
            // Metadata belongs to no file, which is known without parts.
            script.batch.requests.iter_mut().for_each(|request| request.origin = Origin::Read);
            script.batch.parts.clear();
        }),
        (Need::Origins, |script| {
            script.batch.requests.iter_mut().for_each(|request| request.origin = Origin::Unknown);
        }),
        (Need::Queueing, |script| {
            script
                .batch
                .requests
                .iter_mut()
                .for_each(|request| (request.q2c_ns, request.q2g_ns) = (None, None));
        }),
        (Need::Settings, |script| script.environment.devices.clear()),
    ];
    for (need, remove) in cases {
        let mut script = whole(10);
        assert!(!unsaid(&judged(&script), need).is_empty(), "{need:?} is there");
        remove(&mut script);
        let diagnosis = judged(&script);
        assert_eq!(unsaid(&diagnosis, need), Vec::<&str>::new(), "{need:?}: {diagnosis:#?}");
    }
}

#[test]
fn losses_make_less_sure() {
    let sure = |script: &Script| judged(script).findings[0].confidence;
    let mut script = whole(10);
    assert_eq!(sure(&script), Confidence::Certain);
    script.environment.finished = false;
    assert_eq!(sure(&script), Confidence::Likely);
    script.environment.finished = true;
    script.environment.losses.add("ring", 100, "requests that have no record", true);
    assert_eq!(sure(&script), Confidence::Likely);
    assert!(judged(&script).doubt.is_some());
    script.environment.losses.add("ring", 5_000, "requests that have no record", true);
    assert_eq!(sure(&script), Confidence::Possible);
}

/// The diagnosis of a watch whose view shows only what `filter` keeps.
fn judged_beside(script: &Script, filter: &Filter) -> Diagnosis {
    let mut filtered = Filtered::new(&script.environment, filter);
    for batch in script.source(100).batches {
        filtered.add(&batch, &script.names, script.environment.end_ns);
    }
    diagnose(filtered.finish(&script.environment, &script.names).judged())
}

#[test]
fn a_filter_changes_no_verdict() {
    let script = whole(10);
    let named = |name: &str| vec![name.to_owned()];
    for filter in [
        Filter { processes: named("nobody"), ..Filter::default() },
        Filter { files: named("/nosuch"), ..Filter::default() },
        Filter { latency_ns: 1_000_000_000, ..Filter::default() },
    ] {
        assert_eq!(judged_beside(&script, &filter), judged(&script), "{filter}");
    }
}

#[test]
fn losses_are_a_share_of_all_that_was_seen() {
    let mut script = whole(10);
    script.read("sdb", 4096).by(8, "cat").direct(500, 500, 900_000).add();
    let filter = Filter { devices: vec!["sdb".to_owned()], ..Filter::default() };
    script.environment.losses.add("ring", 20, "requests that have no record", true);
    assert_eq!(judged_beside(&script, &filter).doubt, None);
    script.environment.losses.add("ring", 981, "requests that have no record", true);
    let doubt = judged_beside(&script, &filter).doubt.unwrap();
    assert!(doubt.starts_with("50 % of the requests in total"), "{doubt}");
}

#[test]
fn a_part_of_what_devices_did_is_not_judged() {
    let mut script = whole(10);
    script.environment.filter = "--device sda --process 7".to_owned();
    let diagnosis = judged(&script);
    assert_eq!((diagnosis.findings.len(), diagnosis.clear), (0, 0));
    assert_eq!(diagnosis.not_judged.len(), rules::ALL.len());
    assert!(diagnosis.unjudged.unwrap().contains("--process 7"));
    script.environment.filter = "--device sda".to_owned();
    let diagnosis = judged(&script);
    assert!(!diagnosis.findings.is_empty() && diagnosis.unjudged.is_none());
}

#[test]
fn one_second_is_too_short_for_what_takes_time() {
    let diagnosis = judged(&whole(1));
    for cause in ["provider-cap", "burst-credits", "noisy-neighbour"] {
        let missing = diagnosis.not_judged.iter().find(|missing| missing.cause == cause);
        assert!(
            missing.is_some_and(|missing| missing.reason.contains("shorter than")),
            "{diagnosis:#?}"
        );
    }
    assert_eq!(diagnosis.over_time, OverTime::default());
}

#[test]
fn ten_hours_hide_what_takes_seconds() {
    let diagnosis = judged(&whole(36_000));
    let missing = diagnosis.not_judged.iter().find(|missing| missing.cause == "writeback-burst");
    assert!(
        missing.is_some_and(|missing| missing.reason.contains("in steps of")),
        "{diagnosis:#?}"
    );
}

/// Ten threads of a process wait all the time for a lock on sda; one thread waits `held_ns` for the
/// cost model on sdb, and `else_ns` for sdb itself. Returns the severity of the cost model.
fn beside_others(held_ns: u64, else_ns: u64) -> Option<Severity> {
    let mut script = whole(10);
    script.batch.waits.clear();
    let mut wait = |who: (u32, &str), class, ns, at_device, device| {
        script.wait(who, class, ns, if at_device { ns } else { 0 }, 0);
        let device = script.names.intern(device);
        script.batch.waits.last_mut().unwrap().device = Some(device);
    };
    for pid in 100..110 {
        wait((pid, "app"), WaitClass::FsLock, 10_000_000_000, false, "sda");
    }
    wait((7, "cat"), WaitClass::Iocost, held_ns, false, "sdb");
    wait((7, "cat"), WaitClass::Device, else_ns, true, "sdb");
    let findings = judged(&script).findings;
    findings
        .into_iter()
        .find(|finding| finding.cause == "iocost-throttle")
        .map(|finding| finding.severity)
}

#[test]
fn what_stops_one_program_is_no_less_beside_many_that_wait_elsewhere() {
    assert_eq!(beside_others(9 * S, S / 2), Some(Severity::Critical));
    assert_eq!(beside_others(3 * S, 6 * S), Some(Severity::Warning));
    // A program that hardly waits is not held up.
    assert_eq!(beside_others(S * 9 / 10, 0), None);
}

#[test]
fn a_name_that_no_kernel_gives_comes_into_no_command() {
    let mut script = Script::new(10);
    for at in 0..200_i64 {
        let read = script.read("sda$(reboot)", 4096).by(7, "db").at(at * 40_000_000);
        read.direct(0, 0, 900_000_000).add();
    }
    let diagnosis = judged(&script);
    assert!(diagnosis.findings.is_empty() && diagnosis.red_herrings.is_empty());
    assert!(diagnosis.unjudged.is_some_and(|unjudged| unjudged.contains("sda$(reboot)")));
}

#[test]
fn the_time_of_an_idle_device_is_no_critical_share() {
    // Metadata reads with all of the device's time, which keep it busy for this share of the watch.
    let severity = |busy: u64| {
        let mut script = Script::new(10);
        for index in 0..1000_u64 {
            let read = script.read("sda", 4096).by(7, "git").at((index * 10_000_000) as i64);
            let read = read.sector(index * 7919 * 8).origin(Origin::Metadata);
            read.direct(500, 500, busy * 100_000).add();
        }
        let found = judged(&script).findings;
        found
            .iter()
            .find(|finding| finding.cause == "metadata-scan")
            .map(|finding| finding.severity)
    };
    assert_eq!(severity(90), Some(Severity::Critical));
    assert_eq!(severity(20), Some(Severity::Warning));
    assert_eq!(severity(4), Some(Severity::Info));
}

#[test]
fn a_finding_says_who_gains_most_without_it() {
    let gain = |script: &Script| {
        let found = judged(script).findings;
        found
            .first()
            .and_then(|finding| finding.gain.clone())
            .map(|gain| (gain.process, gain.share))
    };
    let mut script = whole(10);
    script.batch.waits.clear();
    script.wait((1, "db"), WaitClass::PageRead, 8 * S, 8 * S, 0);
    script.wait((2, "cat"), WaitClass::PageRead, S, S, 0);
    assert_eq!(gain(&script), Some((Some("db".to_owned()), 0.8)));
    // Threads that wait at once cannot lose more than all of their time.
    script.wait((1, "db"), WaitClass::PageRead, 8 * S, 8 * S, 0);
    assert_eq!(gain(&script), Some((Some("db".to_owned()), 1.0)));
}

#[test]
fn a_lack_of_cpus_stands_behind_what_storage_does_to_another_program() {
    // One program is ready for 7 s without a CPU; another waits so long for a lock of its file
    // system.
    let causes = |lock_ns: u64| {
        let mut script = whole(10);
        script.batch.waits.clear();
        for _ in 0..700 {
            script.wait((1, "find"), WaitClass::PageRead, S / 100, 0, S / 100);
        }
        script.wait((2, "db"), WaitClass::FsLock, lock_ns, 0, 0);
        let found = judged(&script).findings;
        found
            .into_iter()
            .filter(|finding| finding.severity > Severity::Info)
            .map(|finding| finding.subject.process)
            .map(Option::unwrap_or_default)
            .collect::<Vec<_>>()
    };
    assert_eq!(causes(6 * S), ["db", "find"]);
    // Much against little.
    assert_eq!(causes(2 * S), ["find", "db"]);
}
