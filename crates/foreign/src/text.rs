//! Lines of tools that print tables, in any mixture: a header defines the rows below it, times of
//! day give the length of an interval, and a message of the kernel needs no other line.
//!
//! | where | what |
//! |---|---|
//! | [`header`] | which tool's header or line it is |
//! | [`figures`] | numbers, times of day and column names |
//! | `rows`, `timeline` | reports of tables, their intervals and timelines |
//! | `columns` | what columns mean, as growth of counters |
//! | `copies`, `prometheus` | copies of the kernel's own counters |
//! | `atop` | lines of `atop -P` |
//! | `pmrep` | PCP's metrics by `pmrep` |
//! | `sadf` | lines of `sadf -d` and `sadf -p` as those of sar |
//! | `smart` | `smartctl -a` |
//! | `small`, `biotop` | mdstat, iotop, biotop, top, histograms |
//! | `requests` | rows of biosnoop and iosnoop as requests |
//! | `kernel` | messages of the kernel's log |
//! | `wrapped` | lines of tables that were wrapped |
//!
//! What does not belong here: files and their kinds (see [`crate::import`]).

mod atop;
mod biotop;
mod columns;
mod copies;
pub mod figures;
pub mod header;
mod kernel;
mod kernel_lines;
mod pmrep;
mod prometheus;
mod requests;
mod rows;
mod sadf;
mod small;
mod smart;
mod timeline;
mod wrapped;

use crate::book::CounterBook;
use crate::kind::ForeignKind;
pub use copies::since_boot;
use copies::{CounterCopies, diskstats};
use figures::ReportClock;
pub use header::TableHeader;
use iowhy_model::figures::counted;
use iowhy_model::health::HostMessage;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use kernel::KernelText;
use prometheus::NodeMetric;
use rows::PendingReport;
use std::collections::BTreeSet;

/// The numbers of sources without a table header, apart from those of tables.
const OF_COPIES: u32 = 1001;
const OF_ATOP: u32 = 1002;
const OF_SMALL: u32 = 1003;
const OF_PMREP: u32 = 1004;

/// The destination of rows and requests.
pub struct RowsOut<'a> {
    /// The rows.
    pub batch: &'a mut Batch,
    /// Their texts.
    pub names: &'a mut Names,
}

/// Reads lines.
#[derive(Debug, Default)]
pub struct TextTables {
    /// The header of the present table.
    header: Option<TableHeader>,
    clock: ReportClock,
    report: PendingReport,
    kernel: KernelText,
    requests: requests::SnoopRows,
    copies: CounterCopies,
    atop: atop::AtopLines,
    small: small::SmallTexts,
    pmrep: pmrep::PmrepText,
    /// Whether rows of a table of sar follow that is not about storage.
    is_other_table: bool,
    /// The columns of `sadf -d` whose rows follow.
    sadf: Option<String>,
    /// The row of `sadf -p` whose figures follow.
    sadf_row: sadf::SadfRow,
    smart: smart::SmartText,
    wrapped: wrapped::WrappedLines,
    /// Lines of another host than the first.
    of_other_hosts: u64,
    is_other_host: bool,
    kinds: BTreeSet<ForeignKind>,
    /// The tools with a header of a table, and those with a row below one.
    with_header: BTreeSet<ForeignKind>,
    with_row: BTreeSet<ForeignKind>,
    /// Lines that no tool is known for.
    unknown: u64,
    /// Whether a line is a single block event, and how many were.
    is_event: Option<fn(&str) -> bool>,
    events: u64,
    /// The device that a log of nvme is about.
    nvme: Option<(String, iowhy_model::health::NvmeHealth)>,
}

impl TextTables {
    /// The tools whose lines were read.
    pub fn kinds(&self) -> &BTreeSet<ForeignKind> {
        &self.kinds
    }

    /// Leaves names of tasks out of sentences.
    pub fn hide_names(&mut self) {
        self.kernel.is_nameless = true;
    }

