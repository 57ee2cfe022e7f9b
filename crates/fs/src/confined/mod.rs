//! Threads with the rights that their work needs and no others, so that a thread that parses what
//! others made, and is taken over, gains little.
//!
//! | thread | may | held by |
//! |---|---|---|
//! | that reads ([`Role::Reads`]) | read files and processes; open nothing to write | seccomp |
//! | that writes ([`Role::Writes`]) | write below its directories | landlock, seccomp |
//!
//! A thread that needs both ([`enter`]) becomes one that reads, and has one that writes do what
//! [`crate::Folder`] is asked for: landlock forbids to look into processes outside of it, even to
//! read `/proc/PID/io`, and seccomp cannot tell one path from another. Both give up all
//! capabilities that they are not given, for good. One that reads may start programs, which gain
//! none (`no_new_privs`) and have the same limits; one that writes starts none. Neither mounts,
//! traces, signals other processes, loads modules, changes the clock, or makes a socket but for
//! datagrams on this machine, with which journald and systemd are told things.
//!
//! Where the kernel has no landlock or no seccomp, the rest takes effect ([`InEffect`]).
//!
//! What does not belong here: which capabilities a watch needs.

mod filter;

pub use filter::ProgramLoading;

use crate::rights;
use crate::special;
use landlock::{
    ABI, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError,
};
use rustix::thread::CapabilitySet;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// The work of a thread.
#[derive(Clone, Debug)]
pub enum Role {
    /// The thread reads, and may load programs into the kernel.
    Reads(ProgramLoading),
    /// The thread writes below these directories; those that do not exist are passed over.
    Writes(Vec<PathBuf>),
}

/// The means that the kernel has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InEffect {
    /// Writing is limited to directories.
    pub landlock: bool,
    /// System calls are refused.
    pub seccomp: bool,
}

/// A task of the writing thread.
type WriterTask = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The thread that writes for this one.
    static WRITER: RefCell<Option<Sender<WriterTask>>> = const { RefCell::new(None) };
}

/// Limits the calling thread, and those that it starts from now on, to reading, with `kept` of its
/// capabilities; what it writes by way of [`crate::Folder`] from now on is written by another
/// thread, which may write below `places` only.
///
/// # Errors
/// Fails if the system has no thread for it; nothing is limited then.
pub fn enter(
    places: Vec<PathBuf>,
    kept: CapabilitySet,
    loading: ProgramLoading,
) -> io::Result<InEffect> {
    let (tasks, received) = channel::<WriterTask>();
    let (began, beginning) = channel();
    Builder::new().name("writer".to_owned()).spawn(move || {
        // Others own the directories that root is told to write to.
        let limited = limit_this_thread(&Role::Writes(places), CapabilitySet::DAC_OVERRIDE);
        // The other side waits for it.
        let _ = began.send(limited);
        received.into_iter().for_each(|task| task());
    })?;
    let ended = |_| io::Error::other("the writing thread ended");
    let writing = beginning.recv().map_err(ended)?;
    let reading = limit_this_thread(&Role::Reads(loading), kept);
    WRITER.with(|writer| *writer.borrow_mut() = Some(tasks));
    Ok(InEffect { landlock: writing.landlock, seccomp: writing.seccomp && reading.seccomp })
}

/// Limits the calling thread, and those that it starts from now on, to its role, with `kept` of its
/// capabilities.
pub fn limit_this_thread(role: &Role, kept: CapabilitySet) -> InEffect {
    special::open_nowhere();
    // Without it an unprivileged thread has neither of the following; it cannot fail.
    let _ = rustix::thread::set_no_new_privs(true);
    let landlock = match role {
        Role::Reads(_) => false,
        Role::Writes(places) => write_below(places).unwrap_or(false),
    };
    // The bounding set first: it takes a capability to make it smaller.
    rights::keep_only(kept);
    let seccomp = filter::apply(role).is_ok();
    InEffect { landlock, seccomp }
}

/// Whether the kernel has landlock and seccomp, found by a thread that is limited.
pub fn available() -> InEffect {
    let limited = || limit_this_thread(&Role::Writes(Vec::new()), CapabilitySet::empty());
    Builder::new()
        .spawn(limited)
        .map_or_else(|_| InEffect::default(), |thread| thread.join().unwrap_or_default())
}

/// Limits writing to the directories `places`, and takes TCP away; false if the kernel cannot.
fn write_below(places: &[PathBuf]) -> Result<bool, RulesetError> {
    // The second version can give a file a name in another directory, which incidents need.
    let needed = AccessFs::from_write(ABI::V2);
    // Devices that are open already answer without it.
    let wanted = AccessFs::from_write(ABI::V3);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(needed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(wanted)?
        .handle_access(AccessNet::BindTcp)?
        .handle_access(AccessNet::ConnectTcp)?;
    let mut rules = rules.create()?;
    for place in places {
        if let Ok(place) = PathFd::new(place) {
            rules = rules.add_rule(PathBeneath::new(place, wanted))?;
        }
    }
    rules.restrict_self()?;
    Ok(true)
}

/// Has the thread that writes for this one do `action`; this one itself where there is none.
pub(crate) fn by_writer<T: Send + 'static>(
    action: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let Some(writer) = WRITER.with(|writer| writer.borrow().clone()) else { return action() };
    let (answer, answered) = channel();
    let task = move || {
        // The other side waits for it.
        let _ = answer.send(action());
    };
    let ended = || io::Error::other("the thread that writes has ended");
    writer.send(Box::new(task)).map_err(|_| ended())?;
    answered.recv().unwrap_or_else(|_| Err(ended()))
}
