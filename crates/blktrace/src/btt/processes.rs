//! btt's processes: one per name. A pid without a name when it is first seen is called by its
//! number forever, and a name ends at its first `/`, so that all kworkers are one.

use super::figures::{Averages, BttActivity};
use iowhy_model::compact_sort::CompactSort;
use rustc_hash::FxHashMap;

/// A process.
#[derive(Clone, Debug)]
pub struct BttProcess {
    /// Its name.
    pub name: Vec<u8>,
    /// The samples of the bios that it queued.
    pub averages: Averages,
    /// The times at which it queued, and of completions while it ran.
    pub activity: BttActivity,
    /// Its last Q.
    pub last_queue: Option<u64>,
}

/// All processes.
#[derive(Debug, Default)]
pub struct BttProcesses {
    list: Vec<BttProcess>,
    pids: FxHashMap<u32, u32>,
    names: FxHashMap<Vec<u8>, u32>,
    last: Option<(u32, u32)>,
}

impl BttProcesses {
    /// Processes that are kept; more are aggregated into the last.
    const MAX: usize = 16 << 10;

    /// The process of `pid`.
    #[inline]
    pub fn of(&mut self, pid: u32) -> u32 {
        if let Some((known, index)) = self.last
            && known == pid
        {
            return index;
        }
        let index = match self.pids.get(&pid) {
            Some(index) => *index,
            None => self.add(pid, format!("pid{pid:09}").into_bytes()),
        };
        self.last = Some((pid, index));
        index
    }

    /// `pid` is called `name`, unless it has a name already.
    pub fn name(&mut self, pid: u32, name: &[u8]) {
        if !self.pids.contains_key(&pid) {
            let name = name.split(|byte| *byte == b'/').next().unwrap_or(&[]);
            self.add(pid, if pid == 0 { b"kernel".to_vec() } else { name.to_vec() });
        }
    }

    fn add(&mut self, pid: u32, name: Vec<u8>) -> u32 {
        let next = self.list.len();
        let index = match self.names.get(&name) {
            Some(index) => *index,
            None if next >= Self::MAX => (next - 1) as u32,
            None => {
                self.names.insert(name.clone(), next as u32);
                self.list.push(BttProcess {
                    name,
                    averages: Averages::default(),
                    activity: BttActivity::default(),
                    last_queue: None,
                });
                next as u32
            }
        };
        if self.pids.len() < 16 * Self::MAX {
            self.pids.insert(pid, index);
        }
        index
    }

    /// The process at `index`, which [`BttProcesses::of`] gave.
    #[inline]
    pub fn get(&mut self, index: u32) -> Option<&mut BttProcess> {
        self.list.get_mut(index as usize)
    }

    /// All processes by name.
    pub fn sorted(&self) -> Vec<&BttProcess> {
        let mut sorted: Vec<_> = self.list.iter().collect();
        sorted.compact_sort_by(|a, b| a.name.cmp(&b.name));
        sorted
    }
}
