//! The stage analysis as text: iowhy's own figures, unmatched events beside every latency.

use super::pairing::OTHER_DEVICES;
use super::statistics::{
    DeviceStages, Distances, Measured, OTHER_PROCESSES, Stage, StageSet, Stages,
};
use std::io::{self, Write};

/// Processes that are listed.
const PROCESSES: usize = 20;

/// How devices are called.
pub type Naming<'a> = &'a dyn Fn(u32) -> String;

/// Writes everything that `stages` knows; `name` says how devices are called.
///
/// # Errors
/// Whatever `out` answers.
pub fn write(stages: &Stages, name: Naming<'_>, out: &mut dyn Write) -> io::Result<()> {
    if stages.devices().is_empty() {
        return writeln!(out, "no request was seen");
    }
    missing(stages, out)?;
    unmatched(stages, out)?;
    table(out, "all devices", &stages.all())?;
    let devices = stages.devices();
    if devices.len() > 1 {
        devices.iter().try_for_each(|d| table(out, &name(d.number), &d.stages))?;
    }
    overhead(stages, name, out)?;
    processes(stages, out)?;
    traffic(devices, name, out)?;
    seeks(devices, name, out)?;
    periods(devices, name, out)
}

/// `major,minor`, or `others` for all that are not told apart.
pub fn name(device: u32) -> String {
    if device == OTHER_DEVICES {
        return "others".to_owned();
    }
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

/// A time with three significant digits and its unit.
pub fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if n < 1e3 => return format!("{n:.0} ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// What the events that are there cannot tell.
fn missing(stages: &Stages, out: &mut dyn Write) -> io::Result<()> {
    let (devices, all) = (stages.devices(), stages.all());
    let has = |stage: Stage| all.get(stage).average.count > 0;
    let (queued, issued) =
        devices.iter().fold((0, 0), |(q, d), device| (q + device.queued, d + device.issued));
    let lines = [
        (queued == 0, "no Q: who asked, and how long requests waited, is not known"),
        (issued == 0, "no D: which part of Q2C is the device's is not known"),
        (!has(Stage::D2c) && !has(Stage::Q2c), "no request that began and completed"),
    ];
    for (_, meaning) in lines.iter().filter(|(missing, _)| *missing) {
        writeln!(out, "{meaning}")?;
    }
    Ok(())
}

fn unmatched(stages: &Stages, out: &mut dyn Write) -> io::Result<()> {
    let unmatched = stages.unmatched();
    let lines = [
        (
            unmatched.completions,
            "completions have no issue and no queued bio: their beginning is not in the capture",
        ),
        (unmatched.stale, "queued bios never completed although a later one at their sector did"),
        (unmatched.open, "bios or requests had not completed at the end"),
        (unmatched.in_flight, "of these were at the device"),
        (unmatched.given_up, "open bios were given up: more were open than iowhy keeps"),
        (unmatched.flushes, "flushes completed without an issue"),
        (
            unmatched.devices,
            "events are of devices beyond the first 1024, which are lumped together as others",
        ),
    ];
    for (count, meaning) in lines.iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "{count} {meaning}")?;
    }
    writeln!(out)
}

fn table(out: &mut dyn Write, title: &str, set: &StageSet) -> io::Result<()> {
    writeln!(
        out,
        "{title:12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "N", "min", "avg", "p50", "p90", "p99", "p99.9", "max"
    )?;
    for stage in Stage::ALL {
        let measured = set.get(stage);
        if measured.average.count > 0 {
            row(out, stage.name(), measured)?;
        }
    }
    writeln!(out)
}

fn row(out: &mut dyn Write, name: &str, measured: &Measured) -> io::Result<()> {
    let average = &measured.average;
    let mean = average.total as f64 / average.count as f64;
    write!(
        out,
        "{name:12} {:>10} {:>9} {:>9}",
        average.count,
        time(average.min as f64),
        time(mean)
    )?;
    for percent in [50.0, 90.0, 99.0, 99.9] {
        let value = measured.percentile(percent).map(|value| time(value as f64));
        write!(out, " {:>9}", value.as_deref().unwrap_or("-"))?;
    }
    writeln!(out, " {:>9}", time(average.max as f64))
}

/// The stages that make up a request's Q2C.
const PARTS: [Stage; 5] = [Stage::Q2g, Stage::G2i, Stage::I2d, Stage::G2d, Stage::D2c];

fn heading(out: &mut dyn Write, title: &str) -> io::Result<()> {
    write!(out, "{title:28} {:>9} {:>9}", "requests", "Q2C avg")?;
    PARTS.iter().try_for_each(|stage| write!(out, " {:>7}", stage.name()))?;
    writeln!(out)
}

