//! The history as a table: minutes put together into rows.
//!
//! What does not belong here: what a minute holds.

use super::{HistoryFlow, HistoryMinute, HistoryUse};
use crate::clock::LocalTime;
use iowhy_model::compact_sort::CompactSort;
use iowhy_views::escape::{cut, escape};
use iowhy_views::human;
use iowhy_views::style::Style;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Findings that are listed.
const MOST_FINDINGS: usize = 12;
/// Containers that are listed.
const MOST_CONTAINERS: usize = 8;
/// The column at which their names begin.
const NAME_COLUMN: usize = 30;
/// Devices that are listed for a row.
const MOST_DEVICES: usize = 4;

/// Returns the length of a row, in whole minutes, for a history of `seconds` shown in `rows`.
pub fn row_seconds(seconds: i64, rows: u32) -> i64 {
    let least = seconds.max(60) / i64::from(rows.max(1));
    [60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400]
        .into_iter()
        .find(|row| *row >= least)
        .unwrap_or(least.div_euclid(86_400) * 86_400 + 86_400)
}

/// Formats the history as text; `device` selects one device.
pub fn table(minutes: &[HistoryMinute], row_s: i64, device: Option<&str>, style: &Style) -> String {
    let mut rows: BTreeMap<i64, Vec<&HistoryMinute>> = BTreeMap::new();
    for minute in minutes {
        rows.entry(minute.time_s.div_euclid(row_s) * row_s).or_default().push(minute);
    }
    let mut text = String::new();
    text.push_str(
        "DEVICES\n  FROM                 DEVICE        READ/S  WRITE/S    P50     P99     MAX\n",
    );
    for (from_s, minutes) in &rows {
        devices(*from_s, minutes, device, style, &mut text);
    }
    text.push_str("\nBLOCKED THREADS (mean number, by wait class)\n");
    for (from_s, minutes) in &rows {
        waits(*from_s, minutes, style, &mut text);
    }
    text.push_str("\nI/O PRESSURE (share of the time) AND OLDEST REQUEST IN FLIGHT\n");
    text.push_str("  FROM                   SOME    FULL  OLDEST\n");
    for (from_s, minutes) in &rows {
        pressure(*from_s, minutes, style, &mut text);
    }
    containers(minutes, style, &mut text);
    findings(minutes, device, style, &mut text);
    let lost: u64 =
        minutes.iter().fold(0, |lost, minute| minute.lost_requests.saturating_add(lost));
    if lost > 0 {
        let _ = writeln!(text, "\nlost: {lost} requests have no record");
    }
    text
}

fn watched_s(minutes: &[&HistoryMinute]) -> f64 {
    (minutes.iter().map(|minute| minute.watched_ns as f64).sum::<f64>() / 1e9).max(1e-9)
}

fn devices(
    from_s: i64,
    minutes: &[&HistoryMinute],
    only: Option<&str>,
    style: &Style,
    text: &mut String,
) {
    let mut flows: BTreeMap<&str, (HistoryFlow, u64, u64)> = BTreeMap::new();
    for (name, directions) in minutes.iter().flat_map(|minute| &minute.devices) {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let (all, reads, writes) = flows.entry(name.as_str()).or_default();
        for (direction, flow) in directions {
            all.merge(flow);
            match direction.as_str() {
                "read" => *reads = flow.requests.saturating_add(*reads),
                "write" => *writes = flow.requests.saturating_add(*writes),
                _ => {}
            }
        }
    }
    let seconds = watched_s(minutes);
    let mut flows: Vec<_> = flows.into_iter().collect();
    flows.compact_sort_by_key(|(_, (flow, ..))| std::cmp::Reverse(flow.requests));
    for (name, (flow, reads, writes)) in flows.into_iter().take(MOST_DEVICES) {
        let time = |share: f64| {
            flow.percentile(share)
                .map_or_else(|| "-".to_owned(), |ns| human::time(ns as f64, style))
        };
        let (from, name) = (LocalTime::of_seconds(from_s), escape(name, style));
        let _ = writeln!(
            text,
            "  {from}  {name:<12} {:>7.1}  {:>7.1} {:>6}  {:>6}  {:>6}",
            reads as f64 / seconds,
            writes as f64 / seconds,
            time(0.5),
            time(0.99),
            human::time(flow.max_ns as f64, style),
        );
    }
}

fn waits(from_s: i64, minutes: &[&HistoryMinute], style: &Style, text: &mut String) {
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, ns) in minutes.iter().flat_map(|minute| &minute.waits) {
        let sum: &mut u64 = classes.entry(class.as_str()).or_default();
        *sum = sum.saturating_add(*ns);
    }
    let seconds = watched_s(minutes);
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.compact_sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let mut line = format!("  {} ", LocalTime::of_seconds(from_s));
    for (class, ns) in classes {
        let word = format!(" {} {:.2}", escape(class, style), ns as f64 / 1e9 / seconds);
        if line.chars().count() + word.chars().count() <= style.columns() {
            line.push_str(&word);
        }
    }
    let _ = writeln!(text, "{line}");
}

fn pressure(from_s: i64, minutes: &[&HistoryMinute], style: &Style, text: &mut String) {
    let share = |of: &dyn Fn(&HistoryMinute) -> Option<u64>| {
        let read = minutes.iter().filter_map(|minute| Some((of(minute)?, minute.watched_ns)));
        let add = |sum: (f64, f64), minute: (u64, u64)| {
            (sum.0 + minute.0 as f64, sum.1 + minute.1 as f64)
        };
        let (ns, watched_ns) = read.fold((0.0, 0.0), add);
        match watched_ns {
            0.0 => "-".to_owned(),
            _ => format!("{:.1} %", (100.0 * ns / watched_ns).min(100.0)),
        }
    };
    let some = share(&|minute| minute.pressure_io_some_ns);
    let full = share(&|minute| minute.pressure_io_full_ns);
    let oldest_ns = minutes.iter().map(|minute| minute.oldest_ns).max().unwrap_or(0);
    let oldest = match oldest_ns {
        0 => "-".to_owned(),
        ns => human::time(ns as f64, style),
    };
    let from = LocalTime::of_seconds(from_s);
    let _ = writeln!(text, "  {from}  {some:>7} {full:>7}  {oldest:>6}");
}

