//! Events joined to requests: every event has its place, and the sums are right.

use super::generate::Mix;
use super::*;
use iowhy_analysis::stages::{Stage, Unmatched};
use iowhy_blktrace::import::{self, CaptureImport};
use iowhy_model::source::{self, Progress, Source};
use iowhy_model::{Names, Operation, Status};

#[test]
fn plain_requests_are_all_joined() {
    let generated = GeneratedCapture::from_mix(Mix::Plain);
    let stages = stages(&generated.prefixes());
    assert_eq!(stages.unmatched(), Unmatched::default());
    let all = stages.all();
    let requests = generated.settings.events / 5;
    for stage in [Stage::Q2g, Stage::G2i, Stage::I2d, Stage::D2c, Stage::Q2c, Stage::BioQ2c] {
        assert_eq!(all.get(stage).average.count, requests, "{}", stage.name());
    }
    let total = |stage| all.get(stage).average.total;
    let parts = [Stage::Q2g, Stage::G2i, Stage::I2d, Stage::D2c].map(total).iter().sum::<u64>();
    assert_eq!(parts, total(Stage::Q2c));
}

#[test]
fn merges_splits_requeues_and_flushes_are_all_joined() {
    let generated = GeneratedCapture::from_mix(Mix::Rich);
    let stages = stages(&generated.prefixes());
    let unmatched = stages.unmatched();
    assert_eq!(unmatched, Unmatched::default());
    let devices = stages.devices();
    let queued: u64 = devices.iter().map(|device| device.queued).sum();
    assert_eq!(stages.all().get(Stage::BioQ2c).average.count, queued, "every bio ends once");
    assert!(devices.iter().all(|d| d.merged > 0 && d.requeues > 0 && d.flushes.requests > 0));
}

#[test]
fn issue_only_and_bio_only_captures_have_latencies() {
    let issue_only = stages(&GeneratedCapture::from_mix(Mix::IssueOnly).prefixes());
    assert!(issue_only.all().get(Stage::D2c).average.count > 0);
    assert_eq!(issue_only.unmatched(), Unmatched::default());
    let bio_only = stages(&GeneratedCapture::from_mix(Mix::BioOnly).prefixes());
    assert!(bio_only.all().get(Stage::Q2c).average.count > 0);
    assert_eq!(bio_only.unmatched(), Unmatched::default());
}

fn import(given: &[PathBuf]) -> (source::Batch, Names, CaptureImport) {
    let capture = open(given, Order::Time);
    let options = import::ImportOptions::default();
    let mut import = CaptureImport::new(capture, events::ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    while import.fill(&mut batch, &mut names).unwrap() == Progress::More {}
    (batch, names, import)
}

#[test]
fn imported_requests_add_up() {
    let generated = GeneratedCapture::from_mix(Mix::Rich);
    let (batch, names, import) = import(&generated.prefixes());
    assert!(import.environment().finished);
    assert_eq!(import.environment().devices.len(), 3);
    let offset = import.environment().realtime_offset_ns / 1_000_000_000;
    assert!((1_699_994_999..=1_699_995_000).contains(&offset), "{offset}");
    assert_eq!(names.get(batch.requests[0].device).get(..3), Some("gen"));
    let mut completed = 0;
    for (request, parts) in batch.requests_with_parts() {
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), request.bytes);
        assert!(parts.iter().all(|part| part.file.is_none() && part.file_reason.is_some()));
        let stages =
            [request.q2g_ns, request.g2i_ns, request.i2d_ns, request.g2d_ns, request.d2c_ns];
        if let (Some(q2c), Some(_)) = (request.q2c_ns, request.q2g_ns) {
            let sum = stages.iter().flatten().sum::<u64>();
            // The remainder is the time between the first issue and the last.
            assert!(sum == q2c || sum < q2c && request.requeues > 0, "{request:?}");
        }
        completed += u64::from(request.status == Status::Complete);
        if request.operation == Operation::Flush {
            assert_eq!(request.bytes, 0);
        }
    }
    let expected = stages(&generated.prefixes());
    let sum = |d: &iowhy_analysis::stages::statistics::DeviceStages| {
        d.reads.requests + d.writes.requests + d.flushes.requests
    };
    assert_eq!(completed, expected.devices().iter().map(sum).sum::<u64>());
}

#[test]
fn what_a_capture_lacks_is_said_first() {
    let generated = GeneratedCapture::from_mix(Mix::IssueOnly);
    std::fs::remove_file(generated.path().join("gen0.blktrace.0")).unwrap();
    let (_, _, import) = import(&generated.prefixes()[..1]);
    let limits = &import.environment().limits;
    let losses = &import.environment().losses;
    assert!(losses.items.iter().any(|loss| loss.place == "unfinished"), "{losses:?}");
    assert!(limits[0].contains("gen0.blktrace.0: 1 CPU's file is missing"), "{limits:?}");
    assert!(limits.iter().any(|limit| limit.contains("holds no Q")), "{limits:?}");
}

#[test]
fn real_captures_import_without_a_word_too_much() {
    let Some(traces) = traces() else { return };
    for (name, requests) in
        [("keks/keks", 1_192), ("sda-centos/sda", 109), ("nvme-cpu1-only/sample", 963)]
    {
        let (batch, _, import) = import(&[traces.join(name)]);
        let disk =
            batch.requests.iter().filter(|r| r.d2c_ns.is_some() || r.status == Status::InFlight);
        assert_eq!(disk.count(), requests, "{name}: {:?}", import.environment().limits);
    }
}
