//! Progress of reading a file system, for those who show it meanwhile from another thread.
//!
//! What does not belong here: showing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Inodes that were read so far, and how many there are. Clones share their numbers.
#[derive(Clone, Debug, Default)]
pub struct IndexProgress(Arc<[AtomicU64; 2]>);

impl IndexProgress {
    /// A file system with that many inodes in use begins; 0 where the number is not known.
    pub(super) fn begin(&self, inodes: u64) {
        let [done, total] = &*self.0;
        done.store(0, Ordering::Relaxed);
        total.store(inodes, Ordering::Relaxed);
    }

    /// More inodes were read.
    pub(super) fn add(&self, inodes: u64) {
        self.0[0].fetch_add(inodes, Ordering::Relaxed);
    }

    /// Inodes that were read.
    pub fn done(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Inodes of the file system; `None` where the number is not known, as on btrfs, or was
    /// exceeded.
    pub fn total(&self) -> Option<u64> {
        let total = self.0[1].load(Ordering::Relaxed);
        (total > 0 && total >= self.done()).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_sees_what_was_read() {
        let progress = IndexProgress::default();
        let seen = progress.clone();
        progress.begin(10);
        progress.add(4);
        assert_eq!((seen.done(), seen.total()), (4, Some(10)));
        progress.add(7);
        assert_eq!((seen.done(), seen.total()), (11, None));
        progress.begin(0);
        assert_eq!((seen.done(), seen.total()), (0, None));
    }
}
