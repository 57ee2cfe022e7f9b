//! The layout of the screen, whatever its size.
//!
//! ```text
//! iowhy top · db7 · 17:32:05 · 1,391 requests/s · 0 lost         the watch
//! WHY 1 Metadata reads by java (30603) keep xvdj 88 % busy       the findings of the last seconds
//! [1 devices] 2 processes 3 files 4 waits 5 stages               the tables, or what was opened
//!   DEVICES  r/s  w/s ...                                        the table
//! > xvdj     391  0.2 ...
//! ? keys  Enter open  / filter  < > order: time                  keys, or a message
//! ```

use super::TopModel;
use super::keys::KEYS;
use super::state::{TopPage, TopState, TopTable};
use super::tables::{ShownTable, functions, name, table};
use crate::escape::{cut, escape, width};
use crate::fold::prose;
use crate::human::{self, plural};
use crate::style::{Paint, Style};
use crate::text::{Screen, findings, headline};
use iowhy_analysis::Direction;
use iowhy_analysis::summary::BreakdownSubject;
use iowhy_diagnosis::moments::{JudgedWindow, Moment, MomentSpan};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as TerminalStyle};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Columns before a row: the mark of the selected one.
const MARK: usize = 2;
/// Lines of a screen from which the devices have one above the processes.
const LEAST_HEIGHT: u16 = 12;
/// Rows that the table keeps, however much there is to say above it.
const LEAST_ROWS: u16 = 4;

/// Draws the screen.
pub fn draw(model: &TopModel, state: &TopState, frame: &mut Frame) {
    let area = frame.area();
    let style = Style { width: usize::from(area.width), ..model.style };
    let shown = state.moment(model);
    let Parts { head, reasons, disk, tabs, body, foot, why, disks } =
        Parts::new(model, state, area);
    frame.render_widget(Paragraph::new(header(model, state, shown, &style)), head);
    frame.render_widget(Paragraph::new(why), reasons);
    disks.into_iter().for_each(|line| frame.render_widget(Paragraph::new(line), disk));
    frame.render_widget(Paragraph::new(crumbs(state, &style)), tabs);
    let orders = match (&state.page, shown) {
        (Some(page), _) => {
            page_in(page, shown.map(|(_, moment)| moment.as_ref()), state, body, &style, frame);
            Vec::new()
        }
        (None, Some((_, moment))) => {
            let shown = table(state, moment, &style);
            table_in(shown.as_ref(), moment, state, body, &style, frame);
            shown.orders()
        }
        (None, None) => {
            frame.render_widget(Paragraph::new("waiting for the first second"), body);
            Vec::new()
        }
    };
    frame.render_widget(Paragraph::new(footer(model, state, &orders, &style)), foot);
}

/// The parts of a screen, from top to bottom, and the lines that their heights depend on.
pub(super) struct Parts {
    head: Rect,
    /// Of the findings.
    pub reasons: Rect,
    disk: Rect,
    /// Of the tables' names, or the way to what was opened.
    pub tabs: Rect,
    /// Of the table or the page.
    pub body: Rect,
    foot: Rect,
    why: Vec<Line<'static>>,
    disks: Option<Line<'static>>,
}

impl Parts {
    pub fn new(model: &TopModel, state: &TopState, area: Rect) -> Parts {
        let style = Style { width: usize::from(area.width), ..model.style };
        let moment = state.moment(model).map(|(_, moment)| moment.as_ref());
        let why = why(moment, area, &style);
        let room = area.height.saturating_sub(3 + LEAST_ROWS).max(1);
        let disks = moment
            .filter(|_| area.height >= LEAST_HEIGHT)
            .and_then(|moment| device_line(moment, state, &style));
        let [head, reasons, disk, tabs, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length((why.len() as u16).min(room)),
            Constraint::Length(u16::from(disks.is_some())),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        Parts { head, reasons, disk, tabs, body, foot, why, disks }
    }
}

/// The part of a table that its area has room for.
pub(super) struct VisibleRows {
    /// The first row, so that the selected one is visible.
    pub first: usize,
    /// The selected one.
    pub selected: usize,
    /// The headings, then a line for each row, without the mark.
    lines: Vec<String>,
}

impl VisibleRows {
    pub fn new(shown: &dyn ShownTable, state: &TopState, area: Rect, style: &Style) -> VisibleRows {
        let height = usize::from(area.height.saturating_sub(1)).max(1);
        let selected = state.selected(shown);
        let first = selected.saturating_sub(height - 1).min(shown.len().saturating_sub(height));
        let last = (first + height).min(shown.len());
        let width = usize::from(area.width).saturating_sub(MARK);
        // Widgets have their own colours.
        let narrow = Style { width, colour: false, ..*style };
        VisibleRows { first, selected, lines: shown.lines(first..last, &narrow) }
    }

