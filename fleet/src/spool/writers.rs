//! The recorder's files of who writes: `history/writers/minutes` for two days, and
//! `history/writers/hours` for as long as the history is kept.
//!
//! Minutes belong to their windows. An hour without minutes belongs to its first window: a host
//! that was without a network for days sends it so.
//!
//! What does not belong here: the limits of the rows that are sent (`writers`).

use super::{MOST_NAME, Spool, cut, lines_of};
use crate::clock::WINDOW_S;
use crate::error::Result;
use crate::upload::{MOST_COUNT, Upload, UploadWriter};
use crate::writers::{KINDS, WriterId, WriterRows, WriterSums, bounded};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of a window while it is read; a minute has about fifty.
const MOST_ROWS: usize = 4096;

/// A line of either file.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolRecord {
    time_s: i64,
    until_s: i64,
    rows: Vec<SpoolRow>,
}

/// A row, with the recorder's short names.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SpoolRow {
    #[serde(rename = "k")]
    kind: Option<String>,
    #[serde(rename = "p")]
    program: String,
    #[serde(rename = "c")]
    container: String,
    #[serde(rename = "f")]
    file: String,
    #[serde(rename = "d")]
    device: String,
    #[serde(rename = "b")]
    below: bool,
    #[serde(rename = "asked")]
    asked_bytes: u64,
    #[serde(rename = "calls")]
    asked_calls: u64,
    syncs: u64,
    #[serde(rename = "data")]
    data_bytes: u64,
    #[serde(rename = "journal")]
    journal_bytes: u64,
    #[serde(rename = "metadata")]
    metadata_bytes: u64,
    #[serde(rename = "discard")]
    discarded_bytes: u64,
    #[serde(rename = "read")]
    read_bytes: u64,
    #[serde(rename = "reqs")]
    requests: u64,
    wakes: u64,
}

impl SpoolRow {
    /// Its parts; `None` of a kind that only a later recorder knows.
    fn parts(self) -> Option<(WriterId, WriterSums)> {
        let default = WriterId::default();
        let kind = self.kind.unwrap_or(default.kind);
        let name = |text: String| cut(text, MOST_NAME);
        let id = WriterId {
            program: name(self.program),
            container: name(self.container),
            file: name(self.file),
            device: name(self.device),
            below: self.below,
            kind,
        };
        let sums = WriterSums {
            asked_bytes: self.asked_bytes,
            asked_calls: self.asked_calls,
            syncs: self.syncs,
            data_bytes: self.data_bytes,
            journal_bytes: self.journal_bytes,
            metadata_bytes: self.metadata_bytes,
            discarded_bytes: self.discarded_bytes,
            read_bytes: self.read_bytes,
            requests: self.requests,
            wakes: self.wakes,
        };
        KINDS.contains(&id.kind.as_str()).then_some((id, sums))
    }
}

/// Adds rows to those of a window.
fn add(rows: &mut WriterRows, record: SpoolRecord) {
    for (id, sums) in record.rows.into_iter().filter_map(SpoolRow::parts) {
        rows.entry(id).or_default().add(&sums);
        if rows.len() >= MOST_ROWS {
            *rows = bounded(std::mem::take(rows));
        }
    }
}

/// Adds who writes to the windows of `uploads`, seconds since 1970 by window.
///
/// # Errors
/// Fails if a file exists and cannot be read.
pub(super) fn add_to(spool: &Spool, uploads: &mut BTreeMap<i64, Upload>) -> Result<()> {
    let mut windows: BTreeMap<i64, (WriterRows, BTreeSet<i64>)> = BTreeMap::new();
    let folder = spool.directory.join("history/writers");
    lines_of(&folder.join("minutes"), |minute: SpoolRecord| {
        let window_s = minute.time_s.div_euclid(WINDOW_S) * WINDOW_S;
        if uploads.contains_key(&window_s) {
            let (rows, seen) = windows.entry(window_s).or_default();
            // A minute with two lines counts once, as in the history.
            if seen.insert(minute.time_s.div_euclid(60)) {
                add(rows, minute);
            }
        }
    })?;
    lines_of(&folder.join("hours"), |hour: SpoolRecord| {
        let begin_s = hour.time_s.div_euclid(WINDOW_S) * WINDOW_S;
        let end_s = hour.until_s.clamp(begin_s, begin_s.saturating_add(6 * WINDOW_S));
        let has_minutes = windows.range(begin_s..end_s).next().is_some();
        let first = uploads.range(begin_s..end_s).next().filter(|_| !has_minutes);
        if let Some((window_s, _)) = first {
            add(&mut windows.entry(*window_s).or_default().0, hour);
        }
    })?;
    for (window_s, (rows, _)) in windows {
        if let Some(upload) = uploads.get_mut(&window_s) {
            upload.writers = bounded(rows).into_iter().map(writer).collect();
        }
    }
    Ok(())
}

