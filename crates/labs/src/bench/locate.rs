//! `cargo lab bench-locate`: ten thousand blocks of an ext4 with 200,000 files, asked of debugfs and
//! of `iowhy locate` in one run.

use crate::devices::{Backing, FileSystem, Kind, LoopDevice};
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Error, Result, located};
use std::fs;
use std::path::Path;

/// How much to make and to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Files on the file system.
    #[arg(long, default_value_t = 200_000)]
    pub files: usize,
    /// Blocks asked for.
    #[arg(long, default_value_t = 10_000)]
    pub blocks: usize,
    /// How often each is measured; the best counts.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
}

/// Measures, and gives the table.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<()> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 4 << 30)?;
    let disk = FileSystem::new(&scratch, device, Kind::Ext4)?;
    say(&format!("making {} files ...", settings.files));
    make_files(disk.path(), settings.files)?;
    disk.remount()?;
    let blocks = located::sample(settings.blocks, (4 << 30) / 4096 * 2 / 5);
    let best = |seconds: f64, last: f64| if last == 0.0 { seconds } else { seconds.min(last) };
    let [mut icheck, mut ncheck, mut index, mut look_ups, mut whole] = [0.0; 5];
    for _ in 0..settings.rounds.max(1) {
        let truth = located::debugfs(disk.device().path(), &blocks)?;
        let ours = located::locate(disk.device().path(), disk.path(), &blocks)?;
        if truth.owners != ours.owners {
            return Err(Error::failed("compare the answers", "iowhy and debugfs differ"));
        }
        icheck = best(truth.took[0].as_secs_f64(), icheck);
        ncheck = best(truth.took[1].as_secs_f64(), ncheck);
        index = best(ours.seconds("inode tables").unwrap_or_default(), index);
        look_ups = best(ours.seconds("look-ups").unwrap_or_default(), look_ups);
        whole = best(ours.took.as_secs_f64(), whole);
    }
    let theirs = icheck + ncheck;
    say(&format!(
        "{} blocks of an ext4 with {} files: the same answers",
        blocks.len(),
        settings.files
    ));
    say(&format!("debugfs icheck + ncheck  {icheck:8.3} s + {ncheck:.3} s"));
    say(&format!("iowhy locate, index      {index:8.3} s  {:8.1} times faster", theirs / index));
    say(&format!(
        "iowhy locate, look-ups   {look_ups:8.3} s  {:8.1} times faster",
        theirs / look_ups
    ));
    say(&format!("iowhy locate, all of it  {whole:8.3} s  {:8.1} times faster", theirs / whole));
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