    /// The place of the order whose column's heading is at a column of the area.
    pub fn order_at(&self, shown: &dyn ShownTable, column: u16) -> Option<usize> {
        let (column, heading) = (usize::from(column).checked_sub(MARK)?, self.lines.first()?);
        shown.orders().iter().position(|word| {
            place_of(word, heading).is_some_and(|(from, to)| {
                (width(&heading[..from])..width(&heading[..to])).contains(&column)
            })
        })
    }
}

fn terminal_style(paint: Paint, style: &Style) -> TerminalStyle {
    let plain = TerminalStyle::new();
    match paint {
        Paint::Plain => plain,
        Paint::Heading => plain.add_modifier(Modifier::BOLD),
        Paint::Faint => plain.add_modifier(Modifier::DIM),
        Paint::Alert if style.colour => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
        Paint::Alert => plain.add_modifier(Modifier::BOLD),
    }
}

fn line(text: impl Into<String>, paint: Paint, style: &Style) -> Line<'static> {
    Line::styled(text.into(), terminal_style(paint, style))
}

/// Draws the watch and the time that is shown; facts that do not fit are left out, the last first.
fn header(
    model: &TopModel,
    state: &TopState,
    shown: Option<(usize, &std::sync::Arc<Moment>)>,
    style: &Style,
) -> Line<'static> {
    let mut facts = vec![("iowhy top".to_owned(), Paint::Heading)];
    if let Some((newer, moment)) = shown {
        facts.extend(position(model, state, newer, moment, style));
        let seconds = (moment.duration_ns() as f64 / 1e9).max(1e-9);
        let rate = human::rate(moment.requests as f64 / seconds);
        facts.push((format!("{rate} requests/s"), Paint::Plain));
        let lost = moment.lost_requests;
        let paint = if lost > 0 { Paint::Alert } else { Paint::Plain };
        facts.push((format!("{} lost", human::count(lost)), paint));
        if let Some(share) = moment.cost_share {
            facts.push((format!("cost {} % of all CPUs", human::percent(share)), Paint::Plain));
        }
    }
    if !model.environment.host.is_empty() {
        facts.push((escape(&model.environment.host, style).into_owned(), Paint::Plain));
    }
    if !model.environment.filter.is_empty() {
        facts.push((format!("only {}", escape(&model.environment.filter, style)), Paint::Plain));
    }
    let separator = style.either(" · ", " | ");
    let mut spans: Vec<Span> = Vec::new();
    let mut used = 0;
    for (text, paint) in facts {
        let needed = width(&text) + if spans.is_empty() { 0 } else { width(separator) };
        if used + needed > style.width {
            break;
        }
        if !spans.is_empty() {
            spans.push(Span::raw(separator));
        }
        used += needed;
        spans.push(Span::styled(text, terminal_style(paint, style)));
    }
    Line::from(spans)
}

/// Returns the time that is shown, and whether it is now.
fn position(
    model: &TopModel,
    state: &TopState,
    newer: usize,
    moment: &Moment,
    style: &Style,
) -> Vec<(String, Paint)> {
    let time = match &model.clock {
        Some(clock) => clock.time(moment.end_ns),
        None => format!("{:.0} s", moment.end_ns as f64 / 1e9),
    };
    let mut facts = Vec::new();
    if let Some(source) = &model.source {
        facts.push((cut(&escape(source, style), style.width / 3, style), Paint::Plain));
    }
    match (state.is_paused(), model.is_live()) {
        (false, true) if newer > 0 => {
            facts.push((format!("{time}, last seen {newer} s ago"), Paint::Alert));
        }
        (false, true) => {
            let seconds = human::time(moment.duration_ns() as f64, style);
            match state.span() {
                MomentSpan::One => facts.push((time, Paint::Plain)),
                MomentSpan::All => facts.push((format!("{time}, all {seconds}"), Paint::Plain)),
                _ => facts.push((format!("{time}, sum of {seconds}"), Paint::Plain)),
            }
        }
        (false, false) => {
            let all = human::time(moment.duration_ns() as f64, style);
            facts.push((format!("all {all}"), Paint::Plain));
        }
        (true, true) => facts.push((format!("{time} paused, {newer} s back"), Paint::Alert)),
        (true, false) => {
            let (place, of) = (model.history.len() - newer, model.history.len());
            facts.push((format!("{time} ({place} of {of})"), Paint::Alert));
        }
    }
    if let Some(ended) = &model.ended {
        facts.push((ended.clone(), Paint::Alert));
    }
    facts
}

