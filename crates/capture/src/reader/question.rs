//! The questions to the reader and its answers: each a line of JSON on a pipe.

use crate::host::health::AskedDevice;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A question about a process or about devices.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    /// The process's number; 0 if the question is about devices.
    pub process: u32,
    /// The object of the question.
    pub what: Lookup,
}

/// The object of a question, and the type of its answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Lookup {
    /// The functions at these addresses: `Option<Vec<Function>>`.
    Functions(Vec<u64>),
    /// Return addresses on a sleeping thread's stack: `Vec<u64>`.
    Stack {
        /// The thread's stack pointer.
        stack_pointer: u64,
    },
    /// The return addresses of a copied stack: `Option<UnwoundStack>`.
    Unwind {
        /// The thread's registers.
        registers: CopiedRegisters,
        /// The stack from the stack pointer on, as base64.
        stack: String,
    },
    /// Whether a walk along frame pointers has left out callers of one of these functions, the
    /// innermost first: `bool`.
    LeavesOut(Vec<u64>),
    /// The words at an address: `Option<[u32; WORDS]>`.
    Words {
        /// The address.
        address: u64,
    },
    /// The process's command line: `Option<String>`.
    Arguments,
    /// The process's open files: `Found`.
    Held {
        /// Only files whose path begins with one of these are returned; all if empty.
        prefixes: Vec<String>,
    },
    /// The workload of a cgroup, by its path: `Workload`.
    Workload {
        /// The path.
        cgroup: String,
    },
    /// Settings of devices that can change while they are in use: `Vec<BTreeMap<String, String>>`.
    Settings {
        /// The devices' directories in sysfs.
        directories: Vec<PathBuf>,
    },
    /// The health report of a device: `DeviceHealth`.
    Health {
        /// The device.
        device: AskedDevice,
    },
}

/// The registers with which unwinding begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CopiedRegisters {
    /// The instruction at which the thread entered the kernel.
    pub instruction: u64,
    /// The stack pointer.
    pub stack_pointer: u64,
    /// The frame pointer, or what the program keeps in its register.
    pub frame_pointer: u64,
    /// The link register, where the CPU has one.
    pub link: u64,
}

/// The frames that a copied stack was unwound to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnwoundStack {
    /// Addresses in the calling instructions, the innermost first.
    pub frames: Vec<u64>,
    /// The reason why the stack ends there.
    pub end: UnwindEnd,
}

/// A reason why unwinding ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum UnwindEnd {
    /// The function where the program or the thread starts.
    Root,
    /// The stack goes on beyond what was copied, or has more frames than are kept.
    TooDeep,
    /// The tables of the code would have to be read from disk.
    Unread,
    /// The code's file has no tables, nor does the code keep frame pointers.
    Bare,
    /// Code without a file that keeps no frame pointers.
    Compiled,
    /// The tables do not describe what is on the stack.
    Lost,
}

/// Words read at once: as many as needed to find the owner of a lock.
pub const WORDS: usize = 5;

/// The function, or the lack of one, at an address of a stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FrameName {
    /// A function, and the functions inlined into it at that address, innermost first.
    Named {
        /// The function's name.
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
