//! `iowhy reproduce`: writes a reproduction of a source; the commands that run it.
//!
//! | where | what |
//! |---|---|
//! | here | from a source to a directory |
//! | [`replay`] | plays a sequence, for a run |
//! | [`rerun`] | runs it, records the run, compares |
//! | [`rounds`] | starts and records a load; for both of the others |
//! | [`verify`] | rounds without and with a change |
//!
//! What does not belong here: what a reproduction consists of (crate `iowhy-reproduce`).

pub mod replay;
pub mod rerun;
pub mod rounds;
pub mod verify;

use crate::args::Only;
use crate::args::reproduce::{PlaceArgs, ReproduceArgs};
use crate::failure::{Failure, USAGE};
use crate::last_watch;
use crate::output;
use crate::partial::PartialOutput;
use crate::sources;
use iowhy_analysis::{Filtered, Summary};
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_fs::{Folder, PRIVATE_FOLDER};
use iowhy_model::source::Source;
use iowhy_model::{Filter, Names};
use iowhy_reproduce::error::ReproduceError;
use iowhy_reproduce::folder;
use iowhy_reproduce::plan::LoadPlan;
use iowhy_reproduce::planning::{self, PlanSource};
use iowhy_reproduce::replay::sequence::ReplayTally;
use iowhy_reproduce::run::RunOptions;
use iowhy_reproduce::streams::LoadStreams;
use iowhy_reproduce::target::RunTarget;
use std::path::PathBuf;

/// A source that has been read.
pub struct ReadLoad {
    /// The source's summary.
    pub summary: Summary,
    /// The source's diagnosis.
    pub diagnosis: Diagnosis,
    streams: LoadStreams,
    sequence: ReplayTally,
    names: Names,
}

impl ReadLoad {
    /// Reads a source.
    pub fn from_paths(paths: &[PathBuf]) -> Result<ReadLoad, Failure> {
        ReadLoad::with(paths, false)
    }

    /// Reads a source, and its requests one by one if they are to be replayed.
    fn with(paths: &[PathBuf], replay: bool) -> Result<ReadLoad, Failure> {
        let mut source = sources::open(paths, false)?;
        let filter = Only::default().filter();
        let mut filtered = Filtered::new(source.environment(), &filter);
        let mut streams = LoadStreams::default();
        let mut sequence = ReplayTally::default();
        let all = Filter::default();
        let (names, _) = sources::read_all(&mut source, &all, |batch, names, environment| {
            filtered.add(batch, names, environment.end_ns);
            streams.add(batch, names, environment);
            if replay {
                sequence.add(batch, names, environment);
            }
            Ok(())
        })?;
        streams.settle();
        let summary = filtered.finish(source.environment(), &names).shown;
        let diagnosis = diagnose(&summary);
        Ok(ReadLoad { summary, diagnosis, streams, sequence, names })
    }

    fn source(&self, keep_names: bool) -> PlanSource<'_> {
        let ReadLoad { streams, names, summary, diagnosis, .. } = self;
        PlanSource { streams, names, summary, diagnosis, keep_names }
    }

    /// The plan of its reproduction.
    pub fn plan(&self, keep_names: bool) -> LoadPlan {
        planning::plan(&self.source(keep_names))
    }
}

/// Reads the source and writes the reproduction.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let target = PartialOutput::directory(&args.output)?;
    let load = ReadLoad::with(&last_watch::or_last(&args.paths)?, args.replay)?;
    let (plan, texts) = match args.replay {
        true => planning::replayed(&load.source(args.keep_names), &load.sequence),
        false => (load.plan(args.keep_names), Vec::new()),
    };
    if plan.programs.is_empty() {
        let message = "failed to reproduce the source: it has no program's I/O";
        let hint = "record while the load runs, with files: `iowhy record`";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let path = target.path();
    let made = Folder::make_new(path, PRIVATE_FOLDER);
    let made = made.map_err(|cause| Failure::not_written(path, &cause))?;
    folder::write(&made, &plan).map_err(Failure::from)?;
    folder::write_replay(&made, &texts).map_err(Failure::from)?;
    // An empty one makes room: a rename over it needs it gone on some file systems.
    let _ = iowhy_fs::remove_folder(&args.output);
    target.finish()?;
    for note in &plan.notes {
        output::note(&format!("note: {note}"));
    }
    let jobs: usize =
        plan.programs.iter().map(|program| program.jobs.len() + program.steps.len()).sum();
    let (disks, bytes) = (plan.disks.len(), plan.disks.iter().map(|disk| disk.bytes).sum::<u64>());
    output::note(&format!(
        "wrote {}: {jobs} jobs of {} programs on {disks} disks; {} MiB are needed",
        args.output.display(),
        plan.programs.len(),
        bytes.div_ceil(1 << 20),
    ));
    let shown = sources::words(&[args.output.join("run")]);
    output::note(&format!("run it with: `{shown} --on EMPTY_DIRECTORY`"));
    Ok(())
}

/// The options of a run in the places that the user named.
fn options(places: &PlaceArgs) -> Result<RunOptions, Failure> {
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        places.destroy.iter().any(|place| *place == name)
    };
    let directories = places.on.iter().map(|path| RunTarget::Directory(absolute(path)));
    let devices = places
        .on_device
        .iter()
        .map(|path| RunTarget::Device { path: path.clone(), destroy: named(path) });
    let targets: Vec<RunTarget> = directories.chain(devices).collect();
    if targets.is_empty() {
        let message = "failed to run the reproduction: no place is named";
        let hint = "--on DIR names an empty directory of the disk to test, --on-device DEVICE an \
                    empty device; nothing else is ever written to";
        return Err(Failure { code: USAGE, ..Failure::new(message, Some(hint.to_owned())) });
    }
    Ok(RunOptions {
        targets,
        affect_machine: places.affect_machine,
        keep_settings: places.keep_settings,
        ..RunOptions::default()
    })
}

fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Failure {
        let hint = error.hint.clone();
        Failure::new(error, hint)
    }
}
