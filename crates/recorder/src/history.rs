//! Level 1: figures of every minute, kept for a month, so that "since when?" has an answer.
//!
//! A day is a file of JSON lines, `history/2026-11-24.jsonl`, a line for each minute. A line is
//! appended at once, so a crash leaves at most one that is cut short, which readers pass over.
//!
//! What does not belong here: how figures are displayed.

pub mod table;

use crate::disk;
use crate::trigger::PressureTotals;
use iowhy_analysis::latency_bins::bins;
use iowhy_analysis::summary::{Bucket, DirectionSummary};
use iowhy_analysis::{Direction, Summary};
use iowhy_diagnosis::Diagnosis;
use iowhy_fs::read;
use iowhy_model::compact_sort::CompactSort;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Devices of a minute; those with the most time.
const MOST_DEVICES: usize = 32;
/// Where the requests of further devices are added up.
const OTHER_DEVICES: &str = "(others)";
/// Containers, units and cgroups of ten seconds; those with the most time.
const MOST_GROUPS: usize = 16;
/// The same of a minute: those that were met first.
const MOST_MINUTE_GROUPS: usize = 2 * MOST_GROUPS;
/// Findings of a minute.
const MOST_FINDINGS: usize = 8;
/// Wait classes, directions, and bins of latencies, of a minute that is read.
const MOST_WAITS: usize = 64;
const MOST_DIRECTIONS: usize = 16;
const MOST_BINS: usize = 256;
/// Minutes that are read at once: those of half a year.
const MOST_MINUTES: usize = 1 << 18;
/// Bytes of a day that are read: a minute of a large host takes 6 kB.
const MOST_DAY_BYTES: u64 = 64 << 20;
/// Rows of lines that are read at once, which take up to 200 bytes each.
const MOST_ROWS: usize = 1 << 20;

/// A line of a day.
pub(crate) trait HistoryLine: DeserializeOwned {
    /// One that is longer is passed over.
    const MOST_BYTES: usize;
    /// Bytes of lines that are read at once, the newest days first.
    const MOST_READ_BYTES: u64;

    /// The same without what the daemon does not write: a file may have been changed.
    fn bounded(self) -> Self;

    /// How many rows it holds.
    fn rows(&self) -> usize;
}

/// The figures of a minute; times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryMinute {
    /// The time at which it began, seconds since 1970.
    pub time_s: i64,
    /// The part of it that was watched.
    pub watched_ns: u64,
    /// Requests by device and direction.
    pub devices: BTreeMap<String, BTreeMap<String, HistoryFlow>>,
    /// Blocked time by wait class.
    pub waits: BTreeMap<String, u64>,
    /// Requests and their time by container, unit or cgroup.
    pub groups: BTreeMap<String, HistoryUse>,
    /// Findings at warning or above.
    pub findings: Vec<HistoryFinding>,
    /// The age of the oldest request in flight at the end of any ten seconds.
    pub oldest_ns: u64,
    /// Time in which at least one task waited for I/O (PSI io some); `None` where the kernel does
    /// not count it, and for the first minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_io_some_ns: Option<u64>,
    /// Time in which every task with work to do waited for I/O (PSI io full).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_io_full_ns: Option<u64>,
    /// Requests that have no record.
    pub lost_requests: u64,
    /// CPU time that recording cost.
    pub cost_ns: u64,
}

/// The requests of one device in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryFlow {
    /// Requests that completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The longest time from queueing to completion.
    pub max_ns: u64,
    /// Counts by latency: the shortest time of a bin of half an octave, and its requests.
    pub latency: Vec<(u64, u64)>,
}

/// The I/O of a container, unit or cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryUse {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time from queueing to completion.
    pub time_ns: u64,
}

/// A finding of a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryFinding {
    /// The cause's id.
    pub cause: String,
    /// The device.
    pub device: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// `warning` or `critical`.
    pub severity: String,
}

impl HistoryLine for HistoryMinute {
    const MOST_BYTES: usize = 64 << 10;
    // More than `history-mb`, unless that is set higher.
    const MOST_READ_BYTES: u64 = 256 << 20;

    fn rows(&self) -> usize {
        1
    }

