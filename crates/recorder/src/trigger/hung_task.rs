//! Threads of programs that have waited for storage for long: as khungtaskd reports them after two
//! minutes, but sooner, and for storage alone.
//!
//! What does not belong here: asking the kernel which threads wait (see [`crate::daemon`]).

use super::{Trigger, TriggerKey, TriggerKind};
use iowhy_analysis::own_io::is_own_name;
use iowhy_model::{Name, Names, Wait, WaitClass};
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::Path;

/// File systems without a device that have a condition of their own at most; the others share one.
/// Any user may mount some. Devices are as many as the machine has.
const MOST_FILE_SYSTEMS: usize = 64;
/// Characters of a place that are kept.
const MOST_PLACE: usize = 256;

/// The threads of one device or file system that have waited for long.
#[derive(Clone, Copy, Debug)]
struct LongestWait<'a> {
    wait: &'a Wait,
    storage_ns: u64,
    threads: u64,
}

/// Returns the conditions that the open waits `waits` meet, one for each device, and one for each
/// file system without one. `served` returns the mount points of file systems that have none: it is
/// called at most once.
pub fn hung_tasks(
    waits: &[Wait],
    names: &Names,
    limit_ns: u64,
    served: impl FnOnce() -> Vec<String>,
) -> Vec<Trigger> {
    let mut longest: BTreeMap<WaitPlace, LongestWait<'_>> = BTreeMap::new();
    let served = LazyCell::new(served);
    let mut file_systems = 0;
    // iowhy's own threads wait for the sick disk, too, when they read a program's symbols from it.
    let counts = |wait: &&Wait| !wait.kernel_thread && !is_own_name(wait.process, names);
    for wait in waits.iter().filter(counts) {
        let storage_ns = storage_ns(wait);
        if storage_ns < limit_ns {
            continue;
        }
        // Only a wait without a device needs the mount points, which are read.
        let points: &[String] = if wait.device.is_some() { &[] } else { &served };
        let mut place = WaitPlace::of(wait, names, points);
        if wait.device.is_none() && !longest.contains_key(&place) {
            file_systems += 1;
            if file_systems > MOST_FILE_SYSTEMS {
                place = WaitPlace::default();
            }
        }
        let found = longest.entry(place).or_insert(LongestWait { wait, storage_ns, threads: 0 });
        found.threads += 1;
        if storage_ns > found.storage_ns {
            (found.wait, found.storage_ns) = (wait, storage_ns);
        }
    }
    // Devices first: an incident holds some of its triggers.
    longest.into_iter().rev().map(|(place, longest)| trigger(place, longest, names)).collect()
}

/// The device that threads wait for, or the file system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct WaitPlace {
    device: Option<Name>,
    /// Where there is no device: the mount point, the volume or the directory of the file, else the
    /// kind of the wait. One user's server that hangs must not hide that another hangs.
    file_system: String,
}

impl WaitPlace {
    fn of(wait: &Wait, names: &Names, served: &[String]) -> WaitPlace {
        if wait.device.is_some() {
            return WaitPlace { device: wait.device, file_system: String::new() };
        }
        let file = wait.file.map(|name| Path::new(names.get(name)));
        let mount = file.and_then(|file| {
            let around = served.iter().filter(|point| file.starts_with(point));
            around.max_by_key(|point| point.len()).cloned()
        });
        let volume = || wait.volume.map(|name| names.get(name).to_owned());
        let directory = || Some(file?.parent()?.to_string_lossy().into_owned());
        let found = mount.or_else(volume).or_else(directory).filter(|place| !place.is_empty());
        let place = found.unwrap_or_else(|| wait.class.phrase().to_owned());
        WaitPlace { device: None, file_system: place.chars().take(MOST_PLACE).collect() }
    }
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

fn trigger(place: WaitPlace, longest: LongestWait<'_>, names: &Names) -> Trigger {
    let LongestWait { wait, storage_ns, threads } = longest;
    let process = wait.process.map_or("a thread", |name| names.get(name));
    let WaitPlace { device, file_system } = place;
    let device = device.map_or("", |name| names.get(name));
    let place = match (device, file_system.starts_with('/')) {
        ("", false) => String::new(),
        ("", true) => format!(" in {file_system}"),
        _ => format!(" on {device}"),
    };
    let others = match threads {
        0 | 1 => String::new(),
        more => format!(", and so have {} more threads", more - 1),
    };
    let seconds = storage_ns as f64 / 1e9;
    let pid = wait.pid;
    Trigger {
        key: TriggerKey { cause: file_system, ..TriggerKey::new(TriggerKind::HungTask, device) },
        sentence: format!(
            "{process} ({pid}) has waited for storage{place} for {seconds:.1} s{others}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    const S: u64 = 1_000_000_000;

    fn found(script: &Script) -> Vec<Trigger> {
        let served = || vec!["/srv/nfs".to_owned(), "/home/a/mnt".to_owned()];
        hung_tasks(&script.batch.waits, &script.names, 10 * S, served)
    }

    fn sentences(script: &Script) -> Vec<String> {
        found(script).into_iter().map(|trigger| trigger.sentence).collect()
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
                "cat (8) has waited for storage on sda for 31.0 s, and so have 1 more threads",
                "ls (9) has waited for storage for 20.0 s"
            ]
        );
    }

    /// A thread that has waited for a file without a device.
    fn served(script: &mut Script, pid: u32, file: &str) {
        script.wait((pid, "ls"), WaitClass::NetworkFs, 20 * S, 0, 0);
        let file = script.names.intern(file);
        if let Some(wait) = script.batch.waits.last_mut() {
            wait.file = Some(file);
        }
    }

    #[test]
    fn a_file_system_that_hangs_hides_no_other() {
        let mut script = Script::new(60);
        served(&mut script, 7, "/home/a/mnt/x/y");
        served(&mut script, 8, "/srv/nfs/one/file");
        served(&mut script, 9, "/srv/nfs/two/file");
        served(&mut script, 10, "/run/new/mount");
        let keys: Vec<String> = found(&script).into_iter().map(|found| found.key.cause).collect();
        assert_eq!(keys, ["/srv/nfs", "/run/new", "/home/a/mnt"]);
        let said =
            "ls (8) has waited for storage in /srv/nfs for 20.0 s, and so have 1 more threads";
        assert_eq!(sentences(&script)[0], said);
    }

    #[test]
    fn mounts_are_not_read_for_devices() {
        let mut script = Script::new(60);
        script.wait((8, "cat"), WaitClass::Device, 31 * S, 31 * S, 0);
        script.waited_on("sda", "/srv/x", 0);
        let unread = || panic!("mount points are read");
        assert_eq!(hung_tasks(&script.batch.waits, &script.names, 10 * S, unread).len(), 1);
    }

    #[test]
    fn many_file_systems_hide_no_device() {
        let mut script = Script::new(60);
        for number in 0..1_000 {
            served(&mut script, 7, &format!("/home/a/{number}/file"));
        }
        script.wait((8, "cat"), WaitClass::Device, 31 * S, 31 * S, 0);
        script.waited_on("sda", "/srv/x", 0);
        let found = found(&script);
        assert_eq!(found.len(), MOST_FILE_SYSTEMS + 2);
        assert_eq!(found[0].key.device, "sda", "before those that an incident does not hold");
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
