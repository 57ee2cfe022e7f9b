//! Recordings of labs, kept as they were: each still leads to its cause. They hold the lab's own
//! device and processes only.

use iowhy_analysis::summarize;
use iowhy_diagnosis::{Diagnosis, Severity, diagnose};
use iowhy_model::recording::RecordingReader;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/labs")
}

fn diagnosis_of(path: PathBuf) -> Diagnosis {
    diagnose(&summarize(&mut RecordingReader::open(&path).unwrap()).unwrap())
}

/// A folder's name is the cause that its recording must lead to first; a folder whose name begins
/// with `control` must lead to none.
#[test]
fn labs_lead_to_their_causes() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let diagnosis = diagnosis_of(entry.path());
        let first = diagnosis.findings.iter().find(|finding| finding.severity > Severity::Info);
        let cause = first.map(|first| first.cause);
        let expected = (!name.starts_with("control")).then_some(name.as_str());
        assert_eq!(cause, expected, "{name}: {:#?}", diagnosis.findings);
        if let Some(finding) = first {
            assert!(finding.subject.device.is_some(), "{name}: {finding:#?}");
            assert!(
                finding.evidence.iter().any(|evidence| evidence.figure > 0.0),
                "{name}: {finding:#?}"
            );
        }
        seen += 1;
    }
    assert!(seen > 0, "no recording in {}", folder().display());
}
