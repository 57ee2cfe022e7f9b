//! The cache outside the repository: kernels, userlands, programs to watch.

use crate::error::Context;
use crate::{LabError, Result, command};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Maven's plugin that copies one artifact into a folder.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";

/// The directory of that name, which is created if necessary.
pub fn folder(name: &str) -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        Some(home.join(".cache"))
    });
    let folder = base
        .ok_or_else(|| LabError::missing("a cache directory", "set HOME or XDG_CACHE_HOME"))?
        .join("iowhy")
        .join(name);
    fs::create_dir_all(&folder).context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// A program of Maven Central without dependencies, as one file.
pub fn jar(group: &str, name: &str, version: &str) -> Result<PathBuf> {
    let folder = folder("maven")?;
    let jar = folder.join(format!("{name}-{version}.jar"));
    if !jar.exists() {
        // Written atomically, also after an earlier interruption.
        let new = folder.join(format!("new-{}", std::process::id()));
        let _was_not_there = fs::remove_dir_all(&new);
        let mut maven = Command::new(command::find("mvn")?);
        maven.args(["--quiet", "--batch-mode", COPY]);
        maven.arg(format!("-Dartifact={group}:{name}:{version}"));
        maven.arg(format!("-DoutputDirectory={}", new.display()));
        command::output_of(maven)?;
        let copied = new.join(jar.file_name().unwrap_or_default());
        fs::rename(&copied, &jar).context(|| format!("keep {}", copied.display()))?;
        let _is_empty = fs::remove_dir(&new);
    }
    Ok(jar)
}
