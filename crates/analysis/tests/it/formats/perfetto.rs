//! Perfetto traces, decoded by Perfetto's own published definitions.

use super::exported::{exported, overlapping};
use crate::python::python;
use iowhy_analysis::formats::perfetto::Perfetto;
use iowhy_model::Status;
use std::path::Path;
use std::process::Command;

#[test]
fn perfettos_own_definitions_read_it() {
    let Some(python) = python() else { return };
    let mut script = overlapping("sda");
    script.read("sda", 4096).at(30_000_000).by(8, "cat").status(Status::InFlight).add();
    script.read("sdb", 4096).at(-1_000).issued(9_000).error(-5).add();
    let (bytes, exported) = exported(&script, &mut Perfetto::default());
    assert_eq!(exported.rows, 203);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.pftrace");
    std::fs::write(&trace, bytes).unwrap();
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/formats/read_perfetto.py");
    let output = Command::new(python).arg(check).arg(trace).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{message}", String::from_utf8_lossy(&output.stdout));
}
