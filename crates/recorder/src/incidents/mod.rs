//! Incidents: the minutes around a trigger, kept on disk.
//!
//! | where | what |
//! |---|---|
//! | [`policy`] | which trigger begins an incident, and when it ends: pure |
//! | [`retention`] | which incidents make room for others: pure |
//! | [`record`] | what is known of an incident: `incident.json` |
//! | [`page`] | the diagnosis of an incident, as JSON and as a page |
//! | [`store`] | the directory of incidents |
//!
//! What does not belong here: the recording inside an incident.

pub mod page;
pub mod policy;
pub mod record;
pub mod retention;
pub mod store;
