//! Kinds of work in a summary.
//!
//! What does not belong here: how a kind is decided (`waits::work`).

use serde::Serialize;

/// For whom a process works.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    /// For clients, or for a process that works for clients.
    Serving,
    /// For somebody who waits for its result.
    Foreground,
    /// Nobody waits for it.
    Background,
}

impl WorkKind {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            WorkKind::Serving => "serving",
            WorkKind::Foreground => "foreground",
            WorkKind::Background => "background",
        }
    }
}

/// The kind of work of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// For whom it works.
    pub kind: WorkKind,
    /// Why, as half a sentence.
    pub reason: String,
}

impl Work {
    /// Whether somebody waits for it.
    pub fn is_waited_for(&self) -> bool {
        self.kind != WorkKind::Background
    }
}
