//! Tests the layer below the named causes on watches with known waits.

use super::bound::{FELT_NS, SLOW_NS, SLOW_SYNC_NS};
use crate::facts::Facts;
use crate::rule::RuleVerdict;
use crate::{Diagnosis, Finding, FindingLayer, Severity, diagnose, rule_of};
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::metric::process_subject;
use iowhy_model::script::{MS, START_NS, Script};
use iowhy_model::{Metric, Origin, WaitClass};

const FDATASYNC: u32 = 75;
const PREAD: u32 = 17;
const WAL: &str = "/var/lib/postgresql/15/main/pg_wal/000000010000000000000001";

/// Adds a wait in this call for a file on sda.
fn wait(script: &mut Script, (pid, name): (u32, &str), call: u32, file: &str, at: u64, ns: u64) {
    script.wait((pid, name), WaitClass::Device, ns, ns, 0);
    let (sda, file) = (script.names.intern("sda"), script.names.intern(file));
    let Some(wait) = script.batch.waits.last_mut() else { return };
    wait.start_ns = START_NS + at;
    (wait.syscall, wait.device, wait.file) = (Some(call), Some(sda), Some(file));
}

/// Eight clients that commit nearly all the time, for `each` nanoseconds per commit; one write in
/// sixteen is slow.
fn commits(each: u64) -> Script {
    let mut script = Script::new(10);
    for turn in 0..(9_800 * MS / each) {
        let at = turn * each;
        let slow = turn % 16 == 0;
        let d2c = if slow { 93 * MS } else { 126_000 };
        let write = script.write("sda", 8192).by(100, "postgres").at(at as i64);
        write.sector(turn * 16).file(WAL).direct(300, 700, d2c).add();
        wait(&mut script, (100 + (turn % 8) as u32, "postgres"), FDATASYNC, WAL, at, each);
    }
    script
}

/// The finding of one bottleneck, whether or not a cause explains it.
fn judged(script: &Script, id: &str) -> Option<Finding> {
    let summary = script.summary();
    let facts = Facts::new(&summary);
    match (rule_of(id).unwrap().judge)(&facts) {
        RuleVerdict::Finding(found) => {
            let found = found.of_rule(rule_of(id).unwrap());
            Some(found.complete(FindingLayer::Bottleneck, &facts))
        }
        _ => None,
    }
}

fn severity(script: &Script, id: &str) -> Option<Severity> {
    judged(script, id).map(|finding| finding.severity)
}

fn first(diagnosis: &Diagnosis) -> &Finding {
    diagnosis.findings.first().unwrap()
}

fn of<'a>(diagnosis: &'a Diagnosis, id: &str) -> Option<&'a Finding> {
    diagnosis.findings.iter().find(|finding| finding.cause == id)
}

#[test]
fn slow_commits_of_a_database_are_named() {
    let found = judged(&commits(12 * MS), "slow-sync").unwrap();
    assert_eq!((found.severity, found.layer), (Severity::Critical, FindingLayer::Bottleneck));
    assert!(found.impact > 0.95, "{found:#?}");
    let subject = &found.subject;
    assert_eq!(subject.process.as_deref(), Some("postgres"));
    assert_eq!((subject.pid, subject.file.as_deref()), (None, Some(WAL)));
    let sentence = &found.sentence;
    for word in ["8 processes of postgres wait in fdatasync", "write-ahead log", "on sda"] {
        assert!(sentence.contains(word), "{sentence}");
    }
    assert!(found.fix.contains("pg_wal on its own"), "{}", found.fix);
    let modes = found.evidence.iter().find(|evidence| evidence.what.contains("or 9")).unwrap();
    assert!((5.0..8.0).contains(&modes.figure), "{modes:?}");
}

