//! The priority of the thread that reads the ring buffer. On a machine whose CPUs are all in use,
//! a thread of normal priority waits for its turn while the ring buffer fills up and records are
//! dropped: the busier the machine, the more is lost. The thread therefore runs under
//! SCHED_DEADLINE: the kernel guarantees it `RUNTIME` of each `PERIOD` and gives it no more, so
//! that programs get the rest even if something goes wrong here. Where the kernel refuses that (a
//! cpuset without all CPUs, too many deadline threads already), it runs at nice -20, which has less
//! effect: with autogroups the kernel compares nice values only within one login session.
//!
//! The thread returns to its normal priority while it needs more than `MOST_SHARE` of a CPU, and
//! on drop.
//!
//! What does not belong here: whether the process may do this (see [`crate::privilege`]).

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use thread_priority::{
    DeadlineFlags, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ScheduleParams,
    ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Nice value while raised, the lowest that setpriority(2) takes.
const RAISED_NICE: i32 = -20;
/// The period of the deadline scheduler: the ring buffer is read every 40 ms.
const PERIOD: Duration = Duration::from_millis(40);
/// CPU time in each period: half of a CPU.
const RUNTIME: Duration = Duration::from_millis(20);
/// Time over which the thread's share of a CPU is measured.
const MEASURED: Duration = Duration::from_millis(100);
/// Share of one CPU above which the next interval passes at normal priority: the deadline scheduler
/// would hold the thread back even if a CPU is idle. At 369 ns a request (docs/performance.md), it
/// is reached at 1.2 million requests per second.
const MOST_SHARE: f64 = 0.45;

/// The scheduling of a raised thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaisedClass {
    /// SCHED_DEADLINE: a guaranteed and limited share of one CPU.
    Deadline,
    /// Normal scheduling at nice -20.
    Nice,
}

/// The raised priority of the calling thread, which must also drop it.
#[derive(Debug)]
pub struct RaisedPriority {
    thread: Pid,
    /// Nice value to return to.
    before: i32,
    /// The class that the kernel permits; `None` if the priority may not be raised.
    class: Option<RaisedClass>,
    raised: bool,
    measured: (Instant, u64),
}

impl RaisedPriority {
    /// Raises the calling thread's priority, if this process may. Processes that it starts from now
    /// on run at normal priority under [`RaisedClass::Deadline`]; they inherit the nice value.
    pub fn of_this_thread() -> RaisedPriority {
        let thread = rustix::thread::gettid();
        let before = getpriority_process(Some(thread)).unwrap_or(0);
        let mut priority =
            RaisedPriority { thread, before, class: None, raised: false, measured: now() };
        let classes = [RaisedClass::Deadline, RaisedClass::Nice];
        priority.class = classes.into_iter().find(|class| priority.raise(*class));
        priority.raised = priority.class.is_some();
        priority
    }

    /// Returns the thread's class now; `None` at its normal priority.
    pub fn class(&self) -> Option<RaisedClass> {
        self.class.filter(|_| self.raised)
    }

    /// Lowers or raises the priority, if the thread's share of a CPU was measured again.
    pub fn keep_bounded(&mut self) {
        let passed = self.measured.0.elapsed();
        if passed < MEASURED {
            return;
        }
        let ran_ns = thread_cpu_ns().saturating_sub(self.measured.1);
        self.set(ran_ns as f64 <= MOST_SHARE * passed.as_nanos() as f64);
        self.measured = now();
    }

    fn set(&mut self, raise: bool) {
        let Some(class) = self.class.filter(|_| raise != self.raised) else { return };
        if if raise { self.raise(class) } else { self.lower(class) } {
            self.raised = raise;
        }
    }

    /// Whether the kernel let the thread into `class`.
    fn raise(&self, class: RaisedClass) -> bool {
        match class {
            RaisedClass::Deadline => enter_deadline(),
            RaisedClass::Nice => setpriority_process(Some(self.thread), RAISED_NICE).is_ok(),
        }
    }

    /// Whether the thread left `class`.
    fn lower(&self, class: RaisedClass) -> bool {
        (class != RaisedClass::Deadline || leave_deadline())
            && setpriority_process(Some(self.thread), self.before).is_ok()
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// The raised nice value of the calling thread while it starts a watch: loading programs takes a
/// fifth of a second of CPU time, for which it would wait the longer the busier the machine is. The
/// deadline scheduler would hold it back. Returned on drop.
#[derive(Debug)]
pub(crate) struct HurriedStart {
    before: Option<i32>,
}

impl HurriedStart {
    /// Raises the priority, if this process may.
    pub fn begin() -> HurriedStart {
        let before = getpriority_process(None).ok().filter(|nice| *nice > RAISED_NICE);
        HurriedStart { before: before.filter(|_| setpriority_process(None, RAISED_NICE).is_ok()) }
    }
}

impl Drop for HurriedStart {
    fn drop(&mut self) {
        if let Some(nice) = self.before {
            // Lowering one's own priority is always permitted.
            let _ = setpriority_process(None, nice);
        }
    }
}

/// Whether the kernel admits the calling thread to the deadline scheduler.
fn enter_deadline() -> bool {
    let flags = DeadlineFlags::RESET_ON_FORK;
    let deadline =
        ThreadPriority::Deadline { runtime: RUNTIME, deadline: PERIOD, period: PERIOD, flags };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Deadline);
    // sched_setattr(2) takes 0 for the calling thread.
    set_thread_priority_and_policy(0, deadline, policy).is_ok()
}

/// Whether the calling thread is back in normal scheduling; its nice value is then 0.
fn leave_deadline() -> bool {
    let normal = ThreadPriority::from_posix(ScheduleParams { sched_priority: 0 });
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    set_thread_priority_and_policy(thread_native_id(), normal, policy).is_ok()
}

/// Returns this process to normal priority, if it inherited a raised one.
pub(crate) fn normal() {
    if getpriority_process(None).is_ok_and(|nice| nice < 0) {
        // Lowering one's own priority is always permitted.
        let _ = setpriority_process(None, 0);
    }
}

fn now() -> (Instant, u64) {
    (Instant::now(), thread_cpu_ns())
}

/// CPU time of the calling thread, ns.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec) as u64
}
