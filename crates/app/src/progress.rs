//! Progress of long work, on a terminal's standard error, once it has taken half a second.
//!
//! What does not belong here: live watches, which show their own ([`crate::watching`]).

use indicatif::{ProgressBar, ProgressFinish, ProgressState, ProgressStyle};
use iowhy_model::figures::grouped;
use iowhy_model::source::Batch;
use std::fmt;
use std::time::{Duration, Instant};

/// Work that is done sooner shows nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Time between two drawings.
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
    pub fn new(total: u64) -> ReadProgress {
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

/// Work that counts from another place: shown until it is dropped.
pub struct Waiting(ProgressBar);

impl Waiting {
    /// Begins; `what` is what is done: "reading the file system of sdb"; `count` gives how much is
    /// done and how much there is, if that is known, of `unit`: "inodes".
    pub fn for_work(
        what: &str,
        unit: &'static str,
        count: impl Fn() -> (u64, Option<u64>) + Clone + Send + Sync + 'static,
    ) -> Waiting {
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{msg} {spinner} {count}, {elapsed}") {
            let count = move |state: &ProgressState, out: &mut dyn fmt::Write| {
                let (done, total) = count();
                // Text that does not fit is not shown.
                let _ = out.write_str(&counted(done, total, unit, state.elapsed()));
            };
            bar.set_style(style.with_key("count", count));
        }
        bar.set_message(what.to_owned());
        // The first tick, which draws it, comes after that time.
        bar.enable_steady_tick(QUIET);
        Waiting(bar)
    }
}

/// `4,000 of 12,000 inodes, 2,000/s, 4 s left`, as far as it is known.
fn counted(done: u64, total: Option<u64>, unit: &str, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
    let per_s = grouped(rate as u64);
    match total {
        Some(total) if rate >= 1.0 => {
            let left = ((total - done.min(total)) as f64 / rate).ceil() as u64;
            let (done, total) = (grouped(done), grouped(total));
            format!("{done} of {total} {unit}, {per_s}/s, {} s left", grouped(left))
        }
        _ => format!("{} {unit}, {per_s}/s", grouped(done)),
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_a_rate_and_an_end_where_it_is_known() {
        let second = Duration::from_secs(1);
        let said = |done, total| counted(done, total, "inodes", 2 * second);
        assert_eq!(said(4_000, Some(12_000)), "4,000 of 12,000 inodes, 2,000/s, 4 s left");
        assert_eq!(said(4_000, None), "4,000 inodes, 2,000/s");
        assert_eq!(said(0, Some(12_000)), "0 inodes, 0/s");
        assert_eq!(said(13, Some(12)), "13 of 12 inodes, 6/s, 0 s left");
        assert_eq!(counted(0, None, "inodes", Duration::ZERO), "0 inodes, 0/s");
    }
}
