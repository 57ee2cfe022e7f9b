//! The part of docs/performance.md that the benchmark writes.

use super::account::Account;
use super::load::{self, Speed};
use super::watcher::Variant;
use super::{Figures, Measured, Row, Settings};
use crate::error::Context;
use crate::{Result, command};
use std::fmt::Write;

/// The part as Markdown.
pub fn render(measured: &Measured, settings: &Settings) -> Result<String> {
    let mut page = String::new();
    machine(&mut page, settings)?;
    for (speed, load) in &measured.loads {
        speeds(&mut page, &measured.rows, *speed, load).context(|| "write the table".to_owned())?;
    }
    account(&mut page, measured).context(|| "write the table".to_owned())?;
    Ok(page)
}

fn machine(page: &mut String, settings: &Settings) -> Result<()> {
    let fio = command::run("fio", ["--version"])?;
    let lines = load::machine_lines();
    let text = format!(
        "{}; {}. {} rounds of {} s for each row, interleaved.\n",
        lines.join("; "),
        fio.trim(),
        settings.rounds,
        settings.seconds
    );
    page.push_str(&text);
    Ok(())
}

fn best(rounds: &[Figures]) -> f64 {
    rounds.iter().map(|figures| figures.iops).fold(0.0, f64::max)
}

fn median(rounds: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn speeds(page: &mut String, rows: &[Row], speed: Speed, load: &str) -> std::fmt::Result {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.speed == speed).collect();
    let base = rows.iter().find(|row| row.variant == Variant::Base);
    let (base_best, base_median) =
        base.map_or((1.0, 1.0), |row| (best(&row.rounds), median(&row.rounds, |f| f.iops)));
    writeln!(page, "\n### 4 KiB random reads of a loop device over tmpfs, {}\n", speed.name())?;
    writeln!(page, "```\n{load}\n```\n")?;
    writeln!(
        page,
        "| watched by | IOPS, best | of untraced | IOPS, median | of untraced | mean latency | \
         all CPUs busy | watcher's CPU time | bytes per I/O on disk | lost |"
    )?;
    writeln!(page, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for row in rows {
        let (best, middle) = (best(&row.rounds), median(&row.rounds, |f| f.iops));
        let lost: u64 = row.rounds.iter().map(|figures| figures.lost).sum();
        writeln!(
            page,
            "| {} | {:.0} | {:.1} % | {:.0} | {:.1} % | {:.1} us | {:.0} % | {:.2} CPU | {:.1} | {} |",
            row.variant.meaning(),
            best,
            100.0 * best / base_best,
            middle,
            100.0 * middle / base_median,
            median(&row.rounds, |figures| figures.latency),
            100.0 * median(&row.rounds, |figures| figures.busy),
            median(&row.rounds, |figures| figures.watcher),
            median(&row.rounds, |figures| figures.bytes_per_io),
            if matches!(row.variant, Variant::Iowhy | Variant::Requests | Variant::NoFiles) {
                lost.to_string()
            } else {
                "–".to_owned()
            }
        )?;
    }
    Ok(())
}

fn account(page: &mut String, measured: &Measured) -> std::fmt::Result {
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

fn programs(page: &mut String, account: &Account) -> std::fmt::Result {
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

/// The CPU time that one I/O costs more, and who spends it.
fn where_it_goes(page: &mut String, measured: &Measured) -> std::fmt::Result {
    let per_io = |variant: Variant| {
        let row =
            measured.rows.iter().find(|row| row.variant == variant && row.speed == Speed::Full);
        row.map_or(0.0, |row| {
            median(&row.rounds, |f| f.busy * load::cpus() as f64 * 1e9 / f.iops.max(1.0))
        })
    };
    let (base, watched) = (per_io(Variant::Base), per_io(Variant::Iowhy));
    let account = &measured.account;
    let ios = account.counted_ios.max(1) as f64;
    let bpf = account.programs.iter().map(|program| program.nanoseconds).sum::<u64>() as f64 / ios;
    let own = account.own_ns / ios;
    writeln!(page, "\n### Where the cost goes (CPU time per I/O at full speed)\n")?;
    writeln!(page, "| part | ns |\n|---|--:|")?;
    writeln!(page, "| one I/O, untraced | {base:.0} |")?;
    writeln!(page, "| one I/O, watched | {watched:.0} |")?;
    writeln!(page, "| the difference | {:.0} |", watched - base)?;
    writeln!(page, "| of it BPF programs | {bpf:.0} |")?;
    writeln!(page, "| of it iowhy's process: reading, decoding, writing | {own:.0} |")?;
    writeln!(
        page,
        "| the rest: entering and leaving the programs, and what they push out of the caches | {:.0} |",
        watched - base - bpf - own
    )?;
    writeln!(
        page,
        "\nBPF and process are from a round in which the kernel counts the programs, which itself \
         costs time in each run."
    )
}
