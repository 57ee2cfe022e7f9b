//! Tools on known I/O: whether each loads on this kernel, and whether its counts are right.

use super::known::{FILES, KnownIo, KnownIoDisk, NAME, PAGES, READS, REQUESTS};
use crate::devices::BlockDevice;
use crate::error::Context;
use crate::scratch::Scratch;
use crate::{Result, command, iowhy, machine, process};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a tool may take until it is attached, and until it has answered.
const PATIENCE: Duration = Duration::from_secs(90);
/// The time without a new program after which a tool counts as attached.
const SETTLED: Duration = Duration::from_millis(2000);

/// A tool and the count that it must print.
pub struct PeerTool {
    /// Its program; `iowhy` is the built one.
    pub program: &'static str,
    /// Its arguments; `{disk}` is replaced by the disk's name.
    arguments: &'static [&'static str],
    load: KnownIo,
    /// The things that it counts.
    pub counts: &'static str,
    /// The number of them.
    pub expected: u64,
    /// Counts above and below that are right too: others use the page cache as well.
    tolerance: u64,
    /// Finds the count in its output; the disk's name is given.
    count: fn(&str, &str) -> u64,
}

const fn tool(
    program: &'static str,
    arguments: &'static [&'static str],
    load: KnownIo,
    counts: &'static str,
    expected: u64,
    count: fn(&str, &str) -> u64,
) -> PeerTool {
    PeerTool { program, arguments, load, counts, expected, tolerance: 0, count }
}

impl PeerTool {
    /// Returns its name; for iowhy, with the view.
    pub fn title(&self) -> String {
        let view = self.arguments.first().filter(|_| self.program == "iowhy");
        [Some(&self.program), view].into_iter().flatten().copied().collect::<Vec<_>>().join(" ")
    }
}

