//! Screens, compared with the files in `screens/`. After a change that is meant, run the tests with
//! `IOWHY_BLESS=1`, look at every file as the person at 3 a.m., and commit them.

use crate::scenes;
use iowhy_analysis::Filtered;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::{Diagnosis, Severity, diagnose};
use iowhy_model::Filter;
use iowhy_model::script::Script;
use iowhy_views::check::{self, CheckState};
use iowhy_views::explain::{self, SeenCause};
use iowhy_views::style::Style;
use iowhy_views::{escape, reference, text};
use std::path::PathBuf;

pub fn compare(path: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} is not current: see the top of {}", path.display(), file!());
}

fn first_screen(script: &Script, style: &Style) -> String {
    let summary = script.summary();
    text::render(&summary, &diagnose(&summary), None, style)
}

fn screen(name: &str, script: &Script, style: Style) {
    let found = first_screen(script, &style);
    fits(name, &found, style.columns());
    compare(&format!("tests/it/screens/{name}.txt"), &found);
}

/// Checks that nothing is wider than the terminal.
pub fn fits(name: &str, found: &str, columns: usize) {
    for line in found.lines() {
        assert!(escape::width(line) <= columns, "{name}: too wide: {line}");
        assert!(!line.ends_with(' '), "{name}: space at the end: {line}");
    }
}

#[test]
fn a_busy_host_at_every_width() {
    let script = scenes::jenkins();
    for width in [40, 80, 120, 200] {
        screen(&format!("jenkins-{width}"), &script, Style::plain(width));
    }
    let ascii = Style { unicode: false, ..Style::plain(80) };
    screen("jenkins-ascii", &script, ascii);
    assert!(first_screen(&script, &ascii).is_ascii());
}

#[test]
fn who_made_whom_wait() {
    let script = scenes::behind_writeback();
    screen("behind-80", &script, Style::plain(80));
    for width in [40, 80] {
        let found = text::blame::render(&script.summary(), &Style::plain(width));
        assert!(found.lines().all(|line| escape::width(line) <= width));
        compare(&format!("tests/it/screens/blame-{width}.txt"), &found);
    }
}

#[test]
fn causes_of_a_filtered_watch_are_those_of_all_of_it() {
    let mut script = scenes::jenkins();
    script.environment.losses.add("ring", 30, "requests that have no record", true);
    let filter = Filter { files: vec!["/nosuch".to_owned()], ..Filter::default() };
    let mut filtered = Filtered::new(&script.environment, &filter);
    filtered.add(&script.batch, &script.names, script.environment.end_ns);
    let found = filtered.finish(&script.environment, &script.names);
    let style = Style::plain(200);
    let screen = text::render(&found.shown, &diagnose(found.judged()), None, &style);
    for message in [
        "0 requests · 30 lost (of all devices)",
        "the filter leaves out all of 21,030 requests",
        "the diagnosis ignores the filter of the rows below",
        "java (30603, jenkins.service) scans names and inodes on xvdj",
    ] {
        assert!(screen.contains(message), "{message}: {screen}");
    }
    assert!(!screen.contains("have no record, so"), "{screen}");
    script.environment.filter = "--process 7".to_owned();
    let screen = first_screen(&script, &style);
    assert!(screen.contains("The data was filtered by --process 7"), "{screen}");
    assert!(!screen.contains("makes anything wait"), "{screen}");
}

#[test]
fn findings_are_listed_by_their_numbers() {
    let summary = scenes::jenkins().summary();
    let seen = SeenCause { summary: &summary, diagnosis: &diagnose(&summary), source: "REC" };
    let found = explain::causes(Some(seen), &Style::plain(80));
    fits("causes-80", &found, 80);
    compare("tests/it/screens/causes-80.txt", &found);
}

#[test]
fn an_information_asks_for_nothing() {
    let summary = scenes::jenkins().summary();
    let diagnosis = diagnose(&summary);
    let page = |severity| {
        let mut diagnosis = diagnosis.clone();
        diagnosis.findings[0].severity = severity;
        let rule = iowhy_diagnosis::rule_of(diagnosis.findings[0].cause).unwrap();
        let seen = SeenCause { summary: &summary, diagnosis: &diagnosis, source: "REC" };
        explain::cause(rule, Some(seen), &Style::plain(80))
    };
    let (warning, info) = (page(Severity::Warning), page(Severity::Info));
    assert!(warning.contains("WHAT TO DO") && !warning.contains("Nothing has to be done"));
    assert!(info.contains("WHAT WOULD HELP") && info.contains("Nothing has to be done"));
}

#[test]
fn a_hung_disk() {
    screen("hung-80", &scenes::hung(), Style::plain(80));
    screen("hung-40", &scenes::hung(), Style::plain(40));
}

