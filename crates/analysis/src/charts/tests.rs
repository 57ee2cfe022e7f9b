//! Tests that charts lose nothing: cells add up to the rows, whatever they are reduced to.

use super::cells::{NO_LATENCY, bin_of};
use super::flames::{FlameLeaf, FlameTree};
use super::points::{CHOSEN, SLOWEST};
use super::{ChartLayer, ChartTally, Charts, class_of};
use crate::script::ScriptSummary;
use crate::summary::Measure;
use iowhy_model::script::Script;
use iowhy_model::{Operation, Status, WaitClass};

fn charts(script: &Script) -> Charts {
    let mut tally = ChartTally::new(&script.environment);
    for batch in script.source(7).batches {
        tally.add(&batch, &script.names);
    }
    tally.finish(&script.environment, &script.names)
}

#[test]
fn every_request_is_in_one_cell() {
    let mut script = Script::new(3600);
    for number in 0..40_000_u64 {
        let (at, latency) = (number as i64 * 90_000_000, 20_000 + number * 1_000);
        let file = format!("/srv/{number}");
        script
            .read("sda", 4096)
            .by(number as u32 % 2_000 + 1, "cat")
            .at(at)
            .bio(latency)
            .file(&file)
            .add();
    }
    script.request("sdb", Operation::Flush).at(5).bio(1).add();
    let charts = charts(&script);
    let count: u64 = charts.requests.iter().map(|(_, sums)| sums.measure.count).sum();
    let time: u64 = charts.requests.iter().map(|(_, sums)| sums.measure.time_ns).sum();
    let in_flight: u64 = charts.in_flight.iter().map(|(_, sums)| sums.measure.time_ns).sum();
    assert_eq!((count, charts.all_requests, charts.left_out), (40_001, 40_001, 0));
    assert_eq!(time, (0..40_000).map(|number| 20_000 + number * 1_000).sum::<u64>() + 1);
    assert_eq!(in_flight, time);
    assert!(charts.files.len() <= 101 && charts.owners.len() <= 61);
    assert!(charts.requests.iter().all(|(key, _)| usize::from(key.file) < charts.files.len()));
    let columns = charts.length_ns / charts.column_ns;
    assert!((100..1_200).contains(&columns), "{columns}");
    assert_eq!((charts.chosen.by_chance.len(), charts.chosen.slowest.len()), (CHOSEN, SLOWEST));
    assert_eq!(charts.chosen.slowest[0].time_ns, Some(20_000 + 39_999 * 1_000));
}

#[test]
fn a_request_in_flight_is_in_each_column_that_it_lasts() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "cat").at(1_000_000_000).bio(4_000_000_000).add();
    let charts = charts(&script);
    let [(key, sums)] = charts.requests.as_slice() else { panic!("{:?}", charts.requests) };
    assert_eq!(u64::from(key.column), 5_000_000_000 / charts.column_ns);
    assert_eq!((key.latency, sums.measure.count), (bin_of(4_000_000_000), 1));
    assert_eq!(
        charts.in_flight.iter().map(|(_, sums)| sums.measure.time_ns).sum::<u64>(),
        4_000_000_000
    );
    assert!(charts.in_flight.iter().all(|(_, sums)| sums.measure.time_ns <= charts.column_ns));
    assert!(charts.in_flight.iter().all(|(key, _)| key.latency == NO_LATENCY));
    assert_eq!(charts.kinds[usize::from(key.kind)].layer, ChartLayer::Top);
}

#[test]
fn waits_add_up_to_their_time() {
    let mut script = Script::new(10);
    script.wait((7, "dd"), WaitClass::DirtyThrottle, 3_000_000_000, 1_000_000_000, 500_000);
    script.wait((7, "dd"), WaitClass::PageRead, 1_000, 0, 0);
    let charts = charts(&script);
    let whole: u64 = script.batch.waits.iter().map(|wait| wait.duration_ns).sum();
    assert_eq!(charts.waits.iter().map(|(_, sums)| sums.measure.time_ns).sum::<u64>(), whole);
    let classes: Vec<_> = charts.waits.iter().filter_map(|(key, _)| class_of(key.kind)).collect();
    assert!(classes.contains(&WaitClass::DirtyThrottle) && classes.contains(&WaitClass::Device));
}

/// A watch of which one request in 8 and one wait in 4 was recorded, and slow ones all.
fn thinned() -> Script {
    let mut script = Script::new(10);
    for number in 0..4_i64 {
        let read = script.read("sda", 4096).by(1, "cat").at(number * 1_000_000_000);
        read.bio(1_000_000).file("/srv/a").stacks(&["submit_bio"], &["main"], 2).add();
    }
    script.batch.requests.iter_mut().for_each(|request| request.weight = Some(8));
    script.write("sda", 8192).by(2, "dd").at(5_000_000_000).bio(400_000_000).add();
    script.read("sda", 4096).by(1, "cat").at(6_000_000_000).status(Status::InFlight).add();
    script.batch.requests.last_mut().unwrap().weight = Some(8);
    script.wait((7, "dd"), WaitClass::DirtyThrottle, 3_000_000, 1_000_000, 0);
    script.batch.waits[0].weight = Some(4);
    script
}

