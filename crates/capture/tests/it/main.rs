//! Tests of the capture crate from outside.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "these are tests")]

mod aarch64;
mod aggregates;
#[path = "../../compile.rs"]
#[allow(dead_code, reason = "build.rs needs all of it")]
mod compile;
mod pointers;
mod priority;
