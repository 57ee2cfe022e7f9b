//! Tests that charts lose nothing: cells add up to the rows, whatever they are reduced to.

use super::cells::{NO_LATENCY, bin_of};
use super::points::{CHOSEN, SLOWEST};
use super::{ChartLayer, ChartTally, Charts, class_of};
use crate::model::{Operation, WaitClass};
use crate::script::Script;

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
    let count: u64 = charts.requests.iter().map(|(_, sums)| sums.count).sum();
    let time: u64 = charts.requests.iter().map(|(_, sums)| sums.time_ns).sum();
    let in_flight: u64 = charts.in_flight.iter().map(|(_, sums)| sums.time_ns).sum();
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
    assert_eq!((key.latency, sums.count), (bin_of(4_000_000_000), 1));
    assert_eq!(charts.in_flight.iter().map(|(_, sums)| sums.time_ns).sum::<u64>(), 4_000_000_000);
    assert!(charts.in_flight.iter().all(|(_, sums)| sums.time_ns <= charts.column_ns));
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
    assert_eq!(charts.waits.iter().map(|(_, sums)| sums.time_ns).sum::<u64>(), whole);
    let classes: Vec<_> = charts.waits.iter().filter_map(|(key, _)| class_of(key.kind)).collect();
    assert!(classes.contains(&WaitClass::DirtyThrottle) && classes.contains(&WaitClass::Device));
}
