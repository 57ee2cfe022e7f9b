//! Time by code path, as a tree: the process, the program's functions from the outermost, then the
//! kernel's. What each branch is of a device, an owner, a file, a kind of requests and a time is
//! kept, so that a reader can filter.
//!
//! What does not belong here: what flame graphs look like.

use crate::sums::slots::renumbered;
use crate::sums::stacks::{cycle, telling};
use iowhy_model::compact_sort::CompactSort;
use iowhy_model::{Name, Names, Stack};
use rustc_hash::{FxHashMap, FxHashSet};

/// Different stacks of which the frames are kept, and different keys before some become one.
const MOST: usize = 1 << 16;
/// Branches of a tree, at most: those with the most time.
const MOST_BRANCHES: usize = 1_500;
/// Rows of a tree, at most.
const MOST_LEAVES: usize = 16_000;
/// The columns of charts that are one here at first: a watch has up to 75 of those.
const FIRST_EVERY: u16 = 16;
/// The largest number of columns of charts that are one here: a whole watch.
const WHOLE: u16 = 1 << 11;
/// Bytes of the names of functions in a tree, about, at most.
const MOST_TEXT: usize = 400 << 10;
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

/// The time that one owner spent at one device and in one file, in one function without its
/// callees, in one column of time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FlameLeaf {
    /// The function's position.
    pub node: u32,
    /// The device's number.
    pub device: u16,
    /// The owner's number.
    pub owner: u16,
    /// The file's number.
    pub file: u16,
    /// The kind of the request; 0 for waits.
    pub kind: u8,
    /// The column of time, [`FlameTree::every`] columns of the charts wide.
    pub column: u16,
    /// Its time, nanoseconds.
    pub time_ns: u64,
}

/// A tree of functions. A caller stands before what it calls.
#[derive(Clone, Debug, Default)]
pub struct FlameTree {
    /// The functions.
    pub nodes: Vec<FlameNode>,
    /// The time by function, device, owner, file, kind and column.
    pub leaves: Vec<FlameLeaf>,
    /// All time, with that of branches that are left out, nanoseconds.
    pub time_ns: u64,
    /// The number of columns of the charts that one of its columns covers.
    pub every: u16,
    /// Whether files are distinguished: if not, all are the last one.
    pub by_file: bool,
}

/// The key of a branch: its process and stacks, and what leaves distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct FlameKey {
    pub process: Option<Name>,
    pub device: u16,
    pub owner: u16,
    pub file: u16,
    pub kind: u8,
    pub column: u16,
    pub kernel: Option<u64>,
    pub user: Option<u64>,
}

impl FlameKey {
    fn branch(&self) -> Branch {
        (self.process, self.kernel, self.user)
    }
}

/// A code path: the process, its stack in the kernel, its stack in the program.
type Branch = (Option<Name>, Option<u64>, Option<u64>);

/// Stands for all files.
const ANY_FILE: u16 = u16::MAX;

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
#[derive(Clone, Debug)]
pub(super) struct FlameTally {
    sums: FxHashMap<FlameKey, u64>,
    all_ns: u64,
    every: u16,
    by_file: bool,
}

impl Default for FlameTally {
    fn default() -> FlameTally {
        FlameTally { sums: FxHashMap::default(), all_ns: 0, every: FIRST_EVERY, by_file: true }
    }
}

impl FlameTally {
    /// Returns the number of columns of the charts that one of its columns covers.
    pub fn every(&self) -> u16 {
        self.every
    }

    pub fn add(&mut self, mut key: FlameKey, time_ns: u64) {
        if key.kernel.is_none() && key.user.is_none() {
            return;
        }
        if !self.by_file {
            key.file = ANY_FILE;
        }
        self.all_ns = self.all_ns.saturating_add(time_ns);
        if self.sums.len() < 2 * MOST || self.sums.contains_key(&key) {
            let sum = self.sums.entry(key).or_default();
            *sum = sum.saturating_add(time_ns);
        }
    }

    /// The charts' columns became twice as wide.
    pub fn halve(&mut self) {
        self.rekey(|key| FlameKey { column: key.column / 2, ..key });
    }

