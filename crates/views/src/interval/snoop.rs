//! `iowhy snoop`: a line for each request, as biosnoop and iosnoop print them, with its file.

use crate::escape::{cut, escape, fit, width};
use crate::human;
use crate::json;
use crate::style::{Paint, Style};
use iowhy_core::model::{Names, Request, RequestPart, Status};
use std::collections::BTreeSet;

/// Columns from which on the first sector is shown too: below, its file says more.
pub const ROOMY: usize = 100;

/// Reasons that are told in full at the end; there are not more unless a recording was made up.
const MOST_REASONS: usize = 16;

/// What a line has, and how wide it is.
#[derive(Clone, Debug)]
pub struct Lines {
    style: Style,
    /// Whether the time before the driver has a column of its own.
    queued: bool,
    start_ns: u64,
    /// Why files are not known, as far as there was no room to say it.
    cut: BTreeSet<String>,
}

impl Lines {
    /// Lines of a watch that began at `start_ns`; with `queued`, also the time before the driver.
    pub fn new(style: Style, queued: bool, start_ns: u64) -> Lines {
        Lines { style, queued, start_ns, cut: BTreeSet::new() }
    }

    /// The column of biosnoop that there is no room for.
    pub fn left_out(&self) -> Option<String> {
        let is_roomy = self.style.columns() >= ROOMY;
        let text = format!("SECTOR is shown from {ROOMY} columns on, and with --wide");
        (!is_roomy).then_some(text)
    }

    /// The headings.
    pub fn heading(&self) -> String {
        let words =
            ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"];
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
            format!("{:.6}", ended_ns.saturating_sub(self.start_ns) as f64 / 1e9),
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

    /// What lines had no room to say of files that are not known.
    pub fn legend(&self) -> Option<String> {
        let reasons: Vec<String> = self.cut.iter().map(|reason| format!("({reason})")).collect();
        (!reasons.is_empty()).then(|| format!("in full: {}", reasons.join(", ")))
    }

    /// The file, how many more there are, and what went wrong, in `room` columns.
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

    /// Why there is no file. Of a reason that is too long its beginning stands there, and the legend
    /// has the whole.
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
        // The width of each column; numbers stand on its right side.
        let columns: [(usize, bool, bool); 9] = [
            (11, false, true),
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
        for (cell, (room, right, _)) in cells.iter().zip(columns).filter(|it| it.1.2) {
            let cell = cut(cell, room - 1, &self.style);
            let pad = " ".repeat(room - 1 - width(&cell));
            let (before, after) = if right { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.extend([before, &cell, after, " "]);
        }
        line
    }
}

/// One request as one line of JSON, its column names those of recordings.
pub fn json_line(request: &Request, parts: &[RequestPart], names: &Names) -> String {
    let text = |name| names.get(name);
    let files: Vec<&str> = parts.iter().filter_map(|part| part.file).map(text).collect();
    let line = serde_json::json!({
        "request_id": request.request_id,
        "status": request.status.word(),
        "start_ns": request.start_ns,
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
