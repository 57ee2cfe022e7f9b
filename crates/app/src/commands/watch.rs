//! `iowhy`: watch for a while and show the first screen; or a screen for each interval.

use super::page::NewPage;
use super::record::Recorder;
use crate::args::interval::GivenWords;
use crate::args::{Cli, Json, Only, OutputForm, Show};
use crate::failure::{Failure, USAGE};
use crate::last_watch::WatchKeeper;
use crate::near;
use crate::output::{self, PipedOutput};
use crate::selection;
use crate::watching::{EndedWatch, Until, WatchSink, watch};
use clap::ValueEnum;
use iowhy_analysis::intervals::{Cutter, EndedInterval, Pass};
use iowhy_analysis::{Filtered, Summaries, Summarizer};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Filter, Names};
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

impl WatchSink for Summarizer {
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.add(batch, names);
        Ok(())
    }
}

/// Takes all rows of a watch of which only a part is shown.
struct Parts {
    filtered: Filtered,
    keeper: Option<WatchKeeper>,
    recorder: Option<Recorder>,
    /// The directory of a page.
    page: Option<PathBuf>,
    /// Time at which the watch ended, CLOCK_MONOTONIC nanoseconds; 0 while it runs.
    end_ns: u64,
}

impl Parts {
    /// Does a step of keeping; a failure does not end the watch.
    fn keep<E: std::fmt::Display>(&mut self, step: impl FnOnce(&mut WatchKeeper) -> Result<(), E>) {
        if let Some(Err(cause)) = self.keeper.as_mut().map(step) {
            output::note(&format!("note: this watch will not be kept: {cause}"));
            self.keeper = None;
        }
    }
}

impl WatchSink for Parts {
    fn places(&self) -> Vec<PathBuf> {
        let kept = self.keeper.iter().map(|keeper| keeper.place().to_owned());
        let recorded = self.recorder.iter().flat_map(WatchSink::places);
        kept.chain(recorded).chain(self.page.clone()).collect()
    }

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.filtered.add(batch, names, self.end_ns);
        self.keep(|keeper| keeper.add(batch, names));
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.take(batch, names))
    }

    fn seen(&mut self, until_ns: u64, names: &Names) -> Result<(), Failure> {
        self.keep(|keeper| keeper.seen(until_ns, names));
        Ok(())
    }

    fn note(&mut self, now: &Environment) {
        if let Some(keeper) = &mut self.keeper {
            keeper.note(now);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.note(now);
        }
    }

    fn ended(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    fn discard(self) {
        self.recorder.into_iter().for_each(WatchSink::discard);
    }
}

/// Watches and shows. If that is not possible, shows /proc's counters and fails nevertheless.
pub fn run(cli: &Cli) -> Result<(), Failure> {
    let (show, recording) = outputs(cli)?;
    let given = given(&cli.words)?;
    if given.wanted.every_ns.is_some() {
        return each_interval(cli, &given, &show);
    }
    let (args, page) = (&cli.watch, NewPage::wanted(&show)?);
    let options = args.collect.options(&args.only);
    let until = Until { time: Some(args.time), command: None };
    let begin = |now: &Environment| {
        let filtered = Filtered::new(now, &args.only.filter());
        let filtered = if page.is_some() { filtered.with_charts(now) } else { filtered };
        let keeper = if cli.keep.no_keep { None } else { WatchKeeper::begin(now) };
        let devices = args.only.filter().of_devices();
        let begin = |directory: &PathBuf| Recorder::begin(directory, now, &devices, None);
        let recorder = recording.as_ref().map(begin).transpose()?;
        let page = page.as_ref().map(NewPage::folder);
        Ok(Parts { filtered, keeper, recorder, page, end_ns: 0 })
    };
    let watched = watch(&options, &Filter::default(), until, begin)
        .map_err(|failure| crate::unprivileged::instead(failure, args.time, show.json.is_some()))?;
    let EndedWatch { environment, names, sink, failed, .. } = watched;
    let Parts { filtered, keeper, recorder, .. } = sink;
    let summaries = filtered.finish(&environment, &names);
    let is_kept = keeper.is_some_and(|keeper| is_kept(keeper, &environment, &names));
    if let Some(page) = page {
        page.write(&summaries, &names, None)?;
    }
    output::print(&super::report::live_text(&summaries, is_kept, &show))?;
    if let Some(recorder) = recorder {
        recorder.end(&environment, &names, failed)?;
    }
    selection::check(&args.only.filter(), &summaries.shown, summaries.judged())
}

/// Writes the watch where it is kept; whether commands without a source now mean it.
fn is_kept(keeper: WatchKeeper, environment: &Environment, names: &Names) -> bool {
    let kept = keeper.finish(environment, names);
    if let Err(cause) = &kept {
        output::note(&format!("note: this watch is not kept: {cause}"));
    }
    kept.is_ok()
}

/// Returns the form in which the watch is shown, and the recording to write. `-o json` was a way to
/// write `--json`.
fn outputs(cli: &Cli) -> Result<(Show, Option<PathBuf>), Failure> {
    let Some(output) = &cli.keep.output else { return Ok((cli.show.clone(), None)) };
    let word = output.to_string_lossy();
    match OutputForm::from_str(&word, false) {
        Err(_) => Ok((cli.show.clone(), Some(output.clone()))),
        Ok(_) if cli.show.json.is_some() || cli.show.html.is_some() => {
            let message = format!("failed to read the arguments: -o {word} with another form");
            Err(Failure { code: USAGE, ..Failure::new(message, None) })
        }
        Ok(form) => {
            super::report::old_form(form);
            Ok((Show { json: form.of_today(), ..cli.show.clone() }, None))
        }
    }
}

