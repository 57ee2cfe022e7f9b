//! Older recordings and later additions can be read, and the reference page agrees with the code.

use super::rows::{HOSTILE, RowRandom, batch};
use super::shown::shown;
use super::{environment, place, read, write};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use iowhy_model::recording::reference;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Names};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rewrites the requests of a recording as another program would, without their checksum.
fn rewritten(change: impl FnOnce(Vec<(String, ArrayRef)>) -> Vec<(String, ArrayRef)>) -> Rewritten {
    rewritten_with(WriterProperties::default(), change)
}

fn rewritten_with(
    properties: WriterProperties,
    change: impl FnOnce(Vec<(String, ArrayRef)>) -> Vec<(String, ArrayRef)>,
) -> Rewritten {
    let mut names = Names::new();
    let (parent, directory) = place();
    let batch = batch(50, &mut RowRandom(53), &mut names);
    write(&directory, std::slice::from_ref(&batch), &names);
    let path = directory.join("requests/00000001.parquet");
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let found = builder.build().unwrap().next().unwrap().unwrap();
    let fields =
        found.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let columns = fields.into_iter().zip(found.columns().iter().cloned()).collect();
    // Every column may be null in what other programs write.
    let columns = change(columns).into_iter().map(|(name, column)| (name, column, true));
    let changed = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, changed.schema(), Some(properties)).unwrap();
    writer.write(&changed).unwrap();
    writer.close().unwrap();
    let read = read(&directory).map_err(|error| error.to_string());
    Rewritten { written: shown(&batch, &names), batch, read, path, _parent: parent }
}

struct Rewritten {
    written: Vec<(&'static str, Vec<String>)>,
    batch: Batch,
    read: Result<(Batch, Names, Environment), String>,
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl Rewritten {
    fn reads_the_same(&self) {
        let (found, names, end) = self.read.as_ref().unwrap();
        assert_eq!(shown(found, names), self.written);
        assert_eq!(end.losses.items, []);
    }

    fn fails_with(&self, why: &str) {
        let expected = format!("failed to read {}: {why}", self.path.display());
        assert_eq!(self.read.as_ref().map(|_| ()), Err(&expected));
    }
}

#[test]
fn a_segment_that_another_program_rewrote_reads_the_same() {
    rewritten(|columns| columns).reads_the_same();
    rewritten(|columns| columns.into_iter().rev().collect()).reads_the_same();
}

#[test]
fn the_codecs_and_pages_of_other_programs_are_read() {
    for codec in [Compression::SNAPPY, Compression::ZSTD(Default::default())] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .build();
            rewritten_with(properties, |columns| columns).reads_the_same();
        }
    }
}

#[test]
fn columns_that_came_later_are_passed_over() {
    rewritten(|mut columns| {
        columns.insert(3, ("later".to_owned(), Arc::new(Int64Array::from(vec![7; 50]))));
        columns
    })
    .reads_the_same();
}

#[test]
fn a_smaller_integer_is_an_integer() {
    let rewritten = rewritten(|mut columns| {
        let cpu = columns.iter_mut().find(|(name, _)| name == "cpu").unwrap();
        cpu.1 = Arc::new(Int32Array::from(vec![5; 50]));
        columns
    });
    let (found, ..) = rewritten.read.unwrap();
    assert!(found.requests.iter().all(|request| request.cpu == 5));
}

#[test]
fn a_column_that_may_be_null_may_be_missing() {
    let rewritten = rewritten(|mut columns| {
        columns.retain(|(name, _)| name != "pid" && name != "container");
        columns
    });
    let (found, ..) = rewritten.read.unwrap();
    assert_eq!(found.requests.len(), rewritten.batch.requests.len());
    assert!(found.requests.iter().all(|r| r.pid.is_none() && r.container.is_none()));
}

#[test]
fn a_column_that_every_row_needs_must_be_there() {
    rewritten(|mut columns| {
        columns.retain(|(name, _)| name != "device");
        columns
    })
    .fails_with("the column device is missing");
    rewritten(|mut columns| {
        let device = columns.iter_mut().find(|(name, _)| name == "device").unwrap();
        device.1 = Arc::new(Int64Array::from(vec![5; 50]));
        columns
    })
    .fails_with("the column device holds Int64, not VARCHAR");
}

/// Reads the requests of a recording under other names, each of them with all rows; returns the
/// number of rows.
fn renamed(names: &[&str], is_own_kept: bool) -> Result<usize, String> {
    let mut texts = Names::new();
    let (_parent, directory) = place();
    write(&directory, &[batch(50, &mut RowRandom(53), &mut texts)], &texts);
    let own = directory.join("requests/00000001.parquet");
    for name in names {
        let copy = own.with_file_name(name);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&own, copy).unwrap();
    }
    if !is_own_kept {
        fs::remove_file(own).unwrap();
    }
    // Parts are those of requests in the same round.
    fs::remove_dir_all(directory.join("request_parts")).unwrap();
    read(&directory).map(|(found, ..)| found.requests.len()).map_err(|error| error.to_string())
}

