//! The unwind tables of programs and libraries: `.eh_frame` and its index, `.eh_frame_hdr`, read
//! from the files that a process has mapped and kept by file.
//!
//! Program headers alone say where they are: stripped programs have them, too. Static programs have
//! no index, and their table is found by its section. What a file claims is compared with its
//! length before anything is read or allocated.
//!
//! What does not belong here: what the tables mean (crate `framehop`).

use super::allowance::Allowance;
use rustc_hash::FxHashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

/// Bytes of one file's tables: those of a browser have some 20 MB. Chosen.
const MOST_BYTES: u64 = 32 << 20;
/// Bytes that are kept in total. Chosen.
const MOST_IN_ALL: u64 = 64 << 20;
/// Files that are kept, including those without tables.
const MOST_FILES: usize = 1024;
/// Program and section headers that are read of a file: programs have up to some 20 and 50.
const MOST_HEADERS: u16 = 256;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
/// Bytes of the names of sections.
const MOST_NAMES: u64 = 64 << 10;
const TABLE_SECTION: &[u8] = b".eh_frame\0";
/// Sections that programs written in Go have, stripped ones too: Go's own table of functions.
const GO_SECTIONS: &[&[u8]] = &[b".gopclntab\0", b".data.rel.ro.gopclntab\0"];
const LOADED: u32 = 1;
const EH_FRAME_INDEX: u32 = 0x6474_e550;
const EXECUTABLE: u32 = 1;
/// The encoding of the table's place in the index: relative to this field, 32 bits, signed. All
/// linkers write this one.
const RELATIVE_32: u8 = 0x1b;

/// A part of a file, and where it expects to be in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePart {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// The address that the file states.
    pub address: u64,
}

impl FilePart {
    /// The stated addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes)
    }
}

/// The places of a file's tables and code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TablePlaces {
    table: FilePart,
    index: Option<FilePart>,
    code: Vec<FilePart>,
    is_go: bool,
}

/// The parts of a file that unwinding needs.
#[derive(Debug)]
pub(super) struct UnwindTables {
    /// `.eh_frame`.
    pub table: Rc<[u8]>,
    /// The addresses that the file states for `table`.
    pub table_at: Range<u64>,
    /// `.eh_frame_hdr` and its stated addresses, if there is one.
    pub index: Option<(Rc<[u8]>, Range<u64>)>,
    /// Whether the program is written in Go: then the table covers only its parts in C.
    pub is_go: bool,
    code: Vec<FilePart>,
}

impl UnwindTables {
    fn bytes(&self) -> u64 {
        (self.table.len() + self.index.as_ref().map_or(0, |(index, _)| index.len())) as u64
    }

    /// Returns the stated address of the part that is mapped from `offset` on; `None` if that is no
    /// code.
    pub fn address_of(&self, offset: u64, bytes: u64) -> Option<u64> {
        let end = offset.saturating_add(bytes);
        let is_mapped = |part: &&FilePart| part.offset < end && offset < part.offset + part.bytes;
        let part = self.code.iter().find(is_mapped)?;
        Some(part.address.wrapping_sub(part.offset).wrapping_add(offset))
    }
}

/// The answer for a file.
#[derive(Clone, Debug)]
pub(super) enum FileTables {
    /// The file's tables.
    Read(Rc<UnwindTables>),
    /// The file has none that can be used.
    Without,
    /// The tables would have to be read from disk.
    Unread,
}

/// The identity of a file's content: a changed file is read again.
pub(super) type FileKey = (u64, u64, u64, i64, i64);

/// Returns the identity of a file's content.
pub(super) fn file_key(about: &Metadata) -> FileKey {
    (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec())
}

/// The tables read so far.
#[derive(Debug, Default)]
pub(super) struct TablesOfFiles {
    by_file: FxHashMap<FileKey, FileTables>,
    bytes: u64,
}

