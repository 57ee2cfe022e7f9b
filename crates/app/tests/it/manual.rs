//! Manual pages and completions: every command has a page, and shells accept the scripts.

use crate::{answer, iowhy};
use std::process::Command;

/// The commands that `iowhy --help` lists, each below a question.
fn commands() -> Vec<String> {
    let help = answer(["--help"]);
    let list = help.split_once("Why is it slow?\n").unwrap().1;
    let list = list.split_once("Exit codes:").unwrap().0;
    let lines = list.lines();
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    answer(["man".as_ref(), directory.path().as_os_str()]);
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let program = std::fs::read_to_string(directory.path().join("iowhy.8")).unwrap();
    for command in &commands {
        let path = directory.path().join(format!("iowhy-{command}.8"));
        let page = std::fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"] {
            let heading = section.replace(' ', "\\ ");
            let is_there = page.lines().any(|line| {
                line.strip_prefix(".SH ")
                    .is_some_and(|title| title == heading || title.contains(section))
            });
            assert!(is_there, "{command}: {section}");
        }
        assert!(program.contains(&command.replace('-', "\\-")), "{command} is not in iowhy.8");
    }
    let causes = std::fs::read_to_string(directory.path().join("iowhy-causes.7")).unwrap();
    assert!(causes.contains("fsync\\-heavy") && causes.contains(".SH BOTTLENECKS"), "{causes}");
    let written = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(written, commands.len() + 2);
}

#[test]
fn pages_of_views_explain_their_columns() {
    let directory = tempfile::tempdir().unwrap();
    answer(["man".as_ref(), directory.path().as_os_str()]);
    for (command, heading) in [("stat", "aqu"), ("stages", "p50"), ("waits", "longest")] {
        let path = directory.path().join(format!("iowhy-{command}.8"));
        let page = std::fs::read_to_string(path).unwrap();
        let (_, columns) = page.split_once(".SH COLUMNS").unwrap();
        assert!(columns.contains(heading), "{command}: {columns}");
    }
}

#[test]
fn shells_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(answer(["completions", shell]).contains("IOWHY_COMPLETE"), "{shell}");
    }
    let every = completed(&[""]);
    for command in commands() {
        assert!(every.contains(&command), "{command} is not offered: {every:?}");
    }
    for hidden in ["rerun", "replay", "man"] {
        assert!(!every.iter().any(|command| command == hidden), "{hidden} is offered");
    }
    assert_eq!(completed(&["rec"]), ["record"]);
}

#[test]
fn shells_complete_the_names_that_there_are() {
    assert_eq!(completed(&["explain", "metadata-s"]), ["metadata-scan"]);
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut disks: Vec<_> = disks.map(|disk| disk.file_name().into_string().unwrap()).collect();
    disks.sort();
    let mut offered = completed(&["stat", "-d", ""]);
    offered.sort();
    assert_eq!(offered, disks);
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert!(completed(&["stat", "-p", ""]).iter().any(|process| process == own.trim_end()));
}

/// Returns bash's completions for the last of `words`.
fn completed(words: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("iowhy.bash");
    std::fs::write(&script, answer(["completions", "bash"])).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_iowhy"));
    let complete = "source \"$0\"; PATH=$1:$PATH; shift; COMP_WORDS=(iowhy \"$@\"); \
                    COMP_CWORD=$#; COMP_TYPE=9; _clap_complete_iowhy iowhy \"${@: -1}\"; \
                    printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", complete]).arg(&script).arg(program.parent().unwrap()).args(words);
    let output = bash.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn pages_that_cannot_be_written_are_reported() {
    let output = iowhy(["man", "/proc/iowhy"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(message.starts_with("iowhy: failed to write /proc/iowhy: "), "{message}");
}
