//! `iowhy stages`. Short options of data files are those of btt.

use super::amounts::moment;
use super::{Only, SOURCE};
use clap::Args;
use iowhy_blktrace::btt::{BttFileKind, DataFiles};
use std::path::PathBuf;
use std::time::Duration;

/// How long a watch is if nothing says so.
const USUAL: Duration = Duration::from_secs(10);

/// What to read and which part of it, or how long to watch.
#[derive(Args, Debug)]
pub struct SourceOrPart {
    /// The source to read; empty to watch this machine
    #[arg(value_name = "SOURCE", help = format!("{SOURCE}; without one, watch this machine"))]
    pub paths: Vec<PathBuf>,
    /// How long to watch [default: 10s]; with SOURCE, begin this long after its first event, as
    /// btt's -t
    #[arg(short, long, value_name = "TIME", value_parser = moment)]
    time: Option<Duration>,
    /// With SOURCE, end this long after its first event, as btt's -T
    #[arg(short = 'T', long, value_name = "TIME", value_parser = moment, requires = "paths")]
    until: Option<Duration>,
}

impl SourceOrPart {
    /// How long to watch.
    pub fn length(&self) -> Duration {
        self.time.filter(|time| !time.is_zero()).unwrap_or(USUAL)
    }

    /// The part of a source to keep: from and to, nanoseconds after its first event; `None` for all
    /// of it.
    pub fn part(&self) -> Option<(u64, u64)> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let is_part = self.time.is_some() || self.until.is_some();
        is_part.then(|| (self.time.map_or(0, ns), self.until.map_or(u64::MAX, ns)))
    }
}

