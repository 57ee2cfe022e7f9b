//! Captures: read, analysed, imported and written, beside blkparse, btt and fio where they are
//! installed, and on real captures where they lie beside the project.

mod beside;
mod damage;
#[path = "../../../../labs/src/captures.rs"]
mod generate;
mod joined;
mod kinds;
mod text;

use generate::{GeneratorSettings, Mix, generate};
use iowhy_blktrace::btt::{Btt, report};
use iowhy_blktrace::events::{self, EventText};
use iowhy_blktrace::stages::{StageAnalysis, pipeline};
use iowhy_blktrace::trace::{CaptureOptions, Order, RecordBatch, TraceCapture, TraceRecord};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A generated capture in a folder of its own.
struct GeneratedCapture {
    folder: TempDir,
    settings: GeneratorSettings,
    /// Events, notes included.
    records: u64,
}

impl GeneratedCapture {
    fn new(settings: GeneratorSettings) -> GeneratedCapture {
        let folder = tempfile::tempdir().unwrap();
        let records = generate(folder.path(), settings).unwrap();
        GeneratedCapture { folder, settings, records }
    }

    fn from_mix(mix: Mix) -> GeneratedCapture {
        GeneratedCapture::new(GeneratorSettings { mix, ..GeneratorSettings::default() })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The prefixes of its devices.
    fn prefixes(&self) -> Vec<PathBuf> {
        (0..self.settings.devices).map(|d| self.path().join(generate::device_name(d))).collect()
    }
}

fn open(given: &[PathBuf], order: Order) -> TraceCapture {
    TraceCapture::open(given, CaptureOptions { order, ..CaptureOptions::default() }).unwrap()
}

/// Every record with its payload, and the capture for its warnings.
fn read(given: &[PathBuf], order: Order) -> (Vec<(TraceRecord, Vec<u8>)>, TraceCapture) {
    let mut capture = open(given, order);
    let (mut all, mut batch) = (Vec::new(), RecordBatch::default());
    while capture.fill(&mut batch) {
        all.extend(batch.records.iter().map(|r| (*r, batch.raw_payload(r).to_vec())));
    }
    (all, capture)
}

/// The capture as blkparse's text, with its summary.
fn our_text(given: &[PathBuf], options: events::EventOptions) -> String {
    let order = if options.compatible { Order::Blkparse } else { Order::Time };
    let mut capture = open(given, order);
    let mut text = EventText::new(options);
    text.summary.names = capture.inputs().groups.iter().map(|g| g.name.clone()).collect();
    let (mut out, mut batch) = (Vec::new(), RecordBatch::default());
    while capture.fill(&mut batch) {
        if !text.write(&batch, capture.genesis(), &mut out) {
            break;
        }
    }
    text.summary.write(&mut out).unwrap();
    String::from_utf8_lossy(&out).into_owned()
}

/// btt's report of the capture, as we make it.
fn our_btt(given: &[PathBuf], everything: bool) -> String {
    let mut btt = Btt::default();
    pipeline::run(open(given, Order::Blkparse), |start, batch| btt.take(batch, start.genesis));
    let mut out = Vec::new();
    report::write(&mut btt, everything, &mut out).unwrap();
    String::from_utf8_lossy(&out).into_owned()
}

fn stages(given: &[PathBuf]) -> StageAnalysis {
    let mut stages = StageAnalysis::default();
    pipeline::run(open(given, Order::Time), |start, batch| stages.take(batch, start.genesis));
    stages.finish();
    stages
}

/// Whether the tools can be run; says so where not.
fn installed(tools: &[&str]) -> bool {
    tools.iter().all(|tool| {
        let found = Command::new(tool).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: {tool} is not installed");
        }
        found
    })
}

fn run(command: &mut Command) -> Output {
    let output = command.env("TZ", "UTC").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// blkparse's text of captures in one folder.
fn blkparse(folder: &Path, names: &[String], more: &[&str]) -> String {
    let output = folder.join("blkparse.out");
    let mut command = Command::new("blkparse");
    command.current_dir(folder).args(more).arg("-o").arg(&output);
    names.iter().for_each(|name| {
        command.args(["-i", name]);
    });
    run(&mut command);
    String::from_utf8_lossy(&std::fs::read(&output).unwrap()).into_owned()
}

/// A dump of the capture by blkparse, which btt reads.
fn dump(folder: &Path, names: &[String]) -> PathBuf {
    let path = folder.join("dump.bin");
    let mut command = Command::new("blkparse");
    command.current_dir(folder).args(["-q", "-O", "-d"]).arg(&path);
    names.iter().for_each(|name| {
        command.args(["-i", name]);
    });
    run(&mut command);
    path
}

/// btt's own report of a dump.
fn btt(dump: &Path, more: &[&str]) -> String {
    let folder = dump.parent().unwrap();
    let mut command = Command::new("btt");
    command.current_dir(folder).args(["-i"]).arg(dump).args(["-o", "btt"]).args(more);
    run(&mut command);
    std::fs::read_to_string(folder.join("btt.avg")).unwrap()
}

/// The folder of real captures beside the project; says so where it is absent.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("IOWHY_SHARED").map_or(beside, PathBuf::from);
    let traces = shared.join("traces");
    if !traces.is_dir() {
        eprintln!("skipped: {} does not exist", traces.display());
        return None;
    }
    Some(traces)
}

/// Fails with the first line that differs, not with two long texts.
fn same_lines(ours: &str, theirs: &str) {
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "line {}", number + 1);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}
