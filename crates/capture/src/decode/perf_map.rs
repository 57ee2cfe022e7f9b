//! The names of functions that a program compiled itself, from its perf map (`/tmp/perf-PID.map`).
//!
//! blazesym reads such maps too, but gives up the whole stack at a line that it does not understand,
//! and JDK 17 writes its numbers with `0x`. Anybody can write a file of that name: one that belongs to
//! somebody else than the process or root is not read, nor is anything but a plain file.
//!
//! What does not belong here: functions of files (see [`super::stacks`]).

use rustc_hash::FxHashMap;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// Processes whose maps are kept.
const MOST_MAPS: usize = 16;
/// Bytes read of one map.
const MOST_BYTES: u64 = 64 << 20;

/// The maps met so far.
#[derive(Debug, Default)]
pub struct PerfMaps {
    by_process: FxHashMap<u32, PerfMap>,
}

/// A map as it was when it was read.
#[derive(Debug)]
struct PerfMap {
    modified: Option<SystemTime>,
    functions: Vec<Function>,
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    bytes: u64,
    name: Box<str>,
}

impl PerfMaps {
    /// The function of a process at `address`, where its map has one.
    pub fn name(&mut self, process: u32, address: u64) -> Option<&str> {
        let file = open(process);
        let modified = file.as_ref().and_then(|(_, about)| about.modified().ok());
        let known = self.by_process.get(&process);
        if known.is_none_or(|known| known.modified != modified) {
            if self.by_process.len() >= MOST_MAPS {
                self.by_process.clear();
            }
            let functions = file.map(|(file, _)| read(file)).unwrap_or_default();
            self.by_process.insert(process, PerfMap { modified, functions });
        }
        let functions = &self.by_process.get(&process)?.functions;
        let after = functions.partition_point(|function| function.start <= address);
        let function = functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.bytes).then_some(&*function.name)
    }
}

/// The map of a process, in its own view of the file system and under its own number.
fn open(process: u32) -> Option<(File, Metadata)> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let last = |line: &str| line.split_whitespace().next_back().map(str::to_owned);
    let own = status.lines().find_map(|line| line.strip_prefix("NStgid:")).and_then(last);
    let own = own.unwrap_or_else(|| process.to_string());
    let path = format!("/proc/{process}/root/tmp/perf-{own}.map");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    let owner = fs::metadata(format!("/proc/{process}")).ok()?.uid();
    (about.is_file() && (about.uid() == 0 || about.uid() == owner)).then_some((file, about))
}

fn read(file: File) -> Vec<Function> {
    let mut bytes = Vec::new();
    let Ok(_) = file.take(MOST_BYTES).read_to_end(&mut bytes) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let mut functions: Vec<Function> = text.lines().filter_map(function).collect();
    // Code moves: of two functions at one place the later line is the one that is there.
    functions.sort_by_key(|function| function.start);
    functions
}

/// `7f27d97b6280 450 void Chains.loop(boolean)`, with or without `0x`.
fn function(line: &str) -> Option<Function> {
    let (start, rest) = line.split_once(' ')?;
    let (bytes, name) = rest.split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    Some(Function { start: number(start)?, bytes: number(bytes)?, name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_a_prefix() {
        let found = Function { start: 0x10, bytes: 0x20, name: "void A.b(int)".into() };
        assert_eq!(function("10 20 void A.b(int)"), Some(found));
        assert_eq!(function("0x10 0x0020 void A.b(int)").map(|found| found.bytes), Some(0x20));
        for line in ["", "10", "10 20", "x 20 a", "10 y a", "-1 2 a", "ffffffffffffffffff 1 a"] {
            assert_eq!(function(line), None, "{line}");
        }
    }

    #[test]
    fn a_process_without_a_map_has_no_names() {
        let mut maps = PerfMaps::default();
        assert_eq!(maps.name(std::process::id(), 0x1000), None);
        assert_eq!(maps.name(u32::MAX, 0x1000), None);
    }
}
