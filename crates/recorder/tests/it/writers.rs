//! Days of the account of writers in scripted time: rows as from the kernel go through the
//! analysis, the account and the files, and the answer is compared with the planted figures.

use crate::host::ALONE;
use iowhy_analysis::{Summarizer, Summary};
use iowhy_model::file::Counts;
use iowhy_model::script::Script;
use iowhy_model::source::Batch;
use iowhy_model::{Metric, Name, Origin};
use iowhy_recorder::history::HistoryLimits;
use iowhy_recorder::writers::WriterKind;
use iowhy_recorder::writers::account::{MinuteSpan, WriterAccount, written_by_rows};
use iowhy_recorder::writers::files::{WriterFiles, WriterSeries};
use iowhy_recorder::writers::question::{GroupedBy, WriterAnswer, WriterQuestion, answer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

const LIMITS: HistoryLimits = HistoryLimits { days: 31, bytes: 200_000_000 };
/// The beginning of the scripted day: midnight in UTC.
const DAY_S: i64 = 1_795_651_200;
const PAGE: u64 = 4096;

/// A host whose minutes are scripted.
struct WritingHost {
    account: WriterAccount,
    files: WriterFiles,
    script: Script,
    /// The kernel's counter of bytes written to sda.
    written: u64,
    /// The bytes planted, by program.
    truth: BTreeMap<String, u64>,
}

impl WritingHost {
    fn new(folder: &Path) -> WritingHost {
        let mut host = WritingHost {
            account: WriterAccount::new(&[]),
            files: WriterFiles::below(folder),
            script: Script::new(60),
            written: 1 << 40,
            truth: BTreeMap::new(),
        };
        // The first sample of a watch comes before its rows.
        host.script.sample(0, Metric::WriteBytes, "sda", host.written as f64);
        let batch = std::mem::take(&mut host.script.batch);
        host.account.look(&batch, &host.script.names);
        host
    }

    /// A program appends to a file: `count` writes of `asked` bytes, each a page on the device,
    /// of which one in `one_in` has a record.
    fn appends(&mut self, who: (u32, &str), file: &str, count: u64, (asked, one_in): (u64, u32)) {
        let count = count / u64::from(one_in) * u64::from(one_in);
        let container = self.script.names.intern(&format!("{}.service", who.1));
        for index in 0..count / u64::from(one_in) {
            let mut write = self.script.write("sda", PAGE).by(who.0, who.1).file(file);
            write.request.origin = Origin::Writeback;
            write.request.cgroup = Some(container);
            write.request.container = Some(container);
            write.request.weight = (one_in > 1).then_some(one_in);
            write.at(index as i64 * 1_000_000).direct(1, 2, 3_000).add();
        }
        let counts = Counts { writes: count, write_bytes: count * asked, ..Counts::default() };
        let device: Name = self.script.names.intern("sda");
        let row = self.script.did(who, file, counts);
        (row.container, row.device, row.files) = (Some(container), Some(device), Some(1));
        let bytes = count * PAGE;
        self.written += bytes;
        *self.truth.entry(who.1.to_owned()).or_default() += bytes;
    }

    fn summary(&mut self, batch: &Batch) -> Summary {
        let mut summarizer = Summarizer::new(&self.script.environment).with_writers();
        summarizer.add(batch, &self.script.names);
        summarizer.finish(&self.script.environment, &self.script.names)
    }

    /// Ends a minute that began at `time_s`.
    fn end_minute(&mut self, time_s: i64) {
        self.script.sample(59_000_000_000, Metric::WriteBytes, "sda", self.written as f64);
        let batch = std::mem::take(&mut self.script.batch);
        let summary = self.summary(&batch);
        self.account.look(&batch, &self.script.names);
        self.account.add(&summary);
        let span = MinuteSpan { time_s, until_s: time_s + 60, watched_s: 60 };
        let (minute, hours) = self.account.end_minute(span, &BTreeMap::new());
        self.append(WriterSeries::Minutes, &[minute]);
        self.append(WriterSeries::Hours, &hours);
    }

    fn append(&self, series: WriterSeries, records: &[iowhy_recorder::writers::WriterRecord]) {
        for record in records {
            let line = serde_json::to_string(record).unwrap();
            self.files.append(series, record.time_s, &line, LIMITS).unwrap();
        }
    }

    fn answer(&self, by: GroupedBy, hours: i64) -> WriterAnswer {
        let (from_s, until_s) = (DAY_S, DAY_S + hours * 3_600);
        let records = self.files.records(from_s, until_s).unwrap();
        answer(&records, &WriterQuestion { by, device: None, file: None, from_s, until_s })
    }
}

/// Numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % most.max(1)
    }
}

