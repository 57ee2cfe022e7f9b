//! The bios and requests that are open, in one arena with a table by (device, sector).

use super::table::{HashSlots, hash};
use crate::trace::TraceRecord;
use crate::trace::action::category;

/// A slot's index.
pub type Link = u32;
/// No slot.
pub const NONE: Link = u32::MAX;
/// No time.
pub const NEVER: u64 = u64::MAX;

/// The progress of a bio or request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlotState {
    /// Not at the device.
    #[default]
    Queued,
    /// Part of another bio's request.
    Merged,
    /// At the device.
    Issued,
    /// Data written, with a flush of the cache after it that goes on.
    PostFlush,
    /// No request, but the complete bio of which others are parts.
    Whole,
    /// Not in use.
    Free,
}

/// A bio, and from its issue on the request that it begins.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Numbers bios and requests from 1.
    pub id: u64,
    /// The bio on the upper device that this one serves; 0 where there is none.
    pub parent_id: u64,
    /// First sector.
    pub sector: u64,
    /// The table's key: differs from `sector` once a part has completed.
    pub key: u64,
    /// Q, or [`NEVER`].
    pub queued: u64,
    /// G, or [`NEVER`].
    pub got: u64,
    /// I, or [`NEVER`].
    pub inserted: u64,
    /// The first D, or [`NEVER`].
    pub first_issued: u64,
    /// The last D, or [`NEVER`].
    pub issued: u64,
    /// The completion of its data, where a cache flush follows, or [`NEVER`].
    pub written: u64,
    /// Bytes.
    pub bytes: u32,
    /// Bytes that have not completed.
    pub remaining: u32,
    /// The categories of its Q, then of its D.
    pub categories: u32,
    /// The categories that a D took away: the kernel replaces them by cache flushes of its own.
    pub taken: u32,
    /// The thread that queued it (or that ran where its first event happened).
    pub pid: u32,
    /// The CPU of its first event.
    pub cpu: u32,
    /// The index of its device.
    pub device: u32,
    /// Its device, `major << 20 | minor`.
    pub number: u32,
    /// The next bio of its request.
    pub next: Link,
    /// The last bio of its request.
    pub last: Link,
    /// The next, older bio at the same sector.
    pub same: Link,
    /// The bio that it is a part of.
    pub group: Link,
    /// Bios merged into it; of a split bio, the parts that have not completed.
    pub merges: u32,
    /// The number of requeues by the driver.
    pub requeues: u16,
    /// Its progress.
    pub state: SlotState,
}

impl Slot {
    /// A slot that begins with `record`, without any time.
    #[inline]
    pub fn new(device: u32, record: &TraceRecord) -> Slot {
        Slot {
            id: 0,
            parent_id: 0,
            sector: record.sector,
            key: record.sector,
            queued: NEVER,
            got: NEVER,
            inserted: NEVER,
            first_issued: NEVER,
            issued: NEVER,
            written: NEVER,
            bytes: record.bytes,
            remaining: record.bytes,
            categories: record.categories,
            taken: 0,
            pid: record.pid,
            cpu: record.cpu,
            device,
            number: record.device,
            next: NONE,
            last: NONE,
            same: NONE,
            group: NONE,
            merges: 0,
            requeues: 0,
            state: SlotState::Queued,
        }
    }

    /// The time of its first event.
    pub fn age(&self) -> u64 {
        self.queued.min(self.got).min(self.inserted).min(self.first_issued)
    }

    /// Notes its D. A flush or FUA that it requested and no longer has is done by flushes around
    /// it.
    #[inline]
    pub fn issue(&mut self, record: &TraceRecord) {
        let cache = category::FLUSH | category::FUA;
        self.taken |= self.categories & !record.categories & cache;
        self.issued = record.time;
        self.first_issued = self.first_issued.min(record.time);
        self.state = SlotState::Issued;
        self.categories = record.categories;
        self.remaining = self.bytes;
    }

    /// Whether it has not reached the device, or was requeued.
    #[inline]
    pub fn is_before_device(&self) -> bool {
        !matches!(self.state, SlotState::Issued | SlotState::PostFlush)
    }

    /// Whether a flush of the cache follows its data.
    pub fn has_post_flush(&self) -> bool {
        self.taken & category::FUA != 0 && self.bytes > 0
    }

    /// The first sector behind it.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector.wrapping_add(u64::from(self.bytes >> 9))
    }
}

/// The arena.
#[derive(Debug, Default)]
pub struct RequestSlots {
    list: Vec<Slot>,
    free: Vec<Link>,
    table: HashSlots,
}

