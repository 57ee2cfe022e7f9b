//! blkparse's text of a capture: `blktrace_events [-q] FILES`, to compare with blkparse itself.

use iowhy_core::analysis::stages::pipeline;
use iowhy_core::formats::blktrace::{Capture, Options, Order};
use iowhy_core::formats::events::{self, EventText};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let quiet = files.first().is_some_and(|first| first.as_os_str() == "-q");
    if quiet {
        files.remove(0);
    }
    let capture = Capture::open(&files, Options { order: Order::Blkparse })?;
    let options = events::Options { compatible: true, ..events::Options::default() };
    let mut text = EventText::new(options);
    if !capture.is_merged() {
        text.summary.names = capture.inputs().groups.iter().map(|g| g.name.clone()).collect();
    }
    let mut output = std::io::stdout().lock();
    let mut lines = Vec::new();
    let mut written = Ok(());
    pipeline::run(capture, |start, batch| {
        text.write(batch, start.genesis, &mut lines);
        if written.is_ok() {
            written = output.write_all(&lines);
        }
        lines.clear();
    });
    written?;
    if !quiet {
        text.summary.write(&mut output)?;
    }
    Ok(())
}
