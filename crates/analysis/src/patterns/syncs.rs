//! Waits of programs' threads to make data durable, over the watch and by device.
//!
//! What does not belong here: the processes (see [`super::waiting`]).

use super::timeline::{BIN_NS, BINS};
use crate::summary::Measure;
use crate::summary::patterns::{SyncBin, SyncTimeline};
use iowhy_model::{Name, Names, Wait, WaitClass};
use rustc_hash::FxHashMap;

/// Maximum number of devices.
const DEVICES: usize = 64;

/// Adds up waits as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncTally {
    devices: FxHashMap<Name, SyncTimeline>,
}

impl SyncTally {
    pub fn add(&mut self, wait: &Wait, start_ns: u64) {
        let syncs = matches!(wait.class, WaitClass::Fsync | WaitClass::JournalCommit);
        let Some(device) = wait.device.filter(|_| syncs && !wait.kernel_thread && start_ns > 0)
        else {
            return;
        };
        if self.devices.len() >= DEVICES && !self.devices.contains_key(&device) {
            return;
        }
        let ended_ns = wait.start_ns.saturating_add(wait.duration_ns);
        let Measure { count, time_ns, .. } = Measure::for_wait(wait, wait.duration_ns);
        let waited = SyncBin { waits: count, time_ns };
        let line = self.devices.entry(device).or_default();
        add(line, ended_ns.saturating_sub(start_ns), waited);
    }

    /// The waits for a device.
    pub fn of(&self, device: &str, names: &Names) -> SyncTimeline {
        let found = self.devices.iter().find(|(name, _)| names.get(**name) == device);
        found.map(|(_, line)| line.clone()).unwrap_or_default()
    }
}

/// Adds a wait; bins become longer where it does not fit otherwise.
fn add(line: &mut SyncTimeline, since_ns: u64, wait: SyncBin) {
    if line.bin_ns == 0 {
        line.bin_ns = BIN_NS;
    }
    while (since_ns / line.bin_ns) as usize >= BINS {
        line.bins = line.coarser(line.bin_ns * 2).unwrap_or_default();
        line.bin_ns *= 2;
    }
    let at = (since_ns / line.bin_ns) as usize;
    if line.bins.len() <= at {
        line.bins.resize(at + 1, SyncBin::default());
    }
    if let Some(bin) = line.bins.get_mut(at) {
        *bin = bin.with(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_become_longer_with_the_watch() {
        let mut line = SyncTimeline::default();
        let wait = SyncBin { waits: 1, time_ns: 5 };
        for second in 0..100 {
            add(&mut line, second * 1_000_000_000, wait);
        }
        assert_eq!((line.bin_ns, line.bins.len()), (200_000_000, 496));
        let coarse = line.coarser(400_000_000).unwrap();
        assert_eq!(coarse.iter().map(|bin| bin.waits).sum::<u64>(), 100);
        assert_eq!(line.coarser(100_000_000), None);
        assert_eq!(line.coarser(300_000_000), None);
    }
}
