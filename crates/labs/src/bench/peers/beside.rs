//! blktrace between two iowhys, on the same I/O. The kernel runs the programs of a tracepoint in
//! the order of attachment, so on each event the first iowhy takes its timestamp, then blktrace,
//! then the second iowhy: the difference of the two iowhys is the floor, and blktrace must be
//! within it.
//!
//! What does not belong here: guests (see the parent module).

use super::events::{self, EventContent, PeerEvent, STAMPED, Stamps};
use crate::devices::{BlockDevice, DebugFs};
use crate::error::Context;
use crate::fio::{Engine, FioAccess, Job};
use crate::scratch::Scratch;
use crate::{LabError, Result, command, iowhy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stages, by their two stamps.
const STAGES: [(&str, usize, usize); 6] =
    [("Q2G", 0, 1), ("G2I", 1, 2), ("G2D", 1, 3), ("I2D", 2, 3), ("D2C", 3, 4), ("Q2C", 0, 4)];

/// The difference of one figure, nanoseconds: the median and the 99th percentile over all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the requests differ by no more.
    pub median: u64,
    /// All but one in a hundred differ by no more.
    pub p99: u64,
}

impl Spread {
    fn from_differences(mut differences: Vec<u64>) -> Spread {
        differences.sort_unstable();
        let at = |percent: usize| {
            let place = (differences.len() * percent).div_ceil(100).saturating_sub(1);
            differences.get(place).copied().unwrap_or(0)
        };
        Spread { median: at(50), p99: at(99) }
    }
}

/// A stage of the same requests, as two watchers saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedStage {
    /// `D2C` …
    pub name: String,
    /// Requests that have it.
    pub requests: u64,
    /// The difference of the two iowhys.
    pub floor: Spread,
    /// The difference of blktrace from the first iowhy.
    pub first: Spread,
    /// The difference of blktrace from the second.
    pub second: Spread,
}

/// The result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedRequests {
    /// Requests of fio that blktrace saw complete.
    pub requests: u64,
    /// Requests and events that one watcher has and another lacks.
    pub missing: Vec<String>,
    /// The stages of each request.
    pub stages: Vec<ComparedStage>,
    /// Stamps that were compared.
    pub stamps: u64,
    /// Stamps of blktrace that do not lie between those of the two iowhys.
    pub outside: u64,
    /// The largest difference of two iowhys' stamps of one event, nanoseconds.
    pub widest: u64,
    /// Events of the second load, with merges, splits and flushes.
    pub events: u64,
    /// Lines of btt's reports that differ in more than times, or in times by more than the floor.
    pub btt: Vec<String>,
}

/// The folder with the files of three watchers: the first iowhy's, blktrace's, the second iowhy's.
struct ThreeWatchers {
    folder: PathBuf,
    device: String,
}

impl ThreeWatchers {
    fn prefix(&self, watcher: &str) -> PathBuf {
        self.folder.join(watcher).join(&self.device)
    }

    fn events(&self, watcher: &str) -> Result<Vec<PeerEvent>> {
        events::read(&self.prefix(watcher))
    }

    /// btt's report of a watcher's files.
    fn btt(&self, watcher: &str) -> Result<String> {
        let merged = self.folder.join(format!("{watcher}.merged"));
        let mut parse = Command::new(command::find("blkparse")?);
        parse.args(["-q", "-O", "-i", &self.device, "-d"]).arg(&merged);
        parse.arg("-D").arg(self.folder.join(watcher));
        command::output_of(parse)?;
        let mut btt = Command::new(command::find("btt")?);
        btt.current_dir(&self.folder).arg("-i").arg(&merged).args(["-o", watcher]);
        command::output_of(btt)?;
        let path = self.folder.join(format!("{watcher}.avg"));
        fs::read_to_string(&path).context(|| format!("read {}", path.display()))
    }
}

/// Compares `requests` reads, and then buffered writes, on a disk whose content is overwritten.
pub fn measure(
    scratch: &Scratch,
    disk: &dyn BlockDevice,
    requests: u64,
) -> Result<ComparedRequests> {
    let _debugfs = DebugFs::new()?;
    let job = Job::strided(disk.path(), Engine::Libaio, FioAccess::Read, requests, 4096);
    let job = job.with("iodepth", "4");
    let reads = watched(scratch, disk, &command::shown(&job.command(&scratch.fresh("fio.json"))?))?;
    let mut compared = ComparedRequests::default();
    compare_requests(&reads, &mut compared)?;
    let writes = format!(
        "dd if=/dev/zero of={0} bs=1M count=8 conv=notrunc,fsync status=none; \
         dd if={0} of=/dev/null bs=64k count=16 skip=512 status=none",
        disk.path().display()
    );
    let mixed = watched(scratch, disk, &writes)?;
    compared.events = compare_events(&mixed, &mut compared.missing)?;
    for one in [&reads, &mixed] {
        compare_reports(one, &mut compared.btt)?;
    }
    Ok(compared)
}

