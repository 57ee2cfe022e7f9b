//! Drives a live watch: its end, and its progress.
//!
//! What does not belong here: what happens to the rows.

use crate::failure::Failure;
use crate::redaction;
use indicatif::{ProgressBar, ProgressStyle};
use iowhy_capture::live::{LiveWatch, WatchOptions};
use iowhy_capture::priority::RaisedPriority;
use iowhy_diagnosis::redact::RedactedRows;
use iowhy_model::figures::{counted, grouped};
use iowhy_model::filter::SilentWaits;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Filter, Names};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the ring is read: long enough to be cheap, short enough for a fast disk.
const PAUSE: Duration = Duration::from_millis(40);
/// Interval of progress messages.
const UPDATE: Duration = Duration::from_millis(200);
/// Interval at which losses are saved, in case the watch is killed.
const NOTE: Duration = Duration::from_secs(1);

/// The end of a watch; whichever comes first.
pub struct Until {
    /// A time.
    pub time: Option<Duration>,
    /// The end of a command, which is started once all programs are attached.
    pub command: Option<Command>,
}

/// Receives the rows of a watch.
pub trait WatchSink {
    /// Whether it prints while the watch runs, so that no progress is shown.
    const PRINTS: bool = false;
    /// Whether the terminal has to be given back before the process ends, so that no signal may end
    /// it at once.
    const OWNS_TERMINAL: bool = false;

    /// The directories below which the thread that watches writes from now on, apart from its
    /// standard output.
    fn places(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Takes rows; an error ends the watch.
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure>;

    /// Called when all rows that ended by `until_ns` have arrived; an error ends the watch.
    fn seen(&mut self, _until_ns: u64, _names: &Names) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether it needs no more rows: the watch ends as if its time were over.
    fn is_content(&self) -> bool {
        false
    }

    /// Called with the environment so far.
    fn note(&mut self, _now: &Environment) {}

    /// Called when the watch ends; rows in flight at that time come after this.
    fn ended(&mut self, _end_ns: u64) {}

    /// Undoes the beginning, since nothing was watched.
    fn discard(self)
    where
        Self: Sized,
    {
    }
}

/// Watches until `until`, and passes the rows that `filter` keeps to `sink`. If a sink fails, the
/// watch ends and the failure is returned with the environment so far.
pub fn watch<S: WatchSink>(
    options: &WatchOptions,
    filter: &Filter,
    mut until: Until,
    begin: impl FnOnce(&Environment) -> Result<S, Failure>,
) -> Result<EndedWatch<S>, Failure> {
    let stop = stop_flag(S::OWNS_TERMINAL)?;
    let mut live = LiveWatch::begin(options)?;
    let filter = filter.on_disks(&live.environment().devices);
    let mut view = LiveView::new();
    let mut sink = begin(&view.environment(&live))?;
    let mut child = match until.command.as_mut().map(start).transpose() {
        Ok(child) => child,
        Err(failure) => {
            sink.discard();
            return Err(failure);
        }
    };
    give_up_rights(&live, &sink)?;
    let mut names = Names::new();
    let mut batch = Batch::default();
    // After the command has been started, since it must not inherit the priority.
    let mut priority = RaisedPriority::of_this_thread();
    let mut shown = WatchProgress::new(until.time, S::PRINTS);
    let mut failed = None;
    let mut noted = Instant::now();
    let mut silent = SilentWaits::default();
    loop {
        batch.clear();
        priority.keep_bounded();
        let progress = view.fill(&mut live, &mut batch, &mut names)?;
        shown.requests += batch.requests.len() as u64;
        if progress == Progress::Done {
            sink.ended(live.environment().end_ns);
        }
        silent.add(batch.retain(&filter, &names, live.environment().end_ns));
        let taken = match failed {
            None => sink.take(&batch, &names).and_then(|()| sink.seen(live.seen_ns(), &names)),
            Some(_) => Ok(()),
        };
        if let Err(failure) = taken {
            failed = Some(failure);
            live.stop("the recording could not be written");
        }
        if progress == Progress::Done {
            break;
        }
        if noted.elapsed() >= NOTE {
            noted = Instant::now();
            live.refresh(view.names(&names));
            sink.note(&view.environment(&live));
        }
        if let Some(why) = ended(&stop, until.time, &mut child, shown.begun) {
            live.stop(why);
        } else if sink.is_content() {
            live.stop("time");
        } else if live.is_empty() {
            shown.update(&live);
            std::thread::sleep(PAUSE.min(live.idle_for()));
        }
    }
    shown.bar.finish_and_clear();
    let mut environment = view.environment(&live).into_owned();
    environment.limits.extend(silent.sentences());
    Ok(EndedWatch { environment, names, sink, failed, child })
}

/// Gives up the rights that nothing needs any more; a command that was started keeps its own.
fn give_up_rights<S: WatchSink>(live: &LiveWatch, sink: &S) -> Result<(), Failure> {
    let given_up = live.give_up_rights(sink.places());
    given_up.map_err(|cause| Failure::new(format!("failed to give up rights: {cause}"), None))
}

/// The view of a live watch that sinks get: all of it, or rows and environment without names.
struct LiveView {
    redacted: Option<RedactedRows>,
    /// The texts of the original rows.
    names: Names,
}

impl LiveView {
    fn new() -> LiveView {
        let redacted = redaction::redactor().cloned().map(RedactedRows::new);
        LiveView { redacted, names: Names::new() }
    }

