//! Files that were created during the watch, until they are removed: how long they existed.
//!
//! What does not belong here: the rows of their creation and removal (see [`super::decode`]).

use iowhy_model::Name;
use iowhy_model::bounded_map::{CappedMap, RestartingMap};

/// Files created during the watch that still exist.
const MOST_CREATED: usize = 65_536;
/// Renames of which the second half has not arrived; those of a full map were lost.
const MOST_RENAMED: usize = 65_536;

/// Created files by path.
#[derive(Debug, Default)]
pub struct CreatedFiles {
    created: CappedMap<Name, Vec<u64>, MOST_CREATED>,
    /// New names by rename that have not been settled yet, by thread.
    renamed: RestartingMap<u32, Name, MOST_RENAMED>,
}

impl CreatedFiles {
    /// A file was created.
    pub fn add(&mut self, path: Name, created_ns: u64) {
        if let Some(times) = self.created.or_insert_with(path, Vec::new) {
            times.push(created_ns);
        }
    }

    /// Removes the file that had this path at `time_ns`, and returns when it was created.
    pub fn take(&mut self, path: Name, time_ns: u64) -> Option<u64> {
        let known = self.created.get_mut(&path)?;
        known.sort_unstable();
        let before = known.partition_point(|created| *created <= time_ns);
        let latest = known.drain(..before).next_back();
        if known.is_empty() {
            self.created.remove(&path);
        }
        latest
    }

    /// The first half of a rename by thread `tid`.
    pub fn begin_rename(&mut self, tid: u32, from: Name) {
        self.renamed.insert(tid, from);
    }

    /// The second half: the file goes on with another path.
    pub fn end_rename(&mut self, tid: u32, to: Name, time_ns: u64) {
        let from = self.renamed.remove(&tid);
        let created = from.and_then(|from| self.take(from, time_ns));
        if let Some(created_ns) = created {
            self.add(to, created_ns);
        }
    }

    /// Created files that were not kept.
    pub fn refused(&self) -> u64 {
        self.created.refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::Names;

    #[test]
    fn a_path_used_again_is_another_file_each_time() {
        let (mut names, mut files) = (Names::new(), CreatedFiles::default());
        let path = names.intern("/tmp/x");
        [10, 30, 50].into_iter().for_each(|created| files.add(path, created));
        assert_eq!(files.take(path, 20), Some(10));
        assert_eq!(files.take(path, 40), Some(30));
        assert_eq!(files.take(path, 45), None);
        assert_eq!(files.take(path, 60), Some(50));
        assert!(files.created.is_empty());
    }
}
