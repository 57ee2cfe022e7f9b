//! Text of other tools read back into records.

use super::generate::Mix;
use super::*;
use iowhy_blktrace::trace::Action;
use iowhy_blktrace::trace::text_events::parse;

#[test]
fn blkparses_text_reads_back() {
    let generated = GeneratedCapture::from_mix(Mix::Rich);
    let text = our_text(&generated.prefixes(), events::EventOptions::default());
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("  8,")).collect();
    let (records, capture) = read(&generated.prefixes(), Order::Time);
    let early = |record: &TraceRecord| record.is_notify() && !record.is_message();
    let records: Vec<_> = records.into_iter().filter(|(record, _)| !early(record)).collect();
    assert_eq!(lines.len(), records.len());
    for (line, (record, payload)) in lines.iter().zip(&records) {
        let command = record.categories & iowhy_blktrace::trace::category::PC != 0;
        if command {
            continue;
        }
        let event = parse(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(event.record.time, record.time - capture.genesis());
        if !record.is_message() {
            assert_eq!(event.record.sequence, record.sequence);
            assert_eq!(event.record.kind(), record.kind(), "{line}");
            assert_eq!(event.payload, *payload, "{line}");
            let moves = record.kind() != Some(Action::Split) && record.sectors() > 0;
            let no_range = [Action::Plug, Action::Unplug, Action::UnplugTimer];
            if moves && !no_range.contains(&record.kind().unwrap()) {
                assert_eq!(
                    (event.record.sector, event.record.bytes),
                    (record.sector, record.bytes)
                );
            }
        }
    }
}

/// A line, and what it must give: action, CPU, pid, process, sector, bytes, error.
type Line = (&'static str, Action, u32, u32, &'static str, u64, u32, i32);

const LINES: &[Line] = &[
    (
        "<idle>-0 [000] d.h1. 942.600200: block_rq_complete: 8,0 R () 2048 + 8 none,0,0 [0]",
        Action::Complete,
        0,
        0,
        "<idle>",
        2048,
        4096,
        0,
    ),
    (
        "fio-123   [001] d..1.  942.600001: block_rq_issue: 8,0 W 4096 () 2048 + 8 [fio]",
        Action::Issue,
        1,
        123,
        "fio",
        2048,
        4096,
        0,
    ),
    (
        "kworker/0:1H-276 (    276) [000] .... 12.000000001: block_rq_insert: 8,16 WS 0 () 64 + 16 \
         [kworker/0:1H]",
        Action::Insert,
        0,
        276,
        "kworker/0:1H",
        64,
        8192,
        0,
    ),
    (
        "my prog 42 [003] 1.5: block:block_rq_complete: 259,0 RA () 100 + 8 none,0,0 [0]",
        Action::Complete,
        3,
        42,
        "my prog",
        100,
        4096,
        0,
    ),
    (
        "a-b-7 [002] ..s1 3.25: block_rq_complete: 8,0 W () 100 + 8 [-5]",
        Action::Complete,
        2,
        7,
        "a-b",
        100,
        4096,
        -5,
    ),
    (
        "<0>[  942.6] swapper-0   7..... 841421021us : block_bio_queue: 8,0 R 5 + 8 [swapper/7]",
        Action::Queue,
        7,
        0,
        "swapper",
        5,
        4096,
        0,
    ),
    (
        "jbd2/sda1-8-200 [000] 9.1: block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 be,0,4 \
         [x]",
        Action::Issue,
        0,
        200,
        "jbd2/sda1-8",
        0,
        0,
        0,
    ),
];