#[test]
fn threads_behind_one_writer() {
    let script = scenes::chained();
    screen("chained-80", &script, Style::plain(80));
    let found = text::chains(&script.summary(), &Style::plain(80));
    assert!(found.lines().all(|line| escape::width(line) <= 80), "{found}");
    compare("tests/it/screens/chains-80.txt", &found);
    let nothing = text::chains(&Script::new(10).summary(), &Style::plain(40));
    assert!(nothing.lines().all(|line| escape::width(line) <= 40), "{nothing}");
}

#[test]
fn a_device_may_serve_others_than_those_that_are_shown() {
    let mut script = scenes::hung();
    let style = Style::plain(200);
    assert!(first_screen(&script, &style).contains("sdc stalls: "));
    script.environment.filter = "--process mysqld".to_owned();
    let screen = first_screen(&script, &style);
    assert!(screen.contains("sdc may stall: ") && !screen.contains("sdc stalls"), "{screen}");
    assert!(screen.contains("of those that the filter keeps"), "{screen}");
}

#[test]
fn a_disk_that_becomes_slow() {
    screen("slowing-80", &scenes::slowing(), Style::plain(80));
    screen("slowing-40", &scenes::slowing(), Style::plain(40));
}

#[test]
fn an_imported_capture() {
    screen("imported-80", &scenes::imported(), Style::plain(80));
}

#[test]
fn without_privilege() {
    // Nothing is judged there: see the command.
    let summary = scenes::unprivileged().summary();
    let found = text::render(&summary, &Diagnosis::default(), None, &Style::plain(80));
    fits("unprivileged-80", &found, 80);
    compare("tests/it/screens/unprivileged-80.txt", &found);
}

#[test]
fn stacked_devices() {
    screen("stacked-80", &scenes::stacked(), Style::plain(80));
}

#[test]
fn nothing_and_one_request() {
    screen("nothing-80", &Script::new(10), Style::plain(80));
    let mut script = Script::new(10);
    script.read("sda", 4096).by(1, "cat").file("/etc/hosts").direct(300, 900, 80_000).add();
    screen("one-80", &script, Style::plain(80));
}

#[test]
fn hostile_names_break_no_terminal() {
    let script = scenes::hostile();
    screen("hostile-80", &script, Style::plain(80));
    for width in [0, 40, 57, 80, 120, 500] {
        for unicode in [true, false] {
            let style = Style { unicode, width, ..Style::plain(80) };
            let found = first_screen(&script, &style);
            let is_plain = |char: char| char == '\n' || !char.is_control();
            assert!(found.chars().all(is_plain));
            assert!(!found.contains(['\u{202e}', '\u{200b}', '\u{feff}', '\u{fffd}']));
        }
    }
}

#[test]
fn any_width_fits() {
    for script in [scenes::jenkins(), scenes::hung(), scenes::stacked(), scenes::imported()] {
        let summary = script.summary();
        let diagnosis = diagnose(&summary);
        for width in (40..220).step_by(7) {
            for unicode in [true, false] {
                let style = Style { unicode, ..Style::plain(width) };
                for line in text::render(&summary, &diagnosis, None, &style).lines() {
                    assert!(escape::width(line) <= width, "{width}: {line}");
                }
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let script = scenes::jenkins();
    let plain = first_screen(&script, &Style::plain(80));
    let coloured = first_screen(&script, &Style { colour: true, ..Style::plain(80) });
    let mut bare = coloured.clone();
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;31m"] {
        bare = bare.replace(code, "");
    }
    assert_ne!(coloured, plain);
    assert_eq!(bare, plain);
}

#[test]
fn check_is_a_table() {
    let row = |what: &str, state, value: &str, lost: &str| check::CheckRow {
        what: what.into(),
        state,
        value: value.into(),
        lost_without: lost.into(),
    };
    let rows = [
        row("kernel", CheckState::Yes, "6.18.44", ""),
        row("BTF", CheckState::Yes, "/sys/kernel/btf/vmlinux", ""),
        row("lockdown", CheckState::Partly, "integrity", "kprobes and blktrace itself"),
        row(
            "cgroup v2",
            CheckState::No,
            "v1",
            "who is charged for writeback: it is all the root's",
        ),
        row("CAP_PERFMON", CheckState::Unknown, "\x1b[1m", "stacks of programs"),
    ];
    for width in [40, 80] {
        let grant = "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep \"$(command -v iowhy)\"";
        let found = check::render(width == 80, &rows, Some(grant), &Style::plain(width));
        assert!(found.lines().any(|line| line.trim() == grant), "in one piece: {found}");
        compare(&format!("tests/it/screens/check-{width}.txt"), &found);
    }
}

#[test]
fn the_reference_is_current() {
    compare("../../docs/screen.md", &reference::screen());
}