impl RequestSlots {
    /// RequestSlots that are kept: 128 bytes each.
    const MAX: usize = 128 << 10;
    /// SCSI and NVMe give up a command after 30 s.
    const LOST: u64 = 30_000_000_000;
    /// Bios at one sector that are kept; the oldest of more is stale.
    const MAX_SAME: usize = 8;

    /// The slot at `link`.
    #[inline]
    pub fn get(&self, link: Link) -> Option<&Slot> {
        self.list.get(link as usize)
    }

    /// The slot at `link`.
    #[inline]
    pub fn get_mut(&mut self, link: Link) -> Option<&mut Slot> {
        self.list.get_mut(link as usize)
    }

    /// Returns whether slots must be given up before another is added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.list.len() - self.free.len() + 2 >= Self::MAX
    }

    /// Returns the youngest slot of device number `device` at `sector` that `accept` takes, else
    /// [`NONE`]: older ones that are still open have often lost their completion.
    #[inline]
    pub fn find(&self, device: u32, sector: u64, accept: impl Fn(&Slot) -> bool) -> Link {
        let mut link = self.first(device, sector).unwrap_or(NONE);
        while let Some(slot) = self.get(link) {
            if accept(slot) {
                break;
            }
            link = slot.same;
        }
        link
    }

    #[inline]
    fn first(&self, device: u32, sector: u64) -> Option<Link> {
        self.table.find(hash(device, sector), |link| {
            self.get(link).is_some_and(|slot| slot.key == sector && slot.number == device)
        })
    }

    /// Keeps `slot` outside of the table.
    #[inline]
    pub fn keep(&mut self, slot: Slot) -> Link {
        match self.free.pop() {
            Some(link) => {
                if let Some(entry) = self.list.get_mut(link as usize) {
                    *entry = slot;
                }
                link
            }
            None => {
                self.list.push(slot);
                (self.list.len() - 1) as Link
            }
        }
    }

    /// Adds `slot` as the youngest at its sector; says whether an old one was given up for it.
    #[inline]
    pub fn add(&mut self, slot: Slot) -> (Link, bool) {
        let link = self.keep(slot);
        (link, self.enter(link))
    }

    /// Puts `link` into the table before all that are at the same sector.
    #[inline]
    fn enter(&mut self, link: Link) -> bool {
        let Some(slot) = self.get(link) else { return false };
        let (device, key) = (slot.number, slot.key);
        let first = self.first(device, key);
        match first {
            None => self.table.insert(hash(device, key), link),
            Some(first) => self.table.replace(hash(device, key), first, link),
        }
        let same = first.unwrap_or(NONE);
        if let Some(slot) = self.get_mut(link) {
            slot.same = same;
        }
        same != NONE && self.drop_oldest_of(link)
    }

    /// Gives up the oldest of very many bios at one sector.
    fn drop_oldest_of(&mut self, first: Link) -> bool {
        let (mut at, mut count) = (first, 1);
        while let Some(next) = self.get(at).map(|slot| slot.same).filter(|next| *next != NONE) {
            (at, count) = (next, count + 1);
        }
        if count > Self::MAX_SAME {
            self.unlink(at);
            self.free_all(at);
        }
        count > Self::MAX_SAME
    }

    /// Takes `link` out of the table; other slots at the same sector stay.
    fn unlink(&mut self, link: Link) {
        let Some(slot) = self.get(link) else { return };
        let (hash, same) = (hash(slot.number, slot.key), slot.same);
        let first = self.first(slot.number, slot.key);
        match first {
            Some(first) if first == link => match same {
                NONE => self.table.remove(hash, link),
                _ => self.table.replace(hash, link, same),
            },
            Some(mut at) => {
                while let Some(slot) = self.get_mut(at) {
                    if slot.same == link {
                        slot.same = same;
                        break;
                    }
                    at = slot.same;
                }
            }
            None => {}
        }
        if let Some(slot) = self.get_mut(link) {
            slot.same = NONE;
        }
    }

    /// Takes a finished request out of the table, and with it the bios at its sector that are
    /// older than it by more than any driver waits: their end was lost. Returns how many.
    #[inline]
    pub fn take_out(&mut self, link: Link, now: u64) -> u64 {
        let Some(slot) = self.get(link) else { return 0 };
        let (mut old, mut stale) = (slot.same, 0);
        self.unlink(link);
        while let Some(slot) = self.get(old) {
            let next = slot.same;
            if slot.age().saturating_add(Self::LOST) < now {
                self.unlink(old);
                self.free_all(old);
                stale += 1;
            }
            old = next;
        }
        stale
    }

    /// Makes `member` a bio of the request `head`, whose times are the earliest of its bios'.
    pub fn join(&mut self, head: Link, member: Link) {
        self.unlink(member);
        let Some(joined) = self.get(member) else { return };
        let (got, inserted, tail) = (joined.got, joined.inserted, joined.last);
        let tail = if tail == NONE { member } else { tail };
        let (queued, merges) = (joined.queued, joined.merges);
        let mut last = head;
        if let Some(slot) = self.get_mut(head) {
            last = if slot.last == NONE { head } else { slot.last };
            slot.last = tail;
            slot.merges = slot.merges.saturating_add(merges + 1);
            slot.got = slot.got.min(got);
            slot.inserted = slot.inserted.min(inserted);
            if slot.queued == NEVER {
                slot.queued = queued;
            }
        }
        if let Some(slot) = self.get_mut(last) {
            slot.next = member;
        }
        if let Some(slot) = self.get_mut(member) {
            slot.state = SlotState::Merged;
        }
    }

    /// Cuts `link` at sector `at`; both parts belong to the whole, whose Q they share. Says whether
    /// an old bio was given up.
    pub fn split(&mut self, link: Link, at: u64, id: u64) -> bool {
        let Some(slot) = self.get(link) else { return false };
        let mut group = slot.group;
        if group == NONE {
            let whole = Slot { state: SlotState::Whole, merges: 1, ..slot.clone() };
            group = self.keep(whole);
        }
        if let Some(whole) = self.get_mut(group) {
            whole.merges += 1;
        }
        let Some(slot) = self.get_mut(link) else { return false };
        let front = ((at - slot.sector) << 9) as u32;
        let rest = Slot {
            id,
            sector: at,
            key: at,
            bytes: slot.bytes - front,
            remaining: slot.bytes - front,
            got: NEVER,
            inserted: NEVER,
            same: NONE,
            next: NONE,
            last: NONE,
            group,
            state: SlotState::Queued,
            ..slot.clone()
        };
        slot.bytes = front;
        slot.remaining = front;
        slot.group = group;
        self.add(rest).1
    }

    /// A part of `group` completed; gives the whole when it was the last.
    pub fn end_part(&mut self, group: Link) -> Option<Slot> {
        let whole = self.get_mut(group)?;
        whole.merges = whole.merges.saturating_sub(1);
        if whole.merges > 0 {
            return None;
        }
        let whole = whole.clone();
        self.free(group);
        Some(whole)
    }

    /// `bytes` of the request at `link` completed; says whether some are left.
    #[inline]
    pub fn advance(&mut self, link: Link, bytes: u32) -> bool {
        let Some(slot) = self.get_mut(link) else { return false };
        slot.remaining = slot.remaining.saturating_sub(bytes);
        if slot.remaining == 0 {
            return false;
        }
        let key = slot.key.wrapping_add(u64::from(bytes >> 9));
        self.unlink(link);
        let Some(slot) = self.get_mut(link) else { return false };
        slot.key = key;
        self.enter(link);
        true
    }

    /// Forgets a slot that is in no list.
    #[inline]
    pub fn free(&mut self, link: Link) {
        if let Some(slot) = self.get_mut(link)
            && slot.state != SlotState::Free
        {
            slot.state = SlotState::Free;
            self.free.push(link);
        }
    }

    /// Forgets a slot and the bios of its request.
    fn free_all(&mut self, link: Link) {
        let mut at = link;
        while let Some(slot) = self.get(at) {
            let (next, group) = (slot.next, slot.group);
            if group != NONE {
                self.end_part(group);
            }
            self.free(at);
            at = next;
        }
    }

    /// Gives up the older half of the open slots, and returns it.
    pub fn give_up_oldest(&mut self) -> Vec<Slot> {
        let in_table = |slot: &Slot| !matches!(slot.state, SlotState::Free | SlotState::Whole);
        let mut ages: Vec<u64> = self.list.iter().filter(|s| in_table(s)).map(Slot::age).collect();
        let middle = ages.len() / 2;
        if ages.is_empty() {
            return Vec::new();
        }
        let limit = *ages.select_nth_unstable(middle).1;
        let mut given_up = Vec::new();
        for link in 0..self.list.len() as Link {
            let Some(slot) = self.get(link).filter(|slot| in_table(slot) && slot.age() <= limit)
            else {
                continue;
            };
            if self.find(slot.number, slot.key, |other| other.id == slot.id) == link {
                given_up.push(slot.clone());
                self.unlink(link);
                self.free_all(link);
            }
        }
        given_up
    }

    /// Returns the open slots that begin a request or wait for one.
    pub fn open(&self) -> impl Iterator<Item = &Slot> {
        self.list.iter().filter(|slot| !matches!(slot.state, SlotState::Free | SlotState::Whole))
    }
}
