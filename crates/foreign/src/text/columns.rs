//! The meaning of the columns of tables: a row's figures as growth of counters.
//!
//! What does not belong here: the beginnings and ends of reports (see `rows`).

use super::figures::{human_bytes, number};
use super::header::TableHeader;
use crate::book::CounterBook;
use crate::kind::ForeignKind;
use iowhy_model::Metric;

/// Bytes of a sector.
pub(super) const SECTOR: f64 = 512.0;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
/// Bytes of a page: sar counts them, and x86 and most ARM kernels have such.
pub(super) const PAGE: f64 = 4096.0;

/// Columns of the machine as vmstat and sar name them, and the factor to the metric's unit; the
/// last field says whether it is a rate.
const OF_MACHINE: &[(&str, Metric, f64, bool)] = &[
    // vmstat: blocks and memory in KiB.
    ("r", Metric::Running, 1.0, false),
    ("b", Metric::Blocked, 1.0, false),
    ("free", Metric::MemoryFree, KIB, false),
    ("buff", Metric::Buffers, KIB, false),
    ("cache", Metric::Cached, KIB, false),
    ("si", Metric::SwappedIn, KIB, true),
    ("so", Metric::SwappedOut, KIB, true),
    ("bi", Metric::PagedIn, KIB, true),
    ("bo", Metric::PagedOut, KIB, true),
    // sar -q, -r, -S, -W.
    ("runq-sz", Metric::Running, 1.0, false),
    ("blocked", Metric::Blocked, 1.0, false),
    ("kbmemfree", Metric::MemoryFree, KIB, false),
    ("kbavail", Metric::MemoryAvailable, KIB, false),
    ("kbbuffers", Metric::Buffers, KIB, false),
    ("kbcached", Metric::Cached, KIB, false),
    ("kbdirty", Metric::Dirty, KIB, false),
    ("kbswpfree", Metric::SwapFree, KIB, false),
    ("pswpin/s", Metric::SwappedIn, PAGE, true),
    ("pswpout/s", Metric::SwappedOut, PAGE, true),
    // sar -B.
    ("pgpgin/s", Metric::PagedIn, KIB, true),
    ("pgpgout/s", Metric::PagedOut, KIB, true),
    ("fault/s", Metric::Faults, 1.0, true),
    ("majflt/s", Metric::MajorFaults, 1.0, true),
    ("pgscank/s", Metric::ScannedBackground, PAGE, true),
    ("pgscand/s", Metric::ScannedDirect, PAGE, true),
    // sar -b.
    ("bread/s", Metric::PagedIn, SECTOR, true),
    ("bwrtn/s", Metric::PagedOut, SECTOR, true),
];

/// A row of a table.
pub(super) struct TableRow<'a> {
    pub header: &'a TableHeader,
    pub words: &'a [String],
    pub seconds: f64,
}

impl TableRow<'_> {
    fn text(&self, names: &[&str]) -> Option<&str> {
        let column = self.header.column(names)?;
        self.words.get(column).map(String::as_str)
    }

    fn get(&self, names: &[&str]) -> Option<f64> {
        number(self.text(names)?)
    }

    /// The growth of a rate.
    fn grown(&self, names: &[&str]) -> Option<f64> {
        self.get(names).map(|rate| rate * self.seconds)
    }

    /// Sectors per second, whatever unit the column has.
    fn sectors(&self, names: [&str; 3]) -> Option<f64> {
        let [kib, mib, sectors] = names;
        // A figure with a unit is in bytes, under any column name.
        let bytes = self.text(&names).and_then(human_bytes);
        if bytes.is_some() {
            return bytes.map(|rate| rate / SECTOR);
        }
        self.get(&[kib])
            .map(|rate| rate * KIB / SECTOR)
            .or_else(|| self.get(&[mib]).map(|rate| rate * MIB / SECTOR))
            .or_else(|| self.get(&[sectors]))
    }

    /// Adds the row's figures to the book.
    pub fn take(&self, book: &mut CounterBook) {
        match self.header.kind {
            ForeignKind::Iostat => device(self, book),
            ForeignKind::Sar if self.header.column(&["DEV"]).is_some() => device(self, book),
            ForeignKind::Pidstat => process(self, book),
            ForeignKind::Vmstat | ForeignKind::Sar => machine(self, book),
            _ => {}
        }
    }
}

