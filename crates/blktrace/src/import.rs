//! A capture of single events as a [`Source`]: its events joined to requests, with the limits of
//! such a capture stated first.
//!
//! What does not belong here: how events are joined (see [`crate::stages::pairing`]).

mod missing;
mod rows;

use crate::events::ProcessNames;
use crate::stages::pairing::Pairer;
use crate::trace::action::notify;
use crate::trace::record::V7_LEN;
use crate::trace::{RecordBatch, TraceCapture, TraceRecord, WarningKind};
use iowhy_model::environment::{Device, FORMAT};
use iowhy_model::figures::counted;
use iowhy_model::source::{self, Progress, Source};
use iowhy_model::{Environment, Losses, Names};
use rows::ImportedRows;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The rows that are taken from a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Whether each event is also a row.
    pub events: bool,
}

/// A capture that gives requests.
pub struct CaptureImport {
    capture: TraceCapture,
    options: ImportOptions,
    records: RecordBatch,
    pairer: Pairer,
    rows: ImportedRows,
    processes: ProcessNames,
    environment: Environment,
    facts: CaptureFacts,
    /// Limits that the caller knows.
    limits: Vec<String>,
    done: bool,
}

/// Facts that the capture's records have told so far.
#[derive(Debug, Default)]
struct CaptureFacts {
    /// The first and the last event, ns.
    first: Option<u64>,
    last: u64,
    /// The clock: monotonic and wall time of the same instant, ns.
    clock: Option<(u64, u64)>,
    cpus: u32,
    /// Devices, and the names of the capture that they came under.
    devices: BTreeMap<u32, u16>,
    /// The number of events of each action, by the action's number.
    actions: [u64; 32],
    messages: u64,
}

impl CaptureFacts {
    fn see(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        if record.is_notify() {
            if record.action == notify::TIMESTAMP && self.clock.is_none() {
                self.clock = batch.wall_clock(record).map(|wall| (record.time, wall));
            }
            self.messages += u64::from(record.is_message());
            return;
        }
        self.first.get_or_insert(record.time);
        self.last = self.last.max(record.time);
        self.cpus = self.cpus.max(record.cpu.saturating_add(1).min(1 << 16));
        if self.devices.len() < iowhy_analysis::stages::devices::MAX_DEVICES {
            self.devices.entry(record.device).or_insert(record.group);
        }
        if let Some(count) = self.actions.get_mut(usize::from(record.action & 31)) {
            *count += 1;
        }
    }
}

impl CaptureImport {
    /// Imports `capture`. Names that are known beforehand, from a first pass over the same files,
    /// are in `processes`.
    pub fn new(
        capture: TraceCapture,
        processes: ProcessNames,
        options: ImportOptions,
    ) -> CaptureImport {
        CaptureImport {
            capture,
            options,
            records: RecordBatch::default(),
            pairer: Pairer::default(),
            rows: ImportedRows::default(),
            processes,
            environment: Environment {
                format: FORMAT,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                source: Environment::IMPORTED.to_owned(),
                ..Environment::default()
            },
            facts: CaptureFacts::default(),
            limits: Vec::new(),
            done: false,
        }
    }

    /// Adds a sentence on data that is missing.
    #[must_use]
    pub fn with_limit(mut self, limit: String) -> CaptureImport {
        self.limits.push(limit);
        self
    }

    /// The capture, for its warnings.
    pub fn capture(&self) -> &TraceCapture {
        &self.capture
    }

    /// Whether no event was seen so far.
    pub fn is_empty(&self) -> bool {
        self.facts.first.is_none()
    }

    /// The name that a device goes by: the capture's, for the first device of each name.
    fn device_name(&self, number: u32) -> String {
        let (major, minor) = (number >> 20, number & 0xf_ffff);
        let plain = format!("{major}:{minor}");
        let Some(group) = self.facts.devices.get(&number) else { return plain };
        let first = self.facts.devices.iter().find(|(_, other)| *other == group);
        let named = self.capture.inputs().groups.get(usize::from(*group));
        match (first, named) {
            (Some((first, _)), Some(named)) if *first == number && !self.capture.is_merged() => {
                named.name.clone()
            }
            _ => plain,
        }
    }

    fn name_devices(&mut self, names: &mut Names) {
        if self.rows.devices() == self.facts.devices.len() {
            return;
        }
        let numbers: Vec<u32> = self.facts.devices.keys().copied().collect();
        for number in numbers {
            let name = names.intern(&self.device_name(number));
            self.rows.name_device(number, name);
        }
    }

