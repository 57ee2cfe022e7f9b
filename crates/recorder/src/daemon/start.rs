//! The start of the daemon, before its first watch: the lock, directories, signals, and incidents
//! that an earlier run left.
//!
//! What does not belong here: the loop.

use super::in_flight::{HungTaskCheck, InFlightCheck};
use super::writing::WriterWatch;
use super::{Daemon, SignalFlags};
use crate::config::RecorderConfig;
use crate::control;
use crate::disk;
use crate::error::RecorderError;
use crate::history::{HistoryLimits, HistoryMinute};
use crate::hook::{HookRunner, unreadable};
use crate::incidents::policy::{IncidentPolicy, PolicyLimits};
use crate::incidents::store::{IncidentStore, LAST_NUMBER};
use crate::metrics::MetricsHub;
use crate::ring::{Ring, RingLimits};
use crate::saver::{Saver, SaverLimits, SaverTask};
use crate::trigger::{PressureTotals, TriggerWatch};
use iowhy_capture::host::{own, system};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The ring may take one third of the runtime directory's file system: others need /run, too.
const RING_PART: u64 = 3;

/// The descriptors that the daemon may have: those of its clients, of the ring, and of the programs
/// and maps of a watch, with a multiple of them to spare.
const DESCRIPTORS: u64 = 8192;

/// Returns the realtime clock, in nanoseconds since 1970.
pub(super) fn realtime_ns() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Returns the directory in memory of an incident that is not complete or not saved.
pub(super) fn incident_directory(config: &RecorderConfig, number: u32) -> PathBuf {
    config.runtime.join("incidents").join(format!("{number:06}"))
}

/// A daemon that has not begun to watch.
pub(super) fn daemon<'a>(
    config: &'a RecorderConfig,
    log: &'a dyn Fn(&str),
) -> Result<Daemon<'a>, RecorderError> {
    if let Some(limit) = raised(getrlimit(Resource::Nofile)) {
        // Where it is refused, those that there are suffice on most machines.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    for directory in [&config.runtime, &config.state] {
        disk::make_closed(directory)
            .map_err(|error| RecorderError::file("make", directory, error))?;
    }
    let locks = locks(config)?;
    let ring_bytes = ring_bytes(config, log)?;
    let ring_path = config.runtime.join("ring");
    let limits = RingLimits { keep_ns: config.keep.ns(), bytes: ring_bytes };
    let ring = Ring::new(&ring_path, limits)
        .map_err(|error| RecorderError::file("make", &ring_path, error))?;
    let saver = Saver::start(SaverLimits {
        state: config.state.clone(),
        incident_bytes: config.incidents_mb.bytes(),
        runtime: config.runtime.clone(),
        textfile: config.metrics.textfile.clone(),
        history: HistoryLimits { days: config.history_days, bytes: config.history_mb.bytes() },
    })
    .map_err(no_thread)?;
    if let Some(said) = config.hook.as_ref().and_then(|hook| unreadable(hook, &config.state)) {
        log(&said);
    }
    let hook = config.hook.as_ref().map(HookRunner::start).transpose().map_err(no_thread)?;
    let (policy, newest) = policy(config);
    let (waiting, newest_unsaved) = left_over(config);
    let control = control::serve(&config.runtime).map_err(|error| {
        RecorderError::file("serve", &control::socket_path(&config.runtime), error)
    })?;
    let triggers = TriggerWatch::new(&config.trigger);
    Ok(Daemon {
        config,
        log,
        ring,
        ring_bytes,
        policy,
        in_flight: InFlightCheck::new(triggers.in_flight_ns()),
        hung_tasks: HungTaskCheck::new(triggers.hung_task_ns()),
        triggers,
        saver,
        waiting,
        retry_ns: 0,
        open: None,
        next_number: newest.max(newest_unsaved).saturating_add(1),
        control,
        signals: signals()?,
        hook,
        metrics: MetricsHub::serve(&config.metrics, log)?,
        minute: HistoryMinute { time_s: realtime_ns() / 1_000_000_000, ..Default::default() },
        writing: WriterWatch::new(&config.watch.devices),
        minute_cost_ns: own::cpu_ns(),
        minute_pressure: PressureTotals::default(),
        lost_before: 0,
        _locks: locks,
        watchdog: sd_notify::watchdog_enabled(),
        ping_ns: 0,
    })
}

