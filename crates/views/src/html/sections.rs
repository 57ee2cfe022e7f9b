//! The tables, the environment and the commands, as plain HTML.

use super::{PageInput, prose};
use crate::escape::escape;
use crate::human;
use crate::style::{Paint, Style};
use crate::table::{Align, CellTable};
use crate::text::{self, ScreenPart, parts};
use iowhy_analysis::Summary;
use iowhy_model::command::of_source;
use iowhy_model::environment::Mount;
use maud::{Markup, html};

/// The tables of the report, and who made whom wait.
pub(super) fn tables(page: &PageInput<'_>, style: &Style) -> Markup {
    let all = parts(page.source, style, |screen| {
        text::tables(page.summary, screen);
        text::blame::tables(page.summary, screen);
    });
    html! {
        section #tables aria-labelledby="figures" {
            h2 #figures { "Figures" }
            p.faint { "All of the watch, whatever the charts are filtered to. \
                \u{2212}: there was none; ?: not in the data." }
            (drawn(&all))
        }
    }
}

/// Parts of a screen one below the other: a paragraph belongs to the table before it.
pub(super) fn drawn(all: &[ScreenPart]) -> Markup {
    html! {
        @for part in all {
            @match part {
                ScreenPart::Text(text, paint) => {
                    p.faint[*paint == Paint::Faint].alert[*paint == Paint::Alert] {
                        (prose(text.trim_start_matches("! ")))
                    }
                }
                ScreenPart::Table(table) => (cells(table)),
            }
        }
    }
}

/// A table that the script makes sortable and searchable.
fn cells(table: &CellTable) -> Markup {
    let side = |index: usize| match table.columns[index].2 {
        Align::Right => Some("figure"),
        Align::Left => None,
    };
    // The first heading repeats the table's title in capitals, where there is no title above.
    let heading = |text: &str| match text.chars().any(char::is_lowercase) {
        true => text.to_owned(),
        false if text.chars().count() > 3 => text.to_lowercase(),
        false => text.to_owned(),
    };
    // Pages of the documentation are not beside this one.
    let sentence = table.sentence.split_once(" See [").map_or(table.sentence, |(own, _)| own);
    html! {
        h3.sheet-title { (title(table.title)) }
        p.faint { (sentence) }
        figure.sheet tabindex="0" role="group" aria-label=(sentence) {
            table.sortable {
                @let columns = table.columns.iter().enumerate();
                thead { tr { @for (index, (text, sentence, _)) in columns {
                    @let text = if index == 0 { heading(text) } else { (*text).to_owned() };
                    th scope="col" class=[side(index)] title=(sentence) { (text) }
                } } }
                tbody { @for row in &table.rows {
                    tr { @for (index, cell) in row.iter().enumerate() {
                        td class=[side(index)] { (cell.text) }
                    } }
                } }
            }
        }
    }
}

/// `Code paths` of `CODE PATHS`, and `Times` of `iowhy diff: times`.
fn title(title: &str) -> String {
    let own = title.rsplit_once(": ").map_or(title, |(_, own)| own);
    let own = own.strip_prefix("iowhy ").unwrap_or(own).to_lowercase();
    let mut letters = own.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Draws the host, its settings and mounts, and the cost of watching.
pub(super) fn environment(summary: &Summary, style: &Style) -> Markup {
    let environment = &summary.environment;
    let shown = |text: &str| escape(text, style).into_owned();
    let facts = [
        ("Host", shown(&environment.host)),
        ("Kernel", shown(&environment.kernel)),
        ("Distribution", shown(&environment.distribution)),
        ("Architecture", shown(&environment.architecture)),
        ("CPUs", none_if_zero(environment.cpus.into(), human::count)),
        ("Memory", none_if_zero(environment.memory_bytes, |bytes| human::bytes(bytes as f64))),
        ("Virtual machine", environment.is_virtual.map_or("", yes_no).to_owned()),
        ("Source", shown(&environment.source)),
        ("Filter", shown(&environment.filter)),
        (
            "CPU time of iowhy",
            none_if_zero(environment.cost.cpu_ns, |ns| human::time(ns as f64, style)),
        ),
        (
            "Memory of iowhy",
            none_if_zero(environment.cost.memory_bytes, |bytes| human::bytes(bytes as f64)),
        ),
    ];
    html! {
        section #environment aria-labelledby="machine" {
            h2 #machine { "Environment" }
            dl.facts { @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (value) }
            } }
            (losses(summary, style))
            (devices(summary, style))
            (mounts(&environment.mounts, style))
            (settings("Settings of the machine", environment.settings_start.iter(), style))
        }
    }
}

