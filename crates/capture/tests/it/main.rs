//! Tests of the capture crate from outside, without a kernel.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

mod aarch64;
