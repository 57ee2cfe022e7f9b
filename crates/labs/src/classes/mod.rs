//! Loads whose threads wait for one thing, and iowhy's result: the class, the unknown share, and
//! blocked time compared with the program's own clock.
//!
//! | where | what |
//! |---|---|
//! | [`loads`] | the loads that this machine can run: nothing outside their devices changes |
//! | [`guest_loads`] | those that change the whole machine, for guests |
//! | [`mod@measure`] | one run: a recording, and the program's own clock |
//! | [`table`] | `cargo lab classes`: all of them, and the table of docs/waits.md |
//!
//! What does not belong here: the class of a wait (crate `iowhy-model`), and the named causes (the
//! labs).

pub mod guest_loads;
pub mod loads;
pub mod measure;
pub mod table;

use crate::Result;
use crate::labs::stage::LabStage;
pub use measure::{ClassMeasured, measure};
use std::path::PathBuf;
use std::process::Command;

/// The machine on which a load can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunsOn {
    /// The machine that runs this program.
    Host,
    /// A guest: settings of the whole machine, or devices that only it has.
    Guest,
}

/// The waits by the program's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockAgreement {
    /// Blocked time must agree with the clock: the program waits for one I/O at a time.
    Agrees,
    /// The clock is only shown, for the stated reason.
    Shown(&'static str),
}

/// One load.
#[derive(Clone, Copy, Debug)]
pub struct ClassLoad {
    /// Its name.
    pub name: &'static str,
    /// The work of its threads, for the table.
    pub what: &'static str,
    /// The machine on which it can run.
    pub place: RunsOn,
    /// The classes that it produces, as the recording names them.
    pub classes: &'static [&'static str],
    /// The least share of the time asleep that must be in them, 0 to 1.
    pub least: f64,
    /// Whether blocked time must agree with the program's own clock.
    pub clock: ClockAgreement,
    /// Makes its devices and the program.
    pub build: fn(&mut LabStage) -> Result<ClassScene>,
}

/// The watched program.
#[derive(Debug)]
pub struct ClassScene {
    /// The program.
    pub command: Command,
    /// The name of its processes.
    pub process: &'static str,
    /// The file with its own measurements.
    pub measured: OwnClock,
}

/// The output of a program's own measurements.
#[derive(Clone, Debug)]
pub enum OwnClock {
    /// fio's JSON.
    Fio(PathBuf),
    /// A file with one number: nanoseconds in its calls.
    File(PathBuf),
    /// The program measures nothing.
    None,
}

/// Every load.
pub fn all() -> impl Iterator<Item = &'static ClassLoad> {
    loads::LOADS.iter().chain(guest_loads::LOADS)
}
