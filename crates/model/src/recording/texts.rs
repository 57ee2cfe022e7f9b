//! A column of texts, read as keys into the dictionary that they are stored with: each text is
//! looked at once, not in every row.
//!
//! What does not belong here: texts in other encodings (see [`super::cells`]), which only other
//! programs write.

use super::error::{ErrorCause, Problem};
use super::runs::HybridRuns;
use crate::Names;
use crate::table::Scalar;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::ColumnChunkMetaData;

/// Reads a chunk of texts.
pub(super) struct TextCellReader {
    pages: Box<dyn PageReader>,
    nullable: bool,
    /// The dictionary's texts as names.
    names: Vec<i64>,
    page: Option<TextPage>,
    keys: Vec<u32>,
}

/// The unread part of a page.
struct TextPage {
    rows: usize,
    /// For each row, whether it has a text; `None` if all have.
    levels: Option<HybridRuns>,
    cells: TextCells,
}

enum TextCells {
    Keys(HybridRuns),
    Plain { bytes: Bytes, at: usize },
}

fn broken(what: &str) -> Problem {
    ErrorCause::Content(what.to_owned()).into()
}

impl TextCellReader {
    /// Whether all pages of `chunk` have an encoding that this reads.
    pub fn reads(chunk: &ColumnChunkMetaData) -> bool {
        chunk.encodings().all(|encoding| is_keys(encoding) || is_plain_or_levels(encoding))
    }

    pub fn new(pages: Box<dyn PageReader>, nullable: bool) -> TextCellReader {
        TextCellReader { pages, nullable, names: Vec::new(), page: None, keys: Vec::new() }
    }

    /// Appends up to `most` rows: their texts as raw names, 0 for null, and, if the column may have
    /// nulls, which rows are none. Returns how many there were.
    pub fn read(
        &mut self,
        most: usize,
        names: &mut Names,
        values: &mut Vec<i64>,
        valid: &mut Vec<bool>,
    ) -> Result<usize, Problem> {
        let mut rows = 0;
        while rows < most {
            match &mut self.page {
                Some(page) if page.rows > 0 => {
                    let count = page.rows.min(most - rows);
                    page.rows -= count;
                    let (dictionary, keys) = (&self.names, &mut self.keys);
                    page.read(count, dictionary, keys, names, values, valid)
                        .ok_or_else(|| broken("its texts end too early"))?;
                    rows += count;
                }
                _ => {
                    let Some(page) = self.pages.get_next_page()? else { break };
                    self.open(page, names)?;
                }
            }
        }
        Ok(rows)
    }

    fn open(&mut self, page: Page, names: &mut Names) -> Result<(), Problem> {
        let page = match page {
            Page::DictionaryPage { buf, num_values, .. } => {
                let mut at = 0;
                self.names.clear();
                for _ in 0..num_values {
                    let name = plain(&buf, &mut at, names);
                    self.names.push(name.ok_or_else(|| broken("its dictionary is broken"))?);
                }
                return Ok(());
            }
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let is_known = !self.nullable || def_level_encoding == Encoding::RLE;
                let split = if is_known { self.levels(&buf) } else { None };
                split.and_then(|(levels, cells)| TextPage::new(num_values, levels, cells, encoding))
            }
            Page::DataPageV2 { buf, num_values, encoding, .. } if !self.nullable => {
                TextPage::new(num_values, None, buf, encoding)
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, .. } => {
                let end = def_levels_byte_len as usize;
                let fits = end <= buf.len();
                let levels = fits.then(|| HybridRuns::new(buf.slice(..end), 1)).flatten().map(Some);
                levels.and_then(|levels| {
                    TextPage::new(num_values, levels, buf.slice(end..), encoding)
                })
            }
        };
        self.page = Some(page.ok_or_else(|| broken("a page of texts cannot be read"))?);
        Ok(())
    }

    /// Returns the levels of a page, which are behind their length, and the bytes that follow them.
    fn levels(&self, buf: &Bytes) -> Option<(Option<HybridRuns>, Bytes)> {
        if !self.nullable {
            return Some((None, buf.clone()));
        }
        let length = u32::from_le_bytes(*buf.first_chunk::<4>()?) as usize;
        let end = length.checked_add(4).filter(|end| *end <= buf.len())?;
        Some((Some(HybridRuns::new(buf.slice(4..end), 1)?), buf.slice(end..)))
    }
}

