//! Recordings of labs as the budget would have recorded them: one row in so many, and the kernel's
//! counts. They lead to the same cause, and estimates are near the counted figures.

use iowhy_analysis::summary::{Summary, UsageTable};
use iowhy_analysis::{Direction, summarize};
use iowhy_diagnosis::{Severity, diagnose};
use iowhy_model::recording::RecordingReader;
use iowhy_model::script::thinned;
use iowhy_model::source::{Batch, Progress, Scripted, Source};
use iowhy_model::{Environment, Names};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One in so many rows is kept.
const ONE_IN: u32 = 4;
/// The largest difference between an estimated share and the counted one.
const NEAR: f64 = 0.12;

fn rows(path: &Path) -> (Batch, Names, Environment) {
    let mut reader = RecordingReader::open(path).unwrap();
    let (mut batch, mut names) = (Batch::default(), Names::default());
    while reader.fill(&mut batch, &mut names).unwrap() == Progress::More {}
    let environment = reader.environment().clone();
    (batch, names, environment)
}

/// The summaries of a recording as it is, and as it would be if it had been sampled.
fn both(path: &Path) -> (Summary, Summary) {
    let whole = summarize(&mut RecordingReader::open(path).unwrap()).unwrap();
    let (batch, names, mut environment) = rows(path);
    let batch = thinned(batch, &mut environment, ONE_IN);
    let mut source = Named { rows: Scripted::default(), names };
    source.rows.environment = environment;
    source.rows.batches.push_back(batch);
    (whole, summarize(&mut source).unwrap())
}

/// Rows with the names that they refer to.
struct Named {
    rows: Scripted,
    names: Names,
}

impl Source for Named {
    type Error = std::convert::Infallible;

    fn fill(&mut self, batch: &mut Batch, names: &mut Names) -> Result<Progress, Self::Error> {
        *names = self.names.clone();
        self.rows.fill(batch, names)
    }

    fn environment(&self) -> &Environment {
        self.rows.environment()
    }
}

fn folders() -> Vec<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/labs");
    let given = std::env::var_os("IOWHY_SAMPLED").map(PathBuf::from);
    std::fs::read_dir(given.unwrap_or(own)).unwrap().flatten().map(|entry| entry.path()).collect()
}

/// Shares of the requests' time by name; unknown ones by their reason.
fn shares<R>(table: &UsageTable<R>, name: impl Fn(&R) -> String) -> BTreeMap<String, f64> {
    let known = table.rows.iter().map(|row| (name(&row.subject), row.usage.time_share));
    let unknown = table.unknown.iter().map(|row| (row.reason.clone(), row.usage.time_share));
    known.chain(unknown).collect()
}

/// Returns the largest difference, and the name that has it.
fn farthest(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> (f64, String) {
    let names = a.keys().chain(b.keys());
    let of = |map: &BTreeMap<String, f64>, name: &String| map.get(name).copied().unwrap_or(0.0);
    let differences = names.map(|name| ((of(a, name) - of(b, name)).abs(), name.clone()));
    differences.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

#[test]
fn what_is_estimated_is_near_what_was_counted() {
    for path in folders() {
        let (whole, sample) = both(&path);
        let tables = [
            (
                "files",
                shares(&whole.files, |row| row.file.clone()),
                shares(&sample.files, |row| row.file.clone()),
            ),
            (
                "programs",
                shares(&whole.programs, |row| row.process.clone()),
                shares(&sample.programs, |row| row.process.clone()),
            ),
            (
                "origins",
                shares(&whole.origins, |row| row.origin.word().to_owned()),
                shares(&sample.origins, |row| row.origin.word().to_owned()),
            ),
        ];
        for (table, counted, estimated) in tables {
            let (difference, name) = farthest(&counted, &estimated);
            let path = path.display();
            assert!(difference < NEAR, "{path}: {table}: {name}: {counted:?} {estimated:?}");
        }
        // Flushes alone are estimated.
        let (counted, estimated) = (whole.watch.requests as f64, sample.watch.requests as f64);
        let has_flushes =
            whole.devices.iter().any(|device| device.directions[Direction::Flush].requests > 0);
        let most = if has_flushes { NEAR * counted } else { 0.0 };
        let difference = (counted - estimated).abs();
        assert!(difference <= most, "{}: {counted} and {estimated}", path.display());
    }
}

#[test]
fn a_sample_leads_to_the_same_cause() {
    for path in folders() {
        let (whole, sample) = both(&path);
        let first = |summary: &Summary| {
            let findings = diagnose(summary).findings;
            findings
                .into_iter()
                .find(|finding| finding.severity > Severity::Info)
                .map(|finding| finding.cause)
        };
        assert_eq!(first(&whole), first(&sample), "{}", path.display());
    }
}
