//! Processes of a watch of some devices: a thread may be seen because it waited or dirtied pages for
//! another device. Its row is held back until a row refers to it, for ever where none does.
//!
//! What does not belong here: what is known of a process (see [`crate::decode`]).

use iowhy_core::model::Process;
use iowhy_core::source::Batch;
use rustc_hash::FxHashMap;

/// Threads that are held back at once; beyond them a row is let through, whether it is referred to or
/// not.
const MOST: usize = 1 << 16;

/// Rows of processes that nothing refers to yet.
#[derive(Debug, Default)]
pub struct HeldBack {
    by_thread: FxHashMap<u32, Process>,
}

impl HeldBack {
    /// Takes the processes out of `batch` that nothing has referred to, and puts those in that its rows
    /// refer to.
    pub fn exchange(&mut self, batch: &mut Batch) {
        let mut through = Vec::new();
        for process in batch.processes.drain(..) {
            if self.by_thread.len() >= MOST {
                through.push(process);
            } else {
                // A number that is used again: nothing referred to the earlier thread.
                self.by_thread.insert(process.tid, process);
            }
        }
        let referred = batch.referred();
        self.by_thread.retain(|tid, process| {
            let known = referred.contains(tid) || referred.contains(&process.pid);
            if known {
                through.push(process.clone());
            }
            !known
        });
        through.sort_by_key(|process| (process.start_ns, process.tid));
        batch.processes = through;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_core::model::Operation;
    use iowhy_core::script::Script;

    #[test]
    fn who_did_nothing_for_the_device_stays_out() {
        let mut script = Script::new(10);
        script.process(1, "mine", "/", "a");
        script.process(2, "others", "/", "a");
        let mut held = HeldBack::default();
        let mut first = script.batch.clone();
        held.exchange(&mut first);
        assert!(first.processes.is_empty());
        script.request("sda", Operation::Read).by(1, "mine").add();
        let mut second = Batch { processes: Vec::new(), ..script.batch };
        held.exchange(&mut second);
        let found: Vec<u32> = second.processes.iter().map(|process| process.pid).collect();
        assert_eq!(found, [1]);
    }
}
