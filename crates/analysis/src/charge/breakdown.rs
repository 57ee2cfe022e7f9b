//! The use of each device by process, file and code path together, in one table: the details behind
//! a line of any other table. Only on request (`pass::Summarizer::with_breakdown`).
//!
//! What does not belong here: whom a request is charged to (see [`super::attribution`]), and the
//! words of the combinations (`tables::breakdown`).

use crate::summary::{ByDirection, Measure};
use crate::sums::calibration::Calibration;
use crate::sums::keys::{CodePath, FileKey, ProcessKey, Reason};
use crate::sums::stacks::StackRef;
use crate::sums::usage_by_key::{Bounded, Charge};
use crate::sums::wait_parts::parts_of;
use iowhy_model::{Name, Origin, Wait, WaitClass};
use rustc_hash::FxHashMap;

/// Keys that are kept while a watch or an interval runs: 1 MiB.
pub(crate) const KEYS: usize = 1 << 12;

/// A combination that requests are charged to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UsedKey {
    pub owner: Result<ProcessKey, Reason>,
    pub file: Result<FileKey, Reason>,
    pub path: CodePath,
}

/// A combination that waits are charged to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaitedKey {
    pub class: WaitClass,
    pub process: ProcessKey,
    pub device: Option<Name>,
    pub file: Option<Name>,
    pub stack: CodePath,
}

/// Adds up both as they come.
#[derive(Clone, Debug)]
pub(crate) struct BreakdownTally {
    pub used: Bounded<UsedKey>,
    pub waited: FxHashMap<WaitedKey, Measure>,
    /// Waits of keys that did not fit.
    pub unkept: Measure,
}

impl BreakdownTally {
    pub fn new() -> BreakdownTally {
        BreakdownTally {
            used: Bounded::new(KEYS),
            waited: FxHashMap::default(),
            unkept: Measure::default(),
        }
    }

    pub fn charge(&mut self, key: UsedKey, charge: &Charge) {
        self.used.charge(key, charge);
    }

    /// Scales what was used to what the kernel counted of the devices.
    pub fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        self.used.calibrate(by_device);
    }

    /// Adds a wait; `stack` is where it waited.
    pub fn add_wait(&mut self, wait: &Wait, stack: CodePath) {
        if wait.kernel_thread {
            return;
        }
        let name = wait.process.unwrap_or(Name::EMPTY);
        for (class, time_ns) in parts_of(wait) {
            let process = ProcessKey { pid: Some(wait.pid), name };
            let key = WaitedKey { class, process, device: wait.device, file: wait.file, stack };
            let share = Measure::for_wait(wait, time_ns);
            if self.waited.len() < KEYS || self.waited.contains_key(&key) {
                self.waited.entry(key).or_default().add(&share);
            } else {
                self.unkept.add(&share);
            }
        }
    }
}

/// The code path of a wait: no request has it.
pub(crate) fn of_wait(kernel: Option<StackRef>, user: Option<StackRef>) -> CodePath {
    CodePath { origin: Origin::Unknown, process: None, kernel, user }
}