impl TablesOfFiles {
    /// The tables of a file that is open.
    pub fn of(&mut self, file: &File, about: &Metadata, allowance: &mut Allowance) -> FileTables {
        let key = file_key(about);
        if let Some(known) = self.by_file.get(&key) {
            return known.clone();
        }
        let found = read(file, about.len(), allowance);
        let bytes = match &found {
            FileTables::Read(tables) => tables.bytes(),
            _ => 0,
        };
        if self.bytes + bytes > MOST_IN_ALL || self.by_file.len() >= MOST_FILES {
            self.by_file.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.by_file.insert(key, found.clone());
        found
    }
}

fn read(file: &File, length: u64, allowance: &mut Allowance) -> FileTables {
    let Some(places) = places(file, length) else { return FileTables::Without };
    let TablePlaces { table, index, code, is_go } = places;
    let parts: Vec<(u64, u64)> =
        [&table].into_iter().chain(&index).map(|part| (part.offset, part.bytes)).collect();
    let bytes = parts.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
    if bytes > MOST_BYTES {
        return FileTables::Without;
    }
    if !allowance.may_read(file, &parts) {
        return FileTables::Unread;
    }
    let read = |part: &FilePart| part_of(file, part.offset, part.bytes as usize);
    let Some(bytes_of_table) = read(&table) else { return FileTables::Without };
    let index = index.and_then(|part| Some((read(&part)?.into(), part.addresses())));
    FileTables::Read(Rc::new(UnwindTables {
        table: bytes_of_table.into(),
        table_at: table.addresses(),
        index,
        is_go,
        code,
    }))
}

/// Reads a part of a file, whose length the caller has bounded.
pub(super) fn part_of(file: &File, offset: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut part = vec![0; bytes];
    file.read_exact_at(&mut part, offset).ok()?;
    Some(part)
}

/// Finds the tables of an ELF file of 64 bits, little endian; `None` if it has none, or none that
/// are within the file.
fn places(file: &File, length: u64) -> Option<TablePlaces> {
    let header = part_of(file, 0, HEADER)?;
    if header.get(..6)? != b"\x7fELF\x02\x01" || u16_at(&header, 54)? as usize != PROGRAM_HEADER {
        return None;
    }
    let count = u16_at(&header, 56)?.min(MOST_HEADERS);
    let headers = part_of(file, u64_at(&header, 32)?, usize::from(count) * PROGRAM_HEADER)?;
    let (mut loaded, mut code, mut index) = (Vec::new(), Vec::new(), None);
    for header in headers.chunks_exact(PROGRAM_HEADER) {
        let part = FilePart {
            offset: u64_at(header, 8)?,
            bytes: u64_at(header, 32)?,
            address: u64_at(header, 16)?,
        };
        if part.offset.checked_add(part.bytes).is_none_or(|end| end > length) {
            continue;
        }
        match u32_at(header, 0)? {
            EH_FRAME_INDEX => index = Some(part),
            LOADED if u32_at(header, 4)? & EXECUTABLE != 0 => {
                code.push(part.clone());
                loaded.push(part);
            }
            LOADED => loaded.push(part),
            _ => {}
        }
    }
    let sections = Sections::new(file, &header, length);
    let has =
        |name: &&[u8]| sections.as_ref().is_some_and(|all| all.named(file, length, name).is_some());
    let is_go = GO_SECTIONS.iter().any(has);
    let Some(index) = index else {
        let section = sections.as_ref()?.named(file, length, TABLE_SECTION)?;
        let is_loaded = |part: &FilePart| part.addresses().contains(&section.address);
        return loaded.iter().any(is_loaded).then_some(TablePlaces {
            table: section,
            index: None,
            code,
            is_go,
        });
    };
    if !(8..=MOST_BYTES).contains(&index.bytes) {
        return None;
    }
    let address = table_address(file, &index)?;
    let table = table_at(sections.as_ref(), address, &loaded)?;
    Some(TablePlaces { table, index: Some(index), code, is_go })
}

/// The stated address of the table, from the index.
fn table_address(file: &File, index: &FilePart) -> Option<u64> {
    let start = part_of(file, index.offset, 8)?;
    if *start.first()? != 1 || *start.get(1)? != RELATIVE_32 {
        return None;
    }
    let distance = i64::from(i32::from_le_bytes(start.get(4..8)?.try_into().ok()?));
    index.address.checked_add(4)?.checked_add_signed(distance)
}

/// The table at a stated address: as long as its section, if the file still has sections, else to
/// the end of what is loaded with it.
fn table_at(sections: Option<&Sections>, address: u64, loaded: &[FilePart]) -> Option<FilePart> {
    let segment = loaded.iter().find(|part| part.addresses().contains(&address))?;
    let inside = address - segment.address;
    let rest = FilePart { offset: segment.offset + inside, bytes: segment.bytes - inside, address };
    let section = sections.and_then(|sections| sections.at(address));
    let bytes = section.map(|section| section.bytes).filter(|bytes| *bytes <= rest.bytes);
    Some(FilePart { bytes: bytes.unwrap_or(rest.bytes), ..rest })
}

/// The headers of a file's sections.
struct Sections {
    headers: Vec<u8>,
    /// The index of the section that holds the names.
    names: usize,
}

impl Sections {
    fn new(file: &File, header: &[u8], length: u64) -> Option<Sections> {
        let (from, count) = (u64_at(header, 40)?, u16_at(header, 60)?.min(MOST_HEADERS));
        let bytes = usize::from(count) * SECTION_HEADER;
        let is_known = u16_at(header, 58)? as usize == SECTION_HEADER;
        if !is_known || from.checked_add(bytes as u64)? > length {
            return None;
        }
        let names = usize::from(u16_at(header, 62)?);
        Some(Sections { headers: part_of(file, from, bytes)?, names })
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.chunks_exact(SECTION_HEADER)
    }

