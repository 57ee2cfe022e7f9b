//! The names of JIT-compiled functions, from the program's perf map (`/tmp/perf-PID.map`).
//!
//! blazesym reads such maps too, but drops the whole stack at a line that it cannot parse, and JDK
//! 17 writes its numbers with `0x`. Any user can write a file of that name: a map is only read if
//! it is a regular file that belongs to the process's user or root.
//!
//! What does not belong here: functions of files (see [`super::stacks`]).

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Bytes read of one map, and kept in total.
const MOST_BYTES: u64 = 64 << 20;
/// Functions kept in total.
const MOST_FUNCTIONS: usize = 1_000_000;
/// Processes whose maps are kept, including those that have none.
const MOST_MAPS: usize = 4096;
/// Time for which a map is not read again: a program that keeps compiling appends to it.
const FRESH: Duration = Duration::from_secs(1);

/// The maps read so far.
#[derive(Debug, Default)]
pub struct PerfMaps {
    by_process: FxHashMap<u32, ReadPerfMap>,
}

/// A map as it was when it was read.
#[derive(Debug)]
struct ReadPerfMap {
    looked: Instant,
    modified: Option<SystemTime>,
    text: Vec<u8>,
    functions: Vec<MappedFunction>,
}

#[derive(Debug, PartialEq, Eq)]
struct MappedFunction {
    start: u64,
    bytes: u64,
    /// The position of its name in the text.
    name: Range<u32>,
}

impl PerfMaps {
    /// Returns the function of a process at `address`, if its map has one.
    pub fn name(&mut self, process: u32, address: u64) -> Option<Cow<'_, str>> {
        if !self.is_fresh(process) {
            self.look(process);
        }
        let map = self.by_process.get(&process)?;
        let after = map.functions.partition_point(|function| function.start <= address);
        let function = map.functions.get(after.checked_sub(1)?)?;
        let name = map.text.get(function.name.start as usize..function.name.end as usize)?;
        let is_inside = address - function.start < function.bytes;
        is_inside.then(|| String::from_utf8_lossy(name))
    }

    fn is_fresh(&self, process: u32) -> bool {
        self.by_process.get(&process).is_some_and(|map| map.looked.elapsed() < FRESH)
    }

    /// Reads the map of a process again if it has changed.
    fn look(&mut self, process: u32) {
        let file = open(process);
        let modified = file.as_ref().and_then(|(_, about)| about.modified().ok());
        if let Some(known) = self.by_process.get_mut(&process)
            && known.modified == modified
        {
            known.looked = Instant::now();
            return;
        }
        self.by_process.remove(&process);
        let text = file.map(|(file, _)| read(file)).unwrap_or_default();
        self.make_room(text.len());
        let functions = functions(&text, MOST_FUNCTIONS);
        let map = ReadPerfMap { looked: Instant::now(), modified, text, functions };
        self.by_process.insert(process, map);
    }

    /// Drops all other maps if `bytes` more would exceed the limit.
    fn make_room(&mut self, bytes: usize) {
        let known = self.by_process.values();
        let (texts, functions) = known.fold((bytes, 0), |(texts, functions), map| {
            (texts + map.text.len(), functions + map.functions.len())
        });
        // A line is longer than ten bytes.
        let is_full = texts as u64 > MOST_BYTES || functions + bytes / 10 > MOST_FUNCTIONS;
        if is_full || self.by_process.len() >= MOST_MAPS {
            self.by_process.clear();
        }
    }
}

/// Opens the map of a process, in its own view of the file system and under its own number.
fn open(process: u32) -> Option<(File, Metadata)> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let last = |line: &str| line.split_whitespace().next_back().map(str::to_owned);
    let own = status.lines().find_map(|line| line.strip_prefix("NStgid:")).and_then(last);
    let own = own.unwrap_or_else(|| process.to_string());
    let path = format!("/proc/{process}/root/tmp/perf-{own}.map");
    let file = iowhy_fs::read::open_unfollowed(Path::new(&path)).ok()?;
    let about = file.metadata().ok()?;
    let owner = fs::metadata(format!("/proc/{process}")).ok()?.uid();
    (about.uid() == 0 || about.uid() == owner).then_some((file, about))
}

