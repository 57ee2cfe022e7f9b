//! The results on each kernel, as tables of a page.

use super::KernelResult;
use super::beside::{ComparedRequests, Spread};
use super::tools::{TOOLS, ToolOutcome};

/// Formats the whole part of the page.
pub fn of(found: &[KernelResult], tools: &str, blktrace: &str) -> String {
    let kernels: Vec<&str> = found.iter().map(|one| short(&one.kernel)).collect();
    let mut text = format!(
        "Command: `make bench-peers`. Guests under QEMU without KVM, so times are those of slow \
         emulation; blktrace {blktrace}, libbpf-tools {tools} of Debian.\n\n### blktrace between \
         two iowhys\n\n"
    );
    text.push_str(&stages(found));
    text.push_str(&format!("\n{}\n### libbpf-tools\n\n", notes(found)));
    text.push_str(&format!("| tool | counts | {} |\n", kernels.join(" | ")));
    text.push_str(&format!("|---|---|{}\n", "---|".repeat(kernels.len())));
    let mut complaints: Vec<String> = Vec::new();
    for tool in TOOLS {
        let outcome_of =
            |one: &KernelResult| one.tools.iter().find(|one| one.tool == tool.title()).cloned();
        let cells: Vec<String> = found
            .iter()
            .map(|one| {
                outcome_of(one).map_or("–".to_owned(), |outcome| cell(&outcome, &mut complaints))
            })
            .collect();
        let (expected, counts) = (tool.expected, tool.counts);
        text.push_str(&format!(
            "| {} | {expected} {counts} | {} |\n",
            tool.title(),
            cells.join(" | ")
        ));
    }
    for (number, complaint) in complaints.iter().enumerate() {
        text.push_str(&format!("\n{}. `{}`", number + 1, complaint.replace('`', "'")));
    }
    text
}

/// `6.1.0` of `6.1.0-56-cloud-amd64`.
fn short(release: &str) -> &str {
    release.split(['-', '+']).next().unwrap_or(release)
}

fn cell(outcome: &ToolOutcome, complaints: &mut Vec<String>) -> String {
    match outcome.found {
        Some(_) if outcome.right => "right".to_owned(),
        Some(found) => format!("**{found}**"),
        None => {
            let known = complaints.iter().position(|complaint| *complaint == outcome.said);
            let place = known.unwrap_or_else(|| {
                complaints.push(outcome.said.clone());
                complaints.len() - 1
            });
            format!("does not load ({})", place + 1)
        }
    }
}

/// A row for each stage and kernel.
fn stages(found: &[KernelResult]) -> String {
    let mut text =
        "| kernel | stage | requests | two iowhys differ by | blktrace from the first | \
                    blktrace from the second |\n|---|---|--:|--:|--:|--:|\n"
            .to_owned();
    for one in found {
        for stage in &one.beside.stages {
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                short(&one.kernel),
                stage.name,
                stage.requests,
                words(stage.floor),
                words(stage.first),
                words(stage.second)
            ));
        }
    }
    text.push_str(
        "\nMedian and 99th percentile of the difference for each request, microseconds.\n",
    );
    text
}

fn words(spread: Spread) -> String {
    let micros = |time: u64| time as f64 / 1000.0;
    format!("{:.1}, {:.1}", micros(spread.median), micros(spread.p99))
}

/// Results that are the same on every kernel, or not.
fn notes(found: &[KernelResult]) -> String {
    let mut text =
        "| kernel | requests | missing in either | stamps within the two iowhys' | events \
                    of writes with merges and flushes | lines of btt's reports that differ |\n\
                    |---|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for one in found {
        let ComparedRequests { requests, missing, stamps, outside, events, btt, .. } = &one.beside;
        text.push_str(&format!(
            "| {} | {requests} | {} | {} of {stamps} | {events} | {} |\n",
            short(&one.kernel),
            missing.len(),
            stamps - outside,
            btt.len()
        ));
    }
    text
}