    fn at(&self, address: u64) -> Option<FilePart> {
        self.all().find(|header| u64_at(header, 16) == Some(address)).and_then(section)
    }

    fn named(&self, file: &File, length: u64, name: &[u8]) -> Option<FilePart> {
        let names = self.all().nth(self.names).and_then(section)?;
        let end = names.offset.checked_add(names.bytes)?;
        if names.bytes > MOST_NAMES || end > length {
            return None;
        }
        let names = part_of(file, names.offset, names.bytes as usize)?;
        let is_it = |header: &&[u8]| {
            let at = u32_at(header, 0).and_then(|at| names.get(at as usize..));
            at.is_some_and(|rest| rest.starts_with(name))
        };
        let found = self.all().find(is_it).and_then(section)?;
        (found.offset.checked_add(found.bytes)? <= length).then_some(found)
    }
}

fn section(header: &[u8]) -> Option<FilePart> {
    Some(FilePart {
        offset: u64_at(header, 24)?,
        bytes: u64_at(header, 32)?,
        address: u64_at(header, 16)?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn own_bytes() -> Vec<u8> {
        fs::read("/bin/true").unwrap()
    }

    /// Returns the tables found in a file with this content.
    fn found(bytes: &[u8]) -> FileTables {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let file = File::open(file.path()).unwrap();
        let about = file.metadata().unwrap();
        TablesOfFiles::default().of(&file, &about, &mut Allowance::default())
    }

    /// Position of the first program header of a type.
    fn header_of(bytes: &[u8], kind: u32) -> usize {
        let mut places = (HEADER..).step_by(PROGRAM_HEADER);
        places.find(|at| u32_at(bytes, *at) == Some(kind)).unwrap()
    }

    #[test]
    fn a_stripped_program_has_its_tables() {
        let bytes = own_bytes();
        let FileTables::Read(tables) = found(&bytes) else { panic!("none") };
        assert!(tables.bytes() > 120 && tables.index.is_some());
        // Without section headers the table goes on to the end of its segment.
        let mut bare = bytes;
        bare[40..48].fill(0);
        bare[60..62].fill(0);
        let FileTables::Read(longer) = found(&bare) else { panic!("none") };
        assert!(longer.table.len() >= tables.table.len());
        assert_eq!(longer.table[..tables.table.len()], tables.table[..]);
    }

    #[test]
    fn a_mapping_has_the_address_that_the_file_states() {
        let FileTables::Read(tables) = found(&own_bytes()) else { panic!("none") };
        let code = tables.code.first().unwrap().clone();
        let page = code.offset & !0xfff;
        assert_eq!(tables.address_of(page, code.bytes), Some(code.address - (code.offset - page)));
        assert_eq!(tables.address_of(u64::MAX, 1), None);
    }

    #[test]
    fn what_is_truncated_or_too_large_has_none() {
        let bytes = own_bytes();
        for length in [0, 5, HEADER, HEADER + 100, bytes.len() / 2] {
            assert!(matches!(found(&bytes[..length]), FileTables::Without), "{length}");
        }
        // An index that claims to be huge, lies beyond the file, or is of another kind.
        let at = header_of(&bytes, EH_FRAME_INDEX);
        for (place, value) in [(32, u64::MAX), (32, 1 << 40), (8, u64::MAX), (32, 3), (8, 1 << 40)]
        {
            let mut hostile = bytes.clone();
            hostile[at + place..at + place + 8].copy_from_slice(&value.to_le_bytes());
            let is_used = matches!(found(&hostile), FileTables::Read(it) if it.index.is_some());
            assert!(!is_used, "{place} {value}");
        }
        let index = u64_at(&bytes, at + 8).unwrap() as usize;
        for (place, value) in [(0, 2), (1, 0xff)] {
            let mut hostile = bytes.clone();
            hostile[index + place] = value;
            assert!(matches!(found(&hostile), FileTables::Without), "{place}");
        }
        let mut hostile = bytes;
        hostile[index + 4..index + 8].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(matches!(found(&hostile), FileTables::Without));
    }

    #[test]
    fn a_file_is_read_once_and_again_when_it_has_changed() {
        let mut all = TablesOfFiles::default();
        let mut of = |file: &File, bytes: u64| {
            let about = file.metadata().unwrap();
            let found = all.of(file, &about, &mut Allowance::default());
            assert!(matches!(found, FileTables::Read(_)));
            assert_eq!(all.by_file.len() as u64, bytes);
        };
        let copy = tempfile::NamedTempFile::new().unwrap();
        fs::write(copy.path(), own_bytes()).unwrap();
        of(&File::open("/bin/true").unwrap(), 1);
        of(&File::open("/bin/true").unwrap(), 1);
        of(copy.as_file(), 2);
        let mut longer = own_bytes();
        longer.push(0);
        fs::write(copy.path(), longer).unwrap();
        of(copy.as_file(), 3);
    }
}
