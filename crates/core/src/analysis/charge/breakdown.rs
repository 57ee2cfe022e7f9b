//! Who used which device for which file by which code path, in one table: what is behind a line of
//! any other table. Only on request (`pass::Summarizer::with_breakdown`).
//!
//! What does not belong here: whom a request is charged to (see `attribution`), and how long rows
//! are kept.

use super::attribution::{CodePath, FileKey, ProcessKey, Reason};
use crate::analysis::summary::Measure;
use crate::analysis::summary::{ByDirection, Direction};
use crate::analysis::summary::{CodePathRow, FlowSummary, ProcessRow, Usage, UsedRow};
use crate::analysis::sums::calibration::Calibration;
use crate::analysis::sums::usage_by_key::{Bounded, Charge, UsageSlot};
use crate::analysis::tables::row_maker::RowMaker;
use crate::analysis::waits::ledger::parts_of;
use crate::model::{Name, Origin, Wait, WaitClass};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Keys that are kept while a watch or an interval runs: 1 MiB.
const KEYS: usize = 1 << 12;
/// Rows that are handed out; what the others used is one row for each device.
const ROWS: usize = 400;
const OTHERS: &str = "others, with less time";

/// What rows can be grouped and chosen by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BreakdownAxis {
    /// What a thread waited for; of waits alone.
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

/// What one combination used.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct UsedShare {
    /// Reads, writes, and all others that ended.
    ended: [Measure; 3],
    open: Measure,
}

impl UsedShare {
    fn add(&mut self, other: &UsedShare) {
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

fn place_of(direction: Direction) -> usize {
    DIRECTIONS.iter().position(|it| *it == direction).unwrap_or(DIRECTIONS.len() - 1)
}

/// A combination, each axis by its subject's position; of an axis that it has not, [`NOTHING`].
type Key = [u32; AXES];

const NOTHING: u32 = u32::MAX;

/// Blocked time of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitedRow {
    /// Which it is.
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
    subjects: Vec<Arc<BreakdownSubject>>,
    used: Vec<(Key, UsedShare)>,
    waited: Vec<(Key, Measure)>,
}

impl Breakdown {
    /// What each subject of an axis used of what is `chosen`, most time first.
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
        rows.sort_by_key(|row| std::cmp::Reverse(row.usage.all_time_ns()));
        rows
    }

    /// How long threads of each subject of an axis were blocked within what is `chosen`, longest
    /// first.
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
        rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        rows
    }

    /// Adds up the rows of what is `chosen` by one axis, in the order of the rows.
    fn group<S: Default>(
        &self,
        rows: &[(Key, S)],
        chosen: &[BreakdownSubject],
        by: BreakdownAxis,
        mut add: impl FnMut(&mut S, &S),
    ) -> Vec<(BreakdownSubject, S)> {
        let chosen: Vec<(usize, Vec<u32>)> =
            chosen.iter().map(|it| (it.axis() as usize, self.same_as(it))).collect();
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
        let same = self.subjects.iter().enumerate().filter(|(_, it)| it.is_same(subject));
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

/// A combination that requests are charged to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UsedKey {
    pub owner: Result<ProcessKey, Reason>,
    pub file: Result<FileKey, Reason>,
    pub path: CodePath,
}

/// A combination that waits are charged to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct WaitedKey {
    class: WaitClass,
    process: ProcessKey,
    device: Option<Name>,
    file: Option<Name>,
    stack: CodePath,
}

/// Adds up both as they come.
#[derive(Clone, Debug)]
pub(crate) struct BreakdownTally {
    used: Bounded<UsedKey>,
    waited: FxHashMap<WaitedKey, Measure>,
    /// Waits of keys that did not fit.
    unkept: Measure,
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

