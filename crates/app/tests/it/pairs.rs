//! The table of pairs: a figure that stands in several places is the same in each, for full
//! recordings and for the rows that a budget would have left of them. `docs/views.md` has the
//! table; after a change that is meant, run this with `IOWHY_BLESS=1`.
//!
//! What does not belong here: sums inside of one process (`crates/analysis/tests/it/weights.rs`),
//! and the figures of findings ([`super::evidence`]).

mod shown;

use crate::{answer, json, labs};
use iowhy_model::Names;
use iowhy_model::recording::{RecordingReader, RecordingWriter};
use iowhy_model::script::thinned;
use iowhy_model::source::{Batch, Progress, Source};
use serde_json::Value;
use shown::{Rows, csv_rows, page_text, rows_below};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One in so many rows is left in the copies of each recording.
const ONE_IN: [u32; 2] = [8, 64];
/// Figures of JSON are exact but for the order in which floating point sums are added.
const EXACT: f64 = 1e-9;
/// Histograms have two digits.
const PERCENTILE: f64 = 0.01;

/// Places that show a figure, and how often they were compared.
#[derive(Default)]
struct Pairs {
    compared: BTreeMap<(&'static str, &'static str), u64>,
    different: Vec<String>,
}

impl Pairs {
    /// Two numbers that are one figure.
    fn same(&mut self, of: &Path, what: (&'static str, &'static str), left: f64, right: f64) {
        self.within(of, what, (left, right), EXACT);
    }

    /// Two percentiles, which are at most one percent too high.
    fn near(&mut self, of: &Path, what: (&'static str, &'static str), left: f64, right: f64) {
        self.within(of, what, (left, right), PERCENTILE);
    }

    fn within(
        &mut self,
        of: &Path,
        what: (&'static str, &'static str),
        (left, right): (f64, f64),
        most: f64,
    ) {
        *self.compared.entry(what).or_default() += 1;
        if (left - right).abs() > most * left.abs().max(right.abs()).max(1.0) {
            self.different.push(format!("{}: {what:?}: {left} and {right}", of.display()));
        }
    }

    /// A text that is on a screen.
    fn shown(&mut self, of: &Path, what: (&'static str, &'static str), text: &str, screen: &str) {
        *self.compared.entry(what).or_default() += 1;
        if !screen.contains(text) {
            self.different.push(format!("{}: {what:?}: no {text:?}", of.display()));
        }
    }

    fn table(&self, recordings: usize) -> String {
        let mut table = format!(
            "{recordings} recordings: the kept ones, and what budgets would have left of each (1 \
             of {} and 1 of {}). Command: `cargo test -p iowhy --test it -- pairs`.\n\n\
             | figure | places | compared |\n|---|---|--:|\n",
            ONE_IN[0], ONE_IN[1]
        );
        for ((figure, places), count) in &self.compared {
            let _ = writeln!(table, "| {figure} | {places} | {count} |");
        }
        table
    }
}

/// A copy of a recording as a budget would have recorded it.
fn thin(path: &Path, one_in: u32, into: &Path) {
    let mut reader = RecordingReader::open(path).unwrap();
    let (mut batch, mut names) = (Batch::default(), Names::default());
    while reader.fill(&mut batch, &mut names).unwrap() == Progress::More {}
    let mut environment = reader.environment().clone();
    let batch = thinned(batch, &mut environment, one_in);
    let mut writer = RecordingWriter::create(into, &environment).unwrap();
    writer.add(&batch, &names).unwrap();
    writer.finish(&mut environment, &names).unwrap();
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/recording");
    let kept: Vec<PathBuf> = labs().into_iter().chain([demo]).collect();
    let mut all = kept.clone();
    for path in &kept {
        for one_in in ONE_IN {
            let name = path.file_name().unwrap().to_str().unwrap();
            let into = folder.join(format!("{name}-1-of-{one_in}"));
            thin(path, one_in, &into);
            all.push(into);
        }
    }
    all
}

