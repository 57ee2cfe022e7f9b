//! `iowhy reproduce`, the run of a reproduction, and `iowhy verify`.

use super::SOURCE;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `iowhy reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  iowhy reproduce -o case               of the watch that was just seen
  iowhy reproduce recording -o case     write the reproduction
  iowhy reproduce recording -o exact --replay     the same requests at the same times
  case/run --on /mnt/scratch            run it in an empty directory, and compare
  iowhy verify case --on /mnt/scratch --with scheduler=none")]
pub struct ReproduceArgs {
    /// The source to read; empty for the last watch
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, the last watch"))]
    pub paths: Vec<PathBuf>,
    /// Directory to create for the reproduction
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Keep the names of programs, files and disks; some causes are only recognized by them
    #[arg(long)]
    pub keep_names: bool,
    /// Write the exact sequence of requests with their times, instead of a load that is like it
    #[arg(long)]
    pub replay: bool,
}

/// The part of a run that plays a sequence.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The sequence
    #[arg(value_name = "SEQUENCE")]
    pub sequence: PathBuf,
    /// The directory of its files, or the device
    #[arg(value_name = "PLACE")]
    pub place: PathBuf,
    /// Whether its files are created or it is played
    #[arg(value_name = "PHASE")]
    pub phase: ReplayPhase,
}

/// What is done with a sequence.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPhase {
    /// Creates its files.
    Layout,
    /// Plays it until it is ended.
    Run,
}

/// Where a reproduction runs.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Places")]
pub struct PlaceArgs {
    /// Run in this empty directory (repeat for each disk of the original)
    #[arg(long, value_name = "DIR")]
    pub on: Vec<PathBuf>,
    /// Run on this empty device that nothing uses (repeat); it is formatted where files are needed
    #[arg(long, value_name = "DEVICE", value_parser = super::device_or_file())]
    pub on_device: Vec<PathBuf>,
    /// Destroy what is on this device of --on-device, by its name: sdb (repeat)
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// Allow what affects the whole machine during the run: empty its caches, set vm.* as in the
    /// original
    #[arg(long)]
    pub affect_machine: bool,
    /// Leave the disks' settings (scheduler, readahead) as they are
    #[arg(long)]
    pub keep_settings: bool,
}

/// The run of a reproduction.
#[derive(Args, Debug)]
pub struct RerunArgs {
    /// The reproduction's directory
    #[arg(value_name = "REPRODUCTION")]
    pub folder: PathBuf,
    /// Where it runs.
    #[command(flatten)]
    pub places: PlaceArgs,
    /// How long to record: 10, 10s [default: as long as the original, at most 30]
    #[arg(short, long, value_name = "TIME", value_parser = super::seconds)]
    pub time: Option<Duration>,
    /// Directory to create for the recording of the run [default: run-N in the reproduction]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// First adjust the pauses of jobs over at most N short runs, and save them
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3",
        value_parser = clap::value_parser!(u32).range(1..=10),
    )]
    pub fit: Option<u32>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// `iowhy verify`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  iowhy verify case --on /mnt/scratch --with scheduler=none
  iowhy verify case --on /mnt/scratch --with limits=none        without the cgroup's I/O limits
  iowhy verify case --on /mnt/scratch --with-command 'tune2fs -O fast_commit /dev/sdb' \\
      --undo-command 'tune2fs -O ^fast_commit /dev/sdb'")]
pub struct VerifyArgs {
    /// The reproduction's directory
    #[arg(value_name = "REPRODUCTION")]
    pub folder: PathBuf,
    /// Where it runs.
    #[command(flatten)]
    pub places: PlaceArgs,
    /// The change to test, as NAME=VALUE: a queue's setting, vm.*, limits=none, memory=none,
    /// sync=none, depth=N (repeat)
    #[arg(long = "with", value_name = "NAME=VALUE", required_unless_present = "with_command")]
    pub with: Vec<String>,
    /// The change to test, as a command for sh
    #[arg(long, value_name = "COMMAND", requires = "undo_command")]
    pub with_command: Option<String>,
    /// The command that undoes it
    #[arg(long, value_name = "COMMAND", requires = "with_command")]
    pub undo_command: Option<String>,
    /// Rounds without and with the change each
    #[arg(long, value_name = "N", default_value = "4",
        value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
    /// How long to record in each round: 4, 4s, 500ms
    #[arg(short, long, value_name = "TIME", default_value = "4s", value_parser = super::seconds)]
    pub time: Duration,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
