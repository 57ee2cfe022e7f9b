//! Watches with known changes over time, and noise without any.

use super::*;
use iowhy_analysis::Summarizer;
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::script::{MS, S, START_NS, Script, thinned};
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Operation};

/// Reproducible pseudo-random numbers.
struct TestNumbers(u64);

impl TestNumbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn found(script: &Script) -> OverTime {
    over_time(&script.summary())
}

/// Reads of sda from `from_ns` on, one every `every_ns`, each `takes_ns` long.
fn reads(script: &mut Script, (from_ns, to_ns): (u64, u64), every_ns: u64, takes_ns: u64) {
    for at in (from_ns..to_ns).step_by(every_ns as usize) {
        let sector = at / 1000 % 99_991 * 8;
        let read = script.read("sda", 4096).by(7, "db").at(at as i64).sector(sector);
        read.direct(500, 500, takes_ns).add();
    }
}

#[test]
fn a_knee_is_found_where_it_is() {
    let mut script = Script::new(10);
    reads(&mut script, (0, 6 * S), 2 * MS, MS);
    reads(&mut script, (6 * S, 10 * S), 10 * MS, 9 * MS);
    let over_time = found(&script);
    let [change] = over_time.changes.as_slice() else { panic!("{over_time:#?}") };
    assert_eq!((change.device.as_str(), change.kind), ("sda", ChangeKind::Slower));
    assert!(change.at_ns.abs_diff(6 * S) <= 400 * MS, "{change:#?}");
    assert!((95.0..106.0).contains(&change.after.requests_per_s), "{change:#?}");
    assert_eq!(change.after.flat_at, Some(100.0), "{change:#?}");
    assert!(change.sentence.starts_with("sda is slower from 6.0"), "{}", change.sentence);
}

#[test]
fn a_load_that_ends_is_no_slow_device() {
    let mut script = Script::new(10);
    reads(&mut script, (0, 5 * S), 2 * MS, MS);
    reads(&mut script, (5 * S, 10 * S), 20 * MS, MS);
    let over_time = found(&script);
    assert_eq!(over_time.changes.len(), 1, "{over_time:#?}");
    assert_eq!(over_time.changes[0].kind, ChangeKind::AskedLess);
    // A load that only starts in the middle has one level.
    let mut script = Script::new(10);
    reads(&mut script, (5 * S, 10 * S), 2 * MS, MS);
    assert_eq!(found(&script), OverTime::default());
}

#[test]
fn a_time_that_grows_at_the_same_rate_is_a_slower_device() {
    let mut script = Script::new(20);
    reads(&mut script, (0, 8 * S), 5 * MS, MS);
    reads(&mut script, (8 * S, 14 * S), 5 * MS, 4 * MS);
    reads(&mut script, (14 * S, 20 * S), 5 * MS, MS);
    let kinds: Vec<ChangeKind> = found(&script).changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Slower, ChangeKind::Faster]);
}

#[test]
fn noise_has_neither_knees_nor_a_rhythm() {
    for seed in 0..40 {
        let mut dice = TestNumbers(seed * 7919 + 1);
        let mut script = Script::new(10);
        let mut at = 0;
        // Drifting rates and times, random bursts, pauses.
        let mut pace = 2 * MS;
        while at < 10 * S {
            pace = (pace * (90 + dice.below(21)) / 100).clamp(MS, 4 * MS);
            at +=
                dice.below(2 * pace) + if dice.below(400) == 0 { dice.below(300 * MS) } else { 0 };
            let takes = MS / 4 + dice.below(MS) + if dice.below(50) == 0 { 20 * MS } else { 0 };
            let burst = if dice.below(100) == 0 { 1 << 20 } else { 4096 };
            let read = script.read("sda", burst).by(7, "db").at(at as i64);
            read.sector(dice.below(1 << 30)).direct(500, 500, takes).add();
        }
        let over_time = found(&script);
        assert!(over_time.changes.is_empty(), "{seed}: {:#?}", over_time.changes);
        assert!(over_time.bursts.is_empty(), "{seed}: {:#?}", over_time.bursts);
    }
}

/// Writes of 4 MiB by cadvisor every `period_ns`, concurrent with steady reads of a database.
fn bursts(seconds: u64, period_ns: u64) -> Script {
    let mut script = Script::new(seconds);
    reads(&mut script, (0, seconds * S), 4 * MS, MS);
    for at in (300 * MS..seconds * S).step_by(period_ns as usize) {
        for part in 0..16 {
            let write = script.write("sda", 1 << 18).at((at + part * 8 * MS) as i64);
            let sector = (1 << 24) + (at / MS + part) * 512;
            write
                .sector(sector)
                .by(42, "cadvisor")
                .file("/var/lib/cadvisor.db")
                .direct(500, 500, 5 * MS)
                .add();
        }
    }
    script
}

#[test]
fn bursts_have_a_period_and_an_owner() {
    let over_time = found(&bursts(10, 2 * S));
    let [burst] = over_time.bursts.as_slice() else { panic!("{over_time:#?}") };
    assert_eq!((burst.process.as_str(), burst.pid), ("cadvisor", Some(42)));
    assert_eq!(burst.file.as_deref(), Some("/var/lib/cadvisor.db"));
    assert!(burst.period_ns.abs_diff(2 * S) < 200 * MS, "{burst:#?}");
    assert_eq!((burst.bursts, over_time.not_enough.len()), (5, 0));
}

