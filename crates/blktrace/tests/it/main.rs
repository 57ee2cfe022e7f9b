//! The crate's integration tests, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod blktrace;
#[path = "../../../analysis/tests/it/formats/exported.rs"]
mod exported;
mod fuzzed;
mod iolog;