    /// Whether nothing was read but headers of tables.
    pub fn is_without_rows(&self) -> bool {
        let rowless = self.with_header.difference(&self.with_row);
        !self.with_header.is_empty() && rowless.eq(self.kinds.iter())
    }

    /// A sentence on tables of which there is a header and no row, if lines of no tool follow.
    pub fn rowless(&self) -> Option<String> {
        let words: Vec<&str> =
            self.with_header.difference(&self.with_row).map(|kind| kind.word()).collect();
        (!words.is_empty() && self.unknown > 0).then(|| {
            format!(
                "no row below the header of {} could be read: lines may have been wrapped or cut",
                words.join(" and ")
            )
        })
    }

    /// Counts lines of which `is_event` is true by themselves.
    pub fn count_events(&mut self, is_event: fn(&str) -> bool) {
        self.is_event = Some(is_event);
    }

    fn is_event(&self, line: &str) -> bool {
        self.is_event.is_some_and(|is_event| is_event(line))
    }

    /// Lines that are single block events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Lines that were skipped.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Reads one line, or a part of one.
    pub fn line(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        let line = without_quotes(line);
        if !self.wrapped.concerns(line) {
            return self.whole_line(line, book, environment, out);
        }
        for whole in self.wrapped.take(line).into_iter().flatten() {
            self.whole_line(&whole, book, environment, out);
        }
    }

    fn whole_line(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        let line = line.trim_end();
        if line.trim().is_empty() {
            // sar and vmstat print an empty line between a header and the next one.
            return;
        }
        // Events end so or are remaps, and a row of a table may have as many words.
        if (line.ends_with(']') || line.contains(" <- (")) && self.is_event(line) {
            self.events += 1;
            return;
        }
        if self.is_of_another_host(line, environment) {
            return;
        }
        if figures::banner(line, environment) {
            return self.report.next_run(&mut self.clock, book, out);
        }
        if self.is_of_another_form(line, book, environment, out) || self.sar_row(line, book, out) {
            return;
        }
        if let Some(second) = figures::time_alone(line) {
            self.report.end_rows(&mut self.clock, book, out);
            self.clock.at(second);
            return;
        }
        if let Some(header) = TableHeader::new(line) {
            self.kinds.insert(header.kind);
            if !header.is_cpu {
                self.with_header.insert(header.kind);
            }
            self.report.begin(&header, &mut self.clock, line, book, out);
            (self.header, self.is_other_table) = (Some(header), false);
            return;
        }
        if header::is_of_other_table(line) {
            // Its rows may have as many columns as the table before.
            self.report.end_rows(&mut self.clock, book, out);
            (self.header, self.is_other_table) = (None, true);
            return;
        }
        if self.nvme_line(line, book) || self.kernel.line(line, book) {
            self.kinds.insert(match self.nvme {
                Some(_) => ForeignKind::NvmeSmartLog,
                None => ForeignKind::Dmesg,
            });
            return;
        }
        let counted = self.counters(line, book, environment, out);
        if counted.is_some() {
            self.kinds.extend(counted);
            return;
        }
        let is_row = match &self.header {
            Some(header) if header.kind == ForeignKind::Biosnoop => {
                self.requests.row(header, line, out)
            }
            Some(header) => self.report.row(header, line, &mut self.clock, book, out),
            None => false,
        };
        match &self.header {
            // The CPU's row of iostat is none of its devices.
            Some(header) if is_row && header.is_cpu => {}
            Some(header) if is_row => _ = self.with_row.insert(header.kind),
            _ => self.other(line, book),
        }
    }

