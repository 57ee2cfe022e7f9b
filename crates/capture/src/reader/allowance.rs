//! The number of bytes that symbolization may read from disk. A program's symbols are often on the
//! very disk that is sick, and reading them adds to its load. Symbols in memory cost nothing; of
//! the rest only a limited amount is read per watch. Functions of further files stay without names,
//! with that as the reason.
//!
//! What does not belong here: how symbols are read and searched (crate `blazesym`) and how a
//! program's file is laid out (crate `object`).

use object::{Object, ObjectSection, ReadCache};
use rustc_hash::FxHashMap;
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::{File, Metadata};
use std::io::IoSliceMut;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Bytes that may be read from disk for names (chosen): a tenth of a second of a slow disk, and the
/// symbols of about fifty libraries.
const MOST_READ: u64 = 8 << 20;
/// The assumed cost of a file whose symbol tables cannot be located.
const UNKNOWN: u64 = 1 << 20;
/// Step of the samples that check whether symbols are in memory, bytes.
const STEP: u64 = 64 << 10;
/// The sections of a program's symbols and their names.
const TABLES: [&str; 4] = [".symtab", ".strtab", ".dynsym", ".dynstr"];
/// Processes whose mappings are kept.
const MOST_PROCESSES: usize = 64;

/// A mapping of a file.
#[derive(Clone, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    /// The offset in the file at which it begins, bytes.
    offset: u64,
    /// The name of its entry in `/proc/PID/map_files`.
    range: String,
}

/// A place in a file that a process has mapped.
#[derive(Debug)]
pub(super) struct FilePlace {
    /// The file, whatever its name is now.
    pub path: PathBuf,
    /// What it was when it was looked at.
    pub about: Metadata,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// The bytes that may still be read.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u64,
    /// Whether a file's symbols may be read, by device and inode.
    files: FxHashMap<(u64, u64), bool>,
    mappings: FxHashMap<u32, Vec<Mapping>>,
    /// The process whose mappings were read for this question.
    asked: Option<u32>,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance {
            left: MOST_READ,
            files: FxHashMap::default(),
            mappings: FxHashMap::default(),
            asked: None,
        }
    }
}

impl Allowance {
    /// Begins a question: mappings are read again at most once for each.
    pub fn begin(&mut self) {
        self.asked = None;
    }

    /// Whether the function at the address may be named. Memory without a file needs no reads.
    pub fn covers(&mut self, process: u32, address: u64) -> bool {
        let Some(FilePlace { path, about, .. }) = self.place(process, address) else { return true };
        let key = (about.dev(), about.ino());
        if let Some(known) = self.files.get(&key) {
            return *known;
        }
        let cost = File::open(&path).map_or(UNKNOWN, |file| cost_of(&file));
        let is_covered = self.take(cost);
        self.files.insert(key, is_covered);
        is_covered
    }

    /// Returns the place of an address in the file that is mapped there; `None` if that is none, or
    /// no regular one: opening a device can have side effects.
    pub fn place(&mut self, process: u32, address: u64) -> Option<FilePlace> {
        let mapping = self.mapping(process, address)?;
        let path = PathBuf::from(format!("/proc/{process}/map_files/{}", mapping.range));
        let about = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        let offset = mapping.offset.checked_add(address - mapping.start)?;
        Some(FilePlace { path, about, offset })
    }

    /// Whether these parts of a file, by offset and length, may be read.
    pub fn may_read(&mut self, file: &File, parts: &[(u64, u64)]) -> bool {
        let away = parts.iter().filter(|(from, bytes)| !is_in_memory(file, *from, *bytes));
        self.take(away.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)))
    }

    fn take(&mut self, cost: u64) -> bool {
        let is_covered = cost <= self.left;
        self.left -= if is_covered { cost } else { 0 };
        is_covered
    }

    fn mapping(&mut self, process: u32, address: u64) -> Option<Mapping> {
        let is_in = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        let known = self.mappings.get(&process).and_then(|all| all.iter().find(is_in));
        if let Some(known) = known {
            return Some(known.clone());
        }
        // The mapping may be new; of addresses without one there are many.
        if self.asked.replace(process) == Some(process) {
            return None;
        }
        if self.mappings.len() >= MOST_PROCESSES {
            self.mappings.clear();
        }
        let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let all = mappings_in(&String::from_utf8_lossy(&maps));
        let found = all.iter().find(is_in).cloned();
        self.mappings.insert(process, all);
        found
    }
}

