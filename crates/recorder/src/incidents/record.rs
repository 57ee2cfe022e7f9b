//! The record of an incident: `incident.json` in its directory.
//!
//! What does not belong here: its recording, and its complete findings (`findings.json`).

use crate::trigger::{Trigger, TriggerKind};
use iowhy_diagnosis::{Diagnosis, Finding};
use iowhy_model::compact_sort::CompactSort;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

/// Findings that the record keeps.
const MOST_FINDINGS: usize = 8;
/// Triggers that the record keeps.
const MOST_TRIGGERS: usize = 20;

/// The sentence of a request without a reason.
pub const UNSAID: &str = "`iowhy capture`";

/// The layout's version.
pub const INCIDENT_FORMAT: u32 = 1;

/// The record of an incident. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentRecord {
    /// The layout's version, [`INCIDENT_FORMAT`].
    pub format: u32,
    /// Its number on this host.
    pub number: u32,
    /// The host's name.
    pub host: String,
    /// The time of its trigger.
    pub begun_ns: i64,
    /// The beginning of its recording.
    pub recorded_from_ns: i64,
    /// The end of its recording.
    pub recorded_until_ns: i64,
    /// Offset of the host's local time from UTC, seconds.
    pub utc_offset_s: Option<i32>,
    /// Whether the minutes after the trigger are recorded as planned; false while it is open, and
    /// where recording ended before.
    pub complete: bool,
    /// The conditions that were met, the one that began it first.
    pub triggers: Vec<Trigger>,
    /// Conditions beyond the limit, which are only counted.
    pub more_triggers: u64,
    /// The findings around the trigger, the one to act on first comes first.
    pub findings: Vec<IncidentFinding>,
    /// Requests in the time of the recording that were lost.
    pub lost_requests: u64,
}

/// A finding of an incident.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentFinding {
    /// The cause's id.
    pub cause: String,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// `possible`, `likely` or `certain`.
    pub confidence: String,
    /// The cause in one sentence.
    pub sentence: String,
    /// The device.
    pub device: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// The process's number.
    pub pid: Option<u32>,
    /// The process's container or systemd unit.
    pub container: Option<String>,
    /// The file, or a pattern of files.
    pub file: Option<String>,
    /// The fix.
    pub fix: String,
    /// The observation that would refute it.
    pub check: String,
}

impl IncidentFinding {
    fn is_same(&self, other: &IncidentFinding) -> bool {
        self.cause == other.cause && self.device == other.device
    }

    /// Returns its severity and confidence as numbers, higher for more severe and more certain.
    fn rank(&self) -> (usize, usize) {
        let place = |words: &[&str], word: &str| words.iter().position(|known| *known == word);
        let severity = place(&["info", "warning", "critical"], &self.severity);
        let confidence = place(&["possible", "likely", "certain"], &self.confidence);
        (severity.unwrap_or(0), confidence.unwrap_or(0))
    }

    fn from_finding(finding: &Finding) -> IncidentFinding {
        let subject = &finding.subject;
        IncidentFinding {
            cause: finding.cause.to_owned(),
            severity: finding.severity.word().to_owned(),
            confidence: finding.confidence.word().to_owned(),
            sentence: finding.sentence.clone(),
            device: subject.device.clone(),
            process: subject.process.clone(),
            pid: subject.pid,
            container: subject.container.clone(),
            file: subject.file.clone(),
            fix: finding.fix.clone(),
            check: finding.check.clone(),
        }
    }
}

impl IncidentRecord {
    /// Adds a condition; of a known one, only the sentence is replaced.
    pub fn add_trigger(&mut self, trigger: &Trigger) {
        let has_room = self.triggers.len() < MOST_TRIGGERS;
        match self.triggers.iter_mut().find(|known| known.key == trigger.key) {
            // The latest sentence says most: how long a request has been in flight.
            Some(known) => known.sentence.clone_from(&trigger.sentence),
            None if has_room => self.triggers.push(trigger.clone()),
            None => self.more_triggers += 1,
        }
    }

    /// Adds a finding of ten seconds of the incident; of the same finding twice, the more severe
    /// one is kept.
    pub fn add_finding(&mut self, finding: &Finding) {
        let new = IncidentFinding::from_finding(finding);
        let has_room = self.findings.len() < MOST_FINDINGS;
        match self.findings.iter_mut().find(|known| known.is_same(&new)) {
            Some(known) if known.rank() < new.rank() => *known = new,
            Some(_) => (),
            None if has_room => self.findings.push(new),
            None => (),
        }
    }

    /// Joins the findings of a diagnosis of the total time with those that were added: the former
    /// know more, and the latter are not diluted by quiet minutes.
    pub fn join_findings(&mut self, diagnosis: &Diagnosis) {
        let shorter = std::mem::take(&mut self.findings);
        self.findings = diagnosis.findings.iter().map(IncidentFinding::from_finding).collect();
        for finding in shorter {
            match self.findings.iter_mut().find(|known| known.is_same(&finding)) {
                Some(known) if known.rank() < finding.rank() => {
                    known.severity = finding.severity;
                    known.confidence = finding.confidence;
                }
                Some(_) => (),
                None => self.findings.push(finding),
            }
        }
        // The diagnosis has them in the order to act on; a stable sort keeps it.
        self.findings.compact_sort_by_key(|finding| std::cmp::Reverse(finding.rank().0));
        self.findings.truncate(MOST_FINDINGS);
    }

