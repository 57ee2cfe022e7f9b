//! `iowhy probe`: the results of a short benchmark of a device or file.
//!
//! What does not belong here: running the benchmark (the binary).

use crate::human;
use crate::style::Style;
use crate::table::{Align, Column, Definition, Room, TableCell, draw};
use serde::Serialize;

/// The results of one part of the benchmark.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ProbeRow {
    /// The workload: `read 4 KiB, one at a time`.
    pub test: String,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Median, nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: f64,
    /// The longest, nanoseconds.
    pub max_ns: f64,
}

/// A limit, and whether the probe reached it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredLimit {
    /// A sentence that names the limiter and the limited rate.
    pub sentence: String,
    /// The limit per second, if it is stated.
    pub limit: Option<f64>,
    /// The highest rate that was measured, per second.
    pub measured: Option<f64>,
    /// Whether the probe reached the limit.
    pub reached: bool,
}

/// The columns of `iowhy probe`.
pub const PROBE: Definition<ProbeRow> = Definition {
    title: "iowhy probe",
    sentence: "One row for each part of the benchmark, as fio measured it: direct I/O, past the \
               page cache. What others ask of the device at the same time is in the figures.",
    columns: &[
        Column {
            heading: "TEST",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the workload, and the number of requests at a time",
            legend: "",
            value: |row, _| row.test.clone().into(),
        },
        number("IOPS", "1/s", "requests per second", |row, _| {
            human::rate(row.requests_per_s).into()
        }),
        number("bytes/s", "bytes/s", "bytes per second", |row, _| {
            human::bytes(row.bytes_per_s).into()
        }),
        number("p50", "time", "median", |row, style| human::time(row.p50_ns, style).into()),
        number("p99", "time", "99th percentile", |row, style| {
            human::time(row.p99_ns, style).into()
        }),
        number("max", "time", "the longest", |row, style| human::time(row.max_ns, style).into()),
    ],
};

const fn number(
    heading: &'static str,
    unit: &'static str,
    sentence: &'static str,
    value: fn(&ProbeRow, &Style) -> TableCell,
) -> Column<ProbeRow> {
    Column { heading, unit, align: Align::Right, room: Room::Rank(0), sentence, legend: "", value }
}

/// The table.
pub fn render(rows: &[ProbeRow], style: &Style) -> String {
    draw(&PROBE, rows, style).lines().map(|line| line + "\n").collect()
}
