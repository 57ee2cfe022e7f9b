//! Sequences from scripted watches, as text, and played on files of their own.

use super::player::{lay_out, play};
use super::script::{DEVICE, ReplayKind, ReplayScript};
use super::sequence::ReplayTally;
use super::{ReplayContext, ReplayText, programs};
use crate::plan::PlannedStep;
use iowhy_model::script::Script;

const MS: u64 = 1_000_000;

fn sequences(script: &Script) -> (Vec<PlannedStep>, Vec<ReplayText>) {
    let mut tally = ReplayTally::default();
    tally.add(&script.batch, &script.names, &script.environment);
    let disks = ["sda".to_owned()];
    let program = |number: usize, _: &str| format!("program-{number}");
    let file = |number: usize, _: &str| format!("files-{number}");
    let context = ReplayContext::new(&tally, 10_000_000, &disks, &program, &file);
    let (programs, texts) = programs(&context, &tally);
    (programs.into_iter().flat_map(|program| program.planned.steps).collect(), texts)
}

/// Two files of one class far from their beginnings, and a read of no file.
fn far_apart() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    for index in 0..4_u64 {
        let file = format!("/db/{}.sst", index % 2);
        let read = script.read("sda", 8192).by(7, "secret").file(&file);
        let read = read.sector(index * 1_000_000);
        read.at((index * 10 * MS) as i64).direct(0, 0, 25 * MS).add();
    }
    for (index, part) in (0_u64..).zip(&mut script.batch.parts) {
        part.file_offset = Some((index / 2) * 8192 + (900 << 30));
    }
    let write = script.write("sda", 4096).sector(77 << 30).at((50 * MS) as i64);
    write.direct(0, 0, MS).add();
    script
}

#[test]
fn requests_come_at_their_times_and_stay_neighbours() {
    let (steps, texts) = sequences(&far_apart());
    let text = &texts[0].text;
    let script = ReplayScript::parse(text).unwrap();
    assert_eq!(script.to_string(), *text, "it is read as it was written");
    assert!(!text.contains("secret") && !text.contains("sst"), "{text}");
    let times: Vec<u64> = script.lines.iter().map(|line| line.at_us).collect();
    let first = times[0];
    assert_eq!(
        times.iter().map(|time| time - first).collect::<Vec<_>>(),
        [0, 10_000, 20_000, 30_000]
    );
    assert!(script.lines.iter().all(|line| line.kind == ReplayKind::Read && line.bytes == 8192));
    let places: Vec<u64> = script.lines.iter().map(|line| line.offset).collect();
    assert_eq!([places[2] - places[0], places[3] - places[1]], [8192, 8192]);
    assert_ne!(places[0], places[1], "two files");
    let bytes: u64 = script.files.iter().map(|file| file.bytes).sum();
    assert!(bytes <= 4 << 20, "no holes: {bytes}");
    assert!(script.lanes >= 4);
    let raw = |step: &PlannedStep| matches!(step, PlannedStep::Replay { raw: true, .. });
    assert_eq!((steps.len(), steps.iter().any(raw)), (2, false), "{steps:?}");
}

#[test]
fn a_device_without_files_is_used_itself() {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.read("sda", 4096).by(7, "db").file("/dev/sda").sector(1 << 30).direct(0, 0, MS).add();
    let (steps, texts) = sequences(&script);
    assert!(matches!(steps[..], [PlannedStep::Replay { raw: true, requests: 1, .. }]), "{steps:?}");
    assert_eq!(ReplayScript::parse(&texts[0].text).unwrap().files[0].name, DEVICE);
}

#[test]
fn broken_sequences_are_refused_with_the_line() {
    let head = "iowhy replay 1\nperiod 1000\nlanes 2\nfile a 4096\n";
    for (wrong, cause) in [
        ("", "nothing is in it"),
        ("file ../x 1\n", "the name of a file"),
        ("file .x 1\n", "the name of a file"),
        ("0 r 1 0 512\n", "no such file"),
        ("0 r 0 4096 512\n", "beyond the end"),
        ("0 w 0 18446744073709551615 512\n", "too large"),
        ("0 x 0 0 512\n", "neither r, w nor f"),
        ("1001 r 0 0 512\n", "after the period"),
        ("9 r 0 0 512\n8 r 0 0 512\n", "before that of the line above"),
        ("1 r\n", "number of words"),
        ("-1 r 0 0 512\n", "a number is wrong"),
    ] {
        let error = ReplayScript::parse(&format!("{head}{wrong}")).unwrap_err();
        assert!(error.to_string().contains(cause), "{wrong:?}: {error}");
    }
    // As many threads as have buffers for the longest operation within 256 MiB.
    let large = format!("{head}lanes 5\nfile b 67108864\n1 r 1 0 67108864\n");
    assert_eq!(ReplayScript::parse(&large).unwrap().lanes, 4);
    assert!(ReplayScript::parse("fio version 3 iolog\n").is_err());
}

#[test]
fn a_sequence_does_not_fill_a_file_system() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let text = "iowhy replay 1\nperiod 5000\nlanes 1\nfile a 1125899906842624\n0 r 0 0 4096\n";
    let refused = lay_out(&ReplayScript::parse(text).unwrap(), folder.path()).unwrap_err();
    assert!(refused.to_string().contains("are needed"), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn every_operation_is_done_on_files_of_its_own() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let text = "iowhy replay 1\nperiod 5000\nlanes 3\nfile a 65536\nfile b 4096\n\
                0 r 0 0 4096\n100 w 0 8192 512\n200 w 1 0 4096\n300 f 0 0 0\n5000 r 0 61440 4096\n";
    let script = ReplayScript::parse(text).unwrap();
    lay_out(&script, folder.path()).unwrap();
    lay_out(&script, folder.path()).unwrap();
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    assert_eq!((size("a"), size("b")), (65536, 4096));
    let last = std::sync::Mutex::new(0);
    play(&script, folder.path(), &|times| {
        *last.lock().unwrap() = times.done;
        times.done < 50
    })
    .unwrap();
    assert!(*last.lock().unwrap() >= 50);
    assert_eq!((size("a"), size("b")), (65536, 4096), "files do not grow");
    let error = play(&script, &folder.path().join("none"), &|_| true).unwrap_err();
    assert!(error.to_string().contains("failed to open"), "{error}");
}

#[test]
fn what_is_missing_is_said() {
    let mut script = far_apart();
    script.batch.requests[0].weight = Some(30);
    let mut tally = ReplayTally::default();
    tally.add(&script.batch, &script.names, &script.environment);
    let notes = tally.notes();
    assert!(notes.len() == 1 && notes[0].starts_with("29 requests"), "{notes:?}");
}
