//! Requests and waits that are open now: whether a request that seems to be in flight for long
//! really is, since one whose completion was missed looks the same until the kernel is asked; and
//! which threads wait.
//!
//! Both come from tables in the kernel's memory, so asking waits for no disk.
//!
//! What does not belong here: the incidents that they begin (see [`crate::trigger`]).

use super::SECOND_NS;
use crate::trigger::Trigger;
use crate::trigger::hung_task::hung_tasks;
use iowhy_capture::host::mounts::Mounts;
use iowhy_capture::live::LiveWatch;
use iowhy_model::source::Batch;
use iowhy_model::{Names, Status};
use std::collections::BTreeMap;

/// The time that an answer of the kernel is valid, in nanoseconds.
const COUNTS_NS: u64 = 5 * SECOND_NS;

/// Asks the kernel about each device, at most once in five seconds.
#[derive(Debug)]
pub(super) struct InFlightCheck {
    limit_ns: u64,
    /// The time of the last question about a device, and the answer.
    known: BTreeMap<String, (u64, bool)>,
}

impl InFlightCheck {
    /// Makes a check for requests that are at least `limit_ns` old.
    pub(super) fn new(limit_ns: u64) -> InFlightCheck {
        InFlightCheck { limit_ns, known: BTreeMap::new() }
    }

    /// Forgets the answers, because another watch begins.
    pub(super) fn begin(&mut self) {
        self.known.clear();
    }

    /// Returns whether the device has a request of that age. Processes and stacks that were met for
    /// the first time go to `met`.
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

/// Asks at intervals which threads wait.
#[derive(Debug)]
pub(super) struct HungTaskCheck {
    limit_ns: Option<u64>,
    due_ns: u64,
}

impl HungTaskCheck {
    /// Makes a check for threads that have waited for at least `limit_ns`; `None` disables it.
    pub(super) fn new(limit_ns: Option<u64>) -> HungTaskCheck {
        HungTaskCheck { limit_ns, due_ns: 0 }
    }

    /// Returns the conditions that waiting threads meet, if it is time to ask. Processes and stacks
    /// that were met for the first time go to `met`.
    pub(super) fn ask(
        &mut self,
        live: &mut LiveWatch,
        names: &mut Names,
        met: &mut Batch,
    ) -> Vec<Trigger> {
        let now_ns = iowhy_capture::host::system::now_ns();
        let Some(limit_ns) = self.limit_ns.filter(|_| now_ns >= self.due_ns) else {
            return Vec::new();
        };
        self.due_ns = now_ns + COUNTS_NS;
        let mut batch = Batch::default();
        live.open_rows(&mut batch, names);
        met.stacks.append(&mut batch.stacks);
        met.processes.append(&mut batch.processes);
        hung_tasks(&batch.waits, names, limit_ns, || Mounts::read().served_points())
    }
}