/// A row of iostat or sar about a device.
fn device(row: &TableRow<'_>, book: &mut CounterBook) {
    let Some(name) = row.text(&["Device", "DEV"]) else { return };
    let seconds = row.seconds;
    let mut grown = Vec::new();
    let mut add = |column: usize, value: Option<f64>| {
        grown.extend(value.map(|value| (column, value)));
    };
    let joint = row.get(&["await"]);
    let mut is_joint = false;
    for (first, rate, merged, sectors, wait) in [
        (0, "r/s", "rrqm/s", ["rkB/s", "rMB/s", "rsec/s"], "r_await"),
        (4, "w/s", "wrqm/s", ["wkB/s", "wMB/s", "wsec/s"], "w_await"),
        (11, "d/s", "drqm/s", ["dkB/s", "dMB/s", "dsec/s"], "d_await"),
    ] {
        let requests = row.grown(&[rate]);
        add(first, requests);
        add(first + 1, row.grown(&[merged]));
        let moved = row.sectors(sectors);
        let plain = match first {
            0 => row.sectors(["kB_read/s", "MB_read/s", "Blk_read/s"]),
            4 => row.sectors(["kB_wrtn/s", "MB_wrtn/s", "Blk_wrtn/s"]),
            _ => row.sectors(["kB_dscd/s", "MB_dscd/s", "Blk_dscd/s"]),
        };
        add(first + 2, moved.or(plain).map(|rate| rate * seconds));
        // Before sysstat 10 there was one time for both.
        let wait = row.get(&[wait]).or_else(|| {
            is_joint |= requests.is_some() && joint.is_some();
            joint.filter(|_| requests.is_some())
        });
        add(first + 3, requests.zip(wait).map(|(count, wait)| count * wait));
    }
    let flushes = row.grown(&["f/s"]);
    add(15, flushes);
    add(16, flushes.zip(row.get(&["f_await"])).map(|(count, wait)| count * wait));
    let share = row.get(&["%util"]).map(|percent| percent.clamp(0.0, 100.0) / 100.0);
    add(9, share.map(|share| share * seconds * 1e3));
    let depth = row.get(&["aqu-sz", "avgqu-sz"]);
    add(10, depth.map(|depth| depth * seconds * 1e3));
    let name = sar_name(name, book);
    book.add(&name, &grown);
    if row.header.column(&["r/s"]).is_none()
        && let Some(requests) = row.grown(&["tps"])
    {
        book.undirected(&name, requests, joint.map(|wait| wait * requests));
    }
    if is_joint {
        book.note_joint_times();
    }
}

/// A device of sar without `-p` is `dev8-0`: its numbers.
fn sar_name(name: &str, book: &mut CounterBook) -> String {
    let numbers = name.strip_prefix("dev").and_then(|rest| rest.split_once('-'));
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((major, minor)) = numbers else { return name.to_owned() };
    let name = format!("{major}:{minor}");
    book.number(&name, (major, minor));
    name
}

/// The name of the program in a command line, which `pidstat -l` prints; a name without one.
fn program(command: &str) -> &str {
    let path = command.split_whitespace().next().filter(|word| word.starts_with('/'));
    path.and_then(|path| path.rsplit('/').next()).unwrap_or(command)
}

/// A row of `pidstat -d`.
fn process(row: &TableRow<'_>, book: &mut CounterBook) {
    let (Some(pid), Some(name)) = (row.text(&["PID", "TGID"]), row.text(&["Command"])) else {
        return;
    };
    if pid == "-" {
        // A thread by `-t`, which is part of its process.
        return;
    }
    let subject = format!("{pid} {}", program(name));
    for (column, metric) in [
        ("kB_rd/s", Metric::CausedRead),
        ("kB_wr/s", Metric::CausedWrite),
        ("kB_ccwr/s", Metric::CancelledWrite),
    ] {
        // -1 stands for a rate that must not be read.
        let bytes = row.text(&[column]).and_then(human_bytes);
        let bytes = bytes.or_else(|| row.get(&[column]).map(|rate| rate * KIB));
        if let Some(rate) = bytes.filter(|rate| *rate >= 0.0) {
            book.other(metric, &subject, rate * row.seconds);
        }
    }
}

/// The shares of CPU time of a row, on one CPU: only their proportions are known.
pub(super) fn cpu(
    header: &TableHeader,
    rows: &[Vec<String>],
    seconds: f64,
    book: &mut CounterBook,
) {
    let Some(words) = rows.first() else { return };
    cpu_shares(&TableRow { header, words, seconds }, book);
}

fn cpu_shares(row: &TableRow<'_>, book: &mut CounterBook) {
    // Of `sar -P ALL` the sum of all CPUs is what counts.
    if row.text(&["CPU"]).is_some_and(|cpu| cpu != "all") {
        return;
    }
    for (names, metric) in [
        (["%user", "us"], Metric::CpuUser),
        (["%nice", "ni"], Metric::CpuUser),
        (["%usr", "%gnice"], Metric::CpuUser),
        (["%system", "sy"], Metric::CpuSystem),
        (["%sys", "%soft"], Metric::CpuSystem),
        (["%idle", "id"], Metric::CpuIdle),
        (["%iowait", "wa"], Metric::CpuIoWait),
        (["%steal", "st"], Metric::CpuSteal),
    ] {
        if let Some(percent) = row.get(&names) {
            book.other(metric, "", percent.clamp(0.0, 100.0) / 100.0 * row.seconds * 1e9);
        }
    }
}

/// A row about the machine.
fn machine(row: &TableRow<'_>, book: &mut CounterBook) {
    for (name, metric, unit, is_rate) in OF_MACHINE {
        let value = if *is_rate { row.grown(&[name]) } else { row.get(&[name]) };
        if let Some(value) = value {
            book.other(*metric, "", value * unit);
        }
    }
    cpu_shares(row, book);
}
