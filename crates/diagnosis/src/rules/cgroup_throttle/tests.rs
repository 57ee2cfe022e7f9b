//! Tests of the limit, of who is in it, and of who waits behind it.

use crate::{Finding, diagnose};
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::WaitClass;
use iowhy_model::cgroup::Cgroup;
use iowhy_model::script::{MS, Script};

fn found(script: &Script) -> Finding {
    let findings = diagnose(&script.summary()).findings;
    findings.into_iter().find(|finding| finding.cause == "cgroup-throttle").unwrap()
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
fn a_limit_within_a_change_holds_up_the_journal_for_all() {
    let throttled = |is_within: bool| {
        let mut script = Script::new(10);
        script.wait((7, "touch"), WaitClass::CgroupThrottle, 2000 * MS, 0, 0);
        script.waited_on("sda", "/srv/ct/a", 257);
        script.wait((8, "mail"), WaitClass::JournalCommit, 8000 * MS, 0, 0);
        script.waited_on("sda", "/srv/mail/b", 74);
        script.chain(&[(8, "mail"), (3, "jbd2"), (7, "touch")], 6000 * MS, 6000 * MS);
        let jbd2 = script.names.intern(if is_within { "jbd2/sda1-8" } else { "other" });
        script.batch.wait_chains[0].pid = 8;
        script.batch.wait_chains[1].process = Some(jbd2);
        script.batch.wait_chains[2].class = Some(WaitClass::CgroupThrottle);
        diagnose(&script.summary()).findings
    };
    let first = throttled(true).swap_remove(0);
    assert_eq!(first.cause, "cgroup-throttle");
    let said = "holds up the file system's journal: mail (8) waits for it, 8.00 s";
    assert!(first.sentence.contains(said), "{}", first.sentence);
    assert!(first.symptoms.contains(&"journal-commit"), "{first:?}");
    assert_eq!(throttled(false)[0].cause, "journal-commit");
}

#[test]
fn the_only_limit_of_a_device_is_named() {
    let limited = |path: &str| Cgroup {
        path: path.to_owned(),
        settings_start: [("io.max".to_owned(), "8:0 rbps=max wiops=60".to_owned())].into(),
        ..Cgroup::default()
    };
    let mut script = Script::new(10);
    script.read("sda", 4096).by(7, "cat").direct(1000, 1000, MS).add();
    script.wait((7, "cat"), WaitClass::CgroupThrottle, 5000 * MS, 0, 0);
    script.batch.waits[0].device = Some(script.names.intern("sda"));
    let disk = script.device("sda", &[]);
    (disk.major, disk.minor) = (8, 0);
    script.environment.cgroups.push(limited("/web"));
    let one = found(&script);
    let expected = "the I/O limit of cgroup /web (60 writes/s) throttles cat (7) on sda";
    assert_eq!(one.sentence, expected);
    assert!(one.fix.contains("limit of cgroup /web, unless"), "{}", one.fix);
    assert!(one.fix.contains("`echo \"8:0 rbps=max wbps=max"), "{}", one.fix);
    let legacy = ("blkio.throttle.write_iops_device".to_owned(), "8:0 60".to_owned());
    script.environment.cgroups[0].settings_start = [legacy].into();
    let removal = "`echo \"8:0 0\" > blkio.throttle.write_iops_device`";
    assert!(found(&script).fix.contains(removal), "{}", found(&script).fix);
    let forged = ("blkio.throttle.a; id".to_owned(), "8:0 60".to_owned());
    script.environment.cgroups[0].settings_start.extend([forged]);
    let removal = "`echo \"8:0 0\" > 'blkio.throttle.a; id'`";
    assert!(found(&script).fix.contains(removal), "{}", found(&script).fix);
    script.environment.cgroups.push(limited("/batch"));
    let several = found(&script);
    assert_eq!(several.sentence, "the I/O limit of its cgroup throttles cat (7) on sda");
}

#[test]
fn an_idle_device_that_does_what_its_limit_allows_is_throttled() {
    let judged = |wiops: &str| {
        let mut script = Script::new(10);
        for index in 0..590_i64 {
            let write = script.write("sda", 4096).by(7, "db").at(index * 16 * MS as i64);
            write.direct(1000, 1000, 100_000).add();
        }
        script.wait((7, "db"), WaitClass::DirtyThrottle, 5000 * MS, 0, 0);
        script.batch.waits[0].device = Some(script.names.intern("sda"));
        let disk = script.device("sda", &[]);
        (disk.major, disk.minor) = (8, 0);
        let limit = ("io.max".to_owned(), format!("8:0 wiops={wiops}"));
        let cgroup = Cgroup { path: "/web".to_owned(), ..Cgroup::default() };
        script.environment.cgroups.push(Cgroup { settings_start: [limit].into(), ..cgroup });
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "cgroup-throttle")
    };
    let limited = judged("60").unwrap();
    let expected = "sda does as much as the I/O limit of cgroup /web allows (60 writes/s)";
    assert!(limited.sentence.starts_with(expected), "{}", limited.sentence);
    assert_eq!(judged("600"), None);
    assert_eq!(judged("30"), None, "others do more than the cgroup may");
}

