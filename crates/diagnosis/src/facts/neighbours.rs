//! Programs that take most of a device while others wait for it.
//!
//! What does not belong here: the exact time behind single requests (see `analysis::blame`).

use super::thresholds::MOST;
use super::{Facts, Waited, device_time_ns};
use crate::programs::{self, FileRole};
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{DeviceSummary, Direction, ProcessRow, UsedRow};
use iowhy_model::WaitClass;

/// The least share of a device's bytes of one process among those of its program, and how many
/// times the next one's it must be. Chosen: sessions of one kind do about the same.
const PART: f64 = 0.4;
/// The least share of a device's work, in the order of completions, of a main user. Chosen: half of
/// what its time or bytes must be, since a device that serves many at once completes large requests
/// beside small ones.
const WORK: f64 = MOST / 2.0;
const BY_FAR: u64 = 3;
/// Classes of waits for a device that is busy with somebody's requests: at the device, in its
/// queue, for the kernel to admit their writes, for a journal or for writeback that is behind them.
const BEHIND: &[WaitClass] = &[
    WaitClass::Device,
    WaitClass::Queue,
    WaitClass::Tag,
    WaitClass::PageRead,
    WaitClass::PageFault,
    WaitClass::PageLock,
    WaitClass::Fsync,
    WaitClass::JournalCommit,
    WaitClass::JournalSpace,
    WaitClass::Wbt,
    WaitClass::DirtyThrottle,
    WaitClass::Swap,
];

/// The main user of a device, and those of other programs that wait for the device.
#[derive(Clone, Debug)]
pub struct MainUser<'a> {
    /// The device.
    pub device: &'a DeviceSummary,
    /// The process with most of it.
    pub row: &'a UsedRow<ProcessRow>,
    /// The share of the device's time or bytes, whichever is larger, of all processes of its name
    /// and container; of its work where neither is most.
    pub share: f64,
    /// Whether that is of the device's work, in the order of completions.
    pub is_of_work: bool,
    /// Whether it mostly reads.
    pub reads: bool,
    /// The waits of other programs.
    pub others: Waited<'a>,
}

