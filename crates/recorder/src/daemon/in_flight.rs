//! Whether a request that seems to have been at a device for long is: one whose completion was not
//! seen looks the same until the kernel is asked.
//!
//! What does not belong here: what a request in flight causes (see [`crate::trigger`]).

use super::SECOND_NS;
use iowhy_capture::live::LiveWatch;
use iowhy_core::model::{Names, Status};
use iowhy_core::source::Batch;
use std::collections::BTreeMap;

/// How long an answer of the kernel counts, nanoseconds.
const COUNTS_NS: u64 = 5 * SECOND_NS;

/// Asks the kernel, for each device once in a while.
#[derive(Debug)]
pub(super) struct InFlightCheck {
    limit_ns: u64,
    /// When it was asked about a device, and what it answered.
    known: BTreeMap<String, (u64, bool)>,
}

impl InFlightCheck {
    /// For requests that are at least so old.
    pub(super) fn new(limit_ns: u64) -> InFlightCheck {
        InFlightCheck { limit_ns, known: BTreeMap::new() }
    }

    /// Forgets the answers: another watch begins.
    pub(super) fn begin(&mut self) {
        self.known.clear();
    }

    /// Whether the device has a request of that age. Processes and stacks that were met for the
    /// first time go to `met`.
    pub(super) fn confirm(
        &mut self,
        live: &mut LiveWatch,
        names: &mut Names,
        met: &mut Batch,
        device: &str,
    ) -> bool {
        let now_ns = iowhy_capture::host::system::now_ns();
        if let Some((at_ns, is_there)) = self.known.get(device)
            && now_ns.saturating_sub(*at_ns) < COUNTS_NS
        {
            return *is_there;
        }
        let mut batch = Batch::default();
        let now_ns = live.open_rows(&mut batch, names);
        let is_there = batch.requests.iter().any(|request| {
            request.status == Status::InFlight
                && names.get(request.device) == device
                && now_ns.saturating_sub(request.start_ns) >= self.limit_ns
        });
        met.stacks.append(&mut batch.stacks);
        met.processes.append(&mut batch.processes);
        self.known.insert(device.to_owned(), (now_ns, is_there));
        is_there
    }
}
