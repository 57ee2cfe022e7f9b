//! Converts a column's rows to one column chunk of a Parquet row group, and selects the encoding by
//! their content.
//!
//! | the rows | the chunk |
//! |---|---|
//! | all the same | a dictionary of one value and one run, whatever their number |
//! | all null | one run of levels |
//! | few distinct integers | a dictionary and keys of a few bits |
//! | other integers | DELTA_BINARY_PACKED, not compressed, since that gains nothing |
//! | texts | a dictionary of the distinct names, and keys |
//! | flags | runs and bits |
//! | other floats | as they are, compressed |
//!
//! What does not belong here: the bits themselves (see [`super::encode`]), and files.

use super::encode::{bits, delta, hybrid, run};
use super::statistics;
use crate::table::{ColumnCells, ColumnKind, ColumnValues};
use crate::{Name, Names};
use bytes::Bytes;
use parquet::basic::{CompressionCodec, Encoding, EncodingMask};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Distinct integers up to which a dictionary is tried.
const FEW: usize = 128;
/// Slots of the table that finds them: a power of two, at most a quarter full.
const SLOTS: usize = 512;
/// Pages smaller than this are never compressed.
const SMALL: usize = 512;

/// Turns columns into chunks; keeps its memory between them.
pub(super) struct Encoder {
    values: Vec<i64>,
    keys: Vec<u32>,
    levels: Vec<u32>,
    entries: Vec<i64>,
    /// By name: its key and 1, or 0 where it has none yet.
    keys_of_names: Vec<u32>,
    compressor: zstd::bulk::Compressor<'static>,
}

/// One chunk's pages before they are written.
struct ChunkPages {
    /// The entries of the dictionary, PLAIN, and their number.
    dictionary: Option<(Vec<u8>, u32)>,
    data: Vec<u8>,
    encoding: Encoding,
    /// Rows, or for lists: items, and one for each empty list.
    levels: usize,
    compress: bool,
    statistics: Option<Statistics>,
}

impl ChunkPages {
    fn new(levels: usize, encoding: Encoding) -> ChunkPages {
        let (dictionary, data) = (None, Vec::new());
        ChunkPages { dictionary, data, encoding, levels, compress: false, statistics: None }
    }
}

impl Encoder {
    pub(super) fn new() -> std::io::Result<Encoder> {
        Ok(Encoder {
            values: Vec::new(),
            keys: Vec::new(),
            levels: Vec::new(),
            entries: Vec::new(),
            keys_of_names: Vec::new(),
            compressor: zstd::bulk::Compressor::new(1)?,
        })
    }

    /// Returns the chunk of `column`'s rows, and the metadata that Parquet needs of it.
    pub(super) fn chunk(
        &mut self,
        column: &ColumnValues,
        kind: ColumnKind,
        names: &Names,
        description: &ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let nullable = description.max_def_level() > 0;
        let pages = match column.cells() {
            ColumnCells::Same(value) => same(value, column.len(), kind, nullable, names),
            ColumnCells::Each { values, valid } => self.each(values, valid, kind, nullable, names),
            ColumnCells::Lists { values, ends } => self.lists(values, ends, names),
        };
        self.write(pages, column.len(), description)
    }

    fn each(
        &mut self,
        values: &[i64],
        valid: &[bool],
        kind: ColumnKind,
        nullable: bool,
        names: &Names,
    ) -> ChunkPages {
        let mut pages = ChunkPages::new(values.len(), Encoding::PLAIN);
        if nullable {
            self.definition_levels(valid, values.len(), &mut pages.data);
        }
        let mut compact = std::mem::take(&mut self.values);
        let values = if valid.contains(&false) {
            compact.clear();
            let present = values.iter().zip(valid).filter(|(_, valid)| **valid);
            compact.extend(present.map(|(value, _)| *value));
            &compact
        } else {
            values
        };
        match kind {
            ColumnKind::Flag => self.flags(values, &mut pages),
            ColumnKind::Text | ColumnKind::Texts => self.texts(values, names, &mut pages),
            ColumnKind::Integer | ColumnKind::Float => self.numbers(values, kind, &mut pages),
        }
        pages.statistics = statistics::of(kind, values, pages.levels);
        self.values = compact;
        pages
    }

