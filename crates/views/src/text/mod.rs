//! The first screen ([`page()`]), and all sections ([`render`]): what was watched, findings, waits
//! and wait chains, devices, stages, latencies, processes, files and code paths.
//!
//! Every section is a function from the summary to lines; a [`Definition`] lists its columns.

pub(crate) mod activity;
pub mod blame;
mod chains;
mod devices;
pub(crate) mod frames;
pub(crate) mod header;
mod latency;
pub(crate) mod over_time;
mod page;
mod paths;
mod stack_hints;
mod stages;
mod usage;
pub(crate) mod waits;
pub(crate) mod why;

use crate::escape::escape;
use crate::fold;
use crate::style::{Paint, Style};
use crate::table::{CellTable, Definition, Drawn, draw_together};
use iowhy_analysis::Summary;
use iowhy_diagnosis::Diagnosis;
use iowhy_model::command::of_source;

pub(crate) use crate::human::plural;
pub use activity::{ACTIVITY, FILETOP};
pub use blame::{BLAME, BlameRow, CULPRITS};
pub use chains::{CHAINS, chains};
pub use devices::DEVICES;
pub use page::{LINES, kept_page, page};
pub use paths::CODE_PATHS;
pub(crate) use paths::section as code_paths;
pub use stages::{STAGES, StageRow};
pub(crate) use stages::{stage_place, stage_rows};
pub(crate) use usage::process_name;
pub use usage::{CONTAINERS, FILES, ORIGINS, PROCESSES, UsageRow};
pub use waits::WAITS;
pub(crate) use why::{all as findings, figure, headline, readable, share, weight};

/// Every section, in lines that end with a newline. `source` is what it shows as a command line
/// names it; nothing of a live watch.
pub fn render(
    summary: &Summary,
    diagnosis: &Diagnosis,
    source: Option<&str>,
    style: &Style,
) -> String {
    let mut screen = Screen { source, ..Screen::new(style) };
    header::header(summary, &mut screen);
    header::notes(summary, &mut screen);
    why::section(diagnosis, summary, &mut screen);
    over_time::section(diagnosis, &mut screen);
    waits::section(summary, &mut screen);
    chains::section(summary, &mut screen);
    devices::section(summary, &mut screen);
    stages::section(summary, &mut screen);
    latency::section(summary, &mut screen);
    usage::sections(summary, &mut screen);
    activity::section(summary, &mut screen);
    paths::section(summary, &mut screen);
    screen.legend();
    screen.text
}

/// A screen that is being built.
#[derive(Debug)]
pub struct Screen<'a> {
    pub(crate) style: &'a Style,
    /// The source as a command line names it; `None` for a live watch.
    source: Option<&'a str>,
    pub(crate) text: String,
    explained: Vec<(&'static str, &'static str)>,
    left_out: Vec<&'static str>,
    /// The parts, for a page that lays them out itself.
    parts: Option<Vec<ScreenPart>>,
}

/// A part of a screen that a page lays out itself.
#[derive(Debug)]
pub(crate) enum ScreenPart {
    /// A paragraph, and its paint.
    Text(String, Paint),
    /// A table.
    Table(CellTable),
}

