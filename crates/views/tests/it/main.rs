//! Screens and JSON of watches whose right answers are known.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic, in its helpers too")]

mod alike;
mod diff;
mod intervals;
mod json;
mod page;
mod recordings;
mod redact;
mod scenes;
mod schema;
mod screens;
mod stages;
mod top;
