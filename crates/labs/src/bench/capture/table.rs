//! The part of docs/performance.md that the benchmark writes.

use super::account::{CostAccount, CountedPrograms, ProgramCost};
use super::watcher::Variant;
use super::{CostMeasured, CostRow, CostSettings, VariantFigures, WatchedLoad};
use crate::bench::load::ReadSpeed;
use crate::bench::{cpus, goal_cell, table_of};
use crate::{Result, command};
use std::fmt::Write;

/// The part as Markdown.
pub fn render(measured: &CostMeasured, about: &str, settings: &CostSettings) -> Result<String> {
    let fio = command::run("fio", ["--version"])?;
    table_of(|page| {
        writeln!(
            page,
            "{about}; {}. fio runs on; each watch of {} s is compared with the unwatched seconds \
             just before and after it; {} rounds, interleaved.",
            fio.trim(),
            settings.seconds,
            settings.rounds
        )?;
        for (load, command) in &measured.loads {
            with_load(page, &measured.rows, *load, command.as_deref())?;
        }
        account(page, measured)
    })
}

/// The values in order.
fn sorted(rounds: &[VariantFigures], of: impl Fn(&VariantFigures) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(rounds: &[VariantFigures], of: impl Fn(&VariantFigures) -> f64) -> f64 {
    let values = sorted(rounds, of);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn with_load(
    page: &mut String,
    rows: &[CostRow],
    load: WatchedLoad,
    command: Option<&str>,
) -> std::fmt::Result {
    let rows: Vec<&CostRow> = rows.iter().filter(|row| row.load == load).collect();
    let base: Vec<VariantFigures> =
        rows.iter().flat_map(|row| row.rounds.iter().copied()).collect();
    match command {
        Some(command) => writeln!(
            page,
            "\n### 4 KiB random reads of a loop device over tmpfs, {}\n\n```\n{command}\n```\n",
            load.name()
        )?,
        None => writeln!(page, "\n### {}\n", load.name())?,
    }
    writeln!(
        page,
        "Untraced: {:.0} per second, {:.0} ns of CPU time for each (medians of {} measurements).\n",
        median(&base, |figures| figures.base_iops),
        median(&base, |figures| figures.base_cpu_ns),
        base.len()
    )?;
    writeln!(
        page,
        "| watched by | speed of untraced, median | quartiles | lowest to highest | goal | \
         CPU time more for each | the same, of all CPUs | all CPUs busy | watcher's CPU time | \
         bytes per I/O on disk | lost |"
    )?;
    writeln!(page, "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|")?;
    rows.into_iter().try_for_each(|row| row_of(page, row))
}

fn row_of(page: &mut String, row: &CostRow) -> std::fmt::Result {
    let ratios = sorted(&row.rounds, |figures| 100.0 * figures.iops / figures.base_iops);
    let at = |index: usize| ratios.get(index).copied().unwrap_or(0.0);
    let lost: u64 = row.rounds.iter().map(|figures| figures.lost).sum();
    let more_ns = |figures: &VariantFigures| figures.cpu_ns - figures.base_cpu_ns;
    let more_share =
        |figures: &VariantFigures| 100.0 * more_ns(figures) * figures.iops / 1e9 / cpus() as f64;
    let middle = at(ratios.len() / 2);
    writeln!(
        page,
        "| {} | {middle:.1} % | {:.1} to {:.1} % | {:.1} to {:.1} % | {} | {:.0} ns | {:.1} % | \
         {:.0} % | {:.2} CPU | {:.1} | {} |",
        row.variant.meaning(),
        at(ratios.len() / 4),
        at(ratios.len() * 3 / 4),
        at(0),
        at(ratios.len().saturating_sub(1)),
        goal_cell(row.load.goal(row.variant), middle),
        median(&row.rounds, more_ns),
        median(&row.rounds, more_share),
        100.0 * median(&row.rounds, |figures| figures.busy),
        median(&row.rounds, |figures| figures.watcher),
        median(&row.rounds, |figures| figures.bytes_per_io),
        if row.variant.is_iowhy() { lost.to_string() } else { "–".to_owned() }
    )
}

fn account(page: &mut String, measured: &CostMeasured) -> std::fmt::Result {
    let account = &measured.account;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let at_most = |value: f64, goal: f64| match value <= goal {
        true => "reached",
        false => "not reached",
    };
    writeln!(page, "\n### One long watch at full speed, with `--every`\n")?;
    writeln!(page, "| figure | value | goal |\n|---|--:|---|")?;
    let totals = &account.sustained;
    writeln!(page, "| I/Os per second (wall) | {:.0} | |", account.sustained_iops)?;
    writeln!(page, "| I/Os that fio did | {} | |", account.sustained_ios)?;
    writeln!(page, "| requests recorded | {} | |", totals.requests)?;
    writeln!(page, "| requests lost, as the recording says | {} | |", totals.lost)?;
    let per_request = totals.bytes as f64 / totals.requests.max(1) as f64;
    writeln!(page, "| bytes on disk per request | {per_request:.1} | |")?;
    writeln!(page, "| anonymous memory, peak | {:.1} MiB | |", mebibytes(account.anonymous))?;
    writeln!(page, "| resident memory, peak | {:.1} MiB | |", mebibytes(account.resident))?;
    writeln!(page, "| memory of the BPF maps | {:.1} MiB | |", mebibytes(account.maps))?;
    let memory = mebibytes(account.anonymous + account.maps);
    writeln!(
        page,
        "| anonymous memory and BPF maps together | {memory:.1} MiB | at most 96 MiB: {} |",
        at_most(memory, 96.0)
    )?;
    let size = account.binary as f64 / 1e6;
    writeln!(
        page,
        "| size of the binary | {size:.1} MB | at most 16 MB: {} |",
        at_most(size, 16.0)
    )?;
    if let Some(first) = account.first_record_ms.get(account.first_record_ms.len() / 2) {
        writeln!(
            page,
            "| from starting iowhy under load to its first request (wall), median of {} | \
             {first:.0} ms | at most 300 ms: {} |",
            account.first_record_ms.len(),
            at_most(*first, 300.0)
        )?;
    }
    programs(page, account)?;
    where_it_goes(page, measured)
}

/// Writes the programs of a watch without a budget, next to those of one within it.
fn programs(page: &mut String, account: &CostAccount) -> std::fmt::Result {
    writeln!(page, "\n### BPF programs, as the kernel counts them (CPU time)\n")?;
    writeln!(
        page,
        "| program | `--every`: ns per run | ns per I/O | within the budget: ns per run | \
         ns per I/O |\n|---|--:|--:|--:|--:|"
    )?;
    let cells = |counted: &CountedPrograms, name: &str| {
        let ran = |program: &&ProgramCost| program.name == name && program.runs > 0;
        counted.programs.iter().find(ran).map_or("– | –".to_owned(), |program| {
            let ns = program.nanoseconds as f64;
            format!("{:.0} | {:.0}", ns / program.runs as f64, ns / counted.ios.max(1) as f64)
        })
    };
    let of_every = |name: &str| {
        account.every.programs.iter().any(|program| program.name == name && program.runs > 0)
    };
    let within = account.within.programs.iter().filter(|program| !of_every(&program.name));
    let all = account.every.programs.iter().chain(within);
    for program in all.filter(|program| program.runs > 0) {
        let name = &program.name;
        let (every, within) = (cells(&account.every, name), cells(&account.within, name));
        writeln!(page, "| `{name}` | {every} | {within} |")?;
    }
    let (every, within) = (account.every.ns_per_io(), account.within.ns_per_io());
    writeln!(page, "| all | | {every:.0} | | {within:.0} |")
}

/// Writes the additional CPU time of one I/O, and its parts.
fn where_it_goes(page: &mut String, measured: &CostMeasured) -> std::fmt::Result {
    let full = |row: &&CostRow| {
        row.variant == Variant::Every && row.load == WatchedLoad::Reads(ReadSpeed::Full)
    };
    let rounds = measured.rows.iter().find(full).map_or(&[][..], |row| &row.rounds);
    let base = median(rounds, |figures| figures.base_cpu_ns);
    let more = median(rounds, |figures| figures.cpu_ns - figures.base_cpu_ns);
    let account = &measured.account;
    let bpf = account.every.ns_per_io();
    let own = account.every.own_ns / account.every.ios.max(1) as f64;
    writeln!(page, "\n### Where the cost of `--every` goes (CPU time per I/O at full speed)\n")?;
    writeln!(page, "| part | ns |\n|---|--:|")?;
    writeln!(page, "| one I/O, untraced | {base:.0} |")?;
    writeln!(page, "| one I/O, watched: additional | {more:.0} |")?;
    writeln!(page, "| part of BPF programs | {bpf:.0} |")?;
    writeln!(page, "| part of iowhy's process: reading, decoding, writing | {own:.0} |")?;
    writeln!(
        page,
        "| remainder: entry and exit of the programs, and their cache misses | {:.0} |",
        more - bpf - own
    )?;
    writeln!(
        page,
        "\nBPF and process are from a round in which the kernel counts the programs, which itself \
         costs time in each run."
    )
}
