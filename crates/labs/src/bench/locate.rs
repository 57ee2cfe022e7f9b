//! `cargo lab bench-locate`: lookups of ten thousand blocks of an ext4 with 200,000 files by
//! debugfs and by `iowhy locate` in one run.

use super::machine_lines;
use crate::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, located, machine, page};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The size of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub struct LocateSettings {
    /// Files on the file system.
    #[arg(long, default_value_t = 200_000)]
    pub files: usize,
    /// Number of blocks to look up.
    #[arg(long, default_value_t = 10_000)]
    pub blocks: usize,
    /// How often each is measured; the best counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// The page whose marked part is replaced by the result.
    #[arg(long, default_value = "docs/blktrace-benchmarks.md")]
    pub page: PathBuf,
    /// Only print the result.
    #[arg(long)]
    pub dry_run: bool,
}

/// The fastest of several runs, in seconds of wall time.
#[derive(Clone, Copy, Debug)]
struct Fastest {
    icheck: f64,
    ncheck: f64,
    /// iowhy's own figures of its index and its lookups, and the total of the process.
    index: f64,
    look_ups: f64,
    whole: f64,
}

/// Measures, prints the results, and writes them into the page.
pub fn run(settings: &LocateSettings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let load = machine::load_average();
    let machine = format!("{}; load average {load} before", machine_lines().join("; "));
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 4 << 30)?;
    let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
    say(&format!("making {} files ...", settings.files));
    make_files(disk.path(), settings.files)?;
    disk.remount()?;
    let blocks = located::sample(settings.blocks, (4 << 30) / 4096 * 2 / 5);
    let none = f64::INFINITY;
    let mut best = Fastest { icheck: none, ncheck: none, index: none, look_ups: none, whole: none };
    for _ in 0..settings.rounds.max(1) {
        let truth = located::debugfs(disk.device().path(), &blocks)?;
        let ours = located::locate(disk.device().path(), disk.path(), &blocks)?;
        if truth.owners != ours.owners {
            return Err(LabError::failed("compare the answers", "iowhy and debugfs differ"));
        }
        best.icheck = best.icheck.min(truth.took[0].as_secs_f64());
        best.ncheck = best.ncheck.min(truth.took[1].as_secs_f64());
        best.index = best.index.min(ours.seconds("inode tables").unwrap_or(none));
        best.look_ups = best.look_ups.min(ours.seconds("lookups").unwrap_or(none));
        best.whole = best.whole.min(ours.took.as_secs_f64());
    }
    let mut part = String::new();
    table(&mut part, settings, &machine, best).context(|| "write the table".to_owned())?;
    say(&part);
    if !settings.dry_run {
        page::replace(&settings.page, "bench-locate", &part)?;
    }
    Ok(())
}

fn table(
    part: &mut String,
    settings: &LocateSettings,
    machine: &str,
    best: Fastest,
) -> std::fmt::Result {
    let LocateSettings { files, blocks, rounds, .. } = settings;
    let theirs = best.icheck + best.ncheck;
    writeln!(
        part,
        "{machine}. An ext4 with {files} files on a loop device in memory; lookups of {blocks} \
         blocks: of files, of directories and free ones. Both give the same answers. Best of \
         {rounds} rounds; command: `make bench-locate`.\n"
    )?;
    writeln!(
        part,
        "| step | wall | times faster than icheck and ncheck | goal |\n|---|--:|--:|---|"
    )?;
    writeln!(part, "| `debugfs icheck` | {:.3} s | | |", best.icheck)?;
    writeln!(part, "| `debugfs ncheck` | {:.3} s | | |", best.ncheck)?;
    for (step, seconds, goal) in [
        ("`iowhy locate`: the index", best.index, Some(1.0)),
        ("`iowhy locate`: lookups from the index", best.look_ups, Some(100.0)),
        ("`iowhy locate`: the process in total", best.whole, None),
    ] {
        let times = theirs / seconds;
        let reached = match goal {
            Some(goal) if times >= goal => format!("{goal}: reached"),
            Some(goal) => format!("{goal}: not reached"),
            None => String::new(),
        };
        writeln!(part, "| {step} | {seconds:.3} s | {times:.1} | {reached} |")?;
    }
    Ok(())
}

/// A thousand files in each directory, of one to three blocks.
pub fn make_files(root: &Path, count: usize) -> Result<()> {
    for number in 0..count {
        let folder = root.join(format!("d{}/e{}", number / 1000 % 20, number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&folder).context(|| format!("make {}", folder.display()))?;
        }
        let path = folder.join(format!("file-{number}"));
        let bytes = vec![b'x'; 1000 + number % 7 * 1500];
        fs::write(&path, bytes).context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
