//! Plots as SVG and PNG, 800 pixels wide: for each device a latency histogram, latency over time,
//! offsets of reads and writes over time, requests and bytes per second.
//!
//! | where | what |
//! |---|---|
//! | `axes` | the frame of every chart |
//! | `style` | sizes, colours, the font |
//! | `latency` | the histogram and the heat map |
//! | `activity` | offsets, requests and bytes over time |
//!
//! The font is a subset of DejaVu Sans (its licence is in the same directory): ASCII and a few
//! symbols. An SVG names a font family instead and is drawn with the reader's font.
//!
//! What does not belong here: counting (see [`iowhy_core::analysis::plots`]).

mod activity;
mod axes;
mod latency;
mod style;

use iowhy_core::analysis::plots::{DevicePlots, Plots};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error as Cause;
use style::{HEADER, INK, PANEL, WIDTH};

/// Maximum number of devices, one below the other; more do not fit on a page.
pub const MOST_DEVICES: usize = 4;
const PANELS: u32 = 6;

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The source has no reads and no writes.
    #[error("failed to draw: the source has no reads and no writes")]
    Empty,
    /// The drawing library failed.
    #[error("failed to draw: {0}")]
    Draw(String),
}

type Drawn<E> = Result<(), DrawingAreaErrorKind<E>>;
type Area<DB> = DrawingArea<DB, Shift>;

/// As SVG.
///
/// # Errors
/// When there is nothing to draw.
pub fn svg(plots: &Plots, title: &str) -> Result<String, PlotError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size(plots)?).into_drawing_area();
        page(&area, plots, title).map_err(failed)?;
    }
    Ok(text)
}

/// As PNG.
///
/// # Errors
/// When there is nothing to draw.
pub fn png(plots: &Plots, title: &str) -> Result<Vec<u8>, PlotError> {
    let (width, height) = size(plots)?;
    let mut pixels = vec![0; (width * height * 3) as usize];
    {
        let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        page(&backend.into_drawing_area(), plots, title).map_err(failed)?;
    }
    encode(&pixels, width, height).map_err(|error| PlotError::Draw(error.to_string()))
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

fn failed(error: impl Cause) -> PlotError {
    PlotError::Draw(error.to_string())
}

fn size(plots: &Plots) -> Result<(u32, u32), PlotError> {
    match plots.devices.len().min(MOST_DEVICES) as u32 {
        0 => Err(PlotError::Empty),
        devices => Ok((WIDTH, devices * (HEADER + PANELS * PANEL) + 10)),
    }
}

fn page<DB: DrawingBackend>(area: &Area<DB>, plots: &Plots, title: &str) -> Drawn<DB::ErrorType> {
    style::register_font();
    area.fill(&WHITE)?;
    let mut rest = area.clone();
    for device in plots.devices.iter().take(MOST_DEVICES) {
        let (own, after) = rest.split_vertically(HEADER + PANELS * PANEL);
        draw_device(&own, plots, device, title)?;
        rest = after;
    }
    area.present()
}

fn draw_device<DB: DrawingBackend>(
    area: &Area<DB>,
    plots: &Plots,
    device: &DevicePlots,
    title: &str,
) -> Drawn<DB::ErrorType> {
    let (head, panels) = area.split_vertically(HEADER);
    let name: String = device.device.chars().map(style::drawable).collect();
    let title: String = title.chars().map(style::drawable).collect();
    head.draw(&Text::new(name, (14, 12), style::font(24).color(&INK)))?;
    let about = format!("{title}    {}", counts(device));
    head.draw(&Text::new(about, (14, 42), style::font(14).color(&style::PALE_INK)))?;
    let panels = panels.split_evenly((PANELS as usize, 1));
    let [histogram, heat, reads, writes, requests, bytes] = panels.as_slice() else {
        return Ok(());
    };
    latency::histogram(histogram, device)?;
    latency::heat(heat, plots, device)?;
    let range = activity::range(device);
    activity::offsets(reads, plots, device, 0, range)?;
    activity::offsets(writes, plots, device, 1, range)?;
    activity::rates(requests, plots, device, activity::Rate::Requests)?;
    activity::rates(bytes, plots, device, activity::Rate::Bytes)
}

fn counts(device: &DevicePlots) -> String {
    let all = device.offsets.iter().zip(style::NAMES);
    let counts: Vec<String> = all.map(|(points, name)| style::counted(points.all, name)).collect();
    counts.join(", ")
}