    /// Reads a row of a table of sar, which begins with a time of day and ends with a number: most
    /// of a report's lines are such, and no line of another tool is.
    fn sar_row(&mut self, line: &str, book: &mut CounterBook, out: &mut RowsOut<'_>) -> bool {
        let header = self.header.as_ref().filter(|header| header.kind == ForeignKind::Sar);
        let is_row = header.is_some_and(|header| {
            figures::ends_with_number(line)
                && figures::time_of_day(line).0.is_some()
                && self.report.row(header, line, &mut self.clock, book, out)
        });
        if is_row {
            self.with_row.insert(ForeignKind::Sar);
        }
        is_row
    }

    /// Reads a line of `sadf -d`, `sadf -p` or `pmrep`; false if it is of neither.
    fn is_of_another_form(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) -> bool {
        if let Some(printed) = sadf::database(line) {
            self.sadf_line(printed, book, environment, out);
            return true;
        }
        if let Some(figure) = sadf::SadfFigure::new(line) {
            for printed in self.sadf_row.take(&figure) {
                self.sadf_line(printed, book, environment, out);
            }
            return true;
        }
        book.table(OF_PMREP);
        let is_pmrep = self.pmrep.line(line, &mut self.clock, book, out);
        if is_pmrep {
            self.kinds.insert(ForeignKind::Pmrep);
        }
        is_pmrep
    }

    /// Reads a line of `sadf -d`, or one that `sadf -p` stands for.
    fn sadf_line(
        &mut self,
        printed: sadf::SadfLine,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        let Some(interval_s) = printed.interval_s else {
            let is_known = TableHeader::new(&printed.text).is_some();
            self.sadf = is_known.then_some(printed.text);
            self.header = None;
            return;
        };
        if environment.host.is_empty() {
            environment.host.clone_from(&printed.host);
        } else if environment.host != printed.host {
            self.of_other_hosts += 1;
            return;
        }
        if let Some(columns) = self.sadf.take() {
            // The first interval begins before its row.
            let begin = figures::time_of_day(&printed.text).0.unwrap_or(0.0) - interval_s;
            let header = format!("{} {columns}", figures::of_day(begin));
            self.whole_line(&header, book, environment, out);
        }
        if self.header.is_some() {
            self.whole_line(&printed.text, book, environment, out);
        }
    }

    /// Reads a line of a text without a table.
    fn other(&mut self, line: &str, book: &mut CounterBook) {
        if self.smart.line(line, book) {
            self.kinds.insert(ForeignKind::Smartctl);
            return;
        }
        book.table(OF_SMALL);
        match self.small.line(line, book) {
            Some(kind) => _ = self.kinds.insert(kind),
            None if self.is_event(line) => self.events += 1,
            None if self.is_other_table && figures::begins_row(line) => {}
            None => self.unknown += u64::from(!is_remark(line)),
        }
    }

    /// Whether a line is of another host than the first, by sysstat's first lines.
    fn is_of_another_host(&mut self, line: &str, environment: &Environment) -> bool {
        // A host may be told with its domain or without.
        let short = |host: &str| host.split('.').next().unwrap_or(host).to_owned();
        if let Some(host) = figures::host_of_banner(line) {
            let known = &environment.host;
            self.is_other_host = !known.is_empty() && short(known) != short(host);
        }
        self.of_other_hosts += u64::from(self.is_other_host);
        self.is_other_host
    }

    /// Begins the next file of an archive, whose lines have nothing to do with those before.
    pub fn next_file(&mut self, book: &mut CounterBook) {
        self.end_nvme(book);
        self.smart.end(book);
        self.is_other_host = false;
        (self.header, self.is_other_table) = (None, false);
        self.wrapped = wrapped::WrappedLines::default();
        self.kernel.next_file();
    }

    /// Reads a line of a log of all programs, of which only messages of the kernel are used.
    pub fn log_line(&mut self, line: &str, book: &mut CounterBook) {
        let line = line.trim_end();
        if line.contains(" kernel: ") && self.kernel.line(line, book) {
            self.kinds.insert(ForeignKind::Dmesg);
        }
    }

