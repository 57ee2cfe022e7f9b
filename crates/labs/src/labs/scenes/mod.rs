//! The scenarios.

use super::stage::Stage;
use super::{Lab, Sort};
use crate::Result;
use crate::devices::{BlockDevice, Cgroup, Kind, Limit};
use crate::fio::{self, Access, Engine, Job};

pub mod controls;
pub mod limits;

/// Every scenario.
pub const ALL: &[&[Lab]] = &[limits::LABS, controls::LABS];

const MIB: u64 = 1 << 20;