#[test]
fn files_that_other_programs_named_are_read() {
    for name in ["data_0.parquet", "part-00000-5b2a.c000.snappy.parquet", "1.parquet"] {
        assert_eq!(renamed(&[name], false), Ok(50), "{name}");
    }
    assert_eq!(renamed(&["data_0.parquet", "data_1.parquet"], false), Ok(100));
    for hidden in [".part-0.parquet", "_tmp.parquet", "part-0.parquet.crc", "_SUCCESS"] {
        assert_eq!(renamed(&[hidden], true), Ok(50), "{hidden}");
    }
    let both = renamed(&["filtered.parquet"], true).unwrap_err();
    assert!(both.contains("filtered.parquet of another program"), "{both}");
}

#[test]
fn folders_that_other_programs_made_are_read_or_refused() {
    assert_eq!(renamed(&["x/data_0.parquet"], false), Ok(50));
    assert_eq!(renamed(&["x/data_0.parquet", "x/y/data_1.parquet", "2.parquet"], false), Ok(150));
    assert_eq!(renamed(&["_temporary/0/part-0.parquet", ".x/part-0.parquet"], true), Ok(50));
    let both = renamed(&["x/00000001.parquet"], true).unwrap_err();
    assert!(both.contains("x/00000001.parquet of another program"), "{both}");
    for (name, why) in [
        ("operation=read/data_0.parquet", "operation=read is not read: the values of a column"),
        ("x/operation=read/part-0.parquet", "x/operation=read is not read"),
        ("1/2/3/4/5/6/7/8/9/10/a.parquet", "too many folders"),
    ] {
        let refused = renamed(&[name], false).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn rows_that_cannot_be_understood_are_counted() {
    let rewritten = rewritten(|mut columns| {
        let bytes = columns.iter_mut().find(|(name, _)| name == "cpu").unwrap();
        let values = (0..50).map(|row| if row % 5 == 0 { -1 } else { row });
        bytes.1 = Arc::new(Int64Array::from_iter_values(values));
        columns
    });
    let (found, _, end) = rewritten.read.unwrap();
    assert_eq!((found.requests.len(), end.losses.requests()), (40, 10));
    let kept = rewritten.batch.requests_with_parts().enumerate().filter(|(row, _)| row % 5 != 0);
    let parts = kept.map(|(_, (_, parts))| parts.len()).sum::<usize>();
    assert_eq!(found.parts.len(), parts, "those of the other requests");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_reference_page_is_what_the_code_does() {
    let path = root().join("docs/recording.md");
    if std::env::var_os("IOWHY_BLESS").is_some() {
        fs::create_dir_all(root().join("docs")).unwrap();
        fs::write(&path, reference()).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(page == reference(), "docs/recording.md is old: run this test with IOWHY_BLESS=1");
}

/// Recordings of each format as they were written when it was new. They are never written again:
/// a change of the format adds a directory and keeps these readable.
#[test]
fn frozen_recordings_stay_readable() {
    for format in ["format-1"] {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(format);
        freeze(&place);
        let (found, names, end) = read(&place.join("recording")).unwrap();
        assert_eq!(end.losses.items, []);
        assert_eq!(end.devices.first().map(|device| device.name.as_str()), Some("sda"));
        let now: Vec<String> = lines(&found, &names).collect();
        let then = fs::read_to_string(place.join("cells.txt")).unwrap();
        assert!(then.lines().count() > 500);
        for cell in then.lines() {
            assert!(now.iter().any(|now| now == cell), "{format}: {cell}");
        }
    }
}

fn lines(batch: &Batch, names: &Names) -> impl Iterator<Item = String> {
    let tables = shown(batch, names).into_iter();
    tables.flat_map(|(table, cells)| cells.into_iter().map(move |cell| format!("{table} {cell}")))
}

/// Writes the frozen recording of a new format, once.
fn freeze(place: &Path) {
    if place.exists() {
        return;
    }
    fs::create_dir_all(place).unwrap();
    let (mut random, mut names) = (RowRandom(59), Names::new());
    HOSTILE.iter().for_each(|text| _ = names.intern(text));
    let batches = [batch(6, &mut random, &mut names), batch(4, &mut random, &mut names)];
    write(&place.join("recording"), &batches, &names);
    let (found, found_names, _) = read(&place.join("recording")).unwrap();
    let cells: Vec<String> = lines(&found, &found_names).collect();
    fs::write(place.join("cells.txt"), cells.join("\n") + "\n").unwrap();
    assert_eq!(environment().devices.len(), 1);
}
