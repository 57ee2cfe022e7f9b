//! Names of the functions of programs written in Go. Stripped ones have them, too: Go's own table
//! of functions, `.gopclntab`, by which its runtime unwinds. Source: Go's `debug/gosym` and
//! `runtime/symtab.go`, versions 1.2 to 1.26.
//!
//! Of a table that may have tens of megabytes only the addresses are read and kept, and of each
//! function that is asked for its name. What a file claims is compared with its length before
//! anything is read or allocated.
//!
//! What does not belong here: symbols of ELF (crate `blazesym`).

use super::allowance::{Allowance, FilePlace};
use super::question::FrameName;
use super::unwind_tables::{FileKey, FilePart, file_key, part_of, u32_at, u64_at};
use object::{Object, ObjectSection, ObjectSegment, ReadCache};
use rustc_hash::FxHashMap;
use std::fs::File;

/// Functions of one program: the largest have some hundred thousand. Chosen.
const MOST_FUNCTIONS: u64 = 1 << 20;
/// Bytes of addresses that are kept in total. Chosen.
const MOST_BYTES: usize = 32 << 20;
/// Files that are kept, including those that are not Go's.
const MOST_FILES: usize = 256;
/// Bytes of a name that are read.
const MOST_NAME: u64 = 256;
/// Bytes of the longest header.
const HEADER: u64 = 72;
/// Segments that are looked at: programs have up to some ten.
const MOST_SEGMENTS: usize = 64;
/// The section of the runtime's `moduledata`, since Go 1.26.
const MODULE: &str = ".go.module";
/// Bytes of it that are read.
const MODULE_BYTES: u64 = 23 * 8;
/// Sections that hold the table, of usual programs and of those that may be loaded anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

/// The tables of Go programs read so far.
#[derive(Debug, Default)]
pub(super) struct GoNames {
    by_file: FxHashMap<FileKey, GoFile>,
    bytes: usize,
}

/// The answer for a file.
#[derive(Debug)]
enum GoFile {
    Read(GoTable),
    Without,
    /// The table would have to be read from disk.
    Unread,
}

/// The places in a table, as its header has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    functions: u64,
    /// What addresses are relative to; `None` if they are not.
    text: Option<u64>,
    /// The offsets of the names, of the functions' addresses, and of what else is known of them.
    names: u64,
    addresses: u64,
    details: u64,
}

impl Layout {
    /// Parses a header of 64 bits, little endian.
    fn new(header: &[u8], text: Option<u64>) -> Option<Layout> {
        let (magic, word) = (u32_at(header, 0)?, |at| u64_at(header, at));
        if header.get(4..6)? != [0, 0] || *header.get(7)? != 8 {
            return None;
        }
        let functions = word(8).filter(|functions| *functions <= MOST_FUNCTIONS)?;
        match magic {
            // Go 1.18 and 1.20. Since 1.26, and where it is relocated, the start is 0.
            0xffff_fff0 | 0xffff_fff1 => {
                let start = word(24).filter(|start| *start != 0).or(text)?;
                let (names, details) = (word(32)?, word(64)?);
                Some(Layout { functions, text: Some(start), names, addresses: details, details })
            }
            // Go 1.16.
            0xffff_fffa => {
                let (names, details) = (word(24)?, word(56)?);
                Some(Layout { functions, text: None, names, addresses: details, details })
            }
            // Go 1.2.
            0xffff_fffb => {
                Some(Layout { functions, text: None, names: 0, addresses: 16, details: 0 })
            }
            _ => None,
        }
    }

    /// Bytes of an address.
    fn width(&self) -> usize {
        if self.text.is_some() { 4 } else { 8 }
    }
}

/// The functions of a file.
#[derive(Debug)]
struct GoTable {
    /// Where the file's parts expect to be in memory.
    segments: Vec<FilePart>,
    table: FilePart,
    layout: Layout,
    /// Pairs of a function's address and the offset of what else is known of it, and the end of the
    /// last one.
    addresses: Vec<u8>,
}

impl GoNames {
    /// Returns the function at a place in a file; `None` if it is of no Go program, or between two
    /// functions.
    pub fn name(&mut self, place: &FilePlace, allowance: &mut Allowance) -> Option<FrameName> {
        let file = File::open(&place.path).ok()?;
        let key = file_key(&place.about);
        // Something else may be mapped there by now.
        if file_key(&file.metadata().ok()?) != key {
            return None;
        }
        if !self.by_file.contains_key(&key) {
            self.keep(key, GoFile::new(&file, allowance));
        }
        match self.by_file.get(&key)? {
            GoFile::Read(table) => table.name(&file, place.offset, allowance),
            GoFile::Without => None,
            GoFile::Unread => Some(FrameName::Unread),
        }
    }