#[test]
fn reads_behind_its_own_are_said() {
    const IO_URING_ENTER: u32 = 426;
    let found = |in_flight: u64, origin: Origin, ahead: u32| {
        let mut script = Script::new(10);
        let file = "/var/lib/mysql/shop/orders.ibd";
        for turn in 0..98_u64 {
            let at = turn * 100 * MS;
            for place in 0..in_flight {
                let read = script.read("sda", 16_384).by(100, "mariadbd").at(at as i64);
                let read = read.sector(place * 7919 + turn * 64).origin(origin);
                read.direct(300, 700, 99 * MS).add();
            }
            wait(&mut script, (100, "mariadbd"), PREAD, file, at, 99 * MS);
            wait(&mut script, (100, "mariadbd"), ahead, file, at, MS);
        }
        judged(&script, "slow-reads").unwrap()
    };
    let behind = found(60, Origin::Read, IO_URING_ENTER);
    let said = "mariadbd has 57 other reads in flight, for which no thread waits";
    assert!(behind.sentence.contains(said), "{}", behind.sentence);
    assert!(behind.fix.contains("innodb_buffer_pool_load_abort"), "{}", behind.fix);
    let few = found(4, Origin::Read, IO_URING_ENTER);
    let of_kernel = found(60, Origin::Readahead, IO_URING_ENTER);
    let parts = found(60, Origin::Read, PREAD);
    for other in [few, of_kernel, parts] {
        assert!(!other.sentence.contains("in flight"), "{}", other.sentence);
    }
}

#[test]
fn syncs_are_slow_from_five_milliseconds_on() {
    let severity = |each: u64| severity(&commits(each), "slow-sync");
    assert_eq!(severity(SLOW_SYNC_NS as u64 + MS / 10), Some(Severity::Critical));
    assert!(
        severity(SLOW_SYNC_NS as u64 - MS / 10).is_none_or(|severity| severity == Severity::Info)
    );
}

/// Two clients that commit concurrently, 2 ms each, with this many pages of a checkpoint every 2
/// ms.
fn beside(pages: u64) -> Script {
    let mut script = Script::new(10);
    for turn in 0..4_950 {
        let at = turn * 2 * MS;
        for client in 0..2 {
            let write = script.write("sda", 8192).by(100 + client, "postgres").at(at as i64);
            write
                .sector(turn * 64 + u64::from(client) * 16)
                .file(WAL)
                .direct(0, 0, 1_900_000)
                .add();
            wait(&mut script, (100 + client, "postgres"), FDATASYNC, WAL, at, 2 * MS);
        }
        for page in 0..pages {
            let write = script.write("sda", 8192).by(90, "postgres").at(at as i64);
            let write = write.sector((1 << 30) + (turn * 7919 + page) * 16).file("/db/base/1/2");
            write.direct(0, 0, 1_900_000).add();
        }
    }
    script
}

#[test]
fn commits_that_have_the_device_to_themselves_are_well() {
    assert_eq!(severity(&beside(0), "slow-sync"), Some(Severity::Info));
    assert_eq!(severity(&beside(1), "slow-sync"), Some(Severity::Info));
    assert_eq!(severity(&beside(3), "slow-sync"), Some(Severity::Critical));
    // The journal's pages are written for the commits, other files' are not.
    let with = |origin| {
        let mut script = beside(3);
        let data = script.names.intern("/db/base/1/2");
        let parts = script.batch.parts.iter().filter(|part| part.file == Some(data));
        let own: Vec<u64> = parts.map(|part| part.request_id).collect();
        let requests = script.batch.requests.iter_mut();
        requests
            .filter(|request| own.contains(&request.request_id))
            .for_each(|request| request.origin = origin);
        severity(&script, "slow-sync")
    };
    assert_eq!(with(Origin::Journal), Some(Severity::Info));
    assert_eq!(with(Origin::Writeback), Some(Severity::Critical));
}

