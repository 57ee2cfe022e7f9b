//! The programs that cause a file system's journal and metadata writes. Kernel threads write them,
//! for all programs together; so they are shared out by the calls of programs on that device.
//!
//! A sync ends a transaction: its descriptor, the file's inode and the commit block. Names that
//! change and files that grow are in transactions that end by themselves every few seconds. The
//! shares are estimates; `share` is the only one.
//!
//! What does not belong here: which process a request is charged to.

use super::WriterId;
use iowhy_analysis::summary::AskedCalls;
use iowhy_model::compact_sort::CompactSort;
use std::collections::HashMap;

/// Blocks of a transaction that a sync ends: descriptor, inode, commit.
const SYNC_BLOCKS: f64 = 3.0;
/// Blocks of a name that changes, which others of its directory share.
const NAME_BLOCKS: f64 = 1.0;
/// Transactions that end by themselves in ten seconds, each with the inodes of files written.
const MOST_COMMITS: u64 = 2;
/// The weight of the previous ten seconds: blocks are written up to half a minute later.
const FADES: f64 = 0.5;
/// Blocks of a program below which it is forgotten.
const LEAST: f64 = 0.01;
/// Programs that are remembered.
const MOST_KNOWN: usize = 4096;

/// Returns the blocks that a file system writes of its own for these calls.
fn blocks(calls: &AskedCalls) -> f64 {
    let commits = calls.writes.min(MOST_COMMITS) as f64;
    calls.syncs as f64 * SYNC_BLOCKS + calls.name_changes as f64 * NAME_BLOCKS + commits
}

/// The recent calls of programs, in blocks.
#[derive(Clone, Debug, Default)]
pub struct RecentCalls {
    recent: HashMap<WriterId, f64>,
}

impl RecentCalls {
    /// Begins another ten seconds.
    pub fn fade(&mut self) {
        self.recent.retain(|_, blocks| {
            *blocks *= FADES;
            *blocks > LEAST
        });
    }

    /// Adds the calls of the current ten seconds.
    pub fn note(&mut self, id: &WriterId, calls: &AskedCalls) {
        self.note_blocks(id, blocks(calls));
    }

    /// Adds requests that wrote the data of a file, if calls were not counted: a program that syncs
    /// each append has a request for each sync.
    pub fn note_requests(&mut self, id: &WriterId, requests: u64) {
        self.note_blocks(id, requests as f64);
    }

    fn note_blocks(&mut self, id: &WriterId, blocks: f64) {
        if blocks <= 0.0 || id.device.is_empty() {
            return;
        }
        if let Some(known) = self.recent.get_mut(id) {
            *known += blocks;
        } else if self.recent.len() < MOST_KNOWN {
            self.recent.insert(id.clone(), blocks);
        }
    }

    /// Shares a number of `device` out, without a remainder; nothing if no program is known.
    pub fn share(&self, device: &str, whole: u64) -> Vec<(WriterId, u64)> {
        let mut own: Vec<(&WriterId, f64)> = self
            .recent
            .iter()
            .filter(|(id, _)| id.device == device)
            .map(|(id, blocks)| (id, *blocks))
            .collect();
        own.compact_sort_by(|a, b| a.0.cmp(b.0));
        let total: f64 = own.iter().map(|(_, blocks)| blocks).sum();
        let (mut before, mut given) = (0.0, 0);
        let last = own.len().saturating_sub(1);
        own.iter()
            .enumerate()
            .map(|(place, (id, blocks))| {
                before += blocks;
                let until = match place == last {
                    true => whole,
                    false => ((whole as f64 * (before / total)) as u64).min(whole),
                };
                let share = until.saturating_sub(given);
                given = until;
                ((*id).clone(), share)
            })
            .collect()
    }

    /// Returns the program with most blocks on a device.
    pub fn most(&self, device: &str) -> Option<&WriterId> {
        let own = self.recent.iter().filter(|(id, _)| id.device == device);
        own.max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0))).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(program: &str) -> WriterId {
        WriterId { program: program.to_owned(), device: "sda".to_owned(), ..WriterId::default() }
    }

    fn shares(recent: &RecentCalls, whole: u64) -> Vec<(String, u64)> {
        recent.share("sda", whole).into_iter().map(|(id, share)| (id.program, share)).collect()
    }

    #[test]
    fn who_syncs_causes_the_journal_and_it_fades() {
        let mut recent = RecentCalls::default();
        let calls = AskedCalls { writes: 10, syncs: 10, ..AskedCalls::default() };
        recent.note(&id("logger"), &calls);
        recent.note(&id("cp"), &AskedCalls { writes: 5_000, ..AskedCalls::default() });
        let named = |list: &[(&str, u64)]| {
            list.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect::<Vec<_>>()
        };
        assert_eq!(shares(&recent, 34_001), named(&[("cp", 2_000), ("logger", 32_001)]));
        assert_eq!(recent.most("sda").map(|id| id.program.as_str()), Some("logger"));
        assert_eq!(recent.share("sdb", 10), []);
        (0..20).for_each(|_| recent.fade());
        assert_eq!(shares(&recent, 10), named(&[]));
    }
}
