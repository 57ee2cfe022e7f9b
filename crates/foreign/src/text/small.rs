//! Texts of a few lines with one subject: `/proc/mdstat`, `iotop -b`, `biotop`, the CPU line of
//! `top`, and histograms of biolatency and iolatency.
//!
//! What does not belong here: tables with a header for their columns (see `rows`).

use super::RowsOut;
use super::biotop::{self, BiotopRows};
use super::figures::{number, time_of_day};
use crate::book::CounterBook;
use crate::kind::ForeignKind;
use iowhy_model::Metric;
use iowhy_model::health::{ArrayState, DeviceHealth};

/// The texts that are open at the moment.
#[derive(Debug, Default)]
pub(super) struct SmallTexts {
    /// The array of `/proc/mdstat` whose lines follow.
    array: Option<(String, ArrayState)>,
    /// Reports of iotop so far, and those of top.
    iotop: u64,
    top: u64,
    /// Threads that wait for I/O, by their shares of the time in all reports of iotop.
    waiting: Option<f64>,
    /// Whether lines of top follow.
    is_top: bool,
    biotop: BiotopRows,
    histogram: LatencyHistogram,
}

/// biolatency's histogram that is being read.
#[derive(Debug, Default)]
struct LatencyHistogram {
    disk: String,
    /// Nanoseconds of its unit; 0 where none is open.
    unit_ns: f64,
    requests: f64,
    time_ns: f64,
}

/// The kind of a line that begins one of these texts.
pub(super) fn kind_of(line: &str) -> Option<ForeignKind> {
    let line = line.trim_start();
    let is_md = line.starts_with("Personalities :")
        || line.split_once(" : active ").is_some_and(|(name, _)| name.starts_with("md"));
    let is_iotop = line.contains("DISK READ") && line.contains("DISK WRITE");
    let is_top = line.starts_with("top - ") || is_cpu_of_top(line);
    match () {
        () if is_md => Some(ForeignKind::Mdstat),
        () if is_iotop => Some(ForeignKind::Iotop),
        () if biotop::is_header(line) => Some(ForeignKind::Biotop),
        () if is_top => Some(ForeignKind::Top),
        () if histogram_unit(line).is_some() => Some(ForeignKind::Biolatency),
        () => None,
    }
}

impl SmallTexts {
    /// Reads a line; `None` if it is of none of these.
    pub fn line(&mut self, line: &str, book: &mut CounterBook) -> Option<ForeignKind> {
        let begins = kind_of(line);
        if begins == Some(ForeignKind::Iotop) {
            let is_first_line = line.contains("Total DISK READ");
            self.iotop = if is_first_line { self.iotop + 1 } else { self.iotop.max(1) };
            return begins;
        }
        if self.biotop.line(line, book) {
            return Some(ForeignKind::Biotop);
        }
        if is_cpu_of_top(line) {
            top(line, book);
            self.top += 1;
        }
        self.is_top |= begins == Some(ForeignKind::Top);
        if self.is_top && is_of_top(line) {
            return Some(ForeignKind::Top);
        }
        if self.array(line, book) || begins == Some(ForeignKind::Mdstat) {
            return Some(ForeignKind::Mdstat);
        }
        if self.iotop > 0
            && let Some(task) = IotopTask::new(line)
        {
            task.add(book);
            if let Some(share) = task.waiting {
                *self.waiting.get_or_insert_default() += share;
            }
            return Some(ForeignKind::Iotop);
        }
        self.bucket(line, book).then_some(ForeignKind::Biolatency)
    }

    /// `md0 : active raid1 sdb1[1] sda1[0]`, `[2/1] [U_]`, `[==>…]  recovery = 12.6% (…)`.
    fn array(&mut self, line: &str, book: &mut CounterBook) -> bool {
        if let Some((name, _)) = line.split_once(" : active ").or(line.split_once(" : inactive "))
            && name.starts_with("md")
            && !name.contains(' ')
        {
            self.end_array(book);
            self.array =
                Some((name.to_owned(), ArrayState { action: "idle".into(), ..Default::default() }));
            return true;
        }
        let Some((_, state)) = &mut self.array else { return false };
        if let Some(members) = members(line) {
            state.degraded = members;
            return true;
        }
        let doing = ["resync", "recovery", "reshape", "check", "repair"]
            .into_iter()
            .find(|word| line.contains(&format!("{word} =")) || line.contains(&format!("{word}=")));
        if let Some(doing) = doing.filter(|_| line.trim_start().starts_with('[')) {
            doing.replace("recovery", "recover").clone_into(&mut state.action);
            return true;
        }
        ["bitmap:", "unused devices:"]
            .iter()
            .any(|beginning| line.trim_start().starts_with(beginning))
            || line.contains(" blocks ")
    }

