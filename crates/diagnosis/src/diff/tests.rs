//! Comparisons of scripted watches whose right answers are known.

use super::*;
use crate::diagnose;
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::WaitClass;
use iowhy_model::cgroup::Cgroup;
use iowhy_model::environment::Device;
use iowhy_model::file::Counts;
use iowhy_model::script::Script;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn disk(name: &str, settings: &[(&str, &str)]) -> Device {
    let settings: std::collections::BTreeMap<String, String> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Device {
        name: name.to_owned(),
        major: 8,
        settings_start: settings.clone().into(),
        settings_end: settings.into(),
        ..Device::default()
    }
}

fn script(scheduler: &str) -> Script {
    let mut script = Script::new(10);
    *script.environment.devices =
        vec![disk("sda", &[("queue/scheduler", scheduler), ("queue/nr_requests", "64")])];
    script.environment.settings_start.insert("vm/dirty_ratio".to_owned(), "20".to_owned());
    script
}

/// `count` reads of `device`, one at a time of `jitter` nanoseconds apart or less; I2D or G2D and
/// D2C.
fn reads(script: &mut Script, device: &str, count: u64, bytes: u64, stages: (u64, u64, u64)) {
    let (i2d, g2d, d2c) = stages;
    for index in 0..count {
        let at = (index * 9_900_000_000 / count) as i64;
        let jitter = index * 7919 % 97 * d2c / 1000;
        let read = script.read(device, bytes).by(7, "db").at(at).sector(index * 7919 % 99_991 * 8);
        let read = match i2d {
            0 => read.direct(500, g2d, d2c + jitter),
            _ => read.scheduled(500, 400, i2d, d2c + jitter),
        };
        read.add();
    }
}

fn compared(a: &Script, b: &Script, mapped: &[(&str, &str)]) -> Comparison {
    let summaries = [a.summary(), b.summary()];
    let diagnoses = [diagnose(&summaries[0]), diagnose(&summaries[1])];
    let side = |at: usize| DiffSide {
        name: ["before", "after"][at],
        summary: &summaries[at],
        diagnosis: &diagnoses[at],
    };
    let mapped: Vec<(String, String)> =
        mapped.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    compare([side(0), side(1)], &mapped).unwrap()
}

#[test]
fn a_scheduler_shows_in_its_stage() {
    let (mut a, mut b) = (script("[none] mq-deadline"), script("none [mq-deadline]"));
    reads(&mut a, "sda", 900, 4096, (0, 2 * US, MS));
    reads(&mut b, "sda", 900, 4096, (6900 * US, 0, MS));
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::Moved, "{found:#?}");
    assert_eq!(
        found.sentence,
        "same load, 6.90 ms more in I2D for each read of sda in B: scheduler mq-deadline against \
         none"
    );
    let first = &found.times[0];
    assert_eq!((first.direction, first.foremost().unwrap().what), (Some("read"), "i2d"));
    assert!(first.foremost().unwrap().share > 0.99);
    assert!(!first.parts.iter().any(|part| part.what == "d2c" && part.moved));
    assert!(found.environment[0].explains && found.environment[0].name == "queue/scheduler");
    // In reverse order it is A's.
    let found = compared(&b, &a, &[]);
    assert!(
        found.sentence.contains("for each read of sda in A: scheduler mq-deadline against none")
    );
}

