//! Interned text. Rows of a busy disk have the same file and process hundreds of thousands of times
//! a second; a [`Name`] takes four bytes for each.

use rustc_hash::FxHashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Words with the same [`Name`] in every table, so that an enum can be stored as its name.
const RESERVED: &[&str] = &[
    "",
    "read",
    "write",
    "flush",
    "discard",
    "write_zeroes",
    "secure_erase",
    "zone",
    "driver",
    "other",
    "readahead",
    "page_fault",
    "writeback",
    "journal",
    "metadata",
    "swap",
    "stacked",
    "passthrough",
    "unknown",
    "complete",
    "error",
    "in_flight",
    "begun_before",
    "system",
    "device",
    "process",
    "cgroup",
    "queue",
    "cgroup_throttle",
    "dirty_throttle",
    "wbt",
    "iocost",
    "tag",
    "journal_commit",
    "journal_space",
    "page_lock",
    "page_read",
    "fsync",
    "fs_lock",
    "reclaim",
    "run_queue",
    "network_fs",
    "fuse",
    "fanotify",
    "woken",
    "owner",
    "likely",
    "file",
    "directory",
    "block_device",
];

/// The name of a reserved word. In a constant, a word that is not reserved does not compile.
pub(super) const fn reserved(word: &str) -> Name {
    let mut index = 0;
    while !same(RESERVED[index], word) {
        index += 1;
    }
    Name::from_index(index)
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// A text that was interned in a [`Names`]; only meaningful together with it.
///
/// One more than its position, so that an `Option` of it takes four bytes, too: a request has ten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name(NonZeroU32);

impl Name {
    /// The first name of every table: the empty text.
    pub const EMPTY: Name = Name(NonZeroU32::MIN);

    /// The position of this name in its table.
    pub fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// The name at `index` of its table, the reverse of [`Name::index`].
    pub const fn from_index(index: usize) -> Name {
        Name(NonZeroU32::MIN.saturating_add(index as u32))
    }
}

/// The texts of [`Name`]s. Memory is bounded: beyond [`Names::MAX_BYTES`] every new text becomes
/// the same placeholder and is counted.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<Arc<str>>,
    index: FxHashMap<Arc<str>, Name>,
    bytes: usize,
    refused: u64,
}

impl Names {
    /// Memory of texts from which new ones are refused. A path of 100 bytes takes about 200 with
    /// its index.
    pub const MAX_BYTES: usize = 24 << 20;
    /// The last quarter is reserved for texts of at most this many bytes, so that very many long
    /// paths leave space for processes, functions and cgroups.
    const SHORT: usize = 64;
    /// Bytes of one text: sixteen times the longest path that the kernel knows. A longer one is
    /// refused: what looks for words in names takes longer the longer they are.
    const LONGEST: usize = 64 << 10;
    const REFUSED: &'static str = "(more names than iowhy keeps)";

    /// A table with only the reserved words.
    pub fn new() -> Names {
        let mut names =
            Names { texts: Vec::new(), index: FxHashMap::default(), bytes: 0, refused: 0 };
        for word in RESERVED {
            names.insert((*word).into());
        }
        names
    }

    /// The name of `text`, which is interned if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        self.intern_as(text, || text.into())
    }

    /// Returns the name of a text that another table has; both keep it together.
    pub fn share(&mut self, text: &Arc<str>) -> Name {
        self.intern_as(text, || text.clone())
    }

    /// The texts from position `from` on, to be shared with another table.
    pub fn since(&self, from: usize) -> &[Arc<str>] {
        self.texts.get(from..).unwrap_or_default()
    }

    fn intern_as(&mut self, text: &str, shared: impl FnOnce() -> Arc<str>) -> Name {
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let most = if text.len() > Self::SHORT { Self::MAX_BYTES / 4 * 3 } else { Self::MAX_BYTES };
        if text.len() > Self::LONGEST || self.bytes + text.len() > most {
            self.refused += 1;
            return self
                .index
                .get(Self::REFUSED)
                .copied()
                .unwrap_or_else(|| self.insert(Self::REFUSED.into()));
        }
        self.insert(shared())
    }

    fn insert(&mut self, text: Arc<str>) -> Name {
        let name = Name::from_index(self.texts.len());
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.index.insert(text, name);
        name
    }

    /// The text of `name`; the empty text for a name of another table.
    pub fn get(&self, name: Name) -> &str {
        self.texts.get(name.index()).map_or("", |text| text)
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Bytes of the texts that are kept; with their index they take about twice as much.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has only the reserved words.
    pub fn is_empty(&self) -> bool {
        self.texts.len() <= RESERVED.len()
    }

    /// The number of refused texts.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl Default for Names {
    fn default() -> Self {
        Names::new()
    }
}
