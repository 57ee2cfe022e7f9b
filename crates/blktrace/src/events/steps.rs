//! What a line says that its event does not: how long the request's last step took, and the wall
//! clock.

use crate::trace::action::{Action, notify};
use crate::trace::{RecordBatch, TraceRecord};
use rustc_hash::FxHashMap;

/// The last step of each request, by device and first sector, as `blkparse -t` follows them: I
/// counts from G, D from I, C from D. A D without I counts from G, where blkparse prints garbage.
#[derive(Debug, Default)]
pub struct Steps(FxHashMap<(u32, u64), u64>);

impl Steps {
    /// Requests that are followed at once; those beyond have no elapsed time.
    const MAX: usize = 256 << 10;

    /// The time since the step before `record`, ns; nothing where there is or was none.
    pub fn see(&mut self, record: &TraceRecord) -> Option<u64> {
        let key = (record.device, record.sector);
        match record.kind()? {
            Action::GetRequest => self.keep(key, record.time),
            Action::FrontMerge => {
                // The request begins at the bio that was merged before it.
                let behind = (record.device, record.end());
                let time = self.0.remove(&behind)?;
                self.keep(key, time)
            }
            Action::Insert | Action::Issue => {
                let before = self.0.get(&key).copied();
                self.keep(key, record.time);
                record.time.checked_sub(before?)
            }
            Action::Complete => record.time.checked_sub(self.0.remove(&key)?),
            _ => None,
        }
    }

    fn keep(&mut self, key: (u32, u64), time: u64) -> Option<u64> {
        if self.0.len() < Steps::MAX || self.0.contains_key(&key) {
            self.0.insert(key, time);
        }
        None
    }
}

/// The wall clock, as far as a capture tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureClock {
    /// A record's own time and the wall clock at that moment, ns.
    clock: Option<(u64, u64)>,
}

impl CaptureClock {
    /// blktrace writes the clock while it starts: what lies further from the first event is of a
    /// dump, whose events were rebased and whose notes were not.
    const NEAR: u64 = 86_400_000_000_000;

    /// Keeps the first clock that a record tells.
    pub fn see(&mut self, batch: &RecordBatch, record: &TraceRecord) {
        if record.action == notify::TIMESTAMP && self.clock.is_none() {
            self.clock = batch.wall_clock(record).map(|wall| (record.time, wall));
        }
    }

    /// The wall clock, ns since 1970, at `time` after the first event, which was at `genesis`.
    pub fn at(self, genesis: u64, time: u64) -> Option<u64> {
        let (clock, wall) =
            self.clock.filter(|(clock, _)| clock.abs_diff(genesis) < CaptureClock::NEAR)?;
        wall.wrapping_add(genesis).wrapping_sub(clock).checked_add(time)
    }
}
