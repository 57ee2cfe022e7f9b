//! Attribution of time and bytes: every part of every request is charged to a process, a program, a
//! cgroup and a file, or to the reason why there is none; every request to its origin and, if a
//! stack was taken, to its code path.
//!
//! The time of a request is split over its parts by their bytes, without a remainder.

use super::breakdown::{BreakdownTally, UsedKey};
use super::strata::{self, SampleStratum};
use super::writers::WriterTally;
use crate::summary::{ByDirection, Measure};
use crate::sums::calibration::Calibration;
use crate::sums::device_layer::DeviceLayer;
use crate::sums::keys::{CodePath, FileKey, Part, ProcessKey, Reason, file, owner};
use crate::sums::stacks::StackTable;
use crate::sums::usage_by_key::{Bounded, Charge, Used};
use iowhy_model::{Name, Names, Origin, Process, Request, RequestPart};
use rustc_hash::FxHashMap;

/// Maximum number of keys of a table of processes, programs, cgroups, files or code paths; 16,384
/// keys take about 4 MiB.
pub(crate) const KEYS: usize = 1 << 14;
/// Maximum number of distinct reasons.
const REASONS: usize = 1 << 10;
/// Maximum number of processes and cgroups with details.
const IDENTITIES: usize = 1 << 14;

/// The keys that are known, and the reason for the others.
#[derive(Clone, Debug)]
pub(crate) struct Attributed<K> {
    pub known: Bounded<K>,
    pub unknown: Bounded<Reason>,
}

impl<K: Copy + Eq + std::hash::Hash> Attributed<K> {
    fn new() -> Attributed<K> {
        Attributed { known: Bounded::new(KEYS), unknown: Bounded::new(REASONS) }
    }

    #[inline]
    fn charge(&mut self, subject: Result<K, Reason>, charge: &Charge) {
        match subject {
            Ok(key) => self.known.charge(key, charge),
            Err(reason) => self.unknown.charge(reason, charge),
        }
    }

    fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        self.known.calibrate(by_device);
        self.unknown.calibrate(by_device);
    }
}

/// Details of a process beyond its PID and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownIdentity {
    pub executable: Option<Name>,
    pub user: Option<Name>,
    pub io_class: Option<Name>,
    pub container: Option<Name>,
}

/// All tables that requests are charged to.
#[derive(Clone, Debug)]
pub(crate) struct Attribution {
    pub processes: Attributed<ProcessKey>,
    /// Processes that were dropped from `processes`, by name; see [`Attribution::settle`].
    pub programs: Bounded<ProcessKey>,
    pub cgroups: Attributed<Name>,
    pub files: Attributed<FileKey>,
    pub origins: Bounded<Origin>,
    pub code_paths: Bounded<CodePath>,
    pub stacks: StackTable,
    /// All requests, by what divides them among code paths.
    pub strata: Bounded<SampleStratum>,
    /// Usage without any code path.
    pub without_stack: Vec<(DeviceLayer, Used)>,
    pub identities: FxHashMap<ProcessKey, KnownIdentity>,
    pub containers: FxHashMap<Name, Name>,
    /// All of it together, where it was asked for.
    pub breakdown: Option<Box<BreakdownTally>>,
    /// The tally of writers, where it was asked for.
    pub writers: Option<Box<WriterTally>>,
    latest_cgroup: Option<Name>,
}

impl Attribution {
    pub fn new() -> Attribution {
        Attribution {
            processes: Attributed {
                known: Bounded::handing_out(KEYS),
                unknown: Bounded::new(REASONS),
            },
            programs: Bounded::new(KEYS),
            cgroups: Attributed::new(),
            files: Attributed::new(),
            origins: Bounded::new(KEYS),
            code_paths: Bounded::new(KEYS),
            stacks: StackTable::default(),
            strata: Bounded::new(KEYS),
            without_stack: Vec::new(),
            identities: FxHashMap::default(),
            containers: FxHashMap::default(),
            breakdown: None,
            writers: None,
            latest_cgroup: None,
        }
    }

    /// Records the details of a process.
    pub fn meet(&mut self, process: &Process) {
        let key = ProcessKey { pid: Some(process.pid), name: process.process };
        let Process { executable, user, io_class, container, .. } = *process;
        if self.identities.len() < IDENTITIES {
            let identity = KnownIdentity { executable, user, io_class, container };
            self.identities.entry(key).or_insert(identity);
        }
        self.meet_cgroup(process.cgroup, container);
    }

