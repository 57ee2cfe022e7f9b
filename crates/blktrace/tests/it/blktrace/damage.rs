//! Damaged, foreign and odd captures: read as far as they go, each loss counted.

use super::*;
use iowhy_analysis::stages::Stage;
use iowhy_analysis::stages::devices::{MAX_DEVICES, OTHER_DEVICES};
use iowhy_blktrace::trace::action::{CGROUP_FLAG, category as c, notify};
use iowhy_blktrace::trace::{Action, WarningKind, encode};
use std::fs;

fn event(time: u64, sequence: u32) -> TraceRecord {
    TraceRecord {
        time,
        sequence,
        sector: 8 * u64::from(sequence),
        bytes: 4096,
        categories: c::QUEUE | c::READ,
        action: Action::Queue as u16,
        pid: 7,
        device: 8 << 20,
        ..TraceRecord::default()
    }
}

/// Writes `pieces` as the file of CPU 0 and reads it.
fn read_pieces(pieces: &[Vec<u8>]) -> (Vec<(TraceRecord, Vec<u8>)>, TraceCapture) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.blktrace.0");
    fs::write(&path, pieces.concat()).unwrap();
    read(&[path], Order::Time)
}

fn bytes(record: &TraceRecord, payload: &[u8], version: u8) -> Vec<u8> {
    let mut out = Vec::new();
    encode(record, payload, version, &mut out);
    out
}

fn plain(sequence: u32) -> Vec<u8> {
    bytes(&event(1000 + u64::from(sequence), sequence), &[], 7)
}

#[test]
fn both_protocols_and_byte_orders_read_the_same() {
    let events = |version: u8, big_endian: bool| {
        let settings = GeneratorSettings {
            version,
            big_endian,
            events: 5_000,
            ..GeneratorSettings::default()
        };
        let generated = GeneratedCapture::new(settings);
        let (mut records, capture) = read(&generated.prefixes(), Order::Time);
        assert_eq!(capture.warnings().items(), &[]);
        assert_eq!(records.len() as u64, generated.records);
        records.iter_mut().for_each(|(record, _)| record.big_endian = false);
        records
    };
    let reference = events(7, false);
    for (version, big_endian) in [(7, true), (8, false), (8, true)] {
        assert_eq!(events(version, big_endian), reference);
    }
}

#[test]
fn protocols_may_be_mixed_record_by_record() {
    let pieces: Vec<_> = (1..100u32)
        .map(|n| bytes(&event(n.into(), n), &vec![n as u8; n as usize], 7 + (n % 2) as u8))
        .collect();
    let (records, capture) = read_pieces(&pieces);
    assert_eq!(records.len(), 99);
    assert!(records.iter().all(|(record, payload)| payload.len() == record.sequence as usize));
    assert_eq!(capture.warnings().items(), &[]);
}

#[test]
fn damage_in_the_middle_costs_only_itself() {
    for damage in [1usize, 47, 48, 333, 70_000] {
        let mut pieces: Vec<_> = (1..=50).map(plain).collect();
        pieces.insert(25, vec![0xa5; damage]);
        let (records, capture) = read_pieces(&pieces);
        assert_eq!(records.len(), 50, "{damage}");
        assert_eq!(capture.warnings().total(WarningKind::BadBytes), damage as u64);
        assert_eq!(capture.warnings().items()[0].offset, 25 * 48);
    }
}

#[test]
fn a_cut_tail_is_counted() {
    for left in 1..48 {
        let mut last = plain(11);
        last.truncate(left);
        let mut pieces: Vec<_> = (1..=10).map(plain).collect();
        pieces.push(last);
        let (records, capture) = read_pieces(&pieces);
        assert_eq!(records.len(), 10, "{left}");
        assert_eq!(capture.warnings().total(WarningKind::TruncatedTail), left as u64);
    }
}

