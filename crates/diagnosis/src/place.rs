//! The place where a cause acts, on the way from what the machine is to what a program does.
//!
//! One cause may explain another only if it acts earlier: a failing drive explains a full queue, a
//! full queue explains no failing drive. The order is that of the variants. Causes of one place
//! explain nothing of each other: they stand side by side.
//!
//! What does not belong here: how much of another's time a cause must claim (see [`super::rank`]).

/// The place of a cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// The device, its path or the machine is broken, degraded or set up anew.
    Fault,
    /// A limit that somebody set, of a cgroup or an instance, or a part of the file system that all
    /// share.
    Limit,
    /// Memory or space is short.
    Memory,
    /// A setting or the layout of files makes the kernel do more than is asked for.
    Setting,
    /// Work of the kernel or of a server that a program needs: a resync, a FUSE server.
    KernelWork,
    /// One kind of work of one program: a checkpoint, a scan, a flood of log messages.
    Program,
    /// Another program's requests, of any kind.
    Neighbour,
    /// A lock of the program whose holder waits.
    Lock,
    /// The device's cache is flushed.
    Flush,
    /// The number and the size of a program's own calls.
    Calls,
    /// A limit behind the device: of the provider's volume.
    Volume,
    /// The kernel paces writers or orders requests.
    Throttle,
    /// Journals and locks of the file system.
    FileSystem,
    /// Tags and queues of the block layer.
    Queue,
    /// The device itself takes long.
    Device,
    /// The program asks in a way that leaves the device idle, or lacks a CPU.
    Pattern,
}

impl Place {
    /// Whether requests are more than it can take at once: who sends a third of them explains it.
    pub const fn is_capacity(self) -> bool {
        matches!(self, Place::Volume | Place::Throttle | Place::Queue | Place::Device)
    }
}
