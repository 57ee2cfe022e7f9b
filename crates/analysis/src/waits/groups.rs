//! Blocked time by class and by process, file or code path: `iowhy waits`.
//!
//! What does not belong here: the ledger of a whole watch (see [`super::ledger`]).

use crate::summary::{Measure, Work};
use crate::sums::own_io::is_own_name;
use crate::sums::row_consumers::Pass;
use crate::sums::stacks::telling;
use crate::sums::wait_parts::parts_of;
use crate::waits::work::WorkTally;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Wait, WaitClass};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Maximum number of groups; waits of further ones are aggregated.
const MOST: usize = 4096;
/// Maximum number of listed groups.
const MOST_LISTED: usize = 200;
/// Maximum number of stacks whose functions are kept.
const MOST_STACKS: usize = 1 << 16;

/// The grouping of waits in addition to their class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum GroupWaitsBy {
    /// Nothing else.
    #[default]
    Class,
    /// The process.
    Process,
    /// The file that the system call was given.
    File,
    /// The kernel's functions, innermost first.
    Stack,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum WaitGroupKey {
    Nothing,
    Others,
    Process(u32, Option<Name>),
    File(Option<Name>),
    Stack(Option<u64>),
}

/// A group in words: class, PID, name, whether it is the remainder.
type Text = (&'static str, Option<u32>, Option<String>, bool);

/// Adds up waits as they come.
#[derive(Clone, Debug)]
pub struct WaitGroups {
    by: GroupWaitsBy,
    /// At its limit the others are groups of it, too, one for each class.
    sums: FxHashMap<(WaitGroupKey, WaitClass), Measure>,
    stacks: CappedMap<u64, Box<[Name]>, MOST_STACKS>,
    work: WorkTally,
    blocked_ns: u64,
    kernel_threads_ns: u64,
    censored: u64,
}

/// Blocked time by class and one more key.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Blocked {
    /// Total blocked time of programs' threads, nanoseconds.
    pub blocked_ns: u64,
    /// Waits of the kernel's own threads, nanoseconds: not in the groups.
    pub kernel_threads_ns: u64,
    /// Waits that were open at the beginning or the end of the watch, with their time in it.
    pub censored_waits: u64,
    /// The groups, most time first.
    pub groups: Vec<BlockedGroup>,
    /// Time of groups beyond those listed, nanoseconds.
    pub unlisted_ns: u64,
    /// The reason for which waits are not known, if there is no group; `None` if they are known.
    pub unknown: Option<String>,
}

/// One group of waits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BlockedGroup {
    /// The class of what they waited for, in one word.
    pub class: &'static str,
    /// The process's number.
    pub pid: Option<u32>,
    /// The process, the file, or the functions (innermost first, separated by ` < `); `None` if it
    /// is not distinguished or not known.
    pub name: Option<String>,
    /// Whether it is the remainder.
    pub is_others: bool,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// Its share of all blocked time.
    pub time_share: f64,
    /// Number of waits that contain it.
    pub waits: u64,
    /// Its longest share of one wait, nanoseconds.
    pub longest_ns: u64,
    /// For whom the process works; `None` if it is not known, or processes are not distinguished.
    pub work: Option<Work>,
}

impl WaitGroups {
    /// Waits distinguished by `by`.
    pub fn new(by: GroupWaitsBy) -> WaitGroups {
        WaitGroups {
            by,
            sums: FxHashMap::default(),
            stacks: CappedMap::default(),
            work: WorkTally::default(),
            blocked_ns: 0,
            kernel_threads_ns: 0,
            censored: 0,
        }
    }

    fn add_wait(&mut self, wait: &Wait) {
        let whole = Measure::for_wait(wait, wait.duration_ns);
        if wait.kernel_thread {
            self.kernel_threads_ns = self.kernel_threads_ns.saturating_add(whole.time_ns);
            return;
        }
        if wait.censored {
            self.censored = self.censored.saturating_add(whole.count);
        }
        self.blocked_ns = self.blocked_ns.saturating_add(whole.time_ns);
        let key = match self.by {
            GroupWaitsBy::Class => WaitGroupKey::Nothing,
            GroupWaitsBy::Process => WaitGroupKey::Process(wait.pid, wait.process),
            GroupWaitsBy::File => WaitGroupKey::File(wait.file),
            GroupWaitsBy::Stack => WaitGroupKey::Stack(wait.stack_id),
        };
        for (class, time_ns) in parts_of(wait) {
            let room = self.sums.len() < MOST || self.sums.contains_key(&(key, class));
            let key = if room { key } else { WaitGroupKey::Others };
            self.sums.entry((key, class)).or_default().add_wait(wait, time_ns);
        }
    }

    /// The number and the name of a group.
    fn name_of(&self, key: WaitGroupKey, names: &Names) -> (Option<u32>, Option<String>) {
        let text = |name: Name| names.get(name).to_owned();
        match key {
            WaitGroupKey::Nothing | WaitGroupKey::Others => (None, None),
            WaitGroupKey::Process(pid, name) => (Some(pid), name.map(text)),
            WaitGroupKey::File(file) => (None, file.map(text)),
            WaitGroupKey::Stack(id) => {
                let frames = id.and_then(|id| self.stacks.get(&id));
                let join = |frames: &[Name]| {
                    frames.iter().map(|name| names.get(*name)).collect::<Vec<_>>().join(" < ")
                };
                (None, frames.map(|frames| join(frames)))
            }
        }
    }
}

