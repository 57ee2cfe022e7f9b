//! The first screen: short whatever the machine, and never wider than the terminal.

use crate::scenes;
use crate::screens::{compare, fits};
use iowhy_analysis::script::ScriptSummary;
use iowhy_analysis::{Summary, summarize};
use iowhy_diagnosis::diagnose;
use iowhy_model::WaitClass;
use iowhy_model::environment::Device;
use iowhy_model::health::{DeviceHealth, NvmeHealth};
use iowhy_model::recording::RecordingReader;
use iowhy_model::script::Script;
use iowhy_views::brief;
use iowhy_views::style::Style;
use iowhy_views::text::{LINES, kept_page, page};
use std::path::PathBuf;

fn page_of(summary: &Summary, style: &Style) -> String {
    page(summary, &diagnose(summary), None, style)
}

fn screen(name: &str, script: &Script, style: Style) {
    let found = page_of(&script.summary(), &style);
    fits(name, &found, style.columns());
    compare(&format!("tests/it/screens/page-{name}.txt"), &found);
}

#[test]
fn a_busy_host_at_every_width() {
    let script = scenes::jenkins();
    for width in [40, 80, 120, 200] {
        screen(&format!("jenkins-{width}"), &script, Style::plain(width));
    }
    screen("jenkins-ascii", &script, Style { unicode: false, ..Style::plain(80) });
}

#[test]
fn other_scenes() {
    screen("hung-80", &scenes::hung(), Style::plain(80));
    screen("chained-80", &scenes::chained(), Style::plain(80));
    screen("imported-80", &scenes::imported(), Style::plain(80));
    screen("hostile-80", &scenes::hostile(), Style::plain(80));
    screen("idle-80", &Script::new(10), Style::plain(80));
}

#[test]
fn own_processes_are_not_at_the_top() {
    let mut script = Script::new(10);
    for (process, file) in [("cat", "/etc/hosts"), ("iowhy", "/usr/bin/cat")] {
        script.read("sda", 4096).by(1, process).file(file).direct(300, 900, 80_000).add();
    }
    let screen = page_of(&script.summary(), &Style::plain(80));
    let top = screen.lines().find(|line| line.starts_with("processes")).unwrap();
    assert!(top.contains("cat") && !top.contains("iowhy"), "{top}");
}

/// A drive that gets too hot while a database reads from it.
fn overheating() -> Script {
    let mut script = Script::new(10);
    let log = |temperature_c| NvmeHealth {
        temperature_c: Some(temperature_c),
        warning_c: Some(70),
        used_percent: 3,
        light_throttle_s: if temperature_c > 70 { 6 } else { 0 },
        ..NvmeHealth::default()
    };
    let health = |log| Some(DeviceHealth { nvme: Some(log), ..DeviceHealth::default() });
    script.environment.devices.push(Device {
        name: "nvme0n1".to_owned(),
        major: 8,
        model: Some("Hot Drive \u{1b}[31m 1TB".to_owned()),
        transport: Some("pcie".to_owned()),
        health_start: health(log(64)),
        health_end: health(log(78)),
        ..Device::default()
    });
    for index in 0..900_u64 {
        let read = script.read("nvme0n1", 16_384).by(812, "postgres").sector(index * 7919 * 8);
        read.at((index * 11_000_000) as i64).file("/data/table").direct(500, 500, 9_000_000).add();
    }
    script.wait((812, "postgres"), WaitClass::PageRead, 8_100_000_000, 8_100_000_000, 0);
    script
}

#[test]
fn a_drive_says_that_it_is_too_hot() {
    screen("overheating-80", &overheating(), Style::plain(80));
    // The same where it was not asked.
    let mut mute = overheating();
    for drive in &mut mute.environment.devices {
        (drive.health_start, drive.health_end) = (None, None);
    }
    screen("overheating-mute-80", &mute, Style::plain(80));
    let ascii = Style { unicode: false, ..Style::plain(80) };
    let found = page_of(&overheating().summary(), &ascii);
    fits("overheating-ascii", &found, ascii.columns());
    assert!(found.is_ascii(), "{found}");
    assert!(found.contains("throttled for 6.00 s") && found.contains("78 C"), "{found}");
}

