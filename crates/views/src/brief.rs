//! The answer as JSON of at most [`MOST_BYTES`], whatever the machine: for agents, alerts and tickets.
//!
//! What does not belong here: everything that is known ([`crate::json`]).

use crate::json::{FORMAT, escaped};
use crate::text::frames;
use iowhy_core::analysis::Summary;
use iowhy_core::analysis::summary::{DeviceSummary, Row, Table};
use iowhy_core::analysis::{Direction, Interval};
use iowhy_core::diagnosis::{Diagnosis, Finding};
use serde::Serialize;
use serde_json::{Value, json};

/// Bytes of a brief answer, with its newline.
pub const MOST_BYTES: usize = 8_000;

/// How much of each a brief answer holds.
struct Limits {
    findings: usize,
    evidence: usize,
    /// Characters of a text: a sentence, a fix, a path.
    text: usize,
    /// Rows of a list.
    rows: usize,
}

/// From the most to the least: the first that fits is taken.
const LIMITS: &[Limits] = &[
    Limits { findings: 5, evidence: 4, text: 600, rows: 5 },
    Limits { findings: 4, evidence: 3, text: 400, rows: 4 },
    Limits { findings: 3, evidence: 3, text: 300, rows: 3 },
    Limits { findings: 2, evidence: 2, text: 200, rows: 2 },
    Limits { findings: 1, evidence: 1, text: 120, rows: 1 },
    Limits { findings: 1, evidence: 0, text: 60, rows: 0 },
];

/// Findings, blocked time by class, devices and the top of each list, as JSON with a newline at its end.
/// `not_shown` counts what is left out; texts that were cut end with `…`.
pub fn render(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let mut answers = LIMITS.iter().map(|limits| limits.answer(summary, diagnosis));
    let fits = |answer: &String| answer.len() <= MOST_BYTES;
    let least = Limits { findings: 0, evidence: 0, text: 20, rows: 0 };
    answers.find(fits).unwrap_or_else(|| least.answer(summary, diagnosis))
}

impl Limits {
    fn answer(&self, summary: &Summary, diagnosis: &Diagnosis) -> String {
        let findings: Vec<Value> =
            diagnosis.findings.iter().take(self.findings).map(|it| self.finding(it)).collect();
        let devices: Vec<Value> =
            summary.devices.iter().take(self.rows).map(|it| self.device(it)).collect();
        let watch = &summary.watch;
        let losses: Vec<Value> = summary
            .losses
            .items
            .iter()
            .take(self.rows.max(1))
            .map(|loss| json!({ "count": loss.count, "what": self.short(&loss.meaning) }))
            .collect();
        let answer = json!({
            "format": format!("brief-{FORMAT}"),
            "host": self.short(&summary.environment.host),
            "kernel": self.short(&summary.environment.kernel),
            "watch": {
                "duration_ns": watch.duration_ns,
                "requests": watch.requests,
                "lost_requests": watch.lost_requests,
                "cost_share": watch.cost_share,
                "filter": self.short(&summary.environment.filter),
            },
            "losses": losses,
            "findings": findings,
            "quiet": diagnosis.quiet.as_deref().map(|text| self.short(text)),
            "ledger": self.ledger(summary),
            "devices": devices,
            "processes": self.top(&summary.programs, |row| self.short(&row.process)),
            "files": self.top(&summary.files, |row| self.short(&row.file)),
            "code_paths": self.code_paths(summary),
            "not_shown": {
                "findings": diagnosis.findings.len().saturating_sub(self.findings),
                "devices": summary.devices.len().saturating_sub(self.rows),
                "processes": hidden(&summary.programs, self.rows),
                "files": hidden(&summary.files, self.rows),
                "causes_not_judged": diagnosis.not_judged.len(),
            },
        });
        escaped(format!("{answer}\n"))
    }

    /// A text in as many characters as there is room for.
    fn short(&self, text: &str) -> String {
        if text.chars().count() <= self.text {
            return text.to_owned();
        }
        text.chars().take(self.text.saturating_sub(1)).chain(['…']).collect()
    }

    fn finding(&self, finding: &Finding) -> Value {
        let evidence: Vec<Value> = finding
            .evidence
            .iter()
            .take(self.evidence)
            .map(|it| {
                json!({
                    "what": self.short(&it.what),
                    "figure": it.figure,
                    "unit": it.unit,
                    "command": self.short(&it.command),
                })
            })
            .collect();
        let short = |text: &Option<String>| text.as_deref().map(|text| self.short(text));
        let subject = &finding.subject;
        json!({
            "cause": finding.cause,
            "layer": finding.layer,
            "severity": finding.severity.word(),
            "impact": finding.impact,
            "impact_of": finding.impact_of,
            "impact_at_most": finding.impact_at_most,
            "confidence": finding.confidence.word(),
            "subject": {
                "device": short(&subject.device),
                "process": short(&subject.process),
                "pid": subject.pid,
                "container": short(&subject.container),
                "file": short(&subject.file),
            },
            "sentence": self.short(&finding.sentence),
            "waits": short(&finding.waits),
            "evidence": evidence,
            "fix": self.short(&finding.fix),
            "check": self.short(&finding.check),
        })
    }

    fn ledger(&self, summary: &Summary) -> Option<Value> {
        let ledger = summary.ledger.as_ref()?;
        let classes: Vec<Value> = ledger.classes.iter().take(self.rows).map(|row| {
            json!({ "class": row.class, "time_ns": row.time_ns, "time_share": row.time_share })
        }).collect();
        Some(json!({
            "blocked_ns": ledger.blocked_ns,
            "explained_share": ledger.explained_share,
            "classes": classes,
        }))
    }

    fn device(&self, device: &DeviceSummary) -> Value {
        let direction = |direction: Direction| {
            let figures = &device.directions[direction];
            let stage = figures.intervals[Interval::Q2c].or(figures.intervals[Interval::D2c]);
            json!({
                "per_s": figures.requests_per_s,
                "bytes_per_s": figures.bytes_per_s,
                "await_ns": figures.await_ns,
                "p99_ns": stage.map(|it| it.p99_ns),
                "max_ns": stage.map(|it| it.max_ns),
            })
        };
        json!({
            "device": self.short(&device.device),
            "util_share": device.util_share,
            "in_flight_mean": device.in_flight_mean,
            "stalled_ns": device.stalled_ns,
            "read": direction(Direction::Read),
            "write": direction(Direction::Write),
            "flush": direction(Direction::Flush),
        })
    }

    fn top<R: Serialize>(&self, table: &Table<R>, name: impl Fn(&R) -> String) -> Vec<Value> {
        let row = |row: &Row<R>| {
            let usage = &row.usage;
            json!({
                "name": name(&row.subject),
                "time_share": usage.time_share,
                "bytes": usage.bytes,
                "requests": usage.requests,
            })
        };
        table.rows.iter().take(self.rows).map(row).collect()
    }

    fn code_paths(&self, summary: &Summary) -> Vec<Value> {
        let paths = summary.code_paths.table.rows.iter().take(self.rows);
        let path = |row: &Row<_>| {
            let frames: Vec<String> =
                frames::that_matter(&row.subject).into_iter().map(|it| self.short(it)).collect();
            json!({
                "origin": row.subject.origin.word(),
                "process": row.subject.process.as_deref().map(|it| self.short(it)),
                "time_share": row.usage.time_share,
                "frames": frames,
            })
        };
        paths.map(path).collect()
    }
}

/// Rows of a table that are not shown.
fn hidden<R>(table: &Table<R>, shown: usize) -> u64 {
    table.rows.len().saturating_sub(shown) as u64 + table.others.count
}
