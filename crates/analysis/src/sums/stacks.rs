//! The stacks of a watch, each list of functions kept once: different addresses in the same
//! functions are one code path, and so are paths that differ only in functions that every request
//! goes through.

use iowhy_model::{Name, Names, Stack};
use rustc_hash::FxHashMap;

/// Maximum number of frames; 4 MiB, since each list is kept twice.
const FRAMES: usize = 1 << 19;
/// Maximum number of stack ids; about 2 MiB.
const IDS: usize = 1 << 16;

/// Prefixes of kernel functions that every request or system call goes through: block layer
/// submission, tracing itself, the scheduler, system call entry.
const PLUMBING: &[&str] = &[
    "submit_bio",
    "__submit_bio",
    "blk_",
    "__blk_",
    "bio_",
    "iomap_submit",
    "__traceiter_",
    "bpf_",
    "schedule",
    "__schedule",
    "io_schedule",
    "entry_SYSCALL",
    "do_syscall_64",
    "x64_sys_call",
    "invoke_syscall",
    "el0",
    "do_el0",
    "asm_",
    "ret_from_fork",
];

/// Exceptions with such a prefix: a cgroup's limit throttled what its worker queues.
const TELLING: &[&str] = &["blk_throtl_"];

/// A list of functions in [`StackTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StackRef(u32);

/// A list of functions, innermost first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frames {
    pub frames: Box<[Name]>,
    pub complete: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StackTable {
    by_id: FxHashMap<(u64, bool), StackRef>,
    by_frames: FxHashMap<Frames, StackRef>,
    lists: Vec<Frames>,
    /// The method by which the first stack with each list was unwound.
    unwound_by: Vec<Option<Name>>,
    kept: usize,
}

impl StackTable {
    /// Keeps a stack, unless the table is full.
    pub fn add(&mut self, stack: &Stack, names: &Names) {
        if self.by_id.len() >= IDS {
            return;
        }
        let frames = telling(stack, names);
        let cycle = if stack.user { cycle(&frames) } else { None };
        let (frames, complete) = match cycle {
            Some(end) => (frames[..end].into(), false),
            None => (frames, stack.complete),
        };
        let frames = Frames { frames, complete };
        if let Some(known) = self.by_frames.get(&frames) {
            self.by_id.insert((stack.stack_id, stack.user), *known);
        } else if self.kept + frames.frames.len() <= FRAMES {
            let new = StackRef(self.lists.len() as u32);
            self.kept += frames.frames.len();
            self.lists.push(frames.clone());
            self.unwound_by.push(stack.unwound_by);
            self.by_frames.insert(frames, new);
            self.by_id.insert((stack.stack_id, stack.user), new);
        }
    }

    /// The list of the stack `id`; `None` if it is not known or was not kept.
    #[inline]
    pub fn find(&self, id: Option<u64>, user: bool) -> Option<StackRef> {
        self.by_id.get(&(id?, user)).copied()
    }

    pub fn get(&self, list: StackRef) -> Option<&Frames> {
        self.lists.get(list.0 as usize)
    }

    /// Returns the method by which it was unwound, if it is a user stack.
    pub fn unwound_by(&self, list: StackRef) -> Option<Name> {
        *self.unwound_by.get(list.0 as usize)?
    }
}

/// Number of repetitions from which frames are a cycle: a stack without frame pointers, or a
/// recursion. Chosen.
const TURNS: usize = 3;

/// The end of the first turn of a cycle that continues to the end of the stack.
pub(crate) fn cycle(frames: &[Name]) -> Option<usize> {
    (1..=frames.len() / TURNS).find_map(|period| {
        let same = frames.iter().rev().zip(frames.iter().rev().skip(period));
        let repeated = same.take_while(|(later, earlier)| later == earlier).count();
        // The walk may have been cut within a turn.
        (repeated >= (TURNS - 1) * period).then(|| frames.len() - repeated)
    })
}

/// The relevant functions of a stack; all of them if none is relevant.
pub(crate) fn telling(stack: &Stack, names: &Names) -> Box<[Name]> {
    let is_plumbing = |name: &Name| {
        let begins = |list: &[&str]| list.iter().any(|begin| names.get(*name).starts_with(begin));
        !stack.user && begins(PLUMBING) && !begins(TELLING)
    };
    let telling: Vec<Name> =
        stack.frames.iter().copied().filter(|name| !is_plumbing(name)).collect();
    if telling.is_empty() { stack.frames.as_slice().into() } else { telling.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_ends_a_stack_after_its_first_turn() {
        let mut names = Names::new();
        let mut end = |text: &str| {
            let frames: Vec<Name> =
                text.chars().map(|character| names.intern(&character.to_string())).collect();
            cycle(&frames)
        };
        assert_eq!(end("abcdbcdbcdbc"), Some(4));
        assert_eq!(end("aabababab"), Some(3));
        assert_eq!(end("xaaa"), Some(2), "a recursion");
        assert_eq!(end("abcabd"), None);
        assert_eq!(end("abcbc"), None, "two turns prove nothing");
        assert_eq!(end(""), None);
    }
}