/// Runs `load` under all three.
fn watched(scratch: &Scratch, disk: &dyn BlockDevice, load: &str) -> Result<ThreeWatchers> {
    let folder = scratch.fresh("together");
    fs::create_dir_all(folder.join("blktrace")).context(|| "make a folder".to_owned())?;
    let own = iowhy::binary()?;
    let record = |name: &str| {
        let output = folder.join(format!("{name}.recording"));
        format!("{} record --events -d {} -o {}", own.display(), disk.name(), output.display())
    };
    // blktrace begins soon after the kernel has made its channels.
    let inner = format!(
        "blktrace -d {} -D {} -o {} >/dev/null & for i in $(seq 300); do [ -e \
         /sys/kernel/debug/block/{2}/trace0 ] && break; sleep 0.2; done; sleep 2; {} -- sh -c {}; \
         sleep 1; kill -INT $!; wait",
        disk.path().display(),
        folder.join("blktrace").display(),
        disk.name(),
        record("second"),
        quoted(load),
    );
    let outer = format!("{} -- sh -c {}", record("first"), quoted(&inner));
    command::run("sh", ["-c", &outer])?;
    for name in ["first", "second"] {
        let mut export = Command::new(&own);
        export.args(["export", "--format", "blktrace", "-o"]).arg(folder.join(name));
        command::output_of({
            export.arg(folder.join(format!("{name}.recording")));
            export
        })?;
    }
    Ok(ThreeWatchers { folder, device: disk.name().to_owned() })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The requests of a recording as its table has them: stamps by first sector.
fn recorded(folder: &Path) -> Result<BTreeMap<u64, Stamps>> {
    let mut export = Command::new(iowhy::binary()?);
    export.args(["export", "--format", "csv"]).arg(folder);
    let text = command::output_of(export)?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let wanted = ["sector", "start_ns", "q2g_ns", "g2i_ns", "i2d_ns", "g2d_ns", "d2c_ns"];
    let places = wanted
        .map(|name| header.iter().position(|column| *column == name))
        .into_iter()
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| LabError::failed("read iowhy's CSV", format!("columns {header:?}")))?;
    let mut all = BTreeMap::new();
    for line in lines {
        let fields = fields(line);
        let value = |place: usize| fields.get(places[place])?.parse::<u64>().ok();
        let Some((sector, queued)) = value(0).zip(value(1)) else { continue };
        let got = value(2).map(|time| queued + time);
        let inserted = got.zip(value(3)).map(|(got, time)| got + time);
        let issued = inserted.zip(value(4)).or_else(|| got.zip(value(5)));
        let issued = issued.map(|(before, time)| before + time);
        let done = issued.zip(value(6)).map(|(issued, time)| issued + time);
        all.insert(sector, [Some(queued), got, inserted, issued, done]);
    }
    Ok(all)
}

/// The fields of a line of CSV; a quoted one may hold commas.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            _ => {
                if let Some(last) = all.last_mut() {
                    last.push(letter);
                }
            }
        }
    }
    all
}

/// Checks that each request in one is in the others, and compares its stamps and stages.
fn compare_requests(watched: &ThreeWatchers, compared: &mut ComparedRequests) -> Result<()> {
    let first = recorded(&watched.folder.join("first.recording"))?;
    let second = recorded(&watched.folder.join("second.recording"))?;
    let theirs = watched.events("blktrace")?;
    let theirs = events::stamps(&theirs);
    for (one, other, said) in [
        (&theirs, &first, "the first iowhy"),
        (&theirs, &second, "the second iowhy"),
        (&first, &theirs, "blktrace"),
    ] {
        let absent = one.keys().filter(|sector| !other.contains_key(*sector));
        let line = |sector: &u64| format!("{said} lacks the request at sector {sector}");
        compared.missing.extend(absent.map(line));
    }
    compared.requests = theirs.len() as u64;
    let all: Vec<[Stamps; 3]> = theirs
        .iter()
        .filter_map(|(sector, stamps)| Some([*first.get(sector)?, *stamps, *second.get(sector)?]))
        .collect();
    compare_stamps(&all, compared);
    for (name, from, to) in STAGES {
        compared.stages.extend(stage(name, &all, from, to));
    }
    Ok(())
}

fn compare_stamps(all: &[[Stamps; 3]], compared: &mut ComparedRequests) {
    for stamps in all {
        for (place, letter) in STAMPED.iter().enumerate() {
            match stamps.map(|watcher| watcher[place]) {
                [Some(first), Some(theirs), Some(second)] => {
                    compared.stamps += 1;
                    compared.outside += u64::from(!(first..=second).contains(&theirs));
                    compared.widest = compared.widest.max(second.abs_diff(first));
                }
                [None, None, None] => {}
                some => compared.missing.push(format!("not all have {letter}: {some:?}")),
            }
        }
    }
}

