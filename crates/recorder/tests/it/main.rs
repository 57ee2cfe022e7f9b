//! The recorder over days of scripted time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic, in its helpers too, and says what it skips"
)]

mod causes;
mod configuration;
mod day;
mod full;
mod host;
mod month;
mod storage;
mod trouble;
mod writers;