    /// Returns the sentence of the condition that began it.
    pub fn reason(&self) -> &str {
        self.triggers.first().map_or("", |trigger| &trigger.sentence)
    }

    /// Returns the reason that a person gave, also for an incident that had begun by itself.
    pub fn asked_for(&self) -> Option<&str> {
        let asked = self.triggers.iter().filter(|trigger| trigger.key.kind == TriggerKind::Command);
        asked.map(|trigger| trigger.sentence.as_str()).find(|said| *said != UNSAID)
    }

    /// Returns the incident in one sentence: a person's reason, and the first finding.
    pub fn summary(&self) -> String {
        let found = self.findings.first().map_or(self.reason(), |finding| &finding.sentence);
        match self.asked_for() {
            Some(said) if said == found => said.to_owned(),
            Some(said) => format!("\"{said}\": {found}"),
            None => found.to_owned(),
        }
    }

    /// Returns the kind of the trigger that began it.
    pub fn kind(&self) -> Option<TriggerKind> {
        self.triggers.first().map(|trigger| trigger.key.kind)
    }

    /// Returns whether only people requested it, over the socket: a cause that is found meanwhile
    /// makes it one of its own.
    pub fn is_asked(&self) -> bool {
        let mut triggers = self.triggers.iter();
        !self.triggers.is_empty()
            && triggers.all(|trigger| trigger.key.kind == TriggerKind::Command)
    }

    /// Returns whether its recording covers the time, nanoseconds since 1970.
    pub fn covers(&self, time_ns: i64) -> bool {
        (self.recorded_from_ns..=self.recorded_until_ns).contains(&time_ns)
    }

    /// Formats a time of the incident as `2026-11-24 09:35:12`, local to its host.
    pub fn local(&self, time_ns: i64) -> String {
        let offset = self.utc_offset_s.and_then(|seconds| Offset::from_seconds(seconds).ok());
        local_time(time_ns, &TimeZone::fixed(offset.unwrap_or(Offset::UTC)))
    }
}

/// Formats a time as `2026-11-24 09:35:12`; `-` if no calendar has it.
pub fn local_time(time_ns: i64, zone: &TimeZone) -> String {
    Timestamp::from_nanosecond(i128::from(time_ns)).map_or_else(
        |_| "-".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_said_is_told_with_what_was_found() {
        let mut record = IncidentRecord::default();
        record.add_trigger(&Trigger::manual(TriggerKind::Command, UNSAID.to_owned()));
        assert_eq!((record.asked_for(), record.summary().as_str()), (None, UNSAID));
        let mut record = IncidentRecord::default();
        record.add_trigger(&Trigger::manual(TriggerKind::Signal, "SIGUSR1".to_owned()));
        record.add_trigger(&Trigger::manual(TriggerKind::Command, "login is slow".to_owned()));
        let sentence = "dpkg syncs small writes".to_owned();
        record.findings.push(IncidentFinding { sentence, ..IncidentFinding::default() });
        assert_eq!(record.summary(), "\"login is slow\": dpkg syncs small writes");
    }

    #[test]
    fn a_condition_is_kept_once_with_its_latest_sentence() {
        let mut record = IncidentRecord::default();
        for age in 0..40 {
            record.add_trigger(&Trigger::manual(TriggerKind::Signal, format!("{age} s")));
        }
        assert_eq!((record.triggers.len(), record.reason()), (1, "39 s"));
        for number in 0..40 {
            let mut trigger = Trigger::manual(TriggerKind::InFlight, String::new());
            trigger.key.device = number.to_string();
            record.add_trigger(&trigger);
        }
        assert_eq!((record.triggers.len(), record.more_triggers), (20, 21));
    }

    #[test]
    fn a_long_recording_does_not_dilute_a_finding() {
        let finding = |cause: &str, severity: &str| IncidentFinding {
            cause: cause.to_owned(),
            severity: severity.to_owned(),
            confidence: "likely".to_owned(),
            ..IncidentFinding::default()
        };
        let shorter = vec![finding("hung-io", "critical"), finding("gone", "warning")];
        let mut record = IncidentRecord { findings: shorter, ..IncidentRecord::default() };
        record.join_findings(&Diagnosis::default());
        let found = |record: &IncidentRecord| {
            record.findings.iter().map(|finding| finding.cause.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&record), ["hung-io", "gone"]);
        record.findings.insert(0, finding("a", "info"));
        record.join_findings(&Diagnosis::default());
        assert_eq!(found(&record), ["hung-io", "gone", "a"]);
    }

    #[test]
    fn an_older_record_is_read() {
        let record: IncidentRecord = serde_json::from_str(r#"{"number": 3}"#).unwrap();
        assert_eq!(record.number, 3);
        assert_eq!(record.local(0), "1970-01-01 00:00:00");
        assert_eq!(record.local(i64::MAX), "2262-04-11 23:47:16");
    }
}