    fn bounded(mut self) -> HistoryMinute {
        fn keep<T>(of: &mut BTreeMap<String, T>, most: usize) {
            while of.len() > most {
                of.pop_last();
            }
        }
        keep(&mut self.devices, MOST_DEVICES + 1);
        keep(&mut self.groups, MOST_MINUTE_GROUPS);
        keep(&mut self.waits, MOST_WAITS);
        self.findings.truncate(MOST_FINDINGS);
        for flows in self.devices.values_mut() {
            keep(flows, MOST_DIRECTIONS);
            flows.values_mut().for_each(|flow| flow.latency.truncate(MOST_BINS));
        }
        self
    }
}

impl HistoryFlow {
    fn add(&mut self, of: &DirectionSummary) {
        self.requests = self.requests.saturating_add(of.requests);
        self.bytes = self.bytes.saturating_add(of.bytes);
        self.add_latencies(
            bins(&of.q2c_histogram, 2).iter().map(|bin: &Bucket| (bin.from_ns, bin.requests)),
        );
        let longest =
            of.intervals[iowhy_analysis::Interval::Q2c].map_or(0, |interval| interval.max_ns);
        self.max_ns = self.max_ns.max(longest);
    }

    fn add_latencies(&mut self, bins: impl Iterator<Item = (u64, u64)>) {
        let mut sums: BTreeMap<u64, u64> = self.latency.iter().copied().collect();
        for (from_ns, requests) in bins.filter(|(_, requests)| *requests > 0) {
            let sum = sums.entry(from_ns).or_default();
            *sum = sum.saturating_add(requests);
        }
        self.latency = sums.into_iter().collect();
    }

    /// Adds the figures of another flow of the same device and direction.
    pub fn merge(&mut self, other: &HistoryFlow) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.add_latencies(other.latency.iter().copied());
    }

    /// Returns the time that this share of the requests took at most, as the upper end of its bin:
    /// up to 1.5 times too long. `None` without any request.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        // Figures that are read from a file are untrusted.
        let total = self.latency.iter().fold(0_u64, |sum, (_, each)| sum.saturating_add(*each));
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0_u64;
        for (from_ns, requests) in &self.latency {
            sum = sum.saturating_add(*requests);
            if sum >= wanted {
                let octave = 1_u64 << from_ns.max(&4).ilog2();
                return Some(from_ns.saturating_add(octave / 2).min(self.max_ns.max(*from_ns)));
            }
        }
        None
    }
}

impl HistoryMinute {
    /// Adds a window of ten seconds.
    pub fn add(&mut self, summary: &Summary, diagnosis: &Diagnosis) {
        self.watched_ns += summary.watch.duration_ns;
        for device in &summary.devices {
            let age_ns = device.oldest_open_ns.unwrap_or(0);
            self.oldest_ns = self.oldest_ns.max(age_ns);
            let has_room =
                self.devices.len() < MOST_DEVICES || self.devices.contains_key(&device.device);
            let name = if has_room { device.device.as_str() } else { OTHER_DEVICES };
            for direction in Direction::ALL {
                let of = &device.directions[direction];
                if of.requests > 0 {
                    let own = self.devices.entry(name.to_owned()).or_default();
                    own.entry(direction.word().to_owned()).or_default().add(of);
                }
            }
        }
        for class in summary.ledger.iter().flat_map(|ledger| &ledger.classes) {
            *self.waits.entry(class.class.to_owned()).or_default() += class.time_ns;
        }
        for row in summary.containers.rows.iter().take(MOST_GROUPS) {
            if self.groups.len() < MOST_MINUTE_GROUPS
                || self.groups.contains_key(&row.subject.container)
            {
                let group = self.groups.entry(row.subject.container.clone()).or_default();
                group.requests += row.usage.requests;
                group.bytes += row.usage.bytes;
                group.time_ns += row.usage.time_ns;
            }
        }
        self.add_findings(diagnosis);
    }

    /// Sets the time under I/O pressure from two readings of the kernel's counters.
    pub fn set_pressure(&mut self, before: PressureTotals, after: PressureTotals) {
        let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        self.pressure_io_some_ns = grown(before.some_ns, after.some_ns);
        self.pressure_io_full_ns = grown(before.full_ns, after.full_ns);
    }

