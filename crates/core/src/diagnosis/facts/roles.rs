//! What the files that were written are for, by the table of programs.
//!
//! What does not belong here: which files are whose ([`crate::diagnosis::programs`]).

use super::Facts;
use crate::analysis::Direction;
use crate::diagnosis::programs::{self, Role};
use crate::diagnosis::words;

/// Files of some roles, and what was written into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of requests that wrote them.
    pub bytes: u64,
    /// What the role of most of these bytes is.
    pub role: Role,
    /// What the names of that role's files have in common.
    pub file: Option<String>,
}

impl Facts<'_> {
    /// What was written into files that have one of the roles where they are `process`'s; `None` where
    /// there are none.
    pub fn written(&self, process: &str, roles: &[Role]) -> Option<Written> {
        let rows = self.summary.files.rows.iter();
        let files = rows.filter_map(|row| {
            let bytes = row.usage.directions[Direction::Write].bytes;
            let role = programs::role_of(Some(process), &row.subject.file)?;
            (bytes > 0).then_some((role, &*row.subject.file, bytes))
        });
        let files: Vec<(Role, &str, u64)> = files.filter(|it| roles.contains(&it.0)).collect();
        let sum = |role: Role| -> u64 {
            files.iter().filter(|it| it.0 == role).map(|(.., bytes)| bytes).sum()
        };
        let role = *roles.iter().max_by_key(|role| sum(**role))?;
        let names: Vec<&str> = files.iter().filter(|it| it.0 == role).map(|it| it.1).collect();
        let bytes = files.iter().map(|(.., bytes)| bytes).sum();
        (bytes > 0).then(|| Written { bytes, role, file: words::pattern(&names) })
    }
}