/// Returns the limit of descriptors that is wanted in place of `limit`, if it is another one: what
/// is inherited is often meant for programs that use select(2).
fn raised(limit: Rlimit) -> Option<Rlimit> {
    let wanted = limit.maximum.map_or(DESCRIPTORS, |hard| hard.min(DESCRIPTORS));
    let is_lower = limit.current.is_some_and(|soft| soft < wanted);
    is_lower.then_some(Rlimit { current: Some(wanted), ..limit })
}

fn no_thread(source: std::io::Error) -> RecorderError {
    RecorderError::System { what: "start a thread", source }
}

/// Takes the locks of both directories: daemons that share either would remove each other's files,
/// and give two incidents one number.
fn locks(config: &RecorderConfig) -> Result<[File; 2], RecorderError> {
    // Of two names, since both may be the same directory.
    Ok([lock(&config.runtime.join("lock"))?, lock(&config.state.join("daemon.lock"))?])
}

/// Takes the lock that only one daemon holds; the kernel releases it however the daemon ends.
fn lock(path: &Path) -> Result<File, RecorderError> {
    let file =
        disk::own_parent(path).and_then(|(folder, name)| folder.lock_file(name, disk::FILE_MODE));
    let file = file.map_err(|error| RecorderError::file("open", path, error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(RecorderError::Locked { path: path.to_owned() }),
        Err(error) => Err(RecorderError::file("lock", path, error.into())),
    }
}

/// Returns the size that the ring may have on this file system, in bytes.
fn ring_bytes(config: &RecorderConfig, log: &dyn Fn(&str)) -> Result<u64, RecorderError> {
    let failed =
        |error: rustix::io::Errno| RecorderError::file("examine", &config.runtime, error.into());
    let about = rustix::fs::statvfs(&config.runtime).map_err(failed)?;
    let kind = rustix::fs::statfs(&config.runtime).map_err(failed)?.f_type;
    const TMPFS: u64 = 0x0102_1994;
    let runtime = config.runtime.display();
    if kind as u64 != TMPFS {
        log(&format!("{runtime} is not in memory (tmpfs): recording waits for its disk"));
    }
    let most = about.f_blocks.saturating_mul(about.f_frsize) / RING_PART;
    if most < config.keep_mb.bytes() {
        let mb = most / 1_000_000;
        log(&format!("the ring is limited to {mb} MB, a third of the file system of {runtime}"));
    }
    Ok(config.keep_mb.bytes().min(most))
}

/// Returns the policy, with the conditions that earlier runs kept, and the newest incident's
/// number.
fn policy(config: &RecorderConfig) -> (IncidentPolicy, u32) {
    let mut policy = IncidentPolicy::new(PolicyLimits {
        after_ns: config.after.ns(),
        longest_ns: (config.keep.ns() / 2).max(config.after.ns()),
        quiet_ns: config.trigger.quiet.ns(),
        most_per_hour: config.trigger.most_per_hour,
    });
    // If they cannot be read, one condition may be kept twice.
    let stored = IncidentStore::below(&config.state).all().unwrap_or_default();
    let (now_ns, real_ns) = (system::now_ns(), realtime_ns());
    for record in stored.iter().map(|incident| &incident.record) {
        let ago_ns = real_ns.saturating_sub(record.recorded_until_ns);
        // A time in the future comes from a clock that was set back.
        let Ok(ago_ns) = u64::try_from(ago_ns) else { continue };
        if let Some(at_ns) = now_ns.checked_sub(ago_ns) {
            record.triggers.iter().for_each(|trigger| policy.remember(trigger.key.clone(), at_ns));
        }
    }
    let numbers = IncidentStore::below(&config.state).numbers().unwrap_or_default();
    (policy, numbers.last().copied().unwrap_or(0))
}

/// Returns the incidents that a killed daemon had not saved, and the newest one's number.
fn left_over(config: &RecorderConfig) -> (VecDeque<SaverTask>, u32) {
    let (mut tasks, mut newest) = (VecDeque::new(), 0);
    let entries = std::fs::read_dir(config.runtime.join("incidents"));
    for entry in entries.into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(number) = number.filter(|number| *number <= LAST_NUMBER) else { continue };
        newest = newest.max(number);
        let pending = entry.path();
        let windows = std::fs::read_dir(&pending).into_iter().flatten().flatten();
        let mut windows: Vec<PathBuf> = windows
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("window-"))
            .map(|entry| entry.path())
            .collect();
        windows.sort();
        tasks.push_back(SaverTask::Incident {
            number,
            pending,
            window: windows.pop(),
            is_last: true,
        });
    }
    (tasks, newest)
}

