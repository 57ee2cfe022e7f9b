//! The dirtiers of the bytes that writeback writes.
//!
//! What does not belong here: which request writes them (see [`crate::probes::block`]).

use super::dirtiers::Dirtiers;
use crate::decode::DecodeContext;
use crate::decode::files::key;
use crate::probes::snapshot::Writers;
use crate::wire::{self, wire_owners, wire_part};
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::{Losses, RequestPart};
use std::borrow::Cow;
use zerocopy::{FromBytes, FromZeros};

/// Requests whose dirtiers are kept until the request arrives, which comes right after them: those
/// left in a full map were lost.
const MOST_OWNED: usize = 65_536;

/// Decodes dirtiers, which arrive just before the request that writes the dirtied pages.
#[derive(Default)]
pub struct OwnerDecoder {
    by_request: RestartingMap<u64, Vec<wire_owners>, MOST_OWNED>,
    /// Hints at who dirtied the pages that were dirty before the watch.
    pub writers: Writers,
    /// Whether dirtiers can have been missed.
    pub dirtiers: Dirtiers,
}

impl OwnerDecoder {
    /// Adds a `wire_owners`.
    pub fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let (owners, _) = wire_owners::read_from_prefix(bytes).ok()?;
        self.by_request.or_default(owners.request).push(owners);
        Some(())
    }

    /// Drops the dirtiers of a request, which has arrived.
    pub fn forget(&mut self, kernel_id: u64) {
        self.by_request.remove(&kernel_id);
    }

    /// Adds the dirtiers that could not be kept.
    pub fn losses(&self, losses: &mut Losses) {
        let dropped = self.writers.dropped();
        losses.add("writers", dropped, "files whose writers are not kept", false);
        self.dirtiers.losses(losses);
    }

    /// Adds one row per known dirtier, and one for the bytes whose dirtier is not known.
    pub fn split(
        &mut self,
        kernel_id: u64,
        part: &wire_part,
        filled: RequestPart,
        cx: &mut DecodeContext<'_>,
    ) {
        let is_of_part =
            |one: &&wire_owners| key(&one.inode) == key(&part.inode) && one.offset == part.offset;
        let owners = self
            .by_request
            .get(&kernel_id)
            .and_then(|all| all.iter().find(is_of_part).copied())
            .unwrap_or_else(wire_owners::new_zeroed);
        let mut split = DirtiedSplit::new(&owners, filled.bytes);
        let parts = &mut cx.out.batch.parts;
        let mut push = |bytes: u64, owned: RequestPart| {
            let owner_share = Some(bytes as f64 / filled.bytes.max(1) as f64);
            parts.extend((bytes > 0).then_some(RequestPart { bytes, owner_share, ..owned }));
        };
        let without_owner = RequestPart {
            owner_pid: None,
            owner: None,
            owner_cgroup: None,
            owner_pod: None,
            owner_namespace: None,
            ..filled.clone()
        };
        for (tgid, dirtied) in split.known(&owners) {
            let task = cx.known.tasks.process(tgid);
            let owned = RequestPart {
                owner_pid: Some(tgid),
                owner: task.map(|task| task.process),
                owner_cgroup: task.and_then(|task| task.cgroup),
                owner_pod: task.and_then(|task| task.workload.pod),
                owner_namespace: task.and_then(|task| task.workload.namespace),
                ..filled.clone()
            };
            push(split.next(dirtied), owned);
        }
        let of_others = split.next(owners.other_bytes);
        let task = cx.known.tasks.process(owners.other_tgid).filter(|_| owners.other_tgid != 0);
        let reason = if task.is_some() { SAME_NAME } else { TOO_MANY };
        let owned = RequestPart {
            owner: task.map(|task| task.process),
            owner_reason: Some(cx.out.names.intern(reason)),
            ..without_owner.clone()
        };
        push(of_others, owned);
        if split.rest > 0 {
            let reason = self.no_dirtier(part);
            let owner_reason = Some(cx.out.names.intern(&reason));
            push(split.rest, RequestPart { owner_reason, ..without_owner });
        }
    }

    /// Returns the reason why bytes dirtied in the page cache have no dirtier. The processes that
    /// had the file open for writing are only a hint.
    fn no_dirtier(&mut self, part: &wire_part) -> Cow<'static, str> {
        if part.found == wire::FOUND_BELOW {
            return "its files are those of the request below it".into();
        }
        let reason = self.dirtiers.reason();
        match self.writers.of(&part.inode) {
            Some(writers) => format!("{reason}; open for writing by {writers}").into(),
            None => reason.into(),
        }
    }
}

