//! A module for each command.

pub mod check;
pub mod record;
pub mod report;
pub mod watch;