fn shares(out: &mut dyn Write, name: &str, total: impl Fn(Stage) -> (u64, u64)) -> io::Result<()> {
    let (count, q2c) = total(Stage::Q2c);
    if count == 0 {
        return Ok(());
    }
    write!(out, "{name:28} {count:>9} {:>9}", time(q2c as f64 / count as f64))?;
    for stage in PARTS {
        write!(out, " {:>6.2}%", 100.0 * total(stage).1 as f64 / q2c.max(1) as f64)?;
    }
    writeln!(out)
}

fn overhead(stages: &Stages, name: Naming<'_>, out: &mut dyn Write) -> io::Result<()> {
    if stages.devices().iter().all(|device| device.stages.get(Stage::Q2c).average.count == 0) {
        return Ok(());
    }
    heading(out, "share of Q2C by device")?;
    for device in stages.devices() {
        shares(out, &name(device.number), |stage| {
            let average = device.stages.get(stage).average;
            (average.count, average.total)
        })?;
    }
    writeln!(out)
}

fn processes(stages: &Stages, out: &mut dyn Write) -> io::Result<()> {
    let all = stages.processes();
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "share of Q2C by process")?;
    for (pid, process) in all.iter().take(PROCESSES) {
        let known = stages.name(*pid).unwrap_or("(no name)");
        let name = if *pid == OTHER_PROCESSES {
            "(more processes than kept)".to_owned()
        } else {
            format!("{known} ({pid})")
        };
        shares(out, &name, |stage| {
            let average = process.stages.get(stage as usize).copied().unwrap_or_default();
            (average.count, average.total)
        })?;
    }
    if all.len() > PROCESSES {
        writeln!(out, "{} more", all.len() - PROCESSES)?;
    }
    writeln!(out)
}

fn traffic(devices: &[DeviceStages], name: Naming<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9} {:>11} {:>8} {:>7}",
        "traffic",
        "queued",
        "merged",
        "issued",
        "requeued",
        "reads",
        "KiB",
        "writes",
        "KiB",
        "flushes",
        "errors"
    )?;
    for d in devices {
        writeln!(
            out,
            "{:12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>9} {:>11} {:>8} {:>7}",
            name(d.number),
            d.queued,
            d.merged,
            d.issued,
            d.requeues,
            d.reads.requests,
            d.reads.bytes >> 10,
            d.writes.requests,
            d.writes.bytes >> 10,
            d.flushes.requests,
            d.reads.errors + d.writes.errors + d.flushes.errors
        )?;
    }
    writeln!(out)
}

fn seeks(devices: &[DeviceStages], name: Naming<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:12} {:>4} {:>10} {:>9} {:>15} {:>15} {:>15}",
        "seeks", "", "N", "adjacent", "median sectors", "p90 sectors", "mean sectors"
    )?;
    let line = |out: &mut dyn Write, device: &str, kind: &str, seeks: &Distances| {
        let all = seeks.near + seeks.far.average.count;
        if all == 0 {
            return Ok(());
        }
        let mean = seeks.far.average.total as f64 / all as f64;
        let near = 100.0 * seeks.near as f64 / all as f64;
        let p90 = seeks.far.percentile(90.0).unwrap_or(0);
        writeln!(
            out,
            "{device:12} {kind:>4} {all:>10} {near:>8.1}% {:>15} {p90:>15} {mean:>15.0}",
            seeks.median()
        )
    };
    for device in devices {
        line(out, &name(device.number), "Q2Q", &device.queue_seeks)?;
        line(out, &name(device.number), "D2D", &device.issue_seeks)?;
    }
    writeln!(out)
}

fn periods(devices: &[DeviceStages], name: Naming<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>10}",
        "periods", "active", "avg", "busy", "plugs", "by timer", "plugged", "I/Os each"
    )?;
    for device in devices {
        let (count, live, _) = device.live.periods();
        let span = device.last.saturating_sub(device.first).max(1) as f64;
        let plugs = &device.plugs;
        writeln!(
            out,
            "{:12} {count:>9} {:>9} {:>8.2}% {:>9} {:>9} {:>7.3}% {:>10.1}",
            name(device.number),
            time(live as f64 / count.max(1) as f64),
            100.0 * live as f64 / span,
            plugs.count,
            plugs.timer,
            100.0 * plugs.time as f64 / span,
            plugs.requests as f64 / plugs.count.max(1) as f64
        )?;
    }
    writeln!(out)
}
