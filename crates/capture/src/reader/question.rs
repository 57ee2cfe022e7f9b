//! What the reader is asked and what it answers: each a line of JSON on a pipe.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is to be found out about a process, or about devices.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// The process's number; 0 where it is about devices.
    pub process: u32,
    /// What of it.
    pub what: What,
}

/// What of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum What {
    /// The functions at these addresses: `Option<Vec<Function>>`.
    Functions(Vec<u64>),
    /// Return addresses on a sleeping thread's stack: `Vec<u64>`.
    Stack {
        /// Where the stack ends.
        stack_pointer: u64,
    },
    /// The words at an address: `Option<[u32; WORDS]>`.
    Words {
        /// Where.
        address: u64,
    },
    /// Its command line: `Option<String>`.
    Arguments,
    /// What files it holds open: `Found`.
    Held {
        /// Of which only those are kept whose path begins so; all without any.
        prefixes: Vec<String>,
    },
    /// Settings of devices that are changed while they are used: `Vec<BTreeMap<String, String>>`.
    Settings {
        /// Where the kernel tells of them.
        directories: Vec<PathBuf>,
    },
}

/// Words read at once: as many as it takes to tell who holds a lock.
pub const WORDS: usize = 5;

/// What stands at an address of a stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Function {
    /// A function, and those that were inlined into it at that place, the innermost first.
    Named {
        /// Its name.
        name: String,
        /// The others.
        inlined: Vec<String>,
    },
    /// A function that the program compiled itself.
    Compiled(String),
    /// Code without a name.
    Nameless,
    /// No code at all.
    Wild,
    /// A function whose name would have to be read from a disk.
    Unread,
}
