//! Every two recorded labs, merged: both causes are found, on two devices and on one.
//!
//! What does not belong here: single labs (see [`super::labs`]).

use iowhy_analysis::Summary;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::{Diagnosis, Severity, diagnose};
use iowhy_model::recording::RecordingReader;
use iowhy_model::script::Script;
use iowhy_model::source::{Batch, Progress, Source};
use iowhy_model::{Environment, Name, Names, Status};
use std::path::{Path, PathBuf};

/// Added to each number of the second recording, so that none of them is one of the first.
const APART: u64 = 1 << 40;
/// Added to each process's number: above any number that Linux gives.
const PROCESSES_APART: u32 = 1 << 23;

/// Pairs of which one cause explains the other one. A device that completes nothing holds up
/// whatever else is on it; on one device with others that complete it does not hang.
fn is_explained(first: &str, second: &str) -> bool {
    first == "hung-io" || second == "hung-io"
}

fn read(path: &Path, names: &mut Names) -> (Batch, Environment) {
    let mut reader = RecordingReader::open(path).unwrap();
    let mut batch = Batch::default();
    while reader.fill(&mut batch, names).unwrap() != Progress::Done {}
    let environment = reader.environment().clone();
    (batch, environment)
}

/// The difference between a recording's numbers and those in the merged one.
struct Shift {
    ids: u64,
    pids: u32,
    /// Added to times; it wraps, so that it can be negative.
    time_ns: u64,
    /// The device's name, and its name in the merged recording.
    device: (Name, Name),
    minor: u32,
}

impl Shift {
    fn apply(&self, batch: &mut Batch) {
        self.requests(batch);
        self.waits(batch);
        for row in &mut batch.files {
            row.start_ns = row.start_ns.wrapping_add(self.time_ns);
            row.pid += self.pids;
            row.device = row.device.map(|device| self.name(device));
        }
        for row in &mut batch.processes {
            (row.pid, row.tid) = (row.pid + self.pids, row.tid + self.pids);
        }
        batch.stacks.iter_mut().for_each(|row| row.stack_id += self.ids);
        // Counters of the machine cannot be those of two.
        batch.samples.clear();
    }

    fn requests(&self, batch: &mut Batch) {
        for row in &mut batch.requests {
            row.request_id += self.ids;
            row.parent_id = row.parent_id.map(|id| id + self.ids);
            row.start_ns = row.start_ns.wrapping_add(self.time_ns);
            row.device = self.name(row.device);
            row.minor = self.minor;
            row.pid = row.pid.map(|pid| pid + self.pids);
            row.tid = row.tid.map(|tid| tid + self.pids);
            row.stack_id = row.stack_id.map(|id| id + self.ids);
            row.user_stack_id = row.user_stack_id.map(|id| id + self.ids);
        }
        for row in &mut batch.parts {
            row.request_id += self.ids;
            row.owner_pid = row.owner_pid.map(|pid| pid + self.pids);
        }
    }

    fn waits(&self, batch: &mut Batch) {
        for row in &mut batch.waits {
            row.wait_id += self.ids;
            row.start_ns = row.start_ns.wrapping_add(self.time_ns);
            (row.pid, row.tid) = (row.pid + self.pids, row.tid + self.pids);
            row.device = row.device.map(|device| self.name(device));
            row.stack_id = row.stack_id.map(|id| id + self.ids);
            row.user_stack_id = row.user_stack_id.map(|id| id + self.ids);
            row.waker_tid = row.waker_tid.map(|tid| tid + self.pids);
        }
        for row in &mut batch.wait_requests {
            (row.wait_id, row.request_id) = (row.wait_id + self.ids, row.request_id + self.ids);
        }
        for row in &mut batch.wait_chains {
            row.chain_id += self.ids;
            row.wait_id = row.wait_id.map(|id| id + self.ids);
            row.start_ns = row.start_ns.wrapping_add(self.time_ns);
            (row.pid, row.tid) = (row.pid + self.pids, row.tid + self.pids);
            row.device = row.device.map(|device| self.name(device));
            row.stack_id = row.stack_id.map(|id| id + self.ids);
            row.user_stack_id = row.user_stack_id.map(|id| id + self.ids);
        }
    }