/// The containers with the most time of requests, over all minutes.
fn containers(minutes: &[HistoryMinute], style: &Style, text: &mut String) {
    let mut used: BTreeMap<&str, HistoryUse> = BTreeMap::new();
    for (name, own) in minutes.iter().flat_map(|minute| &minute.groups) {
        let sum = used.entry(name.as_str()).or_default();
        sum.requests = sum.requests.saturating_add(own.requests);
        sum.bytes = sum.bytes.saturating_add(own.bytes);
        sum.time_ns = sum.time_ns.saturating_add(own.time_ns);
    }
    if used.is_empty() {
        return;
    }
    let seconds = watched_s(&minutes.iter().collect::<Vec<_>>());
    let mut used: Vec<_> = used.into_iter().collect();
    used.compact_sort_by_key(|(_, own)| std::cmp::Reverse(own.time_ns));
    let more = used.len().saturating_sub(MOST_CONTAINERS);
    text.push_str("\nCONTAINERS\n     IO/S    MB/S  IN FLIGHT  CONTAINER, UNIT OR CGROUP\n");
    for (name, own) in used.into_iter().take(MOST_CONTAINERS) {
        let room = style.columns().saturating_sub(NAME_COLUMN).max(20);
        let _ = writeln!(
            text,
            "  {:>7.1} {:>7.2}    {:>7.2}  {}",
            own.requests as f64 / seconds,
            own.bytes as f64 / 1e6 / seconds,
            own.time_ns as f64 / 1e9 / seconds,
            cut(&escape(name, style), room, style)
        );
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
}

/// Lists the first and last time of each cause, the one that was found longest first.
fn findings(minutes: &[HistoryMinute], only: Option<&str>, style: &Style, text: &mut String) {
    let mut found: BTreeMap<(&str, &str), (i64, i64, usize)> = BTreeMap::new();
    for minute in minutes {
        for finding in &minute.findings {
            let device = finding.device.as_deref().unwrap_or("");
            if only.is_some_and(|only| only != device) {
                continue;
            }
            let since =
                found.entry((finding.cause.as_str(), device)).or_insert((minute.time_s, 0, 0));
            since.1 = minute.time_s;
            since.2 += 1;
        }
    }
    text.push_str("\nFINDINGS\n");
    if found.is_empty() {
        text.push_str("  none at warning or above\n");
        return;
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.compact_sort_by_key(|(_, (_, _, count))| std::cmp::Reverse(*count));
    let more = found.len().saturating_sub(MOST_FINDINGS);
    text.push_str("  SINCE                UNTIL                MINUTES  DEVICE        CAUSE\n");
    for ((cause, device), (since, until, count)) in found.into_iter().take(MOST_FINDINGS) {
        let (since, until) = (LocalTime::of_seconds(since), LocalTime::of_seconds(until));
        let (device, cause) = (escape(device, style), escape(cause, style));
        let _ = writeln!(text, "  {since}  {until}  {count:>7}  {device:<12}  {cause}");
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HistoryFinding, HistoryFlow};
    use super::*;

    fn minute(time_s: i64, reads: u64) -> HistoryMinute {
        let flow = HistoryFlow {
            requests: reads,
            bytes: reads * 4096,
            max_ns: 9_000_000,
            latency: vec![(65_536, reads)],
        };
        let read = BTreeMap::from([("read".to_owned(), flow)]);
        let used = HistoryUse { requests: 600, bytes: 60_000_000, time_ns: 30_000_000_000 };
        let finding = HistoryFinding {
            cause: "hung-io".to_owned(),
            device: Some("sda".to_owned()),
            severity: "critical".to_owned(),
            ..Default::default()
        };
        HistoryMinute {
            time_s,
            watched_ns: 60_000_000_000,
            devices: BTreeMap::from([("sda\u{1b}".to_owned(), read)]),
            waits: BTreeMap::from([("device".to_owned(), 30_000_000_000)]),
            findings: vec![finding],
            groups: BTreeMap::from([(format!("pod:\u{1b}[2J\u{202e}{}", "x".repeat(200)), used)]),
            oldest_ns: 2_500_000_000,
            pressure_io_some_ns: Some(15_000_000_000),
            ..Default::default()
        }
    }

    #[test]
    fn rows_are_sums_of_minutes() {
        let minutes: Vec<_> =
            (0..10).map(|index| minute(index * 60, 60 + index as u64 * 12)).collect();
        let text = table(&minutes, 300, None, &Style::plain(80));
        assert!(text.contains("    1.4") && text.contains("    2.4"), "{text}");
        assert!(text.contains("device 0.50"), "{text}");
        assert!(text.contains("     10  sda           hung-io"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(text.contains("   25.0 %       -  2.50 s"), "{text}");
        assert!(text.contains("     10.0    1.00       0.50  pod:"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(table(&minutes, 300, Some("sdb"), &Style::plain(80)).contains("none at warning"));
    }

    #[test]
    fn rows_have_round_lengths() {
        assert_eq!(row_seconds(86_400, 24), 3_600);
        assert_eq!(row_seconds(3_600, 24), 300);
        assert_eq!(row_seconds(60, 24), 60);
        assert_eq!(row_seconds(31 * 86_400, 10), 4 * 86_400);
    }
}
