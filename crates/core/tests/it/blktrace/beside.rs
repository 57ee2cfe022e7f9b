//! Beside blkparse, btt and fio: the same text, the same figures.

use super::generate::Mix;
use super::*;
use iowhy_core::analysis::stages::btt::{DataFiles, FileKind};
use iowhy_core::formats::blktrace::Writer;
use iowhy_core::formats::blktrace::writer;
use iowhy_core::formats::events::format::Format;
use iowhy_core::formats::import::{self, Import};
use iowhy_core::model::Names;
use iowhy_core::source::{self, Progress, Source};

fn names(generated: &Generated) -> Vec<String> {
    (0..generated.settings.devices).map(generate::device_name).collect()
}

fn compatible() -> events::Options {
    events::Options { compatible: true, ..events::Options::default() }
}

#[test]
fn events_equal_blkparse() {
    if !installed(&["blkparse"]) {
        return;
    }
    for mix in [Mix::Rich, Mix::Plain, Mix::IssueOnly, Mix::BioOnly] {
        for big_endian in [false, true] {
            let settings = Settings { mix, big_endian, seed: 9, ..Settings::default() };
            let generated = Generated::new(settings);
            let theirs = blkparse(generated.path(), &names(&generated), &[]);
            same_lines(&our_text(&generated.prefixes(), compatible()), &theirs);
        }
    }
}

#[test]
fn formats_and_filters_equal_blkparse() {
    if !installed(&["blkparse"]) {
        return;
    }
    let generated = Generated::of(Mix::Rich);
    let layout = "%D|%-8a|%5c|%12C|%d|%e|%M.%m|%10n %-9N|%p|%P|%s|%-14S|%T.%9t%%\\n";
    let theirs = blkparse(generated.path(), &names(&generated), &["-f", layout, "-q"]);
    let format = Some(Format::parse(layout).unwrap());
    let ours = our_text(&generated.prefixes(), events::Options { format, ..compatible() });
    let ours: Vec<_> = ours.lines().take(theirs.lines().count()).collect();
    same_lines(&ours.join("\n"), &theirs);

    let theirs =
        blkparse(generated.path(), &names(&generated), &["-a", "issue", "-w", "0.001:0.01"]);
    let options = events::Options {
        mask: events::mask::parse("issue").unwrap(),
        from: 1_000_000,
        until: Some(10_000_000),
        ..compatible()
    };
    same_lines(&our_text(&generated.prefixes(), options), &theirs);
}

#[test]
fn stages_equal_btt() {
    if !installed(&["blkparse", "btt"]) {
        return;
    }
    for mix in [Mix::Unsplit, Mix::Plain, Mix::IssueOnly, Mix::BioOnly] {
        for seed in [1, 2] {
            let settings = Settings { mix, seed, events: 30_000, ..Settings::default() };
            let generated = Generated::new(settings);
            let dump = dump(generated.path(), &names(&generated));
            let theirs = btt(&dump, &["-A"]);
            same_lines(&our_btt(&generated.prefixes(), true), &theirs);
            same_lines(&our_btt(&[dump], true), &theirs);
        }
    }
}

/// btt 1.2.0 looks a split part's G up in the range of the stale whole and counts it twice; 1.3.0
/// wants the exact start. Everything else of its report is the same.
#[test]
fn splits_differ_from_btt_1_2_only_in_what_1_3_mended() {
    if !installed(&["blkparse", "btt"]) {
        return;
    }
    let generated = Generated::of(Mix::Rich);
    let theirs = btt(&dump(generated.path(), &names(&generated)), &[]);
    let ours = our_btt(&generated.prefixes(), false);
    let differing: Vec<_> = ours.lines().zip(theirs.lines()).filter(|(a, b)| a != b).collect();
    assert!(!differing.is_empty());
    for (our, their) in differing {
        let word = |line: &str| line.split_whitespace().next().unwrap_or("").to_owned();
        assert_eq!(word(our), word(their));
        assert!(["Q2G", "G2I", "(", "Overall"].contains(&word(our).as_str()), "{our}");
    }
}

#[test]
fn data_files_equal_btts() {
    if !installed(&["blkparse", "btt"]) {
        return;
    }
    let generated = Generated::of(Mix::Unsplit);
    let dump = dump(generated.path(), &names(&generated));
    btt(&dump, &["-l", "t_l", "-q", "t_q", "-B", "t_b", "-s", "t_s", "-Q", "t_d"]);
    let mut files = DataFiles::default();
    for (kind, prefix) in [
        (FileKind::D2c, "o_l"),
        (FileKind::Q2c, "o_q"),
        (FileKind::Blocks, "o_b"),
        (FileKind::QueueSeeks, "o_s"),
        (FileKind::IssueSeeks, "o_s"),
        (FileKind::Depth, "o_d"),
    ] {
        files.add(kind, generated.path().join(prefix));
    }
    let mut analysis = Btt::default();
    analysis.files = Some(files);
    let capture = open(&generated.prefixes(), Order::Blkparse);
    pipeline::run(capture, |start, batch| analysis.take(batch, start.genesis));
    analysis.files.unwrap().finish().unwrap();
    let mut compared = 0;
    for entry in std::fs::read_dir(generated.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(rest) = name.strip_prefix("t_") {
            let ours = std::fs::read_to_string(path.with_file_name(format!("o_{rest}"))).unwrap();
            same_lines(&ours, &std::fs::read_to_string(&path).unwrap());
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * (1 + 1 + 3 + 6 + 1));
}

#[test]
fn real_captures_equal_their_references() {
    let Some(traces) = traces() else { return };
    let check = |given: PathBuf, reference: PathBuf| {
        same_lines(&our_btt(&[given], false), &std::fs::read_to_string(reference).unwrap());
    };
    for name in ["keks/keks", "sda-centos/sda"] {
        let reference = traces.join(name).with_file_name("ref.btt-1.3.0.txt");
        check(traces.join(name), reference);
        if installed(&["blkparse"]) {
            let path = traces.join(name);
            let folder = tempfile::tempdir().unwrap();
            for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
                let from = entry.unwrap().path();
                std::fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
            }
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let theirs = blkparse(folder.path(), &[name], &[]);
            same_lines(&our_text(&[path], compatible()), &theirs);
        }
    }
    for loop_dump in ["0_y_0", "0_y_1", "0_y_2", "1_y_0", "1_y_1", "1_y_2"] {
        let base = traces.join(format!("dumps-loop/trace_x_{loop_dump}"));
        check(base.with_extension("bin"), base.with_extension("ref.btt-1.3.0.txt"));
    }
}

