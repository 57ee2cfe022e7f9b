//! The watch behind the screen, on a thread of its own: a terminal that stalls does not stall it.
//!
//! What does not belong here: drawing, and keys.

use crate::args::{CollectArgs, Only};
use crate::failure::Failure;
use crate::watching::{EndedWatch, Until, WatchSink, watch};
use crate::{output, own, sources};
use iowhy_diagnosis::moments::{Moment, MomentCutter, MomentSpan};
use iowhy_fs::confined::{ProgramLoading, Role, limit_this_thread};
use iowhy_model::recording::{RecordingRing, RecordingRingLimits, RingSnapshot, SavedSpan};
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Filter, Names};
use rustix::thread::CapabilitySet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// A moment, nanoseconds.
const EVERY_NS: u64 = 1_000_000_000;

/// A message of the watch to the screen.
pub enum FromWatch {
    /// A second is over.
    Moment(Box<Moment>),
    /// The sum of a longer span, as of now.
    Sum(MomentSpan, Box<Moment>),
    /// The last minutes were saved, or not, and why.
    Saved(String),
}

/// A watch that is running.
pub struct LiveTop {
    quit: Arc<AtomicBool>,
    /// The place of the span that is shown, among [`MomentSpan::ALL`].
    span: Arc<AtomicUsize>,
    save: Sender<PathBuf>,
    news: Receiver<FromWatch>,
    thread: JoinHandle<Result<EndedWatch<TopSink>, Failure>>,
}

