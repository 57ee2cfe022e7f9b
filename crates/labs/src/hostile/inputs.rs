//! Damaged recordings: the same number gives the same damage.
//!
//! What does not belong here: what is done with them.

use super::bytes_of;
use crate::error::Context;
use crate::recorded::EditedTable;
use crate::{LabError, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The kinds of damage.
pub const KINDS: &[&str] = &[
    "bytes changed",
    "file cut",
    "footer changed",
    "numbers that cannot be",
    "a column of one number",
    "recording.json changed",
];

/// Numbers at which arithmetic ends, and times far from every watch.
const EXTREMES: &[i64] = &[
    0,
    1,
    -1,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    1 << 32,
    1 << 52,
    -(1 << 52),
    946_080_000_000_000_000,
    3_000_000_000_000,
];
/// Bytes of a file's footer that are changed at most.
const FOOTER: usize = 2_000;

/// A sound recording in memory, of which damaged copies are made.
pub struct DamagedRecordings {
    manifest: Vec<u8>,
    tables: Vec<SoundTable>,
}

struct SoundTable {
    /// Below the recording.
    path: PathBuf,
    bytes: Vec<u8>,
    rows: EditedTable,
}

/// Numbers that follow from a seed: SplitMix64, by Sebastiano Vigna.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn extreme(&mut self) -> i64 {
        EXTREMES.get(self.below(EXTREMES.len())).copied().unwrap_or(0)
    }
}

impl DamagedRecordings {
    /// Reads the sound recording in `folder`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(folder: &Path) -> Result<DamagedRecordings> {
        let manifest = bytes_of(&folder.join("recording.json"))?;
        let mut tables = Vec::new();
        for table in
            fs::read_dir(folder).context(|| format!("list {}", folder.display()))?.flatten()
        {
            let path = Path::new(&table.file_name()).join("00000001.parquet");
            if folder.join(&path).is_file() {
                let rows = EditedTable::read(&table.path())?;
                tables.push(SoundTable { bytes: bytes_of(&folder.join(&path))?, path, rows });
            }
        }
        tables.sort_by(|one, other| one.path.cmp(&other.path));
        match tables.is_empty() {
            true => Err(LabError::failed("read tables".to_owned(), "the recording has none")),
            false => Ok(DamagedRecordings { manifest, tables }),
        }
    }

    /// Writes the damaged recording of that number to `place`, in place of another; returns the
    /// kind of its damage.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, number: u64, place: &Path) -> Result<&'static str> {
        let action = || format!("write {}", place.display());
        match fs::remove_dir_all(place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context(action)?;
            }
            _ => {}
        }
        let mut chosen = SeededNumbers(number);
        let damaged = chosen.below(self.tables.len());
        let kind = KINDS.get(chosen.below(KINDS.len())).copied().unwrap_or_default();
        for (index, table) in self.tables.iter().enumerate() {
            let path = place.join(&table.path);
            fs::create_dir_all(path.parent().unwrap_or(place)).context(action)?;
            match index == damaged {
                true => table.damage(kind, &mut chosen, &path)?,
                false => fs::write(&path, &table.bytes).context(action)?,
            }
        }
        let mut manifest = self.manifest.clone();
        if kind == "recording.json changed" {
            manifest = with_other_number(&manifest, &mut chosen);
        }
        fs::write(place.join("recording.json"), manifest).context(action)?;
        Ok(kind)
    }
}

impl SoundTable {
    fn damage(&self, kind: &str, chosen: &mut SeededNumbers, path: &Path) -> Result<()> {
        let mut bytes = self.bytes.clone();
        let end = bytes.len();
        match kind {
            "bytes changed" => change(&mut bytes, 0, chosen),
            "footer changed" => change(&mut bytes, end.saturating_sub(FOOTER), chosen),
            "file cut" => bytes.truncate(chosen.below(end)),
            "numbers that cannot be" => {
                let cells: Vec<(usize, usize, i64)> = (0..=chosen.below(8))
                    .map(|_| (chosen.below(100), chosen.below(1 << 16), chosen.extreme()))
                    .collect();
                return self.rows.write(path, |columns| {
                    for (column, row, value) in cells {
                        columns.set(column, row, value);
                    }
                });
            }
            "a column of one number" => {
                let (column, value) = (chosen.below(100), chosen.extreme());
                return self.rows.write(path, |columns| columns.set_all(column, value));
            }
            _ => {}
        }
        fs::write(path, bytes).context(|| format!("write {}", path.display()))
    }
}

/// Changes some bytes from `first` on.
fn change(bytes: &mut [u8], first: usize, chosen: &mut SeededNumbers) {
    let length = bytes.len().saturating_sub(first);
    for _ in 0..=chosen.below(20) {
        let (at, mask) = (first + chosen.below(length), 1 << chosen.below(8));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= mask;
        }
    }
}

/// The same text with another number in place of one of its numbers.
fn with_other_number(text: &[u8], chosen: &mut SeededNumbers) -> Vec<u8> {
    let is_start = |at: &usize| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        text.get(*at).is_some_and(u8::is_ascii_digit)
            && before.is_some_and(|byte| matches!(byte, b' ' | b':' | b'[' | b','))
    };
    let starts: Vec<usize> = (0..text.len()).filter(is_start).collect();
    let Some(start) = starts.get(chosen.below(starts.len())).copied() else { return text.to_vec() };
    let (before, rest) = text.split_at(start);
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = rest.get(length..).unwrap_or_default();
    let number = chosen.extreme().unsigned_abs().to_string();
    [before, number.as_bytes(), after].concat()
}