#[test]
fn a_payload_may_be_as_long_as_its_field_says() {
    for length in [0usize, 1, 30, 4096, 65_535] {
        let pieces = [plain(1), bytes(&event(2, 2), &vec![3; length], 7), plain(3)];
        let (records, _) = read_pieces(&pieces);
        assert_eq!(records.len(), 3);
        assert_eq!(records[1].1.len().max(records[0].1.len()), length);
    }
}

#[test]
fn sixty_four_byte_records_that_say_seven_are_understood() {
    let pieces: Vec<_> = (1..=20u32)
        .map(|n| {
            let mut record = bytes(&event(n.into(), n), &[9; 3], 8);
            record[0] = 7;
            record
        })
        .collect();
    let (records, capture) = read_pieces(&pieces);
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|(record, payload)| record.pid == 7 && payload.len() == 3));
    assert_eq!(capture.warnings().total(WarningKind::MislabelledVersion), 1);
}

#[test]
fn records_of_another_cpu_are_kept_but_for_blkparse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.blktrace.0");
    let pieces: Vec<_> =
        (1..=5).map(|n| bytes(&TraceRecord { cpu: 1, ..event(n, n as u32) }, &[], 7)).collect();
    fs::write(&path, pieces.concat()).unwrap();
    let (records, capture) = read(std::slice::from_ref(&path), Order::Time);
    assert_eq!((records.len(), capture.warnings().total(WarningKind::ForeignCpu)), (5, 5));
    assert_eq!(read(&[path], Order::Blkparse).0.len(), 0);
}

#[test]
fn missing_and_empty_files_are_said() {
    let generated =
        GeneratedCapture::new(GeneratorSettings { devices: 1, ..GeneratorSettings::default() });
    fs::remove_file(generated.path().join("gen0.blktrace.1")).unwrap();
    fs::write(generated.path().join("gen0.blktrace.2"), []).unwrap();
    let (all, capture) = read(&generated.prefixes(), Order::Time);
    assert_eq!(capture.warnings().total(WarningKind::MissingCpu), 1);
    assert_eq!(capture.warnings().total(WarningKind::Empty), 1);
    let (compatible, _) = read(&generated.prefixes(), Order::Blkparse);
    assert!(compatible.len() < all.len(), "blkparse stops at the first number that is missing");
    assert!(compatible.iter().all(|(record, _)| record.cpu == 0));
}

#[test]
fn lost_numbers_and_stale_notes_are_distinguished() {
    let note = TraceRecord { categories: c::NOTIFY, action: notify::PROCESS, ..event(5, 0xdead) };
    let name = b"java\0d\0ersLaunc\0";
    let pieces = [plain(1), bytes(&note, name, 7), plain(2), plain(5)];
    let (records, capture) = read_pieces(&pieces);
    assert_eq!(records.len(), 4);
    assert_eq!(capture.warnings().total(WarningKind::SequenceGap), 2);
    let mut batch = RecordBatch::default();
    batch.push(note, name);
    assert_eq!(batch.process_name(&batch.records[0]), b"java");
}

#[test]
fn a_cgroup_id_precedes_the_payload() {
    let mut payload = 0x1234_5678_9abcu64.to_le_bytes().to_vec();
    payload.extend(4096u64.to_be_bytes());
    let split = TraceRecord { action: Action::Split as u16 | CGROUP_FLAG, ..event(1, 1) };
    let mut batch = RecordBatch::default();
    batch.push(split, &payload);
    let record = batch.records[0];
    assert_eq!(record.kind(), Some(Action::Split));
    assert_eq!(batch.cgroup(&record), Some(0x1234_5678_9abc));
    assert_eq!(batch.number(&record), Some(4096));
}

