//! Writes by program: what each one wrote with its calls, and what devices moved for it, by
//! container, file, device and reason. Only on request (`pass::Summarizer::with_writers`).
//!
//! What does not belong here: whom a request is charged to (see [`super::attribution`]), and the
//! words of the rows (`tables::writers`).

use crate::summary::{AskedCalls, ByDirection};
use crate::sums::calibration::Calibration;
use crate::sums::keys::{FileKey, Part, ProcessKey, Reason, file};
use crate::sums::usage_by_key::{Bounded, Charge};
use iowhy_model::{FileActivity, Name, Origin, Request};
use rustc_hash::FxHashMap;

/// Combinations that are kept while an interval runs: about 1 MiB.
pub(crate) const KEYS: usize = 1 << 11;

/// A combination that requests are charged to: like a row, by names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MovedKey {
    pub program: Result<Name, Reason>,
    pub cgroup: Option<Name>,
    pub file: Result<FileKey, Reason>,
    pub origin: Origin,
    pub is_kernel: bool,
}

/// A combination that calls are counted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AskedKey {
    pub program: Option<Name>,
    /// Its container, or its cgroup if that is none.
    pub container: Option<Name>,
    pub file: Option<Name>,
    pub device: Option<Name>,
}

/// Adds up both as they come.
#[derive(Clone, Debug)]
pub(crate) struct WriterTally {
    pub moved: Bounded<MovedKey>,
    pub asked: FxHashMap<AskedKey, AskedCalls>,
    /// Calls of combinations that did not fit, by device.
    pub unkept: FxHashMap<Option<Name>, AskedCalls>,
}

impl WriterTally {
    pub fn new() -> WriterTally {
        WriterTally {
            moved: Bounded::new(KEYS),
            asked: FxHashMap::default(),
            unkept: FxHashMap::default(),
        }
    }

    /// Charges a part of a request to its owner.
    pub fn charge(
        &mut self,
        request: &Request,
        part: Part,
        owner: Result<ProcessKey, Reason>,
        (cgroup, is_kernel): (Option<Name>, bool),
        charge: &Charge,
    ) {
        let (program, origin) = (owner.map(|owner| owner.name), request.origin);
        let key = MovedKey { program, cgroup, file: file(part), origin, is_kernel };
        self.moved.charge(key, charge);
    }

    /// Counts the calls of a row.
    pub fn add_calls(&mut self, row: &FileActivity) {
        let calls = AskedCalls::for_activity(row);
        if calls == AskedCalls::default() {
            return;
        }
        let FileActivity { process: program, container, cgroup, file, device, .. } = *row;
        let container = container.or(cgroup);
        let key = AskedKey { program, container, file, device };
        if self.asked.len() < KEYS || self.asked.contains_key(&key) {
            self.asked.entry(key).or_default().add(&calls);
        } else {
            self.unkept.entry(device).or_default().add(&calls);
        }
    }

    /// Scales what was moved to what the kernel counted of the devices.
    pub fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        self.moved.calibrate(by_device);
    }
}
