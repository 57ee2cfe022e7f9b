//! Drives a live watch: until when, and what the user sees meanwhile.
//!
//! What does not belong here: what becomes of the rows.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use iowhy_capture::live::{Live, Options};
use iowhy_core::figures::{counted, grouped};
use iowhy_core::model::filter::Silent;
use iowhy_core::model::{Environment, Filter, Names};
use iowhy_core::source::{Batch, Progress, Source};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::ErrorKind;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the ring may fill before it is read: long enough to cost nothing, short enough for a
/// fast disk.
const PAUSE: Duration = Duration::from_millis(40);
/// How often the user is told how it goes.
const TELL: Duration = Duration::from_millis(200);
/// How often what is lost so far is noted, for the case that the watch is killed.
const NOTE: Duration = Duration::from_secs(1);

/// Until when to watch; whichever comes first.
pub struct Until {
    /// A time.
    pub time: Option<Duration>,
    /// The end of a command, which is started once the watch sees everything.
    pub command: Option<Command>,
}

/// What takes the rows of a watch.
pub trait Sink {
    /// Whether it prints while the watch runs, so that nothing else may.
    const PRINTS: bool = false;

    /// Takes rows; an error ends the watch.
    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure>;

    /// Takes note that all rows of what had ended by `until_ns` have come; an error ends the watch.
    fn seen(&mut self, _until_ns: u64, _names: &Names) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether it has all that it wants: the watch ends as if its time were over.
    fn is_content(&self) -> bool {
        false
    }

    /// Takes note of what is true of the watch so far.
    fn note(&mut self, _now: &Environment) {}

    /// Takes note of when the watch ended; what is in flight then comes with its last rows, after this.
    fn ended(&mut self, _end_ns: u64) {}

    /// Takes back what it has begun: nothing was watched.
    fn discard(self)
    where
        Self: Sized,
    {
    }
}

/// Watches until `until`, and hands what `filter` keeps to `sink`. When a sink fails, the watch
/// ends and the failure is returned with what is true of it so far.
pub fn watch<S: Sink>(
    options: &Options,
    filter: &Filter,
    mut until: Until,
    begin: impl FnOnce(&Environment) -> Result<S, Failure>,
) -> Result<Watched<S>, Failure> {
    let stop = stop_flag()?;
    let mut live = Live::begin(options)?;
    let filter = filter.on_disks(&live.environment().devices);
    let mut sink = begin(live.environment())?;
    let mut child = match until.command.as_mut().map(start).transpose() {
        Ok(child) => child,
        Err(failure) => {
            sink.discard();
            return Err(failure);
        }
    };
    let mut names = Names::new();
    let mut batch = Batch::default();
    let mut told = Told::new(until.time, S::PRINTS);
    let mut failed = None;
    let mut noted = Instant::now();
    let mut silent = Silent::default();
    loop {
        batch.clear();
        let progress = live.fill(&mut batch, &mut names)?;
        told.requests += batch.requests.len() as u64;
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
            live.refresh(&names);
            sink.note(live.environment());
        }
        if let Some(why) = ended(&stop, until.time, &mut child, told.begun) {
            live.stop(why);
        } else if sink.is_content() {
            live.stop("time");
        } else if live.is_empty() {
            told.tell(&live);
            std::thread::sleep(PAUSE.min(live.idle_for()));
        }
    }
    told.bar.finish_and_clear();
    let mut environment = live.environment().clone();
    environment.limits.extend(silent.sentences());
    Ok(Watched { environment, names, sink, failed, child })
}

/// A watch that has ended.
pub struct Watched<S> {
    /// What is true of it.
    pub environment: Environment,
    /// The texts of its rows.
    pub names: Names,
    /// What took the rows.
    pub sink: S,
    /// Why it ended before its time.
    pub failed: Option<Failure>,
    /// The command that ran meanwhile.
    pub child: Option<Child>,
}

/// The first signal asks for an orderly end; a second one ends at once. The kernel removes the
/// programs whichever way the process goes.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let second = signal_hook::flag::register_conditional_shutdown(
            signal,
            128 + signal,
            Arc::clone(&stop),
        );
        second
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("failed to handle signals: {error}"), None))?;
    }
    Ok(stop)
}

fn start(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        let hint = match error.kind() {
            ErrorKind::NotFound => "the interpreter that its first line names (#!) is not there",
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

/// What the user is told while the watch runs.
struct Told {
    bar: ProgressBar,
    begun: Instant,
    last: Instant,
    requests: u64,
    requests_then: u64,
    time: Option<Duration>,
}

impl Told {
    fn new(time: Option<Duration>, hidden: bool) -> Told {
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
        Told { bar, begun: now, last: now, requests: 0, requests_then: 0, time }
    }

    fn tell(&mut self, live: &Live) {
        let since = self.last.elapsed();
        if since < TELL || self.bar.is_hidden() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let rate = ((self.requests - self.requests_then) as f64 / since.as_secs_f64()) as u64;
        let cpu = live.cpu_ns() as f64 / elapsed.as_nanos().max(1) as f64 * 100.0;
        let length = self.time.map_or(String::new(), |time| format!("/{} s", time.as_secs_f64()));
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_message(format!(
            "{:.0}{length}  {}, {}/s, {} lost, {cpu:.1} % of a CPU",
            elapsed.as_secs_f64(),
            counted(self.requests, "requests"),
            grouped(rate),
            grouped(live.losses().requests()),
        ));
        self.last = Instant::now();
        self.requests_then = self.requests;
    }
}
