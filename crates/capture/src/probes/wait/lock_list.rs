//! Locks of files that processes hold or wait for: `/proc/locks`.
//!
//! What does not belong here: what a holder waits for (see [`super::chains`]).

use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::Read;

/// The most that is read of the list, bytes: some ten thousand locks.
const MOST_BYTES: u64 = 1 << 20;

/// Returns for each process that waits for the lock of a file the one that holds it; empty where
/// the kernel does not list them.
pub fn holders() -> FxHashMap<u32, u32> {
    let mut text = String::new();
    let read =
        File::open("/proc/locks").map(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    match read {
        Ok(Ok(_)) => parse(&text),
        _ => FxHashMap::default(),
    }
}

/// Lines of those that wait have an arrow, and follow the line of the lock with the same number:
/// `7: FLOCK ADVISORY WRITE 42 08:01:123 0 EOF`, `7: -> FLOCK ADVISORY WRITE 57 08:01:123 0 EOF`.
fn parse(text: &str) -> FxHashMap<u32, u32> {
    let mut held: Option<(&str, u32)> = None;
    let mut found = FxHashMap::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(number) = words.next() else { continue };
        let rest: Vec<&str> = words.collect();
        let waits = rest.first() == Some(&"->");
        let pid = rest.get(if waits { 4 } else { 3 }).and_then(|pid| pid.parse::<u32>().ok());
        match (waits, pid, held) {
            (false, pid, _) => held = pid.filter(|pid| *pid > 0).map(|pid| (number, pid)),
            (true, Some(pid), Some((of, holder))) if of == number && pid != holder => {
                found.insert(pid, holder);
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_follow_the_holder() {
        let text = "1: POSIX  ADVISORY  WRITE 11 00:17:5 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 42 08:01:123 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 57 08:01:123 0 EOF\n\
                    2:  -> FLOCK  ADVISORY  WRITE 58 08:01:123 0 EOF\n\
                    3: OFDLCK ADVISORY  WRITE -1 08:01:9 0 EOF\n\
                    3: -> POSIX  ADVISORY  WRITE 60 08:01:9 0 EOF\n";
        let found = parse(text);
        assert_eq!((found.get(&57), found.get(&58)), (Some(&42), Some(&42)));
        // A lock of an open file description has no process.
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_strange_list_has_no_holders() {
        for text in ["", "->", "1:", "1: ->\n", "1: -> FLOCK ADVISORY WRITE 5", "x\u{0}y"] {
            assert!(parse(text).is_empty(), "{text:?}");
        }
    }
}