#[test]
fn waits_for_pages_that_are_far_longer_than_requests_are_held_back() {
    let judged = |own: &str, device_ms: u64| {
        let mut script = Script::new(10);
        for index in 0..200_i64 {
            let write = script.write("sda", 4096).by(8, "ledger").at(index * 50 * MS as i64);
            write.direct(1000, 1000, device_ms * MS).add();
        }
        for _ in 0..4 {
            script.wait((7, "export"), WaitClass::Fsync, 2000 * MS, 0, 0);
            let cgroup = script.names.intern(own);
            script.batch.waits.last_mut().unwrap().cgroup = Some(cgroup);
        }
        let disk = script.device("sda", &[]);
        (disk.major, disk.minor) = (8, 0);
        let limit = ("io.max".to_owned(), "8:0 wbps=2097152".to_owned());
        let cgroup = Cgroup { path: "/job".to_owned(), ..Cgroup::default() };
        script.environment.cgroups.push(Cgroup { settings_start: [limit].into(), ..cgroup });
        let findings = diagnose(&script.summary()).findings;
        findings.into_iter().find(|finding| finding.cause == "cgroup-throttle")
    };
    let held = judged("/job/export", 1).unwrap();
    let said = "the I/O limit of cgroup /job (write 2.00 MiB/s) on sda throttles export (7)";
    assert!(held.sentence.starts_with(said), "{}", held.sentence);
    assert!(held.sentence.ends_with("requests of the device are much faster"), "{held:?}");
    assert_eq!(rows(&held), ["blocked time"]);
    assert_eq!(judged("/other", 1), None);
    assert_eq!(judged("/job/export", 400), None, "the device is as slow");
}

#[test]
fn held_back_data_holds_up_the_journal_for_others() {
    let judged = |waited_ms: u64, journal: &str| {
        let mut script = Script::new(10);
        let write = script.write("sda", 4096).by(7, "rsync");
        write.direct(1000, 1000, MS).add();
        for (who, class, ms, cgroup) in [
            ((7, "rsync"), WaitClass::Fsync, 3000, "/job"),
            ((7, "rsync"), WaitClass::JournalCommit, 1000, "/job"),
            ((8, "etcd"), WaitClass::JournalCommit, 3000, "/db"),
        ] {
            script.wait(who, class, ms * MS, 0, 0);
            script.waited_on("sda", "/srv/a", 74);
            let cgroup = script.names.intern(cgroup);
            script.batch.waits.last_mut().unwrap().cgroup = Some(cgroup);
        }
        script.chain(&[(8, "etcd"), (3, "jbd2")], waited_ms * MS, waited_ms * MS);
        script.batch.wait_chains[0].pid = 8;
        script.batch.wait_chains[1].process = Some(script.names.intern(journal));
        let disk = script.device("sda", &[]);
        (disk.major, disk.minor) = (8, 0);
        let limit = ("io.max".to_owned(), "8:0 wbps=2097152".to_owned());
        let cgroup = Cgroup { path: "/job".to_owned(), ..Cgroup::default() };
        script.environment.cgroups.push(Cgroup { settings_start: [limit].into(), ..cgroup });
        diagnose(&script.summary()).findings
    };
    let first = judged(2000, "jbd2/sda-8").swap_remove(0);
    assert_eq!(first.cause, "cgroup-throttle");
    let said = "throttles rsync (7), which holds up the file system's journal: etcd (8) waits";
    assert!(first.sentence.contains(said), "{}", first.sentence);
    for (other, why) in [
        (judged(5, "jbd2/sda-8"), "requests take as long"),
        (judged(1000, "jbd2/sda-8"), "most of its time was not seen to be behind it"),
        (judged(2000, "jbd2/sdab-8"), "another disk"),
    ] {
        let is_said = other.iter().any(|finding| finding.sentence.contains("holds up"));
        assert!(!is_said, "{why}: {other:?}");
    }
}

#[test]
fn what_is_owed_is_no_limit_of_io_max() {
    let text = |function: Option<&str>| {
        let mut script = Script::new(10);
        script.wait((7, "cat"), WaitClass::CgroupThrottle, 5000 * MS, 0, 0);
        script.stacked(function.as_slice());
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
