//! The first lines: what was watched, losses and cost; then notes that come before any figure.

use super::{Screen, usage};
use crate::escape::{escape, width};
use crate::fold::wrap;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use iowhy_analysis::summary::{ChangedSetting, DeviceSummary, ErrorCount, ReasonCount};
use iowhy_analysis::{Interval, Summary};
use iowhy_model::Environment;
use iowhy_model::clock::WallClock;

/// Error numbers with which block devices complete requests.
const ERRORS: &[(i32, &str)] = &[
    (-5, "EIO"),
    (-6, "ENXIO"),
    (-11, "EAGAIN"),
    (-12, "ENOMEM"),
    (-16, "EBUSY"),
    (-19, "ENODEV"),
    (-28, "ENOSPC"),
    (-52, "EBADE"),
    (-61, "ENODATA"),
    (-62, "ETIME"),
    (-67, "ENOLINK"),
    (-84, "EILSEQ"),
    (-95, "EOPNOTSUPP"),
    (-110, "ETIMEDOUT"),
    (-121, "EREMOTEIO"),
];

/// The share of lost records above which they may change an answer. Chosen.
const MATERIAL_RECORDS: f64 = 0.01;
/// The share of records that lack a detail (a stack, the end of a wait) above which they may change
/// an answer. Chosen.
const MATERIAL_DETAILS: f64 = 0.1;

/// The first line, wrapped if it is too long.
pub(super) fn header(summary: &Summary, screen: &mut Screen) {
    line_of(facts(summary, screen.style), screen);
}

/// Facts in one line, wrapped if it is too long.
pub(crate) fn line_of(facts: Vec<(String, Paint)>, screen: &mut Screen) {
    let style = *screen.style;
    let separator = style.either(" · ", " | ");
    let mut line = String::new();
    // A fact that is longer than a line goes on in the next one.
    let room = style.columns().saturating_sub(2);
    let pieces = |(fact, paint): (String, Paint)| {
        wrap(&fact, room).into_iter().map(move |piece| (piece, paint))
    };
    for (fact, paint) in facts.into_iter().flat_map(pieces) {
        let needed = width(separator) + width(&fact);
        if !line.is_empty() && visible(&line) + needed > style.columns() {
            screen.line(&line);
            line = "  ".to_owned();
        } else if !line.is_empty() {
            line.push_str(separator);
        }
        line.push_str(&style.paint(&fact, paint));
    }
    screen.line(&line);
}

/// Returns the facts of the watch: host and length, losses, and the cost of watching.
pub(crate) fn facts(summary: &Summary, style: &Style) -> Vec<(String, Paint)> {
    let (watch, environment) = (&summary.watch, &summary.environment);
    let mut facts = vec![("iowhy".to_owned(), Paint::Heading)];
    let mut fact = |text: String| facts.push((text, Paint::Plain));
    if !environment.host.is_empty() {
        fact(escape(&environment.host, style).into_owned());
    }
    if !environment.kernel.is_empty() {
        fact(format!("Linux {}", escape(&environment.kernel, style)));
    }
    if environment.is_imported() {
        fact(format!("from {}", escape(&environment.source, style)));
    }
    fact(length(summary, style));
    if !is_only_counted(summary) {
        fact(plural(watch.requests, "request"));
    }
    if environment.is_sampled() {
        fact(sampling(environment, style));
    }
    let items = &summary.losses.items;
    let details: u64 = items.iter().filter(|loss| !loss.requests).map(|loss| loss.count).sum();
    let mut lost = format!("{} lost", human::count(watch.lost_requests));
    if details > 0 {
        lost.push_str(&format!(", {}", plural(details, "incomplete record")));
    }
    if !items.is_empty() && !environment.filter.is_empty() {
        lost.push_str(" (of all devices)");
    }
    if !is_only_counted(summary) || watch.lost_requests + details > 0 {
        let paint = if are_losses_material(summary) { Paint::Alert } else { Paint::Plain };
        facts.push((lost, paint));
    }
    if let Some(share) = watch.cost_share {
        let start = match watch.start_cpu_ns {
            0 => String::new(),
            start_ns => format!("{} to start, then ", human::time(start_ns as f64, style)),
        };
        let mut cost = format!("cost {start}{} % of all CPUs", human::percent(share));
        if watch.own_requests > 0 {
            cost.push_str(&format!(", {}", plural(watch.own_requests, "own request")));
        }
        facts.push((cost, Paint::Plain));
    }
    facts
}

