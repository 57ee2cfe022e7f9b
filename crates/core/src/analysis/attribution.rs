//! Whose time and bytes they are: every part of every request is charged to a process, a program, a
//! cgroup and a file, or to the reason why there is none; every request to its origin and, where a
//! stack was taken, to its code path.
//!
//! The time of a request is split over its parts by their bytes, without a remainder.

use super::bounded::{Bounded, Charge};
use super::stacks::{StackRef, Stacks};
use super::usage::NOT_IN_DATA;
use crate::model::{Name, Names, Origin, Process, Request, RequestPart};
use rustc_hash::FxHashMap;

/// Keys that a table of processes, programs, cgroups, files or code paths keeps: 16,384 keys cost
/// about 4 MiB.
pub(super) const KEYS: usize = 1 << 14;
/// Reasons that are kept apart.
const REASONS: usize = 1 << 10;
/// Processes and cgroups of which more than the name is kept.
const IDENTITIES: usize = 1 << 14;

/// A process: its number alone may be used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ProcessKey {
    pub pid: Option<u32>,
    pub name: Name,
}

impl ProcessKey {
    /// All processes of its name; itself where it has none.
    pub fn program(self) -> ProcessKey {
        let pid = if self.name == Name::EMPTY { self.pid } else { None };
        ProcessKey { pid, ..self }
    }
}

/// A file by its path. One that loses its name during the watch is two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct FileKey {
    pub path: Name,
    pub deleted: bool,
}

/// Why requests are made and by which functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct CodePath {
    pub origin: Origin,
    pub process: Option<Name>,
    pub kernel: Option<StackRef>,
    pub user: Option<StackRef>,
}

/// Why something is charged to nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reason {
    /// The record says why.
    Given(Name),
    /// The record has no parts.
    NoParts(Origin),
    /// The record's parts do not cover all of its bytes.
    Uncovered,
    /// The record names no submitter.
    Kernel,
    /// The record does not say.
    Silent,
}

impl Reason {
    /// The reason in words; `given` finds the text of [`Reason::Given`], and `submitters` says
    /// whether the source names any.
    pub fn words<'a>(self, submitters: bool, given: impl FnOnce(Name) -> &'a str) -> &'a str {
        match self {
            Reason::Given(name) => given(name),
            Reason::NoParts(Origin::Flush) => "cache flushes have no data",
            Reason::NoParts(Origin::Metadata) => "file system metadata",
            Reason::NoParts(Origin::Journal) => "file system journal",
            Reason::NoParts(Origin::Swap) => "swap",
            Reason::NoParts(Origin::Discard) => "discards have no data",
            Reason::NoParts(Origin::Passthrough) => "commands sent past the file system",
            Reason::NoParts(_) | Reason::Silent => NOT_IN_DATA,
            Reason::Uncovered => "bytes that no part of the record covers",
            Reason::Kernel if !submitters => NOT_IN_DATA,
            Reason::Kernel => "made by the kernel itself",
        }
    }
}

/// What is known, and why the rest is not.
#[derive(Clone, Debug)]
pub(super) struct Attributed<K> {
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
}

/// What is known of a process beside its number and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub executable: Option<Name>,
    pub user: Option<Name>,
    pub container: Option<Name>,
}