    fn add_findings(&mut self, diagnosis: &Diagnosis) {
        use iowhy_diagnosis::Severity;
        let worth = diagnosis.findings.iter().filter(|finding| finding.severity > Severity::Info);
        for finding in worth {
            let found = HistoryFinding {
                cause: finding.cause.to_owned(),
                device: finding.subject.device.clone(),
                process: finding.subject.process.clone(),
                severity: finding.severity.word().to_owned(),
            };
            if self.findings.len() < MOST_FINDINGS && !self.findings.contains(&found) {
                self.findings.push(found);
            }
        }
    }
}

/// The limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Days.
    pub days: u32,
    /// Bytes of all days together.
    pub bytes: u64,
}

/// The files of the history.
#[derive(Clone, Debug)]
pub struct HistoryFiles {
    directory: PathBuf,
}

impl HistoryFiles {
    /// Returns the history below the state directory `state`.
    pub fn below(state: &Path) -> HistoryFiles {
        HistoryFiles::within(state.join("history"))
    }

    /// Returns a history whose days are files in `directory`.
    pub(crate) fn within(directory: PathBuf) -> HistoryFiles {
        HistoryFiles { directory }
    }

    fn path(&self, day: &str) -> PathBuf {
        self.directory.join(file_name(day))
    }

    /// Appends a line to the day of `time_s`, seconds since 1970. The oldest days go where there
    /// are more than the limits allow.
    ///
    /// # Errors
    /// Fails if it cannot be written, or that day alone is as large as the history may become.
    pub fn append(&self, time_s: i64, line: &str, limits: HistoryLimits) -> io::Result<()> {
        let folder = disk::make(&self.directory)?;
        let today = day_of(time_s);
        self.make_room(&today, line.len() as u64 + 1, limits)?;
        let mut file = folder.append(file_name(&today), disk::FILE_MODE)?;
        let bytes = file.metadata()?.len();
        file.write_all(format!("{line}\n").as_bytes()).inspect_err(|_| {
            // On a full disk a part of it may be there, to which the next line would be added.
            let _ = file.set_len(bytes);
        })
    }

    fn make_room(&self, today: &str, needed: u64, limits: HistoryLimits) -> io::Result<()> {
        let size = |day: &String| fs::metadata(self.path(day)).map_or(0, |metadata| metadata.len());
        let days = self.days()?;
        let is_new = !days.iter().any(|day| day == today);
        let mut count = days.len() + usize::from(is_new);
        let mut bytes = needed + days.iter().map(size).sum::<u64>();
        for day in days.iter().filter(|day| *day != today) {
            if count <= limits.days.max(1) as usize && bytes <= limits.bytes {
                return Ok(());
            }
            count -= 1;
            bytes -= size(day);
            disk::remove(&self.path(day));
        }
        match bytes <= limits.bytes {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{today} alone takes the {} MB of history-mb",
                limits.bytes / 1_000_000
            ))),
        }
    }

    /// Returns the days that exist, in order.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn days(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let day = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let day = name.strip_suffix(".jsonl")?;
            day.parse::<jiff::civil::Date>().ok()?;
            Some(day.to_owned())
        };
        let mut days: Vec<String> = entries.flatten().filter_map(day).collect();
        days.sort();
        Ok(days)
    }

    /// Returns the minutes from `from_s` on, until before `until_s`, seconds since 1970. Lines that
    /// are cut short are skipped. They take at most some 512 MiB: data beyond the daemon's own
    /// limits for a minute is left out.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn minutes(&self, from_s: i64, until_s: i64) -> io::Result<Vec<HistoryMinute>> {
        let mut minutes: Vec<HistoryMinute> = self.lines(from_s, until_s)?;
        minutes.retain(|minute| (from_s..until_s).contains(&minute.time_s));
        minutes.compact_sort_by_key(|minute| minute.time_s);
        Ok(minutes)
    }

    /// The lines of the days from that of `from_s` to that of `until_s`. Lines that are cut short
    /// are passed over; where there are more than the daemon writes, the oldest are missing.
    pub(crate) fn lines<T: HistoryLine>(&self, from_s: i64, until_s: i64) -> io::Result<Vec<T>> {
        use std::io::{BufRead, BufReader, Read};
        let (first, last) = (day_of(from_s), day_of(until_s));
        let (mut lines, mut left, mut rows) = (Vec::new(), T::MOST_READ_BYTES, 0);
        // Where not all is read, it is the oldest that is missing.
        for day in self.days()?.iter().rev().filter(|day| (&first..=&last).contains(day)) {
            let file = read::open(&self.path(day))?.take(MOST_DAY_BYTES.min(left));
            let (mut file, mut line, mut of_day) = (BufReader::new(file), Vec::new(), Vec::new());
            while lines.len() + of_day.len() < MOST_MINUTES
                && rows < MOST_ROWS
                && file.read_until(b'\n', &mut line)? > 0
            {
                left = left.saturating_sub(line.len() as u64);
                let read = Some(&line).filter(|line| line.len() <= T::MOST_BYTES);
                let read = read.and_then(|line| serde_json::from_slice::<T>(line).ok());
                let read = read.map(T::bounded);
                rows += read.as_ref().map_or(0, T::rows);
                of_day.extend(read);
                line.clear();
            }
            lines.extend(of_day.into_iter().rev());
        }
        lines.reverse();
        Ok(lines)
    }
}

