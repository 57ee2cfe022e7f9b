//! A row that stands for eight counts as eight rows, in every view, export and chart; and a figure
//! that two views have of one recording is the same in both.

use iowhy_analysis::charts::Charts;
use iowhy_analysis::formats::collapsed::{Collapsed, FrameWeight};
use iowhy_analysis::formats::export::Exporter;
use iowhy_analysis::intervals::Pass;
use iowhy_analysis::summary::{Breakdown, BreakdownAxis};
use iowhy_analysis::summary::{DirectionSummary, Summary, Usage, UsageTable};
use iowhy_analysis::waits::groups::{Blocked, GroupWaitsBy, WaitGroups};
use iowhy_analysis::{Filtered, Measure, Summarizer};
use iowhy_model::recording::RecordingReader;
use iowhy_model::script::thinned;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Filter, Names};
use std::path::{Path, PathBuf};

/// The number of requests or waits that each row stands for.
const WEIGHT: u32 = 8;

/// The rows of a recording.
struct Rows {
    batch: Batch,
    names: Names,
    environment: Environment,
}

impl Rows {
    fn read(path: &Path) -> Rows {
        let mut reader = RecordingReader::open(path).unwrap();
        let (mut batch, mut names) = (Batch::default(), Names::default());
        while reader.fill(&mut batch, &mut names).unwrap() == Progress::More {}
        let environment = reader.environment().clone();
        Rows { batch, names, environment }
    }

    /// Returns the rows of a recording, each of which stands for several.
    fn weighted(path: &Path) -> Rows {
        let mut rows = Rows::read(path);
        rows.batch.requests.iter_mut().for_each(|row| row.weight = Some(WEIGHT));
        rows.batch.waits.iter_mut().for_each(|row| row.weight = Some(WEIGHT));
        rows
    }

    /// The rows that a budget would have recorded, one in so many.
    fn thinned(path: &Path, one_in: u32) -> Rows {
        let Rows { batch, names, mut environment } = Rows::read(path);
        let batch = thinned(batch, &mut environment, one_in);
        Rows { batch, names, environment }
    }

    fn summary(&self) -> Summary {
        let mut summarizer = Summarizer::new(&self.environment).with_breakdown();
        summarizer.add(&self.batch, &self.names);
        summarizer.finish(&self.environment, &self.names)
    }

    fn blocked(&self, by: GroupWaitsBy) -> Blocked {
        let mut pass = WaitGroups::new(by);
        pass.add(&self.batch, &self.names);
        pass.finish(&self.environment, &self.names)
    }

    fn charts(&self) -> Charts {
        let filtered = Filtered::new(&self.environment, &Filter::default());
        let mut filtered = filtered.with_charts(&self.environment);
        filtered.add(&self.batch, &self.names, self.environment.end_ns);
        filtered.finish(&self.environment, &self.names).charts.unwrap()
    }

