//! Findings over hours and days, which no ten seconds show.
//!
//! | cause | when |
//! |---|---|
//! | `write-amplification` | more than an hour of ten bytes written for each byte of the calls |
//! | `disk-woken` | one program wakes an idle disk every few minutes |
//! | `write-bursts` | one program writes most of its bytes in bursts some minutes apart |
//! | `write-growth` | half as much again as a week ago, with as many calls |
//!
//! What does not belong here: causes of ten seconds (`iowhy_diagnosis`).

use super::{WriterId, WriterKind, WriterRecord, WriterSums};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::quantities::bytes;
use serde::Serialize;
use std::collections::BTreeMap;

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;
const WEEK_S: i64 = 7 * DAY_S;
/// Amplification above this is found.
const MOST_AMPLIFICATION: f64 = 10.0;
/// Bytes in an hour below which no drive is worn.
const LEAST_HOUR_BYTES: u64 = 4 << 20;
/// The time that a finding must have lasted, seconds.
const LEAST_WATCHED_S: u64 = HOUR_S as u64;
/// Events that make a period.
const LEAST_EVENTS: usize = 5;
/// Periods that are found, minutes.
const PERIODS: std::ops::RangeInclusive<i64> = 2..=60;
/// The share of intervals that must be like the middle one.
const REGULAR: f64 = 0.7;
/// A burst: so many times the mean of a minute, and so many bytes.
const BURST: u64 = 4;
const LEAST_BURST_BYTES: u64 = 16 << 20;
/// The share of a program's bytes that its bursts must have.
const BURST_SHARE: f64 = 0.6;
/// Growth that is found, and the growth of the load that still counts as equal.
const GROWTH: f64 = 1.5;
const EQUAL: f64 = 1.25;
/// Growth in a day below which no drive is worn, bytes.
const LEAST_GROWTH_BYTES: u64 = 256 << 20;
/// Findings of each cause.
const MOST_EACH: usize = 4;

/// A finding over days.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverDaysFinding {
    /// The cause's id.
    pub cause: &'static str,
    /// The device.
    pub device: String,
    /// The program.
    pub program: String,
    /// Its container or systemd unit.
    pub container: String,
    /// The file; empty if it is several.
    pub file: String,
    /// The finding in one sentence.
    pub sentence: String,
    /// The fix.
    pub fix: String,
}

/// Returns the findings in the day before `now_s`. `records` are those of a week and a day,
/// `minutes` those of the last day.
pub fn found(
    records: &[WriterRecord],
    minutes: &[WriterRecord],
    now_s: i64,
) -> Vec<OverDaysFinding> {
    let today: Vec<&WriterRecord> =
        records.iter().filter(|record| record.time_s >= now_s - DAY_S).collect();
    let mut found = Vec::new();
    for mut some in [amplified(&today), woken(minutes), bursts(minutes), grown(records, now_s)] {
        some.truncate(MOST_EACH);
        found.append(&mut some);
    }
    found
}

/// Figures of each id by hour, with the seconds watched.
type ByHour = BTreeMap<WriterId, BTreeMap<i64, (WriterSums, u64)>>;

fn by_hour(records: &[&WriterRecord]) -> ByHour {
    let mut all = ByHour::new();
    for record in records {
        let hour = record.time_s.div_euclid(HOUR_S);
        let own = record.rows.iter().filter(|row| row.id.kind == WriterKind::Program);
        for row in own.filter(|row| !row.id.is_below) {
            // All files of a program together: the bytes of calls to one may be written to another.
            let id = WriterId { file: String::new(), ..row.id.clone() };
            let (sums, _) = all.entry(id).or_default().entry(hour).or_default();
            sums.add(&row.sums);
        }
    }
    let mut watched: BTreeMap<i64, u64> = BTreeMap::new();
    for record in records {
        *watched.entry(record.time_s.div_euclid(HOUR_S)).or_default() += record.watched_s;
    }
    for (hour, (_, watched_s)) in all.values_mut().flatten() {
        *watched_s = watched.get(hour).copied().unwrap_or(0);
    }
    all
}

