//! The part of docs/performance.md that the benchmark writes.

use super::account::CostAccount;
use super::watcher::Variant;
use super::{CostMeasured, CostRow, CostSettings, VariantFigures};
use crate::bench::load::ReadSpeed;
use crate::bench::table_of;
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
        for (speed, load) in &measured.loads {
            speeds(page, &measured.rows, *speed, load)?;
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

fn speeds(page: &mut String, rows: &[CostRow], speed: ReadSpeed, load: &str) -> std::fmt::Result {
    let rows: Vec<&CostRow> = rows.iter().filter(|row| row.speed == speed).collect();
    writeln!(page, "\n### 4 KiB random reads of a loop device over tmpfs, {}\n", speed.name())?;
    writeln!(page, "```\n{load}\n```\n")?;
    let base: Vec<VariantFigures> =
        rows.iter().flat_map(|row| row.rounds.iter().copied()).collect();
    writeln!(
        page,
        "Untraced: {:.0} IOPS, {:.0} ns of CPU time for each (medians of {} measurements).\n",
        median(&base, |figures| figures.base_iops),
        median(&base, |figures| figures.base_cpu_ns),
        base.len()
    )?;
    writeln!(
        page,
        "| watched by | IOPS of untraced, median | lowest | highest | CPU time more for each I/O | \
         all CPUs busy | watcher's CPU time | bytes per I/O on disk | lost |"
    )?;
    writeln!(page, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for row in rows {
        let ratios = sorted(&row.rounds, |figures| 100.0 * figures.iops / figures.base_iops);
        let at = |index: usize| ratios.get(index).copied().unwrap_or(0.0);
        let lost: u64 = row.rounds.iter().map(|figures| figures.lost).sum();
        writeln!(
            page,
            "| {} | {:.1} % | {:.1} % | {:.1} % | {:.0} ns | {:.0} % | {:.2} CPU | {:.1} | {} |",
            row.variant.meaning(),
            at(ratios.len() / 2),
            at(0),
            at(ratios.len().saturating_sub(1)),
            median(&row.rounds, |figures| figures.cpu_ns - figures.base_cpu_ns),
            100.0 * median(&row.rounds, |figures| figures.busy),
            median(&row.rounds, |figures| figures.watcher),
            median(&row.rounds, |figures| figures.bytes_per_io),
            if row.variant.is_iowhy() { lost.to_string() } else { "–".to_owned() }
        )?;
    }
    Ok(())
}

fn account(page: &mut String, measured: &CostMeasured) -> std::fmt::Result {
    let account = &measured.account;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(page, "\n### One long watch at full speed\n")?;
    writeln!(page, "| figure | value |\n|---|--:|")?;
    let weight = account.sustained;
    writeln!(page, "| I/Os per second (wall) | {:.0} |", account.sustained_iops)?;
    writeln!(page, "| I/Os that fio did | {} |", account.sustained_ios)?;
    writeln!(page, "| requests recorded | {} |", weight.requests)?;
    writeln!(page, "| requests lost, as the recording says | {} |", weight.lost)?;
    let per_request = weight.bytes as f64 / weight.requests.max(1) as f64;
    writeln!(page, "| bytes on disk per request | {per_request:.1} |")?;
    writeln!(page, "| anonymous memory, peak | {:.1} MiB |", mebibytes(account.anonymous))?;
    writeln!(page, "| resident memory, peak | {:.1} MiB |", mebibytes(account.resident))?;
    writeln!(page, "| memory of the BPF maps | {:.1} MiB |", mebibytes(account.maps))?;
    if let Some(first) = account.first_record_ms {
        writeln!(page, "| from starting iowhy to its first request (wall) | {first:.0} ms |")?;
    }
    programs(page, account)?;
    where_it_goes(page, measured)
}

fn programs(page: &mut String, account: &CostAccount) -> std::fmt::Result {
    writeln!(page, "\n### BPF programs, as the kernel counts them (CPU time)\n")?;
    writeln!(page, "| program | runs | ns per run | ns per I/O |\n|---|--:|--:|--:|")?;
    let ios = account.counted_ios.max(1) as f64;
    for program in account.programs.iter().filter(|program| program.runs > 0) {
        writeln!(
            page,
            "| `{}` | {} | {:.0} | {:.0} |",
            program.name,
            program.runs,
            program.nanoseconds as f64 / program.runs as f64,
            program.nanoseconds as f64 / ios
        )?;
    }
    let all: u64 = account.programs.iter().map(|program| program.nanoseconds).sum();
    writeln!(page, "| all | | | {:.0} |", all as f64 / ios)
}

/// The additional CPU time of one I/O, and its parts.
fn where_it_goes(page: &mut String, measured: &CostMeasured) -> std::fmt::Result {
    let full = |row: &&CostRow| row.variant == Variant::Every && row.speed == ReadSpeed::Full;
    let rounds = measured.rows.iter().find(full).map_or(&[][..], |row| &row.rounds);
    let base = median(rounds, |figures| figures.base_cpu_ns);
    let more = median(rounds, |figures| figures.cpu_ns - figures.base_cpu_ns);
    let account = &measured.account;
    let ios = account.counted_ios.max(1) as f64;
    let bpf = account.programs.iter().map(|program| program.nanoseconds).sum::<u64>() as f64 / ios;
    let own = account.own_ns / ios;
    writeln!(page, "\n### Where the cost goes (CPU time per I/O at full speed)\n")?;
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
