//! Times of a request in the stages of the block layer.

use super::Screen;
use crate::escape::{escape, items_within};
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, TableCell, number};
use iowhy_analysis::summary::{Bucket, ByInterval, DeviceSummary, DirectionSummary, StageTime};
use iowhy_analysis::{Direction, Interval, Summary};
use iowhy_model::compact_sort::CompactSort;

/// A stage with a smaller share of the time than this has no row.
const LEAST_SHARE: f64 = 0.01;

/// The least share of a device's time for flushes to have a line of their own.
const WORTH_A_LINE: f64 = 0.2;
/// A stage with a smaller share is not in the line of the first screen. Chosen.
const WORTH_A_WORD: f64 = 0.05;

/// A row of [`STAGES`].
#[derive(Clone, PartialEq, Debug)]
pub struct StageRow {
    /// The device and the direction, escaped; empty below the first row of a group.
    pub group: String,
    /// The stage; `None` for the time that is in none of them.
    interval: Option<Interval>,
    /// The stage's figures; `None` as above.
    stage: Option<StageTime>,
    /// Its share of the time of these requests, from 0 to 1; `None` if that is not known.
    q2c_share: Option<f64>,
}

impl StageRow {
    /// The stage by the letters of its ends, as `Q2G`, or `other`.
    pub(crate) fn stage_word(&self) -> String {
        self.interval.map_or_else(|| "other".to_owned(), |at| at.word().to_uppercase())
    }

    /// A time of the stage; unknown for the time that is in none.
    fn time(&self, style: &Style, of: fn(&StageTime) -> u64) -> TableCell {
        let time = self.stage.map(|stage| human::time(of(&stage) as f64, style));
        time.unwrap_or_else(|| "?".to_owned()).into()
    }
}

/// The stages of requests.
pub const STAGES: Definition<StageRow> = Definition {
    title: "STAGES",
    sentence: "For each device and direction the stages of its requests, and their total (Q2C). \
               Stages with less than 1 % of the time are left out. Only requests with a complete \
               record count.",
    columns: &[
        Column {
            heading: "STAGES",
            unit: "",
            align: Align::Left,
            room: Room::CutEnd,
            sentence: "the device and the direction",
            legend: "",
            value: |row, _| row.group.clone().into(),
        },
        Column {
            heading: "from-to",
            unit: "",
            align: Align::Left,
            room: Room::Rank(0),
            sentence: "the stage: Q queued, G got a request, I inserted into the scheduler, D \
                       issued to the driver, C completed; other is the rest of Q2C: a flush of \
                       the cache before the data, requeues by the driver, or not known",
            legend: "Q queued, G got a request, I in the scheduler, D at the driver, C completed; \
                     stages below 1 % are left out",
            value: |row, _| row.stage_word().into(),
        },
        Column {
            heading: "is spent in",
            unit: "",
            align: Align::Left,
            room: Room::Rank(3),
            sentence: "what the time of the stage is spent in",
            legend: "",
            value: |row, _| row.interval.map_or("flush, requeue or ?", place).to_owned().into(),
        },
        number("requests", "requests", 4, "requests of which the stage is known", |row, _| {
            row.stage.map_or_else(|| "?".to_owned(), |stage| human::count(stage.requests)).into()
        }),
        number("p50", "time", 0, "median", |row, style| row.time(style, |stage| stage.p50_ns)),
        number("p99", "time", 0, "99th percentile", |row, style| {
            row.time(style, |stage| stage.p99_ns)
        }),
        number("p99.9", "time", 5, "99.9th percentile", |row, style| {
            row.time(style, |stage| stage.p999_ns)
        }),
        number("max", "time", 1, "the longest", |row, style| row.time(style, |stage| stage.max_ns)),
        number(
            "%Q2C",
            "%",
            2,
            "the stage's share of the total time of these requests",
            |row, _| row.q2c_share.map_or_else(|| "?".to_owned(), human::percent).into(),
        ),
    ],
};

/// Returns the place in which a stage is spent, by its word; empty for a word that is not a stage.
pub(crate) fn stage_place(word: &str) -> &'static str {
    Interval::ALL.into_iter().find(|interval| interval.word() == word).map_or("", place)
}

fn place(interval: Interval) -> &'static str {
    match interval {
        Interval::Q2g => "tags, wbt",
        Interval::G2i => "plug",
        Interval::I2d => "scheduler",
        Interval::G2d => "dispatch",
        Interval::Q2d => "before the device",
        Interval::D2c => "device",
        Interval::Q2c => "total",
    }
}

/// A device and a direction that have latencies.
pub(super) struct StageGroup<'a> {
    pub name: String,
    pub figures: &'a DirectionSummary,
}

impl StageGroup<'_> {
    /// The total time of its requests, as far as it is known.
    fn time_ns(&self) -> u64 {
        let known = [Interval::Q2c, Interval::D2c].map(|at| self.figures.intervals[at]);
        known.iter().flatten().next().map_or(0, |stage| stage.sum_ns)
    }

    /// The distribution of Q2C, or of D2C if only that is known.
    pub fn histogram(&self) -> (&[Bucket], Interval) {
        match self.figures.q2c_histogram.as_slice() {
            [] => (&self.figures.d2c_histogram, Interval::D2c),
            whole => (whole, Interval::Q2c),
        }
    }
}

