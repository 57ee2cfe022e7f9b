//! Tests of the capture crate from outside.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "these are tests")]

mod aarch64;
mod aggregates;
#[path = "../../compile.rs"]
#[allow(dead_code, reason = "build.rs needs all of it")]
mod compile;
#[path = "../../examples/objects/loops.rs"]
#[allow(dead_code, reason = "the example reads objects with it")]
mod loops;
mod loops_of_old_kernels;
mod pointers;
mod priority;
#[path = "../../examples/objects/stack.rs"]
#[allow(dead_code, reason = "the example reads objects with it")]
mod stack;
mod stack_of_old_kernels;
