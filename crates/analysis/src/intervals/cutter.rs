//! Splits a source into intervals of equal length, each with its own figures: the data of the
//! interval views, live and from a recording.
//!
//! A row belongs to the interval in which it ended, as the kernel's own counters have it; a sample
//! to the one at whose end it was read, and to the next as its beginning. Rows that were open at
//! the end of the watch belong to the last one. The clock is that of the rows, so a recording
//! yields the same intervals as a live watch.
//!
//! What does not belong here: which figures (see [`Pass`]), and wall-clock timing.

use super::counter_readings::Readings;
use super::open_intervals::OpenIntervals;
use crate::device::kernel_counters::exact_counts;
use crate::sums::request_times::Life;
use crate::sums::row_consumers::Pass;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names, Request, Status, WaitRequest};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Intervals without a row that may follow each other. More are left out, where that is wanted, and
/// counted: one wrong time of a source may be a century away from the others.
const MOST_EMPTY: u64 = 100;
/// Processes of which more than the name is kept for later intervals: as many as a pass keeps. When
/// there are more, the older half goes.
const MOST_PROCESSES: usize = 1 << 14;
/// Waits whose requests are kept until they come.
const MOST_LINKED: usize = 1 << 18;
/// Maximum delay of samples at the end of an interval, nanoseconds.
const MOST_LATE_NS: u64 = 500_000_000;
/// A last interval shorter than this share of the others is merged into the previous one.
const LEAST_SHARE: f64 = 0.1;

/// The requested intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WantedIntervals {
    /// The length of each, nanoseconds; without it the source is one interval.
    pub every_ns: Option<u64>,
    /// Their number; without it as many as there are.
    pub count: Option<u64>,
}

/// A completed interval.
#[derive(Clone, PartialEq, Debug)]
pub struct EndedInterval<F> {
    /// Its number, from 0.
    pub number: u64,
    /// Its environment: beginning, end and host.
    pub environment: Environment,
    /// Its figures.
    pub figures: F,
}

/// Splits a source into intervals.
pub struct Cutter<P> {
    like: P,
    wanted: WantedIntervals,
    /// The beginning of the first interval; 0 until it is known.
    start_ns: u64,
    /// The number of the last interval, if it is known beforehand.
    last: Option<u64>,
    /// The first interval that was not passed on.
    next: u64,
    open: OpenIntervals<P>,
    /// Whether long runs of intervals without a row are left out, and how many were.
    leaves_out: bool,
    left_out: u64,
    /// Processes and stacks that rows of later intervals may refer to.
    known: Batch,
    readings: Readings,
    /// Rows of `wait_requests` whose waits have not come yet.
    links: FxHashMap<u64, Vec<WaitRequest>>,
    latest_ns: u64,
    late: u64,
}

impl<P: Pass> Cutter<P> {
    /// Splits a source with the current `environment`; each interval gets a pass like `like`.
    pub fn new(like: P, wanted: WantedIntervals, environment: &Environment) -> Cutter<P> {
        let mut cutter = Cutter {
            like,
            wanted,
            start_ns: environment.start_ns,
            last: None,
            next: 0,
            open: OpenIntervals::default(),
            leaves_out: false,
            left_out: 0,
            known: Batch::default(),
            readings: Readings::default(),
            links: FxHashMap::default(),
            latest_ns: 0,
            late: 0,
        };
        cutter.last = match wanted.every_ns {
            None => Some(0),
            Some(every_ns) if environment.end_ns > environment.start_ns => {
                Some(last_of(environment.end_ns - environment.start_ns, every_ns))
            }
            // A watch with a given number ends with the last of them.
            Some(_) => wanted.count.map(|count| count.saturating_sub(1)),
        };
        cutter
    }

    /// The same, but of more than a hundred intervals without a row that follow each other none is
    /// passed on.
    #[must_use]
    pub fn leaving_out_empty(self) -> Cutter<P> {
        Cutter { leaves_out: true, ..self }
    }

