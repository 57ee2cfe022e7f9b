//! Comparison with blkparse and btt: the same text, the same figures, for every mix of events. Real
//! captures, data files and written captures are compared through the built binary (labs/tests).

use super::generate::Mix;
use super::*;
use iowhy_blktrace::import::{self, CaptureImport};
use iowhy_blktrace::trace::CaptureWriter;
use iowhy_blktrace::trace::EventFormat;
use iowhy_blktrace::trace::writer;
use iowhy_model::Names;
use iowhy_model::source::{self, Progress, Source};

fn names(generated: &GeneratedCapture) -> Vec<String> {
    (0..generated.settings.devices).map(generate::device_name).collect()
}

fn compatible() -> events::EventOptions {
    events::EventOptions { compatible: true, ..events::EventOptions::default() }
}

#[test]
fn events_equal_blkparse() {
    if !installed(&["blkparse"]) {
        return;
    }
    for mix in [Mix::Rich, Mix::Plain, Mix::IssueOnly, Mix::BioOnly] {
        for big_endian in [false, true] {
            let settings =
                GeneratorSettings { mix, big_endian, seed: 9, ..GeneratorSettings::default() };
            let generated = GeneratedCapture::new(settings);
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
    let generated = GeneratedCapture::from_mix(Mix::Rich);
    let layout = "%D|%-8a|%5c|%12C|%d|%e|%M.%m|%10n %-9N|%p|%P|%s|%-14S|%T.%9t%%\\n";
    let theirs = blkparse(generated.path(), &names(&generated), &["-f", layout, "-q"]);
    let format = Some(EventFormat::parse(layout).unwrap());
    let ours = our_text(&generated.prefixes(), events::EventOptions { format, ..compatible() });
    let ours: Vec<_> = ours.lines().take(theirs.lines().count()).collect();
    same_lines(&ours.join("\n"), &theirs);

    // The time of day, and the steps of -t: blkparse ends at the first event that has no such time.
    let theirs = blkparse(generated.path(), &names(&generated), &["-f", "%z %a %S\\n", "-q"]);
    let format = Some(EventFormat::parse("%z %a %S\\n").unwrap());
    let ours = our_text(&generated.prefixes(), events::EventOptions { format, ..compatible() });
    let ours: Vec<_> = ours.lines().take(theirs.lines().count()).collect();
    same_lines(&ours.join("\n"), &theirs);
    let elapsed = ["I", "D", "C"].map(|action| format!("{action},%u|%9u|%-9u|%a %S\\n"));
    let more = ["-t", "-q", "-F", &elapsed[0], "-F", &elapsed[1], "-F", &elapsed[2]];
    let plain = GeneratedCapture::from_mix(Mix::Plain);
    let theirs = blkparse(plain.path(), &names(&plain), &more);
    let formats =
        elapsed.iter().map(|text| (text.as_bytes()[0], EventFormat::parse(&text[2..]).unwrap()));
    let options = events::EventOptions { formats: formats.collect(), ..compatible() };
    let ours = our_text(&plain.prefixes(), options);
    let ours: Vec<_> = ours.lines().take(theirs.lines().count()).collect();
    same_lines(&ours.join("\n"), &theirs);

    let theirs =
        blkparse(generated.path(), &names(&generated), &["-a", "issue", "-w", "0.001:0.01"]);
    let options = events::EventOptions {
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
            let settings =
                GeneratorSettings { mix, seed, events: 30_000, ..GeneratorSettings::default() };
            let generated = GeneratedCapture::new(settings);
            let dump = dump(generated.path(), &names(&generated));
            let theirs = btt(&dump, &["-A"]);
            same_lines(&our_btt(&generated.prefixes(), true), &theirs);
            same_lines(&our_btt(&[dump], true), &theirs);
        }
    }
}

/// The periods of queueing, completion and activity that btt writes into its .dat file.
#[test]
fn ranges_equal_btts() {
    if !installed(&["blkparse", "btt"]) {
        return;
    }
    for mix in [Mix::Unsplit, Mix::Plain, Mix::BioOnly] {
        let generated = GeneratedCapture::new(GeneratorSettings {
            mix,
            events: 60_000,
            ..GeneratorSettings::default()
        });
        let dump = dump(generated.path(), &names(&generated));
        btt(&dump, &["-A"]);
        let theirs = std::fs::read_to_string(dump.with_file_name("btt.dat")).unwrap();
        let mut analysis = Btt::default();
        let capture = open(&generated.prefixes(), Order::Blkparse);
        pipeline::run(capture, |start, batch| analysis.take(batch, start.genesis));
        let mut ours = Vec::new();
        report::write_ranges(&analysis, &mut ours).unwrap();
        same_lines(&String::from_utf8_lossy(&ours), &theirs);
    }
}

/// btt 1.2.0 looks a split part's G up in the range of the stale whole and counts it twice; 1.3.0
/// wants the exact start. Everything else of its report is the same.
#[test]
fn splits_differ_from_btt_1_2_only_in_what_1_3_mended() {
    if !installed(&["blkparse", "btt"]) {
        return;
    }
    let generated = GeneratedCapture::from_mix(Mix::Rich);
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

/// Imports a capture with its events and writes them as a capture again.
fn rewrite(generated: &GeneratedCapture, version: u8) -> PathBuf {
    let capture = open(&generated.prefixes(), Order::Time);
    let options = import::ImportOptions { events: true };
    let mut import = CaptureImport::new(capture, events::ProcessNames::default(), options);
    let (mut batch, mut names) = (source::Batch::default(), Names::new());
    let folder = generated.path().join(format!("again{version}"));
    std::fs::create_dir(&folder).unwrap();
    let settings = writer::CaptureSettings { version, realtime_offset_ns: 0 };
    let mut output = CaptureWriter::new(iowhy_fs::Folder::open(&folder).unwrap(), settings);
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
    let generated = GeneratedCapture::from_mix(Mix::Unsplit);
    let before = essence(&our_text(&generated.prefixes(), events::EventOptions::default()));
    for version in [7, 8] {
        let folder = rewrite(&generated, version);
        let after = essence(&our_text(&[folder], events::EventOptions::default()));
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