/// Returns how long the watch was, and when it began: `watched 10.1 s from 2026-11-26 23:09:25`.
fn length(summary: &Summary, style: &Style) -> String {
    let duration_ns = summary.watch.duration_ns;
    let watched = human::time(duration_ns as f64, style);
    match WallClock::from_environment(&summary.environment) {
        Some(clock) => {
            let start = clock.date_time(summary.environment.start_ns);
            format!("watched {watched} from {start}")
        }
        None if duration_ns == 0 && is_only_counted(summary) => "no time is told".to_owned(),
        None => format!("watched {watched}"),
    }
}

/// Returns the part of the requests that was recorded, and how exact figures are.
fn sampling(environment: &Environment, style: &Style) -> String {
    let counts = if environment.exact_counts.is_empty() { "estimated" } else { "exact" };
    let recorded = match environment.requests_one_in() {
        Some(one_in) => format!("1 of {one_in} recorded"),
        None => "a sample recorded".to_owned(),
    };
    let error = environment.estimates_error().filter(|_| counts == "exact");
    let error = error.map(|error| {
        let sign = style.either("±", "+-");
        format!(", the rest {sign}{:.0} %", (error * 100.0).min(100.0).ceil())
    });
    format!("{recorded}, counts {counts}{}", error.unwrap_or_default())
}

/// The width of a line that may contain colour sequences.
fn visible(line: &str) -> usize {
    let mut in_colour = false;
    let plain: String = line
        .chars()
        .filter(|char| {
            let part = in_colour || *char == '\x1b';
            in_colour = part && *char != 'm';
            !part
        })
        .collect();
    width(&plain)
}

/// Notes that come before any figure.
pub(crate) fn notes(summary: &Summary, screen: &mut Screen) {
    losses(summary, screen);
    notes_beyond_losses(summary, screen);
    kept(summary, screen);
}

/// Writes these notes but for losses and the filter.
pub(super) fn notes_beyond_losses(summary: &Summary, screen: &mut Screen) {
    let style = *screen.style;
    let imported = summary.environment.is_imported();
    let alert = |note: String, screen: &mut Screen| {
        screen.prose(&format!("! {note}"), 0, Paint::Alert);
    };
    if !summary.watch.finished {
        alert("the watch was cut off: its recording has no end".to_owned(), screen);
    }
    let hides_others = summary.environment.hides_others();
    for device in &summary.devices {
        of_device(device, hides_others, &style).into_iter().for_each(|note| alert(note, screen));
    }
    if imported {
        // A capture's limits reduce the value of everything below.
        limits(summary, screen);
    }
    for note in changed_settings(summary, &style).into_iter().chain(missing(summary)) {
        alert(note, screen);
    }
    for line in summary.devices.iter().flat_map(|device| unlinked(device, &style)) {
        screen.prose(&format!("- {line}"), 0, Paint::Plain);
    }
    for line in unrecorded(summary, &style) {
        screen.prose(&format!("- {line}"), 0, Paint::Plain);
    }
    for device in &summary.devices {
        let requeues: u64 = device.directions.0.iter().map(|direction| direction.requeues).sum();
        if requeues > 0 {
            let name = escape(&device.device, &style);
            let requeues = human::count(requeues);
            let text = format!("- {name}: requests that the driver requeued: {requeues}");
            screen.prose(&text, 0, Paint::Faint);
        }
    }
    let retried = summary.environment.retried_submissions;
    if retried > 0 {
        let text = format!(
            "- {} of io_uring found no free tag and were made again by a thread that may wait: \
             neither requests nor errors",
            plural(retried, "submission"),
        );
        screen.prose(&text, 0, Paint::Faint);
    }
    if !imported {
        limits(summary, screen);
    }
    if let Some(censored) = censored(summary) {
        screen.prose(&format!("- {censored}"), 0, Paint::Faint);
    }
}

/// A note of several lines, as drawn on the screen.
pub(super) struct Note {
    /// Whether it is a warning.
    pub is_pressing: bool,
    pub lines: Vec<String>,
}