    fn fill(
        &mut self,
        live: &mut LiveWatch,
        batch: &mut Batch,
        names: &mut Names,
    ) -> Result<Progress, Failure> {
        let Some(rows) = &mut self.redacted else { return Ok(live.fill(batch, names)?) };
        let progress = live.fill(batch, &mut self.names)?;
        rows.batch(batch, &self.names, names);
        Ok(progress)
    }

    /// The texts that the watch itself interned.
    fn names<'a>(&'a self, given: &'a Names) -> &'a Names {
        if self.redacted.is_some() { &self.names } else { given }
    }

    fn environment<'a>(&self, live: &'a LiveWatch) -> Cow<'a, Environment> {
        match &self.redacted {
            None => Cow::Borrowed(live.environment()),
            Some(rows) => Cow::Owned(rows.environment(live.environment())),
        }
    }
}

/// A watch that has ended.
pub struct EndedWatch<S> {
    /// The watch's environment.
    pub environment: Environment,
    /// The texts of its rows.
    pub names: Names,
    /// The receiver of the rows.
    pub sink: S,
    /// The failure that ended it early.
    pub failed: Option<Failure>,
    /// The command that ran meanwhile.
    pub child: Option<Child>,
}

/// The first signal requests an orderly end; a second one ends at once. The kernel removes the
/// programs in either case.
fn stop_flag(owns_terminal: bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let second = match owns_terminal {
            true => Ok(()),
            false => signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&stop),
            )
            .map(drop),
        };
        second
            .and_then(|()| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("failed to handle signals: {error}"), None))?;
    }
    Ok(stop)
}

fn start(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        let hint = match error.kind() {
            ErrorKind::NotFound => "the interpreter in its first line (#!) does not exist",
            ErrorKind::PermissionDenied => "may you run it, and is its file system mounted noexec?",
            _ => "is it a program for this machine? A script needs its interpreter: -- sh FILE",
        };
        Failure::new(format!("failed to start {program}: {error}"), Some(hint.to_owned()))
    })
}

fn ended(
    stop: &AtomicBool,
    time: Option<Duration>,
    child: &mut Option<Child>,
    begun: Instant,
) -> Option<&'static str> {
    if stop.load(Ordering::Relaxed) {
        return Some("signal");
    }
    if time.is_some_and(|time| begun.elapsed() >= time) {
        return Some("time");
    }
    let child = child.as_mut()?;
    matches!(child.try_wait(), Ok(Some(_))).then_some("command")
}

/// The progress of a watch.
struct WatchProgress {
    bar: ProgressBar,
    begun: Instant,
    last: Instant,
    requests: u64,
    requests_then: u64,
    time: Option<Duration>,
}

impl WatchProgress {
    fn new(time: Option<Duration>, hidden: bool) -> WatchProgress {
        let bar = match hidden {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(time.map_or(0, |time| time.as_millis() as u64)),
        };
        let template = match time {
            Some(_) => "watching {bar:30} {msg}",
            None => "watching {spinner} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let now = Instant::now();
        WatchProgress { bar, begun: now, last: now, requests: 0, requests_then: 0, time }
    }

    fn update(&mut self, live: &LiveWatch) {
        let since = self.last.elapsed();
        if since < UPDATE || self.bar.is_hidden() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let rate = ((self.requests - self.requests_then) as f64 / since.as_secs_f64()) as u64;
        let cost = live.cost();
        let share = cost.steady_share(elapsed.as_nanos() as u64, 0).unwrap_or(0.0) * 100.0;
        let start = cost.start_cpu_ns as f64 / 1e9;
        let length = self.time.map_or(String::new(), |time| format!("/{} s", time.as_secs_f64()));
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_message(format!(
            "{:.0}{length}  {}, {}/s, {} lost, {start:.1} s to start, then {share:.1} % of all \
             CPUs",
            elapsed.as_secs_f64(),
            counted(self.requests, "requests"),
            grouped(rate),
            grouped(live.losses().requests()),
        ));
        self.last = Instant::now();
        self.requests_then = self.requests;
    }
}
