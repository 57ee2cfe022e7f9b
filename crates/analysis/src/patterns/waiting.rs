//! Waits by process, class, device and system call, separately for programs and kernel threads.

use super::calls::CallTally;
use crate::summary::Measure;
use crate::summary::patterns::{WAIT_STACKS, WaitGroup, WaitStack, Waker};
use crate::sums::stacks::{StackRef, StackTable};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Wait, WaitClass};
use rustc_hash::FxHashMap;

/// Maximum number of groups; waits of further ones belong to the group without a process.
const GROUPS: usize = 4096;
/// Maximum number of distinct threads of a group.
const THREADS: usize = 256;
/// Maximum number of stacks while summing.
const ALL_STACKS: usize = 4096;
/// Run queue delay from which a thread counts as delayed: longer than a slice of the scheduler
/// (base_slice_ns is 2.8 ms and less). Shorter delays are usual on a busy machine.
const STARVED_NS: u64 = 3_000_000;
/// Maximum distance of waits of one thread in one system call that count as one call: a sync that
/// waits for pages, then for a commit, hardly runs in between. Chosen.
const PAUSE_NS: u64 = 10_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct WaiterKey {
    pid: u32,
    process: Option<Name>,
    class: WaitClass,
    device: Option<Name>,
    syscall: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct WaiterGroup {
    container: Option<Name>,
    cgroup: Option<Name>,
    waited: Measure,
    device_ns: u64,
    queue_ns: u64,
    run_queue_ns: u64,
    starved_ns: u64,
    beside_ns: u64,
    censored: u64,
    bouts: u64,
    calls: u64,
    calls_within: u64,
    threads: Vec<WaitingThread>,
    file: Vote<Option<Name>>,
    wakers: Vec<WakerTime>,
}

/// Time that a thread ended.
#[derive(Clone, Copy, Debug)]
struct WakerTime {
    tid: u32,
    time_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct WaitingThread {
    tid: u32,
    since_ns: u64,
    until_ns: u64,
    time_ns: u64,
}

impl WaiterGroup {
    /// Records the owner of a wait, and whether it continues the previous one.
    fn follow(&mut self, wait: &Wait) {
        let until_ns = wait.start_ns.saturating_add(wait.duration_ns);
        let time_ns = Measure::for_wait(wait, wait.duration_ns).time_ns;
        match self.threads.iter_mut().find(|thread| thread.tid == wait.tid) {
            Some(thread) => {
                let pause = wait.start_ns.saturating_sub(thread.until_ns);
                self.bouts += u64::from(pause > PAUSE_NS);
                thread.until_ns = thread.until_ns.max(until_ns);
                thread.time_ns = thread.time_ns.saturating_add(time_ns);
            }
            None => {
                self.bouts += 1;
                if self.threads.len() < THREADS {
                    let since_ns = wait.start_ns;
                    let thread = WaitingThread { tid: wait.tid, since_ns, until_ns, time_ns };
                    self.threads.push(thread);
                }
            }
        }
    }

    fn note_waker(&mut self, tid: u32, time_ns: u64) {
        let is_room = self.wakers.len() < THREADS;
        match self.wakers.iter_mut().find(|waker| waker.tid == tid) {
            Some(waker) => waker.time_ns = waker.time_ns.saturating_add(time_ns),
            None if is_room => self.wakers.push(WakerTime { tid, time_ns }),
            None => {}
        }
    }

    /// Returns the program that ended the majority of the time, and its process that ended most.
    fn waker(&self, known: &FxHashMap<u32, (u32, Name)>) -> Option<(u32, Name)> {
        let mut by_name: Vec<(Name, u64, WakerTime)> = Vec::new();
        for waker in &self.wakers {
            let Some((_, name)) = known.get(&waker.tid) else { continue };
            match by_name.iter_mut().find(|(other, ..)| other == name) {
                Some((_, time_ns, most)) => {
                    *time_ns = time_ns.saturating_add(waker.time_ns);
                    if waker.time_ns > most.time_ns {
                        *most = *waker;
                    }
                }
                None => by_name.push((*name, waker.time_ns, *waker)),
            }
        }
        let (name, time_ns, most) = by_name.into_iter().max_by_key(|(_, time_ns, _)| *time_ns)?;
        let (pid, _) = known.get(&most.tid)?;
        (time_ns > self.waited.time_ns / 2).then_some((*pid, name))
    }

    /// Returns the thread that waited longest.
    fn foremost(&self) -> Option<&WaitingThread> {
        self.threads.iter().max_by_key(|thread| thread.time_ns)
    }

    fn add(&mut self, wait: &Wait) {
        self.container = self.container.or(wait.container);
        self.cgroup = self.cgroup.or(wait.cgroup);
        let of = |part_ns: u64| Measure::for_wait(wait, part_ns);
        let add = |sum: &mut u64, ns: u64| *sum = sum.saturating_add(of(ns).time_ns);
        let whole = of(wait.duration_ns);
        self.waited.add(&whole);
        add(&mut self.device_ns, wait.device_ns);
        add(&mut self.queue_ns, wait.queue_ns);
        add(&mut self.run_queue_ns, wait.run_queue_ns);
        if wait.run_queue_ns >= STARVED_NS {
            add(&mut self.starved_ns, wait.run_queue_ns);
        }
        add(&mut self.beside_ns, wait.cpu_wait_before_ns.unwrap_or(0));
        if wait.censored {
            self.censored = self.censored.saturating_add(whole.count);
        }
        self.follow(wait);
        self.file.add(wait.file, whole.time_ns);
        if let Some(tid) = wait.waker_tid {
            self.note_waker(tid, whole.time_ns);
        }
    }
}

/// The value with the majority of the time, if there is one (Boyer and Moore's vote).
#[derive(Clone, Copy, Debug, Default)]
struct Vote<T> {
    value: T,
    votes: u64,
}

impl<T: PartialEq + Copy> Vote<T> {
    fn add(&mut self, value: T, weight: u64) {
        if value == self.value {
            self.votes = self.votes.saturating_add(weight);
        } else if self.votes > weight {
            self.votes -= weight;
        } else {
            *self = Vote { value, votes: weight - self.votes };
        }
    }
}

/// The waits of one stack.
#[derive(Clone, Copy, Debug, Default)]
struct OfStack {
    waited: Measure,
    process: Vote<(Option<Name>, Option<Name>)>,
    pid: Vote<u32>,
    device: Vote<Option<Name>>,
    file: Vote<Option<Name>>,
    syscall: Vote<Option<u32>>,
}

impl OfStack {
    fn add(&mut self, wait: &Wait) {
        let whole = Measure::for_wait(wait, wait.duration_ns);
        let time_ns = whole.time_ns;
        self.waited.add(&whole);
        self.process.add((wait.process, wait.container), time_ns);
        self.pid.add(wait.pid, time_ns);
        self.device.add(wait.device, time_ns);
        self.file.add(wait.file, time_ns);
        self.syscall.add(wait.syscall, time_ns);
    }
}

/// Adds up waits as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingTally {
    programs: WaiterSide,
    kernel: WaiterSide,
}

impl WaitingTally {
    pub fn add(&mut self, wait: &Wait, stacks: &StackTable) {
        let side = if wait.kernel_thread { &mut self.kernel } else { &mut self.programs };
        side.add(wait, stacks);
    }

    /// The waits of programs.
    pub fn programs(&self, names: &Names, stacks: &StackTable) -> (Vec<WaitGroup>, Vec<WaitStack>) {
        let (mut groups, stacks) = self.programs.finish(&self.wakers(), names, stacks);
        groups.iter_mut().zip(0..).for_each(|(group, cell)| group.cell = Some(cell));
        (groups, stacks)
    }

    /// The waits of the kernel's own threads.
    pub fn kernel(&self, names: &Names, stacks: &StackTable) -> (Vec<WaitGroup>, Vec<WaitStack>) {
        self.kernel.finish(&FxHashMap::default(), names, stacks)
    }

    /// The processes of threads that waited themselves, by thread.
    fn wakers(&self) -> FxHashMap<u32, (u32, Name)> {
        let groups = self.programs.groups.iter().chain(&self.kernel.groups);
        let threads = groups.flat_map(|(key, group)| {
            group.threads.iter().filter_map(|thread| Some((thread.tid, (key.pid, key.process?))))
        });
        threads.collect()
    }
}

/// The waits of programs, or of the kernel's threads.
#[derive(Clone, Debug, Default)]
struct WaiterSide {
    calls: CallTally,
    groups: FxHashMap<WaiterKey, WaiterGroup>,
    stacks: FxHashMap<(WaitClass, StackRef), OfStack>,
}

impl WaiterSide {
    fn add(&mut self, wait: &Wait, stacks: &StackTable) {
        let Wait { pid, process, class, device, syscall, .. } = *wait;
        let mut key = WaiterKey { pid, process, class, device, syscall };
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            key = WaiterKey { pid: 0, process: None, class, device: None, syscall: None };
        }
        let part = self.calls.part(wait);
        let group = self.groups.entry(key).or_default();
        group.add(wait);
        let count = |is: bool| if is { Measure::for_wait(wait, 0).count } else { 0 };
        group.calls = group.calls.saturating_add(count(part.begins));
        group.calls_within = group.calls_within.saturating_add(count(part.enters));
        let Some(stack) = stacks.find(wait.stack_id, false) else { return };
        let key = (class, stack);
        if self.stacks.len() < ALL_STACKS || self.stacks.contains_key(&key) {
            self.stacks.entry(key).or_default().add(wait);
        }
    }

    fn finish(
        &self,
        wakers: &FxHashMap<u32, (u32, Name)>,
        names: &Names,
        stacks: &StackTable,
    ) -> (Vec<WaitGroup>, Vec<WaitStack>) {
        let text = |name: Option<Name>| name.map(|name| names.get(name).to_owned());
        let waker = |group: &WaiterGroup| {
            let (pid, name) = group.waker(wakers)?;
            Some(Waker { pid, process: names.get(name).to_owned() })
        };
        let mut groups: Vec<WaitGroup> = self
            .groups
            .iter()
            .map(|(key, group)| WaitGroup {
                pid: key.pid,
                process: text(key.process).unwrap_or_default(),
                container: text(group.container),
                cgroup: text(group.cgroup),
                class: key.class,
                device: text(key.device),
                syscall: key.syscall,
                file: text(group.file.value),
                waker: waker(group),
                waits: group.waited.count,
                threads: group.threads.len() as u64,
                bouts: group.bouts,
                calls: group.calls,
                calls_within: group.calls_within,
                foremost_ns: group.foremost().map_or(0, |thread| thread.time_ns),
                is_main_foremost: group.foremost().is_some_and(|thread| thread.tid == key.pid),
                span_ns: group
                    .foremost()
                    .map_or(0, |thread| thread.until_ns.saturating_sub(thread.since_ns)),
                time_ns: group.waited.time_ns,
                device_ns: group.device_ns,
                queue_ns: group.queue_ns,
                run_queue_ns: group.run_queue_ns,
                starved_ns: group.starved_ns,
                beside_ns: group.beside_ns,
                longest_ns: group.waited.longest_ns,
                censored: group.censored,
                cell: None,
            })
            .collect();
        groups.compact_sort_by(|a, b| {
            b.time_ns.cmp(&a.time_ns).then_with(|| order(a).cmp(&order(b)))
        });
        (groups, self.stacks(names, stacks))
    }

    fn stacks(&self, names: &Names, stacks: &StackTable) -> Vec<WaitStack> {
        let text = |name: Option<Name>| name.map(|name| names.get(name).to_owned());
        let functions = |stack: &StackRef| -> Vec<String> {
            let frames = stacks.get(*stack).map(|list| &list.frames[..]).unwrap_or_default();
            frames.iter().map(|name| names.get(*name).to_owned()).collect()
        };
        let mut found: Vec<WaitStack> = self
            .stacks
            .iter()
            .map(|((class, stack), of)| WaitStack {
                class: *class,
                functions: functions(stack),
                waits: of.waited.count,
                time_ns: of.waited.time_ns,
                longest_ns: of.waited.longest_ns,
                process: text(of.process.value.0),
                container: text(of.process.value.1),
                pid: (of.pid.value > 0).then_some(of.pid.value),
                device: text(of.device.value),
                file: text(of.file.value),
                syscall: of.syscall.value,
            })
            .collect();
        found.compact_sort_by(|a, b| {
            let order =
                |wait_stack: &WaitStack| (std::cmp::Reverse(wait_stack.time_ns), wait_stack.class);
            order(a).cmp(&order(b)).then_with(|| a.functions.cmp(&b.functions))
        });
        found.truncate(WAIT_STACKS);
        found
    }
}

/// The order of groups with equal times.
fn order(group: &WaitGroup) -> (u32, &str, WaitClass, Option<&str>, Option<u32>) {
    (group.pid, &group.process, group.class, group.device.as_deref(), group.syscall)
}
