//! Plays the sequence of a replay: a run starts this as a process of its own, under the name of the
//! program that it stands for.
//!
//! What does not belong here: the sequence itself (crate `iowhy-reproduce`).

use crate::args::reproduce::{ReplayArgs, ReplayPhase};
use crate::failure::Failure;
use crate::output;
use iowhy_reproduce::replay::player::{self, ReplayTimes};
use iowhy_reproduce::replay::script::ReplayScript;

/// A larger sequence is none that iowhy writes.
const MOST_BYTES: u64 = 128 << 20;

/// Creates the files of a sequence, or plays it.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let text = iowhy_fs::read::text(&args.sequence, MOST_BYTES).map_err(|cause| {
        Failure::new(format!("failed to read {}: {cause}", args.sequence.display()), None)
    })?;
    let script = ReplayScript::parse(&text)?;
    drop(text);
    match args.phase {
        ReplayPhase::Layout => player::lay_out(&script, &args.place)?,
        ReplayPhase::Run => player::play(&script, &args.place, &report)?,
    }
    Ok(())
}

/// Tells the run how punctual it is; a run that is gone ends it.
fn report(times: ReplayTimes) -> bool {
    let line = serde_json::to_string(&times).unwrap_or_default();
    output::print(&format!("{line}\n")).is_ok()
}
