//! Samples become windows of ten minutes, and windows become the tables' hours.
//!
//! A sample with a time covers the time before it. Its mean latency counts for all of its requests:
//! in the histogram, they are in one bin; their sum is exact.
//!
//! What does not belong here: files.

use super::{ColumnMapping, FileColumns, ImportReport, NUMBERS, TEXTS};
use crate::clock::{EARLIEST_S, FleetHour, GivenTime, WINDOW_S, now_s};
use crate::compact::write_hour;
use crate::error::{FleetError, Result};
use crate::histogram::{LatencyBin, add_bins, bin_of};
use crate::layout::HOST_ID_LENGTH;
use crate::store::Place;
use crate::tables::rows::FleetRows;
use crate::upload::{UPLOAD_VERSION, Upload, UploadDrive, UploadFlow, UploadHost};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Windows that are held at once, about 300 bytes each.
const MOST_WINDOWS: usize = 6_000_000;
/// Bytes of a name.
const MOST_NAME: usize = 500;
/// The latency beyond which a sample is a mistake in the data, ns: a day.
const MOST_LATENCY_NS: f64 = 86_400e9;
/// Requests or bytes of a sample beyond which it is a mistake.
const MOST_COUNT: f64 = 1e15;

/// Ten minutes of a series.
#[derive(Default)]
struct SampleWindow {
    flow: UploadFlow,
    /// The beginnings of the samples in it, seconds from its own.
    seen: Vec<u16>,
}

/// All samples that were read.
pub(super) struct SampleWindows {
    pub report: ImportReport,
    every_s: i64,
    request_bytes: u64,
    /// Texts of a series, joined, and its number.
    series: HashMap<String, u32>,
    names: Vec<[String; TEXTS.len()]>,
    windows: HashMap<(u32, i64), SampleWindow>,
    /// The joined texts of a row.
    key: String,
}

/// A sample's figures.
struct Sample {
    begin_s: i64,
    requests: u64,
    bytes: u64,
    latency_ns: f64,
}

impl SampleWindows {
    pub fn new(mapping: &ColumnMapping) -> SampleWindows {
        SampleWindows {
            report: ImportReport::default(),
            every_s: mapping.every_s,
            request_bytes: mapping.request_bytes,
            series: HashMap::new(),
            names: Vec::new(),
            windows: HashMap::new(),
            key: String::new(),
        }
    }