/// Twenty programs for a day, of which the large ones are thinned; and in each minute a program of
/// one second, whose name, file and container never come again.
#[test]
fn a_day_of_twenty_programs_is_told_in_order_and_to_the_byte() {
    // Held because another test measures the memory of this process.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut host = WritingHost::new(folder.path());
    let mut dice = Dice(1);
    for minute in 0..24 * 60 {
        for program in 0..20_u64 {
            let name = format!("svc-{}", char::from(b'a' + program as u8));
            let count = (160 / (program + 1)) * (50 + dice.below(100)) / 100;
            let one_in = if program < 5 { 8 } else { 1 };
            let file = format!("/srv/{name}/{}.log", dice.below(1_000_000));
            host.appends((100 + program as u32, &name), &file, count, (200, one_in));
        }
        let name = format!("job-{minute}");
        host.appends((5_000, &name), &format!("/srv/jobs/{name}x/out"), 1, (PAGE, 1));
        host.end_minute(DAY_S + minute * 60);
    }
    let asked = host.answer(GroupedBy::Program, 24);
    let mut truth: Vec<(&String, &u64)> =
        host.truth.iter().filter(|(name, _)| name.starts_with("svc")).collect();
    truth.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let programs: Vec<_> =
        asked.rows.iter().filter(|row| row.kind == WriterKind::Program).collect();
    for ((name, bytes), row) in truth.iter().zip(&programs).take(10) {
        assert_eq!((&row.program, &row.container), (*name, &format!("{name}.service")));
        let ratio = row.written_bytes as f64 / **bytes as f64;
        assert!((0.95..1.05).contains(&ratio), "{name}: {} of {bytes}", row.written_bytes);
        let factor = row.amplification.unwrap();
        assert!((19.0..22.0).contains(&factor), "a page for 200 bytes: {factor}");
    }
    assert_eq!(asked.watched_s, 86_400);
    let counted = asked.devices.iter().find(|one| one.device == "sda").unwrap().written_bytes;
    assert_eq!(counted, host.written - (1 << 40));
    for hour in 0..24 {
        let from_s = DAY_S + hour * 3_600;
        let records = host.files.records(from_s, from_s + 3_600).unwrap();
        let exact: u64 = records.iter().map(|record| record.devices["sda"].written).sum();
        let rows: u64 = records.iter().map(|record| written_by_rows(&record.rows, "sda")).sum();
        let ratio = rows as f64 / exact as f64;
        assert!((0.98..1.02).contains(&ratio), "hour {hour}: {rows} of {exact}");
    }
    // A month of such a host: two days of minutes, and hours.
    let bytes = iowhy_recorder::disk::bytes_below(folder.path());
    let hours = iowhy_recorder::disk::bytes_below(&folder.path().join("history/writers/hours"));
    let month = 2 * (bytes - hours) + 31 * hours;
    assert!(month < 25_000_000, "{bytes} bytes a day, {hours} of them hours");
}

