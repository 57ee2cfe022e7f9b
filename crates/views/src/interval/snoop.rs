//! `iowhy snoop`: a line for each request, as biosnoop and iosnoop print them, with its file.

use crate::escape::{cut, escape, fit, width};
use crate::human;
use crate::json;
use crate::style::{Paint, Style};
use iowhy_core::model::{Names, Request, RequestPart, Status};

/// Columns from which on the first sector is shown too: below, its file says more.
pub const ROOMY: usize = 100;

/// What a line has, and how wide it is.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    style: Style,
    /// Whether the time before the driver has a column of its own.
    queued: bool,
    start_ns: u64,
}

impl Lines {
    /// Lines of a watch that began at `start_ns`; with `queued`, also the time before the driver.
    pub fn new(style: Style, queued: bool, start_ns: u64) -> Lines {
        Lines { style, queued, start_ns }
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
        let line = self.line_of(&words.map(str::to_owned), "FILE");
        format!("{}\n", self.style.paint(line.trim_end(), Paint::Heading))
    }

    /// One request.
    pub fn line(&self, request: &Request, parts: &[RequestPart], names: &Names) -> String {
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
        format!("{}\n", self.line_of(&cells, &self.file(request, parts, names)).trim_end())
    }

    /// The file, how many more there are, and what went wrong.
    fn file(&self, request: &Request, parts: &[RequestPart], names: &Names) -> String {
        let first = parts.iter().find_map(|part| part.file);
        let reason = parts.iter().find_map(|part| part.file_reason);
        let mut file = match (first, reason) {
            (Some(file), _) => escape(names.get(file), &self.style).into_owned(),
            (None, Some(reason)) => format!("({})", escape(names.get(reason), &self.style)),
            (None, None) => "-".to_owned(),
        };
        if parts.len() > 1 {
            file.push_str(&format!(" +{}", parts.len() - 1));
        }
        if let Some(error) = request.error {
            file = format!("error {error} {file}");
        }
        file
    }

    fn line_of(&self, cells: &[String; 9], file: &str) -> String {
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
        let room = self.style.columns().saturating_sub(width(&line)).max(12);
        line.push_str(&fit(file, room, &self.style));
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
