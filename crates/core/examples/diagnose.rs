//! Prints what the diagnosis says of recordings: `cargo run --example diagnose -- DIR...`.

use iowhy_core::analysis::summarize;
use iowhy_core::diagnosis::diagnose;
use iowhy_core::recording::RecordingReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        println!("== {}", path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&path));
        let summary = summarize(&mut RecordingReader::open(path.as_ref())?)?;
        let diagnosis = diagnose(&summary);
        println!("   {}", diagnosis.quiet.as_deref().unwrap_or("-"));
        for finding in diagnosis.findings.iter().take(6) {
            println!(
                " * {:?} {:?} {} {:.0}%: {}\n     waits: {}\n     fix: {}",
                finding.severity,
                finding.confidence,
                finding.cause,
                finding.impact * 100.0,
                finding.sentence,
                finding.waits.as_deref().unwrap_or("-"),
                finding.fix,
            );
        }
        let patterns = &summary.patterns;
        for group in patterns.waits.iter().take(7) {
            println!(
                "   {:.2}s x{} {} {:?} dev={} call={:?} file={} [dev {:.2} queue {:.2} cpu {:.2}]",
                group.time_ns as f64 / 1e9,
                group.waits,
                group.process,
                group.class,
                group.device.as_deref().unwrap_or("-"),
                group.syscall,
                group.file.as_deref().unwrap_or("-"),
                group.device_ns as f64 / 1e9,
                group.queue_ns as f64 / 1e9,
                group.run_queue_ns as f64 / 1e9,
            );
        }
    }
    Ok(())
}
