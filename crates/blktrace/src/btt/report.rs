//! btt's text: the default report (its `.avg`), the per-process and per-device sections of `-A`,
//! and the activity ranges (its `.dat`).

use super::engine::{Btt, BttDevice};
use super::figures::{Averages, BttActivity, BttStage, live_figures, mean};
use super::seeks::{FrequentSeeks, SeekDistances};
use super::{is_remapper, seconds};
use iowhy_analysis::stages::Average;
use std::io::{self, Write};

const DASHES: &str = "----------";

/// Writes btt's default report; with `everything` also the sections that `-A` adds before it.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write(btt: &mut Btt, everything: bool, out: &mut dyn Write) -> io::Result<()> {
    if everything {
        per_process(btt, out)?;
        per_device(btt, out)?;
    }
    section(out, "All Devices")?;
    header(out, "ALL")?;
    for stage in BttStage::DM {
        line(out, stage.name().as_bytes(), btt.all.get(stage))?;
    }
    writeln!(out)?;
    for stage in BttStage::ALL {
        line(out, stage.name().as_bytes(), btt.all.get(stage))?;
    }
    writeln!(out)?;
    overhead(&btt.devices, out)?;
    merges(&mut btt.devices, out)?;
    section(out, "Device Q2Q Seek Information")?;
    seeks(&mut btt.devices, |device| &mut device.queue_seeks, out)?;
    section(out, "Device D2D Seek Information")?;
    seeks(&mut btt.devices, |device| &mut device.issue_seeks, out)?;
    section(out, "Plug Information")?;
    plugs(&mut btt.devices, out)?;
    plugged_requests(&btt.devices, out)?;
    waiting(&btt.devices, out)?;
    live(btt, out)?;
    if everything { steps(&btt.devices, out) } else { Ok(()) }
}

fn section(out: &mut dyn Write, title: &str) -> io::Result<()> {
    writeln!(out, "==================== {title} ====================\n")
}

fn header(out: &mut dyn Write, title: &str) -> io::Result<()> {
    writeln!(out, "{title:>15} {:>13} {:>13} {:>13} {:>11}", "MIN", "AVG", "MAX", "N")?;
    writeln!(out, "--------------- ------------- ------------- ------------- -----------")
}

fn line(out: &mut dyn Write, name: &[u8], average: &Average) -> io::Result<()> {
    if average.count == 0 {
        return Ok(());
    }
    out.write_all(name)?;
    let (min, mean, max) = (seconds(average.min), mean(average), seconds(average.max));
    let pad = 15usize.saturating_sub(name.len());
    writeln!(out, "{:pad$} {min:13.9} {mean:13.9} {max:13.9} {:11}", "", average.count)
}

/// Letters of a name; btt's field has room for no more.
const MOST_NAME: usize = 14;

fn name(device: &BttDevice) -> String {
    match &device.name {
        Some(name) => name.chars().take(MOST_NAME).collect(),
        None => format!("({:3},{:3})", device.number >> 20, device.number & 0xf_ffff),
    }
}

