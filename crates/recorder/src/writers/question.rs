//! Answers from rows: who wrote most, at which cost, and until when a drive lasts.
//!
//! A program's sum counts each byte once: of stacked devices, that of the upper one. A device's sum
//! has all bytes of the device.
//!
//! What does not belong here: the answer's text ([`super::text`]).

use super::over_days::OverDaysFinding;
use super::{DeviceBytes, DriveWear, WriterId, WriterKind, WriterRecord, WriterRow, WriterSums};
use iowhy_diagnosis::programs;
use iowhy_model::compact_sort::CompactSort;
use serde::Serialize;
use std::collections::BTreeMap;

/// The key by which rows are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupedBy {
    /// By the program and its container.
    Program,
    /// By the file and the program that uses it.
    File,
}

/// A question about who writes.
#[derive(Clone, Debug)]
pub struct WriterQuestion {
    /// The key by which rows are grouped.
    pub by: GroupedBy,
    /// The only device; `None` for all.
    pub device: Option<String>,
    /// A part of the names of the files; `None` for all files.
    pub file: Option<String>,
    /// The beginning, seconds since 1970.
    pub from_s: i64,
    /// The end, which does not belong to it.
    pub until_s: i64,
}

/// One row of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AnswerRow {
    /// The kind of the row: a program, unknown, others, unseen.
    pub kind: WriterKind,
    /// The program.
    pub program: String,
    /// Its container or systemd unit.
    pub container: String,
    /// The file, where files are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The role of the file for its program, where files are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_class: Option<String>,
    /// The devices.
    pub devices: Vec<String>,
    /// Bytes that devices wrote.
    pub written_bytes: u64,
    /// Bytes that devices wrote for each byte of the calls; `None` if a file is written through a
    /// mapping, or no call was counted.
    pub amplification: Option<f64>,
    /// Bytes that devices wrote for each sync; `None` without any.
    pub bytes_per_sync: Option<f64>,
    /// Its figures, by name.
    #[serde(flatten)]
    pub sums: BTreeMap<&'static str, u64>,
}

/// One device of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AnswerDevice {
    /// The device.
    pub device: String,
    /// Bytes that the kernel counted as written.
    pub written_bytes: u64,
    /// Bytes that the kernel counted as read.
    pub read_bytes: u64,
    /// Bytes that the kernel counted as discarded.
    pub discarded_bytes: u64,
    /// Bytes written, of which no record shows who wrote them.
    pub unseen_bytes: u64,
    /// The number of times it was woken.
    pub wakes: u64,
    /// The used part of its life, percent; `None` if it does not say.
    pub used_percent: Option<f64>,
    /// Days until it is worn, at this rate; `None` if that is not known.
    pub worn_in_days: Option<f64>,
}

/// A program that woke a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AnswerWake {
    /// The device.
    pub device: String,
    /// The program; empty if it is not known.
    pub program: String,
    /// Its container or systemd unit.
    pub container: String,
    /// The file; empty if it is not known.
    pub file: String,
    /// The number of wakes.
    pub wakes: u64,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WriterAnswer {
    /// The beginning, seconds since 1970.
    pub from_s: i64,
    /// The end.
    pub until_s: i64,
    /// The part of it that was watched, seconds.
    pub watched_s: u64,
    /// The key by which rows are grouped.
    pub by: GroupedBy,
    /// The rows, the one that wrote most first.
    pub rows: Vec<AnswerRow>,
    /// The devices.
    pub devices: Vec<AnswerDevice>,
    /// Programs that woke idle devices, most often first.
    pub wakes: Vec<AnswerWake>,
    /// Findings over days.
    pub findings: Vec<OverDaysFinding>,
}

/// Returns the role of a file for its program, in words.
pub fn file_class(program: &str, file: &str) -> String {
    if let Some(word) = file.strip_prefix('(') {
        return word.trim_end_matches(')').to_owned();
    }
    let known = programs::of(Some(program), Some(file));
    if let Some((known, role)) = known.and_then(|known| Some((known, known.role(file)?))) {
        return known.phrase(role).to_owned();
    }
    const CLASSES: [(&str, &str); 9] = [
        ("/var/log/", "message log"),
        ("/tmp/", "temporary files"),
        ("/var/tmp/", "temporary files"),
        ("/var/cache/", "cache"),
        ("/home/", "home directory"),
        ("/root/", "home directory"),
        ("/usr/", "programs"),
        ("/dev/", "block device"),
        ("", "other files"),
    ];
    let class = CLASSES.iter().find(|(beginning, _)| file.starts_with(beginning));
    class.filter(|_| !file.is_empty()).map_or("not known", |(_, class)| class).to_owned()
}

