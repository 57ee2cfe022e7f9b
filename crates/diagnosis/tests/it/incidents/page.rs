//! `docs/incidents.md`: the table of incidents, with the diagnosis of each.

use super::{IncidentOutcome, UNANSWERED, documents, first, judged};
use iowhy_diagnosis::Diagnosis;
use std::fs;
use std::path::Path;

const START: &str = "<!-- incidents: generated, run the test of this page with IOWHY_BLESS=1 -->";
const END: &str = "<!-- incidents: end -->";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn link(source: &str) -> String {
    let short = source.trim_start_matches("https://").trim_start_matches("http://");
    let short = short.strip_prefix("github.com/").unwrap_or(short);
    let short = short.replace("/issues/", "#").replace("/pull/", "#");
    let short: String = match short.char_indices().nth(48) {
        Some((end, _)) => format!("{}…", &short[..end]),
        None => short,
    };
    format!("[{short}]({source})")
}

fn verdict(diagnosis: &Diagnosis) -> String {
    first(diagnosis).map_or("nothing that is worth a warning".to_owned(), |finding| {
        format!("`{}`: {}", finding.cause, cell(&finding.sentence))
    })
}

/// The documents of the mission at their own scale.
fn documents() -> String {
    let mut text = "| document | what iowhy says first | |\n|---|---|---|\n".to_owned();
    for (document, diagnosis) in documents::judged() {
        let problem = documents::problem(document, &diagnosis);
        let word = if problem.is_none() { "right" } else { "missed" };
        text += &format!("| {} | {} | {word} |\n", cell(document.name), verdict(&diagnosis));
    }
    text
}

fn table() -> String {
    let judged = judged();
    let count = |wanted| judged.iter().filter(|(.., outcome)| *outcome == wanted).count();
    let mut text = format!(
        "{} incidents: {} right, {} bottleneck only, {} missed.\n\n\
         | incident | root cause | what iowhy says first | |\n|---|---|---|---|\n",
        judged.len(),
        count(IncidentOutcome::Right),
        count(IncidentOutcome::Bottleneck),
        count(IncidentOutcome::Missed),
    );
    for (incident, diagnosis, outcome) in &judged {
        let word = match outcome {
            IncidentOutcome::Right => "right",
            IncidentOutcome::Bottleneck => "bottleneck only",
            IncidentOutcome::Missed => "missed",
        };
        text += &format!(
            "| {}: {} | {} | {} | {word} |\n",
            cell(incident.name),
            link(incident.source),
            cell(incident.root_cause),
            verdict(diagnosis),
        );
    }
    if !UNANSWERED.is_empty() {
        text += "\nNot answered, and why:\n\n";
    }
    for (name, reason) in UNANSWERED {
        text += &format!("- {name}: {reason}\n");
    }
    text
}

#[test]
fn the_page_of_incidents_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/incidents.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{START}\n\n{}\n{}\n{END}{after}", table(), documents());
    if std::env::var_os("IOWHY_BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "docs/incidents.md is old: run this test with IOWHY_BLESS=1");
}
