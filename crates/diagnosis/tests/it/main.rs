//! The crate's integration tests, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bounds;
mod incidents;
mod labs;
mod pairs;
mod sampled;

/// Whether the table of a page of `docs`, between two marks with this word, is what the code says;
/// with IOWHY_BLESS=1 it is written anew.
fn table_is_current(page: &str, word: &str, table: &str) {
    let start =
        format!("<!-- {word}: generated, run the test of this table with IOWHY_BLESS=1 -->");
    let end = format!("<!-- {word}: end -->");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&start).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    let wanted = format!("{before}{start}\n\n{table}\n{end}{after}");
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(text == wanted, "docs/{page} is old: run this test with IOWHY_BLESS=1");
}
