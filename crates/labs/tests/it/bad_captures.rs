//! Damaged, foreign and odd captures through the built binary: read as far as they go, each loss
//! reported with its file and offset; a file that is no capture is refused with a clear message.
//!
//! What does not belong here: reading each kind of damage (blktrace/tests/it/blktrace/damage.rs).

use crate::records::RecordBytes;
use crate::support::{finish, iowhy, printed, refused, trial};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub fn tests() -> Vec<Trial> {
    vec![
        trial("bad_captures::losses_are_said_with_file_and_offset", losses_are_said),
        trial("bad_captures::protocols_and_byte_orders_are_alike", protocols_are_alike),
        trial("bad_captures::what_is_no_capture_is_refused", what_is_no_capture_is_refused),
        trial("bad_captures::many_devices_are_aggregated", many_devices_are_aggregated),
        trial("bad_captures::odd_payloads_and_times_are_read", odd_payloads_and_times_are_read),
        trial("bad_captures::a_second_end_is_no_flush", a_second_end_is_no_flush),
        trial("bad_captures::where_many_ends_are_lost_nothing_stalls", many_ends_are_lost),
        trial("bad_captures::a_source_must_fit_its_command", a_source_must_fit_its_command),
    ]
}

/// Fifty events of ten reads, each changed by `change`.
fn fifty(change: impl Fn(u32, &mut RecordBytes<'_>)) -> Vec<Vec<u8>> {
    let event = |number| {
        let mut record = RecordBytes::for_number(number);
        change(number, &mut record);
        record.bytes()
    };
    (0..50).map(event).collect()
}

fn plain() -> Vec<Vec<u8>> {
    fifty(|_, _| {})
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().context(|| "make a folder".to_owned())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).context(|| format!("write {}", path.display()))
}

/// Returns a command's standard output and standard error for the capture.
fn ask(arguments: &[&str], source: &Path) -> Result<(String, String)> {
    let mut command = iowhy(arguments)?;
    command.arg(source).env("COLUMNS", "400");
    let output = finish(command)?;
    assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&output.stdout), text(&output.stderr)))
}

/// Checks that every command reports `loss` of `source`, and has all complete reads.
fn all_say(source: &Path, loss: &str, reads: usize) -> Result<()> {
    let (report, _) = ask(&["report", "--full"], source)?;
    let head = report.split("DEVICES").next().unwrap_or_default();
    assert!(head.contains(loss), "{loss}: {report}");
    let (stages, _) = ask(&["stages"], source)?;
    assert!(stages.contains(loss), "{loss}: {stages}");
    let (events, beside) = ask(&["events", "-q"], source)?;
    assert!(beside.contains(loss), "{loss}: {beside}");
    let completed = events.lines().filter(|line| line.contains("  C   R ")).count();
    assert_eq!(completed, reads, "{loss}: {events}");
    Ok(())
}

fn losses_are_said() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    let path = file.display().to_string();
    let cut = plain().concat();
    write(&file, &cut[..cut.len() - 7])?;
    all_say(
        &file,
        &format!("{path}: the last record is cut off: 41 bytes left over (first at byte 2352)"),
        9,
    )?;

    let mut damaged = plain();
    damaged.insert(25, vec![0xa5; 333]);
    write(&file, damaged.concat())?;
    all_say(
        &file,
        &format!("{path}: 333 bytes that are no record were skipped (first at byte 1200)"),
        10,
    )?;

    write(&file, fifty(|n, record| record.version = if n == 9 { 9 } else { 7 }).concat())?;
    all_say(
        &file,
        &format!("{path}: 1 record of an unknown protocol skipped (first at byte 432)"),
        9,
    )?;

    write(&file, fifty(|_, record| record.cpu = 1).concat())?;
    all_say(
        &file,
        &format!("{path}: 50 records are of another CPU than the file's name says; kept"),
        10,
    )?;

    write(&file, fifty(|n, record| record.sequence += if n > 30 { 4 } else { 0 }).concat())?;
    all_say(&file, &format!("{path}: 4 sequence numbers are missing: events were lost"), 10)?;

    write(
        &file,
        fifty(|n, record| record.action = if n == 7 { 0x1_007f } else { record.action }).concat(),
    )?;
    all_say(&file, &format!("{path}: 1 event has an unknown action"), 10)?;

    write(&file, plain().concat())?;
    write(&folder.path().join("sda.blktrace.2"), [])?;
    let prefix = folder.path().join("sda");
    let missing = folder.path().join("sda.blktrace.1");
    all_say(&prefix, &format!("{}: 1 CPU's file is missing", missing.display()), 10)?;
    let empty = folder.path().join("sda.blktrace.2");
    all_say(&prefix, &format!("{}: is empty", empty.display()), 10)
}