/// The stages of one `-A` section, in btt's order: mappers' first, M2D never.
fn table(
    out: &mut dyn Write,
    rows: &[(Vec<u8>, &Averages)],
    stages: impl Iterator<Item = BttStage>,
) -> io::Result<()> {
    for stage in stages.filter(|stage| *stage != BttStage::M2d) {
        header(out, stage.name())?;
        for (name, averages) in rows {
            line(out, name, averages.get(stage))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn tables(out: &mut dyn Write, title: &str, rows: &[(Vec<u8>, &Averages)]) -> io::Result<()> {
    section(out, title)?;
    table(out, rows, BttStage::DM.into_iter())?;
    writeln!(out)?;
    table(out, rows, BttStage::ALL.into_iter())
}

fn per_process(btt: &Btt, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<_> = btt
        .processes
        .sorted()
        .into_iter()
        // btt's field has room for 14 letters.
        .map(|p| (p.name.get(..14).unwrap_or(&p.name).to_vec(), &p.averages))
        .collect();
    tables(out, "Per Process", &rows)
}

fn per_device(btt: &Btt, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<_> = btt.devices.iter().map(|d| (name(d).into_bytes(), &d.averages)).collect();
    tables(out, "Per Device", &rows)
}

const OVERHEAD: [BttStage; 5] =
    [BttStage::Q2g, BttStage::G2i, BttStage::Q2m, BttStage::I2d, BttStage::D2c];

fn overhead(devices: &[BttDevice], out: &mut dyn Write) -> io::Result<()> {
    let dashes = "---------- | --------- --------- --------- --------- ---------";
    section(out, "Device Overhead")?;
    writeln!(
        out,
        "{:>10} | {:>9} {:>9} {:>9} {:>9} {:>9}",
        "DEV", "Q2G", "G2I", "Q2M", "I2D", "D2C"
    )?;
    writeln!(out, "{dashes}")?;
    let (mut sums, mut counts, mut whole) = ([0u64; 5], 0, 0u64);
    for device in devices.iter().filter(|d| d.averages.get(BttStage::Q2c).total > 0) {
        let q2c = device.averages.get(BttStage::Q2c).total;
        write!(out, "{:>10} |", name(device))?;
        for (stage, sum) in OVERHEAD.iter().zip(&mut sums) {
            let average = device.averages.get(*stage);
            *sum = sum.wrapping_add(average.total);
            counts += average.count;
            write!(out, " {:8.4}%", 100.0 * (average.total as f64) / q2c as f64)?;
        }
        writeln!(out)?;
        whole = whole.wrapping_add(q2c);
    }
    if counts > 0 {
        writeln!(out, "{dashes}")?;
        write!(out, "{:>10} |", "Overall")?;
        for sum in sums {
            write!(out, " {:8.4}%", 100.0 * (sum as f64 / whole as f64))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn merges(devices: &mut [BttDevice], out: &mut dyn Write) -> io::Result<()> {
    let dashes = "---------- | -------- -------- ------- | -------- -------- -------- --------";
    let head = format!(
        "{:>10} | {:>8} {:>8} {:>7} | {:>8} {:>8} {:>8} {:>8}",
        "DEV", "#Q", "#D", "Ratio", "BLKmin", "BLKavg", "BLKmax", "Total"
    );
    section(out, "Device Merge Information")?;
    writeln!(out, "{head}\n{dashes}")?;
    let (mut rows, mut queued, mut issued) = (0, 0u64, 0u64);
    let mut all = Average { min: u64::MAX, ..Average::default() };
    for device in devices.iter_mut().filter(|d| d.queued > 0 && d.issued > 0) {
        device.queued = device.queued.max(device.issued);
        let blocks = device.averages.get(BttStage::Blocks);
        let (q, d) = (device.queued, device.issued);
        let ratio = q as f64 / d as f64;
        let mean = (blocks.total as f64 / d as f64) as u64;
        let Average { min, max, total, .. } = *blocks;
        let name = name(device);
        writeln!(out, "{name:>10} | {q:8} {d:8} {ratio:7.1} | {min:8} {mean:8} {max:8} {total:8}")?;
        rows += 1;
        queued += q;
        issued += d;
        all.total = all.total.wrapping_add(total);
        (all.min, all.max) = (all.min.min(min), all.max.max(max));
    }
    if rows > 1 {
        let ratio = f64::from(queued as f32 / issued as f32);
        let (min, mean, max, total) = (all.min, all.total / issued, all.max, all.total);
        writeln!(out, "{dashes}\n{head}")?;
        let row = format!("{queued:8} {issued:8} {ratio:7.1} | {min:8} {mean:8} {max:8} {total:8}");
        writeln!(out, "{:>10} | {row}", "TOTAL")?;
    }
    writeln!(out)
}

fn seeks(
    devices: &mut [BttDevice],
    pick: impl Fn(&mut BttDevice) -> &mut SeekDistances,
    out: &mut dyn Write,
) -> io::Result<()> {
    let dashes = "---------- | --------------- --------------- --------------- | ---------------";
    let head = |out: &mut dyn Write, first: &str| {
        let (a, b, c, d) = ("NSEEKS", "MEAN", "MEDIAN", "MODE");
        writeln!(out, "{first:>10} | {a:>15} {b:>15} {c:>15} | {d:<15}")
    };
    head(out, "DEV")?;
    writeln!(out, "{dashes}")?;
    let mut all = AllSeeks::default();
    for device in devices {
        let name = name(device);
        let seeks = pick(device);
        if seeks.count == 0 {
            continue;
        }
        let (mean, count) = (seeks.mean(), seeks.count);
        let Some(mode) = seeks.mode() else {
            writeln!(out, "{name:>10} | {count:15} {mean:15.1} {:>15} | unknown", "unknown")?;
            continue;
        };
        let first = mode.distances.first().copied().unwrap_or(0);
        write!(
            out,
            "{name:>10} | {count:15} {mean:15.1} {:15} | {first}({})",
            mode.median, mode.count
        )?;
        if let Some([second]) = mode.distances.get(1..) {
            writeln!(out, " {second}")?;
        } else {
            writeln!(out)?;
            more(out, mode.distances.len())?;
        }
        all.add(count, mean, &mode);
    }
    if all.count > 0 {
        writeln!(out, "{dashes}")?;
        head(out, "Overall")?;
        all.write(out)?;
    }
    writeln!(out)
}

/// Writes how many more distances are as frequent as the one before.
fn more(out: &mut dyn Write, all: usize) -> io::Result<()> {
    match all {
        0 | 1 => Ok(()),
        _ => writeln!(out, "{:>63}...({} more)", "", all - 1),
    }
}

/// Seeks of all devices.
#[derive(Default)]
struct AllSeeks {
    count: u64,
    mean: f64,
    median: u64,
    /// The modes with their numbers; of equally frequent ones, btt names the one that came first.
    modes: Vec<(u64, u64)>,
}

impl AllSeeks {
    fn add(&mut self, count: u64, mean: f64, mode: &FrequentSeeks) {
        self.count += count;
        self.mean += count as f64 * mean;
        self.median = self.median.wrapping_add(count.wrapping_mul(mode.median));
        for distance in &mode.distances {
            match self.modes.iter_mut().find(|(known, _)| known == distance) {
                Some((_, count)) => *count += mode.count,
                None => self.modes.push((*distance, mode.count)),
            }
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mean = self.mean / self.count as f64;
        write!(
            out,
            "{:>10} | {:15} {mean:15.1} {:15} |",
            "Average",
            self.count,
            self.median / self.count
        )?;
        let most = self.modes.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let mut modes = self.modes.iter().filter(|(_, count)| *count == most);
        let first = modes.next().map_or(0, |(distance, _)| *distance);
        writeln!(out, " {first}({most})")?;
        let all = 1 + modes.count();
        more(out, all)?;
        if all > 1 { writeln!(out) } else { Ok(()) }
    }
}

fn plugs(devices: &mut [BttDevice], out: &mut dyn Write) -> io::Result<()> {
    let dashes = "---------- | ---------- ----------  | ----------------";
    let title = "% Time Q Plugged";
    writeln!(out, "{:>10} | {:>10} {:>10}  | {title}", "DEV", "# Plugs", "# Timer Us")?;
    writeln!(out, "{dashes}")?;
    let (mut rows, mut count, mut timer, mut percent) = (0u64, 0u64, 0u64, 0.0);
    for device in devices.iter_mut().filter(|device| device.plugs.count > 0) {
        device.plugs.unplug(device.end, 0);
        let share = 100.0 * device.plugs.time / (device.end - device.start);
        let (plugs, name) = (&device.plugs, name(device));
        writeln!(out, "{name:>10} | {:10}({:10}) | {share:13.9}%", plugs.count, plugs.timer)?;
        rows += 1;
        count += plugs.count;
        timer += plugs.timer;
        percent += share;
    }
    if rows > 1 {
        let (mean, mean_timer, percent) = (count / rows, timer / rows, percent / rows as f64);
        writeln!(out, "{dashes}")?;
        writeln!(out, "{:>10} | {:>10} {:>10}  | {title}", "Overall", "# Plugs", "# Timer Us")?;
        writeln!(out, "{:>10} | {mean:10}({mean_timer:10}) | {percent:13.9}%", "Average")?;
    }
    writeln!(out)
}

fn plugged_requests(devices: &[BttDevice], out: &mut dyn Write) -> io::Result<()> {
    let ratio = |requests: u64, count: u64| match count {
        0 => 0.0,
        _ => requests as f64 / count as f64,
    };
    writeln!(out, "{:>10} | {:>10}   {:>10}", "DEV", "IOs/Unp", "IOs/Unp(to)")?;
    writeln!(out, "---------- | ----------   ----------")?;
    let (mut count, mut timer, mut requests, mut timer_requests) = (0, 0, 0u64, 0u64);
    for device in devices {
        let plugs = &device.plugs;
        let (mean, mean_timer) =
            (ratio(plugs.requests, plugs.count), ratio(plugs.timer_requests, plugs.timer));
        writeln!(out, "{:>10} | {mean:10.1}   {mean_timer:10.1}", name(device))?;
        if plugs.requests > 0 {
            count += plugs.count;
            requests = requests.wrapping_add(plugs.requests);
        }
        if plugs.timer_requests > 0 {
            timer += plugs.timer;
            timer_requests = timer_requests.wrapping_add(plugs.timer_requests);
        }
    }
    if count > 0 || timer > 0 {
        let (mean, mean_timer) = (ratio(requests, count), ratio(timer_requests, timer));
        writeln!(out, "---------- | ----------   ----------")?;
        writeln!(out, "{:>10} | {:>10}   {:>10}", "Overall", "IOs/Unp", "IOs/Unp(to)")?;
        writeln!(out, "{:>10} | {mean:10.1}   {mean_timer:10.1}", "Average")?;
    }
    writeln!(out)
}

fn waiting(devices: &[BttDevice], out: &mut dyn Write) -> io::Result<()> {
    section(out, "Active Requests At Q Information")?;
    writeln!(out, "{:>10} | {:>13}\n{DASHES} | -------------", "DEV", "Avg Reqs @ Q")?;
    let (mut rows, mut queued, mut sum) = (0, 0u64, 0u64);
    for device in devices.iter().filter(|d| d.queued > 0 && !is_remapper(d.number)) {
        let mean = device.waiting_sum as f64 / device.queued as f64;
        writeln!(out, "{:>10} | {mean:13.1}", name(device))?;
        rows += 1;
        queued += device.queued;
        sum += device.waiting_sum;
    }
    if rows > 1 {
        let mean = sum as f64 / queued as f64;
        writeln!(out, "{DASHES} | -------------")?;
        writeln!(out, "{:>10} | {:>13}", "Overall", "Avgs Reqs @ Q")?;
        writeln!(out, "{:>10} | {mean:13.1}", "Average")?;
    }
    writeln!(out)
}

fn live(btt: &Btt, out: &mut dyn Write) -> io::Result<()> {
    let dashes = "---------- | ---------- ------------- ------------- ------";
    section(out, "I/O Active Period Information")?;
    let (a, b, c, d) = ("# Live", "Avg. Act", "Avg. !Act", "% Live");
    writeln!(out, "{:>10} | {a:>10} {b:>13} {c:>13} {d:>6}\n{dashes}", "DEV")?;
    let mut row = |name: &str, (count, act, pause, share): (u64, f64, f64, f64)| {
        writeln!(out, "{name:>10} | {count:10} {act:13.9} {pause:13.9} {share:6.2}")
    };
    for device in &btt.devices {
        row(&name(device), live_figures(&device.live))?;
    }
    writeln!(out, "{dashes}")?;
    let (count, act, pause, share) = live_figures(&btt.live);
    writeln!(out, "{:>10} | {count:10} {act:13.9} {pause:13.9} {share:6.2}", "Total Sys")?;
    writeln!(out)
}

/// The Q2D histogram of `-A`.
fn steps(devices: &[BttDevice], out: &mut dyn Write) -> io::Result<()> {
    let dashes = "===== ".repeat(10);
    let row = |out: &mut dyn Write, name: &str, counts: &[u64; 10]| {
        let all = counts.iter().sum::<u64>() as f64;
        write!(out, "{name:>10} | ")?;
        counts.iter().try_for_each(|count| write!(out, "{:5.1} ", 100.0 * *count as f64 / all))?;
        writeln!(out)
    };
    section(out, "Q2D Histogram")?;
    write!(out, "{:>10} | ", "DEV")?;
    for limit in ["<.005", "<.010", "<.025", "<.050", "<.075", "<.100", "<.250", "<.500", "< 1.0"] {
        write!(out, "{limit} ")?;
    }
    writeln!(out, ">=1.0\n --------- | {dashes}")?;
    let mut sums = [0; 10];
    for device in devices.iter().filter(|device| device.steps.iter().any(|count| *count > 0)) {
        row(out, &name(device), &device.steps)?;
        sums.iter_mut().zip(device.steps).for_each(|(sum, count)| *sum += count);
    }
    if sums.iter().any(|sum| *sum > 0) {
        writeln!(out, "========== | {dashes}")?;
        row(out, "AVG", &sums)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes btt's activity ranges, as steps that a plot program draws.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write_ranges(btt: &Btt, out: &mut dyn Write) -> io::Result<()> {
    let mut base = 0.0;
    writeln!(out, "# Total System")?;
    base += activity(out, b"Total System", &btt.activity, base)?;
    if btt.devices.len() > 1 {
        writeln!(out, "# Per device")?;
        for device in &btt.devices {
            let name = format!("{},{}", device.number >> 20, device.number & 0xf_ffff);
            base += activity(out, name.as_bytes(), &device.activity, base)?;
        }
    }
    writeln!(out, "# Per process")?;
    for process in btt.processes.sorted() {
        activity(out, &process.name, &process.activity, base)?;
        base += 1.0;
    }
    Ok(())
}

/// Writes one subject's ranges; returns by how much the next one is drawn higher.
fn activity(
    out: &mut dyn Write,
    name: &[u8],
    activity: &BttActivity,
    base: f32,
) -> io::Result<f32> {
    if activity.queue.0.is_empty() && activity.complete.0.is_empty() {
        return Ok(0.0);
    }
    let kinds = [(&activity.queue, "q", base), (&activity.complete, "c", base + 0.5)];
    for (ranges, letter, low) in kinds {
        write!(out, "# {:>1$}", "", 16usize.saturating_sub(name.len()))?;
        out.write_all(name)?;
        writeln!(out, " : {letter} activity")?;
        let high = low + 0.4;
        for (from, to) in &ranges.0 {
            for (time, level) in [(from, low), (from, high), (to, high), (to, low)] {
                writeln!(out, "{:13.9} {level:5.1}", seconds(*time))?;
            }
        }
        writeln!(out)?;
    }
    Ok(1.0)
}