/// The first interval that a view prints, which is the whole recording.
fn view(name: &str, more: &[&str], path: &Path) -> Value {
    let path = path.to_str().unwrap();
    let text = answer([name, "--json", path].iter().chain(more));
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.next().unwrap().unwrap()["figures"].take()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Returns a field's sum over a table: every row, the sum of all others, and the part that is not
/// known.
fn whole(table: &Value, field: &str) -> f64 {
    let rows = array(&table["rows"]).iter().chain(array(&table["unknown"]));
    rows.chain([&table["others"]]).map(|row| number(&row[field])).sum()
}

fn watch(pairs: &mut Pairs, path: &Path, report: &Value) {
    let place = path.to_str().unwrap();
    let brief = json(["report", "--json=brief", place]);
    let blame = json(["blame", "--json", place]);
    let requests = number(&report["watch"]["requests"]);
    let of = |places| ("requests of the watch", places);
    pairs.same(path, of("`--json`, `--json=brief`"), requests, number(&brief["watch"]["requests"]));
    pairs.same(path, of("`--json`, `blame`"), requests, number(&blame["watch"]["requests"]));
    for field in ["waited_ns", "device_ns", "others_ns", "own_ns"] {
        let both = (number(&report["blame"][field]), number(&blame["blame"][field]));
        pairs.same(path, ("blame", "`--json`, `blame`"), both.0, both.1);
    }
    for (left, right) in array(&report["programs"]["rows"]).iter().zip(array(&brief["processes"])) {
        for field in ["time_share", "bytes", "requests"] {
            let both = (number(&left[field]), number(&right[field]));
            pairs.same(path, ("usage of a program", "`--json`, `--json=brief`"), both.0, both.1);
        }
    }
}

fn devices(pairs: &mut Pairs, path: &Path, report: &Value) {
    let stat = view("stat", &[], path);
    let latency = view("latency", &[], path);
    let stages = json(["stages", "--json", path.to_str().unwrap()]);
    for device in array(&report["devices"]) {
        let is_same = |row: &&Value| row["device"] == device["device"];
        if device["is_kernel_counted"] == true {
            continue;
        }
        let row = array(&stat).iter().find(is_same).expect("a device that has requests");
        let (mut d2c, mut q2c) = (0.0, 0.0);
        for (direction, own) in device["directions"].as_object().unwrap() {
            let theirs = &row["directions"][direction];
            for field in ["requests", "bytes", "requests_per_s", "await_ns", "merges_per_s"] {
                let places = "`--json`, `stat`";
                let both = (number(&own[field]), number(&theirs[field]));
                pairs.same(path, ("requests, bytes and await of a device", places), both.0, both.1);
            }
            d2c += number(&own["intervals"]["d2c"]["requests"]);
            q2c += number(&own["intervals"]["q2c"]["requests"]);
        }
        for field in ["util_share", "aqu_sz", "in_flight_mean"] {
            let both = (number(&device[field]), number(&row[field]));
            pairs.same(path, ("use of a device", "`--json`, `stat`"), both.0, both.1);
        }
        let whole = array(&stages["devices"]).iter().find(is_same);
        let whole = whole.expect("a device with stages");
        let counted = number(&whole["stages"]["q2c"]["count"]);
        pairs.same(path, ("requests with a Q2C", "`--json`, `stages`"), q2c, counted);
        // `stages` has no command that the kernel made for a flush, as btt has none.
        let group = array(&latency["groups"]).iter().find(is_same);
        let Some(group) = group.filter(|_| number(&device["helper_requests"]) == 0.0) else {
            continue;
        };
        let counted = number(&group["stage"]["requests"]);
        pairs.same(path, ("requests with a D2C", "`--json`, `latency`"), d2c, counted);
        for (field, ours) in [("p50_ns", "p50_ns"), ("p99_ns", "p99_ns"), ("max_ns", "max_ns")] {
            let left = number(&whole["stages"]["d2c"][field]);
            pairs.near(
                path,
                ("D2C of a device", "`stages`, `latency`"),
                left,
                number(&group["stage"][ours]),
            );
        }
    }
}

fn waits(pairs: &mut Pairs, path: &Path, report: &Value) {
    let ledger = &report["ledger"];
    if ledger.is_null() {
        return;
    }
    let blocked = number(&ledger["blocked_ns"]);
    let brief = json(["report", "--json=brief", path.to_str().unwrap()]);
    let of = |places| ("blocked time", places);
    pairs.same(
        path,
        of("`--json`, `--json=brief`"),
        blocked,
        number(&brief["ledger"]["blocked_ns"]),
    );
    for (by, places) in [
        ("class", "`--json`, `waits`"),
        ("process", "`--json`, `waits --by process`"),
        ("file", "`--json`, `waits --by file`"),
        ("stack", "`--json`, `waits --by stack`"),
    ] {
        let more = ["--by", by];
        let view = view("waits", if by == "class" { &[] } else { &more }, path);
        pairs.same(path, of(places), blocked, number(&view["blocked_ns"]));
        if by != "class" {
            continue;
        }
        for class in array(&ledger["classes"]) {
            let group =
                array(&view["groups"]).iter().find(|group| group["class"] == class["class"]);
            let group = group.expect("a class that has waits");
            for field in ["time_ns", "time_share", "waits", "longest_ns"] {
                let both = (number(&class[field]), number(&group[field]));
                pairs.same(path, ("time of a wait class", places), both.0, both.1);
            }
        }
    }
    let rows = csv_rows(path, "waits");
    let is_program = |row: &&Rows| row["kernel_thread"] != "true" && row["process"] != "iowhy";
    let figure = |row: &Rows, name: &str| row[name].parse::<f64>().unwrap_or(1.0);
    let sum = rows
        .iter()
        .filter(is_program)
        .map(|row| figure(row, "duration_ns") * figure(row, "weight"));
    pairs.same(path, of("`--json`, SQL on `waits`"), blocked, sum.sum());
}

fn programs(pairs: &mut Pairs, path: &Path, report: &Value) {
    let stacks = view("stacks", &[], path);
    for (left, right) in array(&report["code_paths"]["rows"]).iter().zip(array(&stacks["rows"])) {
        for field in ["time_share", "requests", "bytes"] {
            let both = (number(&left[field]), number(&right[field]));
            pairs.same(path, ("a code path", "`--json`, `stacks`"), both.0, both.1);
        }
    }
    let processes = &report["processes"];
    let seconds = number(&report["watch"]["duration_ns"]) / 1e9;
    for row in array(&view("proc", &[], path)) {
        let is_same = |own: &&Value| own["pid"] == row["pid"] && own["process"] == row["process"];
        let Some(own) = array(&processes["rows"]).iter().find(is_same) else { continue };
        let reads = number(&own["directions"]["read"]["requests"]);
        let theirs = number(&row["device_reads_per_s"]) * seconds;
        pairs.same(path, ("reads of a process", "`--json`, `proc`"), reads, theirs);
    }
    // Shares under one heading have one denominator.
    let whole_ns = number(&report["watch"]["time_ns"]);
    for table in ["processes", "programs", "containers", "files", "origins", "code_paths"] {
        let (share, time_ns) = (whole(&report[table], "time_share"), {
            whole(&report[table], "time_ns") + whole(&report[table], "open_time_ns")
        });
        let what = ("shares of a table add up to 100 %", "`--json`");
        // The time of each row is whole nanoseconds, scaled or not.
        let rows = array(&report[table]["rows"]).len() + array(&report[table]["unknown"]).len() + 1;
        let rounding = EXACT + rows as f64 / whole_ns.max(1.0);
        if time_ns > 0.0 {
            pairs.within(path, what, (share, time_ns / whole_ns.max(1.0)), rounding);
            pairs.within(path, what, (share.max(1.0), 1.0), rounding);
        }
    }
}

/// Rows of text: the same words on each screen.
fn screens(pairs: &mut Pairs, path: &Path) {
    let place = path.to_str().unwrap();
    let (first, full) = (answer(["report", place]), answer(["report", "--full", place]));
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    answer(["report", place, "--html", page.to_str().unwrap()]);
    let page = page_text(&page);
    let mut facts = first.lines().flat_map(|line| line.split('·')).map(str::trim);
    let requests = facts.find_map(|fact| fact.strip_suffix(" requests")).expect("a header");
    let of = |places| ("requests of the watch", places);
    pairs.shown(path, of("first screen, `--full`"), &format!("· {requests} requests"), &full);
    pairs.shown(path, of("first screen, page"), &format!("{requests} requests"), &page);
    for (heading, columns, what) in [
        ("WAITS", 2, "time and share of a wait class"),
        ("DEVICES", 3, "rates of a device"),
        ("PROCESSES", 2, "time and share of a program"),
        ("FILES", 2, "time and share of a file"),
    ] {
        for row in rows_below(&full, heading, columns) {
            // The page lists more rows before it sums others up.
            if !row.contains('…') && !row.contains("others)") {
                pairs.shown(path, (what, "`--full`, page"), &row, &page);
            }
        }
        for row in rows_below(&first, heading, columns) {
            let is_whole = !row.contains('…') && !row.starts_with("others");
            if is_whole {
                let all = rows_below(&full, heading, columns).join("\n");
                pairs.shown(path, (what, "first screen, `--full`"), &row, &all);
            }
        }
    }
    let own = rows_below(&answer(["waits", place]), "WAITS", 2).join("\n");
    for row in rows_below(&full, "WAITS", 2) {
        pairs.shown(path, ("time and share of a wait class", "`--full`, `waits`"), &row, &own);
    }
}

#[test]
fn what_stands_in_several_places_is_one_figure() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = recordings(folder.path());
    assert!(recordings.len() >= 20, "{recordings:?}");
    let mut pairs = Pairs::default();
    for path in &recordings {
        let report = json(["report", "--json", path.to_str().unwrap()]);
        watch(&mut pairs, path, &report);
        devices(&mut pairs, path, &report);
        waits(&mut pairs, path, &report);
        programs(&mut pairs, path, &report);
        screens(&mut pairs, path);
    }
    let different = &pairs.different;
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    shown::kept_in_docs(&pairs.table(recordings.len()));
}
