//! The frame of every chart: its position in a panel, its axes, its grid.
//!
//! What does not belong here: what is drawn inside.

use super::Area;
use super::style::{self, BELOW, EDGE, GRID, INK, LEFT, PALE_INK};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// One axis.
pub(super) struct Axis<'a, R> {
    /// Its range.
    pub(super) range: R,
    /// Approximate number of labels.
    pub(super) names: usize,
    /// Formats a value.
    pub(super) label: &'a dyn Fn(&f64) -> String,
    /// Its label.
    pub(super) meaning: &'a str,
}

/// The time axis, in seconds, of a duration in nanoseconds.
pub(super) fn seconds(length_ns: u64) -> Axis<'static, std::ops::Range<f64>> {
    Axis {
        range: 0.0..length_ns.max(1) as f64 / 1e9,
        names: 10,
        label: &|at| style::number(*at),
        meaning: "seconds since the beginning",
    }
}

type Chart<'a, DB, X, Y> = ChartContext<
    'a,
    DB,
    Cartesian2d<<X as AsRangedCoord>::CoordDescType, <Y as AsRangedCoord>::CoordDescType>,
>;
type Failed<DB> = DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>;

/// Draws the frame in a panel and returns the chart inside.
pub(super) fn chart<'a, DB: DrawingBackend, X, Y>(
    area: &'a Area<DB>,
    x: Axis<'_, X>,
    y: Axis<'_, Y>,
) -> Result<Chart<'a, DB, X, Y>, Failed<DB>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin_left(EDGE)
        .margin_top(30)
        .margin_right(18)
        .x_label_area_size(BELOW)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(x.range, y.range)?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(style::font(13).color(&INK))
        .x_labels(x.names)
        .y_labels(y.names)
        .x_label_formatter(&x.label)
        .y_label_formatter(&y.label)
        .x_desc(x.meaning)
        .y_desc(y.meaning)
        .axis_desc_style(style::font(13).color(&PALE_INK))
        .draw()?;
    Ok(chart)
}