    fn end_array(&mut self, book: &mut CounterBook) {
        if let Some((name, state)) = self.array.take() {
            let asked_ns = book.now_ns();
            let health = DeviceHealth { asked_ns, array: Some(state), ..DeviceHealth::default() };
            book.health(&name, None, health);
        }
    }

    /// A line of biolatency's histogram: `       256 -> 511        : 12       |**    |`.
    fn bucket(&mut self, line: &str, book: &mut CounterBook) -> bool {
        let line = line.trim();
        if let Some(disk) = line.strip_prefix("disk = ") {
            self.end_histogram(book);
            self.histogram.disk =
                disk.trim_matches('\'').split_whitespace().next().unwrap_or("").to_owned();
            return true;
        }
        if let Some(unit_ns) = histogram_unit(line) {
            let disk = std::mem::take(&mut self.histogram.disk);
            self.end_histogram(book);
            self.histogram = LatencyHistogram { disk, unit_ns, ..LatencyHistogram::default() };
            return true;
        }
        if self.histogram.unit_ns <= 0.0 {
            return false;
        }
        let figures = || {
            let (range, rest) = line.split_once(" : ")?;
            let (from, to) = range.split_once("->")?;
            let count = number(rest.split_whitespace().next()?)?;
            Some((number(from.trim())?, number(to.trim())?, count))
        };
        let Some((from, to, count)) = figures() else { return false };
        self.histogram.requests += count;
        self.histogram.time_ns += count * (from + to) / 2.0 * self.histogram.unit_ns;
        true
    }

    fn end_histogram(&mut self, book: &mut CounterBook) {
        let LatencyHistogram { disk, requests, time_ns, .. } = std::mem::take(&mut self.histogram);
        if requests > 0.0 {
            let name = if disk.is_empty() { "disks" } else { &disk };
            book.undirected(name, requests, Some(time_ns / 1e6));
        }
    }

    /// Ends the texts that are open.
    pub fn finish(&mut self, book: &mut CounterBook, out: &mut RowsOut<'_>) -> Vec<String> {
        self.end_array(book);
        let is_histogram = self.histogram.requests > 0.0;
        self.end_histogram(book);
        let reports_s = super::figures::ASSUMED_S * self.iotop.max(self.top) as f64;
        let length_s = self.biotop.length_s().max(reports_s);
        if let Some(waiting) = self.waiting {
            book.other(Metric::Blocked, "", waiting / self.iotop.max(1) as f64);
        }
        if length_s > 0.0 || is_histogram {
            book.go_to(crate::book::BEGIN_NS);
            book.advance(if length_s > 0.0 { length_s } else { super::figures::ASSUMED_S });
            book.sample(out.batch, out.names);
        }
        let of_histogram = is_histogram.then(|| {
            "a histogram tells latencies in steps of two, and neither rates nor times: its time \
             was taken for a second"
                .to_owned()
        });
        of_histogram.into_iter().chain(self.biotop.limit()).collect()
    }
}

/// The members that are missing: of `[2/1] [U_]` one.
fn members(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once('[').filter(|_| line.contains(" blocks"))?;
    let (counts, _) = rest.split_once(']')?;
    let (all, there) = counts.split_once('/')?;
    Some(all.parse::<u64>().ok()?.saturating_sub(there.parse().ok()?))
}

fn histogram_unit(line: &str) -> Option<f64> {
    let (unit, rest) = line.trim().split_once(':')?;
    if unit.trim() == ">=(ms) .. <(ms)" {
        return Some(1e6);
    }
    let is_one = rest.trim_start().starts_with("count") && rest.contains("distribution");
    match unit.trim() {
        "nsecs" if is_one => Some(1.0),
        "usecs" if is_one => Some(1e3),
        "msecs" if is_one => Some(1e6),
        _ => None,
    }
}

