//! Stacks of programs without frame pointers: the kernel copies registers and stack, the reader's
//! process unwinds them, and only return addresses are kept.
//!
//! What does not belong here: unwinding (see [`crate::reader`]), names and rows (see
//! [`super::stacks`]), and how many are copied (see `copies`).

use crate::copies::CopyGrants;
use crate::reader::{CopiedRegisters, FileAsker, LATE, UnwindEnd, UnwoundStack};
use crate::session::Session;
use crate::wire::{self, wire_copied_process, wire_copied_stack};
use iowhy_model::bounded_map::RestartingMap;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rustc_hash::FxHashSet;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// Processes of which more is copied.
const MOST_DEEP: usize = 4096;
/// Unwound stacks of waits that have not ended yet.
const MOST_PENDING: usize = 16_384;

/// The head of a copied stack: everything but the stack's bytes.
#[derive(Clone, Copy, Debug)]
pub struct CopiedStack {
    /// The sample of a request; 0 of a wait.
    pub sample: u32,
    /// The process.
    pub process: u32,
    /// The wait: its thread, and when it began.
    pub wait: (u32, u64),
    /// Time that copying took, ns.
    pub took_ns: u32,
    registers: CopiedRegisters,
}

impl CopiedStack {
    /// Parses a `wire_copied_stack`; the stack's bytes begin at the stack pointer.
    pub fn parse(bytes: &[u8]) -> Option<(CopiedStack, &[u8])> {
        let (head, _) = wire_copied_stack::ref_from_prefix(bytes).ok()?;
        let copied = head.stack.get(..head.bytes as usize)?;
        let below = usize::try_from(head.stack_pointer.checked_sub(head.base)?).ok()?;
        let registers = CopiedRegisters {
            instruction: head.instruction,
            stack_pointer: head.stack_pointer,
            frame_pointer: head.frame_pointer,
            link: head.link,
        };
        let copy = CopiedStack {
            sample: head.sample,
            process: head.tgid,
            wait: (head.tid, head.start_ns),
            took_ns: head.took_ns,
            registers,
        };
        Some((copy, copied.get(below..).unwrap_or_default()))
    }

    /// Returns the stack's addresses, and the reason if some are missing.
    pub fn unwind(
        &self,
        stack: &[u8],
        reader: &FileAsker,
    ) -> Result<Option<UnwoundStack>, &'static str> {
        reader.unwind(self.process, self.registers, stack).map_err(|_unanswered| LATE)
    }
}

/// Returns the reason why an unwound stack is not complete; `None` if it is.
pub fn reason_of(end: UnwindEnd) -> Option<&'static str> {
    match end {
        UnwindEnd::Root => None,
        UnwindEnd::TooDeep => Some("deeper than iowhy reads"),
        UnwindEnd::Unread => {
            Some("ends early: .eh_frame is not in memory, and reading it would load the disk")
        }
        UnwindEnd::Bare => Some("ends early: code with neither frame pointers nor .eh_frame"),
        UnwindEnd::Compiled => Some("ends early: compiled code (JIT) without frame pointers"),
        UnwindEnd::Lost => Some("ends early: .eh_frame does not describe this stack"),
    }
}

/// The processes whose stacks are copied, and the unwound stacks of their waits.
#[derive(Default)]
pub struct CopiedStacks {
    /// The kernel's list of processes; `None` if nothing is copied.
    map: Option<MapHandle>,
    processes: FxHashSet<u32>,
    deep: FxHashSet<u32>,
    of_waits: RestartingMap<(u32, u64), u64, MOST_PENDING>,
    /// The tokens that limit the number of copies.
    pub(crate) grants: CopyGrants,
    /// Number of copied stacks, and the time that copying took in the kernel, ns.
    pub copied: (u64, u64),
}

impl CopiedStacks {
    /// From now on stacks of processes without frame pointers are copied.
    pub fn begin(&mut self, session: &Session) {
        // Copied stacks must not be in a core dump. Without that, none is copied.
        let is_safe = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok();
        self.map = session.handle("copied_processes").filter(|_| is_safe);
    }

    /// Stacks of a process are copied from now on: a walk along its frame pointers ended early.
    pub fn note_process(&mut self, process: u32) {
        let Some(map) = self.map.as_ref().filter(|_| !self.processes.contains(&process)) else {
            return;
        };
        if self.processes.len() >= wire::WIRE_COPIED_PROCESSES as usize {
            let is_gone = |process: &u32| !Path::new(&format!("/proc/{process}")).exists();
            for gone in self.processes.extract_if(is_gone) {
                let _gone_already = map.delete(&gone.to_ne_bytes());
            }
        }
        // While it is full, others have precedence.
        if set(map, process, false) {
            self.processes.insert(process);
        }
    }

    /// Copies more of each stack of a process from now on: the copies did not reach far enough.
    pub fn note_deep(&mut self, process: u32) {
        if let Some(map) = self.map.as_ref().filter(|_| self.deep.len() < MOST_DEEP)
            && self.deep.insert(process)
        {
            set(map, process, true);
        }
    }

    /// Keeps the number of a wait's stack until the wait arrives.
    pub fn add_of_wait(&mut self, wait: (u32, u64), stack_id: u64) {
        self.of_waits.insert(wait, stack_id);
    }

    /// The stack of the wait of a thread that began at that time.
    pub fn of_wait(&self, wait: (u32, u64)) -> Option<u64> {
        self.of_waits.get(&wait).copied()
    }
}

/// Enters a process into the kernel's list. Returns whether it is there now.
fn set(map: &MapHandle, process: u32, is_deep: bool) -> bool {
    let value =
        wire_copied_process { left_out: 0, stack_weight: 0, is_deep: is_deep.into(), padding: 0 };
    map.update(&process.to_ne_bytes(), value.as_bytes(), MapFlags::ANY).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn what_is_below_the_stack_pointer_is_left_out() {
        let mut record = Box::new(wire_copied_stack::new_zeroed());
        (record.base, record.stack_pointer, record.bytes) = (0x7000, 0x7010, 4096);
        (record.sample, record.tgid, record.tid, record.start_ns) = (5, 2, 3, 4);
        record.stack[0x10] = 9;
        let (copy, stack) = CopiedStack::parse(record.as_bytes()).unwrap();
        assert_eq!((copy.sample, copy.process, copy.wait), (5, 2, (3, 4)));
        assert_eq!((stack.len(), stack[0]), (4096 - 0x10, 9));
        record.bytes = 0;
        assert!(CopiedStack::parse(record.as_bytes()).unwrap().1.is_empty());
    }

    #[test]
    fn a_record_that_contradicts_itself_is_refused() {
        let mut record = Box::new(wire_copied_stack::new_zeroed());
        record.bytes = u32::MAX;
        assert!(CopiedStack::parse(record.as_bytes()).is_none());
        (record.bytes, record.base) = (0, 1);
        assert!(CopiedStack::parse(record.as_bytes()).is_none());
        assert!(CopiedStack::parse(&[0; 64]).is_none());
    }
}
