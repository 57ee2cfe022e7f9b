//! Readers that must survive any bytes. The targets call these functions, and so does the test that
//! reads past findings again (crates/blktrace/tests/it/fuzzed.rs).
//!
//! A target fails by panicking, by taking longer than libFuzzer's limit or by its memory limit.

use iowhy_analysis::stages::summary;
use iowhy_blktrace::btt::{Btt, report};
use iowhy_blktrace::events::{self, EventText, ProcessNames};
use iowhy_blktrace::import::{self, CaptureImport};
use iowhy_blktrace::stages::StageAnalysis;
use iowhy_blktrace::trace::text_events::{LineLayout, TextReader};
use iowhy_blktrace::trace::{
    CaptureOptions, EventFormat, Order, RecordBatch, TraceCapture, TraceRecord,
};
use iowhy_model::Names;
use iowhy_model::recording::RecordingReader;
use iowhy_model::source::{self, Progress, Source};
use std::io::Cursor;
use std::path::Path;

fn open(bytes: &[u8], order: Order) -> TraceCapture {
    TraceCapture::from_reader(
        Box::new(Cursor::new(bytes.to_vec())),
        "fuzz",
        CaptureOptions { order, ..CaptureOptions::default() },
    )
}

/// Bytes as a capture, or as the text of another tool: read in both orders, joined both ways,
/// printed, imported.
pub fn capture(bytes: &[u8]) {
    for order in [Order::Time, Order::Blkparse] {
        let mut capture = open(bytes, order);
        let mut stages = StageAnalysis::default();
        let mut btt = Btt::default();
        let compatible = order == Order::Blkparse;
        let options = events::EventOptions { compatible, ..events::EventOptions::default() };
        let mut printed = EventText::new(options);
        let (mut batch, mut out) = (RecordBatch::default(), Vec::new());
        while capture.fill(&mut batch) {
            let genesis = capture.genesis();
            stages.take(&batch, genesis);
            btt.take(&batch, genesis);
            printed.write(&batch, genesis, &mut out);
            out.clear();
        }
        stages.finish();
        let (unmatched, all) = (stages.unmatched(), stages.all());
        assert!(unmatched.in_flight <= unmatched.open, "{unmatched:?} of {all:?}");
        let figures = stages.summary(&summary::device_name);
        let mut active = figures.devices.iter().filter_map(|device| device.active);
        assert!(active.all(|active| active.time_share.is_finite()));
        let written = report::write(&mut btt, true, &mut out)
            .and_then(|()| report::write_ranges(&btt, &mut out))
            .and_then(|()| printed.summary.write(&mut out));
        assert!(written.is_ok(), "writing to memory fails");
    }
    let options = import::ImportOptions { events: true };
    let mut import = CaptureImport::new(open(bytes, Order::Time), ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    while import.fill(&mut batch, &mut names) == Ok(Progress::More) {
        batch.clear();
    }
}

/// Bytes as events that blkparse, ftrace or perf script printed.
pub fn text(bytes: &[u8]) {
    read_all(TextReader::new(bytes, "fuzz".into()));
}

fn read_all(mut reader: TextReader<&[u8]>) {
    let mut batch = RecordBatch::default();
    // Reading from memory fails nowhere but at its end.
    while reader.read(&mut batch, 64).unwrap_or(false) {
        batch.clear();
    }
}

/// Bytes as a format string, applied to an event of every action; what was printed so is read by
/// the same format.
pub fn format(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(format) = EventFormat::parse(text) else { return };
    let mut batch = RecordBatch::default();
    for action in 0..22 {
        batch.push(TraceRecord { action, bytes: 512, ..TraceRecord::default() }, &[0; 8]);
    }
    let options = events::EventOptions { format: Some(format), ..events::EventOptions::default() };
    let mut printed = Vec::new();
    EventText::new(options).write(&batch, 0, &mut printed);
    if let Ok(layout) = LineLayout::parse(text) {
        let mut reader = TextReader::new(&printed[..], "fuzz".into());
        reader.read_by(Some(layout.into()));
        read_all(reader);
    }
}

/// Reads bytes as the files of a recording below `directory`, which holds one: first the
/// replacement of `recording.json`, then after a NUL a segment of the requests. A recording that
/// does not open has a reason.
pub fn recording(bytes: &[u8], directory: &Path) {
    let at = bytes.iter().position(|byte| *byte == 0);
    let (manifest, segment) = match at {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    };
    let files = [
        (directory.join("recording.json"), Some(manifest).filter(|json| !json.is_empty())),
        (directory.join("requests/00000001.parquet"), segment),
    ];
    for (path, content) in &files {
        let folder = path.parent().unwrap_or(directory);
        let content = content.unwrap_or(b"{\"format\": 1}");
        if std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, content)).is_err() {
            return;
        }
    }
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    let Ok(mut reader) = RecordingReader::open(directory) else { return };
    while reader.fill(&mut batch, &mut names).is_ok_and(|progress| progress == Progress::More) {
        batch.clear();
    }
}
