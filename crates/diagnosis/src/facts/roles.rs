//! Roles of written files, by the programs table, and the time of these writes.
//!
//! What does not belong here: which files are whose ([`crate::programs`]).

use super::Facts;
use crate::programs::{self, FileRole};
use crate::words;
use iowhy_analysis::summary::Direction;

/// Writes to files of certain roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleWrites {
    /// Time of the requests that wrote them, nanoseconds.
    pub time_ns: u64,
    /// The role with most of this time.
    pub role: FileRole,
    /// The common pattern of that role's files.
    pub file: Option<String>,
}

impl Facts<'_> {
    /// Returns the writes to files of `process` that have one of the roles; `None` if there are
    /// none.
    pub fn written(&self, process: &str, roles: &[FileRole]) -> Option<RoleWrites> {
        let rows = self.summary.files.rows.iter();
        let files = rows.filter_map(|row| {
            let time_ns = row.usage.directions[Direction::Write].time_ns;
            let role = programs::role_of(Some(process), &row.subject.file)?;
            (time_ns > 0).then_some((role, &*row.subject.file, time_ns))
        });
        let files: Vec<(FileRole, &str, u64)> =
            files.filter(|file| roles.contains(&file.0)).collect();
        let sum = |role: FileRole| -> u64 {
            files.iter().filter(|file| file.0 == role).map(|(.., time_ns)| time_ns).sum()
        };
        let role = *roles.iter().max_by_key(|role| sum(**role))?;
        let names: Vec<&str> =
            files.iter().filter(|file| file.0 == role).map(|file| file.1).collect();
        let time_ns = files.iter().map(|(.., time_ns)| time_ns).sum();
        (time_ns > 0).then(|| RoleWrites { time_ns, role, file: words::pattern(&names) })
    }
}
