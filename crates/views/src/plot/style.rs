//! Sizes, colours and the font: the same in every panel.
//!
//! What does not belong here: what is drawn.

use super::{Area, Drawn};
use crate::human;
use crate::style::Style;
use plotters::prelude::*;
use plotters::style::{FontDesc, FontFamily, FontStyle, register_font as register};

/// The width of a page, pixels.
pub(super) const WIDTH: u32 = 800;
/// The height of a device's title.
pub(super) const HEADER: u32 = 64;
/// The height of a panel.
pub(super) const PANEL: u32 = 228;

/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(38, 42, 48);
/// Secondary text.
pub(super) const PALE_INK: RGBColor = RGBColor(96, 102, 112);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(230, 232, 236);
/// Reads and writes: blue and vermilion, which people with colour blindness can distinguish.
pub(super) const COLOURS: [RGBColor; 2] = [RGBColor(0, 104, 178), RGBColor(206, 84, 0)];
/// Their names.
pub(super) const NAMES: [&str; 2] = ["reads", "writes"];

/// Space to the left of a panel's axis, and below it.
pub(super) const LEFT: u32 = 80;
/// Space to the left of the page; without it the axis's label is cut off.
pub(super) const EDGE: u32 = 12;
pub(super) const BELOW: u32 = 38;

const FONT: &[u8] = include_bytes!("dejavu-sans.ttf");

/// Registers the embedded font. Registering it again has no effect.
pub(super) fn register_font() {
    // It fails only for bytes that are not a font; a test draws with these.
    let _checked_by_a_test = register("sans-serif", FontStyle::Normal, FONT);
}

/// The font of a size in pixels.
pub(super) fn font(size: u32) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size), FontStyle::Normal).into()
}

/// Replaces a character that the font lacks or that has a meaning in SVG.
pub(super) fn drawable(sign: char) -> char {
    if matches!(sign, ' '..='~' | 'µ' | '×' | '–' | '…') { sign } else { '?' }
}

/// A short form of a time, for an axis: `10 µs`, `1 ms`.
pub(super) fn short_time(nanoseconds: f64) -> String {
    short(&human::time(nanoseconds, &Style::plain(80)))
}

/// Without trailing zeroes: `1.00 ms` is `1 ms`.
pub(super) fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// A panel's title.
pub(super) fn title<DB: DrawingBackend>(area: &Area<DB>, text: &str) -> Drawn<DB::ErrorType> {
    area.draw(&Text::new(text.to_owned(), ((EDGE + LEFT) as i32, 8), font(15).color(&INK)))
}

/// The legend at the upper right: a coloured square and a text for each.
pub(super) fn legend<DB: DrawingBackend>(
    area: &Area<DB>,
    entries: &[(RGBColor, String)],
) -> Drawn<DB::ErrorType> {
    let mut right = WIDTH as i32 - 18;
    for (colour, text) in entries.iter().rev() {
        let style = font(13).color(&INK);
        let (width, _) = area.estimate_text_size(text, &style)?;
        right -= width as i32;
        area.draw(&Text::new(text.clone(), (right, 10), style))?;
        right -= 17;
        area.draw(&Rectangle::new([(right, 9), (right + 11, 20)], colour.filled()))?;
        right -= 16;
    }
    Ok(())
}

/// The unit for an axis of bytes up to `most`, chosen so that its steps are round numbers.
pub(super) fn unit(most: f64) -> (f64, &'static str) {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (most.max(1.0).log2() / 10.0) as usize;
    let step = step.min(UNITS.len() - 1);
    (1024_f64.powi(step as i32), UNITS[step])
}

/// A number of an axis: `0.25`, `10`, `3,600`.
pub(super) fn number(number: f64) -> String {
    match number {
        n if n >= 999.5 => human::count(n.round() as u64),
        n => short(&format!("{n:.3} ")),
    }
}

/// `1 read`, `12 reads`.
pub(super) fn counted(count: u64, name: &str) -> String {
    human::plural(count, name.trim_end_matches('s'))
}
