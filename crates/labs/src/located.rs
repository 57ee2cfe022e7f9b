//! `iowhy locate` compared with debugfs: answers and times for the same blocks.
//!
//! What does not belong here: file systems other than ext4, which debugfs does not read.

use crate::error::Context;
use crate::{LabError, Result, command, iowhy};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The owner of a block: its inode, and every name of it. Absent if it has none.
pub type Owners = BTreeMap<u64, (u64, BTreeSet<String>)>;

/// The answer of debugfs.
#[derive(Debug)]
pub struct Debugfs {
    /// The owner of each block.
    pub owners: Owners,
    /// Time of `icheck` and of `ncheck`.
    pub took: [Duration; 2],
}

/// Asks debugfs, all blocks at once.
pub fn debugfs(device: &Path, blocks: &[u64]) -> Result<Debugfs> {
    let (answer, icheck) = ask(device, "icheck", blocks.iter())?;
    let inodes: BTreeMap<u64, u64> = pairs(&answer).collect();
    let wanted: BTreeSet<u64> = inodes.values().copied().collect();
    let (answer, ncheck) = ask(device, "ncheck", wanted.iter())?;
    let mut names: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for line in answer.lines() {
        if let Some((inode, path)) = line.split_once('\t')
            && let Ok(inode) = inode.parse()
        {
            names.entry(inode).or_default().insert(path.replacen("//", "/", 1));
        }
    }
    // The root directory has no name that ncheck could tell.
    names.insert(2, BTreeSet::from(["/".to_owned()]));
    let owner = |(block, inode)| (block, (inode, names.get(&inode).cloned().unwrap_or_default()));
    Ok(Debugfs { owners: inodes.into_iter().map(owner).collect(), took: [icheck, ncheck] })
}

fn ask<'a>(
    device: &Path,
    what: &str,
    numbers: impl Iterator<Item = &'a u64>,
) -> Result<(String, Duration)> {
    let request = numbers.fold(what.to_owned(), |text, number| format!("{text} {number}"));
    let begun = Instant::now();
    let answer = command::run("debugfs", ["-R".as_ref(), Path::new(&request), device])?;
    Ok((answer, begun.elapsed()))
}

/// Lines of two numbers: icheck's heading and `<block not found>` are none.
fn pairs(answer: &str) -> impl Iterator<Item = (u64, u64)> {
    answer.lines().filter_map(|line| {
        let (block, inode) = line.split_once('\t')?;
        Some((block.parse().ok()?, inode.parse().ok()?))
    })
}

/// The answer of iowhy.
#[derive(Debug)]
pub struct Located {
    /// The owner of each block, with paths from the root of the file system.
    pub owners: Owners,
    /// The use of each block.
    pub uses: BTreeMap<u64, String>,
    /// Its output about its index and its lookups.
    pub notes: String,
    /// Time of the whole process.
    pub took: Duration,
}

/// Asks `iowhy locate`, all blocks at once, of the file system mounted at `mount`.
pub fn locate(device: &Path, mount: &Path, blocks: &[u64]) -> Result<Located> {
    let mut command = Command::new(iowhy::binary()?);
    command.args(["locate", "--fs-block", "--json"]).arg(device).arg("-");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let action = || format!("run {}", command::shown(&Command::new("iowhy locate")));
    let begun = Instant::now();
    let mut child = command.spawn().context(action)?;
    let questions = blocks.iter().fold(String::new(), |text, block| format!("{text}{block}\n"));
    let input = child.stdin.take();
    let writer = std::thread::spawn(move || {
        input.map_or(Ok(()), |mut input| input.write_all(questions.as_bytes()))
    });
    let output = child.wait_with_output().context(action)?;
    let took = begun.elapsed();
    let _broken_where_it_failed = writer.join();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(LabError::failed(action(), notes));
    }
    let mut located = Located { owners: Owners::new(), uses: BTreeMap::new(), notes, took };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        located.line(line, mount)?;
    }
    Ok(located)
}

impl Located {
    fn line(&mut self, line: &str, mount: &Path) -> Result<()> {
        let json: serde_json::Value =
            serde_json::from_str(line).context(|| format!("read {line}"))?;
        let block = json["block"].as_u64().unwrap_or_default();
        self.uses.insert(block, json["use"].as_str().unwrap_or_default().to_owned());
        let prefix = mount.to_string_lossy();
        for owner in json["owners"].as_array().into_iter().flatten() {
            let paths = owner["paths"].as_array().into_iter().flatten();
            let inside = paths.filter_map(|path| path.as_str()).map(|path| {
                match path.strip_prefix(prefix.as_ref()) {
                    Some("") => "/".to_owned(),
                    Some(inside) => inside.to_owned(),
                    None => path.to_owned(),
                }
            });
            let inode = owner["inode"].as_u64().unwrap_or_default();
            self.owners.insert(block, (inode, inside.collect()));
        }
        Ok(())
    }

    /// Returns the seconds before ` s` in the note that contains `words`.
    pub fn seconds(&self, words: &str) -> Option<f64> {
        let note = self.notes.lines().find(|line| line.contains(words))?;
        note.strip_suffix(" s")?.rsplit(' ').next()?.parse().ok()
    }
}

/// Blocks that look random and are the same in every run, below `limit`.
pub fn sample(count: usize, limit: u64) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit.max(1)
    };
    (0..count).map(next).collect()
}