fn file_name(day: &str) -> String {
    format!("{day}.jsonl")
}

/// Returns the day in UTC that names the file.
fn day_of(time_s: i64) -> String {
    let time = Timestamp::from_second(time_s).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_diagnosis::diagnose;
    use iowhy_model::script::Script;

    const DAY_S: i64 = 86_400;
    const LIMITS: HistoryLimits = HistoryLimits { days: 31, bytes: 200_000_000 };

    /// Returns a minute of a host with four devices.
    fn minute(time_s: i64) -> HistoryMinute {
        let mut minute = HistoryMinute { time_s, ..HistoryMinute::default() };
        let mut script = Script::new(10);
        for index in 0..400_u64 {
            let device = ["sda", "sdb", "nvme0n1", "dm-0"][index as usize % 4];
            let took = 50_000 + index * index * 100;
            script.read(device, 4096).by(7, "cat").at(index as i64).direct(1, 2, took).add();
            script.write(device, 4096).by(8, "dd").at(index as i64).direct(1, 2, took * 3).add();
        }
        let summary = script.summary();
        minute.add(&summary, &diagnose(&summary));
        minute
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = HistoryFiles::below(folder.path());
        let written = minute(1_000_000_000);
        let line = serde_json::to_string(&written).unwrap();
        files.append(written.time_s, &line, LIMITS).unwrap();
        let path = files.path(&day_of(written.time_s));
        fs::write(&path, format!("{line}\n{{\"time_s\": 1000\n{line}\n")).unwrap();
        let read = files.minutes(written.time_s, written.time_s + 1).unwrap();
        assert_eq!(read, [written.clone(), written.clone()]);
        assert!(files.minutes(written.time_s + 1, written.time_s + 2).unwrap().is_empty());
    }

    #[test]
    fn percentiles_are_those_of_the_bins() {
        let flow = &minute(0).devices["sda"]["read"];
        assert_eq!((flow.requests, flow.bytes), (100, 409_600));
        let (p50, p99) = (flow.percentile(0.5).unwrap(), flow.percentile(0.99).unwrap());
        // The exact ones are 4.03 and 15.7 ms.
        assert!((4_000_000..6_100_000).contains(&p50), "{p50}");
        assert!((15_000_000..=flow.max_ns).contains(&p99), "{p99} {}", flow.max_ns);
        let mut twice = flow.clone();
        twice.merge(flow);
        assert_eq!((twice.requests, twice.percentile(0.5)), (200, Some(p50)));
        assert_eq!(HistoryFlow::default().percentile(0.5), None);
    }

    #[test]
    fn a_month_takes_less_than_200_mb_and_older_days_go() {
        let folder = tempfile::tempdir().unwrap();
        let files = HistoryFiles::below(folder.path());
        let line = serde_json::to_string(&minute(0)).unwrap();
        let month = line.len() as u64 * 60 * 24 * 31;
        assert!(month < 200_000_000, "{month} bytes: {line}");
        for day in 0..60 {
            files.append(day * DAY_S, &line, LIMITS).unwrap();
        }
        let days = files.days().unwrap();
        assert_eq!((days.len(), days[0].as_str()), (31, "1970-01-30"));
    }

    /// Returns a minute of a host with the most devices, containers and findings that one can hold.
    fn largest_minute() -> HistoryMinute {
        let small = minute(0);
        let flow = &small.devices["sda"]["read"];
        let mut large = HistoryMinute { waits: small.waits.clone(), ..HistoryMinute::default() };
        for device in 0..MOST_DEVICES {
            for direction in ["read", "write", "flush", "discard"] {
                let own = large.devices.entry(format!("nvme{device}n1")).or_default();
                own.insert(direction.to_owned(), flow.clone());
            }
        }
        for group in 0..2 * MOST_GROUPS {
            let used = HistoryUse { requests: 123_456, bytes: 1 << 33, time_ns: 60_000_000_000 };
            large.groups.insert(format!("pod:payments/api-{group}/server"), used);
        }
        large
    }

    #[test]
    fn the_history_of_the_largest_host_is_bounded_and_its_newest_days_stay() {
        let folder = tempfile::tempdir().unwrap();
        let files = HistoryFiles::below(folder.path());
        let day = (serde_json::to_string(&largest_minute()).unwrap() + "\n").repeat(1440);
        let line = day.lines().next().unwrap();
        assert!(day.len() * 31 > 200_000_000, "this host needs the limit: {} bytes", day.len());
        for number in 0..40 {
            files.append(number * DAY_S, line, LIMITS).unwrap();
            // The rest of that day at once.
            fs::write(files.path(&day_of(number * DAY_S)), &day).unwrap();
            let days = files.days().unwrap();
            assert_eq!(days.last().unwrap(), &day_of(number * DAY_S));
        }
        files.append(40 * DAY_S, line, LIMITS).unwrap();
        let bytes = disk::bytes_below(folder.path());
        assert!((150_000_000..201_000_000).contains(&bytes), "{bytes}");
        // A day that takes all of the space is an error, not an endless loop.
        let small = HistoryLimits { bytes: day.len() as u64, ..LIMITS };
        files.append(39 * DAY_S, line, small).unwrap_err();
        assert_eq!(files.days().unwrap(), [day_of(39 * DAY_S)]);
    }

    #[test]
    fn a_pipe_in_place_of_a_day_is_an_error_and_figures_that_cannot_be_end() {
        let folder = tempfile::tempdir().unwrap();
        let files = HistoryFiles::below(folder.path());
        files.append(0, "{\"time_s\": 60}", LIMITS).unwrap();
        let pipe = files.path("1970-01-02");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        let said = files.minutes(0, 2 * DAY_S).unwrap_err().to_string();
        assert!(said.contains("it is a pipe"), "{said}");
        let most = u64::MAX;
        let latency = vec![(most, most), (1, most)];
        let flow = HistoryFlow { requests: most, bytes: most, max_ns: most, latency };
        let mut sum = flow.clone();
        sum.merge(&flow);
        assert_eq!((sum.requests, sum.percentile(0.99)), (most, Some(3)));
    }

    #[test]
    fn pressure_is_what_the_counters_grew_by() {
        let read = |some_ns, full_ns| PressureTotals { some_ns, full_ns };
        let mut minute = HistoryMinute::default();
        minute.set_pressure(read(None, None), read(Some(5), Some(3)));
        assert_eq!(minute.pressure_io_some_ns, None);
        minute.set_pressure(read(Some(5), Some(3)), read(Some(9), Some(3)));
        assert_eq!((minute.pressure_io_some_ns, minute.pressure_io_full_ns), (Some(4), Some(0)));
        let text = serde_json::to_string(&minute).unwrap();
        assert!(text.contains("\"pressure_io_some_ns\":4"), "{text}");
        // A line of an older iowhy has none.
        let older: HistoryMinute = serde_json::from_str("{\"time_s\": 60}").unwrap();
        assert_eq!((older.time_s, older.pressure_io_full_ns), (60, None));
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on_in_the_earlier_day() {
        let folder = tempfile::tempdir().unwrap();
        let files = HistoryFiles::below(folder.path());
        let few = HistoryLimits { days: 2, ..LIMITS };
        let write = |time_s: i64| {
            let minute = HistoryMinute { time_s, ..HistoryMinute::default() };
            files.append(time_s, &serde_json::to_string(&minute).unwrap(), few).unwrap();
        };
        for time_s in [10 * DAY_S, 11 * DAY_S, 3 * DAY_S, 3 * DAY_S + 60] {
            write(time_s);
        }
        // The day that is being written stays, however old it seems.
        assert_eq!(files.days().unwrap(), [day_of(3 * DAY_S), day_of(11 * DAY_S)]);
        assert_eq!(files.minutes(0, 20 * DAY_S).unwrap().len(), 3);
    }
}
