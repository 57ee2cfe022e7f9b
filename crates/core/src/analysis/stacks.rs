//! The stacks of a watch, each list of functions kept once: different addresses in the same
//! functions are one code path, and so are paths that differ only in functions that every request
//! goes through.

use crate::model::{Name, Names, Stack};
use rustc_hash::FxHashMap;

/// Frames kept before new lists are refused: 4 MiB, since each list is kept twice.
const FRAMES: usize = 1 << 19;
/// Stack ids kept before new ones are refused: about 2 MiB.
const IDS: usize = 1 << 16;

/// Beginnings of the kernel's functions that every request or system call goes through, so that they
/// tell nothing: the block layer's way in, tracing itself, the scheduler, the system call's entry.
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

/// Beginnings like these that do tell something: a cgroup's limit held back what its worker queues.
const TELLING: &[&str] = &["blk_throtl_"];

/// A list of functions in [`Stacks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StackRef(u32);

/// A list of functions, innermost first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Frames {
    pub frames: Box<[Name]>,
    pub complete: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    by_id: FxHashMap<(u64, bool), StackRef>,
    by_frames: FxHashMap<Frames, StackRef>,
    lists: Vec<Frames>,
    kept: usize,
}

impl Stacks {
    /// Keeps a stack, unless there is no room.
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
            self.by_frames.insert(frames, new);
            self.by_id.insert((stack.stack_id, stack.user), new);
        }
    }

    /// The list of the stack `id`; `None` where it was not given or had no room.
    #[inline]
    pub fn find(&self, id: Option<u64>, user: bool) -> Option<StackRef> {
        self.by_id.get(&(id?, user)).copied()
    }

    pub fn get(&self, list: StackRef) -> Option<&Frames> {
        self.lists.get(list.0 as usize)
    }
}

/// Turns of the same frames after which they are a cycle: a stack that was walked without frame pointers, or a
/// recursion. Chosen.
const TURNS: usize = 3;

/// Where the first turn of a cycle ends that goes on to the end of the stack.
fn cycle(frames: &[Name]) -> Option<usize> {
    (1..=frames.len() / TURNS).find_map(|period| {
        let same = frames.iter().rev().zip(frames.iter().rev().skip(period));
        let repeated = same.take_while(|(later, earlier)| later == earlier).count();
        // The walk may have been cut within a turn.
        (repeated >= (TURNS - 1) * period).then(|| frames.len() - repeated)
    })
}

/// The functions of a stack that tell something; all of them where none does.
pub(super) fn telling(stack: &Stack, names: &Names) -> Box<[Name]> {
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
            let frames: Vec<Name> = text.chars().map(|it| names.intern(&it.to_string())).collect();
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
