//! Lines of tools that print tables, in any mixture: a header says what the rows below it are, a
//! time of day how long an interval was, and a message of the kernel stands for itself.
//!
//! | where | what |
//! |---|---|
//! | [`header`] | which tool's header or line it is |
//! | [`figures`] | numbers, times of day and column names |
//! | `rows` | rows of tables as growth of counters |
//! | `requests` | rows of biosnoop and iosnoop as requests |
//! | `kernel` | messages of the kernel's log |
//!
//! What does not belong here: files and their kinds (see [`crate::import`]).

pub mod figures;
pub mod header;
mod kernel;
mod requests;
mod rows;

use crate::book::CounterBook;
use crate::kind::ForeignKind;
use figures::ReportClock;
pub use header::TableHeader;
use iowhy_core::model::{Environment, Names};
use iowhy_core::source::Batch;
use kernel::KernelText;
use rows::PendingReport;
pub use rows::since_boot;
use std::collections::BTreeSet;

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
    kinds: BTreeSet<ForeignKind>,
    /// Lines that no tool is known for.
    unknown: u64,
    /// The device that a log of nvme is about.
    nvme: Option<(String, iowhy_core::model::health::NvmeHealth)>,
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

    /// Lines that were skipped.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Reads one line.
    pub fn line(
        &mut self,
        line: &str,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        let line = line.trim_end().trim_start_matches('>').trim_start_matches('\u{feff}');
        if line.trim().is_empty() {
            // sar and vmstat print an empty line between a header and the next one.
            return;
        }
        if figures::banner(line, environment) {
            return;
        }
        if let Some(second) = figures::time_alone(line) {
            self.report.end_rows(&mut self.clock, book, out);
            self.clock.at(second);
            return;
        }
        if let Some(header) = TableHeader::new(line) {
            self.kinds.insert(header.kind);
            self.report.begin(&header, &mut self.clock, line, book, out);
            self.header = Some(header);
            return;
        }
        if self.nvme_line(line, book) || self.kernel.line(line, book) {
            self.kinds.insert(match self.nvme {
                Some(_) => ForeignKind::NvmeSmartLog,
                None => ForeignKind::Dmesg,
            });
            return;
        }
        if rows::diskstats(line).is_some() {
            self.kinds.insert(ForeignKind::Diskstats);
            self.report.diskstats(line, &mut self.clock, book, out);
            return;
        }
        let is_row = match &self.header {
            Some(header) if header.kind == ForeignKind::Biosnoop => {
                self.requests.row(header, line, out)
            }
            Some(header) => self.report.row(header, line, &mut self.clock, book, out),
            None => false,
        };
        self.unknown += u64::from(!is_row);
    }

    /// Reads a line of `nvme smart-log`.
    fn nvme_line(&mut self, line: &str, book: &mut CounterBook) -> bool {
        if let Some(device) = header::nvme_title(line) {
            self.end_nvme(book);
            self.nvme = Some((device.to_owned(), iowhy_core::model::health::NvmeHealth::default()));
            return true;
        }
        match &mut self.nvme {
            Some((_, health)) => figures::nvme_field(line, health),
            None => false,
        }
    }

    fn end_nvme(&mut self, book: &mut CounterBook) {
        if let Some((device, nvme)) = self.nvme.take() {
            let health = iowhy_core::model::health::DeviceHealth {
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

    /// Ends what is open, and says what the lines could not tell.
    pub fn finish(
        &mut self,
        book: &mut CounterBook,
        environment: &mut Environment,
        out: &mut RowsOut<'_>,
    ) {
        self.end_nvme(book);
        self.report.finish(&mut self.clock, book, out);
        environment.limits.extend(self.report.limits());
        environment.limits.extend(self.kernel.limits());
        environment.start_ns = crate::book::BEGIN_NS;
        let end_ns = book.now_ns().max(self.requests.end_ns());
        environment.end_ns = end_ns.max(self.kernel.end_ns());
    }
}