#[test]
fn a_row_counts_as_often_as_it_stands_for() {
    let script = thinned();
    let charts = charts(&script);
    let sum = |each: fn(&Measure) -> u64| {
        charts.requests.iter().map(|cell| each(&cell.1.measure)).sum::<u64>()
    };
    assert!(charts.is_estimated);
    assert_eq!((charts.all_requests, charts.open_requests), (6, 8));
    assert_eq!(sum(|measure| measure.count), 33);
    assert_eq!(sum(|measure| measure.bytes), 32 * 4096 + 8192);
    assert_eq!(sum(|measure| measure.time_ns), 32_000_000 + 400_000_000);
    let in_flight: u64 = charts.in_flight.iter().map(|(_, sums)| sums.measure.time_ns).sum();
    assert_eq!(in_flight, 432_000_000 + 8 * 4_000_000_000);
    let waits = charts.waits.iter().map(|(_, sums)| (sums.measure.count, sums.measure.time_ns));
    assert_eq!(waits.fold((0, 0), |all, wait| (all.0 + wait.0, all.1 + wait.1)), (8, 12_000_000));
    // The same figures as those of the report.
    let summary = script.summary();
    let paths: u64 = summary.code_paths.table.rows.iter().map(|row| row.usage.time_ns).sum();
    assert_eq!(charts.request_flames.time_ns, 4 * 8 * 2 * 1_000_000);
    // Whatever the stacks stand for, their paths add up to the requests.
    assert_eq!(paths, 4 * 8 * 1_000_000);
    assert_eq!(summary.watch.requests, sum(|measure| measure.count) + charts.open_requests);
}

#[test]
fn points_of_a_thinned_watch_stand_for_all_of_it() {
    let mut script = Script::new(3600);
    let rows = 2 * CHOSEN as u64;
    for number in 0..rows {
        let at = number as i64 * 70_000_000;
        script.read("sda", 4096).by(1, "cat").at(at).bio(1_000_000).add();
        // A tenth of the rows stand for nine tenths of the requests.
        script.batch.requests.last_mut().unwrap().weight = (number % 10 == 0).then_some(81);
    }
    let chosen = charts(&script).chosen;
    let heavy = chosen.by_chance.iter().filter(|request| request.sequence % 10 == 1).count();
    assert_eq!((chosen.by_chance.len(), heavy), (CHOSEN, rows as usize / 10));
    let stands_for: f64 = chosen.by_chance.iter().map(|request| request.stands_for).sum();
    let all = (rows / 10 * 81 + rows * 9 / 10) as f64;
    assert!((stands_for / all - 1.0).abs() < 0.02, "{stands_for} of {all}");
    assert!(
        chosen
            .slowest
            .iter()
            .all(|request| request.stands_for == 1.0 || request.stands_for == 81.0)
    );
}

#[test]
fn flames_follow_time_file_and_operation() {
    let mut script = Script::new(10);
    for second in 0..10_i64 {
        let file = if second < 5 { "/srv/a" } else { "/srv/b" };
        let at = second * 1_000_000_000;
        let read = script.read("sda", 4096).by(1, "cat").at(at).bio(1_000_000);
        read.file(file).stacks(&["submit_bio"], &["main"], 1).add();
    }
    script.write("sda", 4096).by(1, "cat").bio(7).stacks(&["submit_bio"], &["main"], 1).add();
    let charts = charts(&script);
    let FlameTree { leaves, every, by_file, time_ns, .. } = &charts.request_flames;
    let sum = |keeps: &dyn Fn(&FlameLeaf) -> bool| -> u64 {
        leaves.iter().filter(|leaf| keeps(leaf)).map(|leaf| leaf.time_ns).sum()
    };
    assert!(*by_file);
    assert_eq!((*time_ns, sum(&|_| true)), (10_000_007, 10_000_007));
    let path = |leaf: &FlameLeaf| charts.files[usize::from(leaf.file)];
    let file = script.names.intern("/srv/b");
    assert_eq!(sum(&|leaf| path(leaf) == Some(file)), 5_000_000);
    let operation = |leaf: &FlameLeaf| charts.kinds[usize::from(leaf.kind)].operation;
    assert_eq!(sum(&|leaf| operation(leaf) == Operation::Write), 7);
    let width = charts.column_ns * u64::from(*every);
    let late = |leaf: &FlameLeaf| u64::from(leaf.column + 1) * width > 5_000_000_000;
    assert_eq!(sum(&late), 5_000_000);
}

#[test]
fn a_wait_of_no_length_is_no_defect() {
    let mut script = Script::new(10);
    script.wait((7, "cat"), WaitClass::PageRead, 0, 0, 0);
    assert_eq!(charts(&script).waits.iter().map(|(_, sums)| sums.measure.time_ns).sum::<u64>(), 0);
}
