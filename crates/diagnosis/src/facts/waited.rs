//! Waits that a rule has chosen, and their sums.
//!
//! What does not belong here: which waits (see [`super`]), and whose (see [`super::by_program`]).

use crate::subject::Subject;
use iowhy_analysis::summary::patterns::{WaitGroup, Waker};
use iowhy_model::WaitClass;

/// A selection of waits.
#[derive(Clone, Debug, Default)]
pub struct Waited<'a> {
    /// The groups, longest first.
    pub groups: Vec<&'a WaitGroup>,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// The part of it spent in their class, not on requests or waiting for a CPU, nanoseconds.
    pub class_ns: u64,
    /// The number of waits.
    pub waits: u64,
    /// The number of calls that waited: a call that waits several times is one.
    pub calls: u64,
}

impl<'a> Waited<'a> {
    /// Returns the waits of these groups, longest first.
    pub fn from_groups(groups: Vec<&'a WaitGroup>) -> Waited<'a> {
        let sum = |of: fn(&WaitGroup) -> u64| {
            groups.iter().map(|group| of(group)).fold(0_u64, u64::saturating_add)
        };
        let most_within = of_largest_class(&groups);
        Waited {
            time_ns: sum(|group| group.time_ns),
            class_ns: sum(WaitGroup::class_ns),
            waits: sum(|group| group.waits),
            // Of some of the waits of a call, its first may not be one.
            calls: sum(|group| group.calls).max(most_within),
            groups,
        }
    }

    /// Returns the mean time that a call waited, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.time_ns as f64 / self.calls.max(1) as f64
    }

    /// Returns the part of it in which no thread waited for a CPU, nanoseconds.
    pub fn stored_ns(&self) -> u64 {
        let for_cpu = self.groups.iter().map(|group| group.run_queue_ns);
        self.time_ns.saturating_sub(for_cpu.fold(0, u64::saturating_add))
    }

    /// Returns the mean of that part of a call, nanoseconds.
    pub fn mean_stored_ns(&self) -> f64 {
        self.stored_ns() as f64 / self.calls.max(1) as f64
    }

    /// Returns the longest, nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.groups.iter().map(|group| group.longest_ns).max().unwrap_or(0)
    }

    /// Returns the process that waited longest, with its device and file.
    pub fn subject(&self) -> Subject {
        let Some(longest) = self.groups.first() else { return Subject::default() };
        let mut own = self.groups.iter().filter(|group| group.pid == longest.pid);
        let of_device = own.find_map(|group| group.device.clone());
        Subject {
            device: longest.device.clone().or(of_device),
            process: Some(longest.process.clone()),
            pid: Some(longest.pid),
            container: longest.container.clone(),
            file: longest.file.clone(),
        }
    }

    /// Returns the process that ended the longest waits, if it waited itself in the watch.
    pub fn waker(&self) -> Option<&'a Waker> {
        self.groups.first()?.waker.as_ref()
    }

    /// Returns the number of threads of the process that waited longest.
    pub fn threads(&self) -> u64 {
        self.groups.first().map_or(0, |group| group.threads)
    }
}

/// Returns the number of calls with waits in the class that most of them have waits in.
fn of_largest_class(groups: &[&WaitGroup]) -> u64 {
    let mut within: Vec<(WaitClass, u64)> = Vec::new();
    for group in groups {
        match within.iter_mut().find(|class| class.0 == group.class) {
            Some(class) => class.1 += group.calls_within,
            None => within.push((group.class, group.calls_within)),
        }
    }
    within.into_iter().map(|class| class.1).max().unwrap_or(0)
}