#[test]
fn tracepoints_of_every_age_are_read() {
    for (line, action, cpu, pid, name, sector, bytes, error) in LINES.iter().copied() {
        let event = parse(line).unwrap_or_else(|| panic!("{line}"));
        let record = event.record;
        assert_eq!(record.kind(), Some(action), "{line}");
        assert_eq!(
            (record.cpu, record.pid, record.sector, record.bytes),
            (cpu, pid, sector, bytes)
        );
        assert_eq!(i32::from(record.error as i16), error);
        assert_eq!(event.process.as_deref(), Some(name), "{line}");
    }
    let remap = parse("x-1 [000] 1.0: block_bio_remap: 8,0 W 300 + 8 <- (8,2) 100").unwrap();
    assert_eq!(remap.payload.len(), 16);
    assert!(parse("x-1 [000] 1.0: block_split: 8,0 W 300 / 304 [x]").unwrap().payload.len() == 8);
    assert_eq!(parse("nothing at all"), None);
}

#[test]
fn a_text_file_gives_the_same_stages_as_its_capture() {
    let generated = GeneratedCapture::new(GeneratorSettings {
        mix: Mix::Plain,
        devices: 1,
        ..GeneratorSettings::default()
    });
    let text = our_text(&generated.prefixes(), events::EventOptions::default());
    let lines: String =
        text.lines().filter(|l| l.starts_with("  8,")).map(|line| format!("{line}\n")).collect();
    let path = generated.path().join("text.blktrace.0");
    std::fs::write(&path, lines).unwrap();
    let (ours, theirs) = (stages(&[path]), stages(&generated.prefixes()));
    use iowhy_analysis::stages::Stage;
    for stage in [Stage::Q2g, Stage::G2i, Stage::I2d, Stage::D2c, Stage::Q2c] {
        assert_eq!(ours.all().get(stage).average, theirs.all().get(stage).average);
    }
}

/// The records of a text, and its warnings.
fn read_text(text: &str) -> (Vec<TraceRecord>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, text).unwrap();
    let (records, capture) = read(&[path], Order::Time);
    let records = records.into_iter().map(|(record, _)| record);
    let warnings: Vec<String> = capture
        .warnings()
        .items()
        .iter()
        .map(|warning| warning.kind.sentence(warning.count))
        .collect();
    (records.filter(|record| !record.is_notify()).collect(), warnings.join("\n"))
}

#[test]
fn lines_that_a_mail_wrapped_are_one() {
    let whole = [
        "  8,0    3        1     0.000000000   594  A FWFSM 81957 + 16 <- (8,4) 18021",
        "  8,0    3        2     0.000001967   594  Q FWFSM 81957 + 16 [a]",
        "  8,0    3        4     0.000031145   195  D  FN [kworker/3:1H]",
        "  8,0    2       12     0.002742812     0  C WSM 81957 [0]",
    ];
    let (expected, warnings) = read_text(&(whole.join("\n") + "\n"));
    assert_eq!((expected.len(), warnings.as_str()), (4, ""));
    for width in [52, 60, 66] {
        let mut text = String::new();
        for line in whole {
            let mut at = line.char_indices().filter(|(at, letter)| *letter == ' ' && *at <= width);
            let (first, rest) = line.split_at(at.next_back().map_or(line.len(), |(at, _)| at + 1));
            text += &format!("> {first}\n> {rest}\n");
        }
        let (read, warnings) = read_text(&text);
        assert_eq!((&read, warnings.as_str()), (&expected, ""), "{text}");
    }
    let other = "  8,0    3        1     0.000000000   594 some other format\n";
    let (read, warnings) = read_text(&(other.to_owned() + whole[3] + "\n" + other + "x\n"));
    assert_eq!(read.len(), 1);
    assert!(warnings.contains("2 lines are in another format"), "{warnings}");
    assert!(warnings.contains("1 line is no event"), "{warnings}");
}

#[test]
fn tracepoints_that_are_not_needed_are_known_however_they_are_padded() {
    let text = "\
  a-108 [000]    17.2: block_touch_buffer:   8,0 sector=1 size=4096
  a-108 [000]    17.2: block_dirty_buffer: 8,0 sector=1 size=4096
  a-108 [000]    17.3: block_getrq:          8,0 R 8 + 8 [a]
";
    let (read, warnings) = read_text(text);
    assert_eq!((read.len(), warnings.as_str()), (1, ""));
}
