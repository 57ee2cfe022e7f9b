//! The ledger of cells, and what findings claim of it.
//!
//! Every nanosecond of every wait of a program stands in one cell: the waits of one process, class,
//! device and system call (a [`WaitGroup`]), split by the place where the time passed. The cells
//! add up to the waits. A finding claims cells, each up to its time; what two findings claim alike
//! is decided by their places (see [`super::rank`]). Time behind a thread that waits for storage is
//! a cell of its own, and so is time that a process spends in calls on files without waiting: they
//! are not part of the waits.
//!
//! What does not belong here: which finding comes first (see [`super::rank`]).

use super::facts::{Facts, Gain, Waited};
use iowhy_analysis::summary::ChainRow;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// A process's name, and the container that it runs in.
type ProgramOfContainer<'a> = (&'a str, Option<&'a str>);

/// Classes of waits for requests, also where it is not known for which.
const FOR_REQUESTS: &[WaitClass] = &[
    WaitClass::PageRead,
    WaitClass::PageFault,
    WaitClass::Fsync,
    WaitClass::Swap,
    WaitClass::Tag,
    WaitClass::Wbt,
    WaitClass::Unknown,
];

/// The part of a wait that a cell holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Segment {
    /// At the place that the wait's class names: a lock, a limit, a journal.
    Class,
    /// In the block layer's queue.
    Queue,
    /// In the driver and the device.
    Device,
    /// Runnable and waiting for a CPU.
    Cpu,
}

/// Identifies a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cell {
    /// A segment of a group of waits.
    Wait(u32, Segment),
    /// Threads behind a thread that waits: the place of a chain in its list.
    Chain(u32),
    /// Calls on files of a process, of which no part is a wait.
    Calls(u32),
    /// Time of a process that its cgroup's CPU limit holds back, of which no part is a wait.
    HeldBack(u32),
    /// The requests of a device, by its place in the list; for time that no program waits for.
    Requests(u32),
}

/// Cells with the time that is claimed of each, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    cells: BTreeMap<Cell, u64>,
}

impl Claims {
    /// Returns all of these waits.
    pub fn of_waits(waited: &Waited<'_>) -> Claims {
        waited.groups.iter().flat_map(|group| segments(group)).collect()
    }

    /// Returns the part of these waits that their class takes, without requests and the CPU.
    pub fn of_class(waited: &Waited<'_>) -> Claims {
        let all = waited.groups.iter().flat_map(|group| segments(group));
        all.filter(|(cell, _)| matches!(cell, Cell::Wait(_, Segment::Class))).collect()
    }

    /// Returns the part of these waits that passed at their device or in its queue.
    pub fn of_requests(waited: &Waited<'_>) -> Claims {
        let groups = waited.groups.iter();
        let cells = groups.flat_map(|group| segments(group).map(|cell| (group.class, cell)));
        let of_requests = cells.filter(|(class, (cell, _))| match cell {
            Cell::Wait(_, Segment::Queue | Segment::Device) => true,
            Cell::Wait(_, Segment::Class) => FOR_REQUESTS.contains(class),
            _ => false,
        });
        of_requests.map(|(_, cell)| cell).collect()
    }

    /// Returns the part of these waits that passed at their device.
    pub fn of_service(waited: &Waited<'_>) -> Claims {
        let all = waited.groups.iter().flat_map(|group| segments(group));
        all.filter(|(cell, _)| matches!(cell, Cell::Wait(_, Segment::Device))).collect()
    }

    /// Returns some of the time of a device's requests, whether or not a program waits for it.
    pub fn of_own_requests(facts: &Facts<'_>, name: &str, time_ns: u64) -> Claims {
        let own = facts.devices().iter().zip(0..).filter(|(row, _)| row.device == name);
        own.map(|(_, place)| (Cell::Requests(place), time_ns)).collect()
    }

    /// Returns time in which a process was in calls on files without waiting.
    pub fn of_calls(pid: u32, time_ns: u64) -> Claims {
        [(Cell::Calls(pid), time_ns)].into_iter().collect()
    }

    /// Returns time in which the CPU limit of its cgroup held a process back outside its waits.
    pub fn of_held_back(pid: u32, time_ns: u64) -> Claims {
        [(Cell::HeldBack(pid), time_ns)].into_iter().collect()
    }

    /// Returns the part of these waits in which their threads were ready and had no CPU.
    pub fn of_cpu(waited: &Waited<'_>) -> Claims {
        let all = waited.groups.iter().flat_map(|group| segments(group));
        all.filter(|(cell, _)| matches!(cell, Cell::Wait(_, Segment::Cpu))).collect()
    }

