//! Counts the records of a capture, to time reading and merging alone.

use iowhy_core::formats::blktrace::{Batch, Capture, Options};

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let mut capture = Capture::open(&files, Options::default())?;
    let (mut batch, mut records, mut last, mut backwards) = (Batch::default(), 0u64, 0, 0u64);
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
