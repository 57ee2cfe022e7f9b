//! Binary files of other tools, read by the tool that wrote them where it is installed.

use crate::{iowhy, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a tool that writes a file of its own. If it cannot, prints the reason and returns false.
fn written(program: &str, arguments: &[&str], file: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(file).stdin(Stdio::null());
    let is_done = command.output().is_ok_and(|output| output.status.success());
    let is_there = is_done && file.is_file();
    if !is_there {
        eprintln!("skipped: {program} is not here, or cannot run");
    }
    is_there
}

#[test]
fn tools_print_their_own_files() {
    let folder = tempfile::tempdir().unwrap();
    for (program, arguments, name, source) in [
        ("/usr/lib/sysstat/sadc", &["-S", "DISK", "1", "3"][..], "sa25", "sysstat-json"),
        ("atop", &["1", "3", "-w"], "atop.raw", "atop"),
    ] {
        let file = folder.path().join(name);
        // atop takes the file before the interval.
        let is_written = match program {
            "atop" => written("sh", &["-c", "exec atop -w \"$0\" 1 3"], &file),
            _ => written(program, arguments, &file),
        };
        if !is_written {
            continue;
        }
        let report = json(["report", "--json", file.to_str().unwrap()]);
        assert_eq!(report["environment"]["source"], source, "{report}");
        assert!(!report["devices"].as_array().unwrap().is_empty(), "{name}");
    }
}

/// A disk that is 99.5 % busy with 100 reads and 50 writes a second, logged once a minute.
const PCP_ARCHIVE: &str = r#"
import sys
from pcp import pmi
import cpmapi as api
from pcp.pmapi import pmUnits
log = pmi.pmiLogImport(sys.argv[1])
log.pmiSetVersion(int(sys.argv[2]))
log.pmiSetHostname("db1")
log.pmiSetTimezone("UTC")
count = pmUnits(0, 0, 1, 0, 0, api.PM_COUNT_ONE)
kib = pmUnits(1, 0, 0, api.PM_SPACE_KBYTE, 0, 0)
ms = pmUnits(0, 1, 0, 0, api.PM_TIME_MSEC, 0)
disks = log.pmiInDom(60, 1)
metrics = [
    ("read", 4, count, 100), ("write", 5, count, 50),
    ("read_bytes", 38, kib, 1600), ("write_bytes", 39, kib, 800),
    ("avactive", 46, ms, 995), ("aveq", 47, ms, 9000),
    ("read_rawactive", 72, ms, 6000), ("write_rawactive", 73, ms, 3000),
]
for name, number, unit, _ in metrics:
    log.pmiAddMetric("disk.dev." + name, log.pmiID(60, 0, number), api.PM_TYPE_U64, disks,
                     api.PM_SEM_COUNTER, unit)
log.pmiAddInstance(disks, "sda", 0)
for minute in range(6):
    for name, _, _, rate in metrics:
        log.pmiPutValue("disk.dev." + name, "sda", str(1000000 + rate * 60 * minute))
    log.pmiWrite(1764000000 + 60 * minute, 0)
"#;

/// Checks the report of such an archive.
fn has_its_figures(report: &serde_json::Value, source: &str) {
    assert_eq!(report["environment"]["source"], source, "{report}");
    let sda = &report["devices"][0];
    assert_eq!(sda["device"], "sda", "{report}");
    assert_eq!(report["watch"]["duration_ns"], 300_000_000_000_u64);
    assert_eq!(sda["util_share"], 0.995);
    for (direction, requests, bytes) in [("read", 100.0, 1_638_400.0), ("write", 50.0, 819_200.0)] {
        let found = &sda["kernel"]["partial"][direction];
        assert_eq!(found["requests_per_s"], requests, "{found}");
        assert_eq!(found["bytes_per_s"], bytes, "{found}");
        assert_eq!(found["await_ns"], 60e6, "{found}");
    }
    assert!(!report["findings"].as_array().unwrap().is_empty(), "{report}");
}

#[test]
fn archives_of_pcp_are_read_by_its_tools() {
    for version in ["2", "3"] {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("archive.py");
        std::fs::write(&script, PCP_ARCHIVE).unwrap();
        let archive = folder.path().join("20251124.00.10");
        let mut python = Command::new("/usr/bin/python3");
        let output = python.arg(&script).arg(&archive).arg(version).output();
        if !output.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: pcp with its Python modules is not here");
            return;
        }
        for end in ["0", "meta", "index"] {
            let file = archive.with_file_name(format!("20251124.00.10.{end}"));
            has_its_figures(&json(["report", "--json", file.to_str().unwrap()]), "pmrep");
        }
        let words = "-5 -I -t 60 disk.dev.read disk.dev.write disk.dev.read_bytes \
            disk.dev.write_bytes disk.dev.avactive disk.dev.aveq disk.dev.read_rawactive \
            disk.dev.write_rawactive";
        let mut printed = Command::new("pcp2json");
        let path = "/usr/bin:/bin";
        printed.arg("-a").arg(&archive).args(words.split_whitespace()).env("PATH", path);
        let Ok(printed) = printed.output() else {
            eprintln!("skipped: pcp2json is not here");
            continue;
        };
        let saved = folder.path().join("pcp.json");
        std::fs::write(&saved, printed.stdout).unwrap();
        has_its_figures(&json(["report", "--json", saved.to_str().unwrap()]), "pcp");
        // A part that others can write is refused as well as the file itself.
        let meta = archive.with_file_name("20251124.00.10.meta");
        std::fs::set_permissions(&meta, PermissionsExt::from_mode(0o666)).unwrap();
        let output =
            iowhy(["report", archive.with_file_name("20251124.00.10.0").to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !rustix::process::geteuid().is_root(), "{said}");
    }
}

#[test]
fn root_starts_no_tool_on_a_file_of_others() {
    let folder = tempfile::tempdir().unwrap();
    for (name, head, command) in [
        ("perf.data", &b"PERFILE2........"[..], "perf script"),
        ("trace.dat", b"\x17\x08\x44tracing......", "trace-cmd report"),
        ("sa25", b"\x96\xd5\x75\x21............", "sadf -j"),
        ("atop.raw", b"\xef\xbe\xed\xfe............", "atop -r"),
        ("pcp.0", b"\0\0\0\x84\x50\x05\x26\x02", "pmrep -a"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, head).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        let output = iowhy(["report", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        if rustix::process::geteuid().is_root() {
            assert!(said.contains(command) && said.contains("| iowhy report -"), "{said}");
        }
    }
}
