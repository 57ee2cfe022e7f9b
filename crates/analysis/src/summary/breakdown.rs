//! The details behind a line of a summary: device, process, file, code path and class of wait
//! together, so that any of them can be grouped below any other.
//!
//! What does not belong here: how rows become combinations (`charge::breakdown`), and the words of
//! their keys (`tables::breakdown`).

use super::axes::Direction;
use super::measure::Measure;
use super::usage::{CodePathRow, FlowSummary, ProcessRow, Usage, UsedRow};
use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An axis by which rows can be grouped and chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BreakdownAxis {
    /// The class of what a thread waited for; of waits alone.
    Class,
    /// The device.
    Device,
    /// The process: the owner of a request's data, or the thread's that waited.
    Process,
    /// The file.
    File,
    /// The functions that submitted the request, or in which the thread waited.
    CodePath,
    /// The container or systemd unit of the process.
    Unit,
}

const AXES: usize = 6;

/// One thing of an axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum BreakdownSubject {
    /// A wait class, by its word.
    Class(&'static str),
    /// A device, by the kernel's name.
    Device(String),
    /// A process.
    Process(ProcessRow),
    /// A file.
    File {
        /// Its path as seen from the root mount.
        file: String,
        /// Whether it had no name any more when it was first seen.
        deleted: bool,
    },
    /// A code path; of waits the kernel's functions alone.
    CodePath(CodePathRow),
    /// A container or systemd unit.
    Unit(String),
    /// None, and why.
    None(BreakdownAxis, String),
}

impl BreakdownSubject {
    /// The axis that it is of.
    pub fn axis(&self) -> BreakdownAxis {
        match self {
            BreakdownSubject::Class(_) => BreakdownAxis::Class,
            BreakdownSubject::Device(_) => BreakdownAxis::Device,
            BreakdownSubject::Process(_) => BreakdownAxis::Process,
            BreakdownSubject::File { .. } => BreakdownAxis::File,
            BreakdownSubject::CodePath(_) => BreakdownAxis::CodePath,
            BreakdownSubject::Unit(_) => BreakdownAxis::Unit,
            BreakdownSubject::None(axis, _) => *axis,
        }
    }

    /// Whether both are the same thing, however much is known of it.
    pub fn is_same(&self, other: &BreakdownSubject) -> bool {
        match (self, other) {
            (BreakdownSubject::Process(own), BreakdownSubject::Process(its)) => {
                (own.pid, &own.process) == (its.pid, &its.process)
            }
            (own, its) => own == its,
        }
    }
}

/// The use of devices by one combination.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct UsedShare {
    /// Reads, writes, and all others that ended.
    ended: [Measure; 3],
    pub open: Measure,
}

impl UsedShare {
    /// Returns the requests of a direction that ended.
    pub fn ended_mut(&mut self, direction: Direction) -> &mut Measure {
        let [read, write, others] = &mut self.ended;
        match direction {
            Direction::Read => read,
            Direction::Write => write,
            Direction::Flush | Direction::Discard | Direction::Other => others,
        }
    }

    pub fn add(&mut self, other: &UsedShare) {
        self.ended.iter_mut().zip(&other.ended).for_each(|(own, theirs)| own.add(theirs));
        self.open.add(&other.open);
    }

    fn all(&self) -> Measure {
        let mut sum = Measure::default();
        self.ended.iter().for_each(|ended| sum.add(ended));
        sum
    }

    fn usage(&self, whole: &UsedShare) -> Usage {
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let time_ns = |of: &UsedShare| of.all().time_ns.saturating_add(of.open.time_ns);
        let all = self.all();
        let mut usage = Usage {
            requests: all.count,
            bytes: all.bytes,
            time_ns: all.time_ns,
            open_requests: self.open.count,
            open_bytes: self.open.bytes,
            open_time_ns: self.open.time_ns,
            time_share: share(time_ns(self), time_ns(whole)),
            bytes_share: share(all.bytes, whole.all().bytes),
            ..Usage::default()
        };
        for (ended, direction) in self.ended.iter().zip(DIRECTIONS) {
            let Measure { count, bytes, time_ns, .. } = *ended;
            usage.directions[direction] = FlowSummary { requests: count, bytes, time_ns };
        }
        usage
    }
}

/// The directions that are distinguished; the last stands for all others.
const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Other];

/// A combination, each axis by its subject's position; of an axis that it has not, [`NOTHING`].
pub(crate) type BreakdownKey = [u32; AXES];

