//! What every view of intervals takes: `iowhy stat [SOURCE] [INTERVAL [COUNT]]`.

use super::Only;
use super::export::Weight;
use clap::{Args, ValueEnum};
use iowhy_core::analysis::histograms::By;
use iowhy_core::analysis::intervals::Wanted;
use iowhy_core::analysis::waits::groups;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What is watched or read, how long each interval is, and how to show it.
#[derive(Args, Debug, Clone)]
pub struct Intervals {
    /// A source to read (see `iowhy report --help`), then the seconds of each interval and how many
    /// of them. Without a source, watch this machine; without an interval, ten seconds of it or all
    /// of the source; without a count, until Ctrl-C
    #[arg(value_name = "SOURCE|INTERVAL [COUNT]", allow_negative_numbers = true)]
    pub words: Vec<OsString>,
    /// Print each interval as one line of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// All columns, however wide they are
    #[arg(long)]
    pub wide: bool,
    /// What to keep.
    #[command(flatten)]
    pub only: Only,
}

/// What the words of [`Intervals`] say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// What to read; nothing to watch this machine.
    pub paths: Vec<PathBuf>,
    /// Which intervals.
    pub wanted: Wanted,
}

impl Intervals {
    /// Tells the numbers from the sources; half a sentence about what is wrong.
    pub fn given(&self) -> Result<Given, String> {
        let mut given = Given::default();
        for word in &self.words {
            let text = word.to_string_lossy();
            let is_number = text
                .starts_with(|first: char| first.is_ascii_digit() || matches!(first, '.' | '-'))
                && text.parse::<f64>().is_ok();
            match (is_number, given.wanted.every_ns, given.wanted.count) {
                (false, None, _) => given.paths.push(word.into()),
                (false, Some(_), _) => {
                    return Err(format!("{text}: a source stands before numbers"));
                }
                (true, None, _) => given.wanted.every_ns = Some(interval(&text)?),
                (true, Some(_), None) => given.wanted.count = Some(count(&text)?),
                (true, Some(_), Some(_)) => {
                    return Err(format!("{text}: there are two numbers already"));
                }
            }
        }
        Ok(given)
    }
}

fn interval(text: &str) -> Result<u64, String> {
    let time = super::positive(text, 1.0).map_err(|cause| format!("{text}: {cause}"))?;
    if time < Duration::from_millis(10) {
        return Err(format!("{text}: an interval has at least 0.01 s"));
    }
    Ok(time.as_nanos() as u64)
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse::<u64>().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{text}: no number of intervals, which is 1 or more"))
}

/// `iowhy stat`.
#[derive(Args, Debug)]
pub struct Stat {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
}

/// `iowhy files`.
#[derive(Args, Debug)]
pub struct Files {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
}

/// `iowhy latency`.
#[derive(Args, Debug)]
pub struct Latency {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// A histogram for each of these: device, flags, process (repeat to combine), or none
    #[arg(long, value_name = "WHAT", default_value = "device", value_parser = ["device", "flags", "process", "none"])]
    pub by: Vec<String>,
    /// The time from queueing, not only that at the driver (biolatency -Q)
    #[arg(short = 'Q', long)]
    pub queued: bool,
}

impl Latency {
    /// What requests are distinguished by.
    pub fn by(&self) -> By {
        let has = |word: &str| self.by.iter().any(|by| by == word);
        By { device: has("device"), flags: has("flags"), process: has("process") }
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
    /// Count what comes into the page cache and leaves it, about 0.1 µs for each page of a busy cache
    #[arg(long)]
    pub page_cache: bool,
}

/// `iowhy waits`.
#[derive(Args, Debug)]
pub struct Waits {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// What waits are distinguished by, beside their class
    #[arg(long, value_enum, default_value = "class")]
    pub by: WaitsBy,
}

/// What waits are distinguished by.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WaitsBy {
    /// Nothing else
    Class,
    /// The process
    Process,
    /// The file of the system call
    File,
    /// The kernel's functions
    Stack,
}

impl From<WaitsBy> for groups::By {
    fn from(by: WaitsBy) -> groups::By {
        match by {
            WaitsBy::Class => groups::By::Class,
            WaitsBy::Process => groups::By::Process,
            WaitsBy::File => groups::By::File,
            WaitsBy::Stack => groups::By::Stack,
        }
    }
}

/// `iowhy stacks`.
#[derive(Args, Debug)]
pub struct Stacks {
    /// What to show.
    #[command(flatten)]
    pub intervals: Intervals,
    /// Print folded stacks, a line each, of the whole watch or source
    #[arg(long, conflicts_with = "json")]
    pub folded: bool,
    /// Write a flame graph of the whole watch or source
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "folded"])]
    pub svg: Option<PathBuf>,
    /// What a stack is weighed by, with --folded and --svg
    #[arg(long, value_enum, default_value = "time")]
    pub weight: Weight,
    /// Stacks taken a second on each CPU
    #[arg(long, value_name = "N", default_value = "500")]
    pub stacks: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> Result<Given, String> {
        let words = words.iter().map(OsString::from).collect();
        Intervals { words, json: false, wide: false, only: Only::default() }.given()
    }

    #[test]
    fn numbers_are_interval_and_count() {
        let wanted = |every_ns, count| Wanted { every_ns, count };
        assert_eq!(given(&[]).unwrap(), Given::default());
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
