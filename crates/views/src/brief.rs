//! A JSON report of at most [`MOST_BYTES`] bytes on any machine: for agents, alerts and tickets.
//! What does not belong here: the complete report ([`crate::json`]).

mod answer;

use crate::json::{FORMAT, SCHEMA_VERSION, escaped};
use crate::text::frames;
pub(crate) use answer::BriefAnswer;
use answer::{
    BriefClass, BriefCodePath, BriefDevice, BriefDirection, BriefEvidence, BriefFinding,
    BriefLedger, BriefLoss, BriefRest, BriefRow, BriefWatch,
};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{ClassRow, CodePathRow, DeviceSummary, UsageTable, UsedRow};
use iowhy_analysis::{Direction, Interval};
use iowhy_diagnosis::{Diagnosis, Evidence, Finding, Gain, Subject};
use iowhy_model::clock::WallClock;
use iowhy_model::loss::Loss;

/// Maximum size of a brief report with its newline, bytes.
pub const MOST_BYTES: usize = 8_000;

/// Limits of each part of a brief report.
struct BriefLimits {
    findings: usize,
    evidence: usize,
    /// Characters of a text: a sentence, a fix, a path.
    text: usize,
    /// Rows of a list.
    rows: usize,
}

/// From the largest to the smallest: the first that fits is used.
const LIMITS: &[BriefLimits] = &[
    BriefLimits { findings: 5, evidence: 4, text: 600, rows: 5 },
    BriefLimits { findings: 4, evidence: 3, text: 400, rows: 4 },
    BriefLimits { findings: 3, evidence: 3, text: 300, rows: 3 },
    BriefLimits { findings: 2, evidence: 2, text: 200, rows: 2 },
    BriefLimits { findings: 1, evidence: 1, text: 120, rows: 1 },
    BriefLimits { findings: 1, evidence: 0, text: 60, rows: 0 },
];

/// Findings, blocked time by class, devices and the top of each list, as JSON with a newline at its
/// end. `not_shown` counts what is left out; texts that were cut end with `…`.
pub fn render(summary: &Summary, diagnosis: &Diagnosis) -> String {
    let mut answers = LIMITS.iter().map(|limits| limits.answer(summary, diagnosis));
    let fits = |answer: &String| answer.len() <= MOST_BYTES;
    let least = BriefLimits { findings: 0, evidence: 0, text: 20, rows: 0 };
    answers.find(fits).unwrap_or_else(|| least.answer(summary, diagnosis))
}

impl BriefLimits {
    fn answer(&self, summary: &Summary, diagnosis: &Diagnosis) -> String {
        let watch = &summary.watch;
        let loss = |loss: &Loss| BriefLoss { count: loss.count, what: self.short(&loss.meaning) };
        let answer = BriefAnswer {
            format: format!("brief-{FORMAT}"),
            schema_version: SCHEMA_VERSION,
            host: self.short(&summary.environment.host),
            kernel: self.short(&summary.environment.kernel),
            watch: BriefWatch {
                start: WallClock::from_environment(&summary.environment)
                    .map(|clock| clock.rfc3339(summary.environment.start_ns)),
                duration_ns: watch.duration_ns,
                requests: watch.requests,
                lost_requests: watch.lost_requests,
                cost_share: watch.cost_share,
                filter: self.short(&summary.environment.filter),
            },
            losses: summary.losses.items.iter().take(self.rows.max(1)).map(loss).collect(),
            findings: diagnosis
                .findings
                .iter()
                .take(self.findings)
                .map(|finding| self.finding(finding))
                .collect(),
            quiet: diagnosis.quiet.as_deref().map(|text| self.short(text)),
            ledger: self.ledger(summary),
            devices: summary
                .devices
                .iter()
                .take(self.rows)
                .map(|device| self.device(device))
                .collect(),
            processes: self.top(&summary.programs, |row| self.short(&row.process)),
            files: self.top(&summary.files, |row| self.short(&row.file)),
            code_paths: self.code_paths(summary),
            not_shown: BriefRest {
                findings: diagnosis.findings.len().saturating_sub(self.findings),
                devices: summary.devices.len().saturating_sub(self.rows),
                processes: hidden(&summary.programs, self.rows),
                files: hidden(&summary.files, self.rows),
                causes_not_judged: diagnosis.not_judged.len(),
            },
        };
        // Every key is a text, and nothing here can fail to be written.
        let json = serde_json::to_string(&answer).unwrap_or_default();
        escaped(format!("{json}\n"))
    }

