//! Exports for other programs, read by the official decoders of their formats: OpenTelemetry's
//! protobuf definitions and google/pprof. `scripts/python-env` and `scripts/pprof` get them. If
//! they fail, the tests are skipped and say so, except under `CI=true`.

use crate::{answer, labs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path that the script of this name prints; `None` if it fails, with the reason
/// printed.
fn made_by(script: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
    let output = Command::new(&path).output().unwrap();
    if output.status.success() {
        return Some(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()));
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_ci, "scripts/{script}: {why}");
    eprintln!("skipped: scripts/{script} failed: {why}");
    None
}

/// Returns the output of a program that must not fail.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn opentelemetry_reads_metrics_and_findings() {
    let Some(python) = made_by("python-env") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/read_otlp.py");
    for lab in labs() {
        let (exported, report) = (folder.path().join("otlp"), folder.path().join("report.json"));
        let lab = lab.to_str().unwrap();
        std::fs::write(&exported, answer(["export", lab, "--format", "otlp"])).unwrap();
        std::fs::write(&report, answer(["report", lab, "--json"])).unwrap();
        let mut reader = Command::new(python.join("python3"));
        let said = printed(reader.arg(&script).arg(&exported).arg(&report));
        assert!(said.starts_with("equal: "), "{lab}: {said}");
    }
}

/// The sums of a profile's four values, as pprof prints its samples: `6 30000000 0 0: 1 2`.
fn sums_of(raw: &str) -> [u64; 4] {
    let samples = raw.split_once("\nSamples:\n").unwrap().1.split("\nLocations\n").next().unwrap();
    let mut lines = samples.lines();
    assert_eq!(
        lines.next().unwrap().replace("[dflt]", ""),
        "waits/count blocked/nanoseconds requests/count request_time/nanoseconds"
    );
    let mut sums = [0; 4];
    for line in lines {
        let values = line.split(':').next().unwrap().split_whitespace();
        let values: Vec<u64> = values.map_while(|value| value.parse().ok()).collect();
        // Lines without numbers are the labels of the sample before.
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    sums
}

/// Returns the same sums from the rows of the tables.
fn sums_of_rows(lab: &str) -> [u64; 4] {
    let mut sums = [0; 4];
    for (table, at, time) in [("waits", 0, "duration_ns"), ("requests", 2, "")] {
        let rows = answer(["export", lab, "--format", "csv", "--table", table]);
        let mut rows = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().unwrap();
        let column = |name: &str| names.iter().position(|known| *known == name);
        for row in rows {
            let number = |name: &str| column(name).and_then(|at| row[at].parse::<u64>().ok());
            if number("stack_id").is_none() && number("user_stack_id").is_none() {
                continue;
            }
            let weight = number("weight").unwrap_or(1) * number("stack_weight").unwrap_or(1).max(1);
            sums[at] += weight;
            sums[at + 1] += number(time).unwrap_or(0) * weight;
        }
    }
    sums
}

#[test]
fn pprof_reads_the_profile() {
    let Some(pprof) = made_by("pprof") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut waits, mut requests) = (0, 0);
    for lab in labs() {
        let lab = lab.to_str().unwrap();
        let profile = folder.path().join("waits.pb");
        answer(["export", lab, "--format", "pprof", "-o", profile.to_str().unwrap()]);
        let sums = sums_of(&printed(Command::new(&pprof).arg("-raw").arg(&profile)));
        let expected = sums_of_rows(lab);
        assert_eq!(sums[..3], expected[..3], "{lab}");
        assert_eq!(sums[2] > 0, sums[3] > 0, "{lab}: {sums:?}");
        (waits, requests) = (waits + sums[0], requests + sums[2]);
    }
    assert!(waits > 0 && requests > 0, "no lab has stacks");
}
