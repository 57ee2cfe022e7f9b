//! A wait as parts by class.
//!
//! What does not belong here: which class a stack has, and which part is which (`waits`).

use crate::model::{Wait, WaitClass};

/// The parts of a wait, which add up to it.
pub(crate) fn parts_of(wait: &Wait) -> impl Iterator<Item = (WaitClass, u64)> {
    let parts = [
        (WaitClass::Device, wait.device_ns),
        (WaitClass::Queue, wait.queue_ns),
        (WaitClass::RunQueue, wait.run_queue_ns),
    ];
    let known = parts.iter().fold(0_u64, |sum, (_, time)| sum.saturating_add(*time));
    let rest = (wait.class, wait.duration_ns.saturating_sub(known));
    parts.into_iter().chain([rest]).filter(|(_, time)| *time > 0)
}
