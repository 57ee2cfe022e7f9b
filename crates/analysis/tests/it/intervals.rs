//! A watch and its recording give the same intervals.

use iowhy_analysis::intervals::{Cutter, EndedInterval, WantedIntervals};
use iowhy_analysis::script::ScriptSummary;
use iowhy_analysis::{Summarizer, Summary};
use iowhy_model::metric::Metric;
use iowhy_model::recording::{RecordingReader, RecordingWriter, SegmentLimits};
use iowhy_model::script::{START_NS, Script};
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Names, Sample, Status, WaitClass};
use std::convert::Infallible;
use std::time::Duration;

const S: u64 = 1_000_000_000;

/// Segments that end only when a test asks, and row groups small enough that there are several.
const SMALL: SegmentLimits = SegmentLimits {
    group_rows: 100,
    group_bytes: 1 << 20,
    segment_bytes: usize::MAX,
    segment_age: Duration::MAX,
};

/// Ten seconds of a disk, with a request that takes four of them, waits, and samples each second.
fn script() -> Script {
    let mut script = Script::new(10);
    for index in 0..500_u64 {
        let at = (index * S / 51) as i64;
        let read = script.read("sda", 4096).by(7, "cat").at(at).sector(index * 8);
        read.file("/srv/data").direct(1_000, 2_000, 30_000_000 + index * 10_000).add();
    }
    script.read("sda", 512).at(2_500_000_000).direct(0, 0, 4 * S).add();
    script.read("sda", 512).at(9 * S as i64).status(Status::InFlight).add();
    for index in 0..40 {
        script.wait((7, "cat"), WaitClass::PageRead, 100_000_000 + index, 50_000_000, 1_000);
    }
    for (index, wait) in script.batch.waits.iter_mut().enumerate() {
        wait.start_ns = START_NS + index as u64 * S / 5;
    }
    for second in 0..=10 {
        sample(&mut script, Metric::Reads, "sda", second, second as f64 * 51.0);
        sample(&mut script, Metric::Dirty, "", second, (second % 4) as f64);
        let age =
            if (3..=6).contains(&second) { (second * S + 100_000) as f64 - 2.5e9 } else { 0.0 };
        sample(&mut script, Metric::UnderWayAge, "sda", second, age);
        sample(&mut script, Metric::OldestAge, "sda", second, age);
        sample(&mut script, Metric::OldestIssued, "sda", second, age);
    }
    script
}

fn sample(script: &mut Script, metric: Metric, subject: &str, second: u64, value: f64) {
    let info = metric.info();
    script.batch.samples.push(Sample {
        time_ns: START_NS + second * S + 100_000,
        scope: info.scope,
        subject: script.names.intern(subject),
        metric: script.names.intern(info.word),
        value,
    });
}

/// The rows that a live watch gives from one time to another, in its order.
fn between(script: &Script, from_ns: u64, to_ns: u64) -> Batch {
    let all = &script.batch;
    let is_now = |time_ns: u64| (from_ns..to_ns).contains(&(time_ns - START_NS));
    let mut batch = Batch::default();
    for (request, parts) in all.requests_with_parts() {
        let ended_ns = match request.status {
            Status::InFlight => START_NS + 10 * S - 1,
            _ => request.start_ns + request.q2c_ns.unwrap_or(0),
        };
        if is_now(ended_ns.min(START_NS + 10 * S - 1)) {
            batch.requests.push(request.clone());
            batch.parts.extend_from_slice(parts);
        }
    }
    let waits = all.waits.iter().filter(|wait| is_now(wait.start_ns + wait.duration_ns));
    batch.waits = waits.cloned().collect();
    let end_ns = if to_ns == 10 * S { u64::MAX } else { to_ns };
    let is_read = |sample: &&Sample| (from_ns..end_ns).contains(&(sample.time_ns - START_NS));
    batch.samples = all.samples.iter().filter(is_read).cloned().collect();
    batch
}

fn environment(script: &Script, finished: bool) -> Environment {
    let end_ns = if finished { script.environment.end_ns } else { 0 };
    Environment { end_ns, finished, ..script.environment.clone() }
}

type Shown = Vec<(u64, Summary)>;

fn cutter(wanted: WantedIntervals, now: &Environment) -> Cutter<Summarizer> {
    Cutter::new(Summarizer::new(now), wanted, now)
}

fn live(script: &Script, wanted: WantedIntervals) -> Shown {
    let now = environment(script, false);
    let mut cutter = cutter(wanted, &now);
    let mut shown = Vec::new();
    let mut each = |ended_interval: EndedInterval<Summary>| {
        shown.push((ended_interval.number, ended_interval.figures));
        Ok::<(), Infallible>(())
    };
    for tenth in 0..100 {
        let (from_ns, to_ns) = (tenth * S / 10, (tenth + 1) * S / 10);
        cutter.add(&between(script, from_ns, to_ns), &now, &script.names);
        cutter.close_until(START_NS + from_ns, &now, &script.names, &mut each).unwrap();
    }
    assert_eq!(cutter.late(), 0);
    cutter.finish(&environment(script, true), &script.names, &mut each).unwrap();
    shown
}

