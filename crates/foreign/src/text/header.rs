//! The tool of a header or line.
//!
//! What does not belong here: the meaning of rows (see `rows`).

use super::figures::{banner, behind_mean, ends_with_number, number, time_of_day};
use super::prometheus::NodeMetric;
use super::{atop, copies, kernel, pmrep, sadf, small, smart};
use crate::kind::ForeignKind;
use iowhy_model::Environment;

/// The first columns of sar's tables about memory, queues and transfers.
pub(super) const OF_SAR: &[&str] =
    &["pswpin/s", "pgpgin/s", "kbmemfree", "kbswpfree", "runq-sz", "tps"];

/// First columns of tables of sar and pidstat: what stands before them is a time.
const FIRST: &[&str] = &["DEV", "CPU", "UID", "USER", "PID", "TGID"];
/// Words before the first column: the parts of a time that a locale writes.
const MOST_BEFORE: usize = 5;

/// Columns that a table may have: those of `iostat -x` are 23.
const MOST_COLUMNS: usize = 64;

/// A header of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHeader {
    /// The tool.
    pub kind: ForeignKind,
    /// The names of the columns, without the time of day before them.
    pub columns: Vec<String>,
    /// Words between the time of day and the columns: a zone, or a time that is not known as one.
    pub before: usize,
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
            return Some(TableHeader {
                kind: ForeignKind::Iostat,
                columns,
                before: 0,
                is_cpu: true,
            });
        }
        if ends_with_number(line) {
            return None;
        }
        // Old versions of iostat have a colon, too: `Device:`.
        let mean = behind_mean(line).filter(|_| !line.starts_with("Device"));
        let (time, rest) = time_of_day(line);
        let timeless = mean.unwrap_or(rest);
        let all: Vec<&str> = timeless.split_whitespace().collect();
        if all.len() > MOST_COLUMNS {
            return None;
        }
        let before = words_before(&all, time.is_some());
        let words = all.get(before..)?;
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
            () if has("kB_rd/s") && (has("PID") || has("TGID")) => ForeignKind::Pidstat,
            () if has("LAT(ms)") || has("LATms") => ForeignKind::Biosnoop,
            () if words.starts_with(&["r", "b"]) && has("bi") => ForeignKind::Vmstat,
            () => return None,
        };
        let columns = words.iter().filter(|word| **word != "Time").map(|word| (*word).to_owned());
        let before = all.iter().take(before).filter(|word| **word != "Time").count();
        Some(TableHeader { kind, columns: columns.collect(), before, is_cpu: false })
    }

    /// The kind of a line that is a header, or tells its tool by itself.
    pub fn kind_of(line: &str) -> Option<ForeignKind> {
        let line = super::unquoted(line);
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

/// Words before the first known column of sar and pidstat: what a locale adds to a time, or a time
/// that is not known.
fn words_before(words: &[&str], is_timed: bool) -> usize {
    let is_first = |word: &&str| FIRST.contains(word) || OF_SAR.contains(word);
    let at = words.iter().take(MOST_BEFORE + 1).position(is_first).unwrap_or(0);
    let before = words.get(..at).unwrap_or(&[]);
    let is_of_time = |word: &&str| {
        let is_zone =
            is_timed && word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        is_zone || *word == "Time" || !word.is_ascii() || word.contains(char::is_numeric)
    };
    if before.iter().all(is_of_time) { at } else { 0 }
}

/// Returns whether a line is the header of a table of sar that is not about storage: a time of day,
/// and names of columns such as `rxpck/s`.
pub fn is_of_other_table(line: &str) -> bool {
    if ends_with_number(line) {
        return false;
    }
    let (time, rest) = time_of_day(line);
    let mean = behind_mean(line);
    let rest = mean.unwrap_or(rest);
    // A zone may stand before the columns: +0000.
    let is_zone = |word: &&str| word.starts_with(['+', '-']);
    let words: Vec<&str> = rest.split_whitespace().skip_while(is_zone).collect();
    let is_figure = |word: &&str| number(word).is_some();
    let has_mark = |word: &&str| word.ends_with("/s") || word.starts_with('%');
    let marks = words.iter().filter(|word| has_mark(word)).count();
    let is_one = time.is_some() || marks > 1 || mean.is_some() && marks > 0;
    is_one && words.len() > 1 && !words.iter().any(is_figure) && {
        // A column in capitals names the subject of its rows: IFACE, FAN, BUS.
        let first = words.first().copied().unwrap_or("");
        marks > 0 || first.bytes().all(|byte| byte.is_ascii_uppercase())
    }
}

/// The device of `Smart Log for NVME device:nvme0n1 namespace-id:ffffffff`.
pub fn nvme_title(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Smart Log for NVME device:")?;
    Some(rest.split_whitespace().next()?.trim_start_matches("/dev/"))
}
