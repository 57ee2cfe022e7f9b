//! Incidents and history as text.
//!
//! What does not belong here: figures.

use crate::incidents::record::{IncidentFinding, IncidentRecord};
use crate::incidents::store::{EARLIER, PAGE, RECORDING, StoredIncident};
use iowhy_model::command::shell_word;
use iowhy_views::escape::{cut, escape};
use iowhy_views::fold;
use iowhy_views::style::Style;
use serde::Serialize;
use std::fmt::Write;

/// Formats any value as JSON.
pub fn json<T: Serialize>(value: &T) -> String {
    let text = serde_json::to_string_pretty(value);
    text.map_or_else(|_| String::new(), |text| iowhy_views::json::escaped(text + "\n"))
}

/// Formats a line for each incident, the newest first.
pub fn list(incidents: &[StoredIncident], style: &Style) -> String {
    let mut text = String::from("  N  BEGAN                TRIGGER         MB  WHAT\n");
    for incident in incidents.iter().rev() {
        let record = &incident.record;
        let began = record.local(record.begun_ns);
        let kind = record.kind().map_or("", |kind| kind.word());
        let what = record.summary();
        let mb = incident.bytes as f64 / 1e6;
        let pinned = if incident.pinned { "*" } else { " " };
        let line = format!("{:>3}{pinned} {began}  {kind:<11} {mb:>6.1}  ", record.number);
        let room = style.columns().saturating_sub(line.chars().count()).max(20);
        let what = escape(&what, style);
        let _ = writeln!(text, "{line}{}", cut(&what, room, style));
    }
    if incidents.iter().any(|incident| incident.pinned) {
        text.push_str("* pinned: never removed to make room\n");
    }
    text.push_str("show one with: iowhy incidents show N\n");
    text
}

/// Formats an incident: its time, its trigger, its findings, and the commands that show more.
pub fn incident(incident: &StoredIncident, style: &Style) -> String {
    let record = &incident.record;
    let mut page = Page { text: String::new(), style };
    let state = if record.complete { "" } else { " · not complete" };
    let pinned = if incident.pinned { " · pinned" } else { "" };
    let (host, began) = (&record.host, record.local(record.begun_ns));
    page.line(0, &format!("incident {} · {host} · {began}{state}{pinned}", record.number));
    let (from, until) =
        (record.local(record.recorded_from_ns), record.local(record.recorded_until_ns));
    page.line(0, &format!("recorded from {from} to {until}"));
    page.line(0, "");
    page.line(0, "TRIGGERED BY");
    for trigger in &record.triggers {
        page.line(2, &format!("{}: {}", trigger.key.kind.word(), trigger.sentence));
    }
    if record.more_triggers > 0 {
        page.line(2, &format!("and {} more conditions", record.more_triggers));
    }
    page.line(0, "");
    page.line(0, "WHY");
    if record.findings.is_empty() {
        page.line(2, "no known cause was found around the trigger");
    }
    for (index, finding) in record.findings.iter().enumerate() {
        page.finding(index + 1, finding);
    }
    page.line(0, "");
    if record.lost_requests > 0 {
        page.line(0, &format!("lost: {} requests have no record", record.lost_requests));
    }
    page.more(incident);
    page.text
}

struct Page<'a> {
    text: String,
    style: &'a Style,
}

impl Page<'_> {
    /// Adds a text, folded, with `indent` spaces before each line.
    fn line(&mut self, indent: usize, text: &str) {
        let text = escape(text, self.style);
        let columns = self.style.columns().saturating_sub(indent).max(20);
        let lines = fold::message(&text, columns, &[]);
        if lines.is_empty() {
            self.text.push('\n');
        }
        for line in lines {
            let _ = writeln!(self.text, "{}", format!("{:indent$}{line}", "").trim_end());
        }
    }

    fn finding(&mut self, number: usize, finding: &IncidentFinding) {
        let IncidentFinding { sentence, severity, confidence, cause, .. } = finding;
        self.line(1, &format!("{number}  {sentence} ({severity}, {confidence})"));
        let mut who = Vec::new();
        let process = finding.process.as_ref();
        who.extend(process.map(|name| match finding.pid {
            Some(pid) => format!("process {name} ({pid})"),
            None => format!("process {name}"),
        }));
        who.extend(finding.container.as_ref().map(|name| format!("in {name}")));
        who.extend(finding.device.as_ref().map(|name| format!("device {name}")));
        who.extend(finding.file.as_ref().map(|name| format!("file {name}")));
        if !who.is_empty() {
            self.line(4, &who.join(", "));
        }
        if number == 1 {
            self.line(4, &format!("fix: {}", finding.fix));
            self.line(4, &format!("check: {}", finding.check));
        }
        self.line(4, &format!("more: iowhy explain {cause}"));
    }

    fn more(&mut self, incident: &StoredIncident) {
        let page = incident.path.join(PAGE);
        if page.exists() {
            self.line(0, &format!("as a page with charts: {}", page.display()));
        }
        for (part, what) in [(RECORDING, ""), (EARLIER, ", before the watch began anew")] {
            let path = incident.path.join(part);
            if path.exists() {
                let path = path.to_string_lossy();
                let path = shell_word(&path);
                self.line(0, &format!("all that was recorded{what}: iowhy report {path}"));
            }
        }
    }
}

/// Returns the incidents that cover a time, nanoseconds since 1970; the newest last.
pub fn covering(incidents: &[StoredIncident], time_ns: i64) -> Vec<&IncidentRecord> {
    let records = incidents.iter().map(|incident| &incident.record);
    records.filter(|record| record.covers(time_ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trigger::{Trigger, TriggerKind};
    use std::path::PathBuf;

    fn stored(number: u32) -> StoredIncident {
        let mut record = IncidentRecord { number, host: "db7".to_owned(), ..Default::default() };
        let sentence = "a request has been at sda for 2.1 s".to_owned();
        record.add_trigger(&Trigger::manual(TriggerKind::InFlight, sentence));
        record.findings.push(IncidentFinding {
            cause: "hung-io".to_owned(),
            severity: "critical".to_owned(),
            confidence: "certain".to_owned(),
            sentence: "sda has completed no request for 5.0 s".to_owned(),
            process: Some("dd\u{1b}[2J".to_owned()),
            pid: Some(7),
            device: Some("sda".to_owned()),
            file: Some("/srv/a\nb".to_owned()),
            fix: "check the path".to_owned(),
            ..Default::default()
        });
        let path = PathBuf::from("/var/lib/iowhy/incidents/000007");
        StoredIncident { record, path, pinned: number == 7, bytes: 2_500_000 }
    }

    #[test]
    fn names_cannot_break_the_terminal() {
        for text in [
            incident(&stored(7), &Style::plain(80)),
            list(&[stored(7), stored(8)], &Style::plain(80)),
        ] {
            assert!(!text.contains('\u{1b}'), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
        assert!(incident(&stored(7), &Style::plain(80)).contains("process dd"));
    }

    #[test]
    fn the_newest_is_listed_first() {
        let text = list(&[stored(7), stored(8)], &Style::plain(100));
        let (eight, seven) = (text.find("  8  1970").unwrap(), text.find("  7* 1970").unwrap());
        assert!(eight < seven, "{text}");
    }
}