impl LiveTop {
    /// Begins a watch, and returns its environment with it.
    pub fn begin(only: &Only) -> Result<(LiveTop, Environment), Failure> {
        let quit = Arc::new(AtomicBool::new(false));
        let (sender, news) = channel();
        let (begun_sender, begun) = channel();
        let (save, to_save) = channel();
        let options = CollectArgs::default().options(only);
        let (kept, filter) = (only.filter(), only.filter());
        let asked = Arc::clone(&quit);
        let span = Arc::new(AtomicUsize::new(0));
        let shown = Arc::clone(&span);
        let run = move || {
            let until = Until { time: None, command: None };
            watch(&options, &kept, until, move |now| {
                let saver = TopSaver::start(sender.clone())?;
                let mut about = now.clone();
                about.keep(&filter);
                // If the receiver is gone, the screen has ended, and so does the watch.
                let _ = begun_sender.send(about.clone());
                Ok(TopSink {
                    cutter: MomentCutter::new(EVERY_NS, now),
                    ring: RecordingRing::new(RecordingRingLimits::default(), now.start_ns)?,
                    environment: now.clone(),
                    filter,
                    sender,
                    to_save,
                    saver,
                    quit: asked,
                    span: shown,
                    sent: MomentSpan::default(),
                })
            })
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(run);
        let thread = thread
            .map_err(|cause| Failure::new(format!("failed to start a thread: {cause}"), None))?;
        let watch = LiveTop { quit, span, save, news, thread };
        match begun.recv() {
            Ok(environment) => {
                // This thread reads keys and draws.
                let role = Role::Reads(ProgramLoading::Over);
                limit_this_thread(&role, CapabilitySet::empty());
                Ok((watch, environment))
            }
            // It ended before it began, and says why.
            Err(_) => Err(watch.end().err().unwrap_or_else(panicked)),
        }
    }

    /// Returns the messages that have come since the last call.
    pub fn news(&self) -> impl Iterator<Item = FromWatch> {
        self.news.try_iter()
    }

    /// Wants sums of a span from now on.
    pub fn want(&self, span: MomentSpan) {
        let place = MomentSpan::ALL.iter().position(|known| *known == span).unwrap_or(0);
        self.span.store(place, Ordering::Relaxed);
    }

    /// Saves the last minutes as the recording `directory`; [`FromWatch::Saved`] says when that is
    /// done.
    pub fn save(&self, directory: PathBuf) {
        // A watch that has ended has said so.
        let _ = self.save.send(directory);
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the watch, and reports its losses.
    pub fn end(self) -> Result<(), Failure> {
        self.quit.store(true, Ordering::Relaxed);
        let watched = self.thread.join().unwrap_or_else(|_| Err(panicked()))?;
        let TopSink { saver, sender, .. } = watched.sink;
        saver.finish();
        drop(sender);
        let said = self.news.iter().filter_map(|news| match news {
            FromWatch::Saved(said) => Some(said),
            FromWatch::Moment(_) | FromWatch::Sum(..) => None,
        });
        said.for_each(|said| output::note(&said));
        if let Some(failure) = watched.failed {
            return Err(failure);
        }
        output::losses(&watched.environment.losses);
        Ok(())
    }
}

fn panicked() -> Failure {
    Failure::new("failed to watch: the thread that watches ended early", None)
}

/// The receiver of the watch's rows.
struct TopSink {
    cutter: MomentCutter,
    ring: RecordingRing,
    environment: Environment,
    filter: Filter,
    sender: Sender<FromWatch>,
    to_save: Receiver<PathBuf>,
    saver: TopSaver,
    quit: Arc<AtomicBool>,
    span: Arc<AtomicUsize>,
    /// The span whose sum was sent last.
    sent: MomentSpan,
}

impl WatchSink for TopSink {
    const PRINTS: bool = true;
    const OWNS_TERMINAL: bool = true;

    fn take(&mut self, batch: &Batch, names: &Names) -> Result<(), Failure> {
        self.cutter.add(&own::shown(batch, names), &self.environment, names);
        Ok(self.ring.add(batch, names)?)
    }

    fn seen(&mut self, until_ns: u64, names: &Names) -> Result<(), Failure> {
        let ended = self.cutter.close_until(until_ns, &self.environment, names);
        let place = self.span.load(Ordering::Relaxed);
        let span = MomentSpan::ALL.get(place).copied().unwrap_or_default();
        let is_due = !ended.is_empty() || span != self.sent;
        for moment in ended {
            // If the screen is gone, `quit` says so as well.
            let _ = self.sender.send(FromWatch::Moment(Box::new(moment)));
        }
        if is_due {
            self.sent = span;
            let sum = self.cutter.sum(span, until_ns, &self.environment, names);
            sum.into_iter().for_each(|sum| {
                let _ = self.sender.send(FromWatch::Sum(span, Box::new(sum)));
            });
        }
        self.ring.seen(until_ns, &self.environment, names)?;
        while let Ok(directory) = self.to_save.try_recv() {
            self.save(directory, until_ns, names)?;
        }
        Ok(())
    }

    fn note(&mut self, now: &Environment) {
        self.environment.clone_from(now);
    }

    fn is_content(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }
}

impl TopSink {
    /// Has the last minutes written.
    fn save(&mut self, directory: PathBuf, until_ns: u64, names: &Names) -> Result<(), Failure> {
        let mut now = self.environment.clone();
        now.keep(&self.filter);
        let snapshot = self.ring.snapshot(until_ns, &now, names)?;
        if !self.saver.offer(snapshot, directory) {
            let said = "failed to save: what was asked for before is not on the disk yet";
            // Where the screen is gone, nobody asks.
            let _ = self.sender.send(FromWatch::Saved(said.to_owned()));
        }
        Ok(())
    }
}

/// Writes the last minutes, on a thread of its own: the disk may be the one that is sick. It is
/// started before the watch gives up its rights, and keeps of them the one to write below the
/// present directory.
struct TopSaver {
    tasks: SyncSender<(RingSnapshot, PathBuf)>,
    thread: JoinHandle<()>,
}

impl TopSaver {
    fn start(said: Sender<FromWatch>) -> Result<TopSaver, Failure> {
        // One that waits: each holds the minutes that were kept when it was asked for.
        let (tasks, received) = sync_channel::<(RingSnapshot, PathBuf)>(1);
        let run = move || {
            // A directory in which root was started may be another user's.
            let role = Role::Writes(vec![PathBuf::from(".")]);
            limit_this_thread(&role, CapabilitySet::DAC_OVERRIDE);
            for (snapshot, directory) in received {
                let what = match snapshot.write(&directory) {
                    Ok(span) => saved(span, &directory),
                    Err(cause) => cause.to_string(),
                };
                // Where the screen is gone, it is saved nevertheless.
                let _ = said.send(FromWatch::Saved(what));
            }
        };
        let thread = std::thread::Builder::new().name("save".to_owned()).spawn(run);
        let failed = |cause| Failure::new(format!("failed to start a thread: {cause}"), None);
        Ok(TopSaver { tasks, thread: thread.map_err(failed)? })
    }

    /// Hands over what is to be written; false where enough waits for the disk already.
    fn offer(&self, snapshot: RingSnapshot, directory: PathBuf) -> bool {
        self.tasks.try_send((snapshot, directory)).is_ok()
    }

    /// Waits until everything is written.
    fn finish(self) {
        drop(self.tasks);
        // What it has to say has been said.
        let _ = self.thread.join();
    }
}

fn saved(span: SavedSpan, directory: &Path) -> String {
    let seconds = span.duration_ns as f64 / 1e9;
    let cut = if span.is_cut { " (more is not kept)" } else { "" };
    let source = sources::words(&[directory.to_owned()]);
    format!("saved {seconds:.0} s{cut}: `iowhy report {source}`")
}
