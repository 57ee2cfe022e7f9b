//! An incident from its trigger until it is complete. At its trigger, and again at its end, what
//! the ring holds of it is cut out in memory, and the saver writes the cut to disk.
//!
//! What does not belong here: when it begins and ends (see [`crate::incidents::policy`]).

use super::start::{incident_directory, realtime_ns};
use super::{Daemon, DaemonWatch, SECOND_NS};
use crate::disk;
use crate::error::RecorderError;
use crate::incidents::record::{INCIDENT_FORMAT, IncidentRecord};
use crate::incidents::store::{EARLIER, LAST_NUMBER, RECORDING, write_record};
use crate::journal::{JournalLine, Priority};
use crate::ring::{CutSpan, OpenRows};
use crate::saver::SaverTask;
use crate::trigger::{Trigger, TriggerKind};
use iowhy_capture::host::system;
use iowhy_model::recording::{OPEN_ROUND, remove_round};
use iowhy_model::source::{Batch, Source};
use std::path::PathBuf;

/// The time before and after the signs of an incident that is diagnosed, in nanoseconds.
const BEFORE_SIGN_NS: u64 = 10 * SECOND_NS;
const AFTER_SIGN_NS: u64 = 5 * SECOND_NS;
/// The time of an incident that is diagnosed at most, in nanoseconds.
const MOST_DIAGNOSED_NS: u64 = 120 * SECOND_NS;

/// An incident that is recorded.
pub(super) struct OpenIncident {
    pub(super) record: IncidentRecord,
    directory: PathBuf,
    begun_ns: u64,
    /// The time of its first sign: ten seconds before a finding of ten seconds.
    sign_ns: u64,
    /// The time at which a condition was met last.
    latest_sign_ns: u64,
    cuts: u32,
}

impl OpenIncident {
    /// Adds another condition.
    pub(super) fn join(&mut self, trigger: &Trigger, now_ns: u64) {
        self.record.add_trigger(trigger);
        self.latest_sign_ns = now_ns;
    }

    /// Returns the time that is diagnosed, as of `now_ns`.
    fn diagnosed(&self, now_ns: u64) -> CutSpan {
        let from_ns = self.sign_ns.saturating_sub(BEFORE_SIGN_NS);
        let until_ns = (self.latest_sign_ns + AFTER_SIGN_NS).min(now_ns);
        CutSpan { from_ns, until_ns: until_ns.min(from_ns + MOST_DIAGNOSED_NS) }
    }
}

