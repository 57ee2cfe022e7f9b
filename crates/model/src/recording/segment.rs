//! One file of one table: written under a name that readers ignore, then renamed.
//!
//! Parquet's four magic bytes are followed by eight of ours, `iowhy1\0\0`, and the XXH64 of the
//! rest of the file. Parquet finds everything from the end of the file, so other readers never see
//! them. With this checksum a damaged segment is an ordinary error: Parquet's own checksums do not
//! cover the footer and the page headers, and a library that reads a wrong length there may
//! allocate any amount of memory before it fails.
//!
//! What does not belong here: when a segment ends (see [`super::writer`]), and rows.

use super::chunk::Encoder;
use super::error::ErrorCause;
use super::schema::{schema, sentences};
use super::tables::TableInfo;
use crate::Names;
use crate::table::Columns;
use iowhy_fs::{Folder, PRIVATE_FILE};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use twox_hash::XxHash64;

const MAGIC: &[u8; 4] = b"PAR1";
const TAG: &[u8; 8] = b"iowhy1\0\0";
/// Offsets of the checksum and of the bytes that it covers.
const CHECKSUM: usize = MAGIC.len() + TAG.len();
const COVERED: usize = CHECKSUM + size_of::<u64>();

/// The name of segment `number` of any table.
pub(super) fn file_name(number: u32) -> String {
    format!("{number:08}.parquet")
}

/// The name of a segment until it is whole. A leading dot: neither a shell's or DuckDB's
/// `*.parquet` nor pandas takes it for a segment.
fn partial_name(number: u32) -> String {
    format!(".{}.partial", file_name(number))
}

/// Returns the number of the segment that has this name; `None` if it is no segment.
pub(super) fn number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".parquet")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// A segment that is being written to a file. Dropped before [`Segment::publish`], it leaves no
/// file.
pub(super) struct Segment {
    body: SegmentBody<BufWriter<File>>,
    /// The directory of its table.
    folder: Folder,
    number: u32,
    is_whole: bool,
}

impl Segment {
    /// Opens segment `number` of `table` in the recording `recording`.
    pub(super) fn create(
        recording: &Folder,
        table: &TableInfo,
        number: u32,
    ) -> Result<Segment, ErrorCause> {
        let (mut segment, file) = Segment::open(recording, table, number)?;
        segment.body.begin(BufWriter::with_capacity(64 << 10, file), table)?;
        Ok(segment)
    }

    /// Writes segment `number` of `table` in the recording `recording`, all of which was written
    /// to memory.
    pub(super) fn copy(
        recording: &Folder,
        table: &TableInfo,
        number: u32,
        bytes: &[u8],
    ) -> Result<(), ErrorCause> {
        let (segment, mut file) = Segment::open(recording, table, number)?;
        file.write_all(bytes)?;
        segment.publish()
    }

    fn open(recording: &Folder, table: &TableInfo, number: u32) -> io::Result<(Segment, File)> {
        let folder = recording.folder(table.name)?;
        let file = folder.create(partial_name(number), PRIVATE_FILE)?;
        Ok((Segment { body: SegmentBody::default(), folder, number, is_whole: false }, file))
    }

    /// Adds `columns`' rows as one row group.
    pub(super) fn add(
        &mut self,
        columns: &Columns,
        table: &TableInfo,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), ErrorCause> {
        self.body.add(columns, table, names, encoder)
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> usize {
        self.body.bytes()
    }

    /// Writes the footer and the checksum.
    ///
    /// Nothing is synced: that would make the disk that is watched wait for the watch. After a
    /// crash of the machine, not of iowhy, the last half minute may be missing.
    pub(super) fn finish(&mut self) -> Result<(), ErrorCause> {
        self.body.finish().map(drop)
    }

    /// Gives a finished segment its name.
    pub(super) fn publish(mut self) -> Result<(), ErrorCause> {
        self.folder.rename(partial_name(self.number), &self.folder, file_name(self.number))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.body.writer = None;
        if !self.is_whole {
            // The file is of no use; that it cannot be removed changes nothing.
            let _ = self.folder.remove_file(partial_name(self.number));
        }
    }
}

/// The body of a segment, written to a file or to memory.
pub(super) struct SegmentBody<W: Write + Seek + Send> {
    writer: Option<SerializedFileWriter<HashedSink<W>>>,
}

impl<W: Write + Seek + Send> Default for SegmentBody<W> {
    fn default() -> Self {
        SegmentBody { writer: None }
    }
}

impl<W: Write + Seek + Send> SegmentBody<W> {
    /// Writes the bytes before the rows.
    pub(super) fn begin(&mut self, sink: W, table: &TableInfo) -> Result<(), ErrorCause> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("iowhy ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(sentences(table)))
            .set_offset_index_disabled(true)
            .build();
        let sink = HashedSink { sink, hash: XxHash64::with_seed(0), written: 0 };
        let mut writer = SerializedFileWriter::new(sink, schema(table)?, Arc::new(properties))?;
        writer.write_all(TAG)?;
        writer.write_all(&[0; size_of::<u64>()])?;
        self.writer = Some(writer);
        Ok(())
    }

    /// Adds `columns`' rows as one row group.
    pub(super) fn add(
        &mut self,
        columns: &Columns,
        table: &TableInfo,
        names: &Names,
        encoder: &mut Encoder,
    ) -> Result<(), ErrorCause> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let descriptions = writer.schema_descr().columns().to_vec();
        let mut group = writer.next_row_group()?;
        let columns_with_rows = columns.columns().iter().zip(table.columns).zip(&descriptions);
        for ((column, info), description) in columns_with_rows {
            let (bytes, close) = encoder.chunk(column, info.kind, names, description)?;
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        Ok(())
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> usize {
        self.writer.as_ref().map_or(0, SerializedFileWriter::bytes_written)
    }

    /// Writes the footer and the checksum, and returns the sink; `None` if that was done.
    pub(super) fn finish(&mut self) -> Result<Option<W>, ErrorCause> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let mut sink = writer.into_inner()?;
        sink.finish()?;
        Ok(Some(sink.sink))
    }
}

/// A sink that hashes the bytes on the way.
struct HashedSink<W> {
    sink: W,
    hash: XxHash64,
    written: usize,
}

impl<W: Write + Seek> HashedSink<W> {
    fn finish(&mut self) -> io::Result<()> {
        self.sink.seek(SeekFrom::Start(CHECKSUM as u64))?;
        self.sink.write_all(&self.hash.finish().to_le_bytes())?;
        self.sink.flush()
    }
}

impl<W: Write> Write for HashedSink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        let uncovered = COVERED.saturating_sub(self.written);
        self.hash.write(bytes.get(uncovered..count).unwrap_or_default());
        self.written += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Whether `file` is as it was written. A Parquet file without a checksum of ours, which another
/// program wrote, is taken as it is.
pub(super) fn is_whole(mut file: impl Read) -> io::Result<bool> {
    let mut head = Vec::new();
    file.by_ref().take(COVERED as u64).read_to_end(&mut head)?;
    let Some(tail) = head.strip_prefix(MAGIC) else { return Ok(false) };
    let Some(sum) = tail.strip_prefix(TAG) else { return Ok(true) };
    let mut hash = XxHash64::with_seed(0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finish().to_le_bytes() == sum),
            count => hash.write(buffer.get(..count).unwrap_or_default()),
        }
    }
}