/// Reasons why the process of a part is not known, or is one of several.
const TOO_MANY: &str = "dirtied by more processes than iowhy distinguishes";
const SAME_NAME: &str = "one of more processes of that name than iowhy distinguishes";

/// Distributes the bytes of a part to the processes that dirtied them.
struct DirtiedSplit {
    /// Bytes of the part that known dirtiers dirtied, and the total that they dirtied.
    theirs: u64,
    dirtied: u64,
    /// The handed-out parts of `dirtied` and `theirs`, bytes.
    before: u64,
    given: u64,
    /// Bytes without a dirtier.
    rest: u64,
}

impl DirtiedSplit {
    fn new(owners: &wire_owners, bytes: u64) -> DirtiedSplit {
        let theirs = owners.theirs.min(bytes);
        let known = owners.owners.iter().map(|one| bytes_of(*one));
        let dirtied = known.fold(owners.other_bytes, u64::saturating_add);
        let dirtied = dirtied.max(theirs).max(1);
        DirtiedSplit { theirs, dirtied, before: 0, given: 0, rest: bytes }
    }

    /// The known dirtiers, with the bytes they dirtied.
    fn known(&self, owners: &wire_owners) -> Vec<(u32, u64)> {
        let known = owners.owners.iter().filter(|one| bytes_of(**one) > 0);
        known.map(|one| ((one >> wire::WIRE_OWNER_BITS) as u32, bytes_of(*one))).collect()
    }

    /// The share of a process that dirtied `dirtied` bytes.
    fn next(&mut self, dirtied: u64) -> u64 {
        self.before = self.before.saturating_add(dirtied).min(self.dirtied);
        let scaled = u128::from(self.theirs) * u128::from(self.before);
        let until = (scaled / u128::from(self.dirtied)) as u64;
        let bytes = until - self.given;
        self.given = until;
        self.rest -= bytes;
        bytes
    }
}

fn bytes_of(owner: u64) -> u64 {
    owner & ((1 << wire::WIRE_OWNER_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_who_dirtied_them_and_the_rest_to_nobody() {
        let mut owners = wire_owners::new_zeroed();
        owners.owners[0] = 7 << wire::WIRE_OWNER_BITS | 4096;
        owners.owners[3] = 9 << wire::WIRE_OWNER_BITS | 8192;
        (owners.other_bytes, owners.theirs) = (4096, 6000);
        let mut split = DirtiedSplit::new(&owners, 10_000);
        let known = split.known(&owners);
        assert_eq!(known, [(7, 4096), (9, 8192)]);
        let bytes: Vec<u64> = known.iter().map(|(_, dirtied)| split.next(*dirtied)).collect();
        // Pages of others do not account for what was dirty before.
        assert_eq!(
            (bytes, split.next(owners.other_bytes), split.rest),
            (vec![1500, 3000], 1500, 4000)
        );
        // No dirtier is known.
        let mut split = DirtiedSplit::new(&wire_owners::new_zeroed(), 4096);
        assert_eq!((split.next(0), split.rest), (0, 4096));
        // An odd number of bytes leaves no remainder.
        (owners.other_bytes, owners.theirs) = (0, 4097);
        let mut split = DirtiedSplit::new(&owners, 4097);
        assert_eq!((split.next(4096), split.next(8192), split.rest), (1365, 2732, 0));
    }
}