/// The notes in what [`notes`] has drawn: each begins with `!` or `-`, further lines of it are
/// indented.
pub(super) fn paragraphs(text: &str) -> Vec<Note> {
    let mut found: Vec<Note> = Vec::new();
    for line in text.lines() {
        // A colour sequence may precede the mark.
        let mark =
            line.trim_start_matches(|char: char| char == '\x1b' || "[0123456789;m".contains(char));
        match found.last_mut() {
            Some(note) if !mark.starts_with(['!', '-']) => note.lines.push(line.to_owned()),
            _ => found
                .push(Note { is_pressing: mark.starts_with('!'), lines: vec![line.to_owned()] }),
        }
    }
    found
}

/// Whether losses may change the answer: whole records, or many details.
pub(crate) fn are_losses_material(summary: &Summary) -> bool {
    let losses = &summary.losses;
    let waits = summary
        .ledger
        .as_ref()
        .map_or(0, |ledger| ledger.classes.iter().map(|class| class.waits).sum());
    let recorded = summary.watch.requests + waits;
    let count = |whole: bool| -> u64 {
        losses
            .items
            .iter()
            .filter(|item| item.is_of_whole_records() == whole)
            .map(|item| item.count)
            .sum()
    };
    let (records, details) = (count(true) as f64, count(false) as f64);
    let all = recorded as f64;
    records > MATERIAL_RECORDS * all || (recorded > 0 && details > MATERIAL_DETAILS * all)
}

/// The filter, if there is one.
pub(super) fn kept(summary: &Summary, screen: &mut Screen) {
    let filter = escape(&summary.environment.filter, screen.style).into_owned();
    if !filter.is_empty() {
        screen.prose(&format!("- filter: {filter}"), 0, Paint::Faint);
    }
}

/// Writes the losses.
pub(super) fn losses(summary: &Summary, screen: &mut Screen) {
    let style = *screen.style;
    for loss in &summary.losses.items {
        let note = format!("! {} ({})", loss.note(), loss.place);
        let note = escape(&note, &style);
        screen.prose(&note, 0, Paint::Alert);
    }
}

/// Limits of the watch.
fn limits(summary: &Summary, screen: &mut Screen) {
    let style = *screen.style;
    for limit in &summary.environment.limits {
        screen.prose(&format!("- {}", escape(limit, &style)), 0, Paint::Faint);
    }
}

fn of_device(device: &DeviceSummary, hides_others: bool, style: &Style) -> Vec<String> {
    let name = escape(&device.device, style);
    let mut notes = Vec::new();
    if let Some(stalled) = device.stalled_ns {
        let open = (device.open_requests.saturating_sub(device.overtaken_requests))
            .max(device.kernel_in_flight_end.unwrap_or(0));
        let age = device.oldest_open_ns.unwrap_or(stalled);
        let (verb, doubt) = match device.overtaken_requests {
            _ if hides_others && !device.is_kernel_counted => {
                ("may stall", ", of those that the filter keeps")
            }
            0 => ("stalls", ""),
            // If the data lacks completions of other requests, it may lack these too.
            _ => ("may stall", ", or the data lacks their ends too"),
        };
        notes.push(format!(
            "{name} {verb}: {} in flight, the oldest for at least {}, and none completed in the \
             last {}{doubt}",
            plural(open, "request"),
            human::time(age as f64, style),
            human::time(stalled as f64, style),
        ));
    }
    // Nobody knows whether requests that later ones overtook are in flight.
    let open = device.open_requests.saturating_sub(device.overtaken_requests);
    if let (None, true, Some(age), 1..) =
        (device.stalled_ns, device.is_oldest_overdue, device.oldest_open_ns, open)
    {
        notes.push(format!(
            "{name}: {} in flight, the oldest for at least {}, longer than any that completed took",
            plural(open, "request"),
            human::time(age as f64, style),
        ));
    }
    if device.overtaken_requests > 0 {
        notes.push(format!(
            "{name}: no end was recorded of {} that later ones overtook: their time is not counted",
            plural(device.overtaken_requests, "request"),
        ));
    }
    let failed: u64 = device.errors.iter().map(|count| count.requests).sum();
    if failed > 0 {
        let errors: Vec<String> = device.errors.iter().map(error).collect();
        notes.push(format!("{name}: {} failed: {}", plural(failed, "request"), errors.join(", ")));
    }
    notes
}

/// Requests that may be counted on two devices.
fn unlinked(device: &DeviceSummary, style: &Style) -> Vec<String> {
    let name = escape(&device.device, style);
    let one = |unlinked: &ReasonCount| {
        let requests = plural(unlinked.requests, "request");
        let reason = escape(&unlinked.reason, style);
        format!("{name}: {requests} may also be counted on the device above ({reason})")
    };
    device.unlinked.iter().map(one).collect()
}

