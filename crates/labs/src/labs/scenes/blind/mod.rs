//! Scenes written blind: from the catalogue of causes alone, without knowledge of the rules that
//! should find them, and before iowhy had watched them. Its first findings for them are in
//! docs/labs.md.
//!
//! They are not changed afterwards, except if one provably does not produce its cause.
//!
//! | module | contents |
//! |---|---|
//! | [`devices`] | limits, stacked devices, the CPU |
//! | [`files`] | file systems, locks, caches, programs |

use super::*;
use crate::labs::expected::Expected;

pub mod devices;
pub mod files;

const KIB: u64 = 1 << 10;

/// A lab whose causes must be found.
const fn blind(
    name: &'static str,
    causes: &'static [&'static str],
    build: fn(&mut LabStage) -> Result<()>,
) -> Lab {
    Lab::cause(name, causes, build)
}