#[test]
fn the_parts_add_up_to_the_whole() {
    let (mut a, mut b) = (script("[none] bfq"), script("none [bfq]"));
    reads(&mut a, "sda", 500, 4096, (0, 2 * US, MS));
    reads(&mut b, "sda", 500, 4096, (300 * US, 0, 2 * MS));
    let found = compared(&a, &b, &[]);
    for group in found.times.iter().filter(|time| time.direction.is_some()) {
        for at in [0, 1] {
            let sum: f64 = group.parts.iter().map(|part| part.mean_ns[at]).sum();
            assert!((sum - group.whole.mean_ns[at]).abs() < 1.0, "{group:#?}");
        }
    }
    let shares: f64 = found.times.iter().flat_map(|time| &time.parts).map(|part| part.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

#[test]
fn equal_watches_do_not_differ() {
    let mut a = script("[none]");
    reads(&mut a, "sda", 900, 4096, (0, 2 * US, MS));
    let found = compared(&a, &a, &[]);
    assert_eq!(found.verdict, DiffVerdict::Same);
    assert!(found.environment.is_empty() && found.sentence.starts_with("same load, and no stage"));
    assert_eq!(found.loads[0].alike, LoadSimilarity::Same);
    // Nor do those that differ by less than two equal runs.
    let mut b = script("[none]");
    reads(&mut b, "sda", 860, 4096, (0, 2 * US, 1_080 * US));
    assert_eq!(compared(&a, &b, &[]).verdict, DiffVerdict::Same);
}

#[test]
fn another_load_is_not_compared() {
    let (mut a, mut b) = (script("[none] bfq"), script("none [bfq]"));
    reads(&mut a, "sda", 900, 4096, (0, 2 * US, MS));
    reads(&mut b, "sda", 900, 1 << 20, (5 * MS, 0, 9 * MS));
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::LoadDiffers, "{found:#?}");
    assert!(found.sentence.contains("reads of 4.00 KiB against 1.00 MiB"), "{}", found.sentence);
}

#[test]
fn a_fix_that_changes_the_load_shows_in_the_time_for_each_write() {
    // Syncs after each write, then after each sixteenth: larger requests, another load.
    let mut watches = [(4096_u64, 1_000_u64), (65_536, 63)].map(|(bytes, syncs)| {
        let mut script = script("[none]");
        reads(&mut script, "sda", 900, bytes, (0, 2 * US, MS));
        let counts = Counts {
            writes: 1_000,
            fsyncs: syncs,
            timed_calls: 1_000 + syncs,
            write_ns: 5 * MS,
            fsync_ns: syncs * MS,
            ..Counts::default()
        };
        script.did((7, "db"), "/srv/log", counts);
        script
    });
    let [a, b] = &watches;
    let found = compared(a, b, &[]);
    assert_eq!(found.verdict, DiffVerdict::LoadDiffers, "{found:#?}");
    assert_eq!(found.work[0].calls, [1_000, 1_000]);
    let gained = "db is 14.8 times faster in B, 68.0 \u{b5}s for each write against 1.00 ms";
    assert!(found.sentence.ends_with(gained), "{}", found.sentence);
    // Times that are alike in both do not count as a gain.
    let same = compared(a, a, &[]);
    assert!(same.work.iter().all(|row| !row.differs), "{:#?}", same.work);
    watches[1].batch.files.clear();
    let [a, b] = &watches;
    assert!(compared(a, b, &[]).sentence.starts_with("the loads differ too much"));
}

#[test]
fn few_requests_are_not_enough() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 900, 4096, (0, 2 * US, MS));
    reads(&mut b, "sda", 12, 4096, (0, 2 * US, 9 * MS));
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::NotEnough, "{found:#?}");
    assert!(found.doubts.iter().any(|doubt| doubt.contains("900 against 12 read requests of sda")));
    let found = compared(&Script::new(10), &b, &[]);
    assert_eq!((found.verdict, found.loads.len()), (DiffVerdict::NotEnough, 0));
}

#[test]
fn a_drive_differs_from_its_sibling_in_the_tail() {
    let mut both = script("[none]");
    both.environment.devices.push(disk("sdb", &[("queue/scheduler", "[none]")]));
    for index in 0..2_000_u64 {
        let at = (index * 4_900_000) as i64;
        let jitter = index * 7919 % 97 * US;
        let slow = if index % 100 == 50 { 300 * MS } else { 0 };
        let sector = index * 7919 % 99_991 * 8;
        both.read("sda", 4096)
            .by(7, "db")
            .at(at)
            .sector(sector)
            .direct(500, US, 8 * MS + jitter)
            .add();
        let of_b = both.read("sdb", 4096).by(7, "db").at(at).sector(sector);
        of_b.direct(500, US, 8 * MS + jitter + slow).add();
    }
    let found = compared(&both, &both, &[("sda", "/dev/sdb")]);
    assert_eq!(found.verdict, DiffVerdict::Moved, "{found:#?}");
    assert!(
        found.sentence.contains("in D2C for each read of sdb than of sda, in the tail (p99.9 30")
    );
    assert_eq!(found.times[0].devices, ["sda", "sdb"].map(str::to_owned));
    let missing = {
        let summary = both.summary();
        let diagnosis = diagnose(&summary);
        let side = DiffSide { name: "it", summary: &summary, diagnosis: &diagnosis };
        compare([side, side], &[("sda".to_owned(), "sdz".to_owned())]).unwrap_err()
    };
    assert_eq!((missing.which, missing.known.len()), (SideName::B, 2));
}

#[test]
fn waits_before_the_queue_lead_where_requests_do_not_differ() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 4000, 4096, (0, US, 2 * MS));
    reads(&mut b, "sda", 400, 4096, (0, US, 2 * MS));
    a.wait((7, "db"), WaitClass::Device, 8_000 * MS, 8_000 * MS, 0);
    b.wait((7, "db"), WaitClass::CgroupThrottle, 9_000 * MS, 800 * MS, 0);
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::Moved, "{found:#?}");
    assert!(
        found.sentence.contains("20.5 ms more of waits (cgroup limit) for each request in B"),
        "{}",
        found.sentence
    );
}

