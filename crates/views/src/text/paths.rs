//! Code paths: which functions submitted the requests.

use super::usage::{BY_BYTES, REASONS, REQUESTS, TIME, TIME_SHARE, UsageRow, rows};
use super::{Screen, stack_hints};
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{CodePathRow, UsageTable, UsedRow};
use iowhy_model::quantities::estimated_percent;

/// Programs that are named for how they were unwound.
const MOST_PROGRAMS: usize = 3;

/// Code paths.
pub const CODE_PATHS: Definition<UsageRow> = Definition {
    title: "CODE PATHS",
    sentence: "Which functions submitted requests, most time first: origin, process, then \
               functions from the innermost of the kernel to the outermost of the program. \
               Each process's requests of one origin are divided by the stacks of those of which \
               one was taken; paths with fewer than ten are summed up.",
    columns: &[
        Column {
            heading: "CODE PATHS",
            unit: "",
            align: Align::Left,
            room: Room::Wrap,
            sentence: "callee < caller; functions that every request goes through are left out; \
                       … where the stack is not complete",
            legend: "callee < caller; … if a stack is incomplete",
            value: |row, _| crate::table::TableCell {
                text: row.name.clone(),
                paint: if row.rest { Paint::Faint } else { Paint::Plain },
            },
        },
        TIME,
        Column {
            sentence: "share of the time of all requests; ~ if it is estimated from stacks of some",
            ..TIME_SHARE
        },
        REQUESTS,
    ],
};

pub(crate) fn section(summary: &Summary, screen: &mut Screen) {
    let paths = &summary.code_paths;
    if paths.sampled_requests == 0 {
        return;
    }
    let style = *screen.style;
    let table = shown(&paths.table);
    let mut rows = rows(&table, &style, |row| (path(row, &style), None));
    for (row, known) in rows.iter_mut().zip(&table.top(style.rows, BY_BYTES, REASONS).rows) {
        row.estimated_from = estimated_from(known);
    }
    screen.table(&CODE_PATHS, &rows);
    let text = format!(
        "estimated from {}, which stand for {} of {}",
        plural(paths.sampled_requests, "stack"),
        human::count(paths.represented_requests),
        plural(paths.counted_requests, "request"),
    );
    screen.prose(&text, 2, Paint::Faint);
    unwound(summary, screen);
}

/// The stacks that a path's figures are estimated from; `None` if each request has one.
fn estimated_from(row: &UsedRow<CodePathRow>) -> Option<u64> {
    let requests = row.usage.requests.saturating_add(row.usage.open_requests);
    let samples = row.subject.samples;
    (samples > 0 && samples < requests).then_some(samples)
}

/// A path's share of the time, in per cent; `None` if too few stacks say so.
pub(super) fn share_of(row: &UsedRow<CodePathRow>) -> Option<String> {
    match estimated_from(row) {
        Some(samples) => estimated_percent(row.usage.time_share, samples),
        None => Some(human::percent(row.usage.time_share)),
    }
}

/// The paths of which enough stacks were taken; the others are summed up.
fn shown(paths: &UsageTable<CodePathRow>) -> UsageTable<CodePathRow> {
    let mut shown = UsageTable { rows: Vec::new(), ..paths.clone() };
    for row in &paths.rows {
        if share_of(row).is_some() {
            shown.rows.push(row.clone());
        } else {
            shown.others.count += 1;
            shown.others.usage.add(&row.usage);
        }
    }
    shown
}

/// Names the programs whose functions were found by `.eh_frame`, and the steps that complete the
/// others.
fn unwound(summary: &Summary, screen: &mut Screen) {
    let shown: Vec<&CodePathRow> =
        summary.code_paths.table.rows.iter().map(|row| &row.subject).collect();
    let by_tables = shown.iter().filter(|row| row.user_unwound_by.as_deref() == Some(".eh_frame"));
    let mut programs: Vec<&str> = by_tables.filter_map(|row| row.process.as_deref()).collect();
    programs.sort_unstable();
    programs.dedup();
    if !programs.is_empty() {
        let more = programs.len().saturating_sub(MOST_PROGRAMS);
        let names = programs.iter().take(MOST_PROGRAMS).map(|name| escape(name, screen.style));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!("no frame pointers, unwound by .eh_frame: {names}{more}");
        screen.prose(&text, 2, Paint::Faint);
    }
    let cut = shown.iter().filter(|row| !row.user.is_empty() && !row.user_complete);
    let programs = cut.filter_map(|row| Some((row.process.as_deref()?, None)));
    for hint in stack_hints::of(programs) {
        screen.prose(&hint, 2, Paint::Faint);
    }
}

/// `metadata, java: xfs_lookup < vfs_statx < lstat0`.
fn path(row: &CodePathRow, style: &Style) -> String {
    let mut functions: Vec<&str> = row.kernel.iter().map(String::as_str).collect();
    if !row.kernel.is_empty() && !row.kernel_complete {
        functions.push(style.either("…", "..."));
    }
    functions.extend(row.user.iter().map(String::as_str));
    if !row.user.is_empty() && !row.user_complete {
        functions.push(style.either("…", "..."));
    }
    let functions: Vec<_> = functions.into_iter().map(|name| escape_name(name, style)).collect();
    let process = row.process.as_deref().map(|name| format!(", {}", escape(name, style)));
    let functions = match functions.is_empty() {
        true => "(functions not known)".to_owned(),
        false => functions.join(" < "),
    };
    format!("{}{}: {functions}", row.origin.phrase(), process.unwrap_or_default())
}

fn escape_name(name: &str, style: &Style) -> String {
    if name == "…" { name.to_owned() } else { escape(name, style).into_owned() }
}
