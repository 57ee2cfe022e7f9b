//! The daemon: one thread reads the kernel, fills the ring and decides; the saver writes.
//!
//! | where | what |
//! |---|---|
//! | `in_flight` | whether a request that seems to hang does, and which threads wait |
//! | `open_incident` | an incident from its trigger until it is complete |
//! | `pause` | how long the kernel's ring buffer may fill before it is read |
//! | `start` | locks, directories, signals, what an earlier run left |
//! | `writing` | who writes, minute by minute |
//!
//! What does not belong here: decisions ([`crate::incidents::policy`], [`crate::ring::outdated`]).

mod in_flight;
mod open_incident;
mod pause;
mod start;
mod writing;

use crate::config::RecorderConfig;
use crate::control::CaptureRequest;
use crate::error::RecorderError;
use crate::history::HistoryMinute;
use crate::hook::{HookEvent, HookRunner};
use crate::incidents::policy::{Decision, IncidentPolicy};
use crate::incidents::record::{IncidentRecord, UNSAID};
use crate::journal::{JournalLine, Priority};
use crate::metrics::MetricsHub;
use crate::ring::{Ring, RingChange};
use crate::rolling::{EndedWindow, RollingDiagnosis};
use crate::saver::{Saver, SaverReport, SaverTask};
use crate::trigger::{PressureTotals, Trigger, TriggerKind, TriggerWatch};
use in_flight::{HungTaskCheck, InFlightCheck};
use iowhy_capture::host::system;
use iowhy_capture::live::{LiveWatch, WatchOptions};
use iowhy_capture::plan::RingSize;
use iowhy_capture::priority::RaisedPriority;
use iowhy_capture::sampler::Sampling;
use iowhy_diagnosis::{Finding, IncidentStart};
use iowhy_model::Names;
use iowhy_model::source::{Batch, Progress, Source};
use open_incident::OpenIncident;
use pause::ReadPause;
use sd_notify::NotifyState;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use writing::WriterWatch;

const SECOND_NS: u64 = 1_000_000_000;
/// The interval of reading counters of processes and cgroups, in seconds: two readings a window.
const PROCESSES_EVERY_S: u32 = 5;
/// The interval of checking the settings of devices for changes.
const SETTINGS_EVERY: Duration = Duration::from_secs(10);
/// The interval of reading the health of devices.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// The length of a round of the ring: at most this is lost if the daemon crashes.
const ROUND_NS: u64 = 5 * SECOND_NS;
/// The length of a watch before another begins: names and ids start anew, so memory is bounded.
const MOST_AGE_NS: u64 = 3_600 * SECOND_NS;
/// The shortest time between the beginnings of two watches.
const LEAST_AGE_NS: u64 = 60 * SECOND_NS;
/// Bytes of names, which take three times as much memory, at which another watch begins.
const MOST_NAME_BYTES: usize = 6 << 20;
/// Processes and stacks at which another watch begins.
const MOST_MET: usize = 100_000;
/// The time that a line of the history covers.
const MINUTE_NS: u64 = 60 * SECOND_NS;
/// The time that the saver may take when the daemon ends.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// The time that hooks may take when the daemon ends.
const LAST_HOOK: Duration = Duration::from_secs(5);

/// The reason why a watch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    /// The next watch is to begin.
    Renew,
    /// The daemon is to end.
    Stop,
}

/// The size of the data that a watch has gathered.
#[derive(Clone, Copy, Debug)]
pub struct WatchSize {
    /// The age of the watch, in nanoseconds.
    pub age_ns: u64,
    /// Bytes of the watch's names.
    pub name_bytes: usize,
    /// Processes and stacks that the watch has met.
    pub met: usize,
    /// Bytes of the ring that are kept until the watch ends.
    pub referred_bytes: u64,
    /// Bytes of the ring at most.
    pub ring_bytes: u64,
    /// Whether its rows are not kept any more.
    pub is_lost: bool,
}

/// Returns whether another watch must begin, so that memory stays bounded. Pure.
pub fn is_due(size: WatchSize) -> bool {
    let is_large = size.name_bytes > MOST_NAME_BYTES
        || size.met > MOST_MET
        || size.is_lost
        || size.referred_bytes > size.ring_bytes / 4;
    size.age_ns >= MOST_AGE_NS || (is_large && size.age_ns >= LEAST_AGE_NS)
}

/// Flags that signals set: SIGTERM and SIGINT `stop`, SIGUSR1 `capture`.
#[derive(Clone, Debug, Default)]
struct SignalFlags {
    stop: Arc<AtomicBool>,
    capture: Arc<AtomicBool>,
}

