//! The crate's integration tests, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod formats;
mod intervals;
#[path = "../../../model/tests/it/python.rs"]
mod python;
#[path = "../../../model/tests/it/recording/rows.rs"]
mod rows;
mod weights;