fn writer((id, mut sums): (WriterId, WriterSums)) -> UploadWriter {
    // One impossible figure would have all of the window refused.
    for figure in sums.figures_mut() {
        *figure = (*figure).min(MOST_COUNT);
    }
    UploadWriter { id, sums }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::UploadHost;
    use std::fs;

    const START_S: i64 = 1_763_942_400;

    fn record(time_s: i64, length_s: i64, bytes: u64) -> String {
        format!(
            r#"{{"time_s":{time_s},"until_s":{},"watched_s":60,"rows":[{{"p":"x","f":"/a","d":"sda",
            "asked":{bytes},"data":{bytes},"journal":1}},{{"k":"unseen","d":"sda","data":2}},
            {{"k":"later","d":"sda","data":9}}]}}"#,
            time_s + length_s
        )
        .replace('\n', "")
    }

    /// Windows of a spool with so many minutes of history, and lines of minutes and hours.
    fn windows(history: i64, minutes: &[String], hours: &[String]) -> Vec<Upload> {
        let folder = tempfile::tempdir().unwrap();
        let write = |series: &str, lines: &[String]| {
            let path = folder.path().join(series);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("2025-11-24.jsonl"), lines.join("\n")).unwrap();
        };
        let line = |minute: i64| format!(r#"{{"time_s":{}}}"#, START_S + minute * 60);
        write("history", &(0..history).map(line).collect::<Vec<_>>());
        write("history/writers/minutes", minutes);
        write("history/writers/hours", hours);
        let spool = Spool::new(folder.path().to_owned());
        spool.windows(0, i64::MAX, &UploadHost::default()).unwrap()
    }

    fn data_bytes(upload: &Upload) -> u64 {
        upload.writers.iter().map(|row| row.sums.data_bytes).sum()
    }

    #[test]
    fn minutes_add_up_to_their_window_and_hours_count_once() {
        let mut minutes: Vec<String> =
            (0..20).map(|minute| record(START_S + minute * 60, 60, 100)).collect();
        minutes.insert(3, minutes[2].clone());
        minutes.push("{\"time_s\": 17".to_owned());
        let uploads = windows(20, &minutes, &[record(START_S, 3600, 1_000_000)]);
        assert_eq!(uploads.iter().map(data_bytes).collect::<Vec<_>>(), [1020, 1020]);
        let program = &uploads[0].writers[0];
        assert_eq!((program.id.program.as_str(), program.sums.journal_bytes), ("x", 10));
        assert_eq!(uploads[0].writers.len(), 2, "what no program here knows is left out");
    }

    #[test]
    fn an_hour_stands_for_minutes_that_are_gone() {
        let hours = [record(START_S, 3600, 500), record(START_S + 3600, 3600, 700)];
        let uploads = windows(120, &[], &hours);
        let bytes: Vec<u64> = uploads.iter().map(data_bytes).collect();
        assert_eq!((uploads.len(), bytes[0], bytes[6]), (12, 502, 702));
        assert_eq!(bytes.iter().sum::<u64>(), 1204);
    }

    #[test]
    fn a_minute_of_many_rows_is_one_that_the_store_takes() {
        let row = |at: u64| format!(r#"{{"p":"p{at}","f":"/f{at}","d":"sda","data":{at}}}"#);
        let rows = (0..20_000).map(row).collect::<Vec<_>>().join(",");
        let line = format!(r#"{{"time_s":{START_S},"until_s":{},"rows":[{rows}]}}"#, START_S + 60);
        let huge = format!(
            r#"{{"time_s":{},"rows":[{{"p":"{}","data":{}}}]}}"#,
            START_S + 60,
            "x".repeat(9000),
            u64::MAX
        );
        let uploads = windows(10, &[line, huge], &[]);
        let upload = &uploads[0];
        assert_eq!(Upload::decode(&upload.name(), &upload.encode().unwrap()).as_ref(), Ok(upload));
        assert!(upload.writers.len() < 100);
    }
}