fn amplified(today: &[&WriterRecord]) -> Vec<OverDaysFinding> {
    let is_high = |sums: &WriterSums| {
        let factor = sums.amplification().unwrap_or(0.0);
        factor > MOST_AMPLIFICATION && sums.written_bytes() >= LEAST_HOUR_BYTES
    };
    let mut found = Vec::new();
    for (id, hours) in by_hour(today) {
        let (mut sum, mut watched_s) = (WriterSums::default(), 0);
        for (sums, seconds) in hours.values().filter(|(sums, _)| is_high(sums)) {
            sum.add(sums);
            watched_s += seconds;
        }
        if watched_s <= LEAST_WATCHED_S {
            continue;
        }
        let factor = sum.amplification().unwrap_or(0.0);
        let each = sum.written_bytes() as f64 / sum.syncs.max(1) as f64;
        let syncs = match sum.syncs {
            0 => String::new(),
            syncs => format!(", {} for each of {syncs} syncs", bytes(each)),
        };
        let sentence = format!(
            "{} had {} written to {} for {} that it asked for, {factor:.0} times as much, in {:.0} \
             of the last 24 hours{syncs}",
            id.program,
            bytes(sum.written_bytes() as f64),
            id.device,
            bytes(sum.asked_bytes as f64),
            watched_s as f64 / 3_600.0,
        );
        let fix = if sum.syncs > 0 {
            "let it sync less often or several records at once (journald: SyncIntervalSec, \
             RateLimitBurst; SQLite: WAL; databases: group commit), or put its log on a device \
             that does not wear"
        } else {
            "let it write larger blocks, and to fewer files"
        };
        found.push((sum.written_bytes(), finding("write-amplification", &id, sentence, fix)));
    }
    largest(found)
}

fn finding(cause: &'static str, id: &WriterId, sentence: String, fix: &str) -> OverDaysFinding {
    OverDaysFinding {
        cause,
        device: id.device.clone(),
        program: id.program.clone(),
        container: id.container.clone(),
        file: id.file.clone(),
        sentence,
        fix: fix.to_owned(),
    }
}