/// Answers a question from the records of its time.
pub fn answer(records: &[WriterRecord], question: &WriterQuestion) -> WriterAnswer {
    let watched_s = records.iter().map(|record| record.watched_s).fold(0, u64::saturating_add);
    let rows = || records.iter().flat_map(|record| &record.rows).filter(|row| fits(row, question));
    WriterAnswer {
        from_s: records.first().map_or(question.from_s, |record| record.time_s),
        until_s: records.last().map_or(question.until_s, |record| record.until_s),
        watched_s,
        by: question.by,
        rows: grouped(rows(), question),
        devices: devices(records, question, watched_s),
        wakes: wakes(rows()),
        findings: Vec::new(),
    }
}

/// Returns the bytes per second that devices wrote for the question, in `parts` equal parts of the
/// time of the records.
pub fn written_over_time(
    records: &[WriterRecord],
    question: &WriterQuestion,
    parts: usize,
) -> Vec<f64> {
    let from_s = records.first().map_or(question.from_s, |record| record.time_s);
    let until_s = records.last().map_or(question.until_s, |record| record.until_s);
    let part_s = (until_s - from_s).max(1) as f64 / parts.max(1) as f64;
    let mut values = vec![0.0; parts];
    for record in records {
        let rows = record.rows.iter().filter(|row| fits(row, question));
        let bytes = rows.map(|row| row.sums.written_bytes()).fold(0, u64::saturating_add) as f64;
        let (begin, end) = ((record.time_s - from_s) as f64, (record.until_s - from_s) as f64);
        let first = (begin / part_s).max(0.0) as usize;
        for (place, value) in values.iter_mut().enumerate().skip(first) {
            let (own_begin, own_end) = (place as f64 * part_s, (place + 1) as f64 * part_s);
            if own_begin >= end {
                break;
            }
            // Shared out by overlap, since an hour is one record.
            let overlap = (end.min(own_end) - begin.max(own_begin)).max(0.0);
            *value += bytes * overlap / (end - begin).max(1.0) / part_s;
        }
    }
    values
}

fn fits(row: &WriterRow, question: &WriterQuestion) -> bool {
    let id = &row.id;
    let is_counted = match &question.device {
        Some(device) => id.device == *device,
        None => !id.is_below,
    };
    is_counted && question.file.as_ref().is_none_or(|part| id.file.contains(part.as_str()))
}