/// Returns the mappings of files in a `maps`.
fn mappings_in(maps: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let mut words = rest.split_whitespace();
        let offset = words.nth(1)?;
        words.nth(2).filter(|path| path.starts_with('/'))?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        // Unlike in `maps`, there are no zeros in front.
        Some(Mapping { start, end, offset, range: format!("{start:x}-{end:x}") })
    };
    maps.lines().filter_map(mapping).collect()
}

/// Bytes to read for the symbols of a program or library: 0 if they are in memory, else the size of
/// the tables that are not.
fn cost_of(file: &File) -> u64 {
    let Some(tables) = tables_of(file) else { return UNKNOWN };
    let away = tables.iter().filter(|(from, bytes)| !is_in_memory(file, *from, *bytes));
    away.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

/// Whether the bytes are in the page cache, according to samples. Where the file system cannot
/// tell, they are not.
fn is_in_memory(file: &File, from: u64, bytes: u64) -> bool {
    let last = bytes.saturating_sub(1);
    let mut places = (0..bytes).step_by(STEP as usize).chain([last]);
    places.all(|place| {
        let (mut byte, flags) = ([0], ReadWriteFlags::NOWAIT);
        let mut into = [IoSliceMut::new(&mut byte)];
        // Stop at the first that is missing: kernels since 6.x start readahead for it.
        bytes == 0
            || preadv2(file, &mut into, from.saturating_add(place), flags)
                .is_ok_and(|read| read == 1)
    })
}

/// Offsets and lengths of the tables of symbols and their names; `None` if the file has none that
/// can be read. Only the file's headers are read for it.
fn tables_of(file: &File) -> Option<Vec<(u64, u64)>> {
    let headers = ReadCache::new(file);
    let program = object::File::parse(&headers).ok()?;
    let is_table = |section: &object::Section<'_, '_, _>| {
        section.name().is_ok_and(|name| TABLES.contains(&name))
    };
    let tables = program.sections().filter(is_table).filter_map(|section| section.file_range());
    Some(tables.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn own_file() -> File {
        File::open("/proc/self/exe").unwrap()
    }

    #[test]
    fn the_tables_of_a_program_are_found() {
        let file = own_file();
        let length = file.metadata().unwrap().len();
        let tables = tables_of(&file).unwrap();
        assert!(tables.len() == 4, "symbols and their names, of both kinds: {tables:?}");
        assert!(tables.iter().all(|(from, bytes)| from + bytes <= length), "{tables:?}");
    }

    #[test]
    fn hostile_files_cost_what_unknown_ones_do() {
        let file = |bytes: &[u8]| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            std::fs::write(&path, bytes).unwrap();
            cost_of(&File::open(path).unwrap())
        };
        assert_eq!(file(b""), UNKNOWN);
        assert_eq!(file(b"#!/bin/sh"), UNKNOWN);
        let mut header = vec![0xff; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(file(&header), UNKNOWN);
        // Only a program's header: its sections are beyond the end of the file.
        header.copy_from_slice(&std::fs::read("/proc/self/exe").unwrap()[..64]);
        assert_eq!(file(&header), UNKNOWN);
    }

    #[test]
    fn what_is_in_memory_costs_nothing() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 3 * STEP as usize], 0).unwrap();
        assert!(is_in_memory(&file, 0, 3 * STEP) && is_in_memory(&file, 5, 0));
        assert!(!is_in_memory(&file, 0, 4 * STEP), "it is no longer than that");
    }

    #[test]
    fn only_so_much_is_read() {
        let mut allowance = Allowance::default();
        assert!(allowance.take(MOST_READ - 10) && !allowance.take(11) && allowance.take(10));
        assert!(allowance.take(0) && !allowance.take(1));
    }

    #[test]
    fn mappings_of_files_alone_are_read() {
        let maps = "55d0-55e0 r-xp 00002000 fd:00 12 /usr/bin/a b\n\
                    7f00-7f10 rw-p 00000000 00:00 0 \n\
                    00401000-0048b000 r-xp 00000000 fd:00 13 /usr/bin/static\n\
                    7f10-7f20 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        let found = mappings_in(maps);
        let found: Vec<_> = found
            .iter()
            .map(|mapping| (mapping.start, mapping.end, mapping.offset, mapping.range.as_str()))
            .collect();
        let of_static = (0x40_1000, 0x48_b000, 0, "401000-48b000");
        assert_eq!(found, [(0x55d0, 0x55e0, 0x2000, "55d0-55e0"), of_static]);
        assert!(Allowance::default().covers(std::process::id(), 0));
    }
}