fn signals() -> Result<SignalFlags, RecorderError> {
    let flags = SignalFlags::default();
    let wanted = [(SIGTERM, &flags.stop), (SIGINT, &flags.stop), (SIGUSR1, &flags.capture)];
    for (signal, flag) in wanted {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .map_err(|source| RecorderError::System { what: "handle signals", source })?;
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::policy::Decision;
    use crate::incidents::record::IncidentRecord;
    use crate::incidents::store::write_record;
    use crate::trigger::{Trigger, TriggerKind};

    /// Returns the decision about a condition for which an incident was kept so many seconds ago by
    /// the realtime clock.
    fn decision_after(seconds: i64) -> Decision {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        let config = RecorderConfig { state, ..RecorderConfig::default() };
        let mut trigger = Trigger::manual(TriggerKind::InFlight, String::new());
        trigger.key.device = "sda".to_owned();
        let recorded_until_ns = realtime_ns() - seconds * 1_000_000_000;
        let mut record = IncidentRecord { recorded_until_ns, ..IncidentRecord::default() };
        record.add_trigger(&trigger);
        let path = IncidentStore::below(&config.state).path(7);
        disk::make(&path).unwrap();
        write_record(&path, &record).unwrap();
        let (mut policy, newest) = policy(&config);
        assert_eq!(newest, 7);
        policy.decide(&trigger, system::now_ns())
    }

    #[test]
    fn descriptors_are_as_many_as_are_wanted_and_allowed() {
        let wanted = |current, maximum| {
            raised(Rlimit { current, maximum }).map(|limit| (limit.current, limit.maximum))
        };
        assert_eq!(wanted(Some(1024), Some(1 << 19)), Some((Some(8192), Some(1 << 19))));
        assert_eq!(wanted(Some(1024), Some(4096)), Some((Some(4096), Some(4096))));
        assert_eq!(wanted(Some(1024), None), Some((Some(8192), None)));
        assert_eq!(wanted(Some(1 << 16), Some(1 << 19)), None);
        assert_eq!(wanted(None, None), None);
        // Both doors together take few of those that every process has.
        const { assert!(2 * crate::serving::MOST_DESCRIPTORS < 1024 / 2) };
    }

    #[test]
    fn daemons_share_neither_directory() {
        let folder = tempfile::tempdir().unwrap();
        let config = |runtime: &str, state: &str| {
            let of = |name: &str| folder.path().join(name);
            let config = RecorderConfig {
                runtime: of(runtime),
                state: of(state),
                ..RecorderConfig::default()
            };
            for directory in [&config.runtime, &config.state] {
                disk::make_closed(directory).unwrap();
            }
            config
        };
        let first = locks(&config("run-1", "state-1")).unwrap();
        for (runtime, state) in [("run-2", "state-1"), ("run-1", "state-2")] {
            let refused = locks(&config(runtime, state));
            assert!(matches!(refused, Err(RecorderError::Locked { .. })), "{runtime} {state}");
        }
        assert!(locks(&config("both", "both")).is_ok());
        drop(first);
        assert!(locks(&config("run-2", "state-1")).is_ok());
    }

    #[test]
    fn a_clock_that_was_set_back_hides_no_incident() {
        assert_eq!(decision_after(5), Decision::Duplicate);
        // It was kept at a time that is now in the future.
        assert_eq!(decision_after(-86_400), Decision::Begin);
    }
}