pub(crate) const NOTHING: u32 = u32::MAX;

/// Blocked time of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitedRow {
    /// The value of the axis.
    pub subject: BreakdownSubject,
    /// Blocked time of its threads, nanoseconds.
    pub time_ns: u64,
    /// Its share of what was chosen.
    pub time_share: f64,
    /// Waits that it is a part of.
    pub waits: u64,
    /// Its longest part of one wait, nanoseconds.
    pub longest_ns: u64,
}

/// All combinations of one watch or interval.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Breakdown {
    pub(crate) subjects: Vec<Arc<BreakdownSubject>>,
    pub(crate) used: Vec<(BreakdownKey, UsedShare)>,
    pub(crate) waited: Vec<(BreakdownKey, Measure)>,
}

impl Breakdown {
    /// Returns the use by each subject of an axis within what is `chosen`, most time first.
    pub fn used(
        &self,
        chosen: &[BreakdownSubject],
        by: BreakdownAxis,
    ) -> Vec<UsedRow<BreakdownSubject>> {
        let mut whole = UsedShare::default();
        let rows = self.group(&self.used, chosen, by, |sum: &mut UsedShare, share| {
            sum.add(share);
            whole.add(share);
        });
        let mut rows: Vec<UsedRow<BreakdownSubject>> = rows
            .into_iter()
            .map(|(subject, sum)| UsedRow { subject, usage: sum.usage(&whole) })
            .collect();
        rows.compact_sort_by_key(|row| std::cmp::Reverse(row.usage.all_time_ns()));
        rows
    }

    /// Returns the time for which threads of each subject of an axis were blocked within what is
    /// `chosen`, longest first.
    pub fn waited(&self, chosen: &[BreakdownSubject], by: BreakdownAxis) -> Vec<WaitedRow> {
        let mut whole_ns = 0_u64;
        let rows = self.group(&self.waited, chosen, by, |sum: &mut Measure, share| {
            sum.add(share);
            whole_ns = whole_ns.saturating_add(share.time_ns);
        });
        let mut rows: Vec<WaitedRow> = rows
            .into_iter()
            .map(|(subject, sum)| WaitedRow {
                subject,
                time_ns: sum.time_ns,
                time_share: sum.time_ns as f64 / whole_ns.max(1) as f64,
                waits: sum.count,
                longest_ns: sum.longest_ns,
            })
            .collect();
        rows.compact_sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        rows
    }

    /// Adds up the rows of what is `chosen` by one axis, in the order of the rows.
    fn group<S: Default>(
        &self,
        rows: &[(BreakdownKey, S)],
        chosen: &[BreakdownSubject],
        by: BreakdownAxis,
        mut add: impl FnMut(&mut S, &S),
    ) -> Vec<(BreakdownSubject, S)> {
        let chosen: Vec<(usize, Vec<u32>)> =
            chosen.iter().map(|subject| (subject.axis() as usize, self.same_as(subject))).collect();
        let mut index: FxHashMap<u32, usize> = FxHashMap::default();
        let mut groups: Vec<(u32, S)> = Vec::new();
        for (key, share) in rows {
            if !chosen.iter().all(|(axis, same)| same.contains(&key[*axis])) {
                continue;
            }
            let subject = key[by as usize];
            let slot = *index.entry(subject).or_insert_with(|| {
                groups.push((subject, S::default()));
                groups.len() - 1
            });
            if let Some((_, sum)) = groups.get_mut(slot) {
                add(sum, share);
            }
        }
        let named = |(subject, sum): (u32, S)| {
            let subject = self.subjects.get(subject as usize)?;
            Some((BreakdownSubject::clone(subject), sum))
        };
        groups.into_iter().filter_map(named).collect()
    }

    fn same_as(&self, subject: &BreakdownSubject) -> Vec<u32> {
        let same = self.subjects.iter().enumerate().filter(|(_, other)| other.is_same(subject));
        same.map(|(index, _)| index as u32).collect()
    }

    /// Its subjects, so that equal ones of several breakdowns can be kept once.
    pub fn subjects_mut(&mut self) -> impl Iterator<Item = &mut Arc<BreakdownSubject>> {
        self.subjects.iter_mut()
    }

    /// Memory of it without its subjects, bytes.
    pub fn bytes(&self) -> usize {
        self.subjects.len() * size_of::<Arc<BreakdownSubject>>()
            + std::mem::size_of_val(self.used.as_slice())
            + std::mem::size_of_val(self.waited.as_slice())
    }
}