    fn finish(&mut self) {
        let facts = &self.facts;
        let mut found = std::mem::take(&mut self.environment);
        found.start_ns = facts.first.unwrap_or(0);
        found.end_ns = facts.last;
        found.cpus = facts.cpus;
        found.finished = true;
        found.ended_by = "end of capture".to_owned();
        for number in facts.devices.keys() {
            found.devices.push(Device {
                name: self.device_name(*number),
                major: number >> 20,
                minor: number & 0xf_ffff,
                bio_based: self.rows.is_bio_based(*number),
                ..Device::default()
            });
        }
        self.add_limits(&mut found);
        self.add_losses(&mut found);
        self.environment = found;
    }

    /// Returns the offset from the events' times to wall time. In dumps events count from 0 while
    /// the clock's record does not, so the offset is unknown.
    fn clock_offset(&self) -> Option<i64> {
        const FAR: u64 = 24 * 3600 * 1_000_000_000;
        let (monotonic, wall) = self.facts.clock?;
        let first = self.facts.first?;
        let rebased = self.capture.is_merged() && monotonic.abs_diff(first) > FAR || first == 0;
        (!rebased).then(|| wall.wrapping_sub(monotonic) as i64)
    }

    /// Adds the limits that a reader must know: data that is missing, then data that such a capture
    /// never has.
    fn add_limits(&self, found: &mut Environment) {
        let limits = &mut found.limits;
        let unmatched = self.pairer.unmatched();
        if self.facts.first.is_none() {
            limits.push("the capture holds no event".to_owned());
        }
        limits.extend(self.limits.iter().cloned());
        limits.extend(self.capture.warnings().items().iter().map(ToString::to_string));
        if unmatched.completions > 0 {
            let what = "completions have no beginning in the capture: events were lost, or it \
                        began in the middle";
            limits.push(counted(unmatched.completions, what));
        }
        let tools = self.capture.tools();
        limits.extend(missing::never_logged(&self.pairer.endings().never_logged(), |number| {
            self.device_name(number)
        }));
        if self.facts.first.is_some() {
            limits.extend(missing::actions(&self.facts.actions, &tools));
        }
        if self.clock_offset().is_none() {
            limits.push("it does not tell wall-clock time".to_owned());
        }
        limits.extend(missing::always(&tools));
    }

    fn add_losses(&self, found: &mut Environment) {
        if self.options.events {
            let messages = self.facts.messages;
            found.losses.add("messages", messages, "messages, not events", false);
        }
        let unmatched = self.pairer.unmatched();
        let warnings = self.capture.warnings();
        let losses = &mut found.losses;
        let gaps = warnings.total(WarningKind::SequenceGap);
        losses.add("sequence", gaps, "events that blktrace lost", true);
        let lost = warnings.total(WarningKind::TracerLost);
        losses.add("tracer", lost, "events that the tracer lost", true);
        let overwritten = warnings.total(WarningKind::Overwritten);
        losses.add("overwritten", overwritten, "events that later ones overwrote", true);
        let bad =
            warnings.total(WarningKind::BadBytes) + warnings.total(WarningKind::TruncatedTail);
        let bad = bad.div_ceil(V7_LEN as u64);
        losses.add("capture", bad, "records' worth of bytes that could not be read", true);
        let lost = unmatched.completions + unmatched.flushes;
        losses.add("completions", lost, "completions without a beginning, left out", true);
        let unfinished = self.rows.unfinished(self.facts.last);
        losses.add(Losses::UNFINISHED, unfinished, UNFINISHED, true);
        losses.add("stale", unmatched.stale, "requests whose end was lost, left out", true);
        losses.add("open", unmatched.given_up, "requests given up: too many were open", true);
        let devices = unmatched.devices;
        losses.add("devices", devices, DEVICES, false);
    }
}

const DEVICES: &str =
    "events are of devices beyond the first 1024, whose requests have numbers and no device name";
const UNFINISHED: &str = "requests that were issued but never completed, though no other took as \
    long: they hang, a CPU's file is missing, or events were lost";

impl Source for CaptureImport {
    type Error = Infallible;

    fn fill(
        &mut self,
        batch: &mut source::Batch,
        names: &mut Names,
    ) -> Result<Progress, Infallible> {
        if self.done {
            return Ok(Progress::Done);
        }
        self.done = !self.capture.fill(&mut self.records);
        for record in &self.records.records {
            self.processes.see(&self.records, record);
            self.facts.see(&self.records, record);
        }
        self.name_devices(names);
        let before = [batch.requests.len(), batch.parts.len()];
        // A consumer that writes events while they come needs the clock before the end.
        self.environment.realtime_offset_ns = self.clock_offset().unwrap_or(0);
        self.environment.source = self.capture.tools();
        let mut sink = self.rows.sink(batch, names, &self.processes);
        if self.options.events {
            sink.events(&self.records);
        }
        self.pairer.take(&self.records, &mut sink);
        if self.done {
            self.pairer.end(&mut sink);
            rows::latest_first(batch, before);
            self.finish();
        }
        Ok(if self.done { Progress::Done } else { Progress::More })
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}