/// The findings of the last seconds, as many lines as the screen has room for.
fn why(moment: Option<&Moment>, area: Rect, style: &Style) -> Vec<Line<'static>> {
    let most = usize::from(area.height / 6).clamp(1, 6);
    let Some(window) = moment.and_then(|moment| moment.judged.as_ref()) else {
        let soon = "WHY  judged after the first 3 seconds";
        return vec![line(cut(soon, style.width, style), Paint::Faint, style)];
    };
    let all = headline(&window.diagnosis, style);
    let columns = style.width.saturating_sub(LEAD);
    // The first in two lines where there is room, each other one in a line.
    let first_lines = if most > 2 { most - (all.len() - 1).min(most - 2) } else { 1 };
    let mut lines = Vec::new();
    for (index, (text, paint)) in all.iter().enumerate() {
        let own = if index == 0 { first_lines } else { 1 };
        let label = if index == 0 { "WHY" } else { "" };
        let mut folded = prose(text, columns.max(1));
        let is_cut = folded.len() > own;
        folded.truncate(own);
        if let Some(last) = folded.last_mut().filter(|_| is_cut) {
            *last = cut(&format!("{last} {}", style.either("…", "...")), columns, style);
        }
        for (row, text) in folded.into_iter().enumerate() {
            let label = if row == 0 { label } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("{label:LEAD$}"), terminal_style(Paint::Heading, style)),
                Span::styled(cut(&text, columns, style), terminal_style(*paint, style)),
            ]));
        }
    }
    let hidden = lines.len().saturating_sub(most);
    lines.truncate(most);
    if hidden > 0
        && let Some(last) = lines.last_mut()
    {
        let more = format!(" (0: {} more)", hidden);
        let text: String = last.spans.iter().skip(1).map(|span| span.content.as_ref()).collect();
        let room = columns.saturating_sub(width(&more));
        let terminal_style = last.spans.last().map(|span| span.style).unwrap_or_default();
        let lead = last.spans.first().cloned().unwrap_or_default();
        *last =
            Line::from(vec![lead, Span::styled(cut(&text, room, style) + &more, terminal_style)]);
    }
    lines
}

/// Columns of the label WHY.
const LEAD: usize = 5;

/// Draws the tables, or the way to the opened line; and the filter.
fn crumbs(state: &TopState, style: &Style) -> Line<'static> {
    let mut text = steps(state, style).concat();
    if state.is_filtering || !state.filter.is_empty() {
        let cursor = if state.is_filtering { "_" } else { "" };
        text.push_str(&format!("  /{}{cursor}", escape(&state.filter, style)));
    }
    line(text, Paint::Heading, style)
}

/// Returns the pieces of the line of tables: each table's, or each step's to the opened line.
fn steps(state: &TopState, style: &Style) -> Vec<String> {
    if state.opened.is_empty() {
        return tabs(state, style);
    }
    let names = state.opened.iter().map(|subject| name(subject, style).0);
    let table = TopTable::ALL.iter().find(|(table, _)| *table == state.table);
    let mut steps: Vec<String> = table.map(|(_, name)| (*name).to_owned()).into_iter().collect();
    steps.extend(names);
    let most = style.width.saturating_sub(3 * steps.len()) / steps.len().max(1);
    let last = steps.len() - 1;
    let step = |(place, step): (usize, &String)| {
        let more = if place == last { " >" } else { " > " };
        cut(step, most.max(8), style) + more
    };
    steps.iter().enumerate().map(step).collect()
}

/// The place of the table, or of the step, whose name is at a column of that line.
pub(super) fn step_at(state: &TopState, column: u16, style: &Style, columns: u16) -> Option<usize> {
    let style = Style { width: usize::from(columns), ..*style };
    let mut end = 0;
    steps(state, &style).iter().position(|step| {
        end += width(step);
        usize::from(column) < end
    })
}