    /// Returns the requests of a device: what programs wait for at it, and the requests themselves.
    pub fn of_device(facts: &Facts<'_>, name: &str) -> Claims {
        Claims::of_device_for(facts, name, |_| true)
    }

    /// The same of what some programs wait for.
    pub fn of_device_for(
        facts: &Facts<'_>,
        name: &str,
        counts: impl Fn(&WaitGroup) -> bool,
    ) -> Claims {
        // A layer without a queue, such as the device mapper, hands its requests down.
        let is_layer = facts.devices().iter().any(|row| row.device == name && row.bio_based);
        let waited = facts.waits(|group| {
            counts(group)
                && group.device.as_deref().is_some_and(|on| {
                    on == name || facts.stands_on(on, name) || is_layer && facts.stands_on(name, on)
                })
        });
        let own = facts.devices().iter().zip(0..).filter(|(row, _)| row.device == name);
        let requests =
            own.map(|(row, place)| (Cell::Requests(place), super::facts::device_time_ns(row)));
        Claims::of_requests(&waited).and(&requests.collect())
    }

    /// Returns the time that threads waited behind the end of these chains, without what is part of
    /// the waits already.
    pub fn of_chains<'a>(facts: &Facts<'a>, fits: impl Fn(&ChainRow) -> bool) -> Claims {
        let rows = facts.chains();
        let fitting = rows.zip(0..).filter(|(row, _)| !row.is_in_ledger && fits(row));
        fitting.map(|(row, place)| (Cell::Chain(place), row.time_ns)).collect()
    }

    /// Returns both together; of a cell that both claim, the larger part.
    #[must_use]
    pub fn and(mut self, other: &Claims) -> Claims {
        for (cell, time_ns) in &other.cells {
            let own = self.cells.entry(*cell).or_default();
            *own = (*own).max(*time_ns);
        }
        self
    }

    /// Returns the claims cut down to `share` of each cell.
    #[must_use]
    pub fn scaled(mut self, share: f64) -> Claims {
        let share = share.clamp(0.0, 1.0);
        self.cells.values_mut().for_each(|time_ns| *time_ns = (*time_ns as f64 * share) as u64);
        self
    }

    /// Returns the claims cut down to a total of `time_ns` of what programs waited.
    #[must_use]
    pub fn limited_to(self, time_ns: u64) -> Claims {
        let all = self.waited_ns();
        if all <= time_ns { self } else { self.scaled(time_ns as f64 / all as f64) }
    }

    /// Whether all that is claimed is time without a CPU, of which storage takes none.
    pub fn are_of_cpu(&self) -> bool {
        !self.is_empty()
            && self
                .times()
                .all(|(cell, _)| matches!(cell, Cell::Wait(_, Segment::Cpu) | Cell::HeldBack(_)))
    }

    /// Whether nothing is claimed.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the claimed time of programs' threads, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.times()
            .filter(|(cell, _)| !cell.is_of_requests())
            .map(|time| time.1)
            .fold(0, u64::saturating_add)
    }

    /// Returns the claimed time of programs' threads, or of requests where no thread waits,
    /// nanoseconds.
    pub fn weight_ns(&self) -> u64 {
        match self.waited_ns() {
            0 => self.cells.values().sum(),
            waited_ns => waited_ns,
        }
    }

    /// Returns the time that both claim, nanoseconds, and all that `self` claims; of requests if
    /// one of them claims no waits.
    pub fn shared_with(&self, other: &Claims) -> (u64, u64) {
        let by_waits = self.waited_ns() > 0 && other.waited_ns() > 0;
        let counts = |cell: &Cell| cell.is_of_requests() != by_waits;
        let both = self.times().filter(|(cell, _)| counts(cell)).map(|(cell, time_ns)| {
            other.cells.get(&cell).map_or(0, |others_ns| time_ns.min(*others_ns))
        });
        let own = self.times().filter(|(cell, _)| counts(cell)).map(|time| time.1);
        (both.fold(0, u64::saturating_add), own.fold(0, u64::saturating_add))
    }

    /// Returns what is left of the claims without those of `other`.
    #[must_use]
    pub fn without(mut self, other: &Claims) -> Claims {
        for (cell, time_ns) in &mut self.cells {
            *time_ns = time_ns.saturating_sub(other.cells.get(cell).copied().unwrap_or(0));
        }
        self.cells.retain(|_, time_ns| *time_ns > 0);
        self
    }

    /// Returns the claimed waits, each with its time, nanoseconds; one for each segment.
    fn waits<'a>(&self, facts: &Facts<'a>) -> impl Iterator<Item = (&'a WaitGroup, u64)> {
        let waits = &facts.summary().patterns.waits;
        self.cells.iter().filter_map(move |(cell, time_ns)| {
            let Cell::Wait(group, _) = cell else { return None };
            // Of a part of the watch some are missing; the rest is in order.
            let place = waits.binary_search_by_key(&Some(*group), |group| group.cell).ok()?;
            Some((waits.get(place)?, *time_ns))
        })
    }

    /// Returns the share of the claimed waits that fits; 0 if no waits are claimed.
    pub fn share_of_waits(&self, facts: &Facts<'_>, fits: impl Fn(&WaitGroup) -> bool) -> f64 {
        let (mut all_ns, mut own_ns) = (0_u64, 0_u64);
        for (group, time_ns) in self.waits(facts) {
            all_ns = all_ns.saturating_add(time_ns);
            own_ns = own_ns.saturating_add(if fits(group) { time_ns } else { 0 });
        }
        own_ns as f64 / all_ns.max(1) as f64
    }

    /// Returns the program that would gain most without the claimed cells: by the mean number of
    /// its threads that are blocked in them, at most 1, without what it would not gain. `None` if
    /// no program that counts waits in them.
    pub fn gain(&self, facts: &Facts<'_>, counts: impl Fn(&WaitGroup) -> bool) -> Option<Gain> {
        let mut lost: BTreeMap<ProgramOfContainer<'_>, (u64, BTreeSet<u32>)> = BTreeMap::new();
        for (group, time_ns) in self.waits(facts).filter(|(group, _)| counts(group)) {
            let gained_ns = (time_ns as f64 * facts.gained_share(group)) as u64;
            let (lost_ns, pids) =
                lost.entry((&group.process, group.container.as_deref())).or_default();
            *lost_ns = lost_ns.saturating_add(gained_ns);
            pids.insert(group.pid);
        }
        let share = |ns: u64| ns as f64 / facts.duration_ns().max(1) as f64;
        let most = lost.into_iter().max_by_key(|(_, (ns, _))| *ns);
        let most = most.map(|((process, _), (ns, pids))| {
            Gain::new(facts, Some(process), share(ns), pids.len() as u64)
        });
        let chained = self.gain_of_chain(facts);
        most.into_iter().chain(chained).max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// Returns the program whose threads are longest behind another thread, each.
    fn gain_of_chain(&self, facts: &Facts<'_>) -> Option<Gain> {
        let rows = facts.summary().chains.as_ref().map_or(&[][..], |chains| &chains.rows);
        let gains = self.cells.iter().filter_map(|(cell, time_ns)| {
            let Cell::Chain(place) = cell else { return None };
            let first = rows.get(*place as usize)?.steps.first()?;
            let each_ns = *time_ns as f64 / first.threads.max(1) as f64;
            let share = each_ns / facts.duration_ns().max(1) as f64;
            Some(Gain::new(facts, Some(&first.process), share, 0))
        });
        gains.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    fn times(&self) -> impl Iterator<Item = (Cell, u64)> {
        self.cells.iter().map(|(cell, time_ns)| (*cell, *time_ns))
    }
}

impl FromIterator<(Cell, u64)> for Claims {
    fn from_iter<I: IntoIterator<Item = (Cell, u64)>>(cells: I) -> Claims {
        Claims { cells: cells.into_iter().filter(|(_, time_ns)| *time_ns > 0).collect() }
    }
}

impl Cell {
    fn is_of_requests(self) -> bool {
        matches!(self, Cell::Requests(..))
    }
}

/// Returns the cells of a group of waits, which add up to its time; none for those of kernel
/// threads, which work for others.
fn segments(group: &WaitGroup) -> impl Iterator<Item = (Cell, u64)> {
    // What is left of a wait for requests is for them, too.
    let (device_ns, queue_ns, class_ns) = match group.class {
        WaitClass::Device => (group.device_ns + group.class_ns(), group.queue_ns, 0),
        WaitClass::Queue => (group.device_ns, group.queue_ns + group.class_ns(), 0),
        _ => (group.device_ns, group.queue_ns, group.class_ns()),
    };
    let parts = [
        (Segment::Class, class_ns),
        (Segment::Queue, queue_ns),
        (Segment::Device, device_ns),
        (Segment::Cpu, group.run_queue_ns),
    ];
    let cell = group.cell;
    parts
        .into_iter()
        .filter_map(move |(segment, time_ns)| Some((Cell::Wait(cell?, segment), time_ns)))
}
