//! `cargo lab bench-locate`: lookups of ten thousand blocks of an ext4 with 200,000 files by
//! debugfs and by `iowhy locate` in one run.

use super::{Benchmark, TableOutput, goal_cell, table_of};
use crate::devices::{Backing, FileSystemKind, LabFileSystem, LoopDevice};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{LabError, Result, located};
use std::fmt::Write;
use std::fs;
use std::path::Path;

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
    /// Where the table goes.
    #[command(flatten)]
    pub output: TableOutput,
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

impl Benchmark for LocateSettings {
    const TARGET: &'static str = "bench-locate";
    const PAGE: &'static str = "docs/blktrace-benchmarks.md";

    fn output(&self) -> &TableOutput {
        &self.output
    }

    fn measure(&self, about: &str, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let scratch = Scratch::new()?;
        let device = LoopDevice::new(&scratch, Backing::Tmpfs, 4 << 30)?;
        let disk = LabFileSystem::new(&scratch, device, FileSystemKind::Ext4)?;
        progress(&format!("making {} files ...", self.files));
        make_files(disk.path(), self.files)?;
        disk.remount()?;
        let blocks = located::sample(self.blocks, (4 << 30) / 4096 * 2 / 5);
        let mut best = Fastest::UNKNOWN;
        for _ in 0..self.rounds.max(1) {
            best.add(&disk, &blocks)?;
        }
        table_of(|part| table(part, self, about, best))
    }
}

impl Fastest {
    const UNKNOWN: Fastest = Fastest {
        icheck: f64::INFINITY,
        ncheck: f64::INFINITY,
        index: f64::INFINITY,
        look_ups: f64::INFINITY,
        whole: f64::INFINITY,
    };

    /// Looks the blocks up once more, with both programs.
    fn add(&mut self, disk: &LabFileSystem, blocks: &[u64]) -> Result<()> {
        let truth = located::debugfs(disk.device().path(), blocks)?;
        let ours = located::locate(disk.device().path(), disk.path(), blocks)?;
        if truth.owners != ours.owners {
            return Err(LabError::failed("compare the answers", "iowhy and debugfs differ"));
        }
        let least =
            |best: f64, step: &str| ours.seconds(step).map_or(best, |seconds| best.min(seconds));
        self.icheck = self.icheck.min(truth.took[0].as_secs_f64());
        self.ncheck = self.ncheck.min(truth.took[1].as_secs_f64());
        self.index = least(self.index, "inode tables");
        self.look_ups = least(self.look_ups, "lookups");
        self.whole = self.whole.min(ours.took.as_secs_f64());
        Ok(())
    }
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
        let reached = goal_cell(goal, times);
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
