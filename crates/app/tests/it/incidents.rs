//! Incidents that the flight recorder kept, as its commands show them: from a state directory that
//! the test makes, with the recording of a lab.

use super::labs;
use iowhy_recorder::history::{
    HistoryFiles, HistoryFlow, HistoryLimits, HistoryMinute, HistoryUse,
};
use iowhy_recorder::incidents::record::{INCIDENT_FORMAT, IncidentFinding, IncidentRecord};
use iowhy_recorder::incidents::store::{IncidentStore, RECORD, RECORDING, write_record};
use iowhy_recorder::trigger::{Trigger, TriggerKind};
use iowhy_recorder::writers::files::{WriterFiles, WriterSeries};
use iowhy_recorder::writers::{DeviceBytes, WriterId, WriterRecord, WriterRow, WriterSums};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// 2026-11-24 09:35:12, UTC.
const BEGUN_S: i64 = 1_795_512_912;
const SECOND_NS: i64 = 1_000_000_000;
/// A name that could break a terminal, a page or a parser.
const HOSTILE: &str = "a\u{1b}[2J\"'<b>\n\u{202e}b";

/// A state directory.
struct TestState {
    folder: tempfile::TempDir,
}

impl TestState {
    /// One with two incidents: 3 of a lab's recording, and 4 of a hostile program an hour later.
    fn new() -> TestState {
        let state = TestState { folder: tempfile::tempdir().unwrap() };
        let recording = labs().into_iter().find(|lab| lab.ends_with("hung-io")).unwrap();
        state.add(3, BEGUN_S, "hung-io", "mysqld", "/srv/data/ibdata1");
        copy(&recording, &state.incident(3).join(RECORDING));
        state.add(4, BEGUN_S + 3_600, "fsync-heavy", HOSTILE, HOSTILE);
        state
    }

    fn incident(&self, number: u32) -> PathBuf {
        IncidentStore::below(self.folder.path()).path(number)
    }

    fn add(&self, number: u32, begun_s: i64, cause: &str, process: &str, file: &str) {
        let begun_ns = begun_s * SECOND_NS;
        let mut record = IncidentRecord {
            format: INCIDENT_FORMAT,
            number,
            host: "db7".to_owned(),
            begun_ns,
            recorded_from_ns: begun_ns - 300 * SECOND_NS,
            recorded_until_ns: begun_ns + 60 * SECOND_NS,
            utc_offset_s: Some(0),
            complete: true,
            ..IncidentRecord::default()
        };
        record.add_trigger(&Trigger::manual(TriggerKind::Command, format!("slow {process}")));
        record.findings.push(IncidentFinding {
            cause: cause.to_owned(),
            severity: "critical".to_owned(),
            confidence: "certain".to_owned(),
            sentence: format!("{process} waits"),
            process: Some(process.to_owned()),
            file: Some(file.to_owned()),
            device: Some("sda".to_owned()),
            ..IncidentFinding::default()
        });
        std::fs::create_dir_all(self.incident(number)).unwrap();
        write_record(&self.incident(number), &record).unwrap();
    }