/// `iowhy stages`.
#[derive(Args, Debug)]
pub struct StagesArgs {
    /// The source to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrPart,
    /// Print exactly the figures of btt 1.3.0, paired as btt does
    #[arg(long)]
    pub btt_compat: bool,
    /// With --btt-compat, also print btt's figures per process and per device
    #[arg(short = 'A', long, requires = "btt_compat")]
    pub all_data: bool,
    /// With --btt-compat, write PREFIX.avg, PREFIX.dat and PREFIX.msg as btt does
    #[arg(short, long, value_name = "PREFIX", requires = "btt_compat")]
    pub output: Option<PathBuf>,
    /// Print the figures as JSON, with units
    #[arg(long, conflicts_with = "btt_compat")]
    pub json: bool,
    /// Data files.
    #[command(flatten)]
    pub files: BttFiles,
    /// What another command shows.
    #[command(flatten)]
    pub elsewhere: BttElsewhere,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

/// Which of btt's data files to write.
#[derive(Args, Debug)]
#[command(next_help_heading = "Data files as btt writes them")]
pub struct BttFiles {
    /// D2C of each bio: PREFIX_8,0_d2c.dat
    #[arg(short = 'l', long, value_name = "PREFIX")]
    pub d2c_latencies: Option<PathBuf>,
    /// Q2C of each bio: PREFIX_8,0_q2c.dat
    #[arg(short = 'q', long, value_name = "PREFIX")]
    pub q2c_latencies: Option<PathBuf>,
    /// Q2D of each bio: PREFIX_8,0_q2d.dat
    #[arg(short = 'z', long, value_name = "PREFIX")]
    pub q2d_latencies: Option<PathBuf>,
    /// Time and sectors of each issue: PREFIX_8,0_{r,w,c}.dat
    #[arg(short = 'B', long, value_name = "PREFIX")]
    pub dump_blocknos: Option<PathBuf>,
    /// Distances from Q to Q and from D to D: PREFIX_8,0_{q2q,d2d}_{r,w,c}.dat
    #[arg(short = 's', long, value_name = "PREFIX")]
    pub seeks: Option<PathBuf>,
    /// Requests at the device: PREFIX_8,0_aqd.dat
    #[arg(short = 'Q', long, value_name = "PREFIX")]
    pub active_queue_depth: Option<PathBuf>,
    /// Mean latencies of periods of this length: 8,0_{d2c,q2c,q2d}_plat.dat in the present folder
    #[arg(short = 'L', long, value_name = "SECONDS", value_parser = super::amounts::seconds)]
    pub periodic_latencies: Option<Duration>,
    /// Seeks per second, D to D: PREFIX_8,0.dat
    #[arg(short = 'm', long, value_name = "PREFIX")]
    pub seeks_per_second: Option<PathBuf>,
    /// How often unplugs released how many requests: PREFIX_8,0.dat
    #[arg(short = 'u', long, value_name = "PREFIX")]
    pub unplug_hist: Option<PathBuf>,
    /// The times of each bio; btt's -p, which here keeps requests of a process
    #[arg(long, value_name = "FILE")]
    pub per_io_dump: Option<PathBuf>,
    /// Times of Q, D and C of each request: 8,0_pit.dat in the present folder; as btt's, it takes
    /// a name and does not use it
    #[arg(short = 'P', long, value_name = "NAME")]
    pub per_io_trees: Option<PathBuf>,
    /// Names of devices in these files and in --btt-compat, from a file with lines such as
    /// `sdq 65,0`
    #[arg(short = 'M', long, value_name = "FILE")]
    pub dev_maps: Option<PathBuf>,
}

/// Options of btt that are another command here: scripts that have them are told which.
#[derive(Args, Debug)]
pub struct BttElsewhere {
    /// btt's figures of iostat
    #[arg(short = 'I', long, value_name = "FILE", hide = true)]
    iostat: Option<PathBuf>,
    /// Their interval
    #[arg(short = 'S', long, value_name = "SECONDS", hide = true)]
    iostat_interval: Option<String>,
    /// Times in which a device or a process was active
    #[arg(short = 'Z', long, hide = true)]
    do_active: bool,
    /// Averages in a form for programs
    #[arg(short = 'X', long, hide = true)]
    easy_parse_avgs: bool,
}

impl BttElsewhere {
    /// The first of them that was given, and the command that shows the same of SOURCE.
    pub fn given(&self) -> Option<(&'static str, &'static str)> {
        let all = [
            (self.iostat.is_some(), "-I", "iowhy stat SOURCE 1"),
            (self.iostat_interval.is_some(), "-S", "iowhy stat SOURCE 1"),
            (self.do_active, "-Z", "iowhy stat SOURCE 1"),
            (self.easy_parse_avgs, "-X", "iowhy stages SOURCE --json"),
        ];
        all.into_iter().find(|(is_given, ..)| *is_given).map(|(_, option, then)| (option, then))
    }
}

impl BttFiles {
    /// Returns the data files to write, if any.
    pub fn wanted(&self) -> Option<DataFiles> {
        let wanted = [
            (BttFileKind::D2c, &self.d2c_latencies),
            (BttFileKind::Q2c, &self.q2c_latencies),
            (BttFileKind::Q2d, &self.q2d_latencies),
            (BttFileKind::Blocks, &self.dump_blocknos),
            (BttFileKind::QueueSeeks, &self.seeks),
            (BttFileKind::IssueSeeks, &self.seeks),
            (BttFileKind::Depth, &self.active_queue_depth),
            (BttFileKind::SeekRate, &self.seeks_per_second),
            (BttFileKind::Unplugs, &self.unplug_hist),
            (BttFileKind::Bios, &self.per_io_dump),
        ];
        let mut files = None;
        for (kind, prefix) in wanted {
            if let Some(prefix) = prefix {
                files.get_or_insert_with(DataFiles::default).add(kind, prefix.clone());
            }
        }
        if self.per_io_trees.is_some() {
            let files = files.get_or_insert_with(DataFiles::default);
            files.add(BttFileKind::Trees, PathBuf::new());
        }
        if let Some(period) = self.periodic_latencies {
            files.get_or_insert_with(DataFiles::default).add_means(period.as_secs_f64());
        }
        files
    }
}