    /// Reads a line that is a counter by itself.
    fn counters(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) -> Option<ForeignKind> {
        book.table(OF_COPIES);
        if let Some((name, counters)) = diskstats(line) {
            self.copies.device(name, counters, &mut self.clock, book, out);
            return Some(ForeignKind::Diskstats);
        }
        if self.copies.vmstat(line, &mut self.clock, book, out) {
            return Some(ForeignKind::Vmstat);
        }
        if let Some(metric) = NodeMetric::new(line) {
            if metric.is_next(&self.copies) {
                self.copies.end(&mut self.clock, book, out);
            }
            metric.take(&mut self.copies);
            return Some(ForeignKind::Prometheus);
        }
        book.table(OF_ATOP);
        self.atop.line(line, book, environment, out).then_some(ForeignKind::Atop)
    }

    /// Returns the messages of the kernel's log about the machine.
    pub fn host_messages(&self) -> Vec<HostMessage> {
        self.kernel.host_messages().to_vec()
    }

    /// Reads a line of `nvme smart-log`.
    fn nvme_line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        if let Some(device) = header::nvme_title(line) {
            self.end_nvme(book);
            self.nvme = Some((device.to_owned(), iowhy_model::health::NvmeHealth::default()));
            return true;
        }
        match &mut self.nvme {
            Some((_, health)) => figures::nvme_field(line, health),
            None => false,
        }
    }

    fn end_nvme(&mut self, book: &mut CounterBook) {
        if let Some((device, nvme)) = self.nvme.take() {
            let health = iowhy_model::health::DeviceHealth {
                asked_ns: book.now_ns(),
                nvme: Some(nvme),
                ..Default::default()
            };
            let disk = if device.contains('n') && device.rfind('n') > Some(3) {
                device
            } else {
                book.disk_of(&device)
            };
            book.health(&disk, None, health);
        }
    }

    /// Ends the open tables, and adds the limits of the lines.
    pub fn finish(
        &mut self,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        if let Some(line) = self.wrapped.end() {
            self.whole_line(&line, book, environment, out);
        }
        for printed in self.sadf_row.end() {
            self.sadf_line(printed, book, environment, out);
        }
        self.end_nvme(book);
        self.smart.end(book);
        self.report.finish(&mut self.clock, book, out);
        book.table(OF_COPIES);
        environment.limits.extend(self.copies.finish(&mut self.clock, book, out));
        book.table(OF_ATOP);
        environment.limits.extend(self.atop.finish(book, out));
        book.table(OF_SMALL);
        environment.limits.extend(self.small.finish(book, out));
        environment.limits.extend(self.report.limits());
        environment.limits.extend(self.kernel.limits());
        environment.limits.extend(self.rowless());
        book.finish(out.batch, out.names);
        environment.limits.extend(book.limits());
        let meaning = "lines are of another host than the first, and were left out: give one host \
                       at a time";
        if self.of_other_hosts > 0 {
            environment.limits.push(counted(self.of_other_hosts, meaning));
        }
        let left_out = self.copies.left_out();
        if left_out > 0 {
            environment.limits.push(counted(left_out, "counters of further devices were left out"));
        }
        environment.start_ns = crate::book::BEGIN_NS;
        let end_ns = book.end_ns().max(self.requests.end_ns());
        environment.end_ns = end_ns.max(self.kernel.end_ns());
    }
}

/// Returns a line without the prefix of mail programs, and without blanks at its end.
fn unquoted(line: &str) -> &str {
    without_quotes(line).trim_end()
}

/// Returns a line without the prefix of mail programs; blanks at its end tell whether it goes on.
fn without_quotes(line: &str) -> &str {
    let mut rest = line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
    while let Some(behind) = rest.strip_prefix('>') {
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    rest
}

/// Whether a line only explains others: comments of Prometheus, marks of a forum's code, the groups
/// of vmstat's columns.
fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    ["# HELP ", "# TYPE ", "```", "procs -"].iter().any(|beginning| line.starts_with(beginning))
}
