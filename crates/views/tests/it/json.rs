//! The JSON report.

use crate::scenes;
use iowhy_analysis::Interval;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::diagnose;
use iowhy_model::script::Script;
use iowhy_views::json;
use serde_json::Value;

fn rendered(script: &Script) -> String {
    let summary = script.summary();
    json::render(&summary, &diagnose(&summary))
}

fn parsed(script: &Script) -> Value {
    serde_json::from_str(&rendered(script)).unwrap()
}

#[test]
fn figures_are_those_of_the_summary() {
    let script = scenes::jenkins();
    let summary = script.summary();
    let report = parsed(&script);
    for key in
        ["format", "units", "watch", "losses", "devices", "environment", "processes", "files"]
    {
        assert!(!report[key].is_null(), "{key}");
    }
    assert_eq!(report["watch"]["requests"], summary.watch.requests);
    assert_eq!(report["devices"].as_array().unwrap().len(), summary.devices.len());
    for (json, device) in report["devices"].as_array().unwrap().iter().zip(&summary.devices) {
        assert_eq!(json["device"], device.device.as_str());
        assert_eq!(json["util_share"], device.util_share.unwrap());
        for (direction, figures) in device.directions.iter() {
            let json = &json["directions"][direction.word()];
            assert_eq!(json["requests"], figures.requests);
            assert_eq!(json["bytes"], figures.bytes);
            for (interval, stage) in figures.intervals.iter() {
                let json = &json["intervals"][interval.word()];
                assert_eq!(json.is_null(), stage.is_none());
                assert_eq!(json["p99_ns"].as_u64(), stage.map(|stage| stage.p99_ns));
            }
            let buckets = json["q2c_histogram"].as_array().unwrap();
            let counted: u64 =
                buckets.iter().map(|bucket| bucket["requests"].as_u64().unwrap()).sum();
            let q2c = figures.intervals[Interval::Q2c];
            assert_eq!(counted, q2c.map_or(0, |stage| stage.requests));
        }
    }
    let java = &report["processes"]["rows"][0];
    assert_eq!((java["pid"].as_u64(), java["process"].as_str()), (Some(30603), Some("java")));
    assert_eq!(report["environment"]["host"], "db7");
    assert_eq!(report["code_paths"]["rows"][0]["origin"], "metadata");
}

#[test]
fn what_is_not_known_is_null() {
    let report = parsed(&scenes::imported());
    let read = &report["devices"][0]["directions"]["read"];
    assert!(read["intervals"]["q2c"].is_null() && read["await_ns"].is_null());
    assert!(read["intervals"]["d2c"]["p50_ns"].is_u64());
    assert_eq!(report["files"]["unknown"][0]["reason"], "not in the data");
}

#[test]
fn names_are_exact_and_break_no_terminal() {
    let script = scenes::hostile();
    let text = rendered(&script);
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()));
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{feff}']));
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["processes"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["process"].as_str().unwrap()).collect();
    assert!(names.contains(&"gpj.\u{202e}exe.txt") && names.contains(&"c1 \u{9b}31m control"));
}

#[test]
fn nothing_is_a_report_too() {
    let report = parsed(&Script::new(10));
    assert_eq!(report["watch"]["requests"], 0);
    assert_eq!(report["devices"].as_array().unwrap().len(), 0);
}

#[test]
fn findings_keep_their_contract() {
    let report = parsed(&scenes::jenkins());
    let finding = &report["findings"][0];
    assert_eq!(finding["cause"], "metadata-scan");
    assert_eq!(finding["subject"]["device"], "xvdj");
    assert_eq!(finding["subject"]["pid"], 30603);
    assert!(["info", "warning", "critical"].contains(&finding["severity"].as_str().unwrap()));
    assert!((0.0..=1.0).contains(&finding["impact"].as_f64().unwrap()));
    assert_eq!(finding["impact_at_most"], false);
    for key in ["sentence", "fix", "check", "confidence"] {
        assert!(!finding[key].as_str().unwrap().is_empty(), "{key}");
    }
    for evidence in finding["evidence"].as_array().unwrap() {
        assert!(evidence["figure"].is_number() && evidence["unit"].is_string());
        assert!(evidence["command"].as_str().unwrap().len() > 5);
    }
}

#[test]
fn what_changes_over_time_is_there() {
    let report = parsed(&scenes::slowing());
    let over_time = &report["over_time"];
    assert_eq!(over_time["changes"][0]["kind"], "slower");
    assert_eq!(over_time["changes"][0]["after"]["flat_at"], 100.0);
    assert_eq!(over_time["bursts"][0]["process"], "cadvisor");
    assert!(over_time["not_enough"].as_array().unwrap().is_empty());
}
