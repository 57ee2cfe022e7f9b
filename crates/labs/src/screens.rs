//! Writes `docs/screens.md`: the first screen of fifteen labs and real programs, from recordings
//! that `iowhy-labs matrix --keep` kept.
//!
//! What does not belong here: running the labs ([`crate::labs`]).

use crate::{LabError, Result, command, iowhy, page};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The labs that the page shows: real programs first, then common on-call cases.
const SHOWN: &[&str] = &[
    "postgres-commits",
    "postgres-checkpoint",
    "postgres-commits-healthy",
    "mariadb-commits",
    "rocksdb-compaction",
    "redis-snapshot",
    "java-gc-log",
    "git-cold-status",
    "case-stat-storm",
    "case-suspicious-drive",
    "hung-io",
    "cgroup-throttle",
    "noisy-neighbour-here",
    "guest-raid-resync",
    "control-idle",
];

/// Where to read recordings, and which page to write.
#[derive(Args, Clone, Debug)]
pub struct ScreenSettings {
    /// The folder that `matrix --keep` wrote
    #[arg(long)]
    kept: PathBuf,
    /// The page to write the screens into
    #[arg(long, default_value = "docs/screens.md")]
    page: PathBuf,
}

/// Writes the screens into the page.
pub fn run(settings: &ScreenSettings) -> Result<()> {
    let parts: Result<Vec<String>> = SHOWN.iter().map(|lab| part(&settings.kept, lab)).collect();
    page::replace(&settings.page, "screens", &parts?.join("\n"))
}

/// A section with the screen of a lab's last pass.
fn part(kept: &Path, lab: &str) -> Result<String> {
    let newest = (1..=9).rev().map(|pass| kept.join(format!("{lab}.{pass}")));
    let found = newest.into_iter().find(|path| path.join("recording.json").is_file());
    let recording = found.ok_or_else(|| {
        let hint = format!("iowhy-labs matrix --only {lab} --keep {}", kept.display());
        LabError::missing(format!("a recording of {lab}"), hint)
    })?;
    let mut report = Command::new(iowhy::binary()?);
    let name = recording.file_name().unwrap_or_default();
    // Commands on the screen name the recording by its file name.
    report.current_dir(kept).env("COLUMNS", "80").env("LC_ALL", "C.UTF-8");
    report.arg("report").arg(name);
    let screen = command::output_of(report)?;
    Ok(format!("## {lab}\n\n```\n{}\n```\n", screen.trim_end()))
}
