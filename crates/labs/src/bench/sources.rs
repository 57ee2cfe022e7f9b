//! `cargo lab bench-sources`: the time of `iowhy report` for a large sosreport, packed in each way.
//!
//! What does not belong here: captures (see [`super::blktrace`]), and the report of an archive
//! (tests of `iowhy-foreign`).

use super::cost::{CommandCost, TimedCommand};
use super::{Benchmark, TableOutput, table_of};
use crate::captures::Random;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Result, command, iowhy};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Seconds that the report of an archive of 100 MB may take.
const GOAL: f64 = 5.0;
/// Memory that it may take, bytes.
const MEMORY_GOAL: u64 = 256 << 20;
/// Disks of the generated host.
const DISKS: usize = 12;

/// How much to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct SourcesSettings {
    /// Megabytes of files in the archive.
    #[arg(long, default_value_t = 100)]
    pub megabytes: usize,
    /// How often each archive is read, interleaved; the fastest run counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
}

impl Benchmark for SourcesSettings {
    const TARGET: &'static str = "bench-sources";
    const PAGE: &'static str = "docs/sources.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, machine: &str, _: &mut dyn FnMut(&str)) -> Result<String> {
        let scratch = Scratch::new()?;
        let folder = scratch.memory()?;
        make_host(&folder.join("sosreport-host"), self.megabytes * 1_000_000)?;
        let mut reports = Vec::new();
        for (name, flag) in [("host.tar", "-cf"), ("host.tar.gz", "-czf"), ("host.tar.xz", "-cJf")]
        {
            let archive = folder.join(name).display().to_string();
            command::run(
                "tar",
                ["-C", &folder.display().to_string(), flag, &archive, "sosreport-host"],
            )?;
            reports.push(TimedCommand {
                name,
                file: iowhy::binary()?,
                arguments: ["report", name].map(str::to_owned).to_vec(),
                output: "report",
                cost: CommandCost::UNKNOWN,
            });
        }
        for round in 0..=self.rounds.max(1) {
            for report in &mut reports {
                report.run(&folder, round == 0)?;
            }
        }
        let table = table_of(|page| table(page, &folder, &reports))?;
        Ok(format!(
            "{machine}. {} MB of files: two days of `sar -d` of {DISKS} disks, two logs, and files \
             that tell nothing of storage. Best of {} interleaved rounds; the archives lie in \
             memory (tmpfs). Command: `make bench-sources`.\n\n{table}",
            self.megabytes, self.rounds
        ))
    }
}

fn table(page: &mut String, folder: &Path, reports: &[TimedCommand]) -> std::fmt::Result {
    writeln!(page, "| archive | bytes | wall | CPU | anonymous memory | goal |")?;
    writeln!(page, "|---|--:|--:|--:|--:|---|")?;
    for report in reports {
        let bytes = fs::metadata(folder.join(report.name)).map_or(0, |about| about.len());
        let CommandCost { wall, cpu, memory } = report.cost;
        let is_reached = wall <= GOAL && memory <= MEMORY_GOAL;
        let reached = if is_reached { "reached" } else { "not reached" };
        writeln!(
            page,
            "| `{}` | {:.0} MB | {wall:.2} s | {cpu:.2} s | {:.0} MiB \
             | {GOAL} s, {} MiB: {reached} |",
            report.name,
            bytes as f64 / 1e6,
            memory as f64 / f64::from(1 << 20),
            MEMORY_GOAL >> 20,
        )?;
    }
    Ok(())
}

/// Makes the files of a sosreport, `bytes` in all.
fn make_host(root: &Path, bytes: usize) -> Result<()> {
    let mut random = Random::new(1);
    let log = kernel_log(bytes / 4, &mut random);
    let day = sar_day(&mut random);
    let mut files = vec![
        ("var/log/messages".to_owned(), log.clone()),
        ("sos_commands/logs/journalctl_--no-pager".to_owned(), log),
        ("sos_commands/sar/sar20".to_owned(), day.clone()),
        ("sos_commands/sar/sar21".to_owned(), day),
    ];
    let mut left = bytes.saturating_sub(files.iter().map(|(_, text)| text.len()).sum());
    for number in 0.. {
        let text: String =
            (0..left.min(1 << 20) / 16).map(|_| format!("{:016x}", random.next())).collect();
        if text.is_empty() {
            break;
        }
        left -= text.len();
        files.push((format!("etc/others/{number}"), text));
    }
    for (name, text) in files {
        let path = root.join(name);
        let parent = path.parent().unwrap_or(root);
        fs::create_dir_all(parent).context(|| format!("make {}", parent.display()))?;
        fs::write(&path, text).context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Makes a kernel's log through syslog, in which one line of a hundred thousand is about storage.
fn kernel_log(bytes: usize, random: &mut Random) -> String {
    let mut text = String::with_capacity(bytes + 256);
    let mut second = 0;
    while text.len() < bytes {
        let (hour, minute) = (second / 3600 % 24, second / 60 % 60);
        let stamp = format!(
            "Nov 20 {hour:02}:{minute:02}:{:02} host kernel: [{second:8}.000000]",
            second % 60
        );
        let source = random.next() % 256;
        text += &match second % 100_000 {
            5 => format!("{stamp} INFO: task postgres:1234 blocked for more than 120 seconds.\n"),
            _ => {
                format!("{stamp} IPv4: martian source 10.0.0.{source} from 10.1.2.3, on dev eth0\n")
            }
        };
        second += 1;
    }
    text
}

/// A day of `sar -d`, each ten seconds.
fn sar_day(random: &mut Random) -> String {
    let mut text =
        "Linux 5.14.0-70.el9.x86_64 (host) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n".to_owned();
    text += "00:00:01        DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     \
             await     %util\n";
    for second in (0..86_400).step_by(10) {
        let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        for disk in 0..DISKS {
            let mut up_to = |most: u64| (random.next() % (most * 100)) as f64 / 100.0;
            let (tps, read, written) = (up_to(500), up_to(5000), up_to(9000));
            let (queue, wait, busy) = (up_to(3), up_to(9), up_to(100));
            text += &format!(
                "{clock}     dev8-{} {tps:10.2} {read:9.2} {written:9.2} {:9.2} {:9.2} \
                 {queue:9.2} {wait:9.2} {busy:9.2}\n",
                disk * 16,
                0.0,
                20.0
            );
        }
    }
    text
}
