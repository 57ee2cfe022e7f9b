//! Waits whose kernel stack goes through certain functions, and their processes.
//!
//! What does not belong here: which class a stack has (see [`iowhy_model::wait::class`]).

use super::{Facts, has_function};
use crate::subject::Subject;
use iowhy_analysis::summary::patterns::WaitStack;

/// Waits selected by their stacks.
#[derive(Clone, Debug, Default)]
pub struct WaitsByStack<'a> {
    /// The stacks, longest first.
    pub stacks: Vec<&'a WaitStack>,
    /// Their time, nanoseconds.
    pub time_ns: u64,
    /// The number of waits.
    pub waits: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
}

impl WaitsByStack<'_> {
    /// Returns the process that waited longest, with its device and file.
    pub fn subject(&self) -> Subject {
        let first =
            |of: fn(&WaitStack) -> Option<String>| self.stacks.iter().find_map(|stack| of(stack));
        let process = first(|stack| stack.process.clone());
        let own = self.stacks.iter().find(|stack| stack.process == process);
        Subject {
            device: first(|stack| stack.device.clone()),
            pid: own.and_then(|stack| stack.pid),
            container: own.and_then(|stack| stack.container.clone()),
            file: self.stacks.first().and_then(|stack| stack.file.clone()),
            process,
        }
    }

    /// Whether one of the stacks goes through one of `functions`.
    pub fn has(&self, functions: &[&str]) -> bool {
        self.stacks.iter().any(|stack| has_function(&stack.functions, functions))
    }

    /// Returns the time of those that go through one of `functions`, nanoseconds.
    pub fn time_in(&self, functions: &[&str]) -> u64 {
        let fit = self.stacks.iter().filter(|stack| has_function(&stack.functions, functions));
        fit.map(|fit| fit.time_ns).fold(0, u64::saturating_add)
    }
}

impl<'a> Facts<'a> {
    /// Returns the waits of programs whose kernel stack goes through one of `functions`.
    pub fn stacked(&self, functions: &[&str]) -> WaitsByStack<'a> {
        self.stacked_where(|stack| has_function(&stack.functions, functions))
    }

    /// Returns the waits of programs whose kernel stack matches.
    pub fn stacked_where(&self, fits: impl Fn(&WaitStack) -> bool) -> WaitsByStack<'a> {
        let stacks = self.summary().patterns.wait_stacks.iter().filter(|stack| fits(stack));
        let stacks: Vec<&WaitStack> = stacks.collect();
        WaitsByStack {
            time_ns: stacks.iter().map(|stack| stack.time_ns).fold(0, u64::saturating_add),
            waits: stacks.iter().map(|stack| stack.waits).fold(0, u64::saturating_add),
            longest_ns: stacks.iter().map(|stack| stack.longest_ns).max().unwrap_or(0),
            stacks,
        }
    }
}
