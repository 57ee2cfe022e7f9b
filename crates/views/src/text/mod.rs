//! The first screen ([`page()`]), and all sections of it ([`render`]): what was watched, why it waits, where
//! threads waited and for whom, devices, stages, latencies and who and what the time went to.
//!
//! Every section is a function from the summary to lines; what a section shows is a
//! [`Definition`] of columns.

pub(crate) mod activity;
pub mod blame;
mod chains;
mod devices;
pub(crate) mod frames;
pub(crate) mod header;
mod latency;
mod over_time;
mod page;
mod paths;
mod stages;
mod usage;
pub(crate) mod waits;
mod why;

use crate::escape::escape;
use crate::fold;
use crate::style::{Paint, Style};
use crate::table::{Definition, Drawn, draw_together};
use iowhy_core::analysis::Summary;
use iowhy_core::command::of_source;
use iowhy_core::diagnosis::Diagnosis;

pub(crate) use crate::human::plural;
pub use activity::{ACTIVITY, FILETOP};
pub use blame::{BLAME, BlameRow, CULPRITS};
pub use chains::{CHAINS, chains};
pub use devices::DEVICES;
pub use page::{LINES, page};
pub use paths::CODE_PATHS;
pub(crate) use paths::section as code_paths;
pub(crate) use stages::stage_place;
pub use stages::{STAGES, StageRow};
pub use usage::{CONTAINERS, FILES, ORIGINS, PROCESSES, UsageRow};
pub use waits::WAITS;
pub(crate) use why::{figure, readable, share, weight};

/// Every section, in lines that end with a newline. `source` is what it shows as a command line names it;
/// nothing of a live watch.
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

/// A screen in the making.
#[derive(Debug)]
pub struct Screen<'a> {
    pub(crate) style: &'a Style,
    /// What it shows, as a command line names it; nothing of a live watch.
    source: Option<&'a str>,
    pub(crate) text: String,
    explained: Vec<(&'static str, &'static str)>,
    left_out: Vec<&'static str>,
}

impl Screen<'_> {
    pub(crate) fn new(style: &Style) -> Screen<'_> {
        let (explained, left_out) = (Vec::new(), Vec::new());
        Screen { style, source: None, text: String::new(), explained, left_out }
    }

    /// A command that shows more, as it stands in a sentence: of the same source as the screen.
    pub(crate) fn command(&self, command: &str) -> String {
        let asked = self.source.map(|source| of_source(command, source));
        format!("`{}`", escape(asked.as_deref().unwrap_or(command), self.style))
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// An empty line, except at the top and after another.
    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Text that begins after `indent` spaces and goes on after two more. Only a command in it may stick
    /// out.
    pub(crate) fn prose(&mut self, text: &str, indent: usize, paint: Paint) {
        let columns = self.style.columns() - indent - 2;
        for (index, line) in fold::prose(text, columns).iter().enumerate() {
            let before = " ".repeat(if index == 0 { indent } else { indent + 2 });
            let painted = self.style.paint(line, paint);
            self.line(&format!("{before}{painted}"));
        }
    }

    /// A table as a section of its own; nothing without rows.
    pub(crate) fn table<R>(&mut self, definition: &Definition<R>, rows: &[R]) {
        self.tables(&[(definition, rows)]);
    }

    /// Tables with columns in common, as sections that stand below each other; nothing for one
    /// without rows.
    pub(crate) fn tables<R>(&mut self, tables: &[(&Definition<R>, &[R])]) {
        for drawn in draw_together(tables, self.style) {
            self.remember(&drawn);
            self.gap();
            drawn.lines().for_each(|line| self.line(&line));
        }
    }

    /// A table right below what stands there; nothing without rows.
    pub(crate) fn rows<R>(&mut self, definition: &Definition<R>, rows: &[R]) {
        for drawn in draw_together(&[(definition, rows)], self.style) {
            self.remember(&drawn);
            drawn.lines().for_each(|line| self.line(&line));
        }
    }

    /// Keeps what the legend has to say about a table.
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

    /// What the figures are, as far as their headings may mislead; and what a wider screen shows.
    pub(crate) fn legend(&mut self) {
        self.gap();
        let mut explained = std::mem::take(&mut self.explained);
        let anything = !explained.is_empty();
        while let Some((heading, sentence)) = explained.first().copied() {
            let same = explained.iter().filter(|it| it.1 == sentence && it.0 != heading);
            let headings = same.fold(heading.to_owned(), |all, it| format!("{all} {}", it.0));
            explained.retain(|it| it.1 != sentence);
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