/// A sort that reads its temporary file, 2 ms per read, with `depth` requests in flight.
fn sort(file: &str, depth: u64) -> Script {
    let mut script = Script::new(10);
    for turn in 0..4_950 {
        let at = turn * 2 * MS;
        for request in 0..depth {
            let read = script.read("sda", 65_536).by(7, "postgres").at(at as i64);
            let sector = (turn * depth + request) * 7919 * 4099 % (1 << 30) * 128;
            read.sector(sector).file(file).direct(0, 0, 1_900_000).add();
        }
        wait(&mut script, (7, "postgres"), PREAD, file, at, 2 * MS);
    }
    script
}

#[test]
fn a_sort_that_fills_the_device_with_its_temporary_files_is_slow() {
    let temporary = "/db/base/pgsql_tmp/pgsql_tmp7.0";
    assert!(severity(&sort(temporary, 4), "slow-reads") > Some(Severity::Info));
    assert_eq!(severity(&sort(temporary, 1), "slow-reads"), Some(Severity::Info));
    assert_eq!(severity(&sort("/db/base/1/2", 4), "slow-reads"), Some(Severity::Info));
}

/// Readers that wait `each` nanoseconds per read, on a device with `depth` requests in flight.
fn readers(each: u64, depth: u64) -> Script {
    let mut script = Script::new(10);
    for turn in 0..(9_900 * MS / each) {
        for reader in 0..depth {
            let (at, pid) = (turn * each, 200 + reader as u32);
            let read = script.read("sda", 65_536).by(pid, "backend").at(at as i64);
            // Random addresses: no rule for patterns fits.
            let sector = (turn * depth + reader) * 7919 * 4099 % (1 << 30) * 128;
            read.sector(sector).direct(500, 500, each - 1000).add();
            wait(&mut script, (pid, "backend"), PREAD, "/data/table", at, each);
        }
    }
    script
}

#[test]
fn reads_are_slow_by_themselves_or_behind_each_other() {
    let severity = |each: u64, depth: u64| severity(&readers(each, depth), "slow-reads");
    assert_eq!(severity(SLOW_NS as u64 + MS, 1), Some(Severity::Critical));
    assert!(severity(SLOW_NS as u64 - MS, 1).is_none_or(|severity| severity == Severity::Info));
    // Four at once: the device is saturated, and each waits for the others.
    assert_eq!(severity(FELT_NS as u64 + MS / 10, 4), Some(Severity::Critical));
    assert!(
        severity(FELT_NS as u64 - MS / 10, 4).is_none_or(|severity| severity == Severity::Info)
    );
}

#[test]
fn a_saturated_device_is_said_once() {
    let diagnosis = diagnose(&readers(2 * MS, 4).summary());
    assert_eq!(of(&diagnosis, "device-saturated"), None, "{:#?}", diagnosis.findings);
    let bound = &judged(&readers(2 * MS, 4), "slow-reads").unwrap().evidence[0];
    assert!(bound.what.contains("saturated"), "{bound:?}");
}

#[test]
fn a_capture_without_waits_tells_of_its_device() {
    let mut script = readers(12 * MS, 4);
    script.batch.waits.clear();
    let found = judged(&script, "device-saturated").unwrap();
    assert!(found.severity > Severity::Info, "{found:#?}");
    assert!(found.sentence.contains("busy 99 %"), "{}", found.sentence);
    assert_eq!(diagnose(&script.summary()).quiet, None);
}

#[test]
fn nothing_waits_is_said_where_nothing_does() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(7, "cat").direct(0, 0, 50_000).add();
    wait(&mut script, (7, "cat"), PREAD, "/etc/hosts", 0, 60_000);
    let quiet = diagnose(&script.summary()).quiet.unwrap();
    assert!(quiet.starts_with("Threads hardly wait for storage: 60.0 µs"), "{quiet}");
    // Threads wait, but never for long.
    let diagnosis = diagnose(&readers(MS / 4, 1).summary());
    let quiet = diagnosis.quiet.as_ref().unwrap();
    assert!(quiet.starts_with("backend waits 99 % of the time in pread64, 250 µs each"), "{quiet}");
    assert_eq!(first(&diagnosis).layer, FindingLayer::Bottleneck);
}