    /// All of it in words; `device` names a device by its position.
    pub fn finish(&self, rows: &RowMaker, device: impl Fn(usize) -> String) -> Breakdown {
        let mut maker = Maker { rows, index: FxHashMap::default(), made: Breakdown::default() };
        let mut slots: Vec<&UsageSlot<UsedKey>> = self.used.rows().iter().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.used.time_ns()));
        let (listed, rest) = slots.split_at(slots.len().min(ROWS));
        for slot in listed {
            let key = maker.used_key(&device(slot.device_layer.device()), &slot.key);
            maker.made.used.push((key, share(&slot.used)));
        }
        let mut others: FxHashMap<usize, UsedShare> = FxHashMap::default();
        let unlisted = rest.iter().map(|slot| (slot.device_layer, &slot.used));
        let moved = self.used.aggregated().map(|(place, all)| (place, &all.used));
        for (place, used) in unlisted.chain(moved) {
            others.entry(place.device()).or_default().add(&share(used));
        }
        others.retain(|_, used| *used != UsedShare::default());
        for (slot, used) in others {
            let key = maker.others_key(Some(&device(slot)));
            maker.made.used.push((key, used));
        }
        self.finish_waits(&mut maker);
        maker.made
    }

    fn finish_waits(&self, maker: &mut Maker) {
        let mut waited: Vec<(&WaitedKey, &Measure)> = self.waited.iter().collect();
        waited.sort_by_key(|(key, sum)| (std::cmp::Reverse(sum.time_ns), key.process.pid));
        let (listed, rest) = waited.split_at(waited.len().min(ROWS));
        for (key, sum) in listed {
            let key = maker.waited_key(key);
            maker.made.waited.push((key, **sum));
        }
        let mut others = self.unkept;
        rest.iter().for_each(|(_, sum)| others.add(sum));
        if others != Measure::default() {
            let key = maker.others_key(None);
            maker.made.waited.push((key, others));
        }
    }
}

fn share(used: &crate::analysis::sums::usage_by_key::Used) -> UsedShare {
    let mut share = UsedShare { open: used.open, ..UsedShare::default() };
    for (direction, ended) in used.ended.iter() {
        share.ended[place_of(direction)].add(ended);
    }
    share
}

/// Keeps each subject once.
struct Maker<'a> {
    rows: &'a RowMaker<'a>,
    index: FxHashMap<Arc<BreakdownSubject>, u32>,
    made: Breakdown,
}

impl Maker<'_> {
    fn subject(&mut self, subject: BreakdownSubject) -> u32 {
        if let Some(known) = self.index.get(&subject) {
            return *known;
        }
        let subject = Arc::new(subject);
        let slot = self.made.subjects.len() as u32;
        self.made.subjects.push(Arc::clone(&subject));
        self.index.insert(subject, slot);
        slot
    }

    fn none(&mut self, axis: BreakdownAxis, reason: &str) -> u32 {
        self.subject(BreakdownSubject::None(axis, reason.to_owned()))
    }

    fn used_key(&mut self, device: &str, key: &UsedKey) -> Key {
        let file = match key.file {
            Ok(FileKey { path, deleted }) => {
                self.subject(BreakdownSubject::File { file: self.rows.text(path), deleted })
            }
            Err(reason) => self.none(BreakdownAxis::File, self.rows.reason(reason)),
        };
        let (process, unit) = match key.owner {
            Ok(owner) => self.process(self.rows.process(owner)),
            Err(reason) => {
                let axes = [BreakdownAxis::Process, BreakdownAxis::Unit];
                axes.map(|axis| self.none(axis, self.rows.reason(reason))).into()
            }
        };
        let device = self.subject(BreakdownSubject::Device(device.to_owned()));
        [NOTHING, device, process, file, self.path(key.path), unit]
    }

    fn waited_key(&mut self, key: &WaitedKey) -> Key {
        let class = self.subject(BreakdownSubject::Class(key.class.word()));
        let device = match key.device {
            Some(device) => self.subject(BreakdownSubject::Device(self.rows.text(device))),
            None => self.none(BreakdownAxis::Device, "no device known"),
        };
        let (process, unit) = self.process(self.rows.process(key.process));
        let file = match key.file {
            Some(file) => {
                let file = self.rows.text(file);
                self.subject(BreakdownSubject::File { file, deleted: false })
            }
            None => self.none(BreakdownAxis::File, "no file in the system call"),
        };
        [class, device, process, file, self.path(key.stack), unit]
    }

    /// A process, and the unit that it is in.
    fn process(&mut self, row: ProcessRow) -> (u32, u32) {
        let unit = match &row.container {
            Some(unit) => self.subject(BreakdownSubject::Unit(unit.clone())),
            None => self.none(BreakdownAxis::Unit, "no unit known"),
        };
        (self.subject(BreakdownSubject::Process(row)), unit)
    }

    fn path(&mut self, path: CodePath) -> u32 {
        match (path.kernel, path.user) {
            (None, None) => self.none(BreakdownAxis::CodePath, "no stack taken"),
            _ => self.subject(BreakdownSubject::CodePath(self.rows.code_path(&path))),
        }
    }

    fn others_key(&mut self, device: Option<&str>) -> Key {
        let class = match device {
            Some(_) => NOTHING,
            None => self.none(BreakdownAxis::Class, OTHERS),
        };
        let device = match device {
            Some(device) => self.subject(BreakdownSubject::Device(device.to_owned())),
            None => self.none(BreakdownAxis::Device, OTHERS),
        };
        let axes = [
            BreakdownAxis::Process,
            BreakdownAxis::File,
            BreakdownAxis::CodePath,
            BreakdownAxis::Unit,
        ];
        let [process, file, path, unit] = axes.map(|axis| self.none(axis, OTHERS));
        [class, device, process, file, path, unit]
    }
}

