//! Scenes written blind: from the catalogue of causes alone, before anybody had looked at the rules that
//! are to find them, and before iowhy had seen them run. What it said of them the first time stands in
//! docs/diagnosis.md.
//!
//! They are not changed afterwards, except where one provably does not make its cause.
//!
//! | where | what lives there |
//! |---|---|
//! | [`devices`] | limits, devices below devices, the processor |
//! | [`files`] | file systems, locks, caches, programs |

use super::*;
use crate::labs::expected::Expected;

pub mod devices;
pub mod files;

const KIB: u64 = 1 << 10;

/// A lab whose cause is to be found.
const fn blind(
    name: &'static str,
    causes: &'static [&'static str],
    build: fn(&mut Stage) -> Result<()>,
) -> Lab {
    Lab::cause(name, causes, build)
}