impl Daemon<'_> {
    /// Begins an incident, unless too many already wait for a disk, or it does not fit.
    pub(super) fn begin_incident(
        &mut self,
        watch: &mut DaemonWatch,
        trigger: Trigger,
        now_ns: u64,
    ) -> Result<(), RecorderError> {
        let begun = self.try_incident(watch, trigger, now_ns);
        self.without_room(begun)
    }

    /// Drops the open incident where room or descriptors were missing for it, which ends nothing
    /// else.
    fn without_room(&mut self, result: Result<(), RecorderError>) -> Result<(), RecorderError> {
        match result {
            Err(cause) if cause.is_lack() => {
                self.policy.close();
                if let Some(open) = self.open.take() {
                    disk::remove(&open.directory);
                }
                let said = format!("an incident is not kept: {cause}");
                self.say(&JournalLine::new(Priority::Warning, said));
                Ok(())
            }
            other => other,
        }
    }

    fn try_incident(
        &mut self,
        watch: &mut DaemonWatch,
        trigger: Trigger,
        now_ns: u64,
    ) -> Result<(), RecorderError> {
        let number = self.next_number;
        let directory = incident_directory(self.config, number);
        let unsaved = directory.parent().map_or(0, disk::bytes_below);
        if unsaved > self.ring_bytes {
            self.policy.close();
            let said = format!(
                "an incident is not kept, because {} MB of earlier ones could not be saved yet: {}",
                unsaved / 1_000_000,
                trigger.sentence
            );
            self.say(&JournalLine::new(Priority::Warning, said));
            return Ok(());
        }
        if number > LAST_NUMBER {
            self.policy.close();
            let said = format!("an incident is not kept: its number would be {number}");
            self.say(&JournalLine::new(Priority::Warning, said));
            return Ok(());
        }
        self.next_number = number.saturating_add(1);
        self.metrics.count_incident(trigger.key.kind);
        disk::make(&directory).map_err(|error| RecorderError::file("make", &directory, error))?;
        let environment = watch.live.environment();
        let mut record = IncidentRecord {
            format: INCIDENT_FORMAT,
            number,
            host: environment.host.clone(),
            begun_ns: realtime_ns(),
            utc_offset_s: environment.utc_offset_s,
            ..IncidentRecord::default()
        };
        record.add_trigger(&trigger);
        let sign_ns = match trigger.key.kind {
            TriggerKind::Finding
            | TriggerKind::PressureIo
            | TriggerKind::Condition
            | TriggerKind::HungTask => now_ns.saturating_sub(crate::rolling::WINDOW_NS),
            _ => now_ns,
        };
        let open = OpenIncident {
            record,
            directory,
            begun_ns: now_ns,
            sign_ns,
            latest_sign_ns: now_ns,
            cuts: 0,
        };
        self.open = Some(open);
        self.cut(watch, false)
    }

    /// Completes the open incident; `as_planned` says whether all of the time after it was
    /// recorded.
    pub(super) fn complete(
        &mut self,
        watch: &mut DaemonWatch,
        as_planned: bool,
    ) -> Result<(), RecorderError> {
        if let Some(open) = &mut self.open {
            open.record.complete = as_planned;
        }
        let cut = self.cut(watch, true);
        self.without_room(cut)?;
        self.open = None;
        Ok(())
    }

    /// Cuts the open incident out of the ring, as of now, and has it saved.
    fn cut(&mut self, watch: &mut DaemonWatch, is_last: bool) -> Result<(), RecorderError> {
        let mut batch = Batch::default();
        watch.live.open_rows(&mut batch, &mut watch.names);
        // Later rows refer to these, so they belong to the ring.
        let met = Batch {
            stacks: std::mem::take(&mut batch.stacks),
            processes: std::mem::take(&mut batch.processes),
            ..Batch::default()
        };
        self.ring.add(&met, &watch.names)?;
        watch.rolling.add(&met, watch.live.environment(), &watch.names);
        watch.live.refresh(&watch.names);
        let now_ns = system::now_ns();
        self.ring.rotate(now_ns, watch.live.environment(), &watch.names)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        open.cuts += 1;
        let span = CutSpan {
            from_ns: open.begun_ns.saturating_sub(self.config.before.ns()),
            until_ns: now_ns,
        };
        let rows = OpenRows { batch: &batch, names: &watch.names };
        let recording = open.directory.join(RECORDING);
        remove_round(&recording, OPEN_ROUND);
        let from_ns = self.ring.cut(&recording, span, Some(rows))?.unwrap_or(now_ns);
        let earlier = match from_ns > span.from_ns + SECOND_NS {
            true => self.ring.cut_earlier(&open.directory.join(EARLIER), span)?,
            false => None,
        };
        let window = open.directory.join(format!("window-{}", open.cuts));
        let diagnosed = open.diagnosed(now_ns);
        let shows_now = diagnosed.until_ns >= now_ns;
        self.ring.cut(&window, diagnosed, shows_now.then_some(rows))?;
        let real_ns = realtime_ns();
        let recorded_ns = now_ns.saturating_sub(earlier.unwrap_or(from_ns));
        open.record.recorded_from_ns = real_ns.saturating_sub(recorded_ns as i64);
        open.record.recorded_until_ns = real_ns;
        open.record.lost_requests = watch.live.losses().requests();
        let (number, pending) = (open.record.number, open.directory.clone());
        write_record(&pending, &open.record)
            .map_err(|error| RecorderError::file("write", &pending, error))?;
        let window = Some(window);
        self.offer(SaverTask::Incident { number, pending, window, is_last });
        Ok(())
    }
}