#[test]
fn who_is_as_fast_as_its_device_hears_how_to_do_less() {
    let quiet = |name: &'static str, share: u64| {
        let mut script = Script::new(10);
        script.read("sda", 4096).by(7, name).direct(0, 0, 50_000).add();
        for _ in 0..share * 1000 {
            wait(&mut script, (7, name), PREAD, "/srv/photos/1", MS / 10, MS / 10);
        }
        diagnose(&script.summary()).quiet.unwrap()
    };
    assert!(quiet("rsync", 90).contains(". What helps: rsync reads whole files"));
    assert!(!quiet("rsync", 30).contains("What helps"), "it does something else");
    assert!(!quiet("tool", 90).contains("What helps"), "nothing is known of it");
    assert!(quiet("squid", 90).contains(". What helps: Squid: a `cache_dir ufs`"));
}

#[test]
fn copies_beside_background_work_are_as_fast_as_their_device() {
    let severity = |name: &'static str| {
        let mut script = Script::new(10);
        for turn in 0..400_u64 {
            let read = script.read("sda", 1 << 20).by(7, "rsync").at((turn * 25 * MS) as i64);
            read.sector(turn * 2048).direct(0, 0, 24 * MS).add();
            wait(&mut script, (7, "rsync"), PREAD, "/srv/mirror/1", 24 * MS, 24 * MS);
            wait(&mut script, (8, name), PREAD, "/srv/photos/1", 24 * MS, 24 * MS);
        }
        diagnose(&script.summary()).findings.iter().map(|finding| finding.severity).max()
    };
    assert_eq!(severity("restic"), Some(Severity::Info));
    assert!(severity("shop") > Some(Severity::Info), "who is no background waits behind it");
}

#[test]
fn a_cause_takes_the_place_of_what_it_explains() {
    let mut script = commits(12 * MS);
    for turn in 0..700_u64 {
        let flush = script.request("sda", iowhy_model::Operation::Flush);
        flush.by(100, "postgres").at((turn * 14 * MS) as i64).direct(300, 700, 11 * MS).add();
    }
    let diagnosis = diagnose(&script.summary());
    let found = of(&diagnosis, "flush-cost").unwrap();
    assert_eq!(of(&diagnosis, "slow-sync"), None);
    assert!(found.bottlenecks.contains(&"slow-sync"), "{found:#?}");
    assert!(found.waits.as_ref().unwrap().contains("8 processes of postgres wait"), "{found:#?}");
    assert_eq!(found.subject.file.as_deref(), Some(WAL));
}

#[test]
fn a_paced_writer_is_no_warning() {
    let mut script = Script::new(10);
    for turn in 0..90_u64 {
        let at = turn * 100 * MS;
        let write = script.write("sda", 1 << 20).by(9, "kworker/u8:1").at(at as i64);
        write.sector(turn * 2048).direct(500, 500, 20 * MS).add();
        wait(&mut script, (7, "dd"), 1, "/backup", at, 90 * MS);
        let last = script.batch.waits.last_mut().unwrap();
        (last.class, last.device_ns) = (WaitClass::DirtyThrottle, 0);
    }
    assert!(severity(&script, "slow-writes").is_none_or(|severity| severity == Severity::Info));
}