    /// Returns the number of intervals without a row that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether so many rows wait for their interval to end that the oldest must end now
    /// ([`Cutter::close_until`]), whatever may still come of it.
    pub fn is_crowded(&self) -> bool {
        self.open.is_crowded()
    }

    /// The latest time in a row, CLOCK_MONOTONIC nanoseconds.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Returns the beginning of the next interval, CLOCK_MONOTONIC nanoseconds; 0 until that is
    /// known.
    pub fn next_start_ns(&self) -> u64 {
        if self.start_ns == 0 { 0 } else { self.begin_of(self.next) }
    }

    /// Rows whose interval was over when they came; they count in the next.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Whether all requested intervals have been passed on.
    pub fn is_done(&self) -> bool {
        self.wanted.count.is_some_and(|count| self.next >= count)
    }

    /// Whether all requested intervals were over at `until_ns`, so that a live watch may end.
    pub fn is_over(&self, until_ns: u64) -> bool {
        self.start_ns > 0 && self.wanted.count.is_some_and(|count| self.begin_of(count) <= until_ns)
    }

    /// Adds rows, whose texts are in `names`: the same table for every batch.
    pub fn add(&mut self, batch: &Batch, environment: &Environment, names: &Names) {
        if self.start_ns == 0 {
            self.start_ns = batch.requests.iter().map(|row| row.start_ns).min().unwrap_or(0);
        }
        self.meet(batch, names);
        let cut = self.cut(batch);
        for (number, part) in cut {
            if self.wanted.count.is_some_and(|count| number >= count) {
                continue;
            }
            self.put(number, part, environment, names);
        }
        if self.links.len() > MOST_LINKED {
            // Their waits were filtered out.
            self.links.clear();
        }
    }

    /// Keeps rows that later rows refer to, and passes them to open intervals.
    fn meet(&mut self, batch: &Batch, names: &Names) {
        if batch.processes.is_empty() && batch.stacks.is_empty() {
            return;
        }
        let met = Batch {
            processes: batch.processes.clone(),
            stacks: batch.stacks.clone(),
            ..Batch::default()
        };
        self.open.meet(&met, names);
        self.known.processes.extend(met.processes);
        if self.known.processes.len() > MOST_PROCESSES {
            self.known.processes.drain(..MOST_PROCESSES / 2);
        }
        self.known.stacks.extend(met.stacks);
    }

    fn put(&mut self, number: u64, rows: Batch, environment: &Environment, names: &Names) {
        let mut open = std::mem::take(&mut self.open);
        open.add(number, rows, names, || self.begun(number, environment, names));
        self.open = open;
    }

    /// A pass of interval `number` without rows of its own.
    fn begun(&self, number: u64, environment: &Environment, names: &Names) -> P {
        let mut pass = self.like.begin(&self.window(number, environment));
        pass.add(&self.known, names);
        pass
    }

    /// The rows of `batch` by interval.
    fn cut(&mut self, batch: &Batch) -> BTreeMap<u64, Batch> {
        let mut cut: BTreeMap<u64, Batch> = BTreeMap::new();
        for (request, parts) in batch.requests_with_parts() {
            let to = cut.entry(self.number_of(end_of(request))).or_default();
            to.requests.push(request.clone());
            to.parts.extend_from_slice(parts);
        }
        // A recording yields them before their waits.
        for link in &batch.wait_requests {
            self.links.entry(link.wait_id).or_default().push(link.clone());
        }
        for wait in &batch.waits {
            let number = self.number_of(Some(wait.start_ns.saturating_add(wait.duration_ns)));
            let to = cut.entry(number).or_default();
            to.wait_requests.extend(self.links.remove(&wait.wait_id).unwrap_or_default());
            to.waits.push(wait.clone());
        }
        for chain in &batch.wait_chains {
            let number = self.number_of(Some(chain.start_ns.saturating_add(chain.duration_ns)));
            cut.entry(number).or_default().wait_chains.push(chain.clone());
        }
        for file in &batch.files {
            // Rows that began in an interval that is over were counted when they ended.
            let number = self.at(file.start_ns).min(self.last.unwrap_or(u64::MAX)).max(self.next);
            cut.entry(number).or_default().files.push(file.clone());
        }
        self.readings.add(&batch.samples);
        let read_ns = batch.samples.iter().map(|sample| sample.time_ns).max();
        self.latest_ns = self.latest_ns.max(read_ns.unwrap_or(0));
        for event in &batch.events {
            let number = self.number_of(Some(event.time_ns));
            cut.entry(number).or_default().events.push(event.clone());
        }
        cut
    }

