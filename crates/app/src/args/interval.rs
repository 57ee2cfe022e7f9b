//! Arguments of all interval views: `iowhy stat [SOURCE] [INTERVAL [COUNT]]`.

use super::Only;
use super::export::StackWeight;
use clap::{Args, ValueEnum};
use iowhy_analysis::histograms::HistogramBy;
use iowhy_analysis::intervals::WantedIntervals;
use iowhy_analysis::waits::groups;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to watch or read, the length of each interval, and how to show it.
#[derive(Args, Debug, Clone)]
pub struct Intervals {
    /// A source to read (see `iowhy report --help`), then seconds per interval and number of
    /// intervals. Without a source, watch this machine. Without an interval, show ten seconds of it
    /// or the entire source. Without a count, run until Ctrl-C
    #[arg(value_name = "SOURCE|INTERVAL [COUNT]", allow_negative_numbers = true)]
    pub words: Vec<OsString>,
    /// Print each interval as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Show all columns in full width
    #[arg(long)]
    pub wide: bool,
    /// Which requests to keep.
    #[command(flatten)]
    pub only: Only,
}

/// The parsed words of [`Intervals`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GivenWords {
    /// The source to read; empty to watch this machine.
    pub paths: Vec<PathBuf>,
    /// Which intervals.
    pub wanted: WantedIntervals,
}

impl Intervals {
    /// Separates numbers from sources. An error is a clause that says what is wrong.
    pub fn given(&self) -> Result<GivenWords, String> {
        GivenWords::parse(&self.words)
    }
}

/// Whether `text` is a number or a time: `10`, `0.5`, `500ms`. `-1` is one, too, to be refused.
fn is_amount(text: &str) -> bool {
    let is_number = text
        .starts_with(|first: char| first.is_ascii_digit() || matches!(first, '.' | '-'))
        && text.parse::<f64>().is_ok();
    is_number || super::seconds(text).is_ok()
}

impl GivenWords {
    /// The same for any words.
    pub fn parse(words: &[OsString]) -> Result<GivenWords, String> {
        let mut given = GivenWords::default();
        for word in words {
            let text = word.to_string_lossy();
            let is_number = is_amount(&text);
            match (is_number, given.wanted.every_ns, given.wanted.count) {
                (false, None, _) => given.paths.push(word.into()),
                (false, Some(_), _) => {
                    return Err(format!("{text}: sources come before numbers"));
                }
                (true, None, _) => given.wanted.every_ns = Some(interval(&text)?),
                (true, Some(_), None) => given.wanted.count = Some(count(&text)?),
                (true, Some(_), Some(_)) => {
                    return Err(format!("{text}: at most two numbers are allowed"));
                }
            }
        }
        Ok(given)
    }
}

fn interval(text: &str) -> Result<u64, String> {
    let time = super::seconds(text).map_err(|cause| format!("{text}: {cause}"))?;
    if time < Duration::from_millis(10) {
        return Err(format!("{text}: an interval is at least 0.01 s"));
    }
    Ok(time.as_nanos() as u64)
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse::<u64>().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{text}: a number of intervals is 1 or more"))
}

/// `iowhy stat`.
#[derive(Args, Debug)]
pub struct StatArgs {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
}

/// `iowhy files`.
#[derive(Args, Debug)]
pub struct FilesArgs {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
}

/// `iowhy latency`.
#[derive(Args, Debug)]
pub struct LatencyArgs {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// Print one histogram per device, flags or process (repeat to combine), or only one (none)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "device",
        value_parser = ["device", "flags", "process", "none"],
    )]
    pub by: Vec<String>,
    /// Include time before the driver, from queueing (biolatency -Q)
    #[arg(short = 'Q', long)]
    pub queued: bool,
}

impl LatencyArgs {
    /// Returns what requests are grouped by.
    pub fn by(&self) -> HistogramBy {
        let has = |word: &str| self.by.iter().any(|by| by == word);
        HistogramBy { device: has("device"), flags: has("flags"), process: has("process") }
    }
}

/// `iowhy proc`.
#[derive(Args, Debug)]
pub struct Proc {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
}

/// `iowhy cache`.
#[derive(Args, Debug)]
pub struct Cache {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// Count page cache insertions and evictions; costs about 0.1 µs per page
    #[arg(long)]
    pub page_cache: bool,
}

/// `iowhy waits`.
#[derive(Args, Debug)]
pub struct WaitsArgs {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// What to group waits by, in addition to their class
    #[arg(long, value_enum, default_value = "class")]
    pub by: WaitsBy,
}

/// What waits are grouped by.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WaitsBy {
    /// Nothing else
    Class,
    /// The process
    Process,
    /// The file of the system call
    File,
    /// The kernel stack
    Stack,
}

impl From<WaitsBy> for groups::GroupWaitsBy {
    fn from(by: WaitsBy) -> groups::GroupWaitsBy {
        match by {
            WaitsBy::Class => groups::GroupWaitsBy::Class,
            WaitsBy::Process => groups::GroupWaitsBy::Process,
            WaitsBy::File => groups::GroupWaitsBy::File,
            WaitsBy::Stack => groups::GroupWaitsBy::Stack,
        }
    }
}

/// `iowhy stacks`.
#[derive(Args, Debug)]
pub struct StacksArgs {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// Print folded stacks of the entire watch or source, one per line
    #[arg(long, conflicts_with = "json")]
    pub folded: bool,
    /// Write a flame graph of the entire watch or source
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "folded"])]
    pub svg: Option<PathBuf>,
    /// The weight of a stack, with --folded and --svg
    #[arg(long, value_enum, default_value = "time")]
    pub weight: StackWeight,
    /// Maximum number of stacks per second and CPU
    #[arg(long, value_name = "N", default_value = "500")]
    pub stacks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> Result<GivenWords, String> {
        let words = words.iter().map(OsString::from).collect();
        Intervals { words, json: false, wide: false, only: Only::default() }.given()
    }

    #[test]
    fn numbers_are_interval_and_count() {
        let wanted = |every_ns, count| WantedIntervals { every_ns, count };
        assert_eq!(given(&[]).unwrap(), GivenWords::default());
        assert_eq!(given(&["1"]).unwrap().wanted, wanted(Some(1_000_000_000), None));
        assert_eq!(given(&["0.5", "3"]).unwrap().wanted, wanted(Some(500_000_000), Some(3)));
        let recording = given(&["rec", "2", "4"]).unwrap();
        assert_eq!(recording.paths, [PathBuf::from("rec")]);
        assert_eq!(recording.wanted, wanted(Some(2_000_000_000), Some(4)));
        assert_eq!(given(&["./1"]).unwrap().paths, [PathBuf::from("./1")]);
        assert_eq!(given(&["-"]).unwrap().paths, [PathBuf::from("-")]);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for words in
            [&["1", "rec"][..], &["1", "2", "3"], &["1", "0"], &["1", "2.5"], &["0"], &["-1"]]
        {
            assert!(given(words).is_err(), "{words:?}");
        }
    }
}
