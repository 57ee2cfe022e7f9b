//! Time by code path, as a tree: the process, the program's functions from the outermost, then the
//! kernel's. What each branch is of a device and an owner is kept, so that a reader can filter.
//!
//! What does not belong here: what flame graphs look like.

use crate::analysis::stacks::{cycle, telling};
use crate::model::{Name, Names, Stack};
use rustc_hash::FxHashMap;

/// Different stacks of which the frames are kept, and different weights.
const MOST: usize = 1 << 16;
/// Branches of a tree, at most: those with the most time.
const MOST_LEAVES: usize = 1_500;
/// Frames of a branch, at most.
const DEPTH: usize = 96;

/// A function within its callers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlameNode {
    /// The position of its caller; `None` for a process.
    pub parent: Option<u32>,
    /// The function or the process.
    pub text: String,
    /// Whether it is one of the kernel.
    pub kernel: bool,
}

/// What one owner spent at one device in one function, without what that function called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlameLeaf {
    /// The function's position.
    pub node: u32,
    /// The device's number.
    pub device: u16,
    /// The owner's number.
    pub owner: u16,
    /// Its time, nanoseconds.
    pub time_ns: u64,
}

/// A tree of functions. A caller stands before what it calls.
#[derive(Clone, Debug, Default)]
pub struct FlameTree {
    /// The functions.
    pub nodes: Vec<FlameNode>,
    /// Where the time was spent.
    pub leaves: Vec<FlameLeaf>,
    /// All time, with that of branches that are left out, nanoseconds.
    pub time_ns: u64,
}

/// What a branch is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct FlameKey {
    pub process: Option<Name>,
    pub device: u16,
    pub owner: u16,
    pub kernel: Option<u64>,
    pub user: Option<u64>,
}

/// The frames of stacks by id.
#[derive(Clone, Debug, Default)]
pub(super) struct FlameStacks {
    frames: FxHashMap<u64, Box<[Name]>>,
}

impl FlameStacks {
    /// Keeps a stack without what tells nothing: functions that every request goes through, and a
    /// cycle that a walk without frame pointers ran into.
    pub fn add(&mut self, stack: &Stack, names: &Names) {
        if self.frames.len() < MOST && !self.frames.contains_key(&stack.stack_id) {
            let frames = telling(stack, names);
            let end = if stack.user { cycle(&frames) } else { None };
            self.frames.insert(stack.stack_id, frames[..end.unwrap_or(frames.len())].into());
        }
    }
}

/// Adds up times by code path.
#[derive(Clone, Debug, Default)]
pub(super) struct FlameTally {
    sums: FxHashMap<FlameKey, u64>,
    all_ns: u64,
}

impl FlameTally {
    pub fn add(&mut self, key: FlameKey, time_ns: u64) {
        if key.kernel.is_none() && key.user.is_none() {
            return;
        }
        self.all_ns = self.all_ns.saturating_add(time_ns);
        if self.sums.len() < MOST || self.sums.contains_key(&key) {
            let sum = self.sums.entry(key).or_default();
            *sum = sum.saturating_add(time_ns);
        }
    }

    /// The tree of the branches with the most time; `owners` and `devices` are new numbers for old
    /// ones.
    pub fn finish(
        self,
        stacks: &FlameStacks,
        names: &Names,
        devices: &[u16],
        owners: &[u16],
    ) -> FlameTree {
        let mut sums: Vec<(FlameKey, u64)> = self.sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, time)| (std::cmp::Reverse(*time), *key));
        sums.truncate(MOST_LEAVES);
        let mut tree = FlameTree { time_ns: self.all_ns, ..FlameTree::default() };
        let mut known = FxHashMap::default();
        let mut leaves: FxHashMap<(u32, u16, u16), u64> = FxHashMap::default();
        for (key, time_ns) in sums {
            let node = branch(&key, stacks, names, &mut tree.nodes, &mut known);
            let number =
                |numbers: &[u16], old: u16| numbers.get(usize::from(old)).copied().unwrap_or(old);
            let place = (node, number(devices, key.device), number(owners, key.owner));
            *leaves.entry(place).or_default() += time_ns;
        }
        let leaf = |((node, device, owner), time_ns)| FlameLeaf { node, device, owner, time_ns };
        tree.leaves = leaves.into_iter().map(leaf).collect();
        tree.leaves.sort_unstable_by_key(|it| (it.node, it.device, it.owner));
        tree
    }
}

type KnownNodes = FxHashMap<(Option<u32>, Name, bool), u32>;

/// The innermost function of a branch; adds the functions that the tree lacks.
fn branch(
    key: &FlameKey,
    stacks: &FlameStacks,
    names: &Names,
    nodes: &mut Vec<FlameNode>,
    known: &mut KnownNodes,
) -> u32 {
    let mut node = |parent: Option<u32>, name: Name, text: &str, kernel: bool| {
        *known.entry((parent, name, kernel)).or_insert_with(|| {
            nodes.push(FlameNode { parent, text: text.to_owned(), kernel });
            nodes.len() as u32 - 1
        })
    };
    let mut at = match key.process {
        Some(name) => node(None, name, names.get(name), false),
        None => node(None, Name::EMPTY, "kernel", true),
    };
    let frames = |id: Option<u64>| id.and_then(|id| stacks.frames.get(&id));
    for (stack, kernel) in [(frames(key.user), false), (frames(key.kernel), true)] {
        let mut is_after_unknown = false;
        for frame in stack.into_iter().flat_map(|it| it.iter().rev()).take(DEPTH) {
            let text = names.get(*frame);
            let is_unknown = text.is_empty() || text.starts_with("0x");
            match (is_unknown, is_after_unknown) {
                (false, _) => at = node(Some(at), *frame, text, kernel),
                (true, false) => at = node(Some(at), Name::EMPTY, "(no symbol)", kernel),
                (true, true) => {}
            }
            is_after_unknown = is_unknown;
        }
    }
    at
}
