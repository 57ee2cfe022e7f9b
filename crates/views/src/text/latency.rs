//! The latency histogram: one line for each device and direction, one column for each bin.

use super::Screen;
use super::stages::{StageGroup, groups, of_one};
use crate::escape::{fit, width};
use crate::style::{Paint, Style};
use iowhy_analysis::summary::{Bucket, DeviceSummary};
use iowhy_analysis::{Interval, Summary, latency_bins};

const BLOCKS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const LETTERS: [&str; 8] = [".", ":", "-", "=", "+", "*", "#", "@"];

pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let (groups, _) = groups(summary, screen.style);
    draw(&groups, screen);
    screen
        .explain(("LATENCY", "requests by Q2C unless marked; the height of a bar is logarithmic"));
}

/// The histograms of a device, up to a number: those with the most time.
pub(super) fn of_device(device: &DeviceSummary, most: usize, screen: &mut Screen) {
    let mut groups = of_one(device, screen.style);
    groups.truncate(most);
    draw(&groups, screen);
}

fn draw(groups: &[StageGroup], screen: &mut Screen) {
    let style = *screen.style;
    let names: Vec<String> = groups.iter().map(name).collect();
    let Some(widest) = names.iter().map(|name| width(name)).max() else { return };
    let heading = "LATENCY";
    let label = widest.max(width(heading)).min(style.columns() / 3);
    let room = style.columns() - label - 2;
    let Some(scale) = Scale::new(groups, room) else { return };
    screen.gap();
    let axis = format!("{heading:label$}  {}", scale.axis(&style));
    screen.line(&style.paint(axis.trim_end(), Paint::Heading));
    for (group, name) in groups.iter().zip(&names) {
        let name = fit(name, label, &style);
        let pad = " ".repeat(label - width(&name));
        screen.line(&format!("{name}{pad}  {}", scale.bars(group.histogram().0, &style)));
    }
}

fn name(group: &StageGroup) -> String {
    match group.histogram().1 {
        Interval::Q2c => group.name.clone(),
        other => format!("{} {}", group.name, other.word().to_uppercase()),
    }
}

/// The scale: which time is in which column.
struct Scale {
    first_octave: u32,
    /// Bins per power of two, and the number of bins that share a column.
    per_octave: u32,
    per_column: u32,
    columns: usize,
    /// Width of the axis, columns.
    room: usize,
}

impl Scale {
    /// The finest scale on which all groups fit into `room` columns; it begins and ends at a power
    /// of ten, so that it has labels.
    fn new(groups: &[StageGroup], room: usize) -> Option<Scale> {
        let buckets = || groups.iter().flat_map(|group| group.histogram().0);
        let least = buckets().map(|bucket| bucket.from_ns).min()?.max(4);
        let most = buckets().map(|bucket| bucket.from_ns).max()?.max(least);
        let first_octave = octave(10_u64.pow(least.ilog10()));
        let last_octave = octave(10_u64.checked_pow(most.ilog10() + 1).unwrap_or(u64::MAX));
        let octaves = (last_octave - first_octave + 1) as usize;
        let per_octave = [4, 2, 1].into_iter().find(|fine| octaves * fine <= room).unwrap_or(1);
        let per_column = (octaves * per_octave).div_ceil(room.max(1));
        let columns = (octaves * per_octave).div_ceil(per_column);
        let (per_octave, per_column) = (per_octave as u32, per_column as u32);
        Some(Scale { first_octave, per_octave, per_column, columns, room })
    }

    fn column(&self, nanoseconds: u64) -> usize {
        let octave = octave(nanoseconds);
        let start = 1_u128 << octave;
        let within = u128::from(nanoseconds).saturating_sub(start) * u128::from(self.per_octave);
        let bin = (octave - self.first_octave) * self.per_octave + (within / start) as u32;
        (bin / self.per_column) as usize
    }

    fn bars(&self, buckets: &[Bucket], style: &Style) -> String {
        let mut heights = vec![0_u64; self.columns];
        for bin in latency_bins::bins(buckets, self.per_octave) {
            if let Some(height) = heights.get_mut(self.column(bin.from_ns)) {
                *height += bin.requests;
            }
        }
        let glyphs = if style.unicode { &BLOCKS } else { &LETTERS };
        let most = heights.iter().copied().max().unwrap_or(0);
        let glyph = |count: &u64| match count {
            0 => " ",
            count => glyphs[level(*count, most)],
        };
        heights.iter().map(glyph).collect()
    }

    /// The powers of ten that fit, each above its column.
    fn axis(&self, style: &Style) -> String {
        let micro = style.either("µs", "us");
        let units = [(1, "ns"), (1_000, micro), (1_000_000, "ms"), (1_000_000_000, "s")];
        let mut axis = vec![' '; self.room.min(self.columns + 5)];
        for factor in [1, 10, 100] {
            for (unit_ns, unit) in units {
                self.tick(&mut axis, factor * unit_ns, &format!("{factor}{unit}"));
            }
        }
        axis.into_iter().collect()
    }

    fn tick(&self, axis: &mut [char], nanoseconds: u64, label: &str) {
        if octave(nanoseconds) < self.first_octave || self.column(nanoseconds) >= self.columns {
            return;
        }
        let at = self.column(nanoseconds);
        let end = at + label.chars().count();
        let around = at.saturating_sub(1)..(end + 1).min(axis.len());
        if end > axis.len() || axis[around].iter().any(|char| *char != ' ') {
            return;
        }
        axis[at..end].iter_mut().zip(label.chars()).for_each(|(place, char)| *place = char);
    }
}

fn octave(nanoseconds: u64) -> u32 {
    nanoseconds.max(4).ilog2()
}

/// The height of a bar for `count` of at most `most`: 0 to 7.
fn level(count: u64, most: u64) -> usize {
    let share = (count as f64).ln_1p() / (most.max(1) as f64).ln_1p();
    ((share * 8.0).ceil() as usize).clamp(1, 8) - 1
}
