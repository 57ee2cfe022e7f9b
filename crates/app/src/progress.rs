//! How far long work is, on a terminal's standard error, once it has taken half a second.
//!
//! What does not belong here: live watches, which show their own ([`crate::watching`]).

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use iowhy_core::figures::grouped;
use iowhy_core::source::Batch;
use std::time::{Duration, Instant};

/// Work that is done sooner shows nothing.
const QUIET: Duration = Duration::from_millis(500);
/// How often it is drawn.
const DRAWN: Duration = Duration::from_millis(100);

/// Reading a source.
pub struct ReadProgress {
    begun: Instant,
    drawn: Instant,
    rows: u64,
    /// Bytes to read; 0 where that is not known.
    total: u64,
    bar: Option<ProgressBar>,
    is_hidden: bool,
}

impl ReadProgress {
    /// Reading begins, of `total` bytes; 0 where that is not known.
    pub fn of(total: u64) -> ReadProgress {
        let now = Instant::now();
        ReadProgress { begun: now, drawn: now, rows: 0, total, bar: None, is_hidden: false }
    }

    /// Shows nothing: rows are printed meanwhile.
    pub fn hide(&mut self) {
        self.is_hidden = true;
    }

    /// Notes what has been read: the rows of `batch`, and `bytes` in all.
    pub fn note(&mut self, batch: &Batch, bytes: u64) {
        if self.is_hidden {
            return;
        }
        self.rows += (batch.requests.len() + batch.events.len()) as u64;
        if self.drawn.elapsed() < DRAWN || self.begun.elapsed() < QUIET {
            return;
        }
        self.drawn = Instant::now();
        let rate = self.rows as f64 / self.begun.elapsed().as_secs_f64();
        let total = self.total;
        let bar = self.bar.get_or_insert_with(|| bar(total));
        bar.set_position(bytes);
        bar.set_message(format!("{} requests, {}/s", grouped(self.rows), grouped(rate as u64)));
    }
}

fn bar(total: u64) -> ProgressBar {
    let (bar, template) = match total {
        0 => (ProgressBar::new_spinner(), "reading {spinner} {msg}, {elapsed}"),
        total => (ProgressBar::new(total), "reading {bar:30} {percent} %  {msg}, {eta} left"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_finish(ProgressFinish::AndClear)
}

/// Work whose length is not known: shown until it is dropped.
pub struct Waiting(ProgressBar);

impl Waiting {
    /// Begins; `what` is what is done: "reading the file system of sdb".
    pub fn for_work(what: &str) -> Waiting {
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{msg} {spinner} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        // The first tick, which draws it, comes after that time.
        bar.enable_steady_tick(QUIET);
        Waiting(bar)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
