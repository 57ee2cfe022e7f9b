//! Shares of the requests' time: processes, files and the code path, a line each. Where most of the
//! time is other devices', they are those of the device that the first finding is about.
//!
//! What does not belong here: iowhy's own requests, which the first lines of the screen count.

use super::super::paths::share_of;
use super::super::usage::{UsageRow, file_name, process_name, program_name, rows};
use super::super::{Screen, frames};
use crate::escape::{cut, escape, fit, width};
use crate::fold::wrap;
use crate::human;
use crate::style::{Paint, Style};
use iowhy_analysis::summary::{CodePathRow, DeviceSummary, Usage, UsedRow};
use iowhy_analysis::{Summary, own_io};
use iowhy_model::Origin;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::stack::without_types;

/// Width of the labels, columns.
const LABEL: usize = 11;
/// Anything with a smaller share of the time is not named.
const LEAST_SHARE: f64 = 0.01;
/// The least share of a code path that is shown. Chosen: a rare one explains nothing.
const LEAST_PATH_SHARE: f64 = 0.1;
/// The least share of all requests' time for a device whose figures all devices' can stand for.
const MAIN_SHARE: f64 = 0.5;
/// Maximum number of each.
const MOST: usize = 3;
/// Maximum number of lines of the code path.
const PATH_LINES: usize = 2;

pub(super) fn section(summary: &Summary, sick: Option<&DeviceSummary>, screen: &mut Screen) {
    let style = *screen.style;
    let sick = sick
        .filter(|device| time_share(device, summary) < MAIN_SHARE && !device.processes.is_empty());
    let (of_what, lines, paths) = match sick {
        Some(device) => {
            let of_what = format!("share of {}'s time", device.device);
            let lines = vec![("processes", shares(processes_of(device, &style), &style))];
            let patterns =
                summary.patterns.devices.iter().find(|known| known.device == device.device);
            (of_what, lines, patterns.map_or(&[][..], |known| &known.code_paths))
        }
        None => {
            let mut programs = summary.programs.clone();
            programs.rows.retain(|row| row.subject.process != own_io::PROCESS);
            let processes = rows(&programs, &style, |row| (program_name(row, &style), None));
            let files = rows(&summary.files, &style, |row| (file_name(row, &style), None));
            let lines =
                vec![("processes", shares(processes, &style)), ("files", shares(files, &style))];
            let of_what = "share of the requests' time".to_owned();
            (of_what, lines, &summary.code_paths.table.rows[..])
        }
    };
    let path = paths.iter().find_map(|path| code_path(path, &style));
    if path.is_none() && lines.iter().all(|(_, text)| text.is_none()) {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("TOP", Paint::Heading);
    let of_what = cut(&escape(&of_what, &style), style.columns() - LABEL, &style);
    let of_what = screen.style.paint(&of_what, Paint::Faint);
    screen.line(&format!("{heading}        {of_what}"));
    for (label, text) in lines {
        let Some(text) = text else { continue };
        screen.line(&format!("{label:LABEL$}{text}"));
    }
    let path = path.iter().flat_map(|path| wrap(path, style.columns() - LABEL));
    for (index, line) in path.take(PATH_LINES).enumerate() {
        let label = if index == 0 { "code path" } else { "" };
        screen.line(&format!("{label:LABEL$}{line}"));
    }
}

/// The share of a device in the time of all requests.
fn time_share(device: &DeviceSummary, summary: &Summary) -> f64 {
    let time = |device: &DeviceSummary| -> f64 {
        device.origins.iter().map(|row| row.usage.all_time_ns() as f64).sum()
    };
    let all: f64 = summary.devices.iter().map(time).sum();
    time(device) / all.max(1.0)
}

/// The processes with most of a device's time, those of one name together.
fn processes_of(device: &DeviceSummary, style: &Style) -> Vec<UsageRow> {
    let mut found: Vec<UsageRow> = Vec::new();
    for row in &device.processes {
        if row.subject.process == own_io::PROCESS {
            continue;
        }
        let name = process_name(&row.subject, style);
        let program = escape(&row.subject.process, style).into_owned();
        let is_same = |usage: &&mut UsageRow| {
            usage.name.split(" (").next() == Some(program.as_str()) && !program.is_empty()
        };
        match found.iter_mut().find(is_same) {
            // Only the first processes are listed, so their number is not known.
            Some(same) => {
                same.name = program;
                same.usage.time_share += row.usage.time_share;
            }
            None => {
                let usage = Usage { time_share: row.usage.time_share, ..Usage::default() };
                found.push(UsageRow { name, usage, ..UsageRow::default() });
            }
        }
    }
    found
}

/// `postgres (×16) 97 %, jbd2/sda1-8 (212) 2.1 %`, as many as fit in the line.
fn shares(mut rows: Vec<UsageRow>, style: &Style) -> Option<String> {
    rows.retain(|row| row.usage.time_share >= LEAST_SHARE);
    rows.compact_sort_by(|a, b| b.usage.time_share.total_cmp(&a.usage.time_share));
    let room = style.columns() - LABEL;
    let mut line = String::new();
    for row in rows.iter().take(MOST) {
        let share = format!(" {} %", human::percent(row.usage.time_share));
        let separator = if line.is_empty() { "" } else { ", " };
        let left = room.saturating_sub(width(&line) + width(separator) + width(&share));
        // A name that is cut to a few letters is useless.
        if left < (room / 3).min(width(&row.name)) {
            break;
        }
        line.push_str(&format!("{separator}{}{share}", fit(&row.name, left, style)));
    }
    (!line.is_empty()).then_some(line)
}

/// `flush by postgres 86 %: XLogFlush > ext4_sync_file > blkdev_issue_flush`; `None` if too few
/// stacks say so.
fn code_path(first: &UsedRow<CodePathRow>, style: &Style) -> Option<String> {
    let frames = frames::that_matter(&first.subject);
    if frames.is_empty() {
        return None;
    }
    let process = first.subject.process.as_deref().map(|name| escape(name, style));
    let origin = first.subject.origin;
    let what = match (origin, process) {
        (Origin::Unknown, Some(process)) => process.into_owned(),
        (origin, Some(process)) => format!("{} by {process}", origin.phrase()),
        (origin, None) => origin.phrase().to_owned(),
    };
    let frames = frames.into_iter().map(without_types);
    let frames: Vec<_> = frames.map(|name| escape(name, style)).collect();
    if first.usage.time_share < LEAST_PATH_SHARE {
        return None;
    }
    let share = share_of(first)?;
    Some(format!("{what} {share} %: {}", frames.join(" > ")))
}