    /// The interval of `time_ns`; the last one for open rows.
    fn number_of(&mut self, time_ns: Option<u64>) -> u64 {
        let newest = self.last.unwrap_or_else(|| self.at(self.latest_ns));
        let Some(time_ns) = time_ns else { return newest.max(self.next) };
        self.latest_ns = self.latest_ns.max(time_ns);
        let number = self.at(time_ns).min(self.last.unwrap_or(u64::MAX));
        self.late += u64::from(number < self.next);
        number.max(self.next)
    }

    fn at(&self, time_ns: u64) -> u64 {
        let every_ns = self.wanted.every_ns.unwrap_or(u64::MAX).max(1);
        time_ns.saturating_sub(self.start_ns) / every_ns
    }

    /// Returns the beginning of an interval, CLOCK_MONOTONIC nanoseconds.
    fn begin_of(&self, number: u64) -> u64 {
        let every_ns = self.wanted.every_ns.unwrap_or(u64::MAX);
        self.start_ns.saturating_add(number.saturating_mul(every_ns))
    }

    /// The environment of the interval.
    fn window(&self, number: u64, environment: &Environment) -> Environment {
        let end_ns = match self.last == Some(number) {
            true => environment.end_ns,
            false => self.begin_of(number.saturating_add(1)),
        };
        let start_ns = self.begin_of(number);
        // A source may have rows after its own end.
        let end_ns = match environment.end_ns {
            whole if whole > start_ns => end_ns.min(whole),
            _ => end_ns,
        };
        Environment { start_ns, end_ns, ..environment.clone() }
    }

    /// Passes on the intervals that were over at `until_ns`; no more of their rows will come.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn close_until<E>(
        &mut self,
        until_ns: u64,
        environment: &Environment,
        names: &Names,
        each: &mut impl FnMut(EndedInterval<P::Figures>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_over = |cutter: &Cutter<P>| {
            cutter.begin_of(cutter.next.saturating_add(1)) <= until_ns || cutter.is_crowded()
        };
        // Until the beginning is known, no row has its interval.
        if self.start_ns == 0 {
            return Ok(());
        }
        self.leave_out(self.at(until_ns).min(self.last.unwrap_or(u64::MAX)));
        while !self.is_done() && self.last.is_none_or(|last| self.next < last) && is_over(self) {
            each(self.close(environment, names))?;
            self.leave_out(self.at(until_ns).min(self.last.unwrap_or(u64::MAX)));
        }
        Ok(())
    }

    /// Leaves out the intervals before the next that has rows, if they are many and before `until`.
    fn leave_out(&mut self, until: u64) {
        let sampled = self.readings.first_ns().map(|time_ns| self.at(time_ns));
        let busy = [self.open.first(), sampled, self.wanted.count, Some(until)];
        let busy = busy.into_iter().flatten().min().unwrap_or(until);
        let run = busy.saturating_sub(self.next);
        if self.leaves_out && run > MOST_EMPTY {
            self.left_out += run;
            self.next = busy;
        }
    }

    fn close(&mut self, environment: &Environment, names: &Names) -> EndedInterval<P::Figures> {
        let number = self.next;
        let mut window = self.window(number, environment);
        let mut readings = std::mem::take(&mut self.readings);
        let samples = self.samples(&mut readings, &mut window, names);
        self.readings = readings;
        self.count_exactly(&mut window);
        let mut open = std::mem::take(&mut self.open);
        open.pass(number, names, || self.begun(number, environment, names)).add(&samples, names);
        let pass = open.close(number).unwrap_or_else(|| self.like.begin(&window));
        self.open = open;
        self.next += 1;
        EndedInterval { number, figures: pass.finish(&window, names), environment: window }
    }

