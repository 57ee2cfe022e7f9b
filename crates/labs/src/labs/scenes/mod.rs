//! The scenarios.

use super::stage::Stage;
use super::{Lab, Sort};
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

/// Every scenario.
pub const ALL: &[&[Lab]] = &[
    cases::LABS,
    limits::LABS,
    caching::LABS,
    journals::LABS,
    controls::LABS,
    guests::behind::LABS,
    guests::inside::LABS,
    blind::devices::LABS,
    blind::files::LABS,
];

const MIB: u64 = 1 << 20;