    #[inline]
    fn meet_cgroup(&mut self, cgroup: Option<Name>, container: Option<Name>) {
        if cgroup == self.latest_cgroup {
            return;
        }
        self.latest_cgroup = cgroup;
        if let (Some(cgroup), Some(container)) = (cgroup, container)
            && self.containers.len() < IDENTITIES
        {
            self.containers.entry(cgroup).or_insert(container);
        }
    }

    /// Charges a request and its parts; `whole` has its bytes and time.
    #[inline]
    pub fn charge(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        whole: &Charge,
        names: &Names,
    ) {
        self.origins.charge(request.origin, whole);
        self.strata.charge(SampleStratum::for_request(request), whole);
        self.meet_cgroup(request.cgroup, request.container);
        if request.stack_weight > 0 {
            self.charge_code_path(request, whole);
        }
        let mut split = PartSplit::new(whole, parts.len());
        for part in parts {
            let share = split.next(part.bytes);
            self.charge_part(request, Ok(part), &share, names);
        }
        if let Some((share, reason)) = split.rest(request.origin) {
            self.charge_part(request, Err(reason), &share, names);
        }
    }

    /// Completes `programs`: all processes by name.
    pub fn settle(&mut self) {
        for row in self.processes.known.rows() {
            self.programs.absorb(row.device_layer, row.key.program(), &row.used);
        }
    }

    /// Stretches code paths to all requests: the last step.
    pub fn stretch(&mut self) {
        self.without_stack = strata::stretch(&mut self.code_paths, &self.strata);
    }

    /// Scales all tables to what the kernel counted of their devices.
    pub fn calibrate(&mut self, by_device: &[ByDirection<Calibration>]) {
        self.processes.calibrate(by_device);
        self.programs.calibrate(by_device);
        self.cgroups.calibrate(by_device);
        self.files.calibrate(by_device);
        self.origins.calibrate(by_device);
        self.strata.calibrate(by_device);
        if let Some(breakdown) = &mut self.breakdown {
            breakdown.calibrate(by_device);
        }
        if let Some(writers) = &mut self.writers {
            writers.calibrate(by_device);
        }
    }

    fn code_path(&self, request: &Request) -> CodePath {
        CodePath {
            origin: request.origin,
            process: request.process,
            kernel: self.stacks.find(request.stack_id, false),
            user: self.stacks.find(request.user_stack_id, true),
        }
    }

    fn charge_code_path(&mut self, request: &Request, whole: &Charge) {
        let path = self.code_path(request);
        self.code_paths.charge(path, &whole.times(u64::from(request.stack_weight)));
        self.code_paths.mark(whole.device_layer, path, 1);
    }

    #[inline]
    fn charge_part(&mut self, request: &Request, part: Part, charge: &Charge, names: &Names) {
        let owner = owner(request, part);
        self.processes.charge(owner, charge);
        if let Some(moved) = self.processes.known.moved_out() {
            for row in moved {
                self.programs.absorb(row.device_layer, row.key.program(), &row.used);
            }
        }
        let cgroup = cgroup(request, part, owner, names);
        self.cgroups.charge(cgroup, charge);
        if let Some(writers) = &mut self.writers {
            let is_kernel = matches!(request.origin, Origin::Journal | Origin::Metadata)
                && owner.map_or(true, |owner| is_kernel(&self.identities, owner));
            writers.charge(request, part, owner, (cgroup.ok(), is_kernel), charge);
        }
        self.files.charge(file(part), charge);
        if self.breakdown.is_some() {
            let key = UsedKey { owner, file: file(part), path: self.code_path(request) };
            self.breakdown.iter_mut().for_each(|tally| tally.charge(key, charge));
        }
    }
}

/// Whether a process is known to be a thread of the kernel: it runs no program.
fn is_kernel(known: &FxHashMap<ProcessKey, KnownIdentity>, owner: ProcessKey) -> bool {
    known.get(&owner).is_some_and(|identity| identity.executable.is_none())
}