/// Returns the parts that `draw` puts on a screen.
pub(crate) fn parts(
    source: Option<&str>,
    style: &Style,
    draw: impl FnOnce(&mut Screen<'_>),
) -> Vec<ScreenPart> {
    let mut screen = Screen { source, parts: Some(Vec::new()), ..Screen::new(style) };
    draw(&mut screen);
    screen.parts.unwrap_or_default()
}

/// Everything that [`render`] shows in tables, in parts.
pub(crate) fn tables(summary: &Summary, screen: &mut Screen<'_>) {
    waits::section(summary, screen);
    chains::section(summary, screen);
    devices::section(summary, screen);
    stages::section(summary, screen);
    usage::sections(summary, screen);
    activity::section(summary, screen);
    paths::section(summary, screen);
}

impl Screen<'_> {
    pub(crate) fn new(style: &Style) -> Screen<'_> {
        let (explained, left_out) = (Vec::new(), Vec::new());
        Screen { style, source: None, text: String::new(), explained, left_out, parts: None }
    }

    /// A command that shows more of the same source, as part of a sentence.
    pub(crate) fn command(&self, command: &str) -> String {
        let asked = self.source.map(|source| of_source(command, source));
        format!("`{}`", escape(asked.as_deref().unwrap_or(command), self.style))
    }

    pub(crate) fn line(&mut self, line: &str) {
        if let Some(parts) = &mut self.parts {
            return parts.push(ScreenPart::Text(line.trim().to_owned(), Paint::Plain));
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// An empty line, except at the top and after another.
    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Text that is indented by `indent` spaces, continuation lines by two more. Only a command may
    /// exceed the width.
    pub(crate) fn prose(&mut self, text: &str, indent: usize, paint: Paint) {
        let text = escape(text, self.style);
        if let Some(parts) = &mut self.parts {
            return parts.push(ScreenPart::Text(text.into_owned(), paint));
        }
        let columns = self.style.columns() - indent - 2;
        for (index, line) in fold::prose(&text, columns).iter().enumerate() {
            let before = " ".repeat(if index == 0 { indent } else { indent + 2 });
            let painted = self.style.paint(line, paint);
            self.line(&format!("{before}{painted}"));
        }
    }

    /// A table as a section of its own; nothing if it has no rows.
    pub(crate) fn table<R>(&mut self, definition: &Definition<R>, rows: &[R]) {
        self.tables(&[(definition, rows)]);
    }

    /// Tables with common columns as consecutive sections; those without rows are skipped.
    pub(crate) fn tables<R>(&mut self, tables: &[(&Definition<R>, &[R])]) {
        if self.parts.is_some() {
            return tables.iter().for_each(|(definition, rows)| self.rows(definition, rows));
        }
        for drawn in draw_together(tables, self.style) {
            self.remember(&drawn);
            self.gap();
            drawn.lines().for_each(|line| self.line(&line));
        }
    }

    /// A table directly below the previous text; nothing if it has no rows.
    pub(crate) fn rows<R>(&mut self, definition: &Definition<R>, rows: &[R]) {
        if let Some(parts) = &mut self.parts {
            if !rows.is_empty() {
                parts.push(ScreenPart::Table(CellTable::new(definition, rows, self.style)));
            }
            return;
        }
        for drawn in draw_together(&[(definition, rows)], self.style) {
            self.remember(&drawn);
            drawn.lines().for_each(|line| self.line(&line));
        }
    }

    /// Keeps a table's entries for the legend.
    pub(crate) fn remember(&mut self, drawn: &Drawn) {
        for explained in &drawn.explained {
            self.explain(*explained);
        }
        for heading in &drawn.left_out {
            if !self.left_out.contains(heading) {
                self.left_out.push(heading);
            }
        }
    }

    /// Keeps a heading and its sentence for the legend.
    pub(crate) fn explain(&mut self, explained: (&'static str, &'static str)) {
        if !self.explained.contains(&explained) {
            self.explained.push(explained);
        }
    }

    /// The legend: headings that may mislead, and columns that a wider screen shows.
    pub(crate) fn legend(&mut self) {
        self.gap();
        let mut explained = std::mem::take(&mut self.explained);
        let anything = !explained.is_empty();
        while let Some((heading, sentence)) = explained.first().copied() {
            let same = explained.iter().filter(|other| other.1 == sentence && other.0 != heading);
            let headings = same.fold(heading.to_owned(), |all, other| format!("{all} {}", other.0));
            explained.retain(|explained| explained.1 != sentence);
            self.prose(&format!("{headings}: {}", self.style.own(sentence)), 0, Paint::Faint);
        }
        if anything {
            self.prose("-: there was none; ?: not in the data", 0, Paint::Faint);
        }
        if !self.left_out.is_empty() {
            let headings = self.left_out.join(", ");
            self.prose(&format!("on a wider screen: {headings}"), 0, Paint::Faint);
        }
    }
}