    /// Cuts a text to the characters that the limits allow.
    fn short(&self, text: &str) -> String {
        if text.chars().count() <= self.text {
            return text.to_owned();
        }
        text.chars().take(self.text.saturating_sub(1)).chain(['…']).collect()
    }

    fn finding(&self, finding: &Finding) -> BriefFinding {
        let evidence = |evidence: &Evidence| BriefEvidence {
            what: self.short(&evidence.what),
            figure: evidence.figure,
            unit: evidence.unit,
            command: self.short(&evidence.command),
        };
        let short = |text: &Option<String>| text.as_deref().map(|text| self.short(text));
        let subject = &finding.subject;
        BriefFinding {
            cause: finding.cause,
            layer: finding.layer,
            severity: finding.severity,
            impact: finding.impact,
            impact_of: finding.impact_of,
            impact_at_most: finding.impact_at_most,
            gain: finding
                .gain
                .as_ref()
                .map(|gain| Gain { process: short(&gain.process), ..gain.clone() }),
            confidence: finding.confidence,
            subject: Subject {
                device: short(&subject.device),
                process: short(&subject.process),
                pid: subject.pid,
                container: short(&subject.container),
                file: short(&subject.file),
            },
            sentence: self.short(&finding.sentence),
            waits: short(&finding.waits),
            evidence: finding.evidence.iter().take(self.evidence).map(evidence).collect(),
            fix: self.short(&finding.fix),
            check: self.short(&finding.check),
        }
    }

    fn ledger(&self, summary: &Summary) -> Option<BriefLedger> {
        let ledger = summary.ledger.as_ref()?;
        let class = |row: &ClassRow| BriefClass {
            class: row.class,
            time_ns: row.time_ns,
            time_share: row.time_share,
        };
        Some(BriefLedger {
            blocked_ns: ledger.blocked_ns,
            explained_share: ledger.explained_share,
            classes: ledger.classes.iter().take(self.rows).map(class).collect(),
        })
    }

    fn device(&self, device: &DeviceSummary) -> BriefDevice {
        let direction = |direction: Direction| {
            let figures = &device.directions[direction];
            let stage = figures.intervals[Interval::Q2c].or(figures.intervals[Interval::D2c]);
            BriefDirection {
                per_s: figures.requests_per_s,
                bytes_per_s: figures.bytes_per_s,
                await_ns: figures.await_ns,
                p99_ns: stage.map(|stage| stage.p99_ns),
                max_ns: stage.map(|stage| stage.max_ns),
            }
        };
        BriefDevice {
            device: self.short(&device.device),
            util_share: device.util_share,
            in_flight_mean: device.in_flight_mean,
            stalled_ns: device.stalled_ns,
            read: direction(Direction::Read),
            write: direction(Direction::Write),
            flush: direction(Direction::Flush),
        }
    }

    fn top<R>(&self, table: &UsageTable<R>, name: impl Fn(&R) -> String) -> Vec<BriefRow> {
        let row = |row: &UsedRow<R>| BriefRow {
            name: name(&row.subject),
            time_share: row.usage.time_share,
            bytes: row.usage.bytes,
            requests: row.usage.requests,
        };
        table.rows.iter().take(self.rows).map(row).collect()
    }

    fn code_paths(&self, summary: &Summary) -> Vec<BriefCodePath> {
        let paths = summary.code_paths.table.rows.iter().take(self.rows);
        let path = |row: &UsedRow<CodePathRow>| BriefCodePath {
            origin: row.subject.origin.word(),
            process: row.subject.process.as_deref().map(|name| self.short(name)),
            time_share: row.usage.time_share,
            frames: frames::that_matter(&row.subject)
                .into_iter()
                .map(|frame| self.short(frame))
                .collect(),
        };
        paths.map(path).collect()
    }
}

/// The number of rows of a table that are not shown.
fn hidden<R>(table: &UsageTable<R>, shown: usize) -> u64 {
    table.rows.len().saturating_sub(shown) as u64 + table.others.count
}
