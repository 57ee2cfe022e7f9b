//! The requests that wake idle disks.
//!
//! A disk is idle while it has no request in flight. The first request after a minute without any
//! wakes it: a drive that spins down, or one of a laptop that sleeps, has to start for it.
//!
//! What does not belong here: whether the drive really slept, which only it knows.

use iowhy_model::source::Batch;
use iowhy_model::{Name, Names, Origin, Request, RequestPart};
use std::collections::HashMap;

/// The time that a disk must have been idle, nanoseconds.
pub const IDLE_NS: u64 = 60_000_000_000;
/// Wakes that are kept until they are taken.
const MOST_WAKES: usize = 256;
/// Devices that are followed.
const MOST_DEVICES: usize = 256;

/// A disk that was woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The disk.
    pub device: String,
    /// Whether the request served one of a device above.
    pub is_below: bool,
    /// The program whose data it was; `None` if that is not known.
    pub program: Option<String>,
    /// The cgroup or container.
    pub container: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// The origin of the request.
    pub origin: Origin,
}

/// Follows disks over all watches.
#[derive(Clone, Debug, Default)]
pub struct WakeWatch {
    /// The latest end of a request by device, CLOCK_MONOTONIC nanoseconds.
    ended: HashMap<String, u64>,
    wakes: Vec<Wake>,
}

impl WakeWatch {
    /// Begins another watch at `now_ns`: requests before it are not known.
    pub fn begin(&mut self, now_ns: u64) {
        self.ended.values_mut().for_each(|ended_ns| *ended_ns = (*ended_ns).max(now_ns));
    }

    /// Adds the requests of a batch.
    pub fn add(&mut self, batch: &Batch, names: &Names) {
        // Requests of one device mostly follow each other.
        let mut latest: Option<(Name, u64)> = None;
        for (request, parts) in batch.requests_with_parts() {
            let ended_ns = request.start_ns.saturating_add(request.known_ns().unwrap_or(0));
            if let Some((device, until_ns)) = &mut latest
                && *device == request.device
                && request.start_ns < until_ns.saturating_add(IDLE_NS)
            {
                *until_ns = (*until_ns).max(ended_ns);
                continue;
            }
            self.settle(latest.take(), names);
            let before_ns = self.ended.get(names.get(request.device)).copied();
            let idle = before_ns.is_some_and(|before| request.start_ns >= before + IDLE_NS);
            if idle && self.wakes.len() < MOST_WAKES {
                self.wakes.push(wake(request, parts, names));
            }
            latest = Some((request.device, before_ns.unwrap_or(0).max(ended_ns)));
        }
        self.settle(latest, names);
    }

    fn settle(&mut self, latest: Option<(Name, u64)>, names: &Names) {
        let Some((device, ended_ns)) = latest else { return };
        let device = names.get(device);
        if let Some(known) = self.ended.get_mut(device) {
            *known = ended_ns.max(*known);
        } else if self.ended.len() < MOST_DEVICES {
            self.ended.insert(device.to_owned(), ended_ns);
        }
    }

    /// Returns the wakes since the last call.
    pub fn take(&mut self) -> Vec<Wake> {
        std::mem::take(&mut self.wakes)
    }
}

fn wake(request: &Request, parts: &[RequestPart], names: &Names) -> Wake {
    let text = |name: Option<Name>| name.map(|name| names.get(name).to_owned());
    let part = parts.first();
    let owner = part.and_then(|part| part.owner);
    let is_unknown = part.is_some_and(|part| part.owner.is_none() && part.owner_reason.is_some());
    let submitter = request.process.filter(|_| !is_unknown);
    Wake {
        device: names.get(request.device).to_owned(),
        is_below: request.parent_id.is_some() || request.origin == Origin::Stacked,
        program: text(owner.or(submitter)),
        container: text(request.container.filter(|_| owner.is_none())),
        file: text(part.and_then(|part| part.file)),
        origin: request.origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::{START_NS, Script};

    const S: i64 = 1_000_000_000;

    #[test]
    fn the_first_request_after_an_idle_minute_wakes_the_disk() {
        let mut wakes = WakeWatch::default();
        let mut script = Script::new(1_000);
        for (at, program) in [(0, "cron"), (30, "cron"), (89, "db"), (150, "timer"), (151, "db")] {
            let write = script.write("sda", 4096).by(7, program).at(at * S).file("/var/x");
            write.direct(1, 2, 3).add();
            script.read("sdb", 4096).by(8, "scan").at(at * S).direct(1, 2, 3).add();
        }
        wakes.add(&script.batch, &script.names);
        let taken = wakes.take();
        let of = |wake: &Wake| (wake.device.clone(), wake.program.clone().unwrap_or_default());
        let expected =
            [("sda".to_owned(), "timer".to_owned()), ("sdb".to_owned(), "scan".to_owned())];
        assert_eq!(taken.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(taken[0].file.as_deref(), Some("/var/x"));
        assert_eq!(wakes.take(), []);
    }

    #[test]
    fn nothing_is_said_of_the_time_before_a_watch() {
        let mut wakes = WakeWatch::default();
        let mut script = Script::new(1_000);
        script.write("sda", 4096).by(7, "db").at(0).direct(1, 2, 3).add();
        wakes.add(&script.batch, &script.names);
        wakes.begin(START_NS + 100 * S as u64);
        let mut later = Script::new(1_000);
        later.write("sda", 4096).by(7, "db").at(130 * S).direct(1, 2, 3).add();
        wakes.add(&later.batch, &later.names);
        assert_eq!(wakes.take(), []);
    }
}
