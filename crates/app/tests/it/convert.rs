//! Binary files of other tools, read by the tool that wrote them where it is installed.

use crate::{iowhy, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a tool that writes a file of its own; false, and a reason printed, where it cannot.
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

#[test]
fn root_starts_no_tool_on_a_file_of_others() {
    let folder = tempfile::tempdir().unwrap();
    for (name, head, command) in [
        ("perf.data", &b"PERFILE2........"[..], "perf script"),
        ("trace.dat", b"\x17\x08\x44tracing......", "trace-cmd report"),
        ("sa25", b"\x96\xd5\x75\x21............", "sadf -j"),
        ("atop.raw", b"\xef\xbe\xed\xfe............", "atop -r"),
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
