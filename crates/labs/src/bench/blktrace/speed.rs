//! Time and memory on one large capture.

use crate::bench::cost::{CommandCost, TimedCommand};
use crate::bench::{goal_cell, table_of};
use crate::captures;
use crate::error::Context;
use crate::{Result, command, iowhy};
use std::fmt::Write;
use std::path::Path;

/// Text is to be this many times faster than blkparse's.
const TEXT_GOAL: f64 = 10.0;
/// `iowhy stages` is to take at most this many times the time of reading the bytes.
const READING_GOAL: f64 = 3.0;
/// Anonymous memory at most, bytes.
const MEMORY_GOAL: u64 = 64 << 20;

/// Makes the capture, measures every program on it, and gives the table.
pub fn measure(
    folder: &Path,
    capture: captures::GeneratorSettings,
    rounds: usize,
    goal: f64,
) -> Result<String> {
    let records = captures::generate(folder, capture)
        .context(|| format!("write a capture into {}", folder.display()))?;
    let bytes = size(folder)?;
    let names: Vec<_> = (0..capture.devices).map(captures::device_name).collect();
    let mut programs = programs(&names)?;
    for round in 0..=rounds.max(1) {
        for program in &mut programs {
            program.run(folder, round == 0)?;
        }
    }
    let size = bytes as f64 / 1e6;
    let table = table_of(|page| table(page, &programs, goal))?;
    let wall = |name| cost_of(&programs, name).wall;
    let times = wall("iowhy stages") / wall("cat, to nowhere");
    let reached = if times <= READING_GOAL { "reached" } else { "not reached" };
    Ok(format!(
        "{records} records, {size:.0} MB.\n\n{table}\n`iowhy stages` takes {times:.1} times as \
         long as reading the bytes; goal: at most {READING_GOAL}: {reached}.\n"
    ))
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let entries = folder.read_dir().context(|| format!("list {}", folder.display()))?;
    for entry in entries.flatten() {
        bytes += entry.metadata().map(|about| about.len()).unwrap_or(0);
    }
    Ok(bytes)
}

/// Returns the measured programs. A program's output may be the next one's input.
fn programs(names: &[String]) -> Result<Vec<TimedCommand>> {
    let iowhy = iowhy::binary()?;
    let (blkparse, btt, cat) =
        (command::find("blkparse")?, command::find("btt")?, command::find("cat")?);
    let given = |first: &[&str], flag: Option<&str>| -> Vec<String> {
        let mut words: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
        for name in names {
            words.extend(flag.map(str::to_owned));
            words.push(name.clone());
        }
        words
    };
    let files = |_| (0..4).flat_map(|cpu| names.iter().map(move |n| format!("{n}.blktrace.{cpu}")));
    let program = |name, file: &Path, arguments, output| TimedCommand {
        name,
        file: file.to_owned(),
        arguments,
        output,
        cost: CommandCost::UNKNOWN,
    };
    Ok(vec![
        program("cat, to nowhere", &cat, files(()).collect(), "/dev/null"),
        program(
            "blkparse -q -O -d",
            &blkparse,
            given(&["-q", "-O", "-d", "dump"], Some("-i")),
            "o1",
        ),
        program("btt", &btt, ["-i", "dump", "-o", "btt"].map(str::to_owned).to_vec(), "o2"),
        program("iowhy stages", &iowhy, given(&["stages"], None), "o3"),
        program(
            "iowhy stages --btt-compat",
            &iowhy,
            given(&["stages", "--btt-compat"], None),
            "o4",
        ),
        program("blkparse", &blkparse, given(&["-o", "theirs"], Some("-i")), "o5"),
        program(
            "iowhy events --blkparse-compat",
            &iowhy,
            given(&["events", "--blkparse-compat"], None),
            "o6",
        ),
        program("iowhy events", &iowhy, given(&["events"], None), "o7"),
    ])
}

fn cost_of(programs: &[TimedCommand], name: &str) -> CommandCost {
    let program = programs.iter().find(|program| program.name == name);
    program.map_or(CommandCost::UNKNOWN, |program| program.cost)
}

fn table(page: &mut String, programs: &[TimedCommand], goal: f64) -> std::fmt::Result {
    let cost = |name: &str| cost_of(programs, name);
    let both = cost("blkparse -q -O -d").then(cost("btt"));
    let text = cost("blkparse");
    writeln!(
        page,
        "| program | wall | CPU | times faster, wall | less CPU | goal, wall | anonymous memory |"
    )?;
    writeln!(page, "|---|--:|--:|--:|--:|---|--:|")?;
    let rows = [
        ("reading only: `cat`", cost("cat, to nowhere"), None),
        ("`blkparse -q -O -d`", cost("blkparse -q -O -d"), None),
        ("`btt`", cost("btt"), None),
        ("**both**", both, None),
        ("`iowhy stages`", cost("iowhy stages"), Some((both, Some(goal)))),
        ("`iowhy stages --btt-compat`", cost("iowhy stages --btt-compat"), Some((both, None))),
        ("**blkparse's text**", text, None),
        (
            "`iowhy events --blkparse-compat`",
            cost("iowhy events --blkparse-compat"),
            Some((text, Some(TEXT_GOAL))),
        ),
        ("`iowhy events`", cost("iowhy events"), Some((text, Some(TEXT_GOAL)))),
    ];
    rows.iter().try_for_each(|(name, cost, against)| row(page, name, *cost, *against))
}

/// `against`: the other cost, and the goal as a factor.
fn row(
    page: &mut String,
    name: &str,
    cost: CommandCost,
    against: Option<(CommandCost, Option<f64>)>,
) -> std::fmt::Result {
    let memory = cost.memory as f64 / f64::from(1 << 20);
    write!(page, "| {name} | {:.2} s | {:.2} s ", cost.wall, cost.cpu)?;
    let Some((other, goal)) = against else {
        return writeln!(page, "| | | | {memory:.1} MiB |");
    };
    let times = other.wall / cost.wall;
    let reached = goal_cell(goal, times);
    let note = if cost.memory > MEMORY_GOAL { ", more than 64 MiB" } else { "" };
    writeln!(
        page,
        "| {times:.1} | {:.1} | {reached} | {memory:.1} MiB{note} |",
        other.cpu / cost.cpu
    )
}