    /// The same, where its own columns keep their width as long as they are several of the charts'.
    pub fn keep_width(&mut self) {
        match self.every {
            1 => self.halve(),
            _ => self.every /= 2,
        }
    }

    /// Distinguishes less until there are few enough keys: times first, then files.
    pub fn make_room(&mut self) {
        self.fit(MOST);
    }

    fn fit(&mut self, most: usize) {
        while self.sums.len() > most && self.every < WHOLE {
            self.every *= 2;
            self.halve();
        }
        if self.sums.len() > most && self.by_file {
            self.by_file = false;
            self.rekey(|key| FlameKey { file: ANY_FILE, ..key });
        }
    }

    fn rekey(&mut self, key: impl Fn(FlameKey) -> FlameKey) {
        for (old, time_ns) in std::mem::take(&mut self.sums) {
            let sum = self.sums.entry(key(old)).or_default();
            *sum = sum.saturating_add(time_ns);
        }
    }

    /// Leaves the branches with the most time.
    fn keep_largest(&mut self) {
        let mut branches: FxHashMap<Branch, u64> = FxHashMap::default();
        for (key, time_ns) in &self.sums {
            let sum = branches.entry(key.branch()).or_default();
            *sum = sum.saturating_add(*time_ns);
        }
        if branches.len() <= MOST_BRANCHES {
            return;
        }
        let mut order: Vec<(Branch, u64)> = branches.into_iter().collect();
        order.compact_sort_by_key(|(branch, time)| (std::cmp::Reverse(*time), *branch));
        order.truncate(MOST_BRANCHES);
        let kept: FxHashSet<Branch> = order.into_iter().map(|(branch, _)| branch).collect();
        self.sums.retain(|key, _| kept.contains(&key.branch()));
    }

    /// The tree of the branches with the most time; `owners` and `files` are new numbers for old
    /// ones.
    pub fn finish(
        mut self,
        stacks: &FlameStacks,
        names: &Names,
        owners: &[u16],
        files: &[u16],
    ) -> FlameTree {
        self.keep_largest();
        self.rekey(|key| FlameKey {
            owner: renumbered(owners, key.owner),
            file: renumbered(files, key.file),
            ..key
        });
        self.fit(MOST_LEAVES);
        let mut sums: Vec<(FlameKey, u64)> = self.sums.into_iter().collect();
        sums.compact_sort_by_key(|(key, time)| (std::cmp::Reverse(*time), *key));
        sums.truncate(MOST_LEAVES);
        let last = files.iter().copied().max().unwrap_or(0);
        let (time_ns, every, by_file) = (self.all_ns, self.every, self.by_file);
        let mut tree = FlameTree { time_ns, every, by_file, ..FlameTree::default() };
        let mut known = FxHashMap::default();
        let mut nodes = FxHashMap::default();
        let mut leaves: FxHashMap<FlameLeaf, u64> = FxHashMap::default();
        let (mut bytes, mut counted) = (0, 0);
        for (key, time_ns) in sums {
            bytes += tree.nodes[counted..].iter().map(|node| node.text.len() + 8).sum::<usize>();
            counted = tree.nodes.len();
            if bytes > MOST_TEXT && !nodes.contains_key(&key.branch()) {
                continue;
            }
            let node = *nodes
                .entry(key.branch())
                .or_insert_with(|| branch(&key, stacks, names, &mut tree.nodes, &mut known));
            let FlameKey { device, owner, kind, column, .. } = key;
            let file = key.file.min(last);
            let leaf = FlameLeaf { node, device, owner, file, kind, column, time_ns: 0 };
            *leaves.entry(leaf).or_default() += time_ns;
        }
        tree.leaves =
            leaves.into_iter().map(|(leaf, time_ns)| FlameLeaf { time_ns, ..leaf }).collect();
        tree.leaves.compact_sort_by(FlameLeaf::cmp);
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
        for frame in stack.into_iter().flat_map(|frames| frames.iter().rev()).take(DEPTH) {
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