/// `%Cpu(s):  3.9 us,  0.6 sy,  0.0 ni,  0.0 id, 94.5 wa,  0.0 hi,  1.0 si,  0.0 st`; older ones
/// have `3.9%us`.
fn top(line: &str, book: &mut CounterBook) {
    let Some((_, rest)) = line.split_once(':') else { return };
    for part in rest.split(", ").flat_map(|part| part.split(',')) {
        let part = part.trim();
        let at = part.find(['%', ' ']).unwrap_or(part.len());
        let (Some(percent), name) =
            (number(&part[..at]), part[at..].trim_start_matches(['%', ' ']))
        else {
            continue;
        };
        let metric = match name {
            "us" | "ni" => Metric::CpuUser,
            "sy" | "hi" | "si" => Metric::CpuSystem,
            "id" => Metric::CpuIdle,
            "wa" => Metric::CpuIoWait,
            "st" => Metric::CpuSteal,
            _ => continue,
        };
        book.other(metric, "", percent.clamp(0.0, 100.0) * 1e7);
    }
}

/// Whether a line of `top` tells of the CPUs.
fn is_cpu_of_top(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("%Cpu(s):") || line.starts_with("Cpu(s):")
}

/// Whether a line is of `top`: also `KiB Mem: …`, `PID USER …`, and the row of a process, with its
/// state in the eighth column.
fn is_of_top(line: &str) -> bool {
    let line = line.trim_start();
    let begins = ["top - ", "Tasks:", "Threads:", "Mem:", "Swap:", "PID USER"];
    let words: Vec<&str> = line.split_whitespace().take(9).collect();
    let is_memory = matches!(words[..], [_, "Mem" | "Swap", ":", ..] | [_, "Swap:" | "Mem:", ..]);
    let is_row = || {
        let state = words.get(7)?;
        let is_state = state.len() == 1 && state.bytes().all(|byte| byte.is_ascii_uppercase());
        Some(is_state && words[0].parse::<u32>().is_ok())
    };
    is_cpu_of_top(line)
        || begins.iter().any(|beginning| line.starts_with(beginning))
        || is_memory
        || is_row() == Some(true)
}

/// A row of iotop.
struct IotopTask<'a> {
    pid: &'a str,
    name: &'a str,
    /// Bytes that were read and written in a second.
    moved: (f64, f64),
    /// The share of the time that it waited for I/O.
    waiting: Option<f64>,
}

impl<'a> IotopTask<'a> {
    /// `12345 be/4 mysql  3.52 M/s  117.30 K/s  0.00 % 95.12 % mysqld --user=mysql`.
    fn new(line: &'a str) -> Option<IotopTask<'a>> {
        // With `-t` a time stands before.
        let words: Vec<&str> = time_of_day(line).1.split_whitespace().collect();
        let [pid, class, _, read, read_unit, written, written_unit, ref rest @ ..] = words[..]
        else {
            return None;
        };
        pid.parse::<u32>().ok().filter(|_| class.contains('/'))?;
        let is_share =
            |word: &&str| *word == "%" || number(word).is_some() || *word == "?unavailable?";
        let shares = rest.iter().take_while(|word| is_share(word)).count();
        let command = rest.get(shares).copied().unwrap_or("");
        let name = match command.starts_with('/') {
            true => command.rsplit('/').next().unwrap_or(command),
            false => command.trim_matches(['[', ']']),
        };
        // The last share is that of I/O, behind the one of swapping in.
        let waiting = match rest.get(..shares).unwrap_or(&[]) {
            [.., percent, "%"] => number(percent).map(|percent| percent.clamp(0.0, 100.0) / 100.0),
            _ => None,
        };
        let moved = (rate(read, read_unit)?, rate(written, written_unit)?);
        Some(IotopTask { pid, name, moved, waiting })
    }

    fn add(&self, book: &mut CounterBook) {
        let subject = format!("{} {}", self.pid, self.name);
        book.other(Metric::CausedRead, &subject, self.moved.0);
        book.other(Metric::CausedWrite, &subject, self.moved.1);
    }
}

/// Bytes per second of `3.52 M/s`.
fn rate(value: &str, unit: &str) -> Option<f64> {
    let unit = match unit {
        "B/s" => 1.0,
        "K/s" => 1024.0,
        "M/s" => 1024.0 * 1024.0,
        "G/s" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number(value)? * unit)
}
