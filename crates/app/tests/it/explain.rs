//! Pages about causes and stages of a recording: what they name can be pasted, and JSON has the
//! same.

use crate::{answer, iowhy, json, labs};

#[test]
fn commands_of_evidence_run_as_they_stand() {
    let mut seen = 0;
    for lab in labs() {
        let (cause, path) = (lab.file_name().unwrap().to_str().unwrap(), lab.to_str().unwrap());
        let page = answer(["explain", cause, path]);
        for command in page.lines().filter_map(|line| line.trim().strip_prefix("iowhy ")) {
            assert!(command.contains(path), "{command}");
            let output = iowhy(command.split(' '));
            assert!(output.status.success(), "{command}: {output:?}");
            seen += 1;
        }
        let screen = answer(["report", path]);
        for command in screen.split('`').filter(|text| text.starts_with("iowhy explain")) {
            assert_eq!(command, format!("iowhy explain {path}"));
        }
    }
    assert!(seen > 6, "only {seen} commands");
}

#[test]
fn explain_has_the_same_as_json() {
    let all = json(["explain", "--json"]);
    let causes = all["causes"].as_array().unwrap();
    assert!(causes.len() > 40 && causes.iter().all(|cause| cause["verdict"].is_null()));
    for lab in labs() {
        let (name, path) = (lab.file_name().unwrap().to_str().unwrap(), lab.to_str().unwrap());
        let found = json(["explain", name, path, "--json"]);
        assert!(found["units"].is_object() && found["watch"].is_object(), "{found:#}");
        let cause = &found["causes"][0];
        assert_eq!(
            (cause["cause"].as_str(), cause["verdict"].as_str()),
            (Some(name), Some("found"))
        );
        assert_eq!(cause["findings"][0]["cause"], name);
        assert!(found["causes"][1].is_null(), "only what was asked for");
        let all = json(["explain", path, "--json"]);
        let verdict = |word: &str| {
            let causes = all["causes"].as_array().unwrap();
            causes.iter().filter(|cause| cause["verdict"] == word).count()
        };
        let known = ["found", "symptom", "not_judged", "not_there"].map(verdict);
        assert_eq!(known.iter().sum::<usize>(), causes.len(), "{known:?}");
    }
}

#[test]
fn stages_have_the_same_as_json() {
    for lab in labs() {
        let path = lab.to_str().unwrap();
        let (report, stages) = (json(["report", path, "--json"]), json(["stages", path, "--json"]));
        assert_eq!(stages["units"], report["units"]);
        assert_eq!(stages["losses"], report["losses"]);
        let devices = stages["devices"].as_array().unwrap();
        assert!(!devices.is_empty(), "{path}");
        for device in devices {
            let q2c = &device["stages"]["q2c"];
            assert!(
                q2c.is_null() || q2c["max_ns"].as_u64() >= q2c["p50_ns"].as_u64(),
                "{device:#}"
            );
        }
        assert!(answer(["stages", path]).lines().all(|line| line.chars().count() <= 80));
    }
}
