//! The server as a client sees it: the SDK's own client over the server's standard input and
//! output.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests may")]

mod client;
mod hostile;
mod tools;