/// Every tool of Debian's libbpf-tools that counts what a disk or files do, and iowhy's own views.
pub const TOOLS: &[PeerTool] = &[
    tool("biolatency", &["-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, histogram),
    tool("biosnoop", &["-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, lines_of_disk),
    tool("biotop", &["-C", "-r", "1000", "1"], KnownIo::Disk, "requests", REQUESTS, biotop),
    tool("biopattern", &["-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, biopattern),
    tool("biostacks", &["-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, histogram),
    tool("bitesize", &["-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, histogram),
    tool("iowhy", &["snoop", "-d", "{disk}"], KnownIo::Disk, "requests", REQUESTS, lines_of_disk),
    tool(
        "iowhy",
        &["latency", "--json", "-d", "{disk}", "1"],
        KnownIo::Disk,
        "requests",
        REQUESTS,
        latencies,
    ),
    tool("filetop", &["-C", "-r", "1000", "1"], KnownIo::Files, "reads", FILES * READS, filetop),
    tool("ext4slower", &["-m", "0"], KnownIo::Files, "reads", FILES * READS, slow_reads),
    tool("ext4dist", &[], KnownIo::Files, "reads", FILES * READS, read_histogram),
    tool("iowhy", &["files", "--json", "1"], KnownIo::Files, "reads", FILES * READS, files_reads),
    tool("opensnoop", &[], KnownIo::Files, "opens", FILES * 2, named_lines),
    tool("iowhy", &["opens"], KnownIo::Files, "opens", FILES * 2, named_lines),
    tool("statsnoop", &[], KnownIo::Files, "stat calls", FILES, named_lines),
    tool("filelife", &[], KnownIo::Files, "removed files", FILES, named_lines),
    PeerTool {
        tolerance: PAGES / 20,
        ..tool("cachestat", &["1"], KnownIo::Cold, "pages missed", PAGES, missed)
    },
    PeerTool {
        tolerance: PAGES / 20,
        ..tool("readahead", &[], KnownIo::Cold, "pages read ahead", PAGES, read_ahead)
    },
];

/// The share of a CPU that a tool uses at most while it waits for something to count.
const IDLE: f64 = 0.4;

/// The result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// The tool, with its view.
    pub tool: String,
    /// The things that it counts.
    pub counts: String,
    /// The number of them.
    pub expected: u64,
    /// Its count; `None` if it did not run.
    pub found: Option<u64>,
    /// Whether that is right.
    pub right: bool,
    /// Its message if it did not run.
    pub said: String,
}

/// Runs every tool once.
pub fn all(
    scratch: &Scratch,
    known: &KnownIoDisk,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<ToolOutcome>> {
    let mut outcomes = Vec::new();
    for tool in TOOLS {
        let outcome = one(scratch, known, tool)?;
        say(&format!("{outcome:?}"));
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn one(scratch: &Scratch, known: &KnownIoDisk, tool: &PeerTool) -> Result<ToolOutcome> {
    known.prepare(tool.load)?;
    let disk = known.disk().name();
    let path = scratch.fresh(tool.program);
    let errors = path.with_extension("errors");
    let own = tool.program == "iowhy";
    let mut command =
        Command::new(if own { iowhy::binary()? } else { command::find(tool.program)? });
    command.args(tool.arguments.iter().map(|argument| argument.replace("{disk}", disk)));
    let create = |path: &Path| File::create(path).context(|| format!("make {}", path.display()));
    command.stdin(Stdio::null()).stdout(create(&path)?).stderr(create(&errors)?);
    // Wide enough for every name.
    command.env("COLUMNS", "400");
    let mut child = command.spawn().context(|| format!("start {}", tool.program))?;
    let ran = attached(&mut child);
    if ran {
        known.run(tool.load)?;
        std::thread::sleep(SETTLED);
        process::end(&mut child);
    }
    let _killed = child.kill();
    let _status = child.wait();
    let said = fs::read(&path).context(|| format!("read {}", path.display()))?;
    let said = String::from_utf8_lossy(&said);
    let found = ran.then(|| (tool.count)(&said, disk));
    Ok(ToolOutcome {
        tool: tool.title(),
        counts: tool.counts.to_owned(),
        expected: tool.expected,
        right: found.is_some_and(|found| found.abs_diff(tool.expected) <= tool.tolerance),
        found,
        said: if ran { String::new() } else { complaint(&errors, &said) },
    })
}

/// The most informative line of a tool's error message.
fn complaint(errors: &Path, said: &str) -> String {
    let errors = fs::read(errors).unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    let lines =
        || errors.lines().chain(said.lines()).map(str::trim).filter(|line| !line.is_empty());
    let telling = ["failed to find", "failed to create kprobe", "No such file", "failed to attach"];
    let chosen = telling.iter().find_map(|words| lines().find(|line| line.contains(words)));
    chosen.or_else(|| lines().next_back()).unwrap_or("it ended without a message").to_owned()
}

/// Waits until it has attached all its programs; false if it has ended or attaches nothing. While
/// it is busy it is still loading, even long after it attached the last one.
fn attached(child: &mut Child) -> bool {
    let pid = child.id();
    let state = || (links_of(pid), machine::cpu_seconds_of(pid).unwrap_or(0.0));
    let begun = Instant::now();
    let (mut before, mut since) = (state(), Instant::now());
    while begun.elapsed() < PATIENCE {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return false;
        }
        let now = state();
        let busy = now.1 - before.1 > IDLE * SETTLED.as_secs_f64();
        if now.0 != before.0 || busy {
            (before, since) = (now, Instant::now());
        } else if now.0 > 0 && since.elapsed() > SETTLED {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // A tool that has attached something and is never idle does not get more ready.
    links_of(pid) > 0
}

/// Returns the number of programs that a process has attached.
fn links_of(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter(|target| {
            let target = target.to_string_lossy();
            target.contains("perf_event")
                || (target.contains("bpf") && target.contains("link"))
                || target.contains("raw-tracepoint")
        })
        .count()
}

/// The counts of a histogram: `4 -> 7 : 12 |***|`, all of them together.
fn histogram(said: &str, _disk: &str) -> u64 {
    let rows = said.lines().filter_map(|line| {
        let (range, rest) = line.split_once(':')?;
        range.contains("->").then(|| rest.split_whitespace().next()?.parse::<u64>().ok())?
    });
    rows.sum()
}

/// The histogram of reads alone.
fn read_histogram(said: &str, disk: &str) -> u64 {
    let mut text = String::new();
    let mut wanted = false;
    for line in said.lines() {
        if line.contains("operation") {
            wanted = line.contains("read") && !line.contains("readdir");
        }
        if wanted {
            text.push_str(line);
            text.push('\n');
        }
    }
    histogram(&text, disk)
}

fn lines_of_disk(said: &str, disk: &str) -> u64 {
    let is_row = |line: &&str| line.split_whitespace().any(|word| word == disk);
    said.lines().filter(is_row).filter(|line| line.contains("fio")).count() as u64
}

fn named_lines(said: &str, _disk: &str) -> u64 {
    said.lines().filter(|line| line.contains(NAME)).count() as u64
}

/// The sum of a column, counted from 0, of the rows that `wanted` takes.
fn column(said: &str, place: usize, wanted: impl Fn(&[&str]) -> bool) -> u64 {
    let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|words| wanted(words))
        .filter_map(|words| words.get(place)?.parse::<u64>().ok())
        .sum()
}

/// PID COMM D MAJ MIN DISK I/O Kbytes AVGms
fn biotop(said: &str, disk: &str) -> u64 {
    column(said, 6, |words| words.get(5) == Some(&disk))
}

/// DISK %RND %SEQ COUNT KBYTES
fn biopattern(said: &str, disk: &str) -> u64 {
    column(said, 3, |words| words.first() == Some(&disk))
}

/// TID COMM READS WRITES R_Kb W_Kb T FILE
fn filetop(said: &str, _disk: &str) -> u64 {
    column(said, 2, |words| words.last().is_some_and(|file| file.starts_with(NAME)))
}

/// TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME
fn slow_reads(said: &str, _disk: &str) -> u64 {
    let is_read = |words: &[&str]| {
        words.get(3) == Some(&"R") && words.last().is_some_and(|file| file.starts_with(NAME))
    };
    let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|words| is_read(words)).count() as u64
}

/// HITS MISSES DIRTIES HITRATIO BUFFERS_MB CACHED_MB
fn missed(said: &str, _disk: &str) -> u64 {
    column(said, 1, |words| words.len() == 6)
}

/// Readahead unused/total pages: 3/1024
fn read_ahead(said: &str, _disk: &str) -> u64 {
    let line = said.lines().find(|line| line.contains("unused/total"));
    line.and_then(|line| line.rsplit('/').next()?.trim().parse().ok()).unwrap_or(0)
}

/// One line of JSON for each interval.
fn values(said: &str) -> impl Iterator<Item = serde_json::Value> + '_ {
    said.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn latencies(said: &str, _disk: &str) -> u64 {
    let groups = values(said)
        .flat_map(|value| value["figures"]["groups"].as_array().cloned().unwrap_or_default());
    groups.filter_map(|group| group["stage"]["requests"].as_u64()).sum()
}

fn files_reads(said: &str, _disk: &str) -> u64 {
    let rows = values(said)
        .flat_map(|value| value["figures"]["rows"].as_array().cloned().unwrap_or_default());
    rows.filter(|row| row["file"].as_str().is_some_and(|file| file.contains(NAME)))
        .filter_map(|row| row["reads"].as_u64())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_what_tools_print() {
        let said =
            "     usecs  : count    distribution\n    4 -> 7  : 12  |***|\n 8 -> 15 : 30 |*****|\n";
        assert_eq!(histogram(said, ""), 42);
        let said = "operation = 'write'\n 1 -> 1 : 5 |*|\noperation = 'read'\n 1 -> 1 : 7 |*|\n";
        assert_eq!(read_histogram(said, ""), 7);
        let row = "vda     99     1      199        796\n";
        assert_eq!(biopattern(row, "vda"), 199);
        assert_eq!(read_ahead("Readahead unused/total pages: 3/1024\n", ""), 1024);
    }
}
