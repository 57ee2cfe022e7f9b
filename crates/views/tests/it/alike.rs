//! Ten devices whose names differ only at their end: a reader can always tell which is which.

use crate::screens::fits;
use iowhy_analysis::Summarizer;
use iowhy_analysis::intervals::{EndedInterval, Pass};
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::diagnose;
use iowhy_model::script::Script;
use iowhy_views::brief;
use iowhy_views::interval::{STAT, render};
use iowhy_views::style::Style;
use iowhy_views::text::{self, page};
use std::collections::BTreeSet;

const DEVICES: u64 = 10;

/// Reads from each of the devices, of which the last is the slowest.
fn alike() -> Script {
    let mut script = Script::new(10);
    for index in 0..100 * DEVICES {
        let device = format!("drbd-production-cluster-{:02}", index % DEVICES);
        let read = script.read(&device, 4096).by(100, "postgres").sector(index * 7919 * 8);
        let read = read.at((index * 9_000_000) as i64);
        read.direct(500_000, 500_000, (1 + index % DEVICES) * 5_000_000).add();
    }
    script
}

/// The first words of the rows below `heading`.
fn names<'a>(screen: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = screen.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let rows = lines.take_while(|line| !line.is_empty() && !line.starts_with(' '));
    rows.filter_map(|line| line.split_whitespace().next()).collect()
}

fn all_differ(names: &[&str], least: usize, screen: &str) {
    let different: BTreeSet<&str> = names.iter().copied().collect();
    assert!(different.len() == names.len() && names.len() >= least, "{names:?}: {screen}");
}

#[test]
fn the_page_distinguishes_them() {
    let summary = alike().summary();
    let diagnosis = diagnose(&summary);
    for width in [40, 80, 120] {
        let found = page(&summary, &diagnosis, None, &Style::plain(width));
        fits("alike", &found, width);
        let shown = names(&found, "DEVICES");
        all_differ(&shown, 1, &found);
        assert!(shown[0].starts_with("drbd") && shown[0].ends_with("09"), "{found}");
        assert!(found.contains("devices not shown"), "{found}");
        let full = text::render(&summary, &diagnosis, None, &Style::plain(width));
        all_differ(&names(&full, "DEVICES"), 3, &full);
    }
}

#[test]
fn the_brief_answer_has_whole_names() {
    let summary = alike().summary();
    let answer = brief::render(&summary, &diagnose(&summary));
    assert!(answer.len() <= brief::MOST_BYTES, "{} bytes", answer.len());
    let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let devices = value["devices"].as_array().unwrap();
    let shown: Vec<&str> =
        devices.iter().map(|device| device["device"].as_str().unwrap()).collect();
    all_differ(&shown, 2, &answer);
    assert!(shown.iter().all(|name| name.starts_with("drbd-production-cluster-")), "{shown:?}");
    assert_eq!(shown[0], "drbd-production-cluster-09");
}

/// Returns the figures of a pass over all of the script.
fn figures<P: Pass>(mut pass: P, script: &Script) -> P::Figures {
    pass.add(&script.batch, &script.names);
    pass.finish(&script.environment, &script.names)
}

#[test]
fn stat_distinguishes_them() {
    let script = alike();
    for width in [40, 80, 120] {
        let figures = figures(Summarizer::new(&script.environment), &script);
        let environment = script.environment.clone();
        let interval = EndedInterval { number: 0, environment, figures };
        let found = render(&STAT, &interval, &Style { rows: 40, ..Style::plain(width) });
        fits("alike", &found, width);
        all_differ(&names(&found, "D"), DEVICES as usize, &found);
    }
}
