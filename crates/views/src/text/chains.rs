//! Wait chains: a section of the first screen, and the complete list with stacks.

use super::header::{header, losses};
use super::{Screen, stack_hints};
use crate::escape::escape;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Definition, Room, number};
use iowhy_analysis::Summary;
use iowhy_analysis::summary::{ChainReport, ChainRow, ChainStep};
use iowhy_model::WaitClass;

/// Maximum number of functions shown of a stack.
const MOST_FUNCTIONS: usize = 12;

/// The chains.
pub const CHAINS: Definition<ChainRow> = Definition {
    title: "CHAINS",
    sentence: "Threads that slept until another thread woke them, or still sleep for a lock that \
               it holds, while that thread waited for storage. Their time is not in WAITS, which \
               has the wait that they all waited for; * marks sleeps that are waits themselves, so \
               that WAITS has them.",
    columns: &[
        Column {
            heading: "CHAINS",
            unit: "",
            align: Align::Left,
            room: Room::Wrap,
            sentence: "the waiting threads and the thread that they waited for; digits in thread \
                names are *",
            legend: "threads that waited for a thread that waited for storage; not in WAITS but \
                     for \
                     those with a *",
            value: |row, style| sentence(row, style).into(),
        },
        number(
            "time",
            "time",
            0,
            "total sleep of the first threads while the last one waited for storage",
            |row, style| {
                let mark = if row.is_in_ledger { "*" } else { "" };
                format!("{}{mark}", human::time(row.time_ns as f64, style)).into()
            },
        ),
        number("sleeps", "sleeps", 2, "number of sleeps", |row, _| human::count(row.sleeps).into()),
        number("longest", "time", 1, "the longest of these times", |row, style| {
            human::time(row.longest_ns as f64, style).into()
        }),
    ],
};

/// `5 threads worker-* of db (42) waited for snapshot-writer (57), which waited for fsync,
/// /data/snap`.
fn sentence(row: &ChainRow, style: &Style) -> String {
    let mut text = row.steps.first().map(|first| waiters(first, style)).unwrap_or_default();
    for (before, step) in row.steps.iter().zip(row.steps.iter().skip(1)) {
        let which = if before.known_by.is_none() { " waited for " } else { ", which waited for " };
        text.push_str(which);
        text.push_str(&lock_of(before, style));
        text.push_str(&waited_for(before, step, style));
    }
    text.push_str(", which waited for ");
    text + &end(row, style)
}

/// `41 threads worker-* of db (42)`, `16 processes postgres`.
fn waiters(step: &ChainStep, style: &Style) -> String {
    if step.processes > 1 {
        return format!("{} {}", plural(step.processes, "process"), escape(&step.process, style));
    }
    let count = match (step.threads, step.tid) {
        (1, _) => String::new(),
        (threads, _) => format!("{} ", plural(threads, "thread")),
    };
    format!("{count}{}", of_process(step, style))
}

fn of_process(step: &ChainStep, style: &Style) -> String {
    let (thread, process) = (escape(&step.thread, style), escape(&step.process, style));
    match step.thread == step.process || step.thread.is_empty() {
        true => format!("{process} ({})", step.pid),
        false => format!("{thread} of {process} ({})", step.pid),
    }
}

/// `the lock of /run/jobs, held by `; empty if it is not the lock of a known file.
fn lock_of(step: &ChainStep, style: &Style) -> String {
    let lock = step.lock.as_deref().map(|lock| escape(lock, style));
    lock.map(|lock| format!("the lock of {lock}, held by ")).unwrap_or_default()
}

/// `likely relay (58)`; with the process only if it is another one.
fn waited_for(before: &ChainStep, step: &ChainStep, style: &Style) -> String {
    let likely = if step.known_by == Some("likely") { "likely " } else { "" };
    let who = match (before.pid == step.pid, step.tid) {
        (true, Some(tid)) => format!("{} ({tid})", escape(&step.thread, style)),
        (true, None) => {
            format!("{} {}", plural(step.threads, "thread"), escape(&step.thread, style))
        }
        (false, _) => waiters(step, style),
    };
    format!("{likely}{who}")
}

/// `fsync, /data/snap on sda`.
fn end(row: &ChainRow, style: &Style) -> String {
    let mut text = WaitClass::phrase_of(row.class).to_owned();
    if let Some((file, _)) = row.files.first() {
        text.push_str(&format!(", {}", escape(file, style)));
    }
    if let Some(device) = &row.device {
        text.push_str(&format!(" on {}", escape(device, style)));
    }
    text
}

/// The section of the first screen.
pub(super) fn section(summary: &Summary, screen: &mut Screen<'_>) {
    let Some(chains) = &summary.chains else { return };
    let rows: Vec<ChainRow> = chains.rows.iter().take(screen.style.rows).cloned().collect();
    screen.table(&CHAINS, &rows);
    let text = whole(chains, &rows, screen);
    screen.prose(&text, 2, Paint::Faint);
}

fn whole(chains: &ChainReport, shown: &[ChainRow], screen: &Screen<'_>) -> String {
    let hidden = chains.rows.len() - shown.len();
    let more = match hidden > 0 || chains.further_ns > 0 {
        true => format!("{} and all stacks", plural(hidden as u64, "more chain")),
        false => "with stacks".to_owned(),
    };
    format!(
        "{}, {} that WAITS does not have; {more}: {}",
        plural(chains.threads, "thread"),
        human::time(chains.time_ns as f64, screen.style),
        screen.command("iowhy chains"),
    )
}

