//! The questions to the reader and its answers: each a line of JSON on a pipe.

use crate::host::health::AskedDevice;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A question about a process or about devices.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// The process's number; 0 if the question is about devices.
    pub process: u32,
    /// What to find out.
    pub what: Lookup,
}

/// What to find out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Lookup {
    /// The functions at these addresses: `Option<Vec<Function>>`.
    Functions(Vec<u64>),
    /// Return addresses on a sleeping thread's stack: `Vec<u64>`.
    Stack {
        /// The thread's stack pointer.
        stack_pointer: u64,
    },
    /// The words at an address: `Option<[u32; WORDS]>`.
    Words {
        /// The address.
        address: u64,
    },
    /// Its command line: `Option<String>`.
    Arguments,
    /// Its open files: `Found`.
    Held {
        /// Only files whose path begins with one of these are returned; all if empty.
        prefixes: Vec<String>,
    },
    /// What runs in a cgroup, by its path: `Workload`.
    Workload {
        /// The path.
        cgroup: String,
    },
    /// Settings of devices that can change while they are in use: `Vec<BTreeMap<String, String>>`.
    Settings {
        /// The devices' directories in sysfs.
        directories: Vec<PathBuf>,
    },
    /// What a device reports of itself: `DeviceHealth`.
    Health {
        /// The device.
        device: AskedDevice,
    },
}

/// Words read at once: as many as needed to find the owner of a lock.
pub const WORDS: usize = 5;

/// What is at an address of a stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FrameName {
    /// A function, and the functions inlined into it at that address, innermost first.
    Named {
        /// Its name.
        name: String,
        /// The inlined functions.
        inlined: Vec<String>,
    },
    /// A JIT-compiled function.
    Compiled(String),
    /// Code without a symbol.
    Nameless,
    /// Not code.
    Wild,
    /// A function whose name would have to be read from disk.
    Unread,
}
