//! The daemon's configuration: `/etc/iowhy/iowhy.toml` and its defaults.
//!
//! | where | what |
//! |---|---|
//! | here | the settings, and which of them do not fit together |
//! | [`condition`] | `[[trigger.when]]` |
//! | [`lines`] | the line of a setting |
//!
//! What does not belong here: what the settings cause.

pub mod condition;
pub mod lines;

use crate::units::{OptionalLimit, Size, TimeSpan};
use condition::{ConditionConfig, MOST_CONDITIONS};
use iowhy_capture::budget::{ALWAYS_PERCENT, PERCENT_RANGE};
use iowhy_fs::read;
use lines::{Contradiction, line_at};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The path of the configuration unless another file is named.
pub const DEFAULT_PATH: &str = "/etc/iowhy/iowhy.toml";

/// Bytes of a configuration at most; a larger file is refused.
const MOST_BYTES: u64 = 1 << 20;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct RecorderConfig {
    /// The directory of incidents and history.
    pub state: PathBuf,
    /// The directory of the ring, the control socket and unsaved incidents: on a file system in
    /// memory, so that recording never waits for a disk.
    pub runtime: PathBuf,
    /// The time that the ring reaches back.
    pub keep: TimeSpan,
    /// The size of the ring at most.
    pub keep_mb: Size,
    /// The time before its trigger that an incident keeps of the ring.
    pub before: TimeSpan,
    /// The time that an incident is recorded after its trigger.
    pub after: TimeSpan,
    /// The size of all incidents together at most; the oldest that is not pinned goes first.
    pub incidents_mb: Size,
    /// Days of history that are kept.
    pub history_days: u32,
    /// The size of the history at most; the oldest days go first.
    pub history_mb: Size,
    /// The devices and events that are watched.
    pub watch: WatchConfig,
    /// The conditions that begin an incident.
    pub trigger: TriggerConfig,
    /// The places where figures are published.
    pub metrics: MetricsConfig,
    /// The program that is run for each incident.
    pub hook: Option<HookConfig>,
}

impl Default for RecorderConfig {
    fn default() -> RecorderConfig {
        RecorderConfig {
            state: PathBuf::from("/var/lib/iowhy"),
            runtime: PathBuf::from("/run/iowhy"),
            keep: TimeSpan::minutes(10),
            keep_mb: Size::mb(256),
            before: TimeSpan::minutes(5),
            after: TimeSpan::minutes(1),
            incidents_mb: Size::mb(2_000),
            history_days: 31,
            history_mb: Size::mb(200),
            watch: WatchConfig::default(),
            trigger: TriggerConfig::default(),
            metrics: MetricsConfig::default(),
            hook: None,
        }
    }
}

/// The devices and events that are watched, and the budget for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct WatchConfig {
    /// Devices by kernel name; empty for all.
    pub devices: Vec<String>,
    /// The share of the machine's CPUs that watching may use, percent.
    pub budget: f64,
    /// Stacks per second and CPU; 0 for none.
    pub stacks: u32,
    /// Whether waits of threads are recorded; without them few causes can be named.
    pub waits: bool,
    /// Whether the use of files is recorded.
    pub files: bool,
}

impl Default for WatchConfig {
    fn default() -> WatchConfig {
        WatchConfig {
            devices: Vec::new(),
            budget: ALWAYS_PERCENT,
            stacks: 100,
            waits: true,
            files: true,
        }
    }
}

/// The lowest severity of a finding that begins an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLimit {
    /// No finding begins an incident.
    Off,
    /// Warnings and critical findings.
    Warning,
    /// Critical findings only.
    Critical,
}

/// The conditions that begin an incident.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TriggerConfig {
    /// Findings of the diagnosis of the last ten seconds.
    pub finding: FindingLimit,
    /// The age of the oldest request of a device, queued or issued.
    pub in_flight: OptionalLimit<TimeSpan>,
    /// The time that a thread of a program has waited for storage.
    pub hung_task: OptionalLimit<TimeSpan>,
    /// The time that a request took from queueing to completion.
    pub latency: OptionalLimit<TimeSpan>,
    /// The share of ten seconds in which every task with work to do waited for I/O, percent.
    pub pressure_io: OptionalLimit<u32>,
    /// Incidents an hour; further triggers are counted.
    pub most_per_hour: u32,
    /// The time that a condition must be absent before it begins another incident.
    pub quiet: TimeSpan,
    /// Conditions on figures.
    pub when: Vec<ConditionConfig>,
}

