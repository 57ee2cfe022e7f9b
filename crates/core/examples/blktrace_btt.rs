//! btt's report of a capture: `blktrace_btt [-A] [-o PREFIX] FILES`, to compare with btt itself.

use iowhy_core::analysis::stages::btt::{Btt, report};
use iowhy_core::analysis::stages::pipeline;
use iowhy_core::formats::blktrace::{Capture, Options, Order};
use std::io::{BufWriter, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<std::path::PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let everything = files.first().is_some_and(|first| first.as_os_str() == "-A");
    if everything {
        files.remove(0);
    }
    let capture = Capture::open(&files, Options { order: Order::Blkparse })?;
    let mut btt = Btt::default();
    pipeline::run(capture, |start, batch| btt.take(batch, start.genesis));
    let mut out = BufWriter::new(std::io::stdout().lock());
    report::write(&mut btt, everything, &mut out)?;
    out.flush()?;
    Ok(())
}
