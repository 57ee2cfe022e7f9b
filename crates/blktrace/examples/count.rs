//! Counts the records of a capture, to time reading and merging alone.

use iowhy_blktrace::trace::{CaptureOptions, RecordBatch, TraceCapture};

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let mut capture = TraceCapture::open(&files, CaptureOptions::default())?;
    let (mut batch, mut records, mut last, mut backwards) = (RecordBatch::default(), 0u64, 0, 0u64);
    while capture.fill(&mut batch) {
        records += batch.records.len() as u64;
        for record in batch.records.iter().filter(|record| !record.is_notify()) {
            backwards += u64::from(record.time < last);
            last = record.time;
        }
    }
    println!("{records} records, {backwards} backwards");
    for warning in capture.warnings().items() {
        println!("{warning}");
    }
    Ok(())
}