/// Big-endian, protocol 8, both mixed record by record, and 64-byte records that say 7.
fn protocols_are_alike() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    write(&file, plain().concat())?;
    let (expected, _) = ask(&["events", "--monotonic"], &file)?;
    let mut mislabelled = fifty(|_, record| record.version = 8);
    mislabelled.iter_mut().for_each(|record| record[0] = 7);
    for (what, records) in [
        ("big-endian", fifty(|_, record| record.big_endian = true)),
        ("protocol 8", fifty(|_, record| record.version = 8)),
        ("both", fifty(|n, record| record.version = 7 + (n % 2) as u8)),
        ("64 bytes that say 7", mislabelled),
    ] {
        write(&file, records.concat())?;
        assert_eq!(ask(&["events", "--monotonic"], &file)?.0, expected, "{what}");
    }
    Ok(())
}

/// `command` refuses `source`, and names it.
fn refuses(command: &[&str], source: &Path, why: &str) -> Result<()> {
    let mut command = iowhy(command)?;
    command.arg(source);
    let (code, text) = refused(command)?;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(why), "{why}: {text}");
    assert!(text.contains("hint: "), "{text}");
    Ok(())
}

fn what_is_no_capture_is_refused() -> Result<()> {
    let folder = folder()?;
    let text = folder.path().join("sda.blktrace.0");
    write(&text, "a text that somebody gave this name\nand a second line\n")?;
    let noise = folder.path().join("noise");
    write(
        &noise,
        (0..9999u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<_>>(),
    )?;
    let out = folder.path().join("out");
    let import = ["import", "-o", &out.to_string_lossy()];
    let export = ["export", "--format", "blktrace", "-o", &out.to_string_lossy()];
    let all: [&[&str]; 5] = [&["report"], &["events"], &["stages"], &import, &export];
    for command in all {
        refuses(command, &text, "sda.blktrace.0: none of its lines is an event")?;
        refuses(command, &noise, "noise: is no blktrace file")?;
        refuses(command, &folder.path().join("nowhere"), "nowhere.blktrace.*")?;
        let empty = folder.path().join("empty");
        fs::create_dir_all(&empty).context(|| "make a folder".to_owned())?;
        refuses(command, &empty, "it holds no recording.json and no *.blktrace.*")?;
    }
    assert!(!out.exists(), "nothing is left behind");
    // A capture without events is an answer.
    let nothing = folder.path().join("sdb.blktrace.0");
    write(&nothing, [])?;
    let (report, _) = ask(&["report", "--full"], &nothing)?;
    assert!(report.contains("is empty: that CPU saw no event"), "{report}");
    Ok(())
}

/// More devices than are distinguished: the rest is one, and counted.
fn many_devices_are_aggregated() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    let mut records = Vec::new();
    for number in 0..100_000u32 {
        records
            .extend(RecordBytes { device: number / 5, ..RecordBytes::for_number(number) }.bytes());
    }
    write(&file, records)?;
    let (report, _) = ask(&["report", "--full"], &file)?;
    let head = report.split("DEVICES").next().unwrap_or_default();
    assert!(head.contains("94,880 events are of devices beyond the first 1024"), "{head}");
    assert!(head.contains(" 20,000 requests "), "{head}");
    assert!(report.contains("(further devices)"), "{report}");
    let (stages, _) = ask(&["stages"], &file)?;
    assert!(stages.contains("94,880 events are of devices beyond the first 1024"), "{stages}");
    Ok(())
}

/// Payloads of any length, with a cgroup's id, on notes with stale fields; times before the start
/// and out of order.
fn odd_payloads_and_times_are_read() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    let long = vec![3; 65_535];
    let name = *b"java\0d\0ersLaunc\0";
    let mut records = Vec::new();
    for number in 0..50 {
        let mut record = RecordBytes::for_number(number);
        record.payload = match number {
            10 => &long,
            11 => &[1, 2, 3],
            _ => &[],
        };
        records.extend(record.bytes());
        let stale = RecordBytes { sequence: u32::MAX, sector: u64::MAX, time: 7, ..record };
        records.extend(RecordBytes { action: 0x400_0000, payload: &name, ..stale }.bytes());
        let message = RecordBytes { time: record.time, action: 0x400_0102, ..stale };
        records.extend(RecordBytes { payload: b"cgroupidbfq says", ..message }.bytes());
    }
    write(&file, records)?;
    let (text, beside) = ask(&["events", "-q"], &file)?;
    assert_eq!(text.matches("[java]").count(), 40, "{text}");
    assert_eq!(text.matches(" m   N bfq says").count(), 50, "{text}");
    assert!(!beside.contains("sequence"), "stale numbers are no gaps: {beside}");

    let late = fifty(|n, record| record.time -= if n == 20 { 900_000 } else { 0 });
    write(&file, late.concat())?;
    all_say(&file, "1 event is earlier than the one before it", 10)
}

