//! `iowhy stacks`: code paths interval by interval, or the folded stacks of all of it.

use crate::args::interval::Stacks;
use crate::failure::Failure;
use crate::intervals::{given, show};
use crate::output;
use crate::sources;
use crate::watching::{Sink, Until, watch};
use iowhy_capture::live::Options;
use iowhy_core::analysis::Summarizer;
use iowhy_core::formats::collapsed::{self, Collapsed};
use iowhy_core::formats::export::{Exported, Format};
use iowhy_core::model::Names;
use iowhy_core::source::Batch;
use iowhy_views::flame;
use iowhy_views::interval::STACKS;
use std::path::Path;
use std::time::Duration;

/// How long to watch without a length.
const WHOLE: Duration = Duration::from_secs(10);

/// Shows code paths, or folds stacks.
pub fn run(args: &Stacks) -> Result<(), Failure> {
    let options = Options { stacks_per_second: args.stacks, ..Options::default() };
    if !args.folded && args.svg.is_none() {
        return show(&args.intervals, options, Summarizer::new, &STACKS);
    }
    let (folded, exported) = fold(args, options)?;
    for note in &exported.notes {
        output::note(&format!("note: {note}"));
    }
    for loss in &exported.left_out.items {
        output::note(&format!("left out: {}", loss.sentence()));
    }
    match &args.svg {
        None => output::print(&folded),
        Some(path) => draw(&folded, path, args.weight.into()),
    }
}

impl Sink for Collapsed {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        Format::take(self, batch, names, &mut std::io::sink()).map_err(failed)
    }
}

fn failed(cause: std::io::Error) -> Failure {
    Failure::new(format!("failed to fold stacks: {cause}"), None)
}

/// The folded stacks of a watch or of a source.
fn fold(args: &Stacks, options: Options) -> Result<(String, Exported), Failure> {
    let given = given(&args.intervals, STACKS.name)?;
    let filter = args.intervals.only.filter();
    let mut collapsed = Collapsed::new(args.weight.into());
    let names = if given.paths.is_empty() {
        let every = given.wanted.every_ns.map_or(WHOLE, Duration::from_nanos);
        let count = u32::try_from(given.wanted.count.unwrap_or(1)).unwrap_or(u32::MAX);
        let until = Until { time: Some(every.saturating_mul(count)), command: None };
        let options = Options { devices: args.intervals.only.devices.clone(), ..options };
        let watched = watch(&options, &filter, until, |_| Ok(collapsed))?;
        output::losses(&watched.environment.losses);
        collapsed = watched.sink;
        watched.names
    } else {
        let mut source = sources::open(&given.paths, false)?;
        sources::read_all(&mut source, &filter, |batch, names, _| {
            Sink::take(&mut collapsed, batch, names)
        })?
        .0
    };
    let mut folded = Vec::new();
    let exported = collapsed.finish(&names, &mut folded).map_err(failed)?;
    Ok((String::from_utf8_lossy(&folded).into_owned(), exported))
}

fn draw(folded: &str, path: &Path, weight: collapsed::Weight) -> Result<(), Failure> {
    let (title, unit) = match weight {
        collapsed::Weight::Time => ("Time of requests by who asked for them", "µs"),
        collapsed::Weight::Requests => ("Requests by who asked for them", "requests"),
        collapsed::Weight::Bytes => ("Bytes by who asked for them", "bytes"),
    };
    let place = path.display();
    let failed = |cause: String| Failure::new(format!("failed to draw {place}: {cause}"), None);
    let picture = flame::svg(folded, title, unit).map_err(failed)?;
    std::fs::write(path, picture).map_err(|cause| Failure::not_written(path, &cause))?;
    output::note(&format!("drew {place}"));
    Ok(())
}
