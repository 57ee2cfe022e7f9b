//! Request latency: a histogram, and a heat map over time. Both axes of latency are logarithmic.
//!
//! What does not belong here: counting.

use super::axes::{self, Axis};
use super::style::{self, COLOURS, EDGE, INK, LEFT, NAMES, PALE_INK};
use super::{Area, Drawn};
use crate::human;
use iowhy_core::analysis::Latencies;
use iowhy_core::analysis::plots::{DevicePlots, Plots, bin_from_ns};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// Columns of the heat map, each about four pixels wide.
const COLUMNS: u64 = 170;
/// Latency bins per row of the heat map.
const TOGETHER: u16 = 2;

/// The range from the first to the last non-empty bin, nanoseconds.
fn range(device: &DevicePlots) -> Option<(usize, usize)> {
    let used = |bin: &usize| device.histogram.iter().any(|counts| counts[*bin] > 0);
    let bins = device.histogram[0].len();
    let (first, last) = ((0..bins).find(used)?, (0..bins).rev().find(used)?);
    // At least one and a half decades, so that the axis has labels even for a single bin.
    let space = usize::max(4, (40_usize).saturating_sub(last - first) / 2);
    Some((first.saturating_sub(space), last + 1 + space))
}

const FROM_Q_TO_C: &str = "from queueing to completion (Q2C)";

/// The axis of these bins.
fn latency(
    first: usize,
    last: usize,
    names: usize,
    meaning: &str,
) -> Axis<
    '_,
    impl AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>
    + use<>,
> {
    Axis {
        range: (bin_from_ns(first)..bin_from_ns(last)).log_scale(),
        names,
        label: &|ns| style::short_time(*ns),
        meaning,
    }
}

/// Requests by latency.
pub(super) fn histogram<DB: DrawingBackend>(
    area: &Area<DB>,
    device: &DevicePlots,
) -> Drawn<DB::ErrorType> {
    style::title(area, "Latency")?;
    let Some((first, last)) = range(device) else { return nothing(area) };
    let most = device.histogram.iter().flatten().max().copied().unwrap_or(1).max(1);
    let count = Axis {
        range: 0.0..most.max(5) as f64 * 1.06,
        names: 5,
        label: &|count| human::count(*count as u64),
        meaning: "requests",
    };
    let mut chart = axes::chart(area, latency(first, last, 8, FROM_Q_TO_C), count)?;
    for (counts, colour) in device.histogram.iter().zip(COLOURS) {
        let bars = (first..last).filter(|bin| counts[(*bin).min(counts.len() - 1)] > 0);
        chart.draw_series(bars.map(|bin| {
            let (from, to) = (bin_from_ns(bin), bin_from_ns(bin + 1));
            Rectangle::new([(from, 0.0), (to, counts[bin] as f64)], colour.mix(0.55).filled())
        }))?;
    }
    style::legend(area, &percentiles(device))
}

fn percentiles(device: &DevicePlots) -> Vec<(RGBColor, String)> {
    let entry = |((latencies, colour), name): ((&Latencies, RGBColor), &str)| {
        let time = |share| latencies.quantile_ns(share).map(|ns| style::short_time(ns as f64));
        let (p50, p99) = (time(0.5)?, time(0.99)?);
        Some((colour, format!("{name}: p50 {p50}, p99 {p99}")))
    };
    device.latencies.iter().zip(COLOURS).zip(NAMES).filter_map(entry).collect()
}

/// Latency over time; darker cells hold more requests.
pub(super) fn heat<DB: DrawingBackend>(
    area: &Area<DB>,
    plots: &Plots,
    device: &DevicePlots,
) -> Drawn<DB::ErrorType> {
    style::title(area, "Latency over time")?;
    let Some((first, last)) = range(device) else { return nothing(area) };
    let (columns, width) = device.in_columns(plots.column_ns, plots.length_ns, COLUMNS);
    let second = |index: usize| index as f64 * width as f64 / 1e9;
    let mut chart =
        axes::chart(area, axes::seconds(plots.length_ns), latency(first, last, 6, "latency"))?;
    let rows: Vec<Vec<(u16, u64)>> = columns.iter().map(|column| rows(&column.latencies)).collect();
    let most = rows.iter().flatten().map(|(_, count)| *count).max().unwrap_or(1);
    let end = plots.length_ns.max(1) as f64 / 1e9;
    let cells = rows.iter().enumerate().flat_map(|(index, rows)| {
        rows.iter().map(move |(row, count)| {
            let bin = usize::from(row * TOGETHER);
            let (from, to) = (bin_from_ns(bin), bin_from_ns(bin + usize::from(TOGETHER)));
            let (left, right) = (second(index), second(index + 1).min(end));
            Rectangle::new([(left, from), (right, to)], shade(*count, most).filled())
        })
    });
    chart.draw_series(cells)?;
    scale(area, most)
}

fn rows(latencies: &[(u16, u32)]) -> Vec<(u16, u64)> {
    let mut rows: Vec<(u16, u64)> = Vec::new();
    for (bin, count) in latencies {
        match rows.last_mut().filter(|(row, _)| *row == bin / TOGETHER) {
            Some((_, sum)) => *sum += u64::from(*count),
            None => rows.push((bin / TOGETHER, u64::from(*count))),
        }
    }
    rows
}

/// From pale yellow over red to near black, by the logarithm of the count, so that single slow
/// requests remain visible among thousands of fast ones.
fn shade(count: u64, most: u64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 5] = [
        (253.0, 222.0, 140.0),
        (247.0, 148.0, 65.0),
        (214.0, 63.0, 72.0),
        (125.0, 25.0, 105.0),
        (30.0, 12.0, 60.0),
    ];
    let share = (count.max(1) as f64).ln() / (most.max(2) as f64).ln();
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let index = (at as usize).min(STOPS.len() - 2);
    let ((a, b), part) = ((STOPS[index], STOPS[index + 1]), at - index as f64);
    let mix = |from: f64, to: f64| (from + (to - from) * part) as u8;
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// The legend of colours.
fn scale<DB: DrawingBackend>(area: &Area<DB>, most: u64) -> Drawn<DB::ErrorType> {
    let style = style::font(13).color(&INK);
    let last = style::counted(most, "requests");
    let (width, _) = area.estimate_text_size(&last, &style)?;
    let end = style::WIDTH as i32 - 18 - width as i32 - 6;
    let steps = if most > 1 { 60 } else { 12 };
    for step in 0..steps {
        let count = (most as f64).powf(f64::from(step) / f64::from(steps - 1)) as u64;
        let left = end - (steps - step) * 2;
        let cell = Rectangle::new([(left, 9), (left + 2, 20)], shade(count, most).filled());
        area.draw(&cell)?;
    }
    area.draw(&Text::new(last, (end + 6, 10), style.clone()))?;
    if most > 1 {
        area.draw(&Text::new("1", (end - steps * 2 - 14, 10), style))?;
    }
    Ok(())
}

/// A text instead of a chart.
pub(super) fn nothing<DB: DrawingBackend>(area: &Area<DB>) -> Drawn<DB::ErrorType> {
    let style = style::font(13).color(&PALE_INK);
    area.draw(&Text::new("none", ((EDGE + LEFT) as i32, 40), style))
}