/// The owner's cgroup, or the request's if the owner is its submitter or not known. In the latter
/// case the root cgroup is ignored, since cgroup v1 charges all writeback to it.
#[inline]
fn cgroup(
    request: &Request,
    part: Part,
    owner: Result<ProcessKey, Reason>,
    names: &Names,
) -> Result<Name, Reason> {
    if let Some(cgroup) = part.ok().and_then(|part| part.owner_cgroup) {
        return Ok(cgroup);
    }
    match owner {
        Ok(owner) if owner.pid == request.pid => request.cgroup.ok_or(Reason::Silent),
        Ok(_) => Err(Reason::Silent),
        Err(reason) => request.cgroup.filter(|name| names.get(*name) != "/").ok_or(reason),
    }
}

/// Splits a request's bytes and time over its parts; the shares add up to the total.
struct PartSplit<'a> {
    whole: &'a Charge,
    /// The weight of parts: bytes, or their number if the request has none.
    total: u64,
    done: u64,
    done_ns: u64,
}

impl PartSplit<'_> {
    #[inline]
    fn new(whole: &Charge, parts: usize) -> PartSplit<'_> {
        let total = if whole.measure.bytes > 0 { whole.measure.bytes } else { parts as u64 };
        PartSplit { whole, total, done: 0, done_ns: 0 }
    }

    /// The share of a part with `bytes`, which counts as often as its request; never more than the
    /// remainder.
    #[inline]
    fn next(&mut self, bytes: u64) -> Charge {
        let whole = &self.whole.measure;
        let bytes = bytes.saturating_mul(whole.count);
        let left = self.total - self.done;
        let units = if whole.bytes > 0 { bytes.min(left) } else { left.min(1) };
        self.done += units;
        let until_ns = if self.done == self.total {
            whole.time_ns
        } else {
            let scaled = u128::from(whole.time_ns) * u128::from(self.done);
            (scaled / u128::from(self.total)) as u64
        };
        let time_ns = until_ns - self.done_ns;
        self.done_ns = until_ns;
        let bytes = if whole.bytes > 0 { units } else { 0 };
        Charge { measure: Measure { bytes, time_ns, ..*whole }, ..*self.whole }
    }

    /// The remainder that no part covers, and the reason.
    #[inline]
    fn rest(mut self, origin: Origin) -> Option<(Charge, Reason)> {
        let reason = match (self.done, self.total) {
            (0, 0) => return Some((*self.whole, Reason::NoParts(origin))),
            (done, total) if done == total => return None,
            (0, _) => Reason::NoParts(origin),
            _ => Reason::Uncovered,
        };
        Some((self.next(u64::MAX), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Direction;
    use crate::sums::device_layer::{DeviceLayer, RequestLayer};

    fn shares(bytes: u64, time_ns: u64, parts: &[u64]) -> (Vec<(u64, u64)>, Option<Reason>) {
        let device_layer = DeviceLayer::new(0, RequestLayer::Top);
        let direction = Direction::Write;
        let measure = Measure { count: 1, bytes, time_ns, longest_ns: time_ns };
        let whole = Charge { sequence: 1, device_layer, direction, open: false, measure };
        let mut split = PartSplit::new(&whole, parts.len());
        let mut shares: Vec<Charge> = parts.iter().map(|bytes| split.next(*bytes)).collect();
        let rest = split.rest(Origin::Write);
        shares.extend(rest.map(|(share, _)| share));
        let pairs = shares.iter().map(|share| (share.measure.bytes, share.measure.time_ns));
        let pairs = pairs.collect();
        (pairs, rest.map(|(_, reason)| reason))
    }

    #[test]
    fn what_is_split_adds_up() {
        assert_eq!(shares(4096, 100, &[4096]), (vec![(4096, 100)], None));
        assert_eq!(shares(3, 100, &[1, 1, 1]), (vec![(1, 33), (1, 33), (1, 34)], None));
        assert_eq!(shares(10, 100, &[]), (vec![(10, 100)], Some(Reason::NoParts(Origin::Write))));
        assert_eq!(shares(10, 100, &[4]), (vec![(4, 40), (6, 60)], Some(Reason::Uncovered)));
        assert_eq!(shares(10, 100, &[20, 5]), (vec![(10, 100), (0, 0)], None));
        assert_eq!(shares(0, 100, &[0, 0]), (vec![(0, 50), (0, 50)], None));
        assert_eq!(shares(0, 100, &[]), (vec![(0, 100)], Some(Reason::NoParts(Origin::Write))));
    }
}