#[test]
fn the_page_on_health_shows_both_screens() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/device-health.md")).unwrap();
    for name in ["page-overheating-mute-80.txt", "page-overheating-80.txt"] {
        let screen = std::fs::read_to_string(root.join("tests/it/screens").join(name)).unwrap();
        assert!(page.contains(&screen), "docs/device-health.md has another screen than {name}");
    }
}

/// Twelve disks, and five hundred processes with long names of files.
fn crowded() -> Script {
    let mut script = Script::new(10);
    for index in 0..6000_u64 {
        let disk = format!("nvme{}n1", index % 12);
        let process = format!("worker-{}", index % 500);
        let file = format!("/srv/{}/data-{}", "a/rather/long/path".repeat(4), index % 70);
        let read = script.read(&disk, 4096).by(100 + (index % 500) as u32, &process);
        let read = read.at((index * 1_600_000) as i64).sector(index * 7919 * 8).file(&file);
        read.direct(2_000_000, 3_000_000, 30_000_000).add();
    }
    script.environment.losses.add("ring", 30, "requests that have no record", true);
    for limit in 0..9 {
        script
            .environment
            .limits
            .push(format!("something that this kernel does not give: {limit}"));
    }
    script
}

/// Recordings of labs, as they are kept for the diagnosis.
fn recordings() -> Vec<Summary> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../diagnosis/tests/labs");
    let folders = std::fs::read_dir(&root).unwrap().flatten();
    let read = |path: PathBuf| summarize(&mut RecordingReader::open(&path).unwrap()).unwrap();
    let found: Vec<Summary> = folders.map(|folder| read(folder.path())).collect();
    assert!(found.len() > 3, "{} holds the kept recordings", root.display());
    found
}

#[test]
fn it_is_short_whatever_the_machine() {
    let scenes = [
        scenes::jenkins(),
        scenes::behind_writeback(),
        scenes::hung(),
        scenes::imported(),
        scenes::stacked(),
        scenes::hostile(),
        scenes::chained(),
        scenes::slowing(),
        crowded(),
        Script::new(10),
    ];
    let summaries = scenes.iter().map(Script::summary).chain(recordings());
    for summary in summaries {
        for width in [80, 100, 120, 200] {
            let found = page_of(&summary, &Style::plain(width));
            fits("page", &found, width);
            assert!(found.lines().count() <= LINES, "{} lines: {found}", found.lines().count());
            let has_answer = found.contains("\nWHY\n");
            assert!(has_answer && found.contains("\nmore     "), "{found}");
        }
        let answer = brief::render(&summary, &diagnose(&summary));
        assert!(answer.len() <= brief::MOST_BYTES, "{} bytes: {answer}", answer.len());
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["format"], "brief-1");
        assert!(answer["findings"].is_array() && answer["devices"].is_array(), "{answer}");
    }
}

#[test]
fn the_last_lines_of_a_watch_that_is_kept_mean_it() {
    let summary = scenes::jenkins().summary();
    for width in [40, 80, 200] {
        let found = kept_page(&summary, &diagnose(&summary), &Style::plain(width));
        fits("kept page", &found, width);
        assert!(found.lines().count() <= LINES, "{found}");
        let (_, end) = found.split_once("\nmore     ").unwrap();
        let commands = ["iowhy explain 1", "iowhy report --full", "iowhy export -o DIR"];
        assert!(commands.iter().all(|command| end.contains(command)), "{end}");
        assert!(!end.contains("iowhy --full"), "it would watch again: {end}");
    }
}

#[test]
fn what_was_lost_and_the_first_finding_are_always_there() {
    let summary = crowded().summary();
    let diagnosis = diagnose(&summary);
    let found = page(&summary, &diagnosis, None, &Style::plain(80));
    assert!(found.contains("30 lost"), "{found}");
    for message in ["fix    ", "check  ", "DEVICES", "nvme"] {
        assert!(found.contains(message), "{message}: {found}");
    }
    let first = &diagnosis.findings[0];
    assert!(found.contains(first.cause), "{}: {found}", first.cause);
}
