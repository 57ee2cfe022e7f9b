//! Output of several tools in one file or in several, and files with nothing in them.

use crate::{answer, iowhy};
use std::fs;
use std::path::PathBuf;

const IOSTAT: &str = "\
Device  r/s  rkB/s  rrqm/s  r_await  w/s  wkB/s  wrqm/s  w_await  aqu-sz  %util
dsk  1.00  8.00  0.00  2.00  0.00  0.00  0.00  0.00  0.02  2.00

Device  r/s  rkB/s  rrqm/s  r_await  w/s  wkB/s  wrqm/s  w_await  aqu-sz  %util
dsk  80.00  640.00  0.00  95.00  40.00  320.00  0.00  120.00  12.40  99.80
";
const LOG: &str = "[   11.500000] nvme nvme0: I/O 12 QID 3 timeout, aborting\n";

/// Pairs of an issue and a completion, as blkparse prints them.
fn events(pairs: u32) -> String {
    let pair = |at: u32| {
        let line = |second: &str, action: &str, end: &str| {
            format!(
                "  8,0    3    {at:5}     {at}.{second}0000000   697  {action}   W 8 + 8 {end}\n"
            )
        };
        line("00", "D", "[a]") + &line("01", "C", "[0]")
    };
    (1..=pairs).map(pair).collect()
}

/// Files with these contents, by number.
fn files(contents: &[&str]) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |(number, content): (usize, &&str)| -> PathBuf {
        let path = folder.path().join(format!("{number}.txt"));
        fs::write(&path, content).unwrap();
        path
    };
    let paths = contents.iter().enumerate().map(path);
    let paths = paths.map(|path| path.to_str().unwrap().to_owned()).collect();
    (folder, paths)
}

fn report(contents: &[&str]) -> String {
    let (_folder, paths) = files(contents);
    let said = answer([&["report".to_owned(), "--full".to_owned()], &paths[..]].concat());
    // Lines are as wide as a terminal.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn failure(contents: &[&str]) -> String {
    let (_folder, paths) = files(contents);
    let output = iowhy([&["report".to_owned()], &paths[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{contents:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_few_events_hide_nothing_of_other_tools() {
    let said = report(&[&(IOSTAT.to_owned() + &events(2) + LOG)]);
    assert!(said.contains("from iostat and dmesg"), "{said}");
    assert!(said.contains("; device-saturated") && said.contains("; device-reset"), "{said}");
    assert!(said.contains("4 lines of block events were left out"), "{said}");
}

#[test]
fn many_events_are_read_and_the_rest_is_named() {
    let said = report(&[&(IOSTAT.to_owned() + LOG + &events(50))]);
    assert!(said.contains("from blkparse") && said.contains("50 requests"), "{said}");
    assert!(said.contains("it also holds lines of iostat and dmesg"), "{said}");
    let alone = report(&[&events(50)]);
    assert!(!alone.contains("it also holds"), "{alone}");
}

#[test]
fn several_files_of_text_are_one() {
    let said = report(&[IOSTAT.trim_end(), LOG]);
    assert!(said.contains("from iostat and dmesg"), "{said}");
    assert!(said.contains("; device-saturated") && said.contains("; device-reset"), "{said}");
    let fio = "{\"fio version\" : \"fio-3.33\", \"jobs\": []}";
    for contents in [[IOSTAT, fio], [fio, LOG], [IOSTAT, "hello\n"]] {
        let said = failure(&contents);
        assert!(said.contains("failed to read 2 files together"), "{said}");
        assert!(said.contains("one at a time"), "{said}");
    }
}

#[test]
fn what_holds_nothing_is_no_quiet_machine() {
    for content in ["", "\n\n"] {
        let said = failure(&[content]);
        assert!(said.contains("it is empty"), "{said}");
    }
    let raw = "cpus=2\n  a-108   [000]    17.299767296: block_getrq:   dev=8388608 sector=13256 \
               nr_sector=8 rwbs=R comm=a\n";
    let said = failure(&[raw]);
    assert!(said.contains("trace-cmd report"), "{said}");
}
