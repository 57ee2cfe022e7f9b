//! User names, from /etc/passwd only: a query to a directory service could block on the network.

use rustc_hash::FxHashMap;

/// The users in /etc/passwd.
#[derive(Clone, Debug, Default)]
pub struct Users {
    names: FxHashMap<u32, String>,
}

impl Users {
    /// Reads /etc/passwd; empty if it cannot be read.
    pub fn read() -> Users {
        let text = super::read_text("/etc/passwd").unwrap_or_default();
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        };
        Users { names: text.lines().filter_map(entry).collect() }
    }

    /// The name of the user, or the number if it has none.
    pub fn name(&self, user: u32) -> String {
        self.names.get(&user).cloned().unwrap_or_else(|| user.to_string())
    }
}
