//! Shares of the requests' time: processes, files and the code path, a line each.

use super::super::usage::{UsageRow, file_name, program_name, rows};
use super::super::{Screen, frames};
use crate::escape::{escape, fit, width};
use crate::fold::wrap;
use crate::human;
use crate::style::{Paint, Style};
use iowhy_core::analysis::Summary;
use iowhy_core::model::Origin;
use iowhy_core::model::stack::without_types;

/// Width of the labels, columns.
const LABEL: usize = 11;
/// Anything with a smaller share of the time is not named.
const LEAST_SHARE: f64 = 0.01;
/// Maximum number of each.
const MOST: usize = 3;
/// Maximum number of lines of the code path.
const PATH_LINES: usize = 2;

pub(super) fn section(summary: &Summary, screen: &mut Screen) {
    let style = *screen.style;
    let processes = rows(&summary.programs, &style, |row| (program_name(row, &style), None));
    let files = rows(&summary.files, &style, |row| (file_name(row, &style), None));
    let lines = [("processes", shares(processes, &style)), ("files", shares(files, &style))];
    let path = code_path(summary, &style);
    if path.is_none() && lines.iter().all(|(_, text)| text.is_none()) {
        return;
    }
    screen.gap();
    let heading = screen.style.paint("TOP", Paint::Heading);
    let of_what = screen.style.paint("share of the requests' time", Paint::Faint);
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

/// `postgres (×16) 97 %, jbd2/sda1-8 (212) 2.1 %`, as many as fit in the line.
fn shares(mut rows: Vec<UsageRow>, style: &Style) -> Option<String> {
    rows.retain(|row| row.usage.time_share >= LEAST_SHARE);
    rows.sort_by(|a, b| b.usage.time_share.total_cmp(&a.usage.time_share));
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

/// `flush by postgres 86 %: XLogFlush > ext4_sync_file > blkdev_issue_flush`.
fn code_path(summary: &Summary, style: &Style) -> Option<String> {
    let first = summary.code_paths.table.rows.first()?;
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
    let share = human::percent(first.usage.time_share);
    Some(format!("{what} {share} %: {}", frames.join(" > ")))
}
