//! Texts with the figures of published threads that ask why a disk is slow, each with the answer
//! that was given there. The table in docs/sources.md is what this test prints:
//! `IOWHY_BLESS=1 cargo test -p iowhy-foreign --test it -- threads`.

use super::*;
use iowhy_diagnosis::{Confidence, Finding, Severity};
use std::fmt::Write;
use std::path::PathBuf;

/// The least share of right answers, in percent.
const LEAST_RIGHT: usize = 60;
/// The marks around the table in the page.
const MARKS: [&str; 2] = ["<!-- threads -->", "<!-- /threads -->"];

/// A text, and the answer of its thread.
struct Thread {
    file: String,
    asked: String,
    answer: String,
    /// Ids of causes that are right; `none` if nothing is wrong.
    causes: Vec<String>,
    /// Devices of which the answer is right; empty if it names none.
    devices: Vec<String>,
    /// Whether the figures show it plainly, so that a missing answer is a fault.
    is_plain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ThreadVerdict {
    Right,
    Missed,
    Silent,
    Wrong,
    WrongAndCertain,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/threads")
}

fn threads() -> Vec<Thread> {
    let labels = std::fs::read_to_string(folder().join("labels.tsv")).unwrap();
    let rows = labels.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let list = |text: &str, at: char| -> Vec<String> {
        text.split(at).filter(|part| *part != "-").map(str::to_owned).collect()
    };
    rows.map(|row| {
        let [file, asked, answer, causes, devices, plain] = row[..] else { panic!("{row:?}") };
        Thread {
            file: file.to_owned(),
            asked: asked.to_owned(),
            answer: answer.to_owned(),
            causes: list(causes, ','),
            devices: list(devices, '|'),
            is_plain: plain == "plain",
        }
    })
    .collect()
}

impl Thread {
    fn read(&self) -> ReadFile {
        let bytes = std::fs::read(folder().join(&self.file)).unwrap();
        ReadFile::new(&bytes).unwrap_or_else(|error| panic!("{}: {error}", self.file))
    }

    fn fits(&self, finding: &Finding) -> bool {
        let device = finding.subject.device.as_ref();
        self.causes.iter().any(|cause| cause == finding.cause)
            && (self.devices.is_empty()
                || device.is_some_and(|device| self.devices.contains(device)))
    }

    fn verdict(&self, findings: &[Finding]) -> ThreadVerdict {
        let is_healthy = self.causes.iter().any(|cause| cause == "none");
        let first = findings.first();
        match first {
            Some(finding) if self.fits(finding) => ThreadVerdict::Right,
            Some(finding) if finding.severity > Severity::Info => match finding.confidence {
                Confidence::Certain => ThreadVerdict::WrongAndCertain,
                _ => ThreadVerdict::Wrong,
            },
            _ if is_healthy => ThreadVerdict::Right,
            _ if self.is_plain => ThreadVerdict::Silent,
            _ => ThreadVerdict::Missed,
        }
    }
}

/// Returns the table, and the number of each verdict.
fn table() -> (String, Vec<(String, ThreadVerdict)>) {
    let mut rows =
        String::from("| asked | answered there | iowhy's first finding | |\n|---|---|---|---|\n");
    let mut verdicts = Vec::new();
    for thread in threads() {
        let read = thread.read();
        let findings = &read.diagnosis.findings;
        let verdict = thread.verdict(findings);
        let said = findings.first().map_or("none".to_owned(), |finding| {
            format!(
                "{} ({}; {})",
                finding.sentence.replace('|', "\\|"),
                finding.cause,
                finding.confidence.word()
            )
        });
        let word = match verdict {
            ThreadVerdict::Right => "right",
            ThreadVerdict::Missed => "missed",
            ThreadVerdict::Silent => "silent",
            ThreadVerdict::Wrong => "wrong",
            ThreadVerdict::WrongAndCertain => "wrong and certain",
        };
        let Thread { asked, answer, .. } = &thread;
        writeln!(rows, "| {asked} | {answer} | {said} | {word} |").unwrap();
        verdicts.push((thread.file, verdict));
    }
    let count = |of: ThreadVerdict| verdicts.iter().filter(|verdict| verdict.1 == of).count();
    let head = format!(
        "{} texts: {} right, {} missed, {} wrong, {} wrong and certain, {} silent about what is \
         plain.\n\n",
        verdicts.len(),
        count(ThreadVerdict::Right),
        count(ThreadVerdict::Missed),
        count(ThreadVerdict::Wrong),
        count(ThreadVerdict::WrongAndCertain),
        count(ThreadVerdict::Silent),
    );
    (head + &rows, verdicts)
}

#[test]
fn published_threads_are_answered() {
    let (table, verdicts) = table();
    let of = |verdict: ThreadVerdict| -> Vec<&str> {
        verdicts
            .iter()
            .filter(|judged| judged.1 == verdict)
            .map(|verdict| verdict.0.as_str())
            .collect()
    };
    assert!(verdicts.len() >= 50, "{}", verdicts.len());
    assert_eq!(of(ThreadVerdict::WrongAndCertain), Vec::<&str>::new(), "{table}");
    assert_eq!(of(ThreadVerdict::Silent), Vec::<&str>::new(), "{table}");
    let right = of(ThreadVerdict::Right).len();
    assert!(right * 100 >= verdicts.len() * LEAST_RIGHT, "{right} right\n{table}");
}

#[test]
fn the_page_has_the_table() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/sources.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{begin}\n\n{}\n{end}{after}", table().0);
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let now = std::fs::read_to_string(&page).unwrap();
    assert!(now == wanted, "IOWHY_BLESS=1 cargo test -p iowhy-foreign --test it -- threads");
}