impl Default for TriggerConfig {
    fn default() -> TriggerConfig {
        TriggerConfig {
            finding: FindingLimit::Warning,
            in_flight: OptionalLimit::Of(TimeSpan::seconds(2)),
            hung_task: OptionalLimit::Of(TimeSpan::seconds(10)),
            latency: OptionalLimit::Off,
            pressure_io: OptionalLimit::Of(60),
            most_per_hour: 6,
            quiet: TimeSpan::minutes(30),
            when: Vec::new(),
        }
    }
}

/// The places where figures are published: none unless one is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct MetricsConfig {
    /// Address of an HTTP endpoint; only a loopback address is accepted.
    pub listen: Option<SocketAddr>,
    /// Path of a unix socket that serves the same.
    pub socket: Option<PathBuf>,
    /// File for node_exporter's textfile collector; its name ends in `.prom`.
    pub textfile: Option<PathBuf>,
}

/// The program that is run when an incident begins and when it is complete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HookConfig {
    /// Its absolute path.
    pub program: PathBuf,
    /// The user that runs it; never root.
    #[serde(default = "nobody")]
    pub user: String,
}

fn nobody() -> String {
    "nobody".to_owned()
}

/// The reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line that cannot be understood.
    #[error("failed to read {path}: line {line}: {reason}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mistake in the line.
        reason: String,
    },
    /// Settings that do not fit together.
    #[error("failed to use {path}: {reason}", path = path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        reason: String,
    },
}