    /// Adds a row; `cell` gives the text of a column.
    pub fn add<'a>(
        &mut self,
        columns: &FileColumns,
        cell: impl Fn(usize) -> Option<&'a str>,
    ) -> Result<()> {
        let sample = match self.sample(columns, &cell) {
            Some(Some(sample)) => sample,
            Some(None) => {
                self.report.empty += 1;
                return Ok(());
            }
            None => {
                self.report.broken += 1;
                return Ok(());
            }
        };
        let Some(series) = self.series_of(columns, &cell) else {
            self.report.broken += 1;
            return Ok(());
        };
        let window_s = sample.begin_s.div_euclid(WINDOW_S) * WINDOW_S;
        if self.windows.len() >= MOST_WINDOWS {
            let message = format!("there are more than {MOST_WINDOWS} windows of ten minutes");
            return Err(FleetError::new(message).hint("import fewer days at once"));
        }
        let window = self.windows.entry((series, window_s)).or_default();
        let at = (sample.begin_s - window_s) as u16;
        if window.seen.contains(&at) {
            self.report.doubled += 1;
            return Ok(());
        }
        window.seen.push(at);
        self.report.samples += 1;
        let latency_ns = sample.latency_ns as u64;
        let flow = &mut window.flow;
        flow.requests += sample.requests;
        flow.bytes = flow.bytes.saturating_add(sample.bytes);
        let time_ns = (sample.latency_ns * sample.requests as f64) as u64;
        flow.time_ns = Some(flow.time_ns.unwrap_or(0).saturating_add(time_ns));
        flow.max_ns = flow.max_ns.max(latency_ns);
        let bin: LatencyBin = (bin_of(latency_ns), sample.requests);
        add_bins(&mut flow.latency, &[bin]);
        Ok(())
    }

    /// The figures of a row; `None` if it cannot be read, nothing inside if there is nothing to
    /// compare.
    fn sample<'a>(
        &self,
        columns: &FileColumns,
        cell: &impl Fn(usize) -> Option<&'a str>,
    ) -> Option<Option<Sample>> {
        let text = |at: usize| columns.numbers[at].and_then(cell);
        let number = |at: usize| match text(at) {
            None | Some("" | "NA" | "NaN" | "nan" | "null" | "NULL" | "-") => Some(None),
            Some(text) => text.parse().ok().filter(|value: &f64| value.is_finite()).map(Some),
        };
        let begin_s = time_s(text(0)?)?.checked_sub(self.every_s)?;
        if !(EARLIEST_S..=now_s()).contains(&begin_s) {
            return None;
        }
        let every_s = self.every_s as f64;
        let (requests, per_s) = (number(1)?, number(2)?);
        let (bytes, bytes_per_s) = (number(3)?, number(4)?);
        let bytes = bytes.or(bytes_per_s.map(|bytes_per_s| bytes_per_s * every_s));
        let requests = requests.or(per_s.map(|per_s| per_s * every_s));
        let requests = requests.or(bytes.map(|byte| byte / self.request_bytes as f64));
        let units = [1e9, 1e6, 1e3, 1.0];
        let mut latency_ns = None;
        for (at, unit) in (5..NUMBERS.len()).zip(units) {
            latency_ns = latency_ns.or(number(at)?.map(|value| value * unit));
        }
        let (Some(requests), Some(latency_ns)) = (requests, latency_ns) else { return Some(None) };
        let requests = requests.round();
        if requests < 0.0 || latency_ns < 0.0 || requests > MOST_COUNT {
            return None;
        }
        if latency_ns > MOST_LATENCY_NS
            || bytes.is_some_and(|bytes| !(0.0..=MOST_COUNT).contains(&bytes))
        {
            return None;
        }
        if requests < 1.0 || latency_ns < 1.0 {
            return Some(None);
        }
        let bytes = bytes.unwrap_or(requests * self.request_bytes as f64) as u64;
        Some(Some(Sample { begin_s, requests: requests as u64, bytes, latency_ns }))
    }

    /// The series of a row; `None` if its host or device has no name, or a name is too long.
    fn series_of<'a>(
        &mut self,
        columns: &FileColumns,
        cell: &impl Fn(usize) -> Option<&'a str>,
    ) -> Option<u32> {
        self.key.clear();
        for parts in &columns.texts {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    self.key.push('-');
                }
                let text = match part {
                    Ok(column) => cell(*column).unwrap_or(""),
                    Err(text) => text,
                };
                // Each row may name the same long text.
                if text.len() > MOST_NAME {
                    return None;
                }
                self.key.push_str(text);
            }
            self.key.push('\n');
        }
        if let Some(number) = self.series.get(self.key.as_str()) {
            return Some(*number);
        }
        let mut names: [String; TEXTS.len()] = Default::default();
        for (name, text) in names.iter_mut().zip(self.key.split('\n')) {
            text.clone_into(name);
        }
        // A name with a newline would be taken for two.
        let is_whole = self.key.matches('\n').count() == TEXTS.len();
        let fits = is_whole && names.iter().all(|name| name.len() <= MOST_NAME);
        if names[0].is_empty() || names[1].is_empty() || !fits {
            return None;
        }
        let number = u32::try_from(self.names.len()).ok()?;
        self.names.push(names);
        self.series.insert(self.key.clone(), number);
        Some(number)
    }

    /// Writes the hours.
    pub async fn write(mut self, place: &Place) -> Result<ImportReport> {
        let windows = std::mem::take(&mut self.windows);
        let mut hours: BTreeMap<FleetHour, BTreeMap<(&str, i64), Upload>> = BTreeMap::new();
        let (mut drives, mut hosts) = (HashSet::new(), BTreeSet::new());
        for ((series, window_s), window) in windows {
            let Some(names) = self.names.get(series as usize) else { continue };
            drives.insert((names[0].as_str(), names[1].as_str()));
            hosts.insert(names[0].as_str());
            let uploads = hours.entry(FleetHour::from_seconds(window_s)).or_default();
            let upload = uploads.entry((names[0].as_str(), window_s));
            let upload = upload.or_insert_with(|| upload_of(names, window_s));
            let watched_s = (window.seen.len() as i64 * self.every_s).min(WINDOW_S);
            upload.watched_ns = upload.watched_ns.max(watched_s as u64 * 1_000_000_000);
            upload.minutes = upload.minutes.max(watched_s.div_euclid(60).clamp(1, 10) as u8);
            upload.drives.insert(names[1].clone(), drive_of(names));
            let operation = if names[7].is_empty() { "read" } else { names[7].as_str() };
            let flows = upload.flows.entry(names[1].clone()).or_default();
            flows.insert(operation.to_owned(), window.flow);
        }
        if hours.is_empty() {
            return Err(FleetError::new("there is no sample in these files")
                .hint(self.report.text().trim_end().to_owned()));
        }
        let mut report = self.report.clone();
        (report.drives, report.hosts) = (drives.len() as u64, hosts.len() as u64);
        for (hour, uploads) in hours {
            let mut rows = FleetRows::default();
            for upload in uploads.into_values() {
                rows.add(&upload, None)?;
            }
            write_hour(place, hour, rows).await?;
            report.hours += 1;
        }
        Ok(report)
    }
}

fn upload_of(names: &[String; TEXTS.len()], window_s: i64) -> Upload {
    let id = blake3::hash(format!("import {}", names[0]).as_bytes()).to_hex();
    let host = UploadHost {
        id: id[..HOST_ID_LENGTH].to_owned(),
        name: names[0].clone(),
        rack: names[5].clone(),
        kernel: names[6].clone(),
        ..UploadHost::default()
    };
    Upload { version: UPLOAD_VERSION, host, window_s, ..Upload::default() }
}

fn drive_of(names: &[String; TEXTS.len()]) -> UploadDrive {
    UploadDrive {
        model: names[2].clone(),
        firmware: names[3].clone(),
        serial: names[4].clone(),
        ..UploadDrive::default()
    }
}

/// A time in seconds since 1970: such a number, also in milliseconds and smaller, or a date and
/// time, in UTC where it names no zone.
fn time_s(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<f64>() {
        let seconds = match number.abs() {
            it if it < 1e11 => number,
            it if it < 1e14 => number / 1e3,
            it if it < 1e17 => number / 1e6,
            _ => number / 1e9,
        };
        return seconds.is_finite().then_some(seconds.floor() as i64);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    let is_date = text.starts_with(|first: char| first.is_ascii_digit());
    text.parse::<GivenTime>().ok().filter(|_| is_date && text.len() >= 10).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_unit() {
        for text in [
            "1763942415",
            "1763942415.9",
            "1763942415000",
            "1763942415000000",
            "1763942415000000000",
            "2025-11-24T00:00:15Z",
            "2025-11-24 01:00:15+01",
            "2025-11-24 00:00:15",
        ] {
            assert_eq!(time_s(text), Some(1_763_942_415), "{text}");
        }
        for text in ["", "never", "6h", "NaN", "inf"] {
            assert_eq!(time_s(text), None, "{text}");
        }
    }
}