fn stage(name: &str, all: &[[Stamps; 3]], from: usize, to: usize) -> Option<ComparedStage> {
    let between = |stamps: Stamps| stamps[to]?.checked_sub(stamps[from]?);
    // G2D is the stage of requests that were never inserted.
    let has = |stamps: &&[Stamps; 3]| name != "G2D" || stamps[1][2].is_none();
    let times: Vec<[u64; 3]> = all
        .iter()
        .filter(has)
        .filter_map(|[first, theirs, second]| {
            Some([between(*first)?, between(*theirs)?, between(*second)?])
        })
        .collect();
    let spread = |one: usize, other: usize| {
        Spread::from_differences(
            times.iter().map(|times| times[one].abs_diff(times[other])).collect(),
        )
    };
    (!times.is_empty()).then(|| ComparedStage {
        name: name.to_owned(),
        requests: times.len() as u64,
        floor: spread(0, 2),
        first: spread(0, 1),
        second: spread(2, 1),
    })
}

/// Checks that the first iowhy saw all events of blktrace, and blktrace all of the second iowhy:
/// they began and ended in that order.
fn compare_events(watched: &ThreeWatchers, missing: &mut Vec<String>) -> Result<u64> {
    let [first, theirs, second] =
        ["first", "blktrace", "second"].map(|watcher| watched.events(watcher));
    let [first, theirs, second] = [first?, theirs?, second?].map(|all| events::counted(&all));
    missing.extend(lacking("the first iowhy", &first, &theirs));
    missing.extend(lacking("blktrace", &theirs, &second));
    Ok(theirs.values().sum())
}

fn lacking(
    who: &str,
    has: &BTreeMap<EventContent, u64>,
    wanted: &BTreeMap<EventContent, u64>,
) -> Vec<String> {
    let absent = wanted.iter().filter(|(what, count)| has.get(*what).unwrap_or(&0) < *count);
    absent.map(|(what, count)| format!("{who} lacks {count} of {what:?}")).collect()
}

/// The section of btt's report that only depends on times: the number of intervals that they make,
/// and their length.
const OF_TIMES: &str = "I/O Active Period";

/// Checks that btt prints the same for all three, except for times, which differ by at most the
/// floor.
fn compare_reports(watched: &ThreeWatchers, differing: &mut Vec<String>) -> Result<()> {
    let theirs = watched.btt("blktrace")?;
    let widest = events::widest(&watched.events("first")?, &watched.events("second")?);
    for watcher in ["first", "second"] {
        let ours = watched.btt(watcher)?;
        if ours.lines().count() != theirs.lines().count() {
            differing.push(format!("{watcher} iowhy: not as many lines"));
        }
        let mut section = "";
        for (our, their) in ours.lines().zip(theirs.lines()) {
            if their.starts_with("====") {
                section = their;
            }
            if !section.contains(OF_TIMES) && !same_line(our, their, widest as f64 / 1e9) {
                differing.push(format!("{watcher} iowhy: {our}\nblktrace: {their}"));
            }
        }
    }
    Ok(())
}

/// Returns whether two lines of btt only differ in times that are close together. Shares of time
/// follow from the times and are not compared.
fn same_line(our: &str, their: &str, widest: f64) -> bool {
    let (our, their): (Vec<&str>, Vec<&str>) =
        (our.split_whitespace().collect(), their.split_whitespace().collect());
    our.len() == their.len()
        && our.iter().zip(&their).all(|(our, their)| {
            let is_time =
                |word: &str| word.split_once('.').is_some_and(|(_, rest)| rest.len() == 9);
            if our.ends_with('%') && their.ends_with('%') {
                return true;
            }
            match (our.parse::<f64>(), their.parse::<f64>()) {
                (Ok(our_time), Ok(their_time)) if is_time(our) && is_time(their) => {
                    (our_time - their_time).abs() <= widest + 1e-9
                }
                _ => our == their,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_differ_by_the_floor_and_counts_not_at_all() {
        let line = |time: &str, count: &str| format!("D2C 0.000000100 {time} 0.000000300 {count}");
        let same = |our: &str, their: &str| same_line(our, their, 50e-9);
        assert!(same(&line("0.000000200", "7"), &line("0.000000240", "7")));
        assert!(!same(&line("0.000000200", "7"), &line("0.000000260", "7")));
        assert!(!same(&line("0.000000200", "7"), &line("0.000000200", "8")));
    }

    #[test]
    fn quoted_fields_hold_commas() {
        assert_eq!(fields("1,\"a, b\",,2"), ["1", "a, b", "", "2"]);
    }
}
