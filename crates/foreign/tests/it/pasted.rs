//! Text as it comes from a terminal or a mail: with colours, quoted, wrapped, or cut.

use super::*;

/// iostat's columns and two rows of them, the second with this share of the time.
const COLUMNS: [&str; 23] = [
    "Device", "r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz", "w/s", "wkB/s", "wrqm/s",
    "%wrqm", "w_await", "wareq-sz", "d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz",
    "f/s", "f_await", "aqu-sz", "%util",
];

/// Two reports of a saturated device and an idle one.
fn report() -> String {
    let row = |name: &str, busy: [&str; 5]| {
        let [reads, await_ms, moved, depth, util] = busy;
        let figures = [
            reads, "480.00", "0.00", "0.00", await_ms, "40.00", "118.00", moved, "22.00", "15.71",
            "130.50", "518.64", "0.00", "0.00", "0.00", "0.00", "0.00", "0.00", "4.00", "88.00",
            depth, util,
        ];
        line(&[&[name], &figures[..]].concat())
    };
    let busy = row("dsk", ["12.00", "55.25", "61200.00", "16.40", "99.60"]);
    let idle = row("dsl", ["0.50", "0.40", "8.00", "0.01", "0.10"]);
    let one = line(&COLUMNS) + &busy + &idle + "\n";
    format!("Linux 6.1.0 (db1) \t11/25/26 \t_x86_64_\t(8 CPU)\n\n{one}{one}")
}

fn line(words: &[&str]) -> String {
    let padded: Vec<String> = words.iter().map(|word| format!("{word:>9}")).collect();
    padded.join("").trim_start().to_owned() + "\n"
}

/// The text with lines of at most `width` characters; cut at blanks, which stay at the ends or not.
fn wrapped(text: &str, width: usize, at_blanks: bool, is_trimmed: bool) -> String {
    let mut folded = String::new();
    for line in text.lines() {
        let mut left = line;
        while left.len() > width {
            let blank = left[..width].rfind(' ').map(|at| at + 1);
            let at = blank.filter(|_| at_blanks).unwrap_or(width);
            let (part, rest) = left.split_at(at);
            folded += if is_trimmed { part.trim_end() } else { part };
            folded.push('\n');
            left = if is_trimmed { rest.trim_start() } else { rest };
        }
        folded += left;
        folded.push('\n');
    }
    folded
}

fn is_read(text: &str, form: &str) {
    let read = ReadFile::text(text);
    assert_eq!(read.summary.devices.len(), 2, "{form}: {text}");
    let (reads, await_ms) = read.rate("dsk", Direction::Read);
    assert_eq!((reads, await_ms), (12.0, 55.25), "{form}: {text}");
    let written = read.rate("dsk", Direction::Write);
    assert_eq!(written, (118.0, 130.5), "{form}");
    let device = read.summary.devices.iter().find(|device| device.device == "dsk").unwrap();
    assert!((device.util_share.unwrap() - 0.996).abs() < 1e-9, "{form}");
    assert_eq!(read.causes(), ["device-saturated"], "{form}");
    assert!(!read.said().contains("skipped"), "{form}: {}", read.said());
}

#[test]
fn colours_are_no_text() {
    let text = report();
    is_read(&text, "plain");
    let coloured: String = text
        .split_inclusive(' ')
        .map(|word| match word.trim() {
            "" => word.to_owned(),
            _ => format!("\x1b[34;1m{word}\x1b[0m"),
        })
        .collect();
    is_read(&coloured.replace('\n', "\r\n"), "coloured");
    let log = "\x1b[32m[   11.500000] \x1b[0m\x1b[33mnvme nvme0: \x1b[0mI/O 12 QID 3 timeout, \
               aborting\n";
    assert_eq!(ReadFile::text(log).causes(), ["device-reset"]);
}

#[test]
fn wrapped_and_quoted_tables_are_read() {
    let quoted = |text: &str, mark: &str| -> String {
        text.lines().map(|line| format!("{mark}{line}\n")).collect()
    };
    for width in [72, 76, 79, 80, 100] {
        for (at_blanks, is_trimmed) in [(true, false), (true, true), (false, false)] {
            let form = format!("{width} {at_blanks} {is_trimmed}");
            let text = wrapped(&report(), width, at_blanks, is_trimmed);
            is_read(&text, &form);
            is_read(&quoted(&text, "> "), &format!("{form} quoted"));
        }
    }
    is_read(&quoted(&report(), "> > "), "quoted twice");
    is_read(&quoted(&report(), ">> "), "quoted twice, marks together");
}

#[test]
fn a_wrapped_message_of_a_hung_task_is_one() {
    let text = "\
> > [ 1208.504123] INFO: task jbd2/sdx1-8:312 blocked for more 
> > than 120 seconds.
> > [ 1208.504140] Call Trace:
> > [ 1208.504186]  
> > jbd2_journal_commit_transaction+0x10cd/0x18f0
";
    let read = ReadFile::text(text);
    assert_eq!(read.causes(), ["hung-io"]);
    assert_eq!(read.summary.environment.host_messages[0].frames.len(), 1);
}

#[test]
fn a_header_without_a_row_is_no_quiet_machine() {
    let text = line(&COLUMNS) + "dsk | 12.00 | 480.00 | 0.00\n";
    let failed = ReadFile::new(text.as_bytes()).err().unwrap();
    assert!(failed.contains("no row below the header of iostat could be read"), "{failed}");
    let beside = text + "[   11.5] nvme nvme0: I/O 12 QID 3 timeout, aborting\n";
    let read = ReadFile::text(&beside);
    assert!(read.said().contains("no row below the header of iostat"), "{}", read.said());
}