fn largest(mut found: Vec<(u64, OverDaysFinding)>) -> Vec<OverDaysFinding> {
    found.compact_sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns the period of events in minutes, if they are regular: most intervals are within a minute
/// or a quarter of the middle one.
pub fn period(minutes: &[i64]) -> Option<i64> {
    let mut between: Vec<i64> = minutes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if between.len() + 1 < LEAST_EVENTS {
        return None;
    }
    between.sort_unstable();
    let middle = between[between.len() / 2];
    let most = (middle / 4).max(1);
    let like = between.iter().filter(|length| (*length - middle).abs() <= most).count();
    let is_regular = like as f64 >= REGULAR * between.len() as f64;
    (PERIODS.contains(&middle) && is_regular).then_some(middle)
}

fn woken(minutes: &[WriterRecord]) -> Vec<OverDaysFinding> {
    let mut wakes: BTreeMap<&WriterId, Vec<i64>> = BTreeMap::new();
    for minute in minutes {
        for row in minute.rows.iter().filter(|row| row.sums.wakes > 0 && !row.id.program.is_empty())
        {
            wakes.entry(&row.id).or_default().push(minute.time_s.div_euclid(60));
        }
    }
    let mut found = Vec::new();
    for (id, at) in wakes {
        let Some(period) = period(&at) else { continue };
        let on = if id.file.is_empty() { String::new() } else { format!(" for {}", id.file) };
        let sentence = format!(
            "{} wakes {} about every {period} minutes{on}, {} times in the last 24 hours",
            id.program,
            id.device,
            at.len()
        );
        let fix = "let it do its work less often or together with others (systemd timers: \
                   AccuracySec, OnUnitActiveSec), or move its file to another device; noatime \
                   where reads wake it, a longer commit= where the journal does";
        found.push((at.len() as u64, finding("disk-woken", id, sentence, fix)));
    }
    largest(found)
}

fn bursts(minutes: &[WriterRecord]) -> Vec<OverDaysFinding> {
    let mut written: BTreeMap<WriterId, BTreeMap<i64, u64>> = BTreeMap::new();
    for minute in minutes {
        let own = minute.rows.iter().filter(|row| row.id.kind == WriterKind::Program);
        for row in own.filter(|row| !row.id.is_below) {
            let id = WriterId { file: String::new(), ..row.id.clone() };
            let at = minute.time_s.div_euclid(60);
            *written.entry(id).or_default().entry(at).or_default() += row.sums.written_bytes();
        }
    }
    let watched = minutes.len().max(1) as u64;
    let mut found = Vec::new();
    for (id, of) in written {
        let total: u64 = of.values().sum();
        let least = (total / watched * BURST).max(LEAST_BURST_BYTES);
        // Minutes that follow each other are one burst.
        let (mut begins, mut in_bursts, mut last) = (Vec::new(), 0_u64, i64::MIN);
        for (at, bytes) in of.iter().filter(|(_, bytes)| **bytes >= least) {
            if *at > last.saturating_add(1) {
                begins.push(*at);
            }
            (last, in_bursts) = (*at, in_bursts + bytes);
        }
        let Some(period) = period(&begins) else { continue };
        if (in_bursts as f64) < BURST_SHARE * total as f64 {
            continue;
        }
        let sentence = format!(
            "{} writes {} to {} about every {period} minutes: {} bursts in the last 24 hours, with \
             {:.0} % of its bytes",
            id.program,
            bytes(in_bursts as f64 / begins.len() as f64),
            id.device,
            begins.len(),
            100.0 * in_bursts as f64 / total.max(1) as f64,
        );
        let fix = "find its timer or checkpoint interval, and spread the work over it (PostgreSQL: \
                   checkpoint_completion_target; backups and scans: IOWeight= or ionice -c 3)";
        found.push((in_bursts, finding("write-bursts", &id, sentence, fix)));
    }
    largest(found)
}

/// Finds growth against the same hours a week before.
fn grown(records: &[WriterRecord], now_s: i64) -> Vec<OverDaysFinding> {
    let within = |from_s: i64| {
        let all =
            records.iter().filter(move |record| (from_s..from_s + DAY_S).contains(&record.time_s));
        by_hour(&all.collect::<Vec<_>>())
    };
    let (now, then) = (within(now_s - DAY_S), within(now_s - DAY_S - WEEK_S));
    let mut found = Vec::new();
    for (id, hours) in &now {
        let Some(before) = then.get(id) else { continue };
        let (mut today, mut earlier) = (WriterSums::default(), WriterSums::default());
        let mut count = 0;
        for (hour, (sums, _)) in hours {
            if let Some((old, _)) = before.get(&(hour - WEEK_S / HOUR_S)) {
                today.add(sums);
                earlier.add(old);
                count += 1;
            }
        }
        let (written, was) = (today.written_bytes(), earlier.written_bytes());
        let is_more = written as f64 > GROWTH * was as f64 && written - was >= LEAST_GROWTH_BYTES;
        let load = |sums: &WriterSums| sums.asked_calls.max(sums.syncs).max(1) as f64;
        if !is_more || count < 2 || load(&today) > EQUAL * load(&earlier) {
            continue;
        }
        let sentence = format!(
            "{} has {} written to {} in {count} hours of the last 24, and {} in the same hours a \
             week before, with as many calls",
            id.program,
            bytes(written as f64),
            id.device,
            bytes(was as f64),
        );
        let fix = "compare its version and settings with those of a week ago, and the size of what \
                   it writes with each call";
        found.push((written - was, finding("write-growth", id, sentence, fix)));
    }
    largest(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writers::WriterRow;

    const NOW_S: i64 = 1_795_651_200;
    const MIB: u64 = 1 << 20;

    fn record(time_s: i64, length_s: i64, of: &[(&str, WriterSums)]) -> WriterRecord {
        let row = |(program, sums): &(&str, WriterSums)| {
            let id = WriterId {
                program: (*program).to_owned(),
                device: "sda".to_owned(),
                file: "/srv/x".to_owned(),
                ..WriterId::default()
            };
            WriterRow { id, sums: *sums }
        };
        WriterRecord {
            time_s,
            until_s: time_s + length_s,
            watched_s: length_s.unsigned_abs(),
            rows: of.iter().map(row).collect(),
            ..WriterRecord::default()
        }
    }

    fn wrote(asked_mib: u64, written_mib: u64) -> WriterSums {
        WriterSums {
            asked_bytes: asked_mib * MIB,
            asked_calls: 10_000,
            data_bytes: written_mib * MIB,
            ..WriterSums::default()
        }
    }

    fn causes(records: &[WriterRecord], minutes: &[WriterRecord]) -> Vec<(&'static str, String)> {
        let found = found(records, minutes, NOW_S);
        found.into_iter().map(|finding| (finding.cause, finding.program)).collect()
    }

    #[test]
    fn more_than_an_hour_of_amplification_is_found() {
        let hours = |count: i64, written_mib| -> Vec<WriterRecord> {
            let hour = |index| {
                record(NOW_S - (index + 1) * HOUR_S, HOUR_S, &[("logger", wrote(1, written_mib))])
            };
            (0..count).map(hour).collect()
        };
        let expected = [("write-amplification", "logger".to_owned())];
        assert_eq!(causes(&hours(3, 50), &[]), expected);
        // One hour; too little in it; hours of last week.
        assert_eq!(causes(&hours(1, 50), &[]), []);
        assert_eq!(causes(&hours(3, 9), &[]), []);
        let mut old = hours(3, 50);
        old.iter_mut().for_each(|record| record.time_s -= 2 * DAY_S);
        assert_eq!(causes(&old, &[]), []);
    }

    /// Returns a minute for each of six hours, with the figures of `of`.
    fn minutes(of: impl Fn(i64) -> WriterSums) -> Vec<WriterRecord> {
        let minute = |index| record(NOW_S - (360 - index) * 60, 60, &[("job", of(index))]);
        (0..360).map(minute).collect()
    }

    #[test]
    fn a_disk_that_is_woken_every_few_minutes_is_found() {
        let wakes =
            |is_woken: bool| WriterSums { wakes: u64::from(is_woken), ..WriterSums::default() };
        let woken = minutes(|index| wakes(index % 10 == 3));
        assert_eq!(causes(&[], &woken), [("disk-woken", "job".to_owned())]);
        let sentence = &found(&[], &woken, NOW_S)[0].sentence;
        assert!(
            sentence.contains("wakes sda about every 10 minutes for /srv/x, 36 times"),
            "{sentence}"
        );
        assert_eq!(causes(&[], &minutes(|index| wakes(index * index % 37 == 1))), []);
    }

    #[test]
    fn bursts_with_a_period_are_found_and_a_steady_load_is_not() {
        let bursts = minutes(|index| wrote(1, if index % 15 < 2 { 200 } else { 1 }));
        assert_eq!(causes(&[], &bursts), [("write-bursts", "job".to_owned())]);
        assert_eq!(causes(&[], &minutes(|_| wrote(20, 100))), []);
    }

    #[test]
    fn growth_at_an_equal_load_is_found() {
        let days = |today_mib, calls| -> Vec<WriterRecord> {
            let hour = |index: i64| {
                let sums = WriterSums { asked_calls: calls, ..wrote(today_mib / 2, today_mib) };
                let time_s = NOW_S - (index + 1) * HOUR_S;
                let now = record(time_s, HOUR_S, &[("db", sums)]);
                [now, record(time_s - WEEK_S, HOUR_S, &[("db", wrote(50, 100))])]
            };
            (0..24).flat_map(hour).collect()
        };
        assert_eq!(causes(&days(200, 10_000), &[]), [("write-growth", "db".to_owned())]);
        assert_eq!(causes(&days(200, 20_000), &[]), []);
        assert_eq!(causes(&days(120, 10_000), &[]), []);
    }
}
