//! Recordings of labs as the budget would have recorded them: one row in so many, and the kernel's
//! counts. They lead to the same cause, and what is estimated is near what was counted.

use iowhy_core::analysis::summary::{Summary, UsageTable};
use iowhy_core::analysis::{Direction, summarize};
use iowhy_core::diagnosis::{Severity, diagnose};
use iowhy_core::model::environment::{ExactCount, Thinning};
use iowhy_core::model::{Environment, Names, Request, Status, Wait};
use iowhy_core::recording::RecordingReader;
use iowhy_core::source::{Batch, Progress, Scripted, Source};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// One in so many rows is kept.
const ONE_IN: u32 = 4;
/// Windows in which rows are kept together, nanoseconds: a jiffy.
const WINDOW_NS: u64 = 4_000_000;
/// Slower ones are always recorded.
const SLOW_NS: u64 = 10_000_000;
/// How far an estimated share may be from the counted one.
const NEAR: f64 = 0.12;

/// Whether the window of a time and a CPU is recorded, as `bpf/thinning.bpf.h` decides it.
fn is_recorded(time_ns: u64, cpu: u32, one_in: u32) -> bool {
    let jiffy = time_ns / WINDOW_NS;
    (0..one_in.ilog2()).all(|round| {
        let pair = (jiffy >> (round + 1)).wrapping_mul(4096).wrapping_add(u64::from(cpu));
        let hash = pair.wrapping_add(u64::from(round) << 58).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        ((jiffy >> round) ^ (hash >> 63)) & 1 == 0
    })
}

/// The weight with which a row is recorded, if it is.
fn weight(time_ns: u64, cpu: u32, took_ns: Option<u64>) -> Option<u32> {
    match took_ns.is_none_or(|took| took >= SLOW_NS) {
        true => Some(1),
        false => is_recorded(time_ns, cpu, ONE_IN).then_some(ONE_IN),
    }
}

fn counted(requests: &[Request], names: &Names) -> Vec<ExactCount> {
    let mut counts: BTreeMap<(u32, u32, &str), ExactCount> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.status != Status::InFlight) {
        let operation = request.operation.word();
        let count = counts.entry((request.major, request.minor, operation)).or_default();
        (count.major, count.minor) = (request.major, request.minor);
        count.operation = operation.to_owned();
        let [q2g_ns, ..] = request.stages_ns();
        let latency_ns = request.q2c_ns.map(|whole| whole.saturating_sub(q2g_ns));
        count.add(&ExactCount {
            requests: 1,
            bytes: request.bytes,
            errors: Some(u64::from(request.error.is_some())),
            timed: u64::from(latency_ns.is_some()),
            latency_ns: latency_ns.unwrap_or(0),
            ..ExactCount::default()
        });
        count.errors = Some(count.errors.unwrap_or(0) + u64::from(request.error.is_some()));
        assert!(!names.get(request.device).is_empty());
    }
    counts.into_values().collect()
}

/// The rows that are recorded, with their weights.
fn sampled(batch: Batch) -> Batch {
    let request_weight = |request: &Request| weight(request.start_ns, request.cpu, request.q2c_ns);
    let wait_weight = |wait: &Wait| weight(wait.start_ns, wait.tid, Some(wait.duration_ns));
    let mut kept = Batch { parts: Vec::new(), ..Batch::default() };
    for (request, parts) in batch.requests_with_parts() {
        if let Some(weight) = request_weight(request) {
            kept.requests.push(Request { weight: Some(weight), ..request.clone() });
            kept.parts.extend_from_slice(parts);
        }
    }
    for wait in &batch.waits {
        if let Some(weight) = wait_weight(wait) {
            kept.waits.push(Wait { weight: Some(weight), ..wait.clone() });
        }
    }
    let waits: HashSet<u64> = kept.waits.iter().map(|wait| wait.wait_id).collect();
    kept.wait_requests = batch.wait_requests;
    kept.wait_requests.retain(|wait_request| waits.contains(&wait_request.wait_id));
    Batch {
        requests: kept.requests,
        parts: kept.parts,
        waits: kept.waits,
        wait_requests: kept.wait_requests,
        wait_chains: batch.wait_chains,
        files: batch.files,
        opens: batch.opens,
        processes: batch.processes,
        stacks: batch.stacks,
        samples: batch.samples,
        events: batch.events,
    }
}

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
    environment.exact_counts = counted(&batch.requests, &names);
    environment.thinning = vec![Thinning {
        from_ns: environment.start_ns,
        requests_one_in: ONE_IN,
        waits_one_in: ONE_IN,
        calls: true,
        call_times: true,
    }];
    let mut source = Named { rows: Scripted::default(), names };
    source.rows.environment = environment;
    source.rows.batches.push_back(sampled(batch));
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
    std::fs::read_dir(given.unwrap_or(own)).unwrap().flatten().map(|it| it.path()).collect()
}

/// Shares of the requests' time by name; unknown ones by their reason.
fn shares<R>(table: &UsageTable<R>, name: impl Fn(&R) -> String) -> BTreeMap<String, f64> {
    let known = table.rows.iter().map(|row| (name(&row.subject), row.usage.time_share));
    let unknown = table.unknown.iter().map(|row| (row.reason.clone(), row.usage.time_share));
    known.chain(unknown).collect()
}

/// Returns the largest difference, and what differs.
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
                shares(&whole.files, |it| it.file.clone()),
                shares(&sample.files, |it| it.file.clone()),
            ),
            (
                "programs",
                shares(&whole.programs, |it| it.process.clone()),
                shares(&sample.programs, |it| it.process.clone()),
            ),
            (
                "origins",
                shares(&whole.origins, |it| it.origin.word().to_owned()),
                shares(&sample.origins, |it| it.origin.word().to_owned()),
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