fn read(file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    match file.take(MOST_BYTES).read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
    }
}

/// Returns the last `most` functions of a map, by address.
fn functions(text: &[u8], most: usize) -> Vec<MappedFunction> {
    // Newer functions are further down.
    let lines = text.rsplit(|byte| *byte == b'\n');
    let start_of = |line: &[u8]| line.as_ptr() as usize - text.as_ptr() as usize;
    let parsed = lines.filter_map(|line| function(line, start_of(line)));
    let mut functions: Vec<MappedFunction> = parsed.take(most).collect();
    // Code moves: of two functions at one address the later line is valid.
    functions.reverse();
    functions.sort_by_key(|function| function.start);
    functions
}

/// Parses `7f27d97b6280 450 void Chains.loop(boolean)`, with or without `0x`; `at` is the offset of
/// the line.
fn function(line: &[u8], at: usize) -> Option<MappedFunction> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (start, bytes, name) = (words.next()?, words.next()?, words.next()?);
    let number = |word: &[u8]| {
        let digits = word.strip_prefix(b"0x").unwrap_or(word);
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let end = u32::try_from(at + line.len()).ok()?;
    let name = end.checked_sub(u32::try_from(name.len()).ok()?)?..end;
    Some(MappedFunction { start: number(start)?, bytes: number(bytes)?, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, most: usize) -> Vec<(u64, &str)> {
        let found = functions(text.as_bytes(), most);
        let name = |range: &Range<u32>| &text[range.start as usize..range.end as usize];
        found.iter().map(|one| (one.start, name(&one.name))).collect()
    }

    #[test]
    fn lines_are_read_with_and_without_a_prefix() {
        let text = "0x30 0x0020 c\n10 20 void A.b(int)\n";
        assert_eq!(names(text, 9), [(0x10, "void A.b(int)"), (0x30, "c")]);
        assert_eq!(function(b"0x10 0x0020 a", 0).map(|found| found.bytes), Some(0x20));
        for line in ["", "10", "10 20", "x 20 a", "10 y a", "-1 2 a", "ffffffffffffffffff 1 a"] {
            assert_eq!(function(line.as_bytes(), 0), None, "{line}");
        }
    }

    #[test]
    fn of_too_many_functions_the_last_are_kept() {
        let text = "10 1 old\n20 1 b\n10 1 new\n30 1 d\n";
        assert_eq!(names(text, 3), [(0x10, "new"), (0x20, "b"), (0x30, "d")]);
        assert_eq!(names(text, 9)[..2], [(0x10, "old"), (0x10, "new")]);
    }

    #[test]
    fn a_map_is_read_once_a_second_at_most() {
        let mut maps = PerfMaps::default();
        assert_eq!(maps.name(std::process::id(), 0x1000), None);
        let looked = maps.by_process[&std::process::id()].looked;
        assert_eq!(maps.name(std::process::id(), 0x2000), None);
        assert_eq!(maps.by_process[&std::process::id()].looked, looked);
    }

    #[test]
    fn more_maps_than_are_kept_are_forgotten() {
        let mut maps = PerfMaps::default();
        let looked = Instant::now();
        let map =
            |bytes| ReadPerfMap { looked, modified: None, text: vec![0; bytes], functions: vec![] };
        maps.by_process.insert(1, map(1000));
        maps.make_room(1000);
        assert_eq!(maps.by_process.len(), 1);
        maps.make_room(MOST_FUNCTIONS * 10 + 10);
        assert!(maps.by_process.is_empty());
    }

    #[test]
    fn a_process_without_a_map_has_no_names() {
        let mut maps = PerfMaps::default();
        assert_eq!(maps.name(std::process::id(), 0x1000), None);
        assert_eq!(maps.name(u32::MAX, 0x1000), None);
    }
}
