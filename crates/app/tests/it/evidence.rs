//! The command that a finding names shows the figure that the finding names, wherever a recording
//! has enough for it.

use crate::{answer, json, labs};
use serde_json::Value;
use std::path::Path;

/// Commands that read a recording and print JSON.
const VIEWS: &[&str] =
    &["stat", "waits", "stacks", "snoop", "files", "latency", "cache", "proc", "chains", "blame"];
/// The largest deviation of a figure: percentiles are up to 1 % too high.
const NEAR: f64 = 0.02;

/// Returns a command's answer for the recording, as JSON; `None` for other commands than views.
fn asked(command: &str, recording: &Path) -> Option<String> {
    let mut words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let view = match words.first() {
        Some(word) if VIEWS.contains(word) => words.remove(0),
        _ => return None,
    };
    let recording = recording.to_str().unwrap();
    // The command names its source.
    assert!(words.contains(&recording), "{command}");
    Some(answer([view].into_iter().chain(words).chain(["--json"])))
}

/// Every number of an answer, and each of them as a rate per second; also means and shares, made
/// from two numbers of one row.
fn figures(answer: &str) -> Vec<f64> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(answer).into_iter::<Value>() {
        let value = value.unwrap();
        let mut own = Vec::new();
        collect(&value, &mut own);
        if let (Some(start), Some(end)) = (value["start_ns"].as_f64(), value["end_ns"].as_f64()) {
            found.extend(own.iter().map(|number| number * 1e9 / (end - start)));
        }
        found.extend(own);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Number(number) => found.extend(number.as_f64()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(fields) => {
            let own: Vec<f64> = fields.values().filter_map(Value::as_f64).collect();
            for (a, b) in own.iter().flat_map(|a| own.iter().map(move |b| (a, b))) {
                if *b != 0.0 {
                    found.push(a / b);
                }
            }
            fields.values().for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

fn is_there(figure: f64, unit: &str, answer: &str) -> bool {
    let wanted = if unit == "%" { vec![figure, figure / 100.0] } else { vec![figure] };
    let near = |a: f64, b: f64| (a - b).abs() <= NEAR * b.abs() + 1e-9;
    figures(answer).into_iter().any(|found| wanted.iter().any(|wanted| near(found, *wanted)))
}

/// Figures that no view has, by the words that they begin with: sums over rows that only the rule
/// reads, the total of a wait that WAITS shows in parts, and delays that only the rule tells from
/// shorter ones.
const DERIVED: &[(&str, &str)] = &[
    ("cpu-starvation", "run queue delays of 3 ms"),
    ("cpu-starvation", "share of waits and "),
    ("cgroup-throttle", "longest wait"),
    ("cgroup-throttle", "share of request time queued by the throttle worker"),
    ("lock-behind-io", "share of each thread's time"),
    ("readahead-waste", "bytes read per byte of a faulted page"),
    ("readahead-waste", "share of pages read again"),
    ("page-cache-thrash", "share of pages read again"),
    // Of two modes of a histogram, and sums over several rows of waits.
    ("slow-sync", "writes take "),
    ("slow-sync", "calls"),
    ("journal-commit", "blocked time for the journal"),
];

#[test]
fn a_command_shows_its_figure() {
    let mut missing = Vec::new();
    let mut seen = 0;
    for lab in labs() {
        let report = json(["report", "--json", lab.to_str().unwrap()]);
        for finding in report["findings"].as_array().unwrap() {
            let cause = finding["cause"].as_str().unwrap();
            for evidence in finding["evidence"].as_array().unwrap() {
                let text = |field: &str| evidence[field].as_str().unwrap();
                let (what, command) = (text("what"), text("command"));
                let figure = evidence["figure"].as_f64().unwrap();
                assert!(figure.is_sign_positive(), "{cause}: {what}: {figure}");
                let Some(answer) = asked(command, &lab) else { continue };
                seen += 1;
                let derived =
                    DERIVED.iter().any(|(of, begin)| *of == cause && what.starts_with(begin));
                if !derived && !is_there(figure, text("unit"), &answer) {
                    missing.push(format!("{cause}: {what}: {figure}: {command}"));
                }
            }
        }
    }
    assert!(seen > 12, "only {seen} figures were looked for");
    assert!(missing.is_empty(), "not shown:\n{}", missing.join("\n"));
}