fn recorded(script: &Script, wanted: WantedIntervals) -> Shown {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("recording");
    let mut writer =
        RecordingWriter::with_limits(&directory, &environment(script, false), SMALL).unwrap();
    for third in 0..4 {
        let (from_ns, to_ns) = (third * 3 * S, ((third + 1) * 3 * S).min(10 * S));
        writer.add(&between(script, from_ns, to_ns), &script.names).unwrap();
        writer.rotate(&script.names).unwrap();
    }
    writer.finish(&mut environment(script, true), &script.names).unwrap();
    let mut reader = RecordingReader::open(&directory).unwrap();
    let mut cutter = cutter(wanted, reader.environment());
    let (mut names, mut batch, mut shown) = (Names::new(), Batch::default(), Vec::new());
    let mut each = |ended_interval: EndedInterval<Summary>| {
        shown.push((ended_interval.number, ended_interval.figures));
        Ok::<(), Infallible>(())
    };
    loop {
        batch.clear();
        let progress = reader.fill(&mut batch, &mut names).unwrap();
        cutter.add(&batch, reader.environment(), &names);
        if reader.is_between_rounds() {
            let until_ns = cutter.latest_ns() - S;
            cutter.close_until(until_ns, reader.environment(), &names, &mut each).unwrap();
        }
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(cutter.late(), 0);
    cutter.finish(reader.environment(), &names, &mut each).unwrap();
    shown
}

#[test]
fn a_watch_and_its_recording_give_the_same_intervals() {
    let script = script();
    for every_ns in [Some(S), Some(2 * S), Some(3 * S), None] {
        let wanted = WantedIntervals {
            every_ns,
            count: every_ns.map(|every_ns| (10 * S).div_ceil(every_ns)),
        };
        let (live, recorded) = (live(&script, wanted), recorded(&script, wanted));
        assert_eq!(live.len(), recorded.len(), "{every_ns:?}");
        for ((number, live), (_, recorded)) in live.iter().zip(&recorded) {
            let figures = |summary: &Summary| {
                let Summary { watch, ledger, samples, devices, processes, files, .. } =
                    summary.clone();
                (watch.requests, ledger, samples, devices, processes, files)
            };
            assert_eq!(figures(live), figures(recorded), "interval {number} of {every_ns:?}");
        }
    }
}

/// Counters are read each second: their change within shorter intervals is not known.
#[test]
fn intervals_shorter_than_the_time_between_looks_know_no_rates() {
    let script = script();
    let rates = |every_ns: u64| -> Vec<Option<f64>> {
        let wanted = WantedIntervals { every_ns: Some(every_ns), count: Some(10 * S / every_ns) };
        let of = |summary: &Summary| {
            summary.samples.get(Metric::Reads, "sda").and_then(|sample| sample.mean)
        };
        recorded(&script, wanted).iter().map(|(_, summary)| of(summary)).collect()
    };
    assert_eq!(rates(S), [Some(51.0); 10]);
    let short = rates(S / 5);
    assert_eq!((short.len(), short.iter().flatten().count()), (50, 0), "{short:?}");
}

#[test]
fn intervals_add_up_to_the_whole() {
    let script = script();
    let whole = script.summary();
    let shown = live(&script, WantedIntervals { every_ns: Some(S), count: Some(10) });
    let sum = |of: fn(&Summary) -> u64| shown.iter().map(|(_, summary)| of(summary)).sum::<u64>();
    assert_eq!(sum(|summary| summary.watch.requests), whole.watch.requests);
    assert_eq!(sum(|summary| summary.watch.bytes), whole.watch.bytes);
    let blocked = |summary: &Summary| summary.ledger.as_ref().map_or(0, |ledger| ledger.blocked_ns);
    assert_eq!(sum(blocked), blocked(&whole));
    let in_flight: f64 = shown.iter().map(|(_, summary)| summary.devices[0].in_flight_mean).sum();
    let share = in_flight / 10.0 / whole.devices[0].in_flight_mean;
    assert!((0.999..1.001).contains(&share), "{share}");
}

#[test]
fn a_request_that_hangs_is_seen_while_it_hangs() {
    let script = script();
    let shown = live(&script, WantedIntervals { every_ns: Some(S), count: Some(10) });
    let at = |second: usize| &shown[second].1.devices[0];
    // It was queued after 2.5 s and ended after 6.5 s.
    assert_eq!(at(1).oldest_open_ns, None);
    assert_eq!(at(3).oldest_open_ns.map(|age| age / 100_000_000), Some(15));
    assert!((at(4).util_share.unwrap() - 1.0).abs() < 0.001);
}