impl RecorderConfig {
    /// Reads the configuration of `path`. `None` stands for [`DEFAULT_PATH`], which need not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or a line of it cannot be understood.
    pub fn read(path: Option<&Path>) -> Result<RecorderConfig, ConfigError> {
        let file = path.unwrap_or(Path::new(DEFAULT_PATH));
        match read::text(file, MOST_BYTES) {
            Ok(text) => RecorderConfig::parse(file, &text),
            Err(error) if path.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(RecorderConfig::default())
            }
            Err(source) => Err(ConfigError::Read { path: file.to_owned(), source }),
        }
    }

    /// Parses `text`, the content of the configuration `path`.
    ///
    /// # Errors
    /// Fails if a line of it cannot be understood.
    pub fn parse(path: &Path, text: &str) -> Result<RecorderConfig, ConfigError> {
        let config: RecorderConfig = toml::from_str(text).map_err(|error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            ConfigError::Line { path: path.to_owned(), line, reason: error.message().to_owned() }
        })?;
        let Some(contradiction) = config.contradiction() else { return Ok(config) };
        let path = path.to_owned();
        Err(match (contradiction.line(text), contradiction.reason) {
            (Some(line), reason) => ConfigError::Line { path, line, reason },
            (None, reason) => ConfigError::Value { path, reason },
        })
    }

    /// Returns the first pair of settings that contradict each other; `None` if there is none.
    pub fn contradiction(&self) -> Option<Contradiction> {
        self.of_ring().or_else(|| self.of_outputs()).or_else(|| self.of_conditions())
    }

    fn of_ring(&self) -> Option<Contradiction> {
        let (keep, before) = (self.keep.0, self.before.0);
        let wrong = |key, reason: String| Some(Contradiction::new(key, reason));
        if keep < Duration::from_secs(30) {
            wrong("keep", format!("keep is {}, and at least 30s is needed", self.keep))
        } else if before > keep {
            let reason =
                format!("before is {}, more than the ring keeps ({})", self.before, self.keep);
            // Either of the two may be the one that was set.
            let key =
                if self.before == RecorderConfig::default().before { "keep" } else { "before" };
            wrong(key, reason)
        } else if self.keep_mb < Size::mb(16) {
            wrong("keep-mb", "keep-mb is less than 16".to_owned())
        } else if let Some(reason) = self.misplaced() {
            wrong("state", reason)
        } else if self.trigger.pressure_io.value().is_some_and(|percent| percent > 100) {
            let reason = "trigger.pressure-io is more than 100 %, which is never reached";
            wrong("trigger.pressure-io", reason.to_owned())
        } else if self.history_mb < Size::mb(16) {
            wrong("history-mb", "history-mb is less than 16".to_owned())
        } else if !PERCENT_RANGE.contains(&self.watch.budget) {
            let (least, most) = (PERCENT_RANGE.start(), PERCENT_RANGE.end());
            let reason =
                format!("watch.budget is {}, not from {least} to {most}", self.watch.budget);
            wrong("watch.budget", reason)
        } else {
            None
        }
    }

    /// Returns the mistake in the directories, if there is one.
    fn misplaced(&self) -> Option<String> {
        let relative = [("state", &self.state), ("runtime", &self.runtime)];
        let relative = relative.into_iter().find(|(_, path)| !path.is_absolute());
        if let Some((key, path)) = relative {
            return Some(format!("{key} is {}, not an absolute path", path.display()));
        }
        let same = self.state == self.runtime;
        same.then(|| "state and runtime are the same directory".to_owned())
    }

    fn of_outputs(&self) -> Option<Contradiction> {
        let wrong = |key, reason: String| Some(Contradiction::new(key, reason));
        let listen = self.metrics.listen.filter(|address| !address.ip().is_loopback());
        let hook = self.hook.as_ref();
        if let Some(address) = listen {
            let reason = format!("metrics.listen is {address}, which is not a loopback address");
            wrong("metrics.listen", reason)
        } else if let Some(hook) = hook.filter(|hook| !hook.program.is_absolute()) {
            let reason =
                format!("hook.program is {}, not an absolute path", hook.program.display());
            wrong("hook.program", reason)
        } else if hook.is_some_and(|hook| hook.user == "root") {
            wrong("hook.user", "hook.user is root: name another user".to_owned())
        } else if self.textfile_is_misnamed() {
            wrong("metrics.textfile", "metrics.textfile does not end in .prom".to_owned())
        } else {
            None
        }
    }

    fn of_conditions(&self) -> Option<Contradiction> {
        let when = &self.trigger.when;
        if when.len() > MOST_CONDITIONS {
            let reason = format!("trigger.when: more than {MOST_CONDITIONS} conditions");
            return Some(Contradiction::new("trigger.when", reason));
        }
        when.iter().enumerate().find_map(|(index, condition)| condition.contradiction(index))
    }

    fn textfile_is_misnamed(&self) -> bool {
        let extension = self.metrics.textfile.as_ref().map(|path| path.extension());
        extension.is_some_and(|found| found.is_none_or(|name| name != "prom"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RecorderConfig, String> {
        RecorderConfig::parse(Path::new("iowhy.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(parse("").unwrap(), RecorderConfig::default());
        assert_eq!(RecorderConfig::default().contradiction(), None);
    }

    #[test]
    fn what_is_set_is_read() {
        let text = "keep = \"20m\"\nkeep-mb = 64\n[trigger]\nin-flight = \"500ms\"\n\
                    pressure-io = \"off\"\nfinding = \"critical\"\n[metrics]\n\
                    listen = \"127.0.0.1:9797\"\n";
        let config = parse(text).unwrap();
        assert_eq!(config.keep, TimeSpan::minutes(20));
        assert_eq!(config.keep_mb, Size::mb(64));
        assert_eq!(
            config.trigger.in_flight,
            OptionalLimit::Of(TimeSpan(Duration::from_millis(500)))
        );
        assert_eq!(config.trigger.pressure_io, OptionalLimit::Off);
        assert_eq!(config.trigger.finding, FindingLimit::Critical);
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        for (text, said) in [
            ("keep = \"10m\"\nkep-mb = 2\n", "line 2: unknown field `kep-mb`"),
            ("\n\nkeep = \"10 apples\"", "line 3: \"10 apples\" is not a time"),
            ("[trigger]\nin-flight = \"soon\"", "line 2: \"soon\" is not a time"),
            ("# x\nkeep = \"5s\"", "line 2: keep is 5s, and at least 30s is needed"),
            ("before = \"1h\"", "line 1: before is 1h, more than the ring keeps"),
            ("\nkeep = \"1m\"", "line 2: before is 5m, more than the ring keeps"),
            ("[watch]\nbudget = 101", "line 2: watch.budget is 101"),
            ("state = \"relative\"", "line 1: state is relative, not an absolute path"),
            ("state = \"/run/iowhy\"", "line 1: state and runtime are the same directory"),
            ("[trigger]\npressure-io = 400", "line 2: trigger.pressure-io is more than 100 %"),
            ("history-mb = 1", "line 1: history-mb is less than 16"),
            (
                "[metrics]\nlisten = \"0.0.0.0:9\"",
                "line 2: metrics.listen is 0.0.0.0:9, which is not a loopback",
            ),
            ("[hook]\nprogram = \"/bin/true\"\nuser = \"root\"", "line 3: hook.user is root"),
            ("[hook]\nprogram = \"true\"", "line 2: hook.program is true, not an absolute path"),
            (
                "[metrics]\ntextfile = \"/tmp/x.txt\"",
                "line 2: metrics.textfile does not end in .prom",
            ),
            ("keep = ", "line 1:"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
