//! The end of a pass: requests in flight are charged, sums are scaled to exact counts, and the
//! summary is made.
//!
//! What does not belong here: rows as they come (see [`super::summarizer`]), and the content of the
//! summary (see [`super::report`]).

use super::report;
use super::summarizer::Summarizer;
use crate::charge::charger::{MAX_OPEN, open_time};
use crate::charts::scaled::Calibrations;
use crate::device::totals::{DeviceTotals, LostEnds};
use crate::summary::{Direction, Summary};
use crate::sums::device_layer::{DeviceLayer, RequestLayer};
use crate::sums::request_times::Life;
use crate::sums::watch_window::WatchWindow;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Environment, Metric, Name, Names, WaitClass};

impl Summarizer {
    /// The summary of all batches, with the final `environment`.
    pub fn finish(self, environment: &Environment, names: &Names) -> Summary {
        self.finish_calibrated(environment, names).0
    }

    /// The same, with the ratios by which it is scaled to the kernel's counts.
    pub(super) fn finish_calibrated(
        mut self,
        environment: &Environment,
        names: &Names,
    ) -> (Summary, Calibrations) {
        let window = self.window(environment);
        self.start_ns = window.start_ns;
        let ends = self.lost_ends(environment);
        let mut open = std::mem::take(&mut self.open);
        // The oldest first: the number of lost completions among them decides how later open
        // requests are treated.
        open.compact_sort_by_key(|(request, _)| request.start_ns);
        for (request, parts) in open {
            let (life, direction) =
                (Life::from_request(&request), Direction::from(request.operation));
            let slot = self.device(&request);
            let device_layer = DeviceLayer::new(slot, RequestLayer::for_request(&request, names));
            let device = self.devices.get_mut(usize::from(slot));
            let (now_ns, start_ns) = (window.end_ns, self.start_ns);
            let time_ns = open_time(device, &life, direction, now_ns, ends, start_ns);
            let mut charger = self.charger();
            let whole = charger.whole(&request, &life, device_layer, time_ns);
            charger.charge(&request, &parts, &whole, names);
        }
        // The requests that they serve were never seen.
        for held in self.below.take_all() {
            self.charged.charge(&held.request, &held.parts, &held.whole, names);
        }
        self.note_in_flight(window, environment, names);
        self.charged.settle();
        let blame = self.blame.take();
        let blame = blame.and_then(|blame| blame.finish(environment, window, names));
        let ratios = self.correct(environment);
        self.charged.stretch();
        let mut summary = report::summary(&self, environment, names, window);
        let classes = summary.ledger.iter_mut().flat_map(|ledger| &mut ledger.classes);
        for queue in classes.filter(|row| row.class == WaitClass::Queue.word()) {
            queue.behind = blame.as_ref().and_then(|blame| blame.queue_behind.clone());
        }
        (Summary { blame, ..summary }, ratios)
    }

    /// Whether completions are missing: if anything was lost, or more is in flight than any device
    /// takes. If a tenth of a capture's completions is missing, a missing one means nothing.
    fn lost_ends(&self, environment: &Environment) -> LostEnds {
        let lost = environment.losses.requests();
        let known: u64 =
            self.devices.iter().map(DeviceTotals::requests).fold(0, u64::saturating_add);
        let is_capture = environment.is_imported();
        let is_full = self.open.len() == MAX_OPEN;
        match lost > 0 || is_full {
            _ if is_capture && (is_full || lost.saturating_mul(10) > known) => LostEnds::Many,
            true => LostEnds::Some,
            false => LostEnds::None,
        }
    }

    /// Takes the kernel's exact counts instead of estimates, where requests were thinned.
    fn correct(&mut self, environment: &Environment) -> Calibrations {
        // They are of all requests, whatever a filter left out.
        if environment.hides_others() || !environment.is_sampled() {
            return Calibrations::default();
        }
        let exact = &environment.exact_counts;
        let ratios: Vec<_> = self.devices.iter_mut().map(|device| device.correct(exact)).collect();
        self.charged.calibrate(&ratios);
        self.requests =
            self.devices.iter().map(DeviceTotals::requests).fold(0, u64::saturating_add);
        self.devices.iter().map(|device| device.name).zip(ratios).collect()
    }

    /// Requests in flight at the last sample, which may have no row yet: a device that hangs has
    /// nothing else.
    fn note_in_flight(&mut self, window: WatchWindow, environment: &Environment, names: &Names) {
        let mut subjects: Vec<Name> = self.samples.subjects(Metric::OldestAge).collect();
        subjects.compact_sort_by_key(|subject| names.get(*subject));
        for subject in subjects {
            let latest = |metric| self.samples.latest(metric, subject);
            let begun = |(at_ns, age): (u64, f64)| at_ns.saturating_sub(age as u64);
            let Some(oldest) = latest(Metric::OldestAge).filter(|(_, age)| *age > 0.0) else {
                continue;
            };
            if begun(oldest) >= window.end_ns {
                continue;
            }
            let issued = latest(Metric::OldestIssued).filter(|(_, age)| *age > 0.0).map(begun);
            let known = environment.devices.iter().find(|device| device.name == names.get(subject));
            let number = known.map_or((0, 0), |device| (device.major, device.minor));
            let slot = self.find_device(subject, number);
            if let Some(device) = self.devices.get_mut(usize::from(slot)) {
                device.note_in_flight(begun(oldest), issued, oldest.0);
            }
        }
    }

    /// The beginning and end of the watch; the last request if its end is not recorded.
    fn window(&self, environment: &Environment) -> WatchWindow {
        let start_ns = environment.start_ns;
        let end_ns =
            if environment.end_ns > start_ns { environment.end_ns } else { self.latest_ns };
        WatchWindow { start_ns, end_ns: end_ns.max(start_ns) }
    }
}