    fn name(&self, device: Name) -> Name {
        if device == self.device.0 { self.device.1 } else { device }
    }
}

/// The summary of two recordings at once. If `on_one`, the requests of the second recording are on
/// the device of the first.
fn merged(first: &Path, second: &Path, on_one: bool) -> Summary {
    let mut script = Script::new(1);
    let (own, environment) = read(first, &mut script.names);
    let (mut other, mut others) = read(second, &mut script.names);
    let names = &mut script.names;
    let device = &environment.devices[0];
    let moved = if on_one { device.name.clone() } else { "loop99".to_owned() };
    let shift = Shift {
        ids: APART,
        pids: PROCESSES_APART,
        time_ns: environment.start_ns.wrapping_sub(others.start_ns),
        device: (names.intern(&others.devices[0].name), names.intern(&moved)),
        minor: if on_one { device.minor } else { 99 },
    };
    shift.apply(&mut other);
    script.batch = own;
    script.batch.samples.clear();
    script.batch.append(&mut other);
    script.batch.requests.sort_by_key(|row| row.start_ns);
    let order = |batch: &Batch| {
        let places = batch.requests.iter().enumerate();
        places
            .map(|(place, row)| (row.request_id, place))
            .collect::<std::collections::HashMap<_, _>>()
    };
    let places = order(&script.batch);
    script.batch.parts.sort_by_key(|row| places.get(&row.request_id).copied());
    // A request that is open at the end of the shorter one is not open at the end of both.
    let ends = [environment.end_ns, others.end_ns.wrapping_add(shift.time_ns)];
    let end_ns = ends[0].max(ends[1]);
    script.batch.requests.retain(|row| {
        let own_end = ends[usize::from(row.request_id >= APART)];
        row.status != Status::InFlight || own_end == end_ns
    });
    script.environment = Environment { end_ns, ..environment };
    let mut moved_device = others.devices.remove(0);
    (moved_device.name, moved_device.minor) = (moved, shift.minor);
    if !on_one {
        script.environment.devices.push(moved_device);
    }
    for mut mount in others.mounts.into_inner() {
        mount.minor = if mount.major == 7 { shift.minor } else { mount.minor };
        script.environment.mounts.push(mount);
    }
    for mut cgroup in others.cgroups.into_inner() {
        for text in cgroup.settings_start.values_mut() {
            *text = text.replace("7:", &format!("7:{} was ", shift.minor));
        }
        script.environment.cgroups.push(cgroup);
    }
    script.summary()
}

/// Whether a cause is a finding of its own, worth at least a warning.
fn is_found(diagnosis: &Diagnosis, cause: &str) -> bool {
    let mut findings = diagnosis.findings.iter();
    findings.any(|finding| finding.cause == cause && finding.severity > Severity::Info)
}

fn labs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/labs");
    let mut labs: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    labs.sort();
    labs
}

fn cause_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The pairs whose causes are not both found, as lines.
fn missed(on_one: bool) -> Vec<String> {
    let labs = labs();
    let pairs = labs
        .iter()
        .enumerate()
        .flat_map(|(at, first)| labs.iter().skip(at + 1).map(move |second| (first, second)));
    let pairs =
        pairs.filter(|(first, second)| !on_one || !is_explained(cause_of(first), cause_of(second)));
    let judged = pairs.flat_map(|(first, second)| {
        let diagnosis = diagnose(&merged(first, second, on_one));
        let causes = [cause_of(first), cause_of(second)];
        let findings = diagnosis.findings.iter();
        let said: Vec<String> = findings
            .map(|finding| {
                format!(
                    "{} ({:?}; {})",
                    finding.cause,
                    finding.severity,
                    finding.symptoms.join(", ")
                )
            })
            .collect();
        let missing: Vec<&str> =
            causes.into_iter().filter(|cause| !is_found(&diagnosis, cause)).collect();
        let line = format!("{causes:?} without {missing:?}: {said:?}");
        (!missing.is_empty()).then_some(line)
    });
    judged.collect()
}

#[test]
fn two_causes_on_two_devices_are_both_found() {
    let missed = missed(false);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn two_causes_on_one_device_are_both_found() {
    let missed = missed(true);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