    fn keep(&mut self, key: FileKey, found: GoFile) {
        let bytes = match &found {
            GoFile::Read(table) => table.addresses.len(),
            _ => 0,
        };
        if self.bytes + bytes > MOST_BYTES || self.by_file.len() >= MOST_FILES {
            self.by_file.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.by_file.insert(key, found);
    }
}

impl GoFile {
    fn new(file: &File, allowance: &mut Allowance) -> GoFile {
        let Some(GoPlaces { segments, table, module, text }) = places(file) else {
            return GoFile::Without;
        };
        let parts = [(table.offset, HEADER)].into_iter();
        let parts = parts.chain(module.iter().map(|module| (module.offset, MODULE_BYTES)));
        if !allowance.may_read(file, &parts.collect::<Vec<_>>()) {
            return GoFile::Unread;
        }
        let text = match &module {
            Some(module) => text_of_module(file, module, &table),
            None => text,
        };
        let header = part_of(file, table.offset, HEADER as usize);
        let layout = header.and_then(|header| Layout::new(&header, text));
        let Some(layout) = layout else { return GoFile::Without };
        // Pairs, and the end of the last function.
        let bytes = layout.width() as u64 * (2 * layout.functions + 1);
        let end = layout.addresses.checked_add(bytes);
        if end.is_none_or(|end| end > table.bytes) {
            return GoFile::Without;
        }
        let from = table.offset + layout.addresses;
        if !allowance.may_read(file, &[(from, bytes)]) {
            return GoFile::Unread;
        }
        match part_of(file, from, bytes as usize) {
            Some(addresses) => GoFile::Read(GoTable { segments, table, layout, addresses }),
            None => GoFile::Without,
        }
    }
}

impl GoTable {
    /// Returns the name of the function at an offset in the file.
    fn name(&self, file: &File, offset: u64, allowance: &mut Allowance) -> Option<FrameName> {
        let is_in =
            |part: &&FilePart| offset.checked_sub(part.offset).is_some_and(|at| at < part.bytes);
        let part = self.segments.iter().find(is_in)?;
        let details = self.details(part.address.checked_add(offset - part.offset)?)?;
        let width = self.layout.width() as u64;
        let details = self.layout.details.checked_add(details)?.checked_add(width)?;
        let name = match self.part(file, details, 4, allowance)? {
            Ok(bytes) => u32_at(&bytes, 0)?,
            Err(unread) => return Some(unread),
        };
        let name = self.layout.names.checked_add(u64::from(name))?;
        let bytes = self.table.bytes.checked_sub(name)?.min(MOST_NAME);
        match self.part(file, name, bytes, allowance)? {
            Ok(bytes) => {
                let end = bytes.iter().position(|byte| *byte == 0);
                let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
                if name.is_empty() {
                    return None;
                }
                let rest = if end.is_some() { "" } else { "…" };
                let name = format!("{name}{rest}");
                Some(FrameName::Named { name, inlined: Vec::new() })
            }
            Err(unread) => Some(unread),
        }
    }

    /// Reads a part of the table, as far as it may be read.
    fn part(
        &self,
        file: &File,
        at: u64,
        bytes: u64,
        allowance: &mut Allowance,
    ) -> Option<Result<Vec<u8>, FrameName>> {
        if at.checked_add(bytes)? > self.table.bytes {
            return None;
        }
        let from = self.table.offset + at;
        if !allowance.may_read(file, &[(from, bytes)]) {
            return Some(Err(FrameName::Unread));
        }
        Some(Ok(part_of(file, from, bytes as usize)?))
    }