/// The journal of a file system is due to the program that syncs, not to the thread that writes it.
#[test]
fn a_log_line_costs_its_page_and_the_journal_of_its_sync() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = WritingHost::new(folder.path());
    for minute in 0..3 {
        host.script.process(90, "jbd2/sda1-8", "/", "/");
        host.appends((7, "logger"), "/var/log/app.log", 60, (200, 1));
        host.appends((8, "cp"), "/srv/big", 600, (PAGE, 1));
        let row = host.script.batch.files.first_mut().unwrap();
        row.fsyncs = 60;
        for _ in 0..60 {
            let mut journal = host.script.write("sda", 3 * PAGE).by(90, "jbd2/sda1-8");
            journal.request.origin = Origin::Journal;
            journal.direct(1, 2, 3).add();
            host.written += 3 * PAGE;
        }
        host.end_minute(DAY_S + minute * 60);
    }
    let answer = host.answer(GroupedBy::File, 1);
    let find = |file: &str| answer.rows.iter().find(|row| row.file.as_deref() == Some(file));
    let log = find("/var/log/app.log").unwrap();
    assert_eq!(log.file_class.as_deref(), Some("message log"));
    // 81.92 bytes for each byte asked, within 10 %.
    let factor = log.amplification.unwrap();
    assert!((73.8..90.1).contains(&factor), "{factor}");
    let each = log.bytes_per_sync.unwrap();
    assert!((14_700.0..18_000.0).contains(&each), "{each}");
    assert!(find("/srv/big").unwrap().amplification.unwrap() < 1.1);
    assert!(answer.rows.iter().all(|row| row.program != "jbd2/sda1-8"), "{:?}", answer.rows);
}

/// A clock that is set back and forth: every byte is told once.
#[test]
fn a_clock_that_jumps_counts_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = WritingHost::new(folder.path());
    let back = (0..40).chain(10..30).chain(200..230);
    for minute in back {
        host.appends((7, "db"), "/db/data", 10, (PAGE, 1));
        host.end_minute(DAY_S + minute * 60);
    }
    host.account.end_hour().map(|hour| host.append(WriterSeries::Hours, &[hour])).unwrap();
    let answer = host.answer(GroupedBy::Program, 24);
    assert_eq!(answer.rows[0].written_bytes, host.truth["db"]);
    assert_eq!(answer.watched_s, 90 * 60);
}

/// After the daemon was killed, the minutes stand for the hour.
#[test]
fn a_killed_daemon_loses_a_minute_and_lines_of_others_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = WritingHost::new(folder.path());
    for minute in 0..90 {
        host.appends((7, "db"), "/db/data", 10, (PAGE, 1));
        host.end_minute(DAY_S + minute * 60);
    }
    for line in ["{\"time_s\":", "{\"time_s\":1795651260,\"rows\":[{\"new\":1}]}", "[]", "\u{0}"] {
        host.files.append(WriterSeries::Minutes, DAY_S, line, LIMITS).unwrap();
    }
    let answer = host.answer(GroupedBy::Program, 24);
    assert_eq!(answer.rows[0].written_bytes, host.truth["db"]);
    assert_eq!(answer.watched_s, 90 * 60);
}

/// Hostile names of files and programs are kept as they are.
#[test]
fn thousands_of_programs_and_hostile_names_stay_bounded() {
    // Held because another test measures the memory of this process.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let mut host = WritingHost::new(folder.path());
    for minute in 0..3_u32 {
        for job in 0..6_000_u32 {
            // Letters, so that no number folds them.
            let letter = |place: u32| char::from(b'a' + (job / 26_u32.pow(place) % 26) as u8);
            let name = format!("j{}{}{}", letter(0), letter(1), letter(2));
            let file = format!("/tmp/\u{1b}[2J{}{}", "x".repeat(4_000), name);
            host.appends((10 + job, &name), &file, 1, (100, 1));
        }
        host.end_minute(DAY_S + i64::from(minute) * 60);
    }
    let text =
        std::fs::read_to_string(folder.path().join("history/writers/minutes/2026-11-26.jsonl"));
    let longest = text.unwrap().lines().map(str::len).max().unwrap();
    assert!(longest < 20_000, "{longest}");
    let answer = host.answer(GroupedBy::Program, 24);
    let told: u64 = answer.rows.iter().map(|row| row.written_bytes).sum();
    assert_eq!(told, host.written - (1 << 40));
    let page =
        iowhy_recorder::writers::text::page(&answer, 30, &iowhy_views::style::Style::plain(80));
    assert!(
        !page.contains('\u{1b}') && page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
}