fn yes_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn none_if_zero(figure: u64, show: impl Fn(u64) -> String) -> String {
    if figure == 0 { String::new() } else { show(figure) }
}

/// Draws the losses, and the limits of what could be seen.
fn losses(summary: &Summary, style: &Style) -> Markup {
    let environment = &summary.environment;
    html! {
        details.small open[!summary.losses.items.is_empty()] {
            summary { "Losses and limits" }
            ul {
                @if summary.losses.items.is_empty() { li { "Nothing was lost." } }
                @for loss in &summary.losses.items {
                    li.alert { (escape(&loss.note(), style)) }
                }
                @for limit in &environment.limits { li { (prose(&escape(limit, style))) } }
            }
        }
    }
}

fn devices(summary: &Summary, style: &Style) -> Markup {
    html! {
        @for device in summary.devices.iter().take(super::ROWS) {
            @let model = device.model.as_deref().unwrap_or_default();
            @let size = device.size_bytes.map_or(String::new(), |size| human::bytes(size as f64));
            @let name = format!("Settings of {} {} {}", device.device, model, size);
            (settings(name.trim(), device.settings.iter(), style))
        }
    }
}

fn settings<'a>(
    title: &str,
    values: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
    style: &Style,
) -> Markup {
    html! {
        @if values.len() > 0 {
            details.small {
                summary { (escape(title, style)) }
                table {
                    thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } } }
                    tbody { @for (name, value) in values {
                        tr { td { code { (escape(name, style)) } } td { (escape(value, style)) } }
                    } }
                }
            }
        }
    }
}

fn mounts(mounts: &[Mount], style: &Style) -> Markup {
    let shown = |text: &str| escape(text, style).into_owned();
    html! {
        @if !mounts.is_empty() {
            details.small {
                summary { "Mounted file systems" }
                div.wide tabindex="0" role="group" aria-label="Mounted file systems" { table {
                    thead { tr {
                        th scope="col" { "Where" } th scope="col" { "Type" }
                        th scope="col" { "What" }
                        th scope="col" { "Free" } th scope="col" { "Options" }
                    } }
                    tbody { @for mount in mounts.iter().take(200) {
                        @let free = mount.free_bytes.map(|free| human::bytes(free as f64));
                        tr {
                            td { (shown(&mount.path)) } td { (shown(&mount.kind)) }
                            td { (shown(&mount.source)) }
                            td.figure { (free.unwrap_or_default()) }
                            td { (shown(&mount.options)) }
                        }
                    } }
                } }
            }
        }
    }
}

/// The commands that show the same on a terminal.
pub(super) fn commands(page: &PageInput<'_>, style: &Style) -> Markup {
    const VIEWS: &[(&str, &str)] = &[
        ("iowhy report --full", "everything above, on a terminal"),
        ("iowhy explain", "what a cause is, and what this source shows of it"),
        ("iowhy stat", "devices, per interval"),
        ("iowhy proc", "processes, per interval"),
        ("iowhy waits", "where threads waited"),
        ("iowhy blame", "who made whom wait"),
        ("iowhy chains", "threads that waited for threads that waited for storage"),
        ("iowhy latency", "histograms"),
        ("iowhy snoop", "each request"),
        ("iowhy stacks", "which functions submitted requests"),
        ("iowhy files", "what processes did with files"),
    ];
    let source = page.source;
    html! {
        section #commands aria-labelledby="terminal" {
            h2 #terminal { "On a terminal" }
            table {
                thead { tr { th scope="col" { "Command" } th scope="col" { "Shows" } } }
                tbody { @for (command, shows) in VIEWS {
                    @let text =
                        source.map_or((*command).to_owned(), |source| of_source(command, source));
                    tr { td { code { (escape(&text, style)) } } td { (shows) } }
                } }
            }
        }
    }
}