fn tabs(state: &TopState, style: &Style) -> Vec<String> {
    let full = style.width >= 66;
    let tab = |(index, (table, name)): (usize, &(TopTable, &'static str))| {
        let name = if full { name } else { name.get(..4).unwrap_or(name) };
        match *table == state.table {
            true => format!("[{} {name}]", index + 1),
            false => format!(" {} {name} ", index + 1),
        }
    };
    TopTable::ALL.iter().enumerate().map(tab).collect()
}

fn table_in(
    shown: &dyn ShownTable,
    moment: &Moment,
    state: &TopState,
    area: Rect,
    style: &Style,
    frame: &mut Frame,
) {
    if shown.len() == 0 {
        let text = nothing(state, moment);
        let lines = prose(&text, style.width.max(1));
        let lines: Vec<Line> =
            lines.into_iter().map(|text| line(text, Paint::Faint, style)).collect();
        return frame.render_widget(Paragraph::new(lines), area);
    }
    let visible = VisibleRows::new(shown, state, area, style);
    let mut lines = Vec::new();
    for (index, text) in visible.lines.into_iter().enumerate() {
        let is_selected = index == visible.selected - visible.first + 1;
        let mark = if is_selected { "> " } else { "  " };
        if index == 0 {
            let order = shown.orders().get(state.order()).copied();
            lines.push(heading(&format!("{mark}{text}"), order, style));
            continue;
        }
        let paint = Paint::Plain;
        let mut terminal_style = terminal_style(paint, style);
        if is_selected {
            terminal_style = terminal_style.add_modifier(Modifier::REVERSED);
        }
        lines.push(Line::styled(format!("{mark}{text}"), terminal_style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The headings of a table; the one that it is ordered by is marked.
fn heading(text: &str, order: Option<&str>, style: &Style) -> Line<'static> {
    let plain = terminal_style(Paint::Heading, style);
    let found = order.and_then(|word| place_of(word, text));
    let Some((from, to)) = found else { return Line::styled(text.to_owned(), plain) };
    Line::from(vec![
        Span::styled(text[..from].to_owned(), plain),
        Span::styled(text[from..to].to_owned(), plain.add_modifier(Modifier::REVERSED)),
        Span::styled(text[to..].to_owned(), plain),
    ])
}

/// The bytes of a heading in a line of headings.
fn place_of(word: &str, text: &str) -> Option<(usize, usize)> {
    let is_edge = |neighbour: Option<char>| neighbour.is_none_or(|character| character == ' ');
    let mut places = text.match_indices(word).map(|(at, _)| (at, at + word.len()));
    places.find(|(from, to)| {
        is_edge(text[..*from].chars().next_back()) && is_edge(text[*to..].chars().next())
    })
}

/// The devices in one line, above the processes that use them.
fn device_line(moment: &Moment, state: &TopState, style: &Style) -> Option<Line<'static>> {
    if state.table != TopTable::Processes || !state.opened.is_empty() || state.page.is_some() {
        return None;
    }
    let one = |device: &iowhy_analysis::summary::DeviceSummary| {
        let rate = |direction| human::rate(device.directions[direction].requests_per_s);
        let (reads, writes) = (rate(Direction::Read), rate(Direction::Write));
        let util = device.util_share.map_or_else(|| "?".to_owned(), human::percent);
        format!("{} {reads} r/s {writes} w/s {util} %util", escape(&device.device, style))
    };
    let separator = style.either(" · ", " | ");
    let mut text = moment.devices.iter().take(4).map(one).collect::<Vec<_>>().join(separator);
    if text.is_empty() {
        text = "no device had requests".to_owned();
    }
    Some(line(cut(&format!("DISK {text}"), style.width, style), Paint::Plain, style))
}

/// Returns the reason why a table has no row.
fn nothing(state: &TopState, moment: &Moment) -> String {
    if !state.filter.is_empty() {
        return format!("nothing here has {:?} in its name: Esc shows all", state.filter);
    }
    match (state.opened.is_empty(), state.table) {
        (false, _) => "nothing of it in this time; a adds up more".to_owned(),
        (_, TopTable::Devices | TopTable::Stages) => {
            format!("no device had requests; {}", plural(moment.idle_devices, "idle device"))
        }
        (_, TopTable::Processes) => "no process did I/O".to_owned(),
        (_, TopTable::Units) => "no unit's processes did I/O".to_owned(),
        (_, TopTable::Files) => "no device did anything for a file".to_owned(),
        (_, TopTable::Waits) => "no thread waited for storage".to_owned(),
    }
}

fn page_in(
    page: &TopPage,
    moment: Option<&Moment>,
    state: &TopState,
    area: Rect,
    style: &Style,
    frame: &mut Frame,
) {
    let lines = match page {
        TopPage::Keys => keys(style),
        TopPage::Findings => {
            findings_page(moment.and_then(|moment| moment.judged.as_deref()), style)
        }
        TopPage::CodePath(subject) => match subject.as_ref() {
            BreakdownSubject::CodePath(path) => functions(path, style)
                .into_iter()
                .map(|function| line(function, Paint::Plain, style))
                .collect(),
            other => vec![line(name(other, style).0, Paint::Plain, style)],
        },
    };
    // The last line stays in sight.
    let most = (lines.len() as u16).saturating_sub(1);
    frame.render_widget(Paragraph::new(lines).scroll((state.scroll.min(most), 0)), area);
}

fn keys(style: &Style) -> Vec<Line<'static>> {
    const KEYS_WIDTH: usize = 11;
    let mut lines = Vec::new();
    for key in KEYS {
        let does = prose(key.does, style.width.saturating_sub(KEYS_WIDTH).max(20));
        for (row, text) in does.into_iter().enumerate() {
            let keys = if row == 0 { key.keys } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("{keys:KEYS_WIDTH$}"), terminal_style(Paint::Heading, style)),
                Span::raw(text),
            ]));
        }
    }
    lines
}

