//! Tests of the capture crate from outside.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "these are tests")]

mod aarch64;
mod aggregates;
mod priority;
