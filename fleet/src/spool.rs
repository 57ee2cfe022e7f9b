//! Reads the files of `iowhy daemon`: the history's lines and the records of incidents
//! (docs/recorder.md). They may be read while the daemon writes them.
//!
//! | where | what |
//! |---|---|
//! | here | figures of each minute; incidents |
//! | `writers` | who writes |
//!
//! What does not belong here: sending it.

mod writers;

use crate::clock::WINDOW_S;
use crate::error::{FleetContext, Result};
use crate::histogram::{LatencyBin, add_bins};
use crate::upload::{
    UPLOAD_VERSION, Upload, UploadFinding, UploadFlow, UploadHost, UploadIncident, UploadUse,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes of a day of history that are read.
const MOST_DAY_BYTES: u64 = 64 << 20;
/// Bytes of an `incident.json` at most.
const MOST_RECORD_BYTES: u64 = 1 << 20;
/// Bytes of a name, and of a sentence; longer ones are cut, since the store would refuse them.
const MOST_NAME: usize = 500;
const MOST_SENTENCE: usize = 4000;
/// Containers of a window; those with the most time.
const MOST_CONTAINERS: usize = 64;
/// Findings of a window.
const MOST_FINDINGS: usize = 32;

/// A line of the history.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolMinute {
    time_s: i64,
    watched_ns: u64,
    devices: BTreeMap<String, BTreeMap<String, SpoolFlow>>,
    waits: BTreeMap<String, u64>,
    groups: BTreeMap<String, UploadUse>,
    findings: Vec<SpoolFinding>,
    oldest_ns: u64,
    pressure_io_some_ns: Option<u64>,
    pressure_io_full_ns: Option<u64>,
    lost_requests: u64,
    cost_ns: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolFlow {
    requests: u64,
    bytes: u64,
    max_ns: u64,
    latency: Vec<LatencyBin>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolFinding {
    cause: String,
    device: Option<String>,
    process: Option<String>,
    severity: String,
}

/// `incident.json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolIncident {
    number: u32,
    begun_ns: i64,
    recorded_until_ns: i64,
    complete: bool,
    triggers: Vec<SpoolTrigger>,
    findings: Vec<SpoolIncidentFinding>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolTrigger {
    kind: String,
    sentence: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolIncidentFinding {
    cause: String,
    severity: String,
    confidence: String,
    sentence: String,
    device: Option<String>,
    process: Option<String>,
    container: Option<String>,
    file: Option<String>,
    fix: String,
}

/// The state directory of `iowhy daemon`.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
}

/// An incident on disk.
#[derive(Clone, Debug)]
pub struct StoredIncident {
    /// The record of the incident.
    pub incident: UploadIncident,
    /// Whether it is complete: nothing more is added to it.
    pub is_complete: bool,
    /// Its directory.
    pub path: PathBuf,
}

impl Spool {
    /// The spool in this directory, `/var/lib/iowhy` as a rule.
    pub const fn new(directory: PathBuf) -> Spool {
        Spool { directory }
    }

    /// Returns windows that have figures and end by `until_s`, seconds since 1970, of days from
    /// `from_s` on, the oldest first. Lines that are cut short are skipped: the daemon may be
    /// writing them.
    ///
    /// # Errors
    /// Fails if the history exists and cannot be read.
    pub fn windows(&self, from_s: i64, until_s: i64, host: &UploadHost) -> Result<Vec<Upload>> {
        let mut windows: BTreeMap<i64, WindowSum> = BTreeMap::new();
        lines_of(&self.directory.join("history"), |minute: SpoolMinute| {
            let window_s = minute.time_s.div_euclid(WINDOW_S) * WINDOW_S;
            if window_s >= from_s && window_s.saturating_add(WINDOW_S) <= until_s {
                windows.entry(window_s).or_default().add(minute);
            }
        })?;
        let sums = windows.into_iter();
        let mut uploads: BTreeMap<i64, Upload> =
            sums.map(|(window_s, sum)| (window_s, sum.finish(window_s, host))).collect();
        writers::add_to(self, &mut uploads)?;
        Ok(uploads.into_values().collect())
    }

    /// Returns the incidents on disk, in the order of their numbers. One that cannot be read is
    /// skipped.
    ///
    /// # Errors
    /// Fails if their directory exists and cannot be read.
    pub fn incidents(&self) -> Result<Vec<StoredIncident>> {
        let read = |path: PathBuf| {
            let file = File::open(path.join("incident.json")).ok()?;
            let record: SpoolIncident =
                serde_json::from_reader(BufReader::new(file.take(MOST_RECORD_BYTES))).ok()?;
            // A number that is not its directory's belongs to another incident.
            let named: u32 = path.file_name()?.to_str()?.parse().ok()?;
            (named == record.number).then(|| record.stored(path))
        };
        Ok(entries(&self.directory.join("incidents"))?.into_iter().filter_map(read).collect())
    }
}

/// Reads the lines of all days in a directory, the oldest first. Lines that are no JSON of that
/// kind are passed over: the daemon may be writing them.
fn lines_of<T: DeserializeOwned>(directory: &Path, mut each: impl FnMut(T)) -> Result<()> {
    let mut days = entries(directory)?;
    days.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    for day in days {
        let file = File::open(&day).context(|| format!("read {}", day.display()))?;
        for line in BufReader::new(file.take(MOST_DAY_BYTES)).split(b'\n') {
            let line = line.context(|| format!("read {}", day.display()))?;
            if let Ok(line) = serde_json::from_slice(&line) {
                each(line);
            }
        }
    }
    Ok(())
}

/// The paths in a directory, in order; none where there is no directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context(|| format!("read {}", directory.display()))?,
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

impl SpoolIncident {
    fn stored(self, path: PathBuf) -> StoredIncident {
        let trigger = self.triggers.into_iter().next().unwrap_or_default();
        let first = self.findings.into_iter().next().unwrap_or_default();
        let name = |text: String| cut(text, MOST_NAME);
        let sentence = |text: String| cut(text, MOST_SENTENCE);
        let incident = UploadIncident {
            number: self.number,
            begun_ns: self.begun_ns,
            until_ns: self.recorded_until_ns,
            kind: name(trigger.kind),
            reason: sentence(trigger.sentence),
            cause: name(first.cause),
            severity: name(first.severity),
            confidence: name(first.confidence),
            sentence: sentence(first.sentence),
            device: first.device.map(name),
            process: first.process.map(name),
            container: first.container.map(name),
            file: first.file.map(name),
            fix: sentence(first.fix),
            recording: None,
        };
        StoredIncident { incident, is_complete: self.complete, path }
    }
}

/// The first bytes of a text, as many as whole characters fit.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// Minutes of a window, added up.
#[derive(Default)]
struct WindowSum {
    upload: Upload,
    seen: BTreeSet<i64>,
}

impl WindowSum {
    fn add(&mut self, minute: SpoolMinute) {
        // A minute with two lines counts once: a line can have been written again.
        if !self.seen.insert(minute.time_s.div_euclid(60)) {
            return;
        }
        let sum = &mut self.upload;
        sum.watched_ns = sum.watched_ns.saturating_add(minute.watched_ns);
        sum.lost_requests = sum.lost_requests.saturating_add(minute.lost_requests);
        sum.cost_ns = sum.cost_ns.saturating_add(minute.cost_ns);
        sum.oldest_ns = sum.oldest_ns.max(minute.oldest_ns);
        add_known(&mut sum.pressure_some_ns, minute.pressure_io_some_ns);
        add_known(&mut sum.pressure_full_ns, minute.pressure_io_full_ns);
        for (device, operations) in minute.devices {
            let own = sum.flows.entry(device).or_default();
            for (operation, flow) in operations {
                own.entry(operation).or_default().add(&flow);
            }
        }
        for (class, time_ns) in minute.waits {
            let own = sum.blocked.entry(class).or_default();
            *own = own.saturating_add(time_ns);
        }
        for (container, usage) in minute.groups {
            let own = sum.containers.entry(cut(container, MOST_NAME)).or_default();
            own.requests = own.requests.saturating_add(usage.requests);
            own.bytes = own.bytes.saturating_add(usage.bytes);
            own.time_ns = own.time_ns.saturating_add(usage.time_ns);
        }
        for finding in minute.findings {
            add_finding(&mut sum.findings, finding);
        }
    }

    fn finish(self, window_s: i64, host: &UploadHost) -> Upload {
        let mut upload = self.upload;
        upload.version = UPLOAD_VERSION;
        upload.host = host.clone();
        upload.window_s = window_s;
        upload.minutes = self.seen.len().min(10) as u8;
        if upload.containers.len() > MOST_CONTAINERS {
            let mut by_time: Vec<_> = std::mem::take(&mut upload.containers).into_iter().collect();
            by_time.sort_by_key(|(_, usage)| std::cmp::Reverse(usage.time_ns));
            upload.containers = by_time.into_iter().take(MOST_CONTAINERS).collect();
        }
        upload
    }
}

/// Adds a value if it is known: the sum of some minutes is worth more than nothing.
fn add_known(sum: &mut Option<u64>, more: Option<u64>) {
    *sum = match (*sum, more) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
}

fn add_finding(findings: &mut Vec<UploadFinding>, mut new: SpoolFinding) {
    new.process = new.process.map(|name| cut(name, MOST_NAME));
    let has_room = findings.len() < MOST_FINDINGS;
    let same = findings.iter_mut().find(|finding| {
        finding.cause == new.cause && finding.device == new.device && finding.process == new.process
    });
    match same {
        Some(known) => {
            known.minutes = known.minutes.saturating_add(1);
            if new.severity == "critical" {
                known.severity = new.severity;
            }
        }
        None if has_room => findings.push(UploadFinding {
            cause: new.cause,
            severity: new.severity,
            device: new.device,
            process: new.process,
            minutes: 1,
        }),
        None => (),
    }
}

impl UploadFlow {
    fn add(&mut self, more: &SpoolFlow) {
        self.requests = self.requests.saturating_add(more.requests);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.max_ns = self.max_ns.max(more.max_ns);
        add_bins(&mut self.latency, &more.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time_s: i64, requests: u64) -> String {
        format!(
            r#"{{"time_s":{time_s},"watched_ns":60,
            "devices":{{"sda":{{"read":{{"requests":{requests},
            "bytes":8,"max_ns":9,"latency":[[4,{requests}]]}}}}}},"waits":{{"device":5}},
            "findings":[{{"cause":"hung-io","device":"sda","severity":"critical"}}]}}"#
        )
        .replace('\n', "")
    }

    fn windows(lines: &[String], until_s: i64) -> Vec<Upload> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("history")).unwrap();
        fs::write(folder.path().join("history/2025-11-24.jsonl"), lines.join("\n")).unwrap();
        let spool = Spool::new(folder.path().to_owned());
        spool.windows(0, until_s, &UploadHost::default()).unwrap()
    }

    #[test]
    fn minutes_become_windows_and_nothing_is_lost() {
        let start = 1_763_942_400;
        let lines: Vec<String> = (0..25).map(|minute| line(start + minute * 60 + 3, 100)).collect();
        let windows = windows(&lines, i64::MAX);
        let minutes: Vec<u8> = windows.iter().map(|window| window.minutes).collect();
        assert_eq!(minutes, [10, 10, 5]);
        let requests = |upload: &Upload| upload.flows["sda"]["read"].requests;
        assert_eq!(windows.iter().map(requests).sum::<u64>(), 2500);
        let first = windows.first().unwrap();
        assert_eq!((first.window_s, first.blocked["device"]), (start, 50));
        assert_eq!(first.flows["sda"]["read"].latency, [(4, 1000)]);
        assert_eq!((first.findings.len(), first.findings[0].minutes), (1, 10));
    }

    #[test]
    fn a_window_is_taken_once_it_is_over_and_a_minute_once() {
        let start = 1_763_942_400;
        let mut lines: Vec<String> = (0..10).map(|minute| line(start + minute * 60, 1)).collect();
        lines.push(line(start, 1));
        lines.push("{\"time_s\": 17639".to_owned());
        assert!(windows(&lines, start + WINDOW_S - 1).is_empty());
        let whole = windows(&lines, start + WINDOW_S);
        assert_eq!((whole.len(), whole[0].minutes), (1, 10));
        assert_eq!(whole[0].flows["sda"]["read"].requests, 10);
    }

    #[test]
    fn an_incident_is_read_with_its_first_finding() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("incidents/000007");
        fs::create_dir_all(&path).unwrap();
        let text = r#"{"format":1,"number":7,"host":"h","begun_ns":5,"complete":true,
            "triggers":[{"kind":"finding","cause":"a","device":"","critical":false,"sentence":"s"}],
            "findings":[{"cause":"hung-io","severity":"critical","sentence":"It hangs."}]}"#;
        fs::write(path.join("incident.json"), text).unwrap();
        fs::create_dir_all(folder.path().join("incidents/000008")).unwrap();
        fs::write(folder.path().join("incidents/000008/incident.json"), text).unwrap();
        let found = Spool::new(folder.path().to_owned()).incidents().unwrap();
        assert_eq!(found.len(), 1);
        let incident = &found[0].incident;
        assert_eq!((incident.number, incident.cause.as_str()), (7, "hung-io"));
        assert_eq!((incident.kind.as_str(), found[0].is_complete), ("finding", true));
    }
}