impl Pass for WaitGroups {
    type Figures = Blocked;

    fn begin(&self, _environment: &Environment) -> WaitGroups {
        WaitGroups::new(self.by)
    }

    fn add(&mut self, batch: &Batch, names: &Names) {
        if self.by == GroupWaitsBy::Stack {
            for stack in batch.stacks.iter().filter(|stack| !stack.user) {
                self.stacks.or_insert_with(stack.stack_id, || telling(stack, names));
            }
        }
        if self.by == GroupWaitsBy::Process {
            self.work.add(batch, names);
        }
        // As in the ledger.
        let others = batch.waits.iter().filter(|wait| !is_own_name(wait.process, names));
        others.for_each(|wait| self.add_wait(wait));
    }

    fn finish(self, environment: &Environment, names: &Names) -> Blocked {
        // Different stacks can have the same functions.
        let mut alike: FxHashMap<Text, Measure> = FxHashMap::default();
        for ((key, class), sum) in &self.sums {
            let (pid, name) = self.name_of(*key, names);
            let group = (class.word(), pid, name, *key == WaitGroupKey::Others);
            alike.entry(group).or_default().add(sum);
        }
        let work = self.work.finish(names);
        let mut groups: Vec<BlockedGroup> = alike
            .into_iter()
            .map(|((class, pid, name, is_others), sum)| BlockedGroup {
                class,
                pid,
                name,
                is_others,
                time_ns: sum.time_ns,
                time_share: sum.time_ns as f64 / self.blocked_ns.max(1) as f64,
                waits: sum.count,
                longest_ns: sum.longest_ns,
                work: pid.and_then(|pid| work.get(&pid)).cloned(),
            })
            .collect();
        let order = |blocked_group: &BlockedGroup| {
            (blocked_group.pid, blocked_group.name.clone(), blocked_group.class)
        };
        groups.compact_sort_by(|a, b| {
            b.time_ns.cmp(&a.time_ns).then_with(|| order(a).cmp(&order(b)))
        });
        let unlisted_ns =
            groups.iter().skip(MOST_LISTED).map(|group| group.time_ns).fold(0, u64::saturating_add);
        groups.truncate(MOST_LISTED);
        let is_empty = self.sums.is_empty() && self.kernel_threads_ns == 0;
        Blocked {
            unknown: environment.unknown_waits().filter(|_| is_empty),
            blocked_ns: self.blocked_ns,
            kernel_threads_ns: self.kernel_threads_ns,
            censored_waits: self.censored,
            groups,
            unlisted_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptSummary;
    use iowhy_model::script::Script;

    #[test]
    fn groups_add_up_to_the_ledger() {
        let mut script = Script::new(1);
        script.wait((7, "cat"), WaitClass::PageRead, 900, 500, 100);
        script.wait((7, "cat"), WaitClass::Fsync, 50, 0, 0);
        script.wait((8, "dd"), WaitClass::PageRead, 300, 300, 0);
        let ledger = script.summary().ledger.unwrap();
        for by in
            [GroupWaitsBy::Class, GroupWaitsBy::Process, GroupWaitsBy::File, GroupWaitsBy::Stack]
        {
            let mut pass = WaitGroups::new(by);
            pass.add(&script.batch, &script.names);
            let found = pass.finish(&script.environment, &script.names);
            let sum: u64 = found.groups.iter().map(|group| group.time_ns).sum();
            assert_eq!((sum, found.blocked_ns), (ledger.blocked_ns, 1_250), "{by:?}");
        }
        let mut pass = WaitGroups::new(GroupWaitsBy::Process);
        pass.add(&script.batch, &script.names);
        let found = pass.finish(&script.environment, &script.names);
        assert_eq!(found.unknown, None);
        let of_cat = found.groups.iter().filter(|group| group.name.as_deref() == Some("cat"));
        assert_eq!(of_cat.map(|group| group.time_ns).sum::<u64>(), 950);
    }

    #[test]
    fn where_waits_are_not_known_nobody_is_said_not_to_have_waited() {
        let unknown = |environment: &Environment| {
            WaitGroups::new(GroupWaitsBy::Class).finish(environment, &Names::new()).unknown
        };
        let whole = Script::new(1).environment;
        assert_eq!(unknown(&whole), None);
        let without = Environment { tables: vec!["requests".to_owned()], ..whole.clone() };
        assert!(unknown(&without).unwrap().contains("no table of waits"));
        let mut lost = whole.clone();
        lost.losses.add("ring", 3, "requests dropped: ring buffer full", true);
        assert_eq!(unknown(&lost), None);
        lost.losses.add("ring/waits", 2, "waits dropped: ring buffer full", false);
        assert_eq!(unknown(&lost).unwrap(), "lost: 2 waits dropped: ring buffer full");
        let imported = Environment { source: Environment::IMPORTED.to_owned(), ..whole };
        assert!(unknown(&imported).unwrap().contains("captures"));
    }
}