    fn folded(&self, weight: FrameWeight) -> u64 {
        let mut lines = Vec::new();
        let mut export = Collapsed::new(weight);
        export.take(&self.batch, &self.names, &mut lines).unwrap();
        export.finish(&self.names, &mut lines).unwrap();
        let text = String::from_utf8(lines).unwrap();
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

fn folders() -> Vec<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let labs = std::fs::read_dir(own.join("../diagnosis/tests/labs")).unwrap();
    let demo = own.join("../../demo/recording");
    let found: Vec<PathBuf> = labs.flatten().map(|entry| entry.path()).chain([demo]).collect();
    assert!(found.len() >= 5, "{found:?}");
    found
}

/// Figures that grow with the weight, by name.
fn figures(rows: &Rows) -> Vec<(String, u64)> {
    let summary = rows.summary();
    let mut figures: Vec<(String, u64)> = Vec::new();
    let mut add = |name: &str, figure: u64| figures.push((name.to_owned(), figure));
    let usage = |table: &UsageTable<_>| -> u64 {
        table.rows.iter().map(|row| row.usage.time_ns).sum::<u64>() + table.others.usage.time_ns
    };
    add("programs", usage(&summary.programs));
    if let Some(ledger) = &summary.ledger {
        add("blocked", ledger.blocked_ns);
        add("ledger waits", ledger.classes.iter().map(|row| row.waits).sum());
    }
    let device = |of: fn(&DirectionSummary) -> u64| -> u64 {
        let directions = summary.devices.iter().flat_map(|device| &device.directions.0);
        directions.map(of).sum()
    };
    add("device requests", device(|direction| direction.requests));
    add("device bytes", device(|direction| direction.bytes));
    add("group waits", summary.patterns.waits.iter().map(|group| group.waits).sum());
    add("beside", summary.patterns.waits.iter().map(|group| group.beside_ns).sum());
    for by in [GroupWaitsBy::Class, GroupWaitsBy::Process, GroupWaitsBy::File] {
        let blocked = rows.blocked(by);
        add(&format!("waits {by:?}"), blocked.blocked_ns);
        add(&format!("waits {by:?} rows"), blocked.groups.iter().map(|group| group.waits).sum());
    }
    if let Some(breakdown) = &summary.breakdown {
        add("drill-down waits", waited(breakdown).0);
        add("drill-down wait time", waited(breakdown).1);
        let used = breakdown.used(&[], BreakdownAxis::Process);
        add("drill-down requests", used.iter().map(|row| row.usage.requests).sum());
    }
    for weight in [FrameWeight::Requests, FrameWeight::Bytes] {
        add(&format!("folded {weight:?}"), rows.folded(weight));
    }
    let charts = rows.charts();
    let cells = |of: fn(&Measure) -> u64| {
        charts.requests.iter().map(|request| of(&request.1.measure)).sum()
    };
    add("chart requests", cells(|measure| measure.count));
    add("chart bytes", cells(|measure| measure.bytes));
    add("chart waits", charts.waits.iter().map(|wait| wait.1.measure.time_ns).sum());
    figures
}

fn waited(breakdown: &Breakdown) -> (u64, u64) {
    let rows = breakdown.waited(&[], BreakdownAxis::Class);
    rows.iter().fold((0, 0), |sum, row| (sum.0 + row.waits, sum.1 + row.time_ns))
}

#[test]
fn every_figure_counts_a_row_as_often_as_it_stands_for() {
    for path in folders() {
        let (once, often) = (figures(&Rows::read(&path)), figures(&Rows::weighted(&path)));
        assert_eq!(once.len(), often.len());
        for ((name, one), (_, many)) in once.into_iter().zip(often) {
            assert_eq!(many, one * u64::from(WEIGHT), "{}: {name}", path.display());
        }
    }
}

/// Two figures that must be equal.
struct Pair {
    what: &'static str,
    left: f64,
    right: f64,
}

/// Of all that a table lists, sums up or has no key for.
fn total<R>(table: &UsageTable<R>, of: fn(&Usage) -> f64) -> f64 {
    table.rows.iter().map(|row| of(&row.usage)).sum::<f64>()
        + of(&table.others.usage)
        + table.unknown.iter().map(|row| of(&row.usage)).sum::<f64>()
}

/// The table of pairs: figures that stand in two places.
fn pairs(rows: &Rows) -> Vec<Pair> {
    let summary = rows.summary();
    let mut pairs = Vec::new();
    let mut pair = |what, left: f64, right: f64| pairs.push(Pair { what, left, right });
    pair("processes add up", total(&summary.programs, |usage| usage.time_share), 1.0);
    let whole = |usage: &Usage| usage.all_time_ns() as f64;
    pair("time of processes", total(&summary.programs, whole), summary.watch.time_ns as f64);
    let breakdown = summary.breakdown.as_ref().unwrap();
    let used = breakdown.used(&[], BreakdownAxis::Device);
    let drilled: f64 = used.iter().map(|row| row.usage.all_time_ns() as f64).sum();
    let devices = summary.devices.iter().flat_map(|device| &device.origins);
    let devices: f64 = devices.map(|row| row.usage.all_time_ns() as f64).sum();
    pair("top and devices", drilled, devices);
    let ledger = summary.ledger.as_ref();
    let blocked = ledger.map_or(0.0, |ledger| ledger.blocked_ns as f64);
    pair("top and ledger", waited(breakdown).1 as f64, blocked);
    for by in [GroupWaitsBy::Class, GroupWaitsBy::Process, GroupWaitsBy::Stack] {
        pair("waits and ledger", rows.blocked(by).blocked_ns as f64, blocked);
    }
    for class in ledger.iter().flat_map(|ledger| &ledger.classes) {
        let groups = rows.blocked(GroupWaitsBy::Class).groups;
        let same = groups.iter().find(|group| group.class == class.class).unwrap();
        pair("class in waits and ledger", same.time_ns as f64, class.time_ns as f64);
        pair("share in waits and ledger", same.time_share, class.time_share);
        pair("waits in waits and ledger", same.waits as f64, class.waits as f64);
    }
    let charts = rows.charts();
    let drawn: u64 = charts.waits.iter().map(|wait| wait.1.measure.time_ns).sum();
    pair("chart of waits and ledger", drawn as f64, blocked);
    let cell = |of: fn(&Measure) -> u64| -> f64 {
        charts.requests.iter().map(|(_, sums)| of(&sums.measure)).sum::<u64>() as f64
    };
    let device = |of: fn(&DirectionSummary) -> u64| -> f64 {
        let directions = summary.devices.iter().flat_map(|device| &device.directions.0);
        directions.map(of).sum::<u64>() as f64
    };
    pair("chart and devices, bytes", cell(|sums| sums.bytes), device(|row| row.bytes));
    let paths = &summary.code_paths;
    if paths.sampled_requests > 0 {
        pair("code paths add up", total(&paths.table, |usage| usage.time_share), 1.0);
        for program in &summary.origins.rows {
            let origin = program.subject.origin;
            let own = paths.table.rows.iter().filter(|row| row.subject.origin == origin);
            let shares: f64 = own.map(|row| row.usage.time_share).sum();
            let most = program.usage.time_share + 1e-6;
            pair("paths of an origin are part of it", shares.min(most), shares);
        }
    }
    pairs
}

#[test]
fn what_stands_in_two_places_is_the_same() {
    for path in folders() {
        let thinned = [8, 64, 128].map(|one_in| Rows::thinned(&path, one_in));
        for rows in [Rows::read(&path), Rows::weighted(&path)].into_iter().chain(thinned) {
            for Pair { what, left, right } in pairs(&rows) {
                let most = 1e-6 * left.abs().max(right.abs()).max(1.0);
                assert!((left - right).abs() <= most, "{}: {what}: {left} {right}", path.display());
            }
        }
    }
}
