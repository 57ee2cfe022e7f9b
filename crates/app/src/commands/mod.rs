//! A module for each command.

pub mod blame;
pub mod chains;
pub mod check;
pub mod diff;
pub mod events;
pub mod explain;
pub mod export;
pub mod import;
pub mod locate;
pub mod opens;
pub mod plot;
pub mod probe;
pub mod record;
pub mod report;
pub mod snoop;
pub mod stages;
pub mod unprivileged;
pub mod views;
pub mod watch;
