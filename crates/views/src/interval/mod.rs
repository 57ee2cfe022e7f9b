//! Views that behave like the tools that they replace: a screen for each interval of a watch or of
//! a recording. An [`IntervalView`] defines what a view shows, and from which figures.
//!
//! What does not belong here: when a screen is due, printing it (the binary), and the diagnosis
//! (crate `iowhy-analysis`).

pub mod cache;
pub mod files;
pub mod latency;
pub mod proc;
pub mod snoop;
pub mod stacks;
pub mod stat;
pub mod waits;

use crate::escape::escape;
use crate::human::plural;
use crate::json;
use crate::style::{Paint, Style};
use crate::text::Screen;
use crate::text::header::line_of;
use iowhy_analysis::intervals::EndedInterval;
use iowhy_model::Environment;
use iowhy_model::clock::WallClock;
use serde_json::Value;

pub use cache::CACHE;
pub use files::FILES;
pub use latency::LATENCY;
pub use proc::PROC;
pub use stacks::STACKS;
pub use stat::STAT;
pub use waits::BLOCKED;

/// A view of intervals whose figures are `F`.
#[derive(Debug)]
pub struct IntervalView<F: 'static> {
    /// The command that shows it: `stat`.
    pub name: &'static str,
    /// Draws the figures of one interval.
    pub draw: fn(&F, &mut Screen<'_>),
    /// Returns the figures of one interval as JSON.
    pub json: fn(&F) -> Value,
}

/// The screen of one interval. The first one also names the source, and explains headings that may
/// mislead.
pub fn render<F>(view: &IntervalView<F>, interval: &EndedInterval<F>, style: &Style) -> String {
    let mut screen = Screen::new(style);
    if interval.number == 0 {
        line_of(facts(view.name, &interval.environment, style), &mut screen);
    }
    screen.gap();
    screen.line(&style.paint(&span(interval), Paint::Faint));
    (view.draw)(&interval.figures, &mut screen);
    if interval.number == 0 {
        screen.legend();
    }
    screen.gap();
    screen.text
}

/// One interval as one line of JSON: names are exact, times in nanoseconds.
pub fn line<F>(view: &IntervalView<F>, interval: &EndedInterval<F>) -> String {
    let environment = &interval.environment;
    let lost = environment.losses.requests();
    let line = serde_json::json!({
        "format": json::FORMAT,
        "view": view.name,
        "interval": interval.number,
        "start_ns": environment.start_ns,
        "end_ns": environment.end_ns,
        "realtime_offset_ns": environment.realtime_offset_ns,
        "lost_requests": lost,
        "figures": (view.json)(&interval.figures),
    });
    json::escaped(format!("{line}\n"))
}

/// `iowhy stat`, the host, its kernel.
fn facts(name: &str, environment: &Environment, style: &Style) -> Vec<(String, Paint)> {
    let mut facts = vec![(format!("iowhy {name}"), Paint::Heading)];
    if !environment.host.is_empty() {
        facts.push((escape(&environment.host, style).into_owned(), Paint::Plain));
    }
    if !environment.kernel.is_empty() {
        facts.push((format!("Linux {}", escape(&environment.kernel, style)), Paint::Plain));
    }
    if environment.is_imported() {
        facts.push((format!("from {}", escape(&environment.source, style)), Paint::Plain));
    }
    if environment.cpus > 0 {
        facts.push((plural(u64::from(environment.cpus), "CPU"), Paint::Plain));
    }
    if !environment.filter.is_empty() {
        facts.push((format!("only {}", escape(&environment.filter, style)), Paint::Plain));
    }
    facts
}

/// `17:32:05 +01:00, 1.00 s, 3 lost so far`.
fn span<F>(interval: &EndedInterval<F>) -> String {
    let environment = &interval.environment;
    let seconds = environment.duration_ns() as f64 / 1e9;
    let mut text = format!("{}, {seconds:.2} s", time_of_day(environment));
    let lost = environment.losses.requests();
    if lost > 0 {
        text.push_str(&format!(", {} lost so far", plural(lost, "request")));
    }
    text
}

/// The time of day when the interval ended, and its offset from UTC; if only the capture's own
/// clock is known, its seconds.
fn time_of_day(environment: &Environment) -> String {
    match WallClock::from_environment(environment) {
        Some(clock) => format!("{} {}", clock.time(environment.end_ns), clock.offset()),
        None => format!("at {:.1} s", environment.end_ns as f64 / 1e9),
    }
}
