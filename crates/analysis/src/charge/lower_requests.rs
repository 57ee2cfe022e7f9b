//! Requests that serve a request of an upper device: they are charged to that one's owners, not to
//! the kernel thread that passes them on (a loop device's worker, the device mapper's). They
//! complete before the upper request, so they are kept until it comes.
//!
//! What does not belong here: which devices are below which, and how often a request counts
//! (`sums::usage_by_key::RequestLayer`).

use crate::sums::keys;
use crate::sums::usage_by_key::Charge;
use iowhy_model::{Request, RequestPart};
use rustc_hash::FxHashMap;

/// Maximum number of requests that are kept, about 4 MiB (chosen): many more than any device has in
/// flight.
const MOST_HELD: usize = 1 << 13;

/// A request whose owners are not known yet.
#[derive(Clone, Debug)]
pub(crate) struct HeldRequest {
    pub request: Request,
    pub parts: Vec<RequestPart>,
    pub whole: Charge,
}

/// The kept requests, by the request that they serve.
#[derive(Clone, Debug, Default)]
pub(crate) struct LowerRequests {
    held: FxHashMap<u64, Vec<HeldRequest>>,
    count: usize,
}

impl LowerRequests {
    /// Keeps a request that serves another, unless the table is full.
    pub fn hold(&mut self, request: &Request, parts: &[RequestPart], whole: &Charge) -> bool {
        let Some(above) = request.parent_id.filter(|_| self.count < MOST_HELD) else {
            return false;
        };
        self.count += 1;
        let held = HeldRequest { request: request.clone(), parts: parts.to_vec(), whole: *whole };
        self.held.entry(above).or_default().push(held);
        true
    }

    /// Removes and returns the requests that serve the given one.
    pub fn take(&mut self, above: u64) -> Vec<HeldRequest> {
        if self.count == 0 {
            return Vec::new();
        }
        let taken = self.held.remove(&above).unwrap_or_default();
        self.count -= taken.len();
        taken
    }

    /// All remaining requests, in order of arrival.
    pub fn take_all(&mut self) -> Vec<HeldRequest> {
        let mut all: Vec<HeldRequest> = self.held.drain().flat_map(|(_, held)| held).collect();
        all.sort_by_key(|held| held.whole.sequence);
        self.count = 0;
        all
    }
}

/// The owners of a request's bytes: a part for each, of which only the owner and the bytes are
/// used.
pub(crate) fn owners(request: &Request, parts: &[RequestPart]) -> Vec<RequestPart> {
    let mut owners: Vec<RequestPart> = Vec::new();
    let submitter = RequestPart {
        owner_pid: request.pid,
        owner: request.process,
        owner_cgroup: request.cgroup,
        ..RequestPart::blank(request.request_id, request.bytes.max(1))
    };
    for part in parts {
        let is_named = keys::names_owner(part);
        let mut one = if is_named { part.clone() } else { submitter.clone() };
        one.bytes = part.bytes;
        let is_same = |known: &&mut RequestPart| {
            (known.owner_pid, known.owner, known.owner_reason)
                == (one.owner_pid, one.owner, one.owner_reason)
        };
        match owners.iter_mut().find(is_same) {
            Some(known) => known.bytes = known.bytes.saturating_add(one.bytes),
            None => owners.push(one),
        }
    }
    if owners.iter().all(|owner| owner.bytes == 0) { vec![submitter] } else { owners }
}

impl HeldRequest {
    /// Its parts as those of `owners`, in proportion to their bytes; without data, the first one's.
    pub fn parts_of(&self, owners: &[RequestPart]) -> Vec<RequestPart> {
        let blank = || RequestPart::blank(self.request.request_id, self.request.bytes);
        let own = if self.parts.is_empty() { vec![blank()] } else { self.parts.clone() };
        let total: u128 = owners.iter().map(|owner| u128::from(owner.bytes)).sum();
        let mut split = Vec::with_capacity(own.len() * owners.len());
        for part in &own {
            let (mut before, mut given) = (0_u128, 0_u64);
            for owner in owners {
                before += u128::from(owner.bytes);
                let until = (u128::from(part.bytes) * before / total.max(1)) as u64;
                split.push(RequestPart {
                    bytes: until - given,
                    owner_pid: owner.owner_pid,
                    owner: owner.owner,
                    owner_cgroup: owner.owner_cgroup,
                    owner_reason: owner.owner_reason,
                    ..part.clone()
                });
                given = until;
            }
        }
        let has_bytes = split.iter().any(|part| part.bytes > 0);
        if has_bytes {
            split.retain(|split| split.bytes > 0);
        } else {
            split.truncate(1);
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use crate::script::ScriptSummary;
    use crate::summary::{ProcessRow, UsedRow};
    use iowhy_model::script::Script;

    const MS: u64 = 1_000_000;

    /// A loop device's worker reads from the disk below for two programs, one of which asked for
    /// thrice as much.
    fn passed_on(further: u64) -> Script {
        let mut script = Script::new(10);
        for index in 0..10 {
            let at = index * MS as i64;
            let upper = script.batch.requests.len() as u64 + 2;
            // A request that serves another completes before it.
            let lower = script.read("sda", 4096).at(at).by(90, "kworker/u8:1");
            lower.file("/img").direct(0, 0, 2 * MS).parent(upper + further).add();
            let (pid, name) = if index % 4 == 0 { (6, "cat") } else { (5, "db") };
            script.read("loop0", 4096).at(at).by(pid, name).file("/db").direct(0, 0, 3 * MS).add();
        }
        script
    }

    #[test]
    fn requests_below_are_those_above_s_owners() {
        let owners = |script: &Script| {
            let summary = script.summary();
            let sda = summary.devices.iter().find(|device| device.device == "sda").unwrap();
            let rows = &sda.processes;
            let owner =
                |row: &UsedRow<ProcessRow>| (row.subject.process.clone(), row.usage.requests);
            rows.iter().map(owner).collect::<Vec<_>>()
        };
        let expected = [("db".to_owned(), 7), ("cat".to_owned(), 3)];
        assert_eq!(owners(&passed_on(0)), expected);
        // If the upper request never comes, only the thread that passed it on is known.
        assert_eq!(owners(&passed_on(1_000)), [("kworker/u8:1".to_owned(), 10)]);
    }
}
