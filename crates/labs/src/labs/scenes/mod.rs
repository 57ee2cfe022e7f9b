//! The scenarios.

use super::Lab;
use super::stage::Stage;
use crate::Result;
use crate::devices::{Backing, BlockDevice, Cgroup, Kind, Limit};
use crate::fio::{self, Access, Engine, Job};

pub mod blind;
pub mod caching;
pub mod cases;
pub mod controls;
pub mod guests;
pub mod journals;
pub mod limits;
pub mod pairs;

/// Every scenario.
pub const ALL: &[&[Lab]] = &[
    cases::LABS,
    limits::LABS,
    caching::LABS,
    journals::LABS,
    pairs::LABS,
    controls::LABS,
    guests::behind::LABS,
    guests::inside::LABS,
    blind::devices::LABS,
    blind::files::LABS,
];

const MIB: u64 = 1 << 20;

/// Runs a Python program to its end.
fn script(program: &str, folder: &std::path::Path) -> Result<()> {
    let program = std::ffi::OsStr::new(program);
    crate::command::run("python3", ["-c".as_ref(), program, folder.as_os_str()]).map(drop)
}