    fn definition_levels(&mut self, valid: &[bool], rows: usize, out: &mut Vec<u8>) {
        if valid.is_empty() {
            return levels(out, |out| run(1, rows, 1, out));
        }
        self.levels.clear();
        self.levels.extend(valid.iter().map(|valid| u32::from(*valid)));
        levels(out, |out| hybrid(&self.levels, 1, out));
    }

    fn flags(&mut self, values: &[i64], pages: &mut ChunkPages) {
        self.keys.clear();
        self.keys.extend(values.iter().map(|value| u32::from(*value != 0)));
        pages.encoding = Encoding::RLE;
        levels(&mut pages.data, |out| hybrid(&self.keys, 1, out));
    }

    fn numbers(&mut self, values: &[i64], kind: ColumnKind, pages: &mut ChunkPages) {
        if self.few_distinct(values) {
            let mut entries = Vec::with_capacity(self.entries.len() * size_of::<i64>());
            plain(&self.entries, &mut entries);
            self.dictionary(entries, self.entries.len(), pages);
        } else if kind == ColumnKind::Integer {
            pages.encoding = Encoding::DELTA_BINARY_PACKED;
            delta(values, &mut pages.data);
        } else {
            plain(values, &mut pages.data);
            pages.compress = pages.data.len() > SMALL;
        }
    }