fn grouped<'a>(
    rows: impl Iterator<Item = &'a WriterRow>,
    question: &WriterQuestion,
) -> Vec<AnswerRow> {
    let by_file = question.by == GroupedBy::File;
    let mut groups: BTreeMap<WriterId, (WriterSums, Vec<String>)> = BTreeMap::new();
    for row in rows {
        let file = if by_file { row.id.file.clone() } else { String::new() };
        let key = WriterId { device: String::new(), is_below: false, file, ..row.id.clone() };
        let (sums, devices) = groups.entry(key).or_default();
        sums.add(&row.sums);
        if !row.id.device.is_empty() && !devices.contains(&row.id.device) {
            devices.push(row.id.device.clone());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.compact_sort_by_key(|(_, (sums, _))| {
        std::cmp::Reverse((sums.weight(), sums.read_bytes, sums.requests))
    });
    groups.into_iter().map(|(id, (sums, devices))| row(id, sums, devices, by_file)).collect()
}

fn row(id: WriterId, sums: WriterSums, devices: Vec<String>, by_file: bool) -> AnswerRow {
    let class = by_file.then(|| file_class(&id.program, &id.file));
    let written_bytes = sums.written_bytes();
    AnswerRow {
        kind: id.kind,
        program: id.program,
        container: id.container,
        file: by_file.then_some(id.file),
        file_class: class,
        devices,
        written_bytes,
        amplification: sums.amplification(),
        bytes_per_sync: (sums.syncs > 0).then(|| written_bytes as f64 / sums.syncs as f64),
        sums: sums.named().into_iter().collect(),
    }
}

fn devices(
    records: &[WriterRecord],
    question: &WriterQuestion,
    watched_s: u64,
) -> Vec<AnswerDevice> {
    let mut all: BTreeMap<&String, DeviceBytes> = BTreeMap::new();
    for (device, bytes) in records.iter().flat_map(|record| &record.devices) {
        all.entry(device).or_default().add(bytes);
    }
    all.retain(|device, _| question.device.as_ref().is_none_or(|only| only == *device));
    let mut devices: Vec<AnswerDevice> = all
        .into_iter()
        .map(|(device, bytes)| {
            let own = records.iter().flat_map(|record| &record.rows);
            let own = own.filter(|row| row.id.device == *device);
            let unseen = own.clone().filter(|row| row.id.kind == WriterKind::Unseen);
            let wear = records.iter().rev().find_map(|record| record.drives.get(device));
            AnswerDevice {
                device: device.clone(),
                written_bytes: bytes.written,
                read_bytes: bytes.read,
                discarded_bytes: bytes.discarded,
                unseen_bytes: unseen.map(|row| row.sums.written_bytes()).sum(),
                wakes: own.map(|row| row.sums.wakes).sum(),
                used_percent: wear.map(|wear| wear.used_percent),
                worn_in_days: wear.and_then(|wear| worn_in_days(wear, bytes.written, watched_s)),
            }
        })
        .collect();
    devices.compact_sort_by_key(|device| std::cmp::Reverse(device.written_bytes));
    devices
}

/// Returns the days until a drive is worn, if it is written to as in the watched time: until the
/// share that it reports as used, for the bytes until now, is 100 percent. `None` if it counts no
/// bytes, or if too little of it is used to tell.
fn worn_in_days(wear: &DriveWear, written: u64, watched_s: u64) -> Option<f64> {
    const LEAST_USED_PERCENT: f64 = 1.0;
    const LEAST_WATCHED_S: u64 = 3_600;
    let so_far = wear.written_bytes.filter(|_| wear.used_percent >= LEAST_USED_PERCENT)?;
    if watched_s < LEAST_WATCHED_S || written == 0 {
        return None;
    }
    let endurance = so_far as f64 / wear.used_percent * 100.0;
    let left = (endurance - so_far as f64).max(0.0);
    Some(left / (written as f64 / watched_s as f64 * 86_400.0))
}

fn wakes<'a>(rows: impl Iterator<Item = &'a WriterRow>) -> Vec<AnswerWake> {
    let mut all: BTreeMap<(&str, &str, &str, &str), u64> = BTreeMap::new();
    for row in rows.filter(|row| row.sums.wakes > 0) {
        let WriterId { device, program, container, file, .. } = &row.id;
        let key = (device.as_str(), program.as_str(), container.as_str(), file.as_str());
        *all.entry(key).or_default() += row.sums.wakes;
    }
    let mut wakes: Vec<AnswerWake> = all
        .into_iter()
        .map(|((device, program, container, file), wakes)| AnswerWake {
            device: device.to_owned(),
            program: program.to_owned(),
            container: container.to_owned(),
            file: file.to_owned(),
            wakes,
        })
        .collect();
    wakes.compact_sort_by_key(|wake| std::cmp::Reverse(wake.wakes));
    wakes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_over_time_adds_up() {
        let record = |time_s: i64, length_s: i64, data_bytes: u64| {
            let sums = WriterSums { data_bytes, ..WriterSums::default() };
            let rows = vec![WriterRow { sums, ..WriterRow::default() }];
            let until_s = time_s + length_s;
            WriterRecord { time_s, until_s, rows, ..WriterRecord::default() }
        };
        let records = [record(0, 3_600, 7_200), record(75, 0, 0), record(3_600, 60, 600)];
        let question = WriterQuestion {
            by: GroupedBy::Program,
            device: None,
            file: None,
            from_s: 0,
            until_s: 1,
        };
        for parts in [1, 7, 61] {
            let values = written_over_time(&records, &question, parts);
            let bytes = values.iter().sum::<f64>() * 3_660.0 / parts as f64;
            assert!((bytes - 7_800.0).abs() < 0.1, "{parts}: {bytes}");
        }
        assert!((written_over_time(&records, &question, 61)[60] - 10.0).abs() < 1e-6);
        assert_eq!(written_over_time(&[], &question, 3), [0.0; 3]);
    }

    #[test]
    fn a_drive_is_worn_when_it_took_what_it_was_made_for() {
        // Half used after 500 TB: another 500 TB, at 1 TB a day.
        let wear = DriveWear { used_percent: 50.0, written_bytes: Some(500_000_000_000_000) };
        let days = worn_in_days(&wear, 1_000_000_000_000, 86_400).unwrap();
        assert!((days - 500.0).abs() < 1e-6, "{days}");
        let silent = DriveWear { written_bytes: None, ..wear };
        let new = DriveWear { used_percent: 0.0, ..wear };
        assert_eq!(worn_in_days(&silent, 1, 86_400), None);
        assert_eq!(worn_in_days(&new, 1, 86_400), None);
        assert_eq!(worn_in_days(&wear, 1_000, 60), None);
        let over = DriveWear { used_percent: 120.0, ..wear };
        assert_eq!(worn_in_days(&over, 1_000, 86_400), Some(0.0));
    }

    #[test]
    fn files_have_classes() {
        let of = |program: &str, file: &str| file_class(program, file);
        assert_eq!(of("postgres", "/var/lib/postgresql/N/main/pg_wal/N"), "write-ahead log");
        assert_eq!(of("nginx", "/var/log/nginx/access.log"), "message log");
        assert_eq!(of("kswapd0", "(swap)"), "swap");
        assert_eq!((of("x", ""), of("x", "/srv/a")), ("not known".into(), "other files".into()));
    }
}