fn is_keys(encoding: Encoding) -> bool {
    // Older writers use the first for both pages.
    matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY)
}

fn is_plain_or_levels(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::PLAIN | Encoding::RLE)
}

impl TextPage {
    fn new(
        rows: u32,
        levels: Option<HybridRuns>,
        cells: Bytes,
        encoding: Encoding,
    ) -> Option<TextPage> {
        let cells = if is_keys(encoding) {
            // A page of nulls may end before its keys.
            let width = cells.first().copied().unwrap_or(0);
            TextCells::Keys(HybridRuns::new(cells.slice(cells.len().min(1)..), width.into())?)
        } else if encoding == Encoding::PLAIN {
            TextCells::Plain { bytes: cells, at: 0 }
        } else {
            return None;
        };
        Some(TextPage { rows: rows as usize, levels, cells })
    }

    fn read(
        &mut self,
        count: usize,
        dictionary: &[i64],
        keys: &mut Vec<u32>,
        names: &mut Names,
        values: &mut Vec<i64>,
        valid: &mut Vec<bool>,
    ) -> Option<()> {
        let (first, mut there) = (valid.len(), count);
        if let Some(levels) = &mut self.levels {
            keys.clear();
            levels.read(count, keys)?;
            valid.extend(keys.iter().map(|level| *level == 1));
            there = keys.iter().filter(|level| **level == 1).count();
        }
        let begin = values.len();
        match &mut self.cells {
            TextCells::Keys(runs) => {
                keys.clear();
                runs.read(there, keys)?;
                for key in keys.iter() {
                    values.push(*dictionary.get(*key as usize)?);
                }
            }
            TextCells::Plain { bytes, at } => {
                for _ in 0..there {
                    values.push(plain(bytes, at, names)?);
                }
            }
        }
        spread(values, begin, valid.get(first..).unwrap_or_default());
        Some(())
    }
}

/// Puts the values from `begin` on, of which there is one for each valid row, where their rows are.
pub(super) fn spread(values: &mut Vec<i64>, begin: usize, valid: &[bool]) {
    let mut from = values.len();
    if from - begin >= valid.len() {
        return;
    }
    values.resize(begin + valid.len(), 0);
    let Some(values) = values.get_mut(begin..) else { return };
    from -= begin;
    // Moves from the end, so that no value is overwritten before it is moved; without a branch,
    // which would be guessed wrong where nulls come at random.
    for (row, is_valid) in valid.iter().enumerate().rev() {
        let taken = usize::from(*is_valid && from > 0);
        from -= taken;
        let value = values.get(from).copied().unwrap_or_default();
        if let Some(place) = values.get_mut(row) {
            *place = value * taken as i64;
        }
    }
}

/// The text at `at` behind its length, as a name.
fn plain(bytes: &Bytes, at: &mut usize, names: &mut Names) -> Option<i64> {
    let length = bytes.get(*at..)?.first_chunk::<4>()?;
    let begin = *at + 4;
    let end = begin.checked_add(u32::from_le_bytes(*length) as usize)?;
    let text = std::str::from_utf8(bytes.get(begin..end)?).ok()?;
    *at = end;
    Some(names.intern(text).to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_where_their_rows_are() {
        let mut values = vec![9, 1, 2, 3];
        spread(&mut values, 1, &[false, true, true, false, true, false]);
        assert_eq!(values, [9, 0, 1, 2, 0, 3, 0]);
        let mut values = vec![9];
        spread(&mut values, 1, &[false, false]);
        assert_eq!(values, [9, 0, 0]);
        let mut values = vec![1, 2];
        spread(&mut values, 0, &[true, true]);
        assert_eq!(values, [1, 2]);
    }
}