#[test]
fn the_mapped_file_that_faults_read_is_named() {
    let found = |others: u64| {
        let mut script = Script::new(10);
        for index in 0..200_u64 {
            let file = if index < others { "/data/other" } else { "/data/train" };
            let read = script.read("sda", 131_072).by(7, "python").at(index as i64 * 40_000_000);
            let read = read.origin(Origin::PageFault).sector(index * 7919 * 256);
            read.file_at(file, index * 7919 * 131_072).direct(0, 0, 35 * MS).add();
            script.wait((7, "python"), WaitClass::PageFault, 35 * MS, 35 * MS, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
        }
        judged(&script, "slow-reads").unwrap().sentence
    };
    assert!(found(20).contains("waits for reads of /data/train on sda"), "{}", found(20));
    assert!(found(100).contains("waits for reads on sda"), "no file has most: {}", found(100));
}

#[test]
fn faults_at_random_places_may_read_less() {
    let found = |apart: u64| {
        let mut script = Script::new(10);
        for index in 0..200_u64 {
            let at = index * apart * 131_072;
            let read = script.read("sda", 131_072).by(7, "python").at(index as i64 * 40_000_000);
            let read = read.origin(Origin::PageFault).sector(at / 512);
            read.file_at("/data/train", at).direct(0, 0, 35 * MS).add();
            script.wait((7, "python"), WaitClass::PageFault, 35 * MS, 35 * MS, 0);
            let sda = script.names.intern("sda");
            script.batch.waits.last_mut().unwrap().device = Some(sda);
        }
        judged(&script, "slow-reads").unwrap().fix
    };
    assert!(found(7919).starts_with("each fault reads 32 pages"), "{}", found(7919));
    assert!(!found(1).contains("each fault"), "a scan in order: {}", found(1));
}

/// A program that a person waits for at a terminal, or not, reads 64 KiB every 4 ms for 3 ms each,
/// `apart` sectors apart.
fn read_at_a_terminal(terminal: f64, apart: u64) -> Option<Severity> {
    let mut script = Script::new(10);
    for index in 0..2000 {
        let read = script.read("sda", 65_536).by(7, "mutt").at((index * 4 * MS) as i64);
        read.sector(index * apart).file("/mail/1").direct(500, 500, 3 * MS - 1000).add();
        script.wait((7, "mutt"), WaitClass::PageRead, 3 * MS, 3 * MS, 0);
        let sda = script.names.intern("sda");
        let wait = script.batch.waits.last_mut().unwrap();
        wait.start_ns += index * 4 * MS;
        (wait.device, wait.syscall) = (Some(sda), Some(0));
    }
    script.sample(1, Metric::WorkTerminal, &process_subject(7, "mutt"), terminal);
    severity(&script, "slow-reads")
}

#[test]
fn a_person_who_waits_for_reads_in_no_order_is_held_up() {
    assert_eq!(read_at_a_terminal(1.0, 79_192), Some(Severity::Warning));
    assert_eq!(read_at_a_terminal(0.0, 79_192), Some(Severity::Info));
    assert_eq!(read_at_a_terminal(1.0, 128), Some(Severity::Info), "a copy at the disk's pace");
}

#[test]
fn scripts_that_use_different_folders_are_different_programs() {
    let sentence = |name: &str, files: [&str; 2]| {
        let mut script = Script::new(10);
        for turn in 0..200_u64 {
            for (pid, file) in (7..).zip(files) {
                let at = turn * 50 * MS;
                let read = script.read("sda", 4096).by(pid, name).at(at as i64);
                read.sector(turn * 7919 + u64::from(pid) * 8).direct(0, 0, 40 * MS).add();
                wait(&mut script, (pid, name), PREAD, file, at, (50 - u64::from(pid)) * MS);
            }
        }
        judged(&script, "slow-reads").unwrap().sentence
    };
    let apart = sentence("git", ["/srv/a.git/pack", "/srv/b.git/pack"]);
    assert!(apart.starts_with("git (7) waits in pread64 for /srv/a.git/pack"), "{apart}");
    assert!(apart.ends_with("so does git (8)"), "{apart}");
    for (name, files) in [("git", ["/srv/a.git/1", "/srv/a.git/2"]), ("db", ["/srv/a/1", "/b/2"])] {
        let together = sentence(name, files);
        assert!(together.starts_with(&format!("2 processes of {name} wait")), "{together}");
    }
}