/// The code path of a wait: no request has it.
pub(crate) fn of_wait(
    kernel: Option<crate::analysis::sums::stacks::StackRef>,
    user: Option<crate::analysis::sums::stacks::StackRef>,
) -> CodePath {
    CodePath { origin: Origin::Unknown, process: None, kernel, user }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pass::Summarizer;
    use crate::analysis::summary::Summary;
    use crate::script::Script;

    fn summary(script: &Script) -> (Summary, Breakdown) {
        let mut summarizer = Summarizer::new(&script.environment).with_breakdown();
        summarizer.add(&script.batch, &script.names);
        let mut summary = summarizer.finish(&script.environment, &script.names);
        let breakdown = summary.breakdown.take().unwrap();
        assert_eq!(summary, script.summary(), "nothing else depends on it");
        (summary, breakdown)
    }

    fn times(rows: &[UsedRow<BreakdownSubject>]) -> u64 {
        rows.iter().map(|row| row.usage.all_time_ns()).sum()
    }

    #[test]
    fn what_is_behind_a_line_adds_up_to_it() {
        let mut script = Script::new(10);
        for (device, pid, file) in
            [("sda", 1, "/a"), ("sda", 1, "/b"), ("sda", 2, "/a"), ("sdb", 2, "/c")]
        {
            let draft = script.read(device, 4096).by(pid, "cat").file(file);
            draft.stacks(&["vfs_read"], &[file], 1).direct(0, 0, 1_000 * u64::from(pid)).add();
        }
        script.write("sda", 512).by(1, "cat").file("/a").direct(0, 0, 7).add();
        let (summary, breakdown) = summary(&script);
        let devices = breakdown.used(&[], BreakdownAxis::Device);
        assert_eq!(times(&devices), summary.watch.time_ns);
        let mut opened = Vec::new();
        let mut rows = devices;
        for axis in [BreakdownAxis::Process, BreakdownAxis::File, BreakdownAxis::CodePath] {
            let first = rows.remove(0);
            opened.push(first.subject);
            rows = breakdown.used(&opened, axis);
            assert_eq!(times(&rows), first.usage.all_time_ns(), "{axis:?}");
            let shares: f64 = rows.iter().map(|row| row.usage.time_share).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{axis:?}: {shares}");
        }
        assert_eq!(breakdown.used(&opened[..1], BreakdownAxis::Process).len(), 2);
        assert!(
            matches!(&rows[0].subject, BreakdownSubject::CodePath(it) if it.kernel == ["vfs_read"])
        );
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let mut script = Script::new(10);
        for index in 0..3 * KEYS as u32 {
            let draft = script.read("sda", 4096).by(index + 1, "cat");
            draft.file(&format!("/{index}")).direct(0, 0, 1_000).add();
        }
        let (summary, breakdown) = summary(&script);
        let files = breakdown.used(&[], BreakdownAxis::File);
        assert!(files.len() <= ROWS + 1, "{} rows", files.len());
        assert_eq!(times(&files), summary.watch.time_ns);
        let others = BreakdownSubject::None(BreakdownAxis::File, OTHERS.to_owned());
        assert!(files.iter().any(|row| row.subject == others));
    }

    #[test]
    fn waits_add_up_to_the_ledger() {
        let mut script = Script::new(10);
        script.wait((7, "cat"), WaitClass::PageRead, 100, 60, 15);
        script.wait((8, "dd"), WaitClass::PageRead, 40, 0, 0);
        let (summary, breakdown) = summary(&script);
        let ledger = summary.ledger.unwrap();
        let classes = breakdown.waited(&[], BreakdownAxis::Class);
        for (row, class) in classes.iter().zip(&ledger.classes) {
            assert_eq!((row.time_ns, row.waits), (class.time_ns, class.waits), "{row:?}");
        }
        let opened = [BreakdownSubject::Class("page_read")];
        let processes = breakdown.waited(&opened, BreakdownAxis::Process);
        assert_eq!(processes.iter().map(|row| row.time_ns).collect::<Vec<_>>(), [40, 25]);
    }
}