#[test]
fn the_hadoop_node_completes_what_its_readme_says() {
    let Some(traces) = traces() else { return };
    let archive = traces.join("hadoop-40cpu/sdb.tar.zst");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("tar");
    command.args(["-I", "zstd", "-xf"]).arg(&archive).arg("-C").arg(folder.path());
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: tar cannot unpack zstd here");
        return;
    }
    let given = [folder.path().join("sdb")];
    let reference = archive.with_file_name("ref.btt-1.3.0.txt");
    same_lines(&our_btt(&given, false), &std::fs::read_to_string(reference).unwrap());
    let text = our_text(&given, compatible());
    assert!(text.contains("Reads Completed:    48422, "), "{}", &text[text.len() - 900..]);
    let longest = stages(&given).all().get(iowhy_core::analysis::stages::Stage::Q2g).average.max;
    assert!(longest < 1_000_000, "Q2G of {longest} ns");
}

/// Imports a capture with its events and writes them as a capture again.
fn rewrite(generated: &Generated, version: u8) -> PathBuf {
    let capture = open(&generated.prefixes(), Order::Time);
    let options = import::Options { events: true };
    let mut import = Import::new(capture, events::ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    let folder = generated.path().join(format!("again{version}"));
    std::fs::create_dir(&folder).unwrap();
    let settings = writer::Settings { version, realtime_offset_ns: 0 };
    let mut output = Writer::new(&folder, settings);
    loop {
        let progress = import.fill(&mut batch, &mut names).unwrap();
        for event in &batch.events {
            output.write(event, &names).unwrap();
        }
        batch.clear();
        if progress == Progress::Done {
            break;
        }
    }
    output.finish().unwrap();
    folder
}

/// Device, CPU, time, action, rwbs and range of each line: all but sequence numbers.
fn essence(text: &str) -> Vec<String> {
    let wanted = |line: &&str| line.starts_with("  8,") && !line.contains("  m   N");
    let shorten = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        format!("{} {} {}", words[..2].join(" "), words[3], words[5..].join(" "))
    };
    text.lines().filter(wanted).map(shorten).collect()
}

#[test]
fn written_captures_read_back_the_same() {
    let generated = Generated::of(Mix::Unsplit);
    let before = essence(&our_text(&generated.prefixes(), events::Options::default()));
    for version in [7, 8] {
        let folder = rewrite(&generated, version);
        let after = essence(&our_text(&[folder], events::Options::default()));
        // Commands lose their payload: the events table has no place for it.
        let plain = |lines: &[String]| -> Vec<String> {
            lines
                .iter()
                .filter(|line| !line.contains(" 36 ") && !line.contains("(12 "))
                .cloned()
                .collect()
        };
        let (mut before, mut after) = (plain(&before), plain(&after));
        after.retain(|line| !line.ends_with("C RN [0]") && !line.ends_with(" C R [0]"));
        before.sort();
        after.sort();
        assert_eq!(before, after);
    }
}

#[test]
fn written_captures_are_taken_by_blkparse_btt_and_fio() {
    if !installed(&["blkparse", "btt", "fio"]) {
        return;
    }
    let generated = Generated::of(Mix::Plain);
    let folder = rewrite(&generated, 7);
    let devices = names(&generated);
    same_lines(
        &blkparse(&folder, &devices, &["-q"]),
        &blkparse(generated.path(), &devices, &["-q"]),
    );
    let again = btt(&dump(&folder, &devices), &[]);
    same_lines(&again, &btt(&dump(generated.path(), &devices), &[]));
    let log = dump(&folder, &devices[..1]);
    let mut fio = Command::new("fio");
    fio.args(["--name=replay", "--ioengine=null", "--size=64t", "--replay_no_stall=1"]);
    fio.args(["--filename=/dev/null", "--replay_redirect=/dev/null", "--output-format=json"]);
    let output = run(fio.current_dir(&folder).arg(format!("--read_iolog={}", log.display())));
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = stages(&generated.prefixes()[..1]);
    let device = &expected.devices()[0];
    let reads = format!("\"total_ios\" : {}", device.reads.requests);
    assert!(text.contains(&reads), "{text}");
}
