//! The subject of a finding: who and what it is about.

use serde::Serialize;

/// Who and what it is about; what is not known or does not apply is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subject {
    /// The block device.
    pub device: Option<String>,
    /// The process that causes it.
    pub process: Option<String>,
    /// Its number.
    pub pid: Option<u32>,
    /// Its container or systemd unit.
    pub container: Option<String>,
    /// The file, or a pattern of files.
    pub file: Option<String>,
}
