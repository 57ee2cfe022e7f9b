//! The labs: scenarios on a real kernel whose cause is known, and what iowhy says about them.
//!
//! | where | what lives there |
//! |---|---|
//! | [`stage`] | devices, cgroups and processes of one lab, drawn anew in each run |
//! | [`guest`] | a lab in a guest: a cause that lies behind the disk, or that is host-wide |
//! | [`expected`] | whom a finding must name and what it must advise |
//! | [`scenes`] | the scenarios: causes, near misses, two causes at once, controls |
//! | [`run`] | `cargo lab run NAME`: one lab |
//! | [`outcome`] | what iowhy said of a lab, and how well that fits |
//! | [`measure`] | what a lab itself measures with and without its cause |
//! | [`matrix`] | `cargo lab matrix`: all of them, and the table of docs/diagnosis.md |
//!
//! A cause of the hardware or a provider is made outside the kernel: a process serves the bytes of the
//! device that is watched ([`crate::devices::Served`]), as slowly as the scene wants.
//!
//! What does not belong here: how a cause is recognised (crate `iowhy-core`).

pub mod expected;
pub mod guest;
pub mod matrix;
pub mod measure;
pub mod outcome;
pub mod run;
pub mod scenes;
pub mod stage;

use crate::Result;
use stage::Stage;

/// What a lab is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Its causes must be found, the first one first.
    Cause,
    /// The cause is taken away and the rest is the same: it must not be found.
    NearMiss,
    /// Healthy or merely busy: nothing above "info".
    Control,
}

/// One lab.
#[derive(Clone, Copy, Debug)]
pub struct Lab {
    /// Its name.
    pub name: &'static str,
    /// What it is there for.
    pub sort: Sort,
    /// The causes that it makes, or the one that it must not show.
    pub causes: &'static [&'static str],
    /// Whether one of these causes is enough: all of them are true of the same trouble.
    pub any: bool,
    /// Makes the devices and starts the load.
    pub build: fn(&mut Stage) -> Result<()>,
    /// What iostat must show, at least, for it to be the trouble of a document: column and value.
    pub symptom: &'static [(&'static str, f64)],
}

impl Lab {
    /// One whose causes must be found.
    pub const fn cause(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut Stage) -> Result<()>,
    ) -> Lab {
        Lab { name, sort: Sort::Cause, causes, any: false, build, symptom: &[] }
    }

    /// One of whose causes any must be found first: a trouble that several of them tell of rightly.
    pub const fn any(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut Stage) -> Result<()>,
    ) -> Lab {
        Lab { any: true, ..Lab::cause(name, causes, build) }
    }

    /// One of which a cause was taken away.
    pub const fn near(
        name: &'static str,
        causes: &'static [&'static str],
        build: fn(&mut Stage) -> Result<()>,
    ) -> Lab {
        Lab { name, sort: Sort::NearMiss, causes, any: false, build, symptom: &[] }
    }

    /// A healthy or busy one.
    pub const fn control(name: &'static str, build: fn(&mut Stage) -> Result<()>) -> Lab {
        Lab { name, sort: Sort::Control, causes: &[], any: false, build, symptom: &[] }
    }

    /// The same, where iostat must show the trouble of a document, too.
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