#[test]
fn what_is_no_capture_is_said() {
    for (content, kind) in [
        (vec![0u8; 5000], WarningKind::NotBlktrace),
        (b"this is a letter\nnot a capture\n".to_vec(), WarningKind::UnknownLine),
    ] {
        let (records, capture) = read_pieces(&[content]);
        assert_eq!((records.len(), capture.warnings().items()[0].kind), (0, kind));
    }
    let missing = TraceCapture::open(&[PathBuf::from("/nowhere/sda")], CaptureOptions::default());
    assert!(missing.err().unwrap().to_string().starts_with("failed to find capture /nowhere/sda"));
}

#[test]
fn a_pipe_of_interleaved_cpus_comes_in_order() {
    let generated =
        GeneratedCapture::new(GeneratorSettings { devices: 1, ..GeneratorSettings::default() });
    let (expected, _) = read(&generated.prefixes(), Order::Time);
    let files: Vec<_> = (0..4)
        .map(|cpu| fs::read(generated.path().join(format!("gen0.blktrace.{cpu}"))).unwrap())
        .collect();
    let stream = std::io::Cursor::new(files.concat());
    let mut capture = TraceCapture::from_reader(Box::new(stream), "-", CaptureOptions::default());
    let (mut times, mut batch) = (Vec::new(), RecordBatch::default());
    while capture.fill(&mut batch) {
        times.extend(batch.records.iter().filter(|r| !r.is_notify()).map(|r| r.time));
    }
    assert!(times.is_sorted());
    let events = expected.iter().filter(|(record, _)| !record.is_notify()).count();
    assert_eq!(times.len(), events);
}

/// Aggregated events are still paired by their own device.
#[test]
fn aggregated_devices_are_not_mixed_up() {
    let mut batch = RecordBatch::default();
    let all = MAX_DEVICES as u32 + 3;
    for action in [Action::Queue, Action::Issue, Action::Complete] {
        for device in 0..all {
            let time = u64::from(device) + 1_000_000 * action as u64;
            batch.push(
                TraceRecord { device, action: action as u16, bytes: 4096, ..event(time, 1) },
                &[],
            );
        }
    }
    let mut stages = StageAnalysis::default();
    stages.take(&batch, 0);
    stages.finish();
    assert_eq!(stages.unmatched().open + stages.unmatched().completions, 0);
    let others = stages.devices()[MAX_DEVICES].stages.get(Stage::D2c).average;
    assert_eq!((others.count, others.min, others.max), (3, 1_000_000, 1_000_000));
}

#[test]
fn a_million_devices_cost_bounded_memory() {
    let records =
        (0..1_000_000u32).map(|n| bytes(&TraceRecord { device: n, ..event(n.into(), 1) }, &[], 7));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.blktrace.0");
    fs::write(&path, records.collect::<Vec<_>>().concat()).unwrap();
    let stages = stages(std::slice::from_ref(&path));
    assert_eq!(stages.devices().len(), MAX_DEVICES + 1);
    let others = &stages.devices()[MAX_DEVICES];
    assert_eq!((others.number, others.queued), (OTHER_DEVICES, 1_000_000 - MAX_DEVICES as u64));
    assert_eq!(stages.unmatched().devices, others.queued);
    assert!(our_btt(&[path], false).len() < 10_000_000);
}

/// Bits turned over anywhere in a capture: every reader ends, none panics.
#[test]
fn random_damage_never_panics() {
    let generated = GeneratedCapture::new(GeneratorSettings {
        events: 2_000,
        devices: 1,
        ..GeneratorSettings::default()
    });
    let original = fs::read(generated.path().join("gen0.blktrace.0")).unwrap();
    let path = generated.path().join("bad.blktrace.0");
    let mut seed = 5u64;
    for _ in 0..40 {
        let mut bytes = original.clone();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 20) as usize % bytes.len();
            bytes[at] = (seed >> 50) as u8;
        }
        fs::write(&path, bytes).unwrap();
        stages(std::slice::from_ref(&path));
        our_btt(std::slice::from_ref(&path), true);
        our_text(std::slice::from_ref(&path), events::EventOptions::default());
    }
}