/// Everything that requests are charged to.
#[derive(Clone, Debug)]
pub(super) struct Attribution {
    pub processes: Attributed<ProcessKey>,
    /// Processes that had no more room among `processes`, by name; see [`Attribution::settle`].
    pub programs: Bounded<ProcessKey>,
    pub cgroups: Attributed<Name>,
    pub files: Attributed<FileKey>,
    pub origins: Bounded<Origin>,
    pub code_paths: Bounded<CodePath>,
    pub stacks: Stacks,
    /// Requests of which a stack was taken, by place.
    pub samples: Bounded<()>,
    pub identities: FxHashMap<ProcessKey, Identity>,
    pub containers: FxHashMap<Name, Name>,
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
            stacks: Stacks::default(),
            samples: Bounded::new(KEYS),
            identities: FxHashMap::default(),
            containers: FxHashMap::default(),
            latest_cgroup: None,
        }
    }

    /// Takes note of who a process is.
    pub fn meet(&mut self, process: &Process) {
        let key = ProcessKey { pid: Some(process.pid), name: process.process };
        let Process { executable, user, container, .. } = *process;
        if self.identities.len() < IDENTITIES {
            self.identities.entry(key).or_insert(Identity { executable, user, container });
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

    /// Charges a request, of which `whole` has the bytes and the time, and its parts.
    #[inline]
    pub fn charge(
        &mut self,
        request: &Request,
        parts: &[RequestPart],
        whole: &Charge,
        names: &Names,
    ) {
        self.origins.charge(request.origin, whole);
        self.meet_cgroup(request.cgroup, request.container);
        if request.stack_weight > 0 {
            self.charge_code_path(request, whole);
        }
        let mut split = Split::new(whole, parts.len());
        for part in parts {
            let share = split.next(part.bytes);
            self.charge_part(request, Ok(part), &share, names);
        }
        if let Some((share, reason)) = split.rest(request.origin) {
            self.charge_part(request, Err(reason), &share, names);
        }
    }

    /// Makes `programs` complete: all processes by name.
    pub fn settle(&mut self) {
        for row in self.processes.known.rows() {
            self.programs.absorb(row.place, row.key.program(), &row.used);
        }
    }

    fn charge_code_path(&mut self, request: &Request, whole: &Charge) {
        self.samples.charge((), whole);
        let path = CodePath {
            origin: request.origin,
            process: request.process,
            kernel: self.stacks.find(request.stack_id, false),
            user: self.stacks.find(request.user_stack_id, true),
        };
        self.code_paths.charge(path, &whole.times(u64::from(request.stack_weight)));
    }

    #[inline]
    fn charge_part(&mut self, request: &Request, part: Part, charge: &Charge, names: &Names) {
        let owner = owner(request, part);
        self.processes.charge(owner, charge);
        if let Some(moved) = self.processes.known.moved_out() {
            for row in moved {
                self.programs.absorb(row.place, row.key.program(), &row.used);
            }
        }
        self.cgroups.charge(cgroup(request, part, owner, names), charge);
        self.files.charge(file(part), charge);
    }
}

/// A part of a request, or why there is none.
pub(super) type Part<'a> = Result<&'a RequestPart, Reason>;

fn names_process(part: &RequestPart) -> bool {
    part.owner_pid.is_some() || part.owner.is_some()
}

/// Whether a part names its owner, or the reason why there is none.
pub(super) fn names_owner(part: &RequestPart) -> bool {
    names_process(part) || part.owner_reason.is_some()
}

/// Who owns the bytes: the part's owner; the submitter where the part names neither an owner nor a
/// reason for having none, or where there is no part.
#[inline]
pub(super) fn owner(request: &Request, part: Part) -> Result<ProcessKey, Reason> {
    if let Ok(part) = part {
        if names_process(part) {
            let name = part.owner.unwrap_or(Name::EMPTY);
            return Ok(ProcessKey { pid: part.owner_pid, name });
        }
        if let Some(reason) = part.owner_reason {
            return Err(Reason::Given(reason));
        }
    }
    match (request.pid, request.process) {
        (None, None) => Err(Reason::Kernel),
        (pid, name) => Ok(ProcessKey { pid, name: name.unwrap_or(Name::EMPTY) }),
    }
}

/// The owner's cgroup; the one that the request is charged to where the owner is its submitter or
/// is not known. In the latter case the root cgroup says nothing: cgroup v1 charges all writeback
/// to it.
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

#[inline]
pub(super) fn file(part: Part) -> Result<FileKey, Reason> {
    let part = part?;
    match part.file {
        Some(path) => Ok(FileKey { path, deleted: part.deleted }),
        None => Err(part.file_reason.map_or(Reason::Silent, Reason::Given)),
    }
}

/// Splits a request's bytes and time over its parts: what is handed out adds up to the whole.
struct Split<'a> {
    whole: &'a Charge,
    /// What the parts are measured by: bytes, or where the request has none, their number.
    total: u64,
    done: u64,
    done_ns: u64,
}

impl Split<'_> {
    #[inline]
    fn new(whole: &Charge, parts: usize) -> Split<'_> {
        let total = if whole.bytes > 0 { whole.bytes } else { parts as u64 };
        Split { whole, total, done: 0, done_ns: 0 }
    }

    /// The share of a part that has `bytes`; never more than what is left.
    #[inline]
    fn next(&mut self, bytes: u64) -> Charge {
        let left = self.total - self.done;
        let units = if self.whole.bytes > 0 { bytes.min(left) } else { left.min(1) };
        self.done += units;
        let until_ns = if self.done == self.total {
            self.whole.time_ns
        } else {
            let scaled = u128::from(self.whole.time_ns) * u128::from(self.done);
            (scaled / u128::from(self.total)) as u64
        };
        let time_ns = until_ns - self.done_ns;
        self.done_ns = until_ns;
        let bytes = if self.whole.bytes > 0 { units } else { 0 };
        Charge { bytes, time_ns, ..*self.whole }
    }

    /// What no part has claimed, and why.
    #[inline]
    fn rest(mut self, origin: Origin) -> Option<(Charge, Reason)> {
        let reason = match (self.done, self.total) {
            (0, 0) => return Some((*self.whole, Reason::NoParts(origin))),
            (done, total) if done == total => return None,
            (0, _) => Reason::NoParts(origin),
            _ => Reason::Uncovered,
        };
        let left = self.total - self.done;
        Some((self.next(left), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::axes::Direction;
    use crate::analysis::bounded::{Layer, Place};

    fn shares(bytes: u64, time_ns: u64, parts: &[u64]) -> (Vec<(u64, u64)>, Option<Reason>) {
        let place = Place::new(0, Layer::Top);
        let direction = Direction::Write;
        let whole =
            Charge { sequence: 1, place, direction, open: false, bytes, time_ns, weight: 1 };
        let mut split = Split::new(&whole, parts.len());
        let mut shares: Vec<Charge> = parts.iter().map(|bytes| split.next(*bytes)).collect();
        let rest = split.rest(Origin::Write);
        shares.extend(rest.map(|(share, _)| share));
        let pairs = shares.iter().map(|share| (share.bytes, share.time_ns)).collect();
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