#[test]
fn an_even_pace_is_no_burst() {
    for every_ns in [7 * MS, 27 * MS, 100 * MS, 330 * MS] {
        let mut script = Script::new(10);
        reads(&mut script, (0, 10 * S), every_ns, MS);
        assert_eq!(found(&script).bursts, [], "{every_ns}");
    }
}

/// Returns what a budget would leave of a script, with the counters of its device each second.
fn thin(mut script: Script, one_in: u32) -> Script {
    let seconds = script.environment.duration_ns() / S;
    for second in 0..=seconds {
        for (operation, requests, bytes) in [
            (Operation::Read, Metric::Reads, Metric::ReadBytes),
            (Operation::Write, Metric::Writes, Metric::WriteBytes),
        ] {
            let until_ns = START_NS + second * S;
            let rows = script.batch.requests.iter().filter(|row| {
                row.operation == operation && row.start_ns + row.q2c_ns.unwrap_or(0) <= until_ns
            });
            let sums = rows.fold((0.0, 0.0), |sum, row| (sum.0 + 1.0, sum.1 + row.bytes as f64));
            script.counter(requests, "sda", second * S, sums.0);
            script.counter(bytes, "sda", second * S, sums.1);
        }
    }
    let batch = std::mem::take(&mut script.batch);
    script.batch = thinned(batch, &mut script.environment, one_in);
    script
}

/// Windows that were recorded are no bursts, and few of them in a second no change.
#[test]
fn a_thinned_even_load_has_neither_bursts_nor_changes() {
    for one_in in [2, 4, 8, 16, 32, 64] {
        for seconds in [10, 60] {
            let mut script = Script::new(seconds);
            reads(&mut script, (0, seconds * S), MS / 2, MS / 4);
            let found = found(&thin(script, one_in));
            assert_eq!(found, OverTime::default(), "1 of {one_in}, {seconds} s");
        }
    }
}

/// A period that windows can show is the right one, or none.
#[test]
fn a_thinned_period_is_the_right_one() {
    for (one_in, period_ns) in [(4, S), (8, 2 * S), (16, 4 * S), (64, S)] {
        let found = found(&thin(bursts(60, period_ns), one_in));
        for burst in &found.bursts {
            let ratio = burst.period_ns as f64 / period_ns as f64;
            assert!((ratio - 1.0).abs() < 0.1, "1 of {one_in}: {burst:?}");
        }
        assert!(one_in > 8 || !found.bursts.is_empty(), "1 of {one_in}: {found:?}");
    }
}

/// A step is where the kernel counted it, however few rows there are.
#[test]
fn a_step_of_a_thinned_watch_is_where_it_is() {
    for one_in in [8, 64] {
        let mut script = Script::new(120);
        reads(&mut script, (0, 60 * S), MS, MS / 2);
        reads(&mut script, (60 * S, 120 * S), 4 * MS, MS / 2);
        let found = found(&thin(script, one_in));
        let [change] = found.changes.as_slice() else { panic!("1 of {one_in}: {found:#?}") };
        assert_eq!(change.kind, ChangeKind::AskedLess);
        assert!(change.at_ns.abs_diff(60 * S) <= 4 * S, "{change:#?}");
        let rates = (change.before.requests_per_s, change.after.requests_per_s);
        assert!((rates.0 / 1000.0 - 1.0).abs() < 0.03, "{rates:?}");
        assert!((rates.1 / 250.0 - 1.0).abs() < 0.03, "{rates:?}");
    }
}

#[test]
fn two_periods_are_not_enough() {
    let over_time = found(&bursts(10, 4 * S));
    assert_eq!(over_time.bursts, []);
    assert_eq!(
        over_time.not_enough,
        ["3 bursts of cadvisor (42) on sda: a rhythm needs at least three periods"]
    );
}

/// Ten hours, slower after seven of them, in batches: memory use does not grow.
#[test]
fn ten_hours_fit() {
    let (hours, every_ns) = (10_u64, 200 * MS);
    let mut script = Script::new(hours * 3600);
    let mut summarizer = Summarizer::new(&script.environment);
    let mut request = 0;
    for second in 0..hours * 3600 {
        let takes = if second < 7 * 3600 { 2 * MS } else { 15 * MS };
        for at in (0..S).step_by(every_ns as usize) {
            request += 1;
            let owner = format!("job-{}", second % 500);
            let read = script.read("sda", 4096).at((second * S + at) as i64).by(9, &owner);
            read.sector(request * 7919 % 99_991 * 8).direct(500, 500, takes).add();
        }
        // Once a minute another process.
        if second % 60 == 30 {
            let write = script.write("sda", 1 << 20).by(3, "backup").at((second * S) as i64);
            write.sector(1 << 30).direct(500, 500, MS).add();
        }
        summarizer.add(&script.batch, &script.names);
        script.batch = Batch::default();
    }
    assert!(script.environment.end_ns > START_NS);
    let summary = summarizer.finish(&script.environment, &script.names);
    let patterns = &summary.patterns.devices[0];
    assert!(patterns.timeline.bins.len() <= 600 && patterns.owners.len() <= 8);
    assert!(patterns.owners.iter().all(|owner| owner.bytes.len() == patterns.timeline.bins.len()));
    let over_time = over_time(&summary);
    let [change] = over_time.changes.as_slice() else { panic!("{over_time:#?}") };
    assert_eq!(change.kind, ChangeKind::Slower);
    assert!(change.at_ns.abs_diff(7 * 3600 * S) < 20 * 60 * S, "{change:#?}");
}
