//! The arguments of a tool, and the command line that they become. Values follow `=` and sources
//! follow `--`, so that none can be taken for an option.
//!
//! What does not belong here: running it ([`crate::program`]).

use schemars::JsonSchema;
use serde::Deserialize;
use std::ffi::OsString;

/// No arguments.
#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// What `watch` is given.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct WatchArguments {
    /// Seconds to watch, 1 to 60.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 60))]
    pub seconds: u32,
    /// Only this block device, by its kernel name: sda.
    pub device: Option<String>,
}

fn ten() -> u32 {
    10
}

/// What `findings` is given.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct FindingsArguments {
    /// `watch-N` from the tool watch, or the absolute path of a recording or of a capture by
    /// blktrace.
    pub source: String,
}

/// What `explain` is given.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct ExplainArguments {
    /// A cause's id (fsync-heavy), or the number of a finding, from 1.
    pub cause: String,
    /// `watch-N` or an absolute path: also what the source shows of the cause. Needed for a number.
    pub source: Option<String>,
}

/// What `query` is given.
#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct QueryArguments {
    /// The handle `more` of an earlier answer, for its next part; then nothing else.
    pub more: Option<String>,
    /// `watch-N` or an absolute path.
    pub source: Option<String>,
    /// Which view.
    pub view: Option<QueriedView>,
    /// Seconds of each interval, for views with intervals; without it, the whole source.
    pub interval_s: Option<f64>,
    /// Only this block device.
    pub device: Option<String>,
    /// Only this process, by number or name.
    pub process: Option<String>,
    /// Only files whose path begins so.
    pub file: Option<String>,
    /// Only this cgroup and those below it.
    pub cgroup: Option<String>,
    /// Only this operation: read, write, flush, discard.
    pub operation: Option<String>,
    /// Only requests that took at least so many milliseconds.
    pub above_ms: Option<f64>,
}

/// A view of a source.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum QueriedView {
    /// Devices: rates, latency, utilisation.
    Stat,
    /// Processes: I/O and blocked time.
    Proc,
    /// Files: calls, bytes and time by process and file.
    Files,
    /// Where threads waited for storage.
    Waits,
    /// Latency as histograms.
    Latency,
    /// Which functions submitted requests.
    Stacks,
    /// Page cache, dirty pages, readahead.
    Cache,
    /// One line for each request.
    Snoop,
    /// Opens by process and file.
    Opens,
    /// Threads that waited for a thread that waited for storage.
    Chains,
    /// Whose requests others waited behind.
    Blame,
    /// Latency by stage.
    Stages,
}

impl QueriedView {
    fn word(self) -> &'static str {
        match self {
            QueriedView::Stat => "stat",
            QueriedView::Proc => "proc",
            QueriedView::Files => "files",
            QueriedView::Waits => "waits",
            QueriedView::Latency => "latency",
            QueriedView::Stacks => "stacks",
            QueriedView::Cache => "cache",
            QueriedView::Snoop => "snoop",
            QueriedView::Opens => "opens",
            QueriedView::Chains => "chains",
            QueriedView::Blame => "blame",
            QueriedView::Stages => "stages",
        }
    }

    fn has_intervals(self) -> bool {
        use QueriedView::{Cache, Files, Latency, Proc, Stacks, Stat, Waits};
        matches!(self, Stat | Proc | Files | Waits | Latency | Stacks | Cache)
    }
}

/// The words of a command line.
pub type Words = Vec<OsString>;

fn word(text: impl Into<OsString>) -> OsString {
    text.into()
}

impl QueryArguments {
    /// The command that answers, of the source `source`; an error says what is wrong.
    pub fn command(&self, source: &OsString) -> Result<Words, String> {
        let view = self.view.ok_or("failed to query: no view was named")?;
        let mut words: Words = vec![word(view.word()), word("--json")];
        let filters = [
            ("--device", self.device.as_deref()),
            ("--process", self.process.as_deref()),
            ("--file", self.file.as_deref()),
            ("--cgroup", self.cgroup.as_deref()),
            ("--operation", self.operation.as_deref()),
        ];
        for (flag, value) in filters {
            words.extend(value.map(|value| word(format!("{flag}={value}"))));
        }
        words.extend(self.above_ms.map(|ms| word(format!("--above={ms}"))));
        words.push(word("--"));
        words.push(source.clone());
        match self.interval_s {
            Some(_) if !view.has_intervals() => {
                return Err(format!("failed to query: {} has no intervals", view.word()));
            }
            Some(seconds) if !(0.01..=86_400.0).contains(&seconds) => {
                return Err("failed to query: an interval is 0.01 to 86400 seconds".to_owned());
            }
            seconds => words.extend(seconds.map(|seconds| word(seconds.to_string()))),
        }
        Ok(words)
    }
}

/// The words of `iowhy report --json=brief`.
pub fn brief(source: &OsString) -> Words {
    vec![word("report"), word("--json=brief"), word("--"), source.clone()]
}

/// The words of `iowhy explain`.
pub fn explain(cause: &str, source: Option<&OsString>) -> Words {
    let mut words: Words = vec![word("explain"), word("--json"), word("--"), word(cause)];
    words.extend(source.cloned());
    words
}

/// The words of `iowhy record`.
pub fn record(arguments: &WatchArguments, into: &std::path::Path) -> Words {
    let mut words: Words = vec![word("record"), word(format!("--time={}", arguments.seconds))];
    words.extend(arguments.device.as_ref().map(|device| word(format!("--device={device}"))));
    words.extend([word("--output"), into.into()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_becomes_an_option() {
        let query = QueryArguments {
            view: Some(QueriedView::Snoop),
            process: Some("--redact".to_owned()),
            file: Some("; rm -rf /".to_owned()),
            ..QueryArguments::default()
        };
        let words = query.command(&word("/srv/rec")).unwrap();
        assert_eq!(
            words,
            ["snoop", "--json", "--process=--redact", "--file=; rm -rf /", "--", "/srv/rec"]
        );
        assert_eq!(explain("--help", None), ["explain", "--json", "--", "--help"]);
    }

    #[test]
    fn intervals_are_for_views_that_have_them() {
        let of = |view, interval_s| {
            QueryArguments { view, interval_s, ..QueryArguments::default() }.command(&word("/r"))
        };
        assert_eq!(
            of(Some(QueriedView::Stat), Some(0.5)).unwrap(),
            ["stat", "--json", "--", "/r", "0.5"]
        );
        assert!(of(Some(QueriedView::Snoop), Some(1.0)).is_err() && of(None, None).is_err());
        assert!(of(Some(QueriedView::Stat), Some(f64::NAN)).is_err());
    }
}
