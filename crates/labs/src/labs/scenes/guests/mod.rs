//! Scenes that run in guests.
//!
//! | where | what |
//! |---|---|
//! | [`behind`] | what a provider or a sick drive does, behind the guest's disk |
//! | [`copies`] | volumes that copy or fetch a block when it is used for the first time |
//! | [`inside`] | what is host-wide, and what needs a device or a cgroup that this machine lacks |
//! | [`stacks`] | healthy stacks of devices, and disks of kinds that this machine lacks |

use super::*;
use crate::labs::expected::Expected;
use crate::labs::guest::GuestScene;
use crate::labs::stage::SeededNumbers;
use crate::vm::{DiskLimits, Guest, GuestDisk};

pub mod behind;
pub mod copies;
pub mod inside;
pub mod stacks;

/// A lab whose cause is to be found.
const fn cause(
    name: &'static str,
    causes: &'static [&'static str],
    build: fn(&mut LabStage) -> Result<()>,
) -> Lab {
    Lab::cause(name, causes, build)
}

/// A lab with the same load, without the cause.
const fn near(
    name: &'static str,
    causes: &'static [&'static str],
    build: fn(&mut LabStage) -> Result<()>,
) -> Lab {
    Lab::near(name, causes, build)
}

/// Starts fio in the background, for as long as the guest lives.
fn fio(dice: &mut SeededNumbers, options: &str) -> String {
    let seed = dice.between(1, 1 << 30);
    let always = "--time_based --runtime=900 --norandommap --allow_file_create=0 --size=200m";
    format!("fio --name=load --randseed={seed} {always} {options} >/dev/null 2>&1 &\n")
}

/// Lets the load reach its rate.
const SETTLE: &str = "sleep 3\n";