fn error(count: &ErrorCount) -> String {
    let name = ERRORS.iter().find(|(number, _)| *number == count.error).map(|(_, name)| *name);
    let name = name.map_or_else(|| format!("error {}", count.error), str::to_owned);
    format!("{name} {}", human::count(count.requests))
}

/// Maximum number of changed settings that are listed.
const MOST_CHANGES: usize = 4;
/// Maximum distance of two polls for which their midpoint is shown, nanoseconds.
const NEAR_NS: u64 = 2_000_000_000;

fn changed_settings(summary: &Summary, style: &Style) -> Vec<String> {
    let changed = &summary.changed_settings;
    let shown = changed.iter().take(MOST_CHANGES).map(|change| changed_setting(change, style));
    let more = changed.len().saturating_sub(MOST_CHANGES) as u64;
    let more = (more > 0).then(|| format!("{} more of settings", plural(more, "change")));
    shown.chain(more).collect()
}

fn changed_setting(change: &ChangedSetting, style: &Style) -> String {
    let time = |nanoseconds: u64| human::time(nanoseconds as f64, style);
    let when = match change.between_ns {
        None => "during the watch".to_owned(),
        Some((since, by)) if by.saturating_sub(since) <= NEAR_NS => {
            format!("about {} into the watch", time(since.midpoint(by)))
        }
        Some((since, by)) => format!("between {} and {} into the watch", time(since), time(by)),
    };
    format!(
        "{} {} changed {when}: {} {} {}",
        escape(change.device.as_deref().unwrap_or("setting"), style),
        escape(&change.setting, style),
        escape(&change.before, style),
        style.either("→", "->"),
        escape(&change.after, style),
    )
}

/// Data that the source does not have, so that its absence is not read as zero.
fn missing(summary: &Summary) -> Option<String> {
    if summary.watch.requests == 0 {
        return None;
    }
    let intervals = summary.devices.iter().flat_map(|device| &device.directions.0);
    let queueing = intervals.clone().any(|interval| interval.intervals[Interval::Q2c].is_some());
    let completed =
        intervals.clone().any(|interval| interval.requests > interval.begun_before_requests);
    let missing = [
        ("queueing (time is from the issue)", completed && !queueing),
        ("processes", summary.processes.is_absent()),
        ("containers", summary.containers.is_absent()),
        ("files", summary.files.is_absent()),
        ("origins", usage::are_origins_unknown(summary)),
        ("code paths", summary.code_paths.sampled_requests == 0),
    ];
    let names: Vec<&str> = missing.iter().filter(|part| part.1).map(|part| part.0).collect();
    (!names.is_empty()).then(|| format!("not in the data: {}", names.join(", ")))
}

/// Whether the source has counters and messages, and cannot have requests.
fn is_only_counted(summary: &Summary) -> bool {
    summary.environment.is_imported() && summary.environment.tables == ["samples"]
}

/// Devices or requests without records.
fn unrecorded(summary: &Summary, style: &Style) -> Vec<String> {
    let is_counted = |device: &&DeviceSummary| device.is_kernel_counted && device.kernel.is_some();
    let counted = summary.devices.iter().filter(is_counted);
    let names: Vec<_> = counted.map(|device| escape(&device.device, style)).collect();
    match (summary.watch.requests, names.is_empty()) {
        (0, true) if summary.watch.left_out_requests > 0 => {
            let all = plural(summary.watch.left_out_requests, "request");
            vec![format!("the filter leaves out all of {all}")]
        }
        (0, true) if is_only_counted(summary) => Vec::new(),
        (0, true) => vec!["no requests".to_owned()],
        (0, false) => vec!["the figures are the kernel's counters".to_owned()],
        (_, true) => Vec::new(),
        (_, false) => vec![format!(
            "no record of any request of {}: these figures are the kernel's counters",
            names.join(" ")
        )],
    }
}

fn censored(summary: &Summary) -> Option<String> {
    let (open, begun) = (summary.watch.open_requests, summary.watch.begun_before_requests);
    if open + begun == 0 {
        return None;
    }
    Some(format!(
        "in flight when the watch ended: {}; when it began: {}; neither is in percentiles and \
         averages",
        human::count(open),
        human::count(begun),
    ))
}
