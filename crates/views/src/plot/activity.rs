//! The load over time: offsets on the device, requests and bytes per second.
//!
//! What does not belong here: counting.

use super::axes::{self, Axis};
use super::style::{self, COLOURS, NAMES};
use super::{Area, Drawn};
use crate::human;
use iowhy_core::analysis::plots::{DevicePlots, Plots};
use plotters::prelude::*;

/// Number of steps of a rate's line.
const COLUMNS: u64 = 240;

/// The part of the device that reads or writes touched, bytes.
pub(super) fn range(device: &DevicePlots) -> (f64, f64) {
    let points = || device.offsets.iter().flat_map(|points| &points.points);
    let first = points().map(|point| point.offset).min().unwrap_or(0) as f64;
    let last = points().map(|point| point.offset).max().unwrap_or(0) as f64;
    let space = ((last - first) * 0.03).max(4096.0);
    ((first - space).max(0.0), last + space)
}

/// Offsets of requests of one direction, a point for each request.
pub(super) fn offsets<DB: DrawingBackend>(
    area: &Area<DB>,
    plots: &Plots,
    device: &DevicePlots,
    direction: usize,
    (first, last): (f64, f64),
) -> Drawn<DB::ErrorType> {
    let title = ["Where reads lie on the device", "Where writes lie on the device"];
    style::title(area, title[direction])?;
    let (points, colour) = (&device.offsets[direction], COLOURS[direction]);
    if points.points.is_empty() {
        return super::latency::nothing(area);
    }
    let (factor, unit) = style::unit(last);
    let offset = Axis {
        range: first / factor..last / factor,
        names: 6,
        label: &|offset| style::number(*offset),
        meaning: &format!("offset, {unit}"),
    };
    let mut chart = axes::chart(area, axes::seconds(plots.length_ns), offset)?;
    let (size, ink) = if points.all > 2000 { (1, colour.mix(0.45)) } else { (2, colour.mix(0.8)) };
    chart.draw_series(points.points.iter().map(|point| {
        Circle::new((point.time_ns as f64 / 1e9, point.offset as f64 / factor), size, ink.filled())
    }))?;
    let drawn = points.points.len() as u64;
    let text = match drawn == points.all {
        true => style::counted(drawn, NAMES[direction]),
        false => {
            let (drawn, all) = (human::count(drawn), human::count(points.all));
            format!("{drawn} of {all} {}, chosen by chance", NAMES[direction])
        }
    };
    style::legend(area, &[(colour, text)])
}

/// Which rate is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rate {
    Requests,
    Bytes,
}

/// Requests or bytes a second over time.
pub(super) fn rates<DB: DrawingBackend>(
    area: &Area<DB>,
    plots: &Plots,
    device: &DevicePlots,
    rate: Rate,
) -> Drawn<DB::ErrorType> {
    let title = if rate == Rate::Requests { "Requests per second" } else { "Throughput" };
    style::title(area, title)?;
    let (columns, width) = device.in_columns(plots.column_ns, plots.length_ns, COLUMNS);
    let end = plots.length_ns.max(1) as f64 / 1e9;
    let edge = |index: usize| (index as f64 * width as f64 / 1e9).min(end);
    // The end of the watch may cut the last column.
    let value = |index: usize, direction: usize| {
        let column = &columns[index];
        let counts = if rate == Rate::Requests { column.requests } else { column.bytes };
        counts[direction] as f64 / (edge(index + 1) - edge(index)).max(1e-9)
    };
    let values = |direction| (0..columns.len()).map(move |index| value(index, direction));
    let most = values(0).chain(values(1)).fold(1.0, f64::max);
    let (factor, unit) = match rate {
        Rate::Requests => (1.0, "requests/s".to_owned()),
        Rate::Bytes => {
            let (factor, unit) = style::unit(most);
            (factor, format!("{unit}/s"))
        }
    };
    let height = Axis {
        range: 0.0..most / factor * 1.08,
        names: 5,
        label: &|value| style::number(*value),
        meaning: &unit,
    };
    let mut chart = axes::chart(area, axes::seconds(plots.length_ns), height)?;
    let mut legend = Vec::new();
    for (direction, colour) in COLOURS.into_iter().enumerate() {
        if device.offsets[direction].all == 0 {
            continue;
        }
        // Steps: a column's rate holds for its full width.
        let steps = (0..columns.len()).flat_map(|index| {
            let height = value(index, direction) / factor;
            [(edge(index), height), (edge(index + 1), height)]
        });
        chart.draw_series(LineSeries::new(steps, colour.stroke_width(2)))?;
        legend.push((colour, NAMES[direction].to_owned()));
    }
    style::legend(area, &legend)
}
