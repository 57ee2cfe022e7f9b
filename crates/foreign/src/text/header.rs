//! The tool of a header or line.
//!
//! What does not belong here: the meaning of rows (see `rows`).

use super::figures::{banner, ends_with_number, number, time_of_day};
use super::prometheus::NodeMetric;
use super::{atop, copies, kernel, pmrep, sadf, small, smart};
use crate::kind::ForeignKind;
use iowhy_core::model::Environment;

/// The first columns of sar's tables about memory, queues and transfers.
const OF_SAR: &[&str] = &["pswpin/s", "pgpgin/s", "kbmemfree", "kbswpfree", "runq-sz", "tps"];

/// Columns that a table may have: those of `iostat -x` are 23.
const MOST_COLUMNS: usize = 64;

/// A header of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHeader {
    /// The tool.
    pub kind: ForeignKind,
    /// The names of the columns, without the time of day before them.
    pub columns: Vec<String>,
    /// Whether it is the table of CPUs that iostat prints, too.
    pub is_cpu: bool,
}

impl TableHeader {
    /// Whether this is the next part of another table: of the same devices, by other columns.
    pub fn continues(&self, other: &TableHeader) -> bool {
        let is_one = |header: &TableHeader| {
            header.kind == ForeignKind::Iostat
                && !header.is_cpu
                && header.column(&["Device"]).is_some()
        };
        let is_new = |column: &String| column == "Device" || !other.columns.contains(column);
        let is_few = self.columns.len() + other.columns.len() <= MOST_COLUMNS;
        is_few && is_one(self) && is_one(other) && self.columns.iter().all(is_new)
    }

    /// The header in `line`; `None` if it is none.
    pub fn new(line: &str) -> Option<TableHeader> {
        let line = line.trim_start_matches('#').trim_start();
        if let Some(rest) = line.strip_prefix("avg-cpu:") {
            let columns = rest.split_whitespace().map(str::to_owned).collect();
            return Some(TableHeader { kind: ForeignKind::Iostat, columns, is_cpu: true });
        }
        if ends_with_number(line) {
            return None;
        }
        let words: Vec<&str> = time_of_day(line).1.split_whitespace().collect();
        let words = words.strip_prefix(&["Average:"]).unwrap_or(&words);
        if words.len() > MOST_COLUMNS {
            return None;
        }
        let has = |word: &str| words.contains(&word);
        let first = words.first()?.trim_end_matches(':');
        let kind = match () {
            () if first == "Device" && (has("%util") || has("tps")) => ForeignKind::Iostat,
            // `--pretty` puts the name behind, and shows each direction in a table of its own.
            () if has("Device") && ["tps", "r/s", "w/s", "d/s", "f/s"].contains(&first) => {
                ForeignKind::Iostat
            }
            () if first == "DEV" && has("tps") => ForeignKind::Sar,
            () if OF_SAR.contains(&first) && words.len() > 1 => ForeignKind::Sar,
            () if has("%iowait") && has("CPU") => ForeignKind::Sar,
            () if has("kB_rd/s") && has("PID") => ForeignKind::Pidstat,
            () if has("LAT(ms)") || has("LATms") => ForeignKind::Biosnoop,
            () if words.starts_with(&["r", "b"]) && has("bi") => ForeignKind::Vmstat,
            () => return None,
        };
        let columns = words.iter().filter(|word| **word != "Time").map(|word| (*word).to_owned());
        Some(TableHeader { kind, columns: columns.collect(), is_cpu: false })
    }

    /// The kind of a line that is a header, or tells its tool by itself.
    pub fn kind_of(line: &str) -> Option<ForeignKind> {
        let line = line.trim_start_matches('>');
        if let Some(header) = TableHeader::new(line) {
            return Some(header.kind);
        }
        match () {
            () if line.starts_with("procs -") => Some(ForeignKind::Vmstat),
            // All tools of sysstat begin so; a pipe may have no more yet.
            () if banner(line, &mut Environment::default()) => Some(ForeignKind::Iostat),
            () if nvme_title(line).is_some() => Some(ForeignKind::NvmeSmartLog),
            () if copies::diskstats(line).is_some() => Some(ForeignKind::Diskstats),
            // The first line of `atop -P`, before which a pipe may have no more.
            () if atop::is_line(line) || line == "RESET" => Some(ForeignKind::Atop),
            () if NodeMetric::new(line).is_some() => Some(ForeignKind::Prometheus),
            () if smart::begins(line) => Some(ForeignKind::Smartctl),
            () if small::kind_of(line).is_some() => small::kind_of(line),
            () if pmrep::is_header(line) => Some(ForeignKind::Pmrep),
            () if sadf::database(line).is_some() => Some(ForeignKind::Sar),
            () if sadf::SadfFigure::new(line).is_some() => Some(ForeignKind::Sar),
            () if copies::is_vmstat_disks(line) => Some(ForeignKind::Vmstat),
            () if kernel::is_message(line) => Some(ForeignKind::Dmesg),
            () => None,
        }
    }

    /// The number of the column with one of these names.
    pub fn column(&self, names: &[&str]) -> Option<usize> {
        self.columns.iter().position(|column| names.contains(&column.trim_end_matches(':')))
    }
}

/// Returns whether a line is the header of a table of sar that is not about storage: a time of day,
/// and names of columns such as `rxpck/s`.
pub fn is_of_other_table(line: &str) -> bool {
    if ends_with_number(line) {
        return false;
    }
    let (time, rest) = time_of_day(line);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_figure = |word: &&str| number(word).is_some();
    let has_mark = |word: &&str| word.ends_with("/s") || word.starts_with('%');
    time.is_some() && words.len() > 1 && !words.iter().any(is_figure) && {
        // A column in capitals names the subject of its rows: IFACE, FAN, BUS.
        let first = words.first().copied().unwrap_or("");
        words.iter().any(has_mark) || first.bytes().all(|byte| byte.is_ascii_uppercase())
    }
}

/// The device of `Smart Log for NVME device:nvme0n1 namespace-id:ffffffff`.
pub fn nvme_title(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Smart Log for NVME device:")?;
    Some(rest.split_whitespace().next()?.trim_start_matches("/dev/"))
}
