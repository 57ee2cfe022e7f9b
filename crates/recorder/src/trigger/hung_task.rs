//! Threads of programs that have waited for storage for long: as khungtaskd reports them after two
//! minutes, but sooner, and for storage alone.
//!
//! What does not belong here: asking the kernel which threads wait (see [`crate::daemon`]).

use super::{Trigger, TriggerKey, TriggerKind};
use iowhy_core::analysis::own_io::is_own_name;
use iowhy_core::model::{Name, Names, Wait, WaitClass};
use std::collections::BTreeMap;

/// Devices that have a condition of their own at most.
const MOST_DEVICES: usize = 64;

/// The threads of one device that have waited for long.
#[derive(Clone, Copy, Debug)]
struct LongestWait<'a> {
    wait: &'a Wait,
    storage_ns: u64,
    threads: u64,
}

/// Returns the conditions that the open waits `waits` meet, one for each device.
pub fn hung_tasks(waits: &[Wait], names: &Names, limit_ns: u64) -> Vec<Trigger> {
    let mut longest: BTreeMap<Option<Name>, LongestWait<'_>> = BTreeMap::new();
    // iowhy's own threads wait for the sick disk, too, when they read a program's symbols from it.
    let counts = |wait: &&Wait| !wait.kernel_thread && !is_own_name(wait.process, names);
    for wait in waits.iter().filter(counts) {
        let storage_ns = storage_ns(wait);
        let has_room = longest.len() < MOST_DEVICES || longest.contains_key(&wait.device);
        if storage_ns < limit_ns || !has_room {
            continue;
        }
        let found =
            longest.entry(wait.device).or_insert(LongestWait { wait, storage_ns, threads: 0 });
        found.threads += 1;
        if storage_ns > found.storage_ns {
            (found.wait, found.storage_ns) = (wait, storage_ns);
        }
    }
    longest.into_iter().map(|(device, longest)| trigger(device, longest, names)).collect()
}

/// Returns the part of a wait that was certainly for storage, in nanoseconds: one of an unknown
/// class may be for anything.
fn storage_ns(wait: &Wait) -> u64 {
    let requests_ns = wait.device_ns.saturating_add(wait.queue_ns);
    match wait.class {
        WaitClass::Unknown | WaitClass::RunQueue => requests_ns,
        _ => wait.duration_ns.saturating_sub(wait.run_queue_ns),
    }
}

fn trigger(device: Option<Name>, longest: LongestWait<'_>, names: &Names) -> Trigger {
    let LongestWait { wait, storage_ns, threads } = longest;
    let process = wait.process.map_or("a thread", |name| names.get(name));
    let device = device.map_or("", |name| names.get(name));
    let place = if device.is_empty() { String::new() } else { format!(" on {device}") };
    let others = match threads {
        0 | 1 => String::new(),
        more => format!(", and so have {} more threads", more - 1),
    };
    let seconds = storage_ns as f64 / 1e9;
    let pid = wait.pid;
    Trigger {
        key: TriggerKey::new(TriggerKind::HungTask, device),
        sentence: format!(
            "{process} ({pid}) has waited for storage{place} for {seconds:.1} s{others}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_core::script::Script;

    const S: u64 = 1_000_000_000;

    fn sentences(script: &Script) -> Vec<String> {
        let found = hung_tasks(&script.batch.waits, &script.names, 10 * S);
        found.into_iter().map(|trigger| trigger.sentence).collect()
    }

    #[test]
    fn threads_that_wait_for_storage_for_long_are_one() {
        let mut script = Script::new(60);
        script.wait((7, "postgres"), WaitClass::FsLock, 12 * S, 0, 0);
        script.waited_on("sda", "/srv/pg/1", 74);
        script.wait((8, "cat"), WaitClass::Device, 31 * S, 31 * S, 0);
        script.waited_on("sda", "/srv/x", 0);
        script.wait((9, "ls"), WaitClass::NetworkFs, 20 * S, 0, 0);
        assert_eq!(
            sentences(&script),
            [
                "ls (9) has waited for storage for 20.0 s",
                "cat (8) has waited for storage on sda for 31.0 s, and so have 1 more threads"
            ]
        );
    }

    #[test]
    fn other_waits_are_not() {
        let mut script = Script::new(60);
        script.wait((7, "db"), WaitClass::Device, 9 * S, 9 * S, 0);
        // The reason of this wait is not known.
        script.wait((8, "db"), WaitClass::Unknown, 60 * S, 5 * S, 0);
        script.wait((9, "db"), WaitClass::FsLock, 15 * S, 0, 14 * S);
        script.wait((2, "kworker"), WaitClass::PageLock, 60 * S, 0, 0);
        if let Some(wait) = script.batch.waits.last_mut() {
            wait.kernel_thread = true;
        }
        assert_eq!(sentences(&script), [""; 0]);
    }
}