impl<'a> Facts<'a> {
    /// Returns for each device the program with most of its time, or of what is written to it, and
    /// the waits of others for the device.
    pub fn main_users(&self) -> Vec<MainUser<'a>> {
        let held_ns = |user: &MainUser<'_>| (user.others.time_ns as f64 * user.share) as u64;
        let of_device = |device| {
            let users = [self.main_user_of(device), self.main_process_of(device)];
            users.into_iter().flatten().max_by_key(held_ns)
        };
        self.devices().iter().filter_map(of_device).collect()
    }

    /// Returns the main user for which others wait longest.
    pub fn main_user(&self) -> Option<MainUser<'a>> {
        let held_ns = |user: &MainUser<'_>| (user.others.time_ns as f64 * user.share) as u64;
        self.main_users().into_iter().max_by_key(held_ns)
    }

    /// Returns a process that does by far more than the others of its name, such as a vacuum beside
    /// a database's sessions or another script of the same interpreter, and their waits.
    fn main_process_of(&self, device: &'a DeviceSummary) -> Option<MainUser<'a>> {
        let moved = |row: &UsedRow<ProcessRow>| {
            let directions = &row.usage.directions;
            (directions[Direction::Read].bytes, directions[Direction::Write].bytes)
        };
        let bytes = |row: &UsedRow<ProcessRow>| moved(row).0 + moved(row).1;
        let most = device.users.iter().max_by_key(|row| bytes(row))?;
        let same = device.users.iter().filter(|row| {
            row.subject.process == most.subject.process && row.subject.pid != most.subject.pid
        });
        let next = same.map(&bytes).max()?;
        let all: u64 = device
            .directions
            .0
            .iter()
            .map(|direction| direction.bytes)
            .fold(0, u64::saturating_add);
        let share = bytes(most) as f64 / all.max(1) as f64;
        let others = self.waits(|group| {
            BEHIND.contains(&group.class)
                && self.is_at(group, &device.device)
                && is_same(group, &most.subject)
                && Some(group.pid) != most.subject.pid
        });
        let is_by_far = share >= PART && bytes(most) >= BY_FAR * next;
        let (read, written) = moved(most);
        let name = most.subject.process.as_str();
        let is_known = programs::of(Some(name), None).is_some();
        let reads = read > written;
        let user = MainUser { device, row: most, share, is_of_work: false, reads, others };
        // One session may write the log for all others, which is no work of its own.
        let file = self.main_file(&user)?;
        let is_log = programs::role_of(Some(name), &file) == Some(FileRole::WriteAheadLog);
        // Workers of one program use files of one folder.
        let of_others = user.others.subject().file;
        let is_apart = of_others
            .is_some_and(|other| crate::words::folder(&other) != crate::words::folder(&file));
        let is_another = is_known || programs::is_interpreter(name) && is_apart;
        (is_another && is_by_far && !is_log && user.others.time_ns > 0).then_some(user)
    }

    fn main_user_of(&self, device: &'a DeviceSummary) -> Option<MainUser<'a>> {
        let rows = || device.users.iter().filter(|row| is_program(&row.subject));
        let same = |row: &UsedRow<ProcessRow>| {
            let subject = row.subject.clone();
            rows().filter(move |other| {
                other.subject.process == subject.process
                    && other.subject.container == subject.container
            })
        };
        let all_ns = device_time_ns(device).max(1) as f64;
        let bytes = |row: &UsedRow<ProcessRow>| {
            let directions = &row.usage.directions;
            (directions[Direction::Read].bytes, directions[Direction::Write].bytes)
        };
        let whole: Vec<u64> = [Direction::Read, Direction::Write]
            .map(|direction| device.directions[direction].bytes)
            .to_vec();
        let all_bytes = whole.iter().copied().fold(0_u64, u64::saturating_add).max(1) as f64;
        let share = |row: &UsedRow<ProcessRow>| {
            let time_ns: u64 =
                same(row).map(|other| other.usage.all_time_ns()).fold(0, u64::saturating_add);
            let moved = same(row).map(|other| bytes(other).0.saturating_add(bytes(other).1));
            let moved: u64 = moved.fold(0, u64::saturating_add);
            // Who moves most of the bytes may have its requests alone in flight; where a disk must
            // seek, it is the number of requests that takes the time.
            let of_bytes = if self.rotates(device) { 0.0 } else { moved as f64 / all_bytes };
            // Who waits at the device behind others' requests has long ones, and few are served.
            let of_work = self.work_share(device, &row.subject.process);
            if of_work.is_some_and(|share| share < WORK) {
                return (0.0, false);
            }
            let usual = (time_ns as f64 / all_ns).max(of_bytes).min(1.0);
            match of_work {
                Some(of_work) if usual < MOST && of_work > usual => (of_work, true),
                _ => (usual, false),
            }
        };
        let most = rows().max_by(|a, b| share(a).0.total_cmp(&share(b).0))?;
        let (taken, is_of_work) = share(most);
        let others = self.waits(|group| {
            BEHIND.contains(&group.class)
                && self.is_at(group, &device.device)
                && !is_same(group, &most.subject)
                && !self.is_background(group)
        });
        let (read, written) = bytes(most);
        (taken >= MOST && others.time_ns > 0).then_some(MainUser {
            device,
            row: most,
            share: taken,
            is_of_work,
            reads: read > written,
            others,
        })
    }

    /// Returns the share of a device's work that is for a program, in the order of completions;
    /// `None` if it is not among those with most bytes.
    fn work_share(&self, device: &DeviceSummary, process: &str) -> Option<f64> {
        let patterns = self.patterns(&device.device)?;
        let owner = patterns.owners.iter().find(|owner| owner.process == process)?;
        Some(owner.served_ns as f64 / patterns.served_ns.max(1) as f64)
    }

    /// Whether a wait is for a device, or for a device above it.
    fn is_at(&self, group: &WaitGroup, device: &str) -> bool {
        let on = group.device.as_deref();
        on.is_some_and(|on| on == device || self.stands_on(on, device))
    }

    /// Returns the file that a process writes or reads most, by its calls; `None` without them.
    pub fn main_file(&self, user: &MainUser<'_>) -> Option<String> {
        let rows = self.summary().activity.iter().flat_map(|report| &report.rows);
        let subject = &user.row.subject;
        let own = rows.filter(|row| {
            row.process.as_ref() == Some(&subject.process)
                && subject.pid.is_none_or(|pid| pid == row.pid)
        });
        let moved = |row: &&iowhy_analysis::summary::ActivityRow| match user.reads {
            true => row.counts.read_bytes,
            false => row.counts.write_bytes,
        };
        let most = own.filter(|row| row.file.is_some()).max_by_key(moved)?;
        most.file.clone().filter(|_| moved(&most) > 0)
    }
}

impl MainUser<'_> {
    /// Whether it is a program that serves others, such as a database.
    pub fn is_known(&self) -> bool {
        programs::is_store(&self.row.subject.process, None)
    }
}

/// Whether a row is a program, not a worker of the kernel.
pub fn is_program(row: &ProcessRow) -> bool {
    let name = row.process.as_str();
    !name.is_empty() && !WORKERS.iter().any(|worker| name.starts_with(worker))
}

/// Prefixes of the names of the kernel's threads that do I/O.
const WORKERS: &[&str] = &["kworker", "jbd2", "xfsaild", "btrfs-", "ext4lazyinit", "kswapd"];

fn is_same(group: &WaitGroup, row: &ProcessRow) -> bool {
    let differ =
        row.container.is_some() && group.container.is_some() && row.container != group.container;
    group.process == row.process && !differ
}
