//! A module for each command.

pub mod check;
pub mod export;
pub mod locate;
pub mod plot;
pub mod record;
pub mod report;
mod unprivileged;
pub mod watch;
