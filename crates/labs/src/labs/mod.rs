//! The labs: scenarios on a real kernel with a known cause, and how iowhy diagnoses them.
//!
//! | module | contents |
//! |---|---|
//! | [`stage`] | devices, cgroups and processes of one lab, randomized in each run |
//! | [`guest`] | a lab in a guest: a cause behind the disk, or a host-wide one |
//! | [`expected`] | what a finding must name and advise |
//! | [`scenes`] | the scenarios: causes, near misses, two causes at once, controls |
//! | [`run`] | `cargo lab run NAME`: one lab |
//! | [`outcome`] | iowhy's findings for a lab, and how well they match |
//! | [`measure`] | what a lab measures itself with and without its cause |
//! | [`matrix`] | `cargo lab matrix`: all of them, and the table of docs/labs.md |
//!
//! Causes in the hardware or at a provider are produced outside the kernel: a process serves the
//! bytes of the watched device ([`crate::devices::ServedDevice`]) as slowly as the scene requires.
//!
//! What does not belong here: the detection of a cause (crate `iowhy-diagnosis`).

pub mod expected;
pub mod guest;
pub mod matrix;
pub mod measure;
pub mod outcome;
pub mod run;
pub mod scenes;
pub mod stage;

use crate::Result;
use stage::LabStage;

/// The kind of a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Its causes must be found, its first cause ranked first.
    Cause,
    /// The load of a lab without the cause, which must not be found.
    NearMiss,
    /// Healthy or merely busy: nothing above "info".
    Control,
}

/// One lab.
#[derive(Clone, Copy, Debug)]
pub struct Lab {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub sort: Sort,
    /// The causes that it produces, or the one that must not be found.
    pub causes: &'static [&'static str],
    /// Whether one of these causes is enough, because each of them is a correct diagnosis.
    pub any: bool,
    /// Creates the devices and starts the load.
    pub build: fn(&mut LabStage) -> Result<()>,
    /// Minimum values that iostat must show to match the symptom in a document: column and value.
    pub symptom: &'static [(&'static str, f64)],
}

impl Lab {
    /// A lab whose causes must be found.
    pub const fn cause(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut LabStage) -> Result<()>,
    ) -> Lab {
        Lab { name, sort: Sort::Cause, causes, any: false, build, symptom: &[] }
    }

    /// A lab for which any one of its causes must be ranked first, because several are correct.
    pub const fn any(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut LabStage) -> Result<()>,
    ) -> Lab {
        Lab { any: true, ..Lab::cause(name, causes, build) }
    }

    /// A near miss: the load without the cause.
    pub const fn near(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut LabStage) -> Result<()>,
    ) -> Lab {
        Lab { name, sort: Sort::NearMiss, causes, any: false, build, symptom: &[] }
    }

    /// A control: healthy or merely busy.
    pub const fn control(name: &'static str, build: fn(&mut LabStage) -> Result<()>) -> Lab {
        Lab { name, sort: Sort::Control, causes: &[], any: false, build, symptom: &[] }
    }

    /// Adds the symptom of a document, which iostat must show as well.
    pub const fn showing(self, symptom: &'static [(&'static str, f64)]) -> Lab {
        Lab { symptom, ..self }
    }
}

/// The lab of that name.
pub fn lab(name: &str) -> Option<&'static Lab> {
    all().find(|lab| lab.name == name)
}

/// Every lab.
pub fn all() -> impl Iterator<Item = &'static Lab> {
    scenes::ALL.iter().flat_map(|part| part.iter())
}
