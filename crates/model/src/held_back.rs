//! Processes and stacks in a watch of some devices. They may belong to the I/O of another device,
//! so a row is held until another row refers to it. Rows without a reference are never given out.
//!
//! What does not belong here: the content of processes and stacks.

use crate::source::Batch;
use crate::{Process, Stack};
use rustc_hash::FxHashMap;

/// Maximum number of rows of a kind that are held; further rows pass, whether they are referred to
/// or not.
const MOST: usize = 1 << 16;

/// Processes and stacks without a reference so far.
#[derive(Debug, Default)]
pub struct HeldBack {
    by_thread: FxHashMap<u32, Process>,
    stacks: FxHashMap<u64, Stack>,
}

impl HeldBack {
    /// Removes processes and stacks without a reference from `batch`, and adds those that its rows
    /// refer to; its samples refer to the processes `counted`.
    pub fn exchange(&mut self, batch: &mut Batch, counted: &[u32]) {
        self.exchange_processes(batch, counted);
        self.exchange_stacks(batch);
    }

    fn exchange_processes(&mut self, batch: &mut Batch, counted: &[u32]) {
        let mut through = Vec::new();
        for process in batch.processes.drain(..) {
            if self.by_thread.len() >= MOST {
                through.push(process);
            } else {
                // A reused thread id: nothing referred to the earlier thread.
                self.by_thread.insert(process.tid, process);
            }
        }
        let mut referred = batch.referred();
        referred.extend(counted);
        let known = |tid: &u32, process: &mut Process| {
            referred.contains(tid) || referred.contains(&process.pid)
        };
        through.extend(self.by_thread.extract_if(known).map(|(_, process)| process));
        through.sort_by_key(|process| (process.start_ns, process.tid));
        batch.processes = through;
    }

    fn exchange_stacks(&mut self, batch: &mut Batch) {
        let mut through = Vec::new();
        for stack in batch.stacks.drain(..) {
            if self.stacks.len() >= MOST {
                through.push(stack);
            } else {
                self.stacks.insert(stack.stack_id, stack);
            }
        }
        let referred = batch.referred_stacks();
        through
            .extend(self.stacks.extract_if(|id, _| referred.contains(id)).map(|(_, stack)| stack));
        through.sort_by_key(|stack| stack.stack_id);
        batch.stacks = through;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::script::Script;

    #[test]
    fn who_did_nothing_for_the_device_stays_out() {
        let mut script = Script::new(10);
        script.process(1, "mine", "/", "a");
        script.process(2, "others", "/", "a");
        let mut held = HeldBack::default();
        let mut first = script.batch.clone();
        held.exchange(&mut first, &[]);
        assert!(first.processes.is_empty());
        script.request("sda", Operation::Read).by(1, "mine").add();
        let mut second = Batch { processes: Vec::new(), ..script.batch };
        held.exchange(&mut second, &[]);
        let of = |batch: &Batch| -> Vec<u32> {
            batch.processes.iter().map(|process| process.pid).collect()
        };
        assert_eq!(of(&second), [1]);
        let mut third = Batch::default();
        held.exchange(&mut third, &[2]);
        assert_eq!(of(&third), [2], "it has counters");
    }

    #[test]
    fn stacks_of_others_stay_out() {
        let mut script = Script::new(10);
        let stack = |stack_id| Stack {
            stack_id,
            user: false,
            frames: Vec::new(),
            complete: true,
            reason: None,
            unwound_by: None,
        };
        let mut held = HeldBack::default();
        let mut first = Batch { stacks: vec![stack(1), stack(2)], ..Batch::default() };
        held.exchange(&mut first, &[]);
        assert!(first.stacks.is_empty());
        script.request("sda", Operation::Read).by(1, "mine").add();
        let mut second = script.batch;
        second.requests[0].stack_id = Some(2);
        held.exchange(&mut second, &[]);
        let found: Vec<u64> = second.stacks.iter().map(|stack| stack.stack_id).collect();
        assert_eq!(found, [2]);
    }
}
