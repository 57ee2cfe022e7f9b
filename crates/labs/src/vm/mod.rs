//! Guests: other kernels, and devices that this machine lacks, under QEMU without KVM.
//!
//! ```no_run
//! use iowhy_labs::vm::{DiskLimits, Guest, GuestDisk, Kernel};
//!
//! let kernel = Kernel::fetch("6.1", &mut |_| ())?;
//! let outcome = Guest::new(kernel)
//!     .disk(GuestDisk::memory("slow", 256 << 20).limited(DiskLimits::iops(200)))
//!     .module("null_blk")
//!     .run("iowhy record -t 5 -o /out/recording; iowhy report /out/recording")?;
//! assert_eq!(outcome.status, 0, "{}", outcome.said);
//! let recording = outcome.out().join("recording");
//! # Ok::<(), iowhy_labs::LabError>(())
//! ```
//!
//! Most guests have no disk of their own: they run from memory, with the programs of [`userland`],
//! and are gone when their command has ended. The command runs as root in a shell. Its disks are
//! found by name, as `/dev/disk/NAME`; what it leaves in `/out` comes back in
//! [`GuestOutcome::out`].
//!
//! | where | what |
//! |---|---|
//! | [`architecture`] | the processors that guests have |
//! | [`kernel`] | which kernels, and how they are fetched |
//! | [`userland`] | the programs of a guest |
//! | [`system`] | a Debian with systemd on a disk, for guests that are started again |
//! | [`disk`] | its disks: their limits, delays and errors outside the guest |
//! | [`guest`] | starting one, talking to QEMU, what comes back |
//! | [`command`] | `cargo lab vm` |
//!
//! What does not belong here: the tests in guests.

mod apt;
pub mod architecture;
pub mod command;
mod cpio;
pub mod disk;
pub mod guest;
pub mod kernel;
mod qemu;
pub mod system;
pub mod userland;

pub use architecture::Architecture;
pub use disk::{DiskLimits, GuestDisk};
pub use guest::{Guest, GuestOutcome, RunningGuest};
pub use kernel::Kernel;

use crate::Result;
use crate::error::Context;
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::PathBuf;

/// Returns the cache of kernels and userlands: outside the repository.
pub fn cache() -> Result<PathBuf> {
    crate::cache::folder("guests")
}

/// Held while something in the cache is made, so that two labs do not make it at once.
fn lock_cache() -> Result<File> {
    let path = cache()?.join("lock");
    let file = File::create(&path).context(|| format!("make {}", path.display()))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .context(|| format!("lock {}", path.display()))?;
    Ok(file)
}
