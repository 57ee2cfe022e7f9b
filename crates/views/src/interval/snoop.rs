//! `iowhy snoop`: a line for each request, as biosnoop and iosnoop print them, with its file.

use crate::escape::{cut, escape, fit, width};
use crate::human;
use crate::json;
use crate::style::{Paint, Style};
use iowhy_model::clock::WallClock;
use iowhy_model::{Environment, Names, Request, RequestPart, Status};
use std::collections::BTreeSet;

/// Width from which the first sector is shown too; below it, the file is more useful.
pub const ROOMY: usize = 100;

/// Maximum number of reasons listed in full at the end. Only a forged recording has more.
const MOST_REASONS: usize = 16;

/// The columns of a line, and their widths.
#[derive(Clone, Debug)]
pub struct Lines {
    style: Style,
    /// Whether time before the driver has a column.
    queued: bool,
    start_ns: u64,
    /// The wall clock; without it, times are seconds since the watch began.
    clock: Option<WallClock>,
    /// Reasons for unknown files that were cut off in their lines.
    cut: BTreeSet<String>,
}

impl Lines {
    /// Lines of a watch; `queued` adds the time before the driver, `monotonic` shows seconds since
    /// the watch began instead of the time of day.
    pub fn new(style: Style, queued: bool, monotonic: bool, environment: &Environment) -> Lines {
        let clock = WallClock::from_environment(environment).filter(|_| !monotonic);
        Lines { style, queued, start_ns: environment.start_ns, clock, cut: BTreeSet::new() }
    }

    /// Explains the time column: the date and the offset from UTC.
    pub fn times(&self) -> Option<String> {
        let clock = self.clock.as_ref()?;
        Some(format!(
            "times are of the host's clock; the first is {}",
            clock.date_time(self.start_ns)
        ))
    }

    /// Names biosnoop's column that does not fit.
    pub fn left_out(&self) -> Option<String> {
        let is_roomy = self.style.columns() >= ROOMY;
        let text = format!("SECTOR is shown from {ROOMY} columns on, and with --wide");
        (!is_roomy).then_some(text)
    }

    /// The headings.
    pub fn heading(&self) -> String {
        let time = if self.clock.is_some() { "TIME" } else { "TIME(s)" };
        let words = [time, "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"];
        let line = self.columns(&words.map(str::to_owned)) + "FILE";
        format!("{}\n", self.style.paint(&line, Paint::Heading))
    }

    /// One request.
    pub fn line(&mut self, request: &Request, parts: &[RequestPart], names: &Names) -> String {
        let text = |name| escape(names.get(name), &self.style).into_owned();
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| human::milliseconds(ns as f64));
        let ended_ns = request.start_ns.saturating_add(request.q2c_ns.unwrap_or(0));
        let latency = match (request.d2c_ns, request.status) {
            (_, Status::InFlight) => "open".to_owned(),
            (None, _) => time(request.q2c_ns),
            (known, _) => time(known),
        };
        let queued = request.q2c_ns.zip(request.d2c_ns).map(|(all, own)| all.saturating_sub(own));
        let cells = [
            self.time(ended_ns),
            request.process.map_or("-".to_owned(), text),
            request.pid.map_or("-".to_owned(), |pid| pid.to_string()),
            text(request.device),
            text(request.rwbs),
            request.sector.to_string(),
            request.bytes.to_string(),
            time(queued),
            latency,
        ];
        let line = self.columns(&cells);
        let room = self.style.columns().saturating_sub(width(&line)).max(12);
        let line = line + &self.file(request, parts, names, room);
        format!("{}\n", line.trim_end())
    }

    /// The time of day, to the microsecond if it fits; or seconds since the watch began.
    fn time(&self, at_ns: u64) -> String {
        let digits = if self.style.columns() >= ROOMY { 6 } else { 3 };
        match &self.clock {
            Some(clock) => clock.precise_time(at_ns, digits),
            None => format!("{:.6}", at_ns.saturating_sub(self.start_ns) as f64 / 1e9),
        }
    }

    /// The full text of reasons that were cut off.
    pub fn legend(&self) -> Option<String> {
        let reasons: Vec<String> = self.cut.iter().map(|reason| format!("({reason})")).collect();
        (!reasons.is_empty()).then(|| format!("in full: {}", reasons.join(", ")))
    }

    /// The file, the number of further files, and the error, in `room` columns.
    fn file(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        names: &Names,
        room: usize,
    ) -> String {
        let before = request.error.map_or_else(String::new, |error| format!("error {error} "));
        let after = match parts.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" +{}", human::count(more as u64)),
        };
        let room = room.saturating_sub(width(&before) + width(&after));
        let first = parts.iter().find_map(|part| part.file);
        let reason = parts.iter().find_map(|part| part.file_reason);
        let file = match (first, reason) {
            (Some(file), _) => fit(&escape(names.get(file), &self.style), room, &self.style),
            (None, Some(reason)) => self.reason(names.get(reason), room),
            (None, None) => "-".to_owned(),
        };
        format!("{before}{file}{after}")
    }

    /// Returns the reason why there is no file. One that is too long is cut, and the legend has the
    /// full text.
    fn reason(&mut self, reason: &str, room: usize) -> String {
        let reason = escape(reason, &self.style).into_owned();
        let text = format!("({reason})");
        let shown = cut(&text, room, &self.style);
        if shown != text && self.cut.len() < MOST_REASONS {
            self.cut.insert(reason);
        }
        shown
    }

    /// All columns but the file's.
    fn columns(&self, cells: &[String; 9]) -> String {
        let roomy = self.style.columns() >= ROOMY;
        let time = match self.clock {
            Some(_) if roomy => 16,
            Some(_) => 13,
            None => 11,
        };
        // The width of each column; numbers are right-aligned.
        let columns: [(usize, bool, bool); 9] = [
            (time, false, true),
            (14, false, true),
            (8, false, true),
            (9, false, true),
            (5, false, true),
            (11, true, roomy),
            (8, true, true),
            (8, true, self.queued),
            (8, true, true),
        ];
        let mut line = String::new();
        for (cell, (room, right, _)) in cells.iter().zip(columns).filter(|pair| pair.1.2) {
            let cell = cut(cell, room - 1, &self.style);
            let pad = " ".repeat(room - 1 - width(&cell));
            let (before, after) = if right { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.extend([before, &cell, after, " "]);
        }
        line
    }
}

/// One request as one line of JSON, its column names those of recordings.
pub fn json_line(
    request: &Request,
    parts: &[RequestPart],
    names: &Names,
    clock: Option<&WallClock>,
) -> String {
    let text = |name| names.get(name);
    let files: Vec<&str> = parts.iter().filter_map(|part| part.file).map(text).collect();
    let line = serde_json::json!({
        "request_id": request.request_id,
        "status": request.status.word(),
        "start_ns": request.start_ns,
        "start_time": clock.map(|clock| clock.rfc3339(request.start_ns)),
        "process": request.process.map(text),
        "pid": request.pid,
        "device": text(request.device),
        "rwbs": text(request.rwbs),
        "origin": request.origin.word(),
        "sector": request.sector,
        "bytes": request.bytes,
        "d2c_ns": request.d2c_ns,
        "q2c_ns": request.q2c_ns,
        "error": request.error,
        "files": files,
    });
    json::escaped(format!("{line}\n"))
}