/// The groups with the most time, and how many others there are.
pub(super) fn groups<'a>(summary: &'a Summary, style: &Style) -> (Vec<StageGroup<'a>>, usize) {
    let mut groups: Vec<StageGroup> =
        summary.devices.iter().flat_map(|device| of_one(device, style)).collect();
    groups.compact_sort_by_key(|group| std::cmp::Reverse(group.time_ns()));
    let others = groups.len().saturating_sub(style.rows + 1);
    groups.truncate(style.rows + 1);
    (groups, others)
}

/// The groups of a device, the one with the most time first.
pub(super) fn of_one<'a>(device: &'a DeviceSummary, style: &Style) -> Vec<StageGroup<'a>> {
    let name = escape(&device.device, style);
    let group = |(direction, figures): (Direction, &'a DirectionSummary)| StageGroup {
        name: format!("{name} {}", direction.word()),
        figures,
    };
    let mut groups: Vec<StageGroup> = device.directions.iter().map(group).collect();
    groups.retain(|group| group.time_ns() > 0);
    groups.compact_sort_by_key(|group| std::cmp::Reverse(group.time_ns()));
    groups
}

/// The stages of a device's requests: a line for the direction with the most time, and one for
/// flushes where they take a part of it that matters, since no other column has their time.
pub(super) fn lines(device: &DeviceSummary, screen: &mut Screen) {
    let style = *screen.style;
    let groups = of_one(device, &style);
    let all_ns: u64 = groups.iter().map(StageGroup::time_ns).sum();
    let flush = &device.directions[Direction::Flush];
    for (index, group) in groups.iter().enumerate() {
        let is_flush = std::ptr::eq(group.figures, flush);
        let is_worth = group.time_ns() as f64 >= WORTH_A_LINE * all_ns as f64;
        if index == 0 || is_flush && is_worth {
            line(group, screen);
        }
    }
}

fn line(group: &StageGroup<'_>, screen: &mut Screen) {
    let style = *screen.style;
    let intervals = &group.figures.intervals;
    let Some((whole, stage)) =
        [Interval::Q2c, Interval::D2c].into_iter().find_map(|at| Some((at, intervals[at]?)))
    else {
        return;
    };
    let time = |nanoseconds: u64| human::time(nanoseconds as f64, &style);
    let from = if whole == Interval::D2c { " at the device" } else { "" };
    let mut text = format!(
        "{}{from}: p50 {}, p99 {}, max {}",
        group.name,
        time(stage.p50_ns),
        time(stage.p99_ns),
        time(stage.max_ns),
    );
    let parts = [Interval::Q2g, Interval::G2i, Interval::I2d, Interval::G2d, Interval::D2c];
    let shares = parts.into_iter().filter_map(|at| Some((at, intervals[at]?.q2c_share?)));
    for (at, share) in shares.filter(|(_, share)| *share >= WORTH_A_WORD) {
        text.push_str(&format!("; {} {} %", place(at), human::percent(share)));
    }
    screen.line(&format!("  {}", items_within(&text, "; ", style.columns() - 2, &style)));
}

pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let (groups, others) = groups(summary, screen.style);
    let rows: Vec<StageRow> = groups.iter().flat_map(rows).collect();
    screen.table(&STAGES, &rows);
    if others > 0 {
        screen.prose(&format!("devices and directions not shown: {others}"), 2, Paint::Faint);
    }
}

/// The stages of one device, the direction with the most time first.
pub(crate) fn stage_rows(device: &DeviceSummary, style: &Style) -> Vec<StageRow> {
    of_one(device, style).iter().flat_map(rows).collect()
}

/// The share of Q2C that is in none of the stages; `None` where a stage's share is not known.
fn rest(intervals: &ByInterval<Option<StageTime>>, is_split: bool) -> Option<f64> {
    let before: &[Interval] = if is_split {
        &[Interval::Q2g, Interval::G2i, Interval::I2d, Interval::G2d]
    } else {
        &[Interval::Q2d]
    };
    let share = |at: Interval| intervals[at].map_or(Some(0.0), |stage| stage.q2c_share);
    intervals[Interval::Q2c]?;
    let known: Option<f64> = before.iter().chain(&[Interval::D2c]).map(|at| share(*at)).sum();
    Some(1.0 - known?)
}

fn rows(group: &StageGroup) -> Vec<StageRow> {
    let intervals = &group.figures.intervals;
    let split = [Interval::Q2g, Interval::I2d, Interval::G2d];
    let is_split = split.iter().any(|at| intervals[*at].is_some());
    let worth = |interval: Interval, stage: &StageTime| match interval {
        Interval::Q2c => true,
        Interval::Q2d if is_split => false,
        _ => stage.q2c_share.is_none_or(|share| share >= LEAST_SHARE),
    };
    let known = intervals.iter().filter_map(|(at, stage)| Some((at, (*stage)?)));
    let mut rows: Vec<StageRow> = known
        .filter(|(interval, stage)| worth(*interval, stage))
        .map(|(interval, stage)| StageRow {
            group: String::new(),
            interval: Some(interval),
            stage: Some(stage),
            q2c_share: stage.q2c_share,
        })
        .collect();
    if let Some(rest) = rest(intervals, is_split).filter(|share| *share >= LEAST_SHARE) {
        let before_total = rows.len().saturating_sub(1);
        let q2c_share = Some(rest);
        let group = String::new();
        rows.insert(before_total, StageRow { group, interval: None, stage: None, q2c_share });
    }
    if let Some(first) = rows.first_mut() {
        first.group.clone_from(&group.name);
    }
    rows
}