    /// The figures of the interval that is next, as if it ended at `until_ns`; `None` before its
    /// first row.
    pub fn peek(
        &self,
        until_ns: u64,
        environment: &Environment,
        names: &Names,
    ) -> Option<EndedInterval<P::Figures>>
    where
        P: Clone,
    {
        let mut pass = self.open.get(self.next)?.clone();
        let mut window = self.window(self.next, environment);
        // The end of a live source that is one interval is not known yet.
        let end_ns = if window.end_ns == 0 { u64::MAX } else { window.end_ns };
        window.end_ns = until_ns.clamp(window.start_ns, end_ns.max(window.start_ns));
        let samples = self.samples(&mut self.readings.clone(), &mut window, names);
        self.count_exactly(&mut window);
        pass.add(&samples, names);
        let figures = pass.finish(&window, names);
        Some(EndedInterval { number: self.next, figures, environment: window })
    }

    /// The samples of the next interval, with what it begins with; sets what `window` says of
    /// devices at its ends.
    fn samples(&self, readings: &mut Readings, window: &mut Environment, names: &Names) -> Batch {
        let is_last = self.last == Some(self.next);
        // What is read at the end of an interval is read a little later.
        let late_ns = (window.duration_ns() / 2).min(MOST_LATE_NS);
        let until_ns = if is_last { u64::MAX } else { window.end_ns.saturating_add(late_ns) };
        let is_fresh = readings.is_fresh(window.start_ns, late_ns);
        if self.next > 0 {
            readings.count_devices(window, names, true, is_fresh);
        }
        let looked_ns = readings.looked_ns();
        let samples = readings.until(until_ns, window.start_ns, is_fresh);
        if !is_last {
            let was_read = readings.looked_ns() > looked_ns;
            readings.count_devices(window, names, false, was_read);
        }
        if self.wanted.every_ns.is_some() {
            // If settings were read at both ends only, the report of the watch says that they
            // changed.
            let start_ns = window.start_ns;
            // The last look comes when the watch is over.
            let end_ns = if is_last { u64::MAX } else { window.end_ns };
            for device in &mut window.devices {
                device.settings_end.clear();
                device
                    .settings_changed
                    .retain(|change| start_ns < change.by_ns && change.by_ns <= end_ns);
            }
        }
        samples
    }

    /// Gives an interval the kernel's counters of its own time, where requests were sampled: those
    /// of iowhy's programs are of the whole watch.
    fn count_exactly(&self, window: &mut Environment) {
        if self.wanted.every_ns.is_some() {
            window.exact_counts =
                if window.is_sampled() { exact_counts(window) } else { Vec::new() };
        }
    }

    /// Passes on the rest: the source has no more rows. Says how many intervals without a row were
    /// left out in all.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn finish<E>(
        mut self,
        environment: &Environment,
        names: &Names,
        each: &mut impl FnMut(EndedInterval<P::Figures>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let end_ns = environment.end_ns.max(self.latest_ns);
        let newest = self.open.last().unwrap_or(0);
        let last = match self.last {
            Some(last) => last,
            None => newest.max(self.at(end_ns.saturating_sub(1))),
        };
        self.last = Some(last);
        self.leave_out(last);
        while self.next <= last && !self.is_done() {
            each(self.close(environment, names))?;
            self.leave_out(last);
        }
        Ok(self.left_out)
    }
}

/// Returns the time at which a request ended, nanoseconds; `None` if it was in flight at the end of
/// the watch.
fn end_of(request: &Request) -> Option<u64> {
    (request.status != Status::InFlight).then(|| Life::from_request(request).ended_ns())
}

/// The last interval of a source that lasts `whole_ns`.
fn last_of(whole_ns: u64, every_ns: u64) -> u64 {
    let (full, rest) = (whole_ns / every_ns.max(1), whole_ns % every_ns.max(1));
    let is_own = full == 0 || rest as f64 >= every_ns as f64 * LEAST_SHARE;
    if is_own { full } else { full - 1 }
}

#[cfg(test)]
mod tests;
