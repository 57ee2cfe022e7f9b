//! Screens and JSON of watches whose right answers are known.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod diff;
mod json;
mod plots;
mod scenes;
mod screens;