    /// Returns the offset of what is known of the function at a stated address.
    fn details(&self, address: u64) -> Option<u64> {
        let width = self.layout.width();
        let word = |at: usize| match width {
            4 => u32_at(&self.addresses, at).map(u64::from),
            _ => u64_at(&self.addresses, at),
        };
        let relative = address.checked_sub(self.layout.text.unwrap_or(0))?;
        let (mut from, mut to) = (0, self.layout.functions as usize);
        // The first function that begins behind the address.
        while from < to {
            let middle = from + (to - from) / 2;
            match word(middle * 2 * width)? <= relative {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let place = from.checked_sub(1)? * 2 * width;
        let end = word(place + 2 * width)?;
        (relative < end).then(|| word(place + width)).flatten()
    }
}

/// The parts of a file that are of Go.
struct GoPlaces {
    /// Where the file's parts expect to be in memory.
    segments: Vec<FilePart>,
    table: FilePart,
    /// The runtime's `moduledata`.
    module: Option<FilePart>,
    /// Where the code begins, as far as the sections tell.
    text: Option<u64>,
}

/// Finds them; `None` if there is no table. Only the file's headers are read for it.
fn places(file: &File) -> Option<GoPlaces> {
    let length = file.metadata().ok()?.len();
    let headers = ReadCache::new(file);
    let program = object::File::parse(&headers).ok()?;
    if !program.is_64() || !program.is_little_endian() {
        return None;
    }
    let part = |name: &str| {
        let section = program.section_by_name(name)?;
        let (offset, bytes) = section.file_range()?;
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= length);
        is_inside.then(|| FilePart { offset, bytes, address: section.address() })
    };
    let table = SECTIONS.iter().find_map(|name| part(name)).filter(|it| it.bytes >= HEADER)?;
    let module = part(MODULE).filter(|it| it.bytes >= MODULE_BYTES);
    // What C's linker adds stands before Go's code.
    let is_of_c = [".init", ".interp"].into_iter().any(|name| part(name).is_some());
    let text = part(".text").filter(|_| !is_of_c).map(|text| text.address);
    let segments = program.segments().take(MOST_SEGMENTS).map(|segment| {
        let (offset, bytes) = segment.file_range();
        FilePart { offset, bytes, address: segment.address() }
    });
    Some(GoPlaces { segments: segments.collect(), table, module, text })
}

/// Returns where the code begins, by the runtime's `moduledata`: its first word is the address of
/// the table, the 21st and the 23rd that of the code.
fn text_of_module(file: &File, module: &FilePart, table: &FilePart) -> Option<u64> {
    let bytes = part_of(file, module.offset, MODULE_BYTES as usize)?;
    let word = |at: usize| u64_at(&bytes, 8 * at);
    let text = word(22)?;
    (word(0)? == table.address && word(20)? == text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with two functions, `main.a` at 0x401000 and `main.(*T).b` at 0x401040, whose code
    /// ends at 0x401080, and with C's code or without it, of which the table may say where it
    /// begins.
    fn program(start: u64, changed: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut table = Vec::new();
        table.extend(0xffff_fff1_u32.to_le_bytes());
        table.extend([0, 0, 1, 8]);
        let names = b"main.a\0main.(*T).b\0";
        let details = HEADER + names.len() as u64;
        for word in [2, 1, start, HEADER, 0, 0, 0, details] {
            table.extend(u64::to_le_bytes(word));
        }
        table.extend(names);
        // Addresses with the place of the rest, and the end; then address and name of each.
        for word in [0_u32, 20, 0x40, 28, 0x80, 0, 0, 0x40, 7] {
            table.extend(word.to_le_bytes());
        }
        changed(&mut table);
        let strings = b"\0.text\0.gopclntab\0.shstrtab\0";
        let (table_at, strings_at) = (0x2000, 0x2000 + table.len() as u64);
        let headers_at = strings_at + strings.len() as u64;
        let mut file = Vec::new();
        file.extend(b"\x7fELF\x02\x01\x01");
        file.resize(16, 0);
        file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0x40_1000, 64, headers_at] {
            file.extend(u64::to_le_bytes(word));
        }
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 3, 0]);
        file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        for word in [0x1000, 0x40_1000, 0x40_1000, 0x1000, 0x1000, 0x1000] {
            file.extend(u64::to_le_bytes(word));
        }
        file.resize(0x2000, 0);
        file.extend(&table);
        file.extend(strings);
        file.extend([0; 64]);
        let sections = [
            (1_u32, 1_u32, 0x40_1000_u64, 0x1000_u64, 0x80_u64),
            (7, 1, 0x40_2000, table_at, table.len() as u64),
            (18, 3, 0, strings_at, strings.len() as u64),
        ];
        for (name, kind, address, offset, bytes) in sections {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            for word in [0, address, offset, bytes, 0, 1, 0] {
                file.extend(u64::to_le_bytes(word));
            }
        }
        file
    }

    /// The name at an address of a file with this content.
    fn name(bytes: &[u8], address: u64) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let about = std::fs::metadata(file.path()).unwrap();
        let place = FilePlace { path: file.path().to_owned(), about, offset: address - 0x40_0000 };
        match GoNames::default().name(&place, &mut Allowance::default())? {
            FrameName::Named { name, .. } => Some(name),
            _ => None,
        }
    }

    #[test]
    fn functions_are_named_by_the_address_within_them() {
        for start in [0x40_1000, 0] {
            let program = program(start, |_| {});
            assert_eq!(name(&program, 0x40_1000).as_deref(), Some("main.a"));
            assert_eq!(name(&program, 0x40_103f).as_deref(), Some("main.a"));
            assert_eq!(name(&program, 0x40_1040).as_deref(), Some("main.(*T).b"));
            assert_eq!(name(&program, 0x40_1080), None, "behind the last one");
            assert_eq!(name(&program, 0x40_2000), None, "no code");
        }
        assert_eq!(name(&std::fs::read("/bin/true").unwrap(), 0x40_1000), None);
    }

    #[test]
    fn what_a_table_claims_is_bounded_by_the_file() {
        let whole = program(0, |_| {});
        for bytes in (0..whole.len()).step_by(7) {
            name(&whole[..bytes], 0x40_1040);
        }
        for place in (0..72).step_by(4).chain((72..127).step_by(3)) {
            for value in [u32::MAX, 1 << 31, 0] {
                let hostile = program(0, |table| {
                    let end = (place + 4).min(table.len());
                    table[place..end].copy_from_slice(&value.to_le_bytes()[..end - place]);
                });
                let found = name(&hostile, 0x40_1040);
                let is_of_table = found.as_ref().is_none_or(|name| name.len() < 64);
                assert!(is_of_table, "{place} {value}: {found:?}");
            }
        }
        let many = program(0, |table| table[8..16].copy_from_slice(&(1_u64 << 40).to_le_bytes()));
        assert_eq!(name(&many, 0x40_1000), None);
    }
}
