//! Tests that impacts equal the gain, in watches where it is known.

use super::*;
use iowhy_analysis::script::ScriptSummary;
use iowhy_model::environment::Device;
use iowhy_model::script::{MS, Script};
use iowhy_model::{Origin, WaitClass};

/// Ten seconds on a host whose disk has these settings.
fn script(settings: &[(&str, &str)]) -> Script {
    let settings =
        settings.iter().map(|(name, value)| (format!("queue/{name}"), (*value).to_owned()));
    let mut script = Script::new(10);
    script.environment.devices.push(Device {
        name: "sda".to_owned(),
        settings_start: settings.collect(),
        ..Device::default()
    });
    script
}

/// The finding of a cause.
fn found(script: &Script, cause: &str) -> Option<Finding> {
    diagnose(&script.summary()).findings.into_iter().find(|finding| finding.cause == cause)
}

/// A hundred reads split into sixteen pieces, each of which completes `each` after the one before.
fn pieces(each: u64) -> Script {
    let mut script = script(&[("max_sectors_kb", "16"), ("max_hw_sectors_kb", "1280")]);
    for index in 0..1600_u64 {
        let (whole, piece) = (index / 16, index % 16);
        let at = (whole * 90 * MS + piece * 1000) as i64;
        let read = script.read("sda", 16_384).by(7, "dd").at(at).sector(index * 32);
        read.direct(0, 0, MS + piece * each).add();
    }
    script
}

#[test]
fn pieces_that_are_done_at_once_cost_nothing() {
    let one_by_one = found(&pieces(MS), "split-requests").unwrap();
    assert!((0.90..0.96).contains(&one_by_one.impact) && one_by_one.impact_at_most);
    assert!(one_by_one.severity > Severity::Info);
    let at_once = found(&pieces(0), "split-requests");
    assert!(
        at_once.is_none_or(|at_once| at_once.severity == Severity::Info && at_once.impact < 0.03)
    );
}

/// Contiguous small writes, one every five milliseconds.
fn small_writes(each: u64) -> Script {
    let mut script = script(&[("nomerges", "2")]);
    for index in 0..1900_u64 {
        let write = script.write("sda", 4096).by(7, "log").at((index * 5 * MS) as i64);
        write.sector(index * 8).direct(0, 0, each).add();
    }
    script
}

#[test]
fn writes_that_come_alone_have_nothing_to_be_put_together_with() {
    let sixteen = found(&small_writes(80 * MS), "small-writes").unwrap();
    assert!((0.85..0.96).contains(&sixteen.impact) && sixteen.impact_at_most, "{sixteen:?}");
    assert_eq!(found(&small_writes(4 * MS), "small-writes"), None);
}

#[test]
fn the_wanted_page_is_not_wasted() {
    let mut script = script(&[("read_ahead_kb", "128")]);
    for index in 0..500_u64 {
        let read = script.read("sda", 131_072).by(7, "db").at((index * 20 * MS) as i64);
        let read = read.sector(index * 7919 * 256 % (1 << 24)).origin(Origin::PageFault);
        read.file("/data/table").direct(0, 0, 9 * MS).add();
        script.wait((7, "db"), WaitClass::PageFault, 10 * MS, 9 * MS, MS);
    }
    let found = found(&script, "readahead-waste").unwrap();
    // Nine tenths are for the disk, of which one part in 32 is needed.
    assert!((found.impact - 0.9 * 31.0 / 32.0).abs() < 0.01 && found.impact_at_most, "{found:?}");
}

#[test]
fn used_up_credits_cost_what_requests_take_longer() {
    let mut script = script(&[]);
    let mut at = 0;
    while at < 9_990 * MS {
        let (gap, d2c) = if at >= 6000 * MS { (10 * MS, 40 * MS) } else { (2 * MS, 8 * MS) };
        let read = script.read("sda", 16_384).by(812, "postgres").at(at as i64);
        read.sector(at % (1 << 26)).direct(300, 700, d2c).add();
        at += gap;
    }
    let found = found(&script, "burst-credits").unwrap();
    // Four tenths of the time, of which a fifth was needed before, too.
    assert!((0.27..0.37).contains(&found.impact) && !found.impact_at_most, "{found:?}");
}