    fn iowhy<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iowhy"));
        // Times on the command line are local.
        command.env("NO_COLOR", "1").env("TZ", "UTC").stdin(Stdio::null()).args(arguments);
        command.arg("--state").arg(self.folder.path()).output().unwrap()
    }

    fn printed<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let output = self.iowhy(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        let output = self.iowhy(arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn is_harmless(text: &str) -> bool {
    text.chars()
        .all(|character| character == '\n' || !(character.is_control() || character == '\u{202e}'))
}

#[test]
fn incidents_are_listed_shown_pinned_and_removed() {
    let state = TestState::new();
    let list = state.printed(["incidents"]);
    let newest = list.lines().nth(1).unwrap();
    assert!(newest.contains("  4  2026-11-24 10:35:12  command"), "{list}");
    assert!(list.contains("  3  2026-11-24 09:35:12") && list.contains("mysqld waits"), "{list}");
    let shown = state.printed(["incidents", "show", "3"]);
    for said in ["incident 3 · db7 · 2026-11-24 09:35:12", "hung-io", "/srv/data/ibdata1"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    state.printed(["incidents", "pin", "3"]);
    assert!(state.printed(["incidents"]).contains("  3* 2026-11-24"));
    assert!(state.printed(["incidents", "show", "3"]).contains("pinned"));
    state.printed(["incidents", "pin", "3", "--undo"]);
    assert!(!state.printed(["incidents"]).contains("pinned"));
    state.printed(["incidents", "rm", "3"]);
    assert!(!state.incident(3).exists() && state.incident(4).exists());
    for action in ["show", "pin", "rm"] {
        let said = state.refused(["incidents", action, "3"]);
        assert!(said.contains("there is no such incident"), "{said}");
    }
}

#[test]
fn hostile_names_break_neither_terminal_nor_json() {
    let state = TestState::new();
    for text in [state.printed(["incidents"]), state.printed(["incidents", "show", "4"])] {
        assert!(is_harmless(&text), "{text:?}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&state.printed(["incidents", "show", "4", "--json"])).unwrap();
    assert_eq!(json["findings"][0]["file"], HOSTILE);
    let all: serde_json::Value =
        serde_json::from_str(&state.printed(["incidents", "--json"])).unwrap();
    assert_eq!((all[0]["number"].as_u64(), all[1]["number"].as_u64()), (Some(3), Some(4)));
}

#[test]
fn a_time_finds_the_incident_that_covers_it() {
    let state = TestState::new();
    let report = state.printed(["report", "--at", "2026-11-24 09:34"]);
    assert!(report.contains("WHY"), "{report}");
    let said = state.refused(["report", "--at", "2026-11-24 11:59"]);
    assert!(said.contains("failed to find an incident that covers 2026-11-24 11:59:00"), "{said}");
    let said = state.refused(["report", "--at", "half past nine"]);
    assert!(said.contains("failed to understand the time"), "{said}");
}

#[test]
fn an_incident_s_directory_is_a_source() {
    let state = TestState::new();
    let (incident, page) = (state.incident(3), state.folder.path().join("page.html"));
    let nothing = state.folder.path().join("nothing");
    // As it would be on another host.
    let elsewhere = state.folder.path().join("copied");
    copy(&incident, &elsewhere);
    let report =
        |path: &Path| super::answer(["report".as_ref(), "--json".as_ref(), path.as_os_str()]);
    // Commands of the evidence name their source.
    let inside = elsewhere.join(RECORDING);
    let of_inside = report(&inside).replace(inside.to_str().unwrap(), elsewhere.to_str().unwrap());
    assert_eq!(of_inside, report(&elsewhere));
    let shown = state.printed(["incidents".as_ref(), "show".as_ref(), elsewhere.as_os_str()]);
    assert!(shown.contains("incident 3 · db7"), "{shown}");
    if iowhy_views::html::is_embedded() {
        super::answer([
            "report".as_ref(),
            elsewhere.as_os_str(),
            "--html".as_ref(),
            page.as_os_str(),
        ]);
        assert!(std::fs::read_to_string(page).unwrap().contains("<!DOCTYPE html>"));
    } else {
        eprintln!("--html is not tried: this program was built without the page's script");
    }
    let said = state.refused(["incidents".as_ref(), "show".as_ref(), nothing.as_os_str()]);
    assert!(said.contains("it is no incident"), "{said}");
    let output = super::iowhy(["report".as_ref(), state.incident(4).as_os_str()]);
    let said = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
    assert!(said.contains("it is an incident without a recording"), "{said}");
}

#[test]
fn an_incident_of_a_newer_iowhy_is_refused() {
    let state = TestState::new();
    let record = state.incident(4).join(RECORD);
    let text = std::fs::read_to_string(&record).unwrap();
    let newer = text.replace("\"format\": 1,", "\"format\": 2,");
    assert_ne!(text, newer);
    std::fs::write(&record, newer).unwrap();
    let said = state.refused(["incidents", "show", "4"]);
    assert!(said.contains("its format is 2, and this iowhy reads up to 1"), "{said}");
    let output = state.iowhy(["incidents"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 more cannot be read"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("  3  2026-11-24"));
}

#[test]
fn the_history_has_devices_waits_pressure_and_containers() {
    let state = TestState::new();
    let files = HistoryFiles::below(state.folder.path());
    let now_s = iowhy_recorder::clock::LocalTime::now_s();
    for minute in 0..10 {
        let flow = HistoryFlow {
            requests: 600,
            bytes: 600 * 4096,
            max_ns: 9_000_000,
            latency: vec![(65_536, 600)],
        };
        let used = HistoryUse { requests: 600, bytes: 6_000_000, time_ns: 1_200_000_000 };
        let minute = HistoryMinute {
            time_s: now_s - 60 * minute - 60,
            watched_ns: 60_000_000_000,
            devices: BTreeMap::from([(
                "sda".to_owned(),
                BTreeMap::from([("read".to_owned(), flow)]),
            )]),
            groups: BTreeMap::from([(HOSTILE.to_owned(), used)]),
            pressure_io_some_ns: Some(6_000_000_000),
            pressure_io_full_ns: Some(600_000_000),
            ..HistoryMinute::default()
        };
        let line = serde_json::to_string(&minute).unwrap();
        let limits = HistoryLimits { days: 31, bytes: 200_000_000 };
        files.append(minute.time_s, &line, limits).unwrap();
    }
    let text = state.printed(["history", "--last", "1h"]);
    for said in ["DEVICES", "sda", "10.0 %", "1.0 %", "CONTAINERS", "   10.0"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(is_harmless(&text), "{text:?}");
    let lines = state.printed(["history", "--last", "1h", "--json"]);
    let minutes: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(minutes.len(), 10);
    assert_eq!(minutes[0]["groups"][HOSTILE]["requests"], 600);
    assert!(state.printed(["history", "--last", "1h", "-d", "sdb"]).contains("none at warning"));
}

/// An hour in which two programs wrote, one of them with a hostile name.
fn add_writers(state: &TestState) {
    let files = WriterFiles::below(state.folder.path());
    let now_s = iowhy_recorder::clock::LocalTime::now_s();
    for minute in 1..=60 {
        let row = |program: &str, asked_bytes: u64, data_bytes: u64| WriterRow {
            id: WriterId {
                program: program.to_owned(),
                container: HOSTILE.to_owned(),
                file: format!("/srv/{HOSTILE}"),
                device: "sda".to_owned(),
                ..WriterId::default()
            },
            sums: WriterSums { asked_bytes, data_bytes, syncs: 10, wakes: 1, ..Default::default() },
        };
        let time_s = now_s - 60 * minute;
        let written = DeviceBytes { written: 1_100_000, ..DeviceBytes::default() };
        let record = WriterRecord {
            time_s,
            until_s: time_s + 60,
            watched_s: 60,
            devices: BTreeMap::from([("sda".to_owned(), written)]),
            rows: vec![row("logger", 10_000, 1_000_000), row(HOSTILE, 100_000, 100_000)],
            ..WriterRecord::default()
        };
        let line = serde_json::to_string(&record).unwrap();
        let limits = HistoryLimits { days: 31, bytes: 200_000_000 };
        files.append(WriterSeries::Minutes, time_s, &line, limits).unwrap();
    }
}

#[test]
fn who_writes_is_told_as_text_json_and_a_page() {
    let state = TestState::new();
    add_writers(&state);
    let who = ["history", "--who", "--last", "2h"];
    let text = state.printed(who);
    assert!(text.contains("logger") && text.contains("WHAT IT COSTS"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&state.printed(who.into_iter().chain(["--json"]))).unwrap();
    let first = &json["rows"][0];
    assert_eq!(
        (&first["written_bytes"], &first["amplification"]),
        (&60_000_000.into(), &100.0.into())
    );

    let file = state.folder.path().join("who.html");
    let path = file.to_str().unwrap();
    state.printed(who.into_iter().chain(["--html", path]));
    let page = std::fs::read_to_string(&file).unwrap();
    for said in ["logger", "57.2 MiB", "Written by devices over time", "Who wakes idle disks"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for part in ["<b>\n", "<script", "\u{1b}", "\u{202e}", "http:", "https:", "src="] {
        assert!(!page.contains(part), "{part:?}: {page}");
    }
    // The picture's bars.
    assert!(page.contains("<path d=\"M") && page.len() < 20_000, "{}", page.len());

    let by_file = state.folder.path().join("file.html");
    state.printed(["history", "--file", "--last", "2h", "--html", by_file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&by_file).unwrap().contains("other files"));
    assert!(state.refused(who.into_iter().chain(["--html", path])).contains("the file exists"));
    assert!(state.refused(["history", "--html", "/nonexistent/x"]).contains("hint: add --who"));
}