fn findings_page(window: Option<&JudgedWindow>, style: &Style) -> Vec<Line<'static>> {
    let Some(window) = window else {
        return vec![line("nothing was judged yet", Paint::Plain, style)];
    };
    let plain = Style { colour: false, ..*style };
    let mut screen = Screen::new(&plain);
    findings(&window.diagnosis, &mut screen);
    screen.text.lines().map(|text| line(text, Paint::Plain, style)).collect()
}

/// Returns the word for the span that `a` has chosen.
fn span_word(span: MomentSpan) -> &'static str {
    match span {
        MomentSpan::One => "1 s",
        MomentSpan::Ten => "10 s",
        MomentSpan::Minute => "1 min",
        MomentSpan::All => "all",
    }
}

/// Draws the keys that matter now, or a message.
fn footer(
    model: &TopModel,
    state: &TopState,
    orders: &[&'static str],
    style: &Style,
) -> Line<'static> {
    if let Some(message) = &state.message {
        return line(cut(&escape(message, style), style.width, style), Paint::Alert, style);
    }
    let mut parts = vec!["? keys".to_owned(), "q quit".to_owned()];
    if state.page.is_some() {
        parts.push("Esc back".to_owned());
    } else if state.is_filtering {
        parts = vec!["Enter keep the filter".to_owned(), "Esc remove it".to_owned()];
    } else {
        parts.push("Enter open".to_owned());
        if !state.opened.is_empty() {
            parts.push("Esc back".to_owned());
        }
        let now = orders.get(state.order().min(orders.len().saturating_sub(1)));
        let reversed = if state.is_reversed() { " reversed" } else { "" };
        parts.extend(now.map(|order| format!("< > order: {order}{reversed}")));
        parts.push("/ filter".to_owned());
        parts.extend(model.is_live().then(|| format!("a {}", span_word(state.span()))));
        parts.push("[ ] time".to_owned());
        parts.push(match (state.is_paused(), model.is_live()) {
            (false, true) => "Space pause".to_owned(),
            (true, true) => "Space now".to_owned(),
            (_, false) => "Space all".to_owned(),
        });
        parts.extend(model.is_live().then(|| "s save".to_owned()));
        parts.push("0 findings".to_owned());
    }
    let mut text = String::new();
    for part in parts {
        let needed = width(&part) + if text.is_empty() { 0 } else { 2 };
        if width(&text) + needed > style.width {
            break;
        }
        text.push_str(if text.is_empty() { "" } else { "  " });
        text.push_str(&part);
    }
    line(text, Paint::Faint, style)
}
