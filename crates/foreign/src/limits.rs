//! Limits of many files, each said once.
//!
//! What does not belong here: what the limits are (see [`crate::json`], [`crate::text`]).

use iowhy_model::figures::counted;
use std::collections::BTreeMap;

/// Different limits that are kept.
const MOST: usize = 64;

/// The limits of files, each with the number of files that have it.
#[derive(Debug, Default)]
pub(crate) struct FileLimits {
    files: BTreeMap<String, u64>,
    left_out: u64,
}

impl FileLimits {
    /// Adds the limits of one file.
    pub fn add(&mut self, limits: impl IntoIterator<Item = String>) {
        for limit in limits {
            if let Some(files) = self.files.get_mut(&limit) {
                *files += 1;
            } else if self.files.len() < MOST {
                self.files.insert(limit, 1);
            } else {
                self.left_out += 1;
            }
        }
    }

    /// Returns a sentence for each limit, with the number of files where it is not one.
    pub fn sentences(self) -> impl Iterator<Item = String> {
        let left_out = self.left_out;
        let said = self.files.into_iter().map(|(limit, files)| match files {
            1 => limit,
            _ => format!("{limit} ({})", counted(files, "files")),
        });
        said.chain((left_out > 0).then(|| counted(left_out, "further limits of files")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once_and_not_all_are_kept() {
        let mut limits = FileLimits::default();
        for number in 0..1_000 {
            limits.add(["common".to_owned(), format!("own {number}")]);
        }
        let said: Vec<String> = limits.sentences().collect();
        assert_eq!(said.len(), MOST + 1);
        assert_eq!(said[0], "common (1,000 files)");
        assert_eq!(said[MOST], "937 further limits of files");
    }
}
