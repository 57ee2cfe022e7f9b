//! Thousands of damaged and impossible inputs of every kind that iowhy reads, each put through a
//! command of the built iowhy: `make hostile`, `IOWHY_HOSTILE=1 make test`. None may panic, be
//! ended by a signal, exceed its limits of memory or time, or print a control character.
//!
//! | where | what |
//! |---|---|
//! | [`sound`] | the inputs that are spoiled |
//! | [`damage`], [`rows`] | how |
//! | [`commands`] | what reads them |
//! | [`runs`] | one run and the verdict on it |
//! | [`table`] | what is written of all |
//!
//! What does not belong here: readers fed with any bytes inside of one process (`fuzz/`).
#![forbid(unsafe_code)]

mod chance;
mod commands;
mod damage;
mod files;
mod rows;
mod runs;
mod sound;
mod table;

use chance::Chance;
use clap::Parser;
use commands::{CELLS, InputKind, KINDS, KindOfInput, ROWS};
use files::InputFiles;
use iowhy_labs::bench::{self, Benchmark, TableOutput, cpus};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, iowhy};
use runs::HostileRun;
use sound::SoundInputs;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

/// Inputs between two lines of progress.
const TOLD_EVERY: usize = 1_000;
/// Inputs that failed once, below the root of the project: a directory for each kind.
const KEPT: &str = "fuzz/corpus/hostile";

/// How many inputs, and from which.
#[derive(Clone, Debug, Parser)]
struct HostileSettings {
    /// Inputs; each is put through one command.
    #[arg(long, default_value_t = 10_000)]
    inputs: u64,
    /// The number of the first input: others with another number.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Leave the first input here, and run nothing.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Where the table goes.
    #[command(flatten)]
    output: TableOutput,
    /// What `cargo test` passes on.
    #[arg(long, hide = true)]
    nocapture: bool,
}

fn main() -> ExitCode {
    let settings = HostileSettings::parse();
    let result = match &settings.keep {
        Some(place) => settings.keep(place),
        None => bench::run(&settings, &mut say),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    say(&format!("hostile: {error}"));
    ExitCode::FAILURE
}

fn say(line: &str) {
    // A closed terminal does not end the test.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Benchmark for HostileSettings {
    const TARGET: &'static str = "hostile";
    // cargo runs tests in their package's folder.
    const PAGE: &'static str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hostile-input.md");

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let begun = std::time::Instant::now();
        let mut runs = kept(progress)?;
        runs.extend(self.run(progress)?);
        let failed = runs.iter().filter(|run| run.fault.is_some()).count();
        if failed > 0 {
            let said = format!("{failed} of {} inputs", runs.len());
            return Err(LabError::failed("survive hostile inputs".to_owned(), said));
        }
        table::part(machine, &runs, begun.elapsed())
    }
}

impl HostileSettings {
    /// Runs all inputs, as many at once as there are CPUs.
    fn run(&self, progress: &mut dyn FnMut(&str)) -> Result<Vec<HostileRun>> {
        let (binary, scratch) = (iowhy::binary()?, Scratch::new()?);
        let memory = scratch.memory()?;
        let sound = SoundInputs::new(&root(), &memory)?;
        let (next, last) = (AtomicU64::new(self.first), self.first.saturating_add(self.inputs));
        let (done, runs) = channel();
        std::thread::scope(|scope| {
            for worker in 0..cpus() {
                let (done, place) = (done.clone(), memory.join(format!("input-{worker}")));
                let (next, sound, binary) = (&next, &sound, &binary);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        // The receiver is gone after a first error.
                        if number >= last || done.send(one(sound, number, &place, binary)).is_err()
                        {
                            return;
                        }
                    }
                });
            }
            drop(done);
            let mut all = Vec::new();
            for run in runs {
                let run = run?;
                tell(&run, progress);
                all.push(run);
                if all.len().is_multiple_of(TOLD_EVERY) {
                    progress(&format!("{} inputs", all.len()));
                }
            }
            Ok(all)
        })
    }

    /// Writes the first input to `place`.
    fn keep(&self, place: &Path) -> Result<()> {
        let scratch = Scratch::new()?;
        let sound = SoundInputs::new(&root(), scratch.path())?;
        let mut chance = Chance::for_input(self.first);
        let (kind, damage) = written(&sound, &mut chance, place)?;
        say(&format!("{}, {damage}: {}", kind.name, chance.one_of(kind.commands)));
        Ok(())
    }
}

fn tell(run: &HostileRun, progress: &mut dyn FnMut(&str)) {
    let HostileRun { number, kind, damage, command, fault: Some(fault), .. } = run else { return };
    let number = number.map_or_else(|| "a kept one".to_owned(), |number| number.to_string());
    progress(&format!("input {number} ({kind}, {damage}), iowhy {command}: {fault}"));
}

/// Makes the input of that number at `place`, and puts it through a command.
fn one(sound: &SoundInputs, number: u64, place: &Path, binary: &Path) -> Result<HostileRun> {
    let mut chance = Chance::for_input(number);
    let (kind, damage) = written(sound, &mut chance, place)?;
    let command = *chance.one_of(kind.commands);
    let run = runs::run(binary, place, (kind.name, damage), command)?;
    Ok(HostileRun { number: Some(number), ..run })
}

/// Writes an input; returns its kind, and the way in which it is spoiled.
fn written(
    sound: &SoundInputs,
    chance: &mut Chance,
    place: &Path,
) -> Result<(&'static KindOfInput, &'static str)> {
    let mut share = chance.below(KINDS.iter().map(|kind| kind.share).sum());
    let is_chosen = |kind: &&KindOfInput| {
        let is_below = share < kind.share;
        share = share.saturating_sub(kind.share);
        is_below
    };
    let kind = KINDS.iter().find(is_chosen).unwrap_or(&KINDS[0]);
    let damage = *chance.one_of(kind.damages);
    if damage == ROWS {
        InputFiles::default().write(place)?;
        sound.rows.write_spoiled(place, chance)?;
        return Ok((kind, damage));
    }
    let mut files = match kind.kind {
        InputKind::Recording => sound.recording.clone(),
        other => (*chance.one_of(&sound.of_kind(other))).clone(),
    };
    if damage != CELLS {
        damage::spoil(&mut files, damage, chance);
        files.write(place)?;
        return Ok((kind, damage));
    }
    files.write(place)?;
    let (path, table) = chance.one_of(&sound.tables);
    let (whole, column) = (chance.once_in(2), chance.below(100));
    table.write(&place.join(path), |numbers| match whole {
        true => numbers.set_all(column, chance.extreme()),
        false => (0..=chance.below(8))
            .for_each(|_| numbers.set(chance.below(100), chance.below(1 << 16), chance.extreme())),
    })?;
    Ok((kind, damage))
}

/// Puts each input that failed once through every command of its kind.
fn kept(progress: &mut dyn FnMut(&str)) -> Result<Vec<HostileRun>> {
    let (binary, scratch) = (iowhy::binary()?, Scratch::new()?);
    let place = scratch.memory()?.join("input");
    let mut runs = Vec::new();
    for kind in KINDS {
        let folder = root().join(KEPT).join(format!("{:?}", kind.kind).to_lowercase());
        for input in fs::read_dir(folder).into_iter().flatten() {
            let input = input.context(|| "list the inputs that are kept".to_owned())?.path();
            InputFiles::read(&input)?.write(&place)?;
            for command in kind.commands {
                let run = runs::run(&binary, &place, (kind.name, "failed once"), command)?;
                tell(&run, progress);
                runs.push(run);
            }
        }
    }
    Ok(runs)
}
