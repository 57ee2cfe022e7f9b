//! A module for each command.

pub mod blame;
pub mod chains;
pub mod check;
pub mod completions;
pub mod daemon;
pub mod diff;
pub mod events;
pub mod explain;
pub mod export;
pub mod history;
pub mod import;
pub mod incidents;
pub mod locate;
pub mod manual;
pub mod opens;
pub mod page;
pub mod probe;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod schema;
pub mod snoop;
pub mod stages;
pub mod top;
pub mod views;
pub mod watch;