/// The daemon.
pub struct Daemon<'a> {
    config: &'a RecorderConfig,
    /// Takes log lines if there is no journald.
    log: &'a dyn Fn(&str),
    ring: Ring,
    ring_bytes: u64,
    policy: IncidentPolicy,
    triggers: TriggerWatch,
    in_flight: InFlightCheck,
    hung_tasks: HungTaskCheck,
    saver: Saver,
    /// Tasks that the saver could not take, or that failed.
    waiting: VecDeque<SaverTask>,
    retry_ns: u64,
    open: Option<OpenIncident>,
    next_number: u32,
    control: Receiver<CaptureRequest>,
    signals: SignalFlags,
    hook: Option<HookRunner>,
    metrics: MetricsHub,
    minute: HistoryMinute,
    writing: WriterWatch,
    minute_cost_ns: u64,
    minute_pressure: PressureTotals,
    lost_before: u64,
    /// Held as long as the daemon runs.
    _locks: [std::fs::File; 2],
    /// The interval within which systemd expects a notification.
    watchdog: Option<Duration>,
    ping_ns: u64,
}

/// One watch of the daemon.
struct DaemonWatch {
    live: LiveWatch,
    names: Names,
    rolling: RollingDiagnosis,
    /// Processes and stacks that were met between two reads: later rows refer to them.
    met: Batch,
    round_ns: u64,
    begun_ns: u64,
}

/// Runs until SIGTERM or SIGINT. `log` takes lines for a person.
///
/// # Errors
/// Fails if it cannot start, or the kernel cannot be read any more.
pub fn run(config: &RecorderConfig, log: &dyn Fn(&str)) -> Result<(), RecorderError> {
    let mut daemon = start::daemon(config, log)?;
    // The threads that were started have already dropped their rights.
    iowhy_capture::confined::limit_daemon(vec![config.runtime.clone()])
        .map_err(|source| RecorderError::System { what: "give up rights", source })?;
    let result = daemon.watch_all();
    // Without systemd this has no effect.
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    daemon.finish();
    result
}

