//! A host in scripted time: rows go the way that the daemon sends them, through ring, rolling
//! diagnosis, conditions and policy, to the record of an incident.
//!
//! What does not belong here: the rows.

use crate::storage::Storage;
use iowhy_model::Environment;
use iowhy_model::script::{START_NS, Script};
use iowhy_model::source::Batch;
use iowhy_recorder::config::RecorderConfig;
use iowhy_recorder::incidents::page::diagnose_window;
use iowhy_recorder::incidents::policy::{Decision, IncidentPolicy, PolicyLimits};
use iowhy_recorder::incidents::record::IncidentRecord;
use iowhy_recorder::ring::{CutSpan, Ring, RingLimits};
use iowhy_recorder::rolling::{RollingDiagnosis, WINDOW_NS};
use iowhy_recorder::trigger::{Trigger, TriggerWatch};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Held by each test: one of them measures the memory of this process.
pub static ALONE: Mutex<()> = Mutex::new(());

pub const S: u64 = 1_000_000_000;
pub const HOUR_S: u64 = 3_600;

/// The time before and after the signs of an incident that is diagnosed, as in the daemon.
const BEFORE_NS: u64 = 10 * S;
const AFTER_NS: u64 = 5 * S;

/// An incident that was kept.
#[derive(Clone, Debug)]
pub struct KeptIncident {
    /// The time at which it began, seconds since the day began.
    pub begun_s: u64,
    /// The record of the incident.
    pub record: IncidentRecord,
}

struct OpenRecord {
    begun_ns: u64,
    latest_ns: u64,
    record: IncidentRecord,
}

/// A host in scripted time.
pub struct ScriptedHost {
    folder: PathBuf,
    pub ring: Ring,
    policy: IncidentPolicy,
    triggers: TriggerWatch,
    open: Option<OpenRecord>,
    pub kept: Vec<KeptIncident>,
    /// What the daemon's other thread does, where a test has it.
    pub storage: Option<Storage>,
}

impl ScriptedHost {
    /// A host with the default configuration, whose files are in `folder`.
    pub fn new(folder: &Path) -> ScriptedHost {
        let config = RecorderConfig::default();
        let limits = RingLimits { keep_ns: config.keep.ns(), bytes: config.keep_mb.bytes() };
        ScriptedHost {
            folder: folder.to_owned(),
            ring: Ring::new(&folder.join("ring"), limits).unwrap(),
            policy: IncidentPolicy::new(PolicyLimits {
                after_ns: config.after.ns(),
                longest_ns: config.keep.ns() / 2,
                quiet_ns: config.trigger.quiet.ns(),
                most_per_hour: config.trigger.most_per_hour,
            }),
            triggers: TriggerWatch::new(&config.trigger),
            open: None,
            kept: Vec::new(),
            storage: None,
        }
    }

    /// One watch of `windows` windows, `from_s` seconds after the day began. `fill` adds the rows
    /// of a window to the script, as if it were the first; a first call before the watch gives its
    /// environment.
    pub fn watch(&mut self, from_s: u64, windows: u64, fill: &mut dyn FnMut(&mut Script, u64)) {
        let mut script = Script::new(windows * 10);
        fill(&mut script, u64::MAX);
        script.batch = Batch::default();
        let begun_ns = START_NS + from_s * S;
        let environment =
            Environment { start_ns: begun_ns, end_ns: 0, ..script.environment.clone() };
        self.ring.begin(&environment).unwrap();
        self.triggers.begin();
        self.storage.iter_mut().for_each(|storage| storage.begin(begun_ns));
        let mut rolling = RollingDiagnosis::new(&environment);
        for window in 0..windows {
            fill(&mut script, window);
            let mut batch = std::mem::take(&mut script.batch);
            shift(&mut batch, (from_s + window * 10) * S, window * 10_000);
            let now_ns = begun_ns + (window + 1) * WINDOW_NS;
            self.ring.add(&batch, &script.names).unwrap();
            rolling.add(&batch, &environment, &script.names);
            self.storage.iter_mut().for_each(|storage| storage.look(&batch, &script.names));
            for trigger in self.triggers.rows(&batch, &script.names) {
                self.follow(trigger, now_ns);
            }
            for ended in rolling.ended(now_ns, &environment, &script.names) {
                self.storage.iter_mut().for_each(|storage| storage.window(&ended, now_ns));
                for trigger in self.triggers.figures(&ended.summary) {
                    self.follow(trigger, now_ns);
                }
                for (trigger, finding) in self.triggers.findings(&ended.diagnosis) {
                    self.follow(trigger, now_ns);
                    if let Some(open) = &mut self.open {
                        open.record.add_finding(finding);
                    }
                }
            }
            if self.open.is_some() || window % 6 == 5 {
                self.ring.rotate(now_ns, &environment, &script.names).unwrap();
            }
            if self.open.is_some() && self.policy.completes(now_ns) {
                self.complete();
            }
        }
        self.ring.end(begun_ns + windows * WINDOW_NS, &environment, &script.names).unwrap();
        self.close();
    }