/// A write with a flush around it ends twice, the second time without data: that is not the end of
/// an older flush, whose own end was lost.
fn a_second_end_is_no_flush() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    let at = |action, sector, bytes, step: u32| RecordBytes {
        action,
        sector,
        bytes,
        time: 1000 * u64::from(step),
        sequence: step,
        ..RecordBytes::for_number(0)
    };
    let (queue, get, issue, complete) = (0x1e_0001, 0x1e_0004, 0x4a_0007, 0x8a_0008);
    let records = [
        at(queue, 0, 0, 1),
        at(get, 0, 0, 2),
        at(queue, 64, 4096, 3),
        at(get, 64, 4096, 4),
        at(issue, 64, 4096, 5),
        at(complete, 64, 4096, 6),
        at(complete, 64, 0, 7),
    ];
    write(&file, records.iter().flat_map(RecordBytes::bytes).collect::<Vec<_>>())?;
    let (stages, _) = ask(&["stages", "--json"], &file)?;
    let json: serde_json::Value =
        serde_json::from_str(&stages).context(|| "read its JSON".to_owned())?;
    let completed = |what: &str| json["devices"][0][what]["requests"].as_u64();
    assert_eq!((completed("writes"), completed("flushes")), (Some(1), Some(0)), "{stages}");
    Ok(())
}

/// Every second read has lost its completion: what is open at the end is no stall.
fn many_ends_are_lost() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    let mut records = Vec::new();
    // A read every tenth of a second, a minute long; no completion in the last half.
    for number in 0..3000u32 {
        let (read, step) = (u64::from(number / 5), u64::from(number % 5));
        let time = 1_000_000 + read * 100_000_000 + step * 1000;
        let lost = number % 5 == 4 && (read % 2 == 0 || read > 300);
        if !lost {
            records.extend(RecordBytes { time, ..RecordBytes::for_number(number) }.bytes());
        }
    }
    write(&file, records)?;
    let (report, _) = ask(&["report", "--full"], &file)?;
    let head = report.split("DEVICES").next().unwrap_or_default();
    assert!(head.contains("requests that were issued but never completed"), "{head}");
    assert!(head.contains("their time is not counted") && !head.contains("stall"), "{head}");
    Ok(())
}

fn a_source_must_fit_its_command() -> Result<()> {
    let folder = folder()?;
    let file = folder.path().join("sda.blktrace.0");
    write(&file, plain().concat())?;
    let recording = folder.path().join("recording");
    let into = recording.to_string_lossy();
    ask(&["import", "-o", &into], &file)?;
    let exists = "it exists and is not empty";
    refuses(&["import", "-o", &into], &file, exists)?;
    refuses(&["export", "--format", "blktrace", "-o", &into], &file, exists)?;
    refuses(&["import", "-o", "/dev/null/x"], &recording, "it is a recording")?;
    for command in [&["events"][..], &["stages", "--btt-compat"], &["stages", "-l", "x"]] {
        refuses(command, &recording, "it holds none")?;
    }
    refuses(&["report", &into], &file, "a recording is read alone")?;
    refuses(&["events", "-d", "sdz"], &file, "failed to find device sdz")?;
    let flags = ["export", "--format", "blktrace", "--flags", "M", "-o", "/dev/null/x"];
    refuses(&flags, &file, "--flags M")?;
    // Stages need no events, and are the same from either.
    let (of_requests, _) = ask(&["stages"], &recording)?;
    let (of_events, _) = ask(&["stages"], &file)?;
    for stage in ["Q2G", "G2I", "I2D", "D2C", "Q2C", "Q2Q"] {
        let line = |text: &str| {
            let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let mut rows = rows.filter(|words| words.first() == Some(&stage));
            rows.next().map(|words| words.join(" "))
        };
        assert!(line(&of_events).is_some(), "{stage}: {of_events}");
        assert_eq!(line(&of_requests), line(&of_events));
    }
    Ok(())
}
