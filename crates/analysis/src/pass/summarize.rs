//! A source read to its end.
//!
//! What does not belong here: filters and intervals (`super::filtered`, `intervals::cutter`).

use crate::pass::Summarizer;
use crate::summary::Summary;
use iowhy_model::Names;
use iowhy_model::source::{Batch, Progress, Source};

/// Reads a source to its end and returns its summary.
///
/// # Errors
///
/// The source's own error when it cannot be read.
///
/// # Examples
///
/// The mean read latency of each device of a recording, in nanoseconds:
///
/// ```
/// use iowhy_analysis::{Direction, Interval, summarize};
/// use iowhy_model::recording::RecordingReader;
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/recording");
///
/// let mut recording = RecordingReader::open(path.as_ref())?;
/// let summary = summarize(&mut recording)?;
/// for device in &summary.devices {
///     let reads = device.directions[Direction::Read].intervals[Interval::D2c];
///     println!("{}: {:?}", device.device, reads.map(|it| it.mean_ns));
/// }
/// assert_eq!(summary.devices[0].device, "loop0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn summarize<S: Source>(source: &mut S) -> Result<Summary, S::Error> {
    let mut summarizer = Summarizer::new(source.environment());
    let (mut batch, mut names) = (Batch::default(), Names::new());
    loop {
        batch.clear();
        let progress = source.fill(&mut batch, &mut names)?;
        summarizer.add(&batch, &names);
        if progress == Progress::Done {
            return Ok(summarizer.finish(source.environment(), &names));
        }
    }
}