    /// Fills `entries` and `keys`, or finds more than [`FEW`] distinct values and gives up; with
    /// values that differ much it does so after as many rows.
    fn few_distinct(&mut self, values: &[i64]) -> bool {
        self.keys.clear();
        self.entries.clear();
        let mut slots = [0u8; SLOTS];
        for value in values {
            let hash = (*value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
            let mut slot = hash as usize % SLOTS;
            let key = loop {
                let key = usize::from(slots[slot]);
                if key == 0 {
                    if self.entries.len() == FEW {
                        return false;
                    }
                    self.entries.push(*value);
                    slots[slot] = self.entries.len() as u8;
                    break self.entries.len() - 1;
                }
                if self.entries.get(key - 1) == Some(value) {
                    break key - 1;
                }
                slot = (slot + 1) % SLOTS;
            };
            self.keys.push(key as u32);
        }
        !values.is_empty()
    }

    fn texts(&mut self, values: &[i64], names: &Names, pages: &mut ChunkPages) {
        self.keys.clear();
        self.entries.clear();
        self.keys_of_names.resize(names.len(), 0);
        for value in values {
            // A name that this table does not have is written as the text that it shows: none.
            let name = usize::try_from(*value).ok().filter(|name| *name < names.len()).unwrap_or(0);
            if let Some(key) = self.keys_of_names.get_mut(name) {
                if *key == 0 {
                    self.entries.push(name as i64);
                    *key = self.entries.len() as u32;
                }
                self.keys.push(*key - 1);
            }
        }
        let mut entries = Vec::new();
        for entry in &self.entries {
            text(*entry, names, &mut entries);
            if let Some(key) = self.keys_of_names.get_mut(*entry as usize) {
                *key = 0;
            }
        }
        pages.compress = entries.len() > SMALL;
        self.dictionary(entries, self.entries.len(), pages);
    }

    fn dictionary(&self, entries: Vec<u8>, count: usize, pages: &mut ChunkPages) {
        if count == 0 {
            return;
        }
        pages.dictionary = Some((entries, count as u32));
        pages.encoding = Encoding::RLE_DICTIONARY;
        let width = bits(count as u64 - 1).max(1);
        pages.data.push(width as u8);
        hybrid(&self.keys, width, &mut pages.data);
    }

    fn lists(&mut self, values: &[i64], ends: &[usize], names: &Names) -> ChunkPages {
        let (mut repetition, mut definition) = (Vec::new(), Vec::new());
        let mut start = 0;
        for end in ends {
            // An empty list is one level that defines no item.
            repetition.push(0);
            definition.push(u32::from(*end > start));
            for _ in start + 1..*end {
                repetition.push(1);
                definition.push(1);
            }
            start = *end;
        }
        let mut pages = ChunkPages::new(repetition.len(), Encoding::PLAIN);
        levels(&mut pages.data, |out| hybrid(&repetition, 1, out));
        levels(&mut pages.data, |out| hybrid(&definition, 1, out));
        self.texts(values, names, &mut pages);
        pages
    }

    fn write(
        &mut self,
        pages: ChunkPages,
        rows: usize,
        description: &ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut out = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut out);
        let mut sizes = 0;
        let dictionary_offset = pages.dictionary.is_some().then_some(0);
        if let Some((entries, num_values)) = pages.dictionary {
            let (buf, size) = self.page(entries, pages.compress)?;
            let encoding = Encoding::PLAIN;
            let page = Page::DictionaryPage { buf, num_values, encoding, is_sorted: false };
            sizes += writer.write_page(CompressedPage::new(page, size))?.uncompressed_size;
        }
        let (buf, size) = self.page(pages.data, pages.compress)?;
        let page = Page::DataPage {
            buf,
            num_values: pages.levels as u32,
            encoding: pages.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let data = writer.write_page(CompressedPage::new(page, size))?;
        sizes += data.uncompressed_size;
        let bytes = Bytes::from(out.into_inner()?);
        let codec =
            if pages.compress { CompressionCodec::ZSTD } else { CompressionCodec::UNCOMPRESSED };
        let encodings = [pages.encoding, Encoding::PLAIN, Encoding::RLE];
        let mut metadata = ColumnChunkMetaData::builder(description.clone())
            .set_compression_codec(codec)
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_num_values(pages.levels as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(sizes as i64)
            .set_dictionary_page_offset(dictionary_offset)
            .set_data_page_offset(data.offset as i64);
        if let Some(statistics) = pages.statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    /// A page's bytes as they are written, and their number before.
    fn page(&mut self, bytes: Vec<u8>, compress: bool) -> std::io::Result<(Bytes, usize)> {
        let size = bytes.len();
        let bytes = if compress { self.compressor.compress(&bytes)? } else { bytes };
        Ok((bytes.into(), size))
    }
}

/// The chunk of rows that all hold the same: its size does not depend on their number.
fn same(
    value: Option<i64>,
    rows: usize,
    kind: ColumnKind,
    nullable: bool,
    names: &Names,
) -> ChunkPages {
    let mut pages = ChunkPages::new(rows, Encoding::PLAIN);
    if nullable {
        levels(&mut pages.data, |out| run(u32::from(value.is_some()), rows, 1, out));
    }
    pages.statistics = statistics::of_same(kind, value, rows, names);
    let Some(value) = value else { return pages };
    let mut entry = Vec::new();
    match kind {
        ColumnKind::Flag => {
            pages.encoding = Encoding::RLE;
            levels(&mut pages.data, |out| run(u32::from(value != 0), rows, 1, out));
            return pages;
        }
        ColumnKind::Text | ColumnKind::Texts => text(value, names, &mut entry),
        ColumnKind::Integer | ColumnKind::Float => plain(&[value], &mut entry),
    }
    pages.dictionary = Some((entry, 1));
    pages.encoding = Encoding::RLE_DICTIONARY;
    pages.data.push(1);
    run(0, rows, 1, &mut pages.data);
    pages
}

/// Writes the output of `write` behind its length, as levels (and runs of flags) are in a page.
fn levels(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    write(out);
    let length = (out.len() - start - 4) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Writes numbers as PLAIN: integers and the bits of floats look the same.
fn plain(values: &[i64], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Writes a name's text as PLAIN.
fn text(name: i64, names: &Names, out: &mut Vec<u8>) {
    let text = names.get(Name::from_index(name as usize));
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}