impl Daemon<'_> {
    fn watch_all(&mut self) -> Result<(), RecorderError> {
        while self.watch_once()? == WatchEnd::Renew {}
        Ok(())
    }

    fn options(&self) -> WatchOptions {
        let watch = &self.config.watch;
        WatchOptions {
            devices: watch.devices.clone(),
            stacks_per_second: watch.stacks,
            waits: watch.waits,
            chains: watch.waits,
            files: watch.files,
            budget: Some(watch.budget),
            sampling: Some(Sampling { processes_one_in: PROCESSES_EVERY_S, ..Sampling::default() }),
            ring: RingSize::Small,
            health_every: Some(HEALTH_EVERY),
            settings_every: Some(SETTINGS_EVERY),
            ..WatchOptions::default()
        }
    }

    fn watch_once(&mut self) -> Result<WatchEnd, RecorderError> {
        let live = LiveWatch::begin(&self.options())?;
        self.ring.begin(live.environment())?;
        self.triggers.begin();
        self.in_flight.begin();
        self.lost_before = 0;
        let begun_ns = system::now_ns();
        self.writing.account.begin(begun_ns);
        let rolling = RollingDiagnosis::new(live.environment());
        let round_ns = begun_ns + ROUND_NS;
        let mut watch = DaemonWatch {
            live,
            names: Names::new(),
            rolling,
            met: Batch::default(),
            round_ns,
            begun_ns,
        };
        let mut priority = RaisedPriority::of_this_thread();
        let mut pause = ReadPause::default();
        let _ = sd_notify::notify(&[NotifyState::Ready]);
        let mut batch = Batch::default();
        let mut end = None;
        loop {
            batch.clear();
            priority.keep_bounded();
            let progress = watch.live.fill(&mut batch, &mut watch.names)?;
            pause.add(batch.requests.len() + batch.waits.len());
            self.take(&mut watch, &batch)?;
            if progress == Progress::Done {
                break;
            }
            if end.is_none() {
                end = self.tick(&mut watch)?;
                if end.is_some() {
                    self.stop_incident_for(&mut watch, end)?;
                    watch.live.stop("flight recorder");
                    continue;
                }
            }
            if watch.live.is_empty() && end.is_none() {
                std::thread::sleep(pause.next().min(watch.live.idle_for()));
            }
        }
        self.ring.end(system::now_ns(), watch.live.environment(), &watch.names)?;
        Ok(end.unwrap_or(WatchEnd::Stop))
    }

    /// Adds rows to ring, accounts and diagnosis, and follows the conditions that they meet.
    fn take(&mut self, watch: &mut DaemonWatch, batch: &Batch) -> Result<(), RecorderError> {
        let met = std::mem::take(&mut watch.met);
        self.ring.add(&met, &watch.names)?;
        self.writing.account.look(batch, &watch.names);
        watch.rolling.add(&met, watch.live.environment(), &watch.names);
        self.ring.add(batch, &watch.names)?;
        watch.rolling.add(batch, watch.live.environment(), &watch.names);
        for trigger in self.triggers.rows(batch, &watch.names) {
            let (kind, device) = (trigger.key.kind, &trigger.key.device);
            if kind != TriggerKind::InFlight || self.confirm(watch, device) {
                self.follow(watch, trigger)?;
            }
        }
        Ok(())
    }

    /// Asks the kernel whether it has a request of the device that is as old as it seems.
    fn confirm(&mut self, watch: &mut DaemonWatch, device: &str) -> bool {
        let met = &mut watch.met;
        self.in_flight.confirm(&mut watch.live, &mut watch.names, met, device)
    }

    /// Does the work that is due by the clock.
    fn tick(&mut self, watch: &mut DaemonWatch) -> Result<Option<WatchEnd>, RecorderError> {
        let now_ns = system::now_ns();
        let seen_ns = watch.live.seen_ns();
        let windows = watch.rolling.ended(seen_ns, watch.live.environment(), &watch.names);
        for window in windows {
            self.window(watch, &window)?;
        }
        if now_ns >= watch.round_ns {
            watch.round_ns = now_ns + ROUND_NS;
            watch.live.refresh(&watch.names);
            self.ring.rotate(now_ns, watch.live.environment(), &watch.names)?;
        }
        let (live, met) = (&mut watch.live, &mut watch.met);
        for trigger in self.hung_tasks.ask(live, &mut watch.names, met) {
            self.follow(watch, trigger)?;
        }
        self.asked(watch)?;
        if self.open.is_some() && self.policy.completes(now_ns) {
            self.complete(watch, true)?;
        }
        self.tell_ring_changes();
        self.follow_saver(now_ns);
        self.ping(now_ns);
        if self.signals.stop.load(Ordering::Relaxed) {
            return Ok(Some(WatchEnd::Stop));
        }
        let is_due = is_due(WatchSize {
            age_ns: now_ns.saturating_sub(watch.begun_ns),
            name_bytes: watch.names.bytes(),
            met: watch.rolling.met(),
            referred_bytes: self.ring.referred_bytes(),
            ring_bytes: self.ring_bytes,
            is_lost: self.ring.has_stopped(),
        });
        Ok((is_due && self.open.is_none()).then_some(WatchEnd::Renew))
    }

    /// Evaluates a window of ten seconds that has ended.
    fn window(
        &mut self,
        watch: &mut DaemonWatch,
        window: &EndedWindow,
    ) -> Result<(), RecorderError> {
        let (summary, diagnosis) = (&window.summary, &window.diagnosis);
        let lost = watch.live.losses().requests();
        let lost = lost.saturating_sub(std::mem::replace(&mut self.lost_before, lost));
        let lost = lost + self.ring.take_lost_requests();
        self.minute.add(summary, diagnosis);
        self.writing.account.add(summary);
        self.minute.lost_requests += lost;
        self.metrics.add(summary, diagnosis, lost);
        self.metrics.set_ring_bytes(self.ring.bytes());
        self.publish();
        if self.minute.watched_ns >= MINUTE_NS {
            self.note_wear(watch);
            self.write_minute();
        }
        for trigger in self.triggers.figures(summary) {
            self.follow(watch, trigger)?;
        }
        for (trigger, finding) in self.triggers.findings(diagnosis) {
            let start = finding.rule().map(|rule| rule.incident);
            let is_in_question = start == Some(IncidentStart::InFlight);
            if is_in_question && !self.is_in_flight(watch, &trigger.key.device, finding) {
                continue;
            }
            self.follow(watch, trigger)?;
            if let Some(open) = &mut self.open {
                open.record.add_finding(finding);
            }
        }
        Ok(())
    }

    /// Returns whether a finding that a device hangs is about a device that has recovered, or about
    /// a request that the kernel still has.
    fn is_in_flight(&mut self, watch: &mut DaemonWatch, device: &str, finding: &Finding) -> bool {
        // A request that ended within the window was seen to end.
        finding.evidence.iter().all(|evidence| evidence.unit != "requests")
            || self.confirm(watch, device)
    }

    fn publish(&mut self) {
        let text = self.metrics.publish();
        if let (Some(path), Some(text)) = (&self.config.metrics.textfile, text) {
            let task = SaverTask::File { path: path.clone(), text };
            // The next text, in ten seconds, holds all figures of this one.
            let _ = self.saver.offer(task);
        }
    }

    fn write_minute(&mut self) {
        let cost_ns = iowhy_capture::host::own::cpu_ns();
        let earlier_ns = std::mem::replace(&mut self.minute_cost_ns, cost_ns);
        let time_s = start::realtime_ns() / 1_000_000_000;
        let next = HistoryMinute { time_s, ..Default::default() };
        let mut minute = std::mem::replace(&mut self.minute, next);
        minute.cost_ns = cost_ns.saturating_sub(earlier_ns);
        let pressure = self.triggers.pressure_totals();
        minute.set_pressure(std::mem::replace(&mut self.minute_pressure, pressure), pressure);
        self.write_writers(&mut minute, time_s);
        if let Ok(line) = serde_json::to_string(&minute) {
            self.offer(SaverTask::History { time_s: minute.time_s, line });
        }
    }

    /// Handles the requests of people and programs: SIGUSR1, and clients of the control socket.
    fn asked(&mut self, watch: &mut DaemonWatch) -> Result<(), RecorderError> {
        if self.signals.capture.swap(false, Ordering::Relaxed) {
            let trigger = Trigger::manual(TriggerKind::Signal, "SIGUSR1".to_owned());
            self.follow(watch, trigger)?;
        }
        while let Ok(request) = self.control.try_recv() {
            let reason = match request.reason.trim() {
                "" => UNSAID,
                reason => reason,
            };
            self.follow(watch, Trigger::manual(TriggerKind::Command, reason.to_owned()))?;
            let said = match &self.open {
                Some(open) => format!("incident {}\n", open.record.number),
                None => "error: too many incidents could not be saved yet\n".to_owned(),
            };
            // The client waits five seconds at most, and may be gone.
            let _ = request.answer.try_send(said.into_bytes());
        }
        Ok(())
    }

    /// Follows a condition that was met.
    fn follow(&mut self, watch: &mut DaemonWatch, trigger: Trigger) -> Result<(), RecorderError> {
        let now_ns = system::now_ns();
        match self.policy.decide(&trigger, now_ns) {
            Decision::Begin => self.begin_incident(watch, trigger, now_ns),
            Decision::Join => {
                if let Some(open) = &mut self.open {
                    open.join(&trigger, now_ns);
                }
                Ok(())
            }
            Decision::Duplicate => Ok(()),
            Decision::RateLimited => {
                self.metrics.set_rate_limited(self.policy.rate_limited);
                if self.policy.rate_limited == 1 {
                    let said = format!(
                        "more than {} incidents an hour: further ones are counted, not kept: {}",
                        self.config.trigger.most_per_hour, trigger.sentence
                    );
                    self.say(&JournalLine::new(Priority::Warning, said));
                }
                Ok(())
            }
        }
    }

    /// Hands a task to the saver, now or when it can take it.
    fn offer(&mut self, task: SaverTask) {
        if let Some(task) = self.saver.offer(task) {
            self.waiting.push_back(task);
        }
        // An incident is also in its directory in memory; of the history, the oldest minutes are
        // dropped.
        while self.waiting.len() > 1_000 {
            self.waiting.pop_front();
        }
    }

    fn follow_saver(&mut self, now_ns: u64) {
        while let Ok(report) = self.saver.reports.try_recv() {
            match report {
                SaverReport::Saved { record, path, is_last } => {
                    self.tell_saved(&record, &path, is_last);
                }
                SaverReport::OverDays { found } => self.writing.note_found(found),
                SaverReport::Failed { what, cause, task } => {
                    let said = format!("failed to {what}: {cause}");
                    self.say(&JournalLine::new(Priority::Warning, said));
                    // A file of figures that cannot be written holds up no incident.
                    if let Some(task) = task {
                        self.waiting.push_back(task);
                        self.retry_ns = now_ns + 30 * SECOND_NS;
                    }
                }
            }
        }
        self.tell_hook_failures();
        self.metrics.set_unsaved(self.waiting.len() as u64);
        if now_ns >= self.retry_ns
            && let Some(task) = self.waiting.pop_front()
            && let Some(task) = self.saver.offer(task)
        {
            self.waiting.push_front(task);
        }
    }

    fn tell_saved(&mut self, record: &IncidentRecord, path: &Path, is_last: bool) {
        let event = if is_last { "end" } else { "begin" };
        let first = record.findings.first();
        let cause = record.summary();
        let what = if is_last { "is complete" } else { "began" };
        let number = record.number;
        let message = format!("incident {number} {what}: {cause}; `iowhy incidents show {number}`");
        let of = |value: Option<&String>| value.cloned().unwrap_or_default();
        let line = JournalLine::new(Priority::Warning, message)
            .with("IOWHY_EVENT", event)
            .with("IOWHY_INCIDENT", number.to_string())
            .with("IOWHY_REASON", record.reason())
            .with("IOWHY_CAUSE", of(first.map(|first| &first.cause)))
            .with("IOWHY_SEVERITY", of(first.map(|first| &first.severity)))
            .with("IOWHY_DEVICE", of(first.and_then(|first| first.device.as_ref())))
            .with("IOWHY_DIRECTORY", path.display().to_string());
        self.say(&line);
        if let Some(hook) = &self.hook {
            hook.offer(HookEvent { directory: path.to_owned(), number, event });
            self.tell_hook_failures();
        }
    }

    fn tell_hook_failures(&self) {
        for said in self.hook.iter().flat_map(|hook| hook.failures.try_iter()) {
            self.say(&JournalLine::new(Priority::Warning, said));
        }
    }

    fn tell_ring_changes(&mut self) {
        for change in self.ring.take_changes() {
            let line = match change {
                RingChange::Stopped(cause) => {
                    let said =
                        format!("{cause}: what happens is counted, but not kept, until it can be");
                    JournalLine::new(Priority::Warning, said)
                }
                RingChange::GoesOn => {
                    JournalLine::new(Priority::Info, "what happens is kept again")
                }
            };
            self.say(&line);
        }
    }

    fn say(&self, line: &JournalLine) {
        if !line.send() {
            (self.log)(line.message());
        }
    }

    fn ping(&mut self, now_ns: u64) {
        let Some(every) = self.watchdog else { return };
        if now_ns >= self.ping_ns {
            self.ping_ns = now_ns + every.as_nanos() as u64 / 3;
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
        }
    }

    /// Ends the open incident with the watch that recorded it.
    fn stop_incident_for(
        &mut self,
        watch: &mut DaemonWatch,
        end: Option<WatchEnd>,
    ) -> Result<(), RecorderError> {
        match end == Some(WatchEnd::Stop) && self.policy.close() {
            true => self.complete(watch, false),
            false => Ok(()),
        }
    }

    /// Lets the saver write what is pending.
    fn finish(&mut self) {
        if self.minute.watched_ns > 0 {
            self.write_minute();
        }
        self.finish_writers();
        let mut waiting = std::mem::take(&mut self.waiting);
        while let Some(task) = waiting.pop_front() {
            if self.saver.offer(task).is_some() {
                break;
            }
        }
        let is_done = self.saver.finish(LAST_PATIENCE);
        while let Ok(report) = self.saver.reports.try_recv() {
            if let SaverReport::Saved { record, path, is_last } = report {
                self.tell_saved(&record, &path, is_last);
            }
        }
        if let Some(hook) = &mut self.hook {
            hook.finish(LAST_HOOK);
        }
        self.tell_hook_failures();
        if !is_done {
            let said =
                "what could not be saved stays in the runtime directory until the next start";
            self.say(&JournalLine::new(Priority::Warning, said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_watch_begins_before_memory_grows() {
        let small = WatchSize {
            age_ns: 1_000 * SECOND_NS,
            name_bytes: 1 << 20,
            met: 1_000,
            referred_bytes: 1 << 20,
            ring_bytes: 256 << 20,
            is_lost: false,
        };
        assert!(!is_due(small));
        assert!(is_due(WatchSize { age_ns: MOST_AGE_NS, ..small }));
        for large in [
            WatchSize { name_bytes: 7 << 20, ..small },
            WatchSize { met: 200_000, ..small },
            WatchSize { referred_bytes: 65 << 20, ..small },
            WatchSize { is_lost: true, ..small },
        ] {
            assert!(is_due(large), "{large:?}");
            assert!(!is_due(WatchSize { age_ns: 30 * SECOND_NS, ..large }), "{large:?}");
        }
    }
}