#[test]
fn what_one_side_lacks_is_said() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 900, 4096, (0, 2 * US, MS));
    a.wait((7, "db"), WaitClass::Device, 8_000 * MS, 8_000 * MS, 0);
    for index in 0..900 {
        b.read("sda", 4096)
            .at(index * 10_000_000)
            .sector(index as u64 * 7919 * 8)
            .issued(3 * MS)
            .add();
    }
    b.environment.losses.add("ring", 40, "requests that have no record", true);
    b.environment.kernel = "5.10.1".to_owned();
    b.environment.settings_start.clear();
    let found = compared(&a, &b, &[]);
    for part in [
        "B: lost: 40 requests that have no record",
        "not in B, and not compared: waits of threads, processes, settings, times before the issue",
    ] {
        assert!(
            found.doubts.iter().any(|doubt| doubt.contains(part)),
            "{part}: {:#?}",
            found.doubts
        );
    }
    // The device's time is in both.
    assert!(found.sentence.contains("more in D2C"), "{}", found.sentence);
    assert!(found.sentence.contains("kernel 5.10.1 against 6.18.44"), "{}", found.sentence);
}

#[test]
fn the_slowest_may_differ_alone() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 4000, 4096, (0, US, 8 * MS));
    reads(&mut b, "sda", 3990, 4096, (0, US, 8 * MS));
    for index in 0..10 {
        let at = index * 900 * MS as i64;
        b.read("sda", 4096).by(7, "db").at(at).sector(77).direct(500, US, 150 * MS).add();
    }
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::TailDiffers, "{found:#?}");
    assert!(
        found.sentence.contains("the slowest differ: in D2C 0.1 % take 150 ms"),
        "{}",
        found.sentence
    );
    assert!(found.sentence.ends_with("for each read of sda in B"), "{}", found.sentence);
}

#[test]
fn a_stall_is_no_equal_time() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 900, 4096, (0, US, MS));
    reads(&mut b, "sda", 900, 4096, (0, US, MS));
    b.environment.end_ns += 5_000 * MS;
    let read = b.read("sda", 4096).by(7, "db").at(9_950 * MS as i64);
    read.status(iowhy_model::Status::InFlight).add();
    let found = compared(&a, &b, &[]);
    assert_eq!(found.verdict, DiffVerdict::Stalled, "{found:#?}");
    assert!(
        found.sentence.starts_with("sda completed nothing in the last 5.0"),
        "{}",
        found.sentence
    );
}

fn limited(path: &str, settings: &[(&str, &str)]) -> Cgroup {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Cgroup { path: path.to_owned(), settings_start: settings.collect(), ..Cgroup::default() }
}

#[test]
fn a_limit_of_a_cgroup_stands_beside_its_waits() {
    let (mut a, mut b) = (script("[none]"), script("[none]"));
    reads(&mut a, "sda", 4000, 4096, (0, US, 2 * MS));
    reads(&mut b, "sda", 400, 4096, (0, US, 2 * MS));
    a.wait((7, "db"), WaitClass::Device, 8_000 * MS, 8_000 * MS, 0);
    b.wait((7, "db"), WaitClass::CgroupThrottle, 9_000 * MS, 800 * MS, 0);
    // One with v1's files, the other with v2's.
    *a.environment.cgroups = vec![
        limited("/", &[("cpu.cfs_quota_us", "-1"), ("cpu.cfs_period_us", "100000")]),
        limited("/db", &[("blkio.throttle.read_iops_device", ""), ("cpu.cfs_quota_us", "-1")]),
    ];
    *b.environment.cgroups = vec![limited(
        "/db",
        &[
            (
                "io.max",
                "8:0 rbps=max wbps=max riops=40 wiops=max; 8:16 rbps=max wbps=1048576 riops=max \
                 wiops=max",
            ),
            ("cpu.max", "150000 100000"),
        ],
    )];
    let found = compared(&a, &b, &[]);
    let listed: Vec<(&str, Option<&str>, bool)> = found
        .environment
        .iter()
        .map(|difference| {
            (difference.name.as_str(), difference.values[1].as_deref(), difference.explains)
        })
        .collect();
    assert_eq!(
        listed,
        [
            ("I/O limit of cgroup /db", Some("40 reads/s"), true),
            ("limit on 8:16 of cgroup /db", Some("write 1.00 MiB/s"), true),
            ("CPU limit of cgroup /db", Some("1.50 CPUs"), false),
        ]
    );
    assert!(
        found.sentence.contains("I/O limit of cgroup /db 40 reads/s against none"),
        "{}",
        found.sentence
    );
    // A side that did not read limits has no differences.
    a.environment.cgroups.clear();
    assert!(compared(&a, &b, &[]).environment.is_empty());
}
