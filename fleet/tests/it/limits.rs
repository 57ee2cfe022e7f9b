//! Limits hold for any query, and a mistake in a command line is no success.

use crate::support::{directory, plan, program};
use datafusion::arrow::array::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the exit code and the output of a command that must end within a time.
fn ends(args: &[&str], within: Duration) -> (Option<i32>, String) {
    let begun = Instant::now();
    let mut command = program();
    let output = command.args(args).output().unwrap();
    assert!(begun.elapsed() < within, "{args:?} took {:?}", begun.elapsed());
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_in_time_and_within_its_memory() {
    let test = directory();
    plan(40, 2).write(&test.place).await.unwrap();
    let long = Duration::from_secs(30);
    for sql in
        ["SELECT repeat('x', 2000000000)", "SELECT COUNT(*) FROM generate_series(1, 100000000000)"]
    {
        let args = ["sql", sql, "--at", test.text(), "--timeout", "2s", "--memory-mb", "500"];
        let (code, text) = ends(&args, long);
        assert_ne!(code, Some(0), "{sql}: {}", text.len());
        let is_limit = text.contains("longer than 2 s") || text.contains("memory");
        assert!(is_limit || text.contains("larger than"), "{sql}: {text}");
    }
    let all = ["sql", "SELECT * FROM flows", "--at", test.text(), "--memory-mb", "1"];
    let (code, text) = ends(&all, long);
    assert!(code == Some(1) && text.contains("--memory-mb"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_no_success() {
    let test = directory();
    plan(5, 1).write(&test.place).await.unwrap();
    let nowhere = format!("{}/nowhere", test.text());
    let nowhere = nowhere.as_str();
    let long = Duration::from_secs(60);
    for (args, word) in [
        (vec!["compact", "--at", nowhere], "no such directory"),
        (vec!["status", "--at", nowhere], "no such directory"),
        (vec!["outliers", "--at", nowhere], "no such directory"),
        (vec!["push", "--at", test.text(), "--spool", nowhere], "--spool"),
        (vec!["diff", "--at", test.text(), "--kernel", "6.1", "6.2"], "6.1"),
        (vec!["top", "--at", test.text(), "--cluster", "127.0.0.1:1"], "df://"),
        (vec!["import", nowhere, "--at", test.text()], "nowhere"),
        (vec!["host", "nobody", "--at", test.text()], "--time"),
    ] {
        let (code, text) = ends(&args, long);
        assert!(code.is_some_and(|code| code != 0), "{args:?}: {text}");
        assert!(text.contains(word) && text.contains("hint") || word == "nowhere", "{text}");
    }
    let down = ["top", "--at", test.text(), "--cluster", "df://127.0.0.1:1"];
    let (code, text) = ends(&down, long);
    assert!(code == Some(75) && text.contains("scheduler"), "{code:?} {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_given_once() {
    let test = directory();
    crate::support::half_sick(200, 8).write(&test.place).await.unwrap();
    let state = test.folder.path().join("state.json");
    let metrics = test.folder.path().join("fleet.prom");
    let (state, metrics) = (state.to_str().unwrap(), metrics.to_str().unwrap());
    let args = ["outliers", "--at", test.text(), "--exit-code", "--since-last", state];
    let args = [&args[..], &["--openmetrics", metrics]].concat();
    let (code, text) = ends(&args, Duration::from_secs(60));
    assert_eq!(code, Some(10), "{text}");
    let written = std::fs::read_to_string(metrics).unwrap();
    assert!(written.contains("iowhy_fleet_slow_drive_ratio{host=\"") && written.contains("# EOF"));
    let (code, text) = ends(&args, Duration::from_secs(60));
    assert!(code == Some(0) && text.contains("0 new since the last time"), "{code:?} {text}");
    assert_eq!(std::fs::read_to_string(metrics).unwrap(), written);
}

/// Writes a Parquet file of two kilobytes whose every row names a text of 65,000 bytes in eight
/// columns.
fn packed(path: &Path) {
    use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringArray};
    let rows = 8192;
    let text: ArrayRef = Arc::new(StringArray::from(vec!["A".repeat(65_000)]));
    let keys = datafusion::arrow::array::Int32Array::from(vec![0; rows]);
    let packed: ArrayRef = Arc::new(DictionaryArray::new(keys, text));
    let number = |value: i64| Arc::new(Int64Array::from(vec![value; rows])) as ArrayRef;
    let numbers = [("time", 1_763_942_415), ("requests", 10), ("latency_ms", 1)];
    let texts = ["host", "device", "model", "firmware", "serial", "rack", "kernel", "operation"];
    let columns = numbers.map(|(name, value)| (name, number(value)));
    let columns = columns.into_iter().chain(texts.map(|name| (name, Arc::clone(&packed))));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap());
    let properties = WriterProperties::builder().set_compression(zstd);
    let properties = properties.set_statistics_enabled(EnabledStatistics::None).build();
    let options = ArrowWriterOptions::new().with_properties(properties);
    let options = options.with_skip_arrow_metadata(true);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(std::fs::metadata(path).unwrap().len() < 20_000);
}

#[test]
fn a_file_of_some_kilobytes_takes_little_memory_to_import() {
    let test = directory();
    let bomb = test.folder.path().join("bomb.parquet");
    packed(&bomb);
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        "ulimit -v 1500000; exec \"$@\"",
        "sh",
        program().get_program().to_str().unwrap(),
    ]);
    let at = test.folder.path().join("store");
    let output = command.arg("import").arg(&bomb).arg("--at").arg(at).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // No name is as long as these.
    assert!(output.status.code() == Some(1) && said.contains("no sample"), "{said}");
}

#[test]
fn names_of_files_move_no_cursor() {
    let test = directory();
    let name = test.folder.path().join("a\x1b[31mRED\u{9b}.csv");
    std::fs::write(&name, "x\n1\n").unwrap();
    let at = test.folder.path().join("store");
    let output = program().arg("import").arg(&name).arg("--at").arg(at).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("RED") && !said.contains(['\x1b', '\u{9b}']), "{said:?}");
}