    /// Follows a condition that was met.
    pub fn follow(&mut self, trigger: Trigger, now_ns: u64) {
        match self.policy.decide(&trigger, now_ns) {
            Decision::Begin => {
                let mut record = IncidentRecord::default();
                record.add_trigger(&trigger);
                self.open = Some(OpenRecord { begun_ns: now_ns, latest_ns: now_ns, record });
            }
            Decision::Join => {
                if let Some(open) = &mut self.open {
                    open.record.add_trigger(&trigger);
                    open.latest_ns = now_ns;
                }
            }
            Decision::Duplicate | Decision::RateLimited => (),
        }
    }

    /// Completes the open incident, if there is one, as it is now.
    pub fn close(&mut self) {
        if self.policy.close() {
            self.complete();
        }
    }

    /// Cuts the open incident out of the ring and diagnoses it.
    fn complete(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        let place = self.folder.join("incident");
        let window = place.join("window");
        let sign_ns = open.begun_ns - WINDOW_NS;
        let span = CutSpan {
            from_ns: sign_ns.saturating_sub(BEFORE_NS),
            until_ns: open.latest_ns + AFTER_NS,
        };
        if let Some(storage) = &mut self.storage {
            storage.keep(&self.ring, &open.record, span);
        }
        std::fs::create_dir_all(&place).unwrap();
        if self.ring.cut(&window, span, None).unwrap().is_some() {
            diagnose_window(&window, &place, &place, &mut open.record).unwrap();
        }
        std::fs::remove_dir_all(&place).unwrap();
        let begun_s = (open.begun_ns - START_NS) / S;
        self.kept.push(KeptIncident { begun_s, record: open.record });
    }
}

/// Moves rows by so many nanoseconds, and their ids by so many.
fn shift(batch: &mut Batch, ns: u64, ids: u64) {
    let moved = |id: &mut Option<u64>| *id = id.map(|id| id + ids);
    for request in &mut batch.requests {
        request.start_ns += ns;
        request.request_id += ids;
        moved(&mut request.parent_id);
        moved(&mut request.stack_id);
        moved(&mut request.user_stack_id);
    }
    for part in &mut batch.parts {
        part.request_id += ids;
    }
    for wait in &mut batch.waits {
        wait.start_ns += ns;
        wait.wait_id += ids;
        moved(&mut wait.stack_id);
        moved(&mut wait.user_stack_id);
    }
    for link in &mut batch.wait_requests {
        link.wait_id += ids;
        link.request_id += ids;
    }
    batch.stacks.iter_mut().for_each(|stack| stack.stack_id += ids);
    batch.files.iter_mut().for_each(|file| file.start_ns += ns);
    batch.samples.iter_mut().for_each(|sample| sample.time_ns += ns);
    assert!(batch.wait_chains.is_empty(), "chains are not moved");
}

/// Ten seconds of a load that nobody complains about.
pub fn healthy(script: &mut Script, window: u64) {
    for index in 0..40_u64 {
        let at = (index * 250_000_000) as i64;
        let sector = (window.wrapping_mul(40) % 100_000 + index) * 7919 * 8;
        let read = script.read("sda", 16_384).by(40, "postgres").at(at).sector(sector);
        read.file("/db/base/1/2").direct(500, 500, 120_000 + index * 900).add();
    }
    for index in 0..10_u64 {
        let at = (index * 1_000_000_000) as i64;
        let write = script.write("sda", 8192).by(41, "rsyslogd").at(at).sector(index * 16);
        write.direct(500, 500, 200_000).add();
    }
}
