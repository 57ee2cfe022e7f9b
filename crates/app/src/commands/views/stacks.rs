//! `iowhy stacks`: code paths by interval, or folded stacks in total.

use crate::args::interval::StacksArgs;
use crate::failure::Failure;
use crate::intervals::{given, show};
use crate::output;
use crate::partial::PartialOutput;
use crate::sources;
use crate::watching::{Until, WatchSink, watch};
use iowhy_analysis::Summarizer;
use iowhy_analysis::formats::collapsed::{self, Collapsed};
use iowhy_analysis::formats::export::{Exported, Exporter};
use iowhy_capture::live::WatchOptions;
use iowhy_model::Names;
use iowhy_model::source::Batch;
use iowhy_views::flame;
use iowhy_views::interval::STACKS;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default length of a watch.
const WHOLE: Duration = Duration::from_secs(10);

/// Shows code paths, or folds stacks.
pub fn run(args: &StacksArgs) -> Result<(), Failure> {
    let options = WatchOptions { stacks_per_second: args.stacks, ..WatchOptions::default() };
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
        None => output::print_escaping(&folded),
        Some(path) => draw(&folded, path, args.weight.into()),
    }
}

/// The stacks of a live watch, and the directory that their picture goes to.
struct WatchedStacks {
    collapsed: Collapsed,
    picture: Option<PathBuf>,
}

impl WatchSink for WatchedStacks {
    fn places(&self) -> Vec<PathBuf> {
        self.picture.iter().cloned().collect()
    }

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        add(&mut self.collapsed, batch, names)
    }
}

fn add(collapsed: &mut Collapsed, batch: &Batch, names: &Names) -> Result<(), Failure> {
    collapsed.take(batch, names, &mut std::io::sink()).map_err(failed)
}

fn failed(cause: std::io::Error) -> Failure {
    Failure::new(format!("failed to fold stacks: {cause}"), None)
}

/// The folded stacks of a watch or of a source.
fn fold(args: &StacksArgs, options: WatchOptions) -> Result<(String, Exported), Failure> {
    let given = given(&args.intervals, STACKS.name)?;
    let filter = args.intervals.only.filter();
    let mut collapsed = Collapsed::new(args.weight.into());
    let names = if given.paths.is_empty() {
        let every = given.wanted.every_ns.map_or(WHOLE, Duration::from_nanos);
        let count = u32::try_from(given.wanted.count.unwrap_or(1)).unwrap_or(u32::MAX);
        let until = Until { time: Some(every.saturating_mul(count)), command: None };
        let options = WatchOptions { devices: args.intervals.only.devices.clone(), ..options };
        let picture = args.svg.as_deref().map(|path| iowhy_fs::folder_of(path).to_owned());
        let sink = WatchedStacks { collapsed, picture };
        let watched = watch(&options, &filter, until, |_| Ok(sink))?;
        output::losses(&watched.environment.losses);
        collapsed = watched.sink.collapsed;
        watched.names
    } else {
        let mut source = sources::open(&given.paths, false)?;
        sources::read_all(&mut source, &filter, |batch, names, _| {
            add(&mut collapsed, batch, names)
        })?
        .0
    };
    let mut folded = Vec::new();
    let exported = collapsed.finish(&names, &mut folded).map_err(failed)?;
    Ok((String::from_utf8_lossy(&folded).into_owned(), exported))
}

fn draw(folded: &str, path: &Path, weight: collapsed::FrameWeight) -> Result<(), Failure> {
    let (title, unit) = match weight {
        collapsed::FrameWeight::Time => ("Time of requests by code path", "µs"),
        collapsed::FrameWeight::Requests => ("Requests by code path", "requests"),
        collapsed::FrameWeight::Bytes => ("Bytes by code path", "bytes"),
    };
    let place = path.display();
    let failed = |cause: String| Failure::new(format!("failed to draw {place}: {cause}"), None);
    let picture = flame::svg(folded, title, unit).map_err(failed)?;
    let partial = PartialOutput::for_target(path)?;
    partial.write(&picture)?;
    partial.finish()?;
    output::note(&format!("drew {place}"));
    Ok(())
}