/// All chains, with stacks.
pub fn chains(summary: &Summary, style: &Style) -> String {
    let mut screen = Screen::new(style);
    header(summary, &mut screen);
    losses(summary, &mut screen);
    let Some(chains) = &summary.chains else {
        screen.gap();
        screen.prose(nothing(summary), 0, Paint::Plain);
        return screen.text;
    };
    for row in &chains.rows {
        screen.gap();
        draw(row, &mut screen);
    }
    screen.gap();
    if chains.further_ns > 0 {
        let time = human::time(chains.further_ns as f64, style);
        screen.prose(&format!("{time} more in chains that are not listed"), 0, Paint::Faint);
    }
    let text = format!(
        "{} waited {} that WAITS of `iowhy report` does not have: it has the wait that they all \
         waited for",
        plural(chains.threads, "thread"),
        human::time(chains.time_ns as f64, style)
    );
    screen.prose(&text, 0, Paint::Faint);
    hints(chains, &mut screen);
    screen.text
}

fn nothing(summary: &Summary) -> &'static str {
    if summary.environment.fills("wait_chains") {
        return "No thread waited for a thread that waited for storage. Waits for sockets of other \
                machines and for goroutines inside a process do not show.";
    }
    match summary.ledger {
        Some(_) => {
            "Chains are not known: this source was made without them (--no-chains), or by a \
             version that did not collect them, or their table was deleted."
        }
        None => {
            "Chains are not known: they need waits, and the source has none, or they were deleted."
        }
    }
}

fn draw(row: &ChainRow, screen: &mut Screen<'_>) {
    let style = *screen.style;
    let in_ledger = if row.is_in_ledger { ", which WAITS has too" } else { "" };
    let censored = match row.censored_sleeps {
        0 => String::new(),
        count => format!(", {} began before the watch or outlasted it", human::count(count)),
    };
    let head = format!(
        "{}  in {}, longest {}{censored}{in_ledger}",
        human::time(row.time_ns as f64, &style),
        plural(row.sleeps, "sleep"),
        human::time(row.longest_ns as f64, &style),
    );
    screen.prose(&head, 0, Paint::Heading);
    for (place, step) in row.steps.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| row.steps.get(before));
        let text = match before {
            None => format!("{} waited", waiters(step, &style)),
            Some(before) => {
                let lock = lock_of(before, &style);
                format!("for {lock}{}{}", waited_for(before, step, &style), known(step))
            }
        };
        screen.prose(&text, 2, Paint::Plain);
        if let Some(work) = &step.work {
            let text = format!("{}: {}", work.kind.word(), escape(&work.reason, &style));
            screen.prose(&text, 6, Paint::Faint);
        }
        user_stack(step, screen);
    }
    screen.prose(&format!("which waited for {}", end(row, &style)), 2, Paint::Plain);
    if !row.kernel_stack.is_empty() {
        screen.prose(&functions(&row.kernel_stack, &style), 6, Paint::Faint);
    }
    for (file, time) in row.files.iter().skip(1) {
        let text = format!("{} of {}", human::time(*time as f64, &style), escape(file, &style));
        screen.prose(&text, 6, Paint::Faint);
    }
}

/// The evidence that the previous threads waited for this one.
fn known(step: &ChainStep) -> &'static str {
    match step.known_by {
        Some("owner") => ", which holds the lock",
        Some("likely") => ": it waited for as long",
        _ => ", which woke them",
    }
}

fn user_stack(step: &ChainStep, screen: &mut Screen<'_>) {
    if !step.user_stack.is_empty() {
        let text = functions(&step.user_stack, screen.style);
        screen.prose(&text, 6, Paint::Faint);
        if step.user_stack_unwound_by.as_deref() == Some(".eh_frame") {
            screen.prose("unwound by .eh_frame: no frame pointers", 6, Paint::Faint);
        }
    }
    if let Some(reason) = &step.user_stack_reason {
        screen.prose(&format!("user stack incomplete: {reason}"), 6, Paint::Faint);
    }
}

/// `pwrite < write_page < writer`.
fn functions(stack: &[String], style: &Style) -> String {
    let telling = stack.iter().filter(|name| !is_plumbing(name));
    let mut names: Vec<String> =
        telling.map(|name| escape(name, style).into_owned()).take(MOST_FUNCTIONS + 1).collect();
    if names.len() > MOST_FUNCTIONS {
        names.truncate(MOST_FUNCTIONS);
        names.push(style.either("…", "...").to_owned());
    }
    names.join(" < ")
}

/// Functions that every sleep goes through.
fn is_plumbing(name: &str) -> bool {
    const PLUMBING: &[&str] = &[
        "__schedule",
        "schedule",
        "io_schedule",
        "entry_SYSCALL",
        "do_syscall_64",
        "x64_sys_call",
        "__traceiter_",
        "bpf_",
        "el0",
        "invoke_syscall",
        "do_el0",
    ];
    PLUMBING.iter().any(|begin| name.starts_with(begin))
}

/// Hints for programs that compile code while they run.
fn hints(chains: &ChainReport, screen: &mut Screen<'_>) {
    let steps = chains.rows.iter().flat_map(|row| &row.steps);
    let cut = steps.filter(|step| step.user_stack_complete == Some(false));
    for hint in stack_hints::of(cut.map(|step| (step.process.as_str(), Some(step.pid)))) {
        screen.prose(&hint, 0, Paint::Faint);
    }
}
