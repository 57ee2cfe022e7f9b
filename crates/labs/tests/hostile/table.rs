//! The table of all runs.
//!
//! What does not belong here: the verdicts.

use crate::commands::KINDS;
use crate::runs::{HostileRun, MOST_BYTES, MOST_CPU};
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use std::fmt::Write;
use std::time::Duration;

/// Formats the part of the page.
pub fn part(machine: &str, runs: &[HostileRun], took: Duration) -> Result<String> {
    let mut part = String::new();
    write(&mut part, machine, runs, took).context(|| "write the table".to_owned())?;
    Ok(part)
}

fn write(
    part: &mut String,
    machine: &str,
    runs: &[HostileRun],
    took: Duration,
) -> std::fmt::Result {
    let (most_mib, most_s) = (MOST_BYTES >> 20, MOST_CPU.as_secs());
    writeln!(
        part,
        "{machine}. {} inputs in {:.0} s, {:.0} a second. No run panicked, was ended by a signal, \
         took more than {most_mib} MiB or {most_s} s of CPU time, or printed a control character. \
         Command: `make hostile`.\n",
        runs.len(),
        took.as_secs_f64(),
        runs.len() as f64 / took.as_secs_f64().max(1e-3)
    )?;
    let mut damages: Vec<&str> = KINDS.iter().flat_map(|kind| kind.damages).copied().collect();
    damages.push("failed once");
    let mut seen = Vec::new();
    damages.retain(|damage| {
        !seen.contains(damage) && {
            seen.push(damage);
            true
        }
    });
    rows(part, "input", runs, KINDS.iter().map(|kind| kind.name), |run| run.kind)?;
    rows(part, "damage", runs, damages.into_iter(), |run| run.damage)?;
    let first = |run: &HostileRun| run.command.split(' ').next().unwrap_or_default();
    let mut commands: Vec<&str> = runs.iter().map(first).collect();
    commands.sort_unstable();
    commands.dedup();
    rows(part, "command", runs, commands.into_iter(), first)
}

fn rows<'a>(
    part: &mut String,
    heading: &str,
    runs: &[HostileRun],
    keys: impl Iterator<Item = &'a str>,
    key: fn(&HostileRun) -> &str,
) -> std::fmt::Result {
    writeln!(part, "\n| {heading} | inputs | read | refused | most memory | longest |")?;
    writeln!(part, "|---|--:|--:|--:|--:|--:|")?;
    for name in keys {
        let of_key: Vec<&HostileRun> = runs.iter().filter(|run| key(run) == name).collect();
        let read = of_key.iter().filter(|run| run.code == Some(0)).count();
        let most = of_key.iter().map(|run| run.bytes).max().unwrap_or(0);
        let longest = of_key.iter().map(|run| run.time).max().unwrap_or_default();
        writeln!(
            part,
            "| {name} | {} | {read} | {} | {} MiB | {:.1} s |",
            of_key.len(),
            of_key.len() - read,
            most >> 20,
            longest.as_secs_f64()
        )?;
    }
    Ok(())
}
