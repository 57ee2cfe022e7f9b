//! Rows of biosnoop (BCC's and libbpf's) and iosnoop as requests.
//!
//! What does not belong here: tables of rates (see `rows`).

use super::RowsOut;
use super::figures::number;
use super::header::TableHeader;
use crate::book::BEGIN_NS;
use iowhy_model::request::NOT_IN_DATA;
use iowhy_model::table::Table;
use iowhy_model::{Operation, Origin, Process, Request, RequestPart, Status};
use std::collections::BTreeSet;

/// Processes whose names are kept.
const MOST_PROCESSES: usize = 64 << 10;

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct SnoopRows {
    count: u64,
    last_ns: u64,
    met: BTreeSet<u32>,
}

impl SnoopRows {
    /// The end of its timeline, ns; 0 without any row.
    pub fn end_ns(&self) -> u64 {
        self.last_ns
    }

    /// Takes a row; false if it is none.
    pub fn row(&mut self, header: &TableHeader, line: &str, out: &mut RowsOut<'_>) -> bool {
        self.request(header, line, out).is_some()
    }

    fn request(&mut self, header: &TableHeader, line: &str, out: &mut RowsOut<'_>) -> Option<()> {
        let words = aligned(header, line)?;
        let text = |names: &[&str]| words.get(header.column(names)?).map(String::as_str);
        let milliseconds = |names: &[&str]| {
            number(text(names)?).filter(|ms| *ms >= 0.0).map(|ms| (ms * 1e6) as u64)
        };
        let latency_ns = milliseconds(&["LAT(ms)", "LATms"])?;
        let queue_ns = milliseconds(&["QUE(ms)"]);
        let seconds =
            |names: &[&str]| number(text(names)?).map(|seconds| (seconds.max(0.0) * 1e9) as u64);
        let ended_ns = seconds(&["TIME(s)", "ENDs"]).unwrap_or(0);
        let ended_ns = BEGIN_NS.saturating_add(ended_ns).max(latency_ns);
        let rwbs = text(&["T", "TYPE"])?;
        let pid: u32 = text(&["PID"])?.parse().ok()?;
        let device = text(&["DISK", "DEV"])?;
        let whole_ns = latency_ns.saturating_add(queue_ns.unwrap_or(0));
        self.count += 1;
        self.last_ns = self.last_ns.max(ended_ns);
        let process = out.names.intern(text(&["COMM"])?);
        let (major, minor) = numbers(device);
        let request = Request {
            request_id: self.count,
            status: Status::Complete,
            start_ns: ended_ns.saturating_sub(whole_ns),
            d2c_ns: Some(latency_ns),
            q2c_ns: queue_ns.map(|_| whole_ns),
            major,
            minor,
            sector: text(&["SECTOR", "BLOCK"])?.parse().unwrap_or(0),
            bytes: text(&["BYTES"])?.parse().ok()?,
            operation: operation(rwbs),
            origin: origin(rwbs),
            pid: Some(pid),
            tid: Some(pid),
            process: Some(process),
            ..Request::blank(out.names.intern(&device.replace(',', ":")), out.names.intern(rwbs))
        };
        let reason = out.names.intern(NOT_IN_DATA);
        out.batch.parts.push(RequestPart {
            file_reason: Some(reason),
            owner_pid: Some(pid),
            owner: Some(process),
            owner_share: Some(1.0),
            ..RequestPart::blank(request.request_id, request.bytes)
        });
        if self.met.len() < MOST_PROCESSES && self.met.insert(pid) {
            out.batch.processes.push(Process {
                pid,
                tid: pid,
                start_ns: request.start_ns,
                process,
                thread: process,
                ..Table::blank()
            });
        }
        out.batch.requests.push(request);
        Some(())
    }
}

/// The words of a row by column: a name may hold blanks.
fn aligned(header: &TableHeader, line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let name = header.column(&["COMM"])?;
    let extra = words.len().checked_sub(header.columns.len())?;
    if extra > 0 {
        let joined = words.get(name..=name + extra)?.join(" ");
        words.splice(name..=name + extra, [joined]);
    }
    Some(words)
}

/// iosnoop prints numbers: `202,1`.
fn numbers(device: &str) -> (u32, u32) {
    let pair = device.split_once(',');
    let pair = pair.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    pair.unwrap_or((0, 0))
}

fn operation(rwbs: &str) -> Operation {
    let flags = rwbs.trim_start_matches('F');
    match flags.chars().next() {
        Some('R') => Operation::Read,
        Some('W') => Operation::Write,
        Some('D') => Operation::Discard,
        Some('N') | None => Operation::Flush,
        Some(_) => Operation::Other,
    }
}

fn origin(rwbs: &str) -> Origin {
    match () {
        () if rwbs.contains('M') => Origin::Metadata,
        () if operation(rwbs) == Operation::Discard => Origin::Discard,
        () if operation(rwbs) == Operation::Flush => Origin::Flush,
        () if rwbs.get(1..).is_some_and(|flags| flags.contains('A')) => Origin::Readahead,
        () => Origin::Unknown,
    }
}