/// Parses the words of the command line: an interval and a count, or a command with a typing error.
fn given(words: &[OsString]) -> Result<GivenWords, Failure> {
    let usage = |message: String, hint: String| Failure {
        code: USAGE,
        ..Failure::new(message, Some(hint))
    };
    let given = GivenWords::parse(words).map_err(|cause| {
        let hint = "`iowhy 5` shows a screen each 5 seconds, `iowhy 5 3` three of them";
        usage(format!("failed to read the arguments: {cause}"), hint.to_owned())
    })?;
    let Some(word) = given.paths.first() else { return Ok(given) };
    let text = word.to_string_lossy();
    let command = Cli::definition();
    let names = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let names: Vec<&str> = names.map(clap::Command::get_name).collect();
    let message = format!("failed to find the command {text}");
    if names.contains(&text.as_ref()) {
        let hint = format!("the command comes before its options: `iowhy {text} ...`");
        return Err(usage(message, hint));
    }
    let is_source = Path::new(word).exists().then(|| {
        let source = crate::sources::words(std::slice::from_ref(word));
        format!("`iowhy report {source}` shows a recording or a capture")
    });
    let hint = is_source.or_else(|| near::question(&text, names.into_iter()));
    Err(usage(message, hint.unwrap_or_else(|| "`iowhy --help` lists all commands".to_owned())))
}

/// Both summaries of an interval.
struct PartsPass {
    filter: Filter,
    filtered: Filtered,
    end_ns: u64,
}

impl PartsPass {
    fn new(filter: Filter, environment: &Environment) -> PartsPass {
        let filtered = Filtered::new(environment, &filter);
        PartsPass { filter, filtered, end_ns: environment.end_ns }
    }
}

impl Pass for PartsPass {
    type Figures = Summaries;

    fn begin(&self, environment: &Environment) -> PartsPass {
        PartsPass::new(self.filter.clone(), environment)
    }

    fn add(&mut self, batch: &Batch, names: &Names) {
        self.filtered.add(batch, names, self.end_ns);
    }

    fn finish(self, environment: &Environment, names: &Names) -> Summaries {
        self.filtered.finish(environment, names)
    }
}

/// Shows each interval when it is over.
struct Screens<'a> {
    cutter: Cutter<PartsPass>,
    show: &'a Show,
    environment: Environment,
    seen_ns: u64,
    answer: PipedOutput,
}

impl WatchSink for Screens<'_> {
    const PRINTS: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.cutter.add(batch, &self.environment, names);
        Ok(())
    }

    fn note(&mut self, now: &Environment) {
        self.environment.clone_from(now);
    }

    fn is_content(&self) -> bool {
        self.cutter.is_over(self.seen_ns)
    }

    fn seen(&mut self, until_ns: u64, names: &Names) -> Result<(), Failure> {
        self.seen_ns = until_ns;
        let mut ended = Vec::new();
        let mut push = |interval: EndedInterval<Summaries>| {
            ended.push(interval.figures);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.cutter.close_until(until_ns, &self.environment, names, &mut push);
        // A failure to print ends the watch; whether that is an error is said when the output ends.
        let unread = || Failure::new("failed to print a screen", None);
        print_all(&ended, self.show, &mut self.answer).then_some(()).ok_or_else(unread)
    }
}

/// Prints a screen for each summary; false once the reader has gone.
fn print_all(ended: &[Summaries], show: &Show, answer: &mut PipedOutput) -> bool {
    ended.iter().all(|summaries| {
        let text = super::report::live_text(summaries, false, show);
        answer.write(text.as_bytes()) && answer.flush()
    })
}

/// A screen for each interval, as iostat's users expect of `iowhy 5`.
fn each_interval(cli: &Cli, given: &GivenWords, show: &Show) -> Result<(), Failure> {
    if show.html.is_some() || show.share.is_some() || cli.keep.output.is_some() {
        let message = "failed to read the arguments: an interval with a page or -o";
        let hint = "`iowhy record -o DIR` records many intervals, which all views read";
        return Err(Failure { code: USAGE, ..Failure::new(message, Some(hint.to_owned())) });
    }
    let only: &Only = &cli.watch.only;
    let options = cli.watch.collect.options(only);
    let until = Until { time: None, command: None };
    let is_json = show.json.is_some_and(|json| matches!(json, Json::Full | Json::Brief));
    let begin = |now: &Environment| {
        let like = PartsPass::new(only.filter(), now);
        let cutter = Cutter::new(like, given.wanted, now);
        let answer = PipedOutput::begin();
        Ok(Screens { cutter, show, environment: now.clone(), seen_ns: 0, answer })
    };
    let watched = watch(&options, &Filter::default(), until, begin)
        .map_err(|failure| crate::unprivileged::instead(failure, cli.watch.time, is_json))?;
    let Screens { cutter, show, mut answer, .. } = watched.sink;
    if watched.failed.is_none() {
        // The last one is over when the watch is.
        let mut ended = Vec::new();
        let mut push = |interval: EndedInterval<Summaries>| {
            ended.push(interval.figures);
            Ok::<(), Infallible>(())
        };
        let Ok(_) = cutter.finish(&watched.environment, &watched.names, &mut push);
        print_all(&ended, show, &mut answer);
    }
    answer.finish()
}
