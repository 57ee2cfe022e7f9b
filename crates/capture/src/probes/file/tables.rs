//! The use of files, the part that the kernel counts: the two tables of counts.
//!
//! What does not belong here: which calls are counted (see `file_calls`), whether they are (see
//! `thinning`), and what the counts mean (see [`super::decode`]).

use crate::host::system;
use crate::session::Session;
use crate::wire;
use zerocopy::{FromBytes, IntoBytes};

/// Time between two readings of the tables.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Time for which a table that is no longer filled is left alone: no program runs longer.
const GRACE_NS: u64 = 20_000_000;
/// The longest wait for names while more records arrive than are read.
const PATIENCE_NS: u64 = 5_000_000_000;

/// The maps of each CPU's recent entries: of system calls, of io_uring.
const SLOTS: [&str; 2] = ["slots", "uring_slots"];

/// The tables in the kernel, of which one is filled while the other is read.
pub struct Tables {
    epoch: u32,
    timed: bool,
    /// Time at which the tables are swapped next, CLOCK_MONOTONIC nanoseconds: whole seconds of the
    /// watch.
    next_ns: u64,
    /// Time at which the table that is being read was last filled, CLOCK_MONOTONIC nanoseconds.
    retired_ns: Option<u64>,
    /// Everything up to this time has been handed over, CLOCK_MONOTONIC nanoseconds.
    pub settled_ns: u64,
    others: Vec<wire::wire_use>,
}

impl Tables {
    /// Starts to count.
    pub fn begin(session: &Session, start_ns: u64) -> Tables {
        let timed = session.is_attached("on_call_begins");
        let tables = Tables {
            // Slots are zeroed at first, so no epoch is 0.
            epoch: 1,
            timed,
            next_ns: start_ns + INTERVAL_NS,
            retired_ns: None,
            settled_ns: start_ns,
            others: Vec::new(),
        };
        tables.tell(session);
        // Counts from before, while programs were still being attached, are not part of the watch.
        take(session, 0, &mut |_| ());
        tables
    }

    fn tell(&self, session: &Session) {
        let control = wire::wire_control { epoch: self.epoch, timed: u32::from(self.timed) };
        session.set("file_control", control.as_bytes());
    }

    /// Swaps the tables when it is time. Returns whether the retired one is to be read now: the
    /// names that it refers to have been read, or records arrive faster than they are read.
    pub(crate) fn is_due(&mut self, session: &Session, names_read: bool) -> bool {
        let now_ns = system::now_ns();
        let patience_ns = if names_read { GRACE_NS } else { PATIENCE_NS };
        match self.retired_ns {
            None if now_ns >= self.next_ns => {
                let missed = (now_ns - self.next_ns) / INTERVAL_NS;
                self.next_ns += (missed + 1) * INTERVAL_NS;
                self.epoch = self.epoch.wrapping_add(1).max(1);
                self.tell(session);
                self.retired_ns = Some(now_ns);
                false
            }
            Some(since_ns) if now_ns - since_ns >= patience_ns => {
                self.retired_ns = None;
                self.settled_ns = since_ns;
                true
            }
            _ => false,
        }
    }

    /// Hands the entries of the retired table to `each`.
    pub(crate) fn take(&mut self, session: &Session, mut each: impl FnMut(&wire::wire_use)) {
        take(session, self.epoch.wrapping_sub(1), &mut each);
        self.take_others(session, &mut each);
    }

    /// Hands over the entries of both tables, once no program fills them any more.
    pub(crate) fn finish(&mut self, session: &Session, mut each: impl FnMut(&wire::wire_use)) {
        if self.retired_ns.is_some() {
            take(session, self.epoch.wrapping_sub(1), &mut each);
        }
        take(session, self.epoch, &mut each);
        self.take_others(session, &mut each);
    }

    /// Counts that did not fit into a table: their sums only grow, so the new part is the
    /// difference.
    fn take_others(&mut self, session: &Session, each: &mut impl FnMut(&wire::wire_use)) {
        let now: Vec<wire::wire_use> = session
            .each_cpu("other_uses")
            .iter()
            .filter_map(|value| Some(wire::wire_use::read_from_prefix(value).ok()?.0))
            .collect();
        for (index, value) in now.iter().enumerate() {
            let new = match self.others.get(index) {
                Some(before) => difference(value, before),
                None => *value,
            };
            if new.calls.iter().any(|calls| *calls > 0) {
                each(&wire::wire_use { first_ns: system::now_ns(), ..new });
            }
        }
        self.others = now;
    }

    /// Whether calls are timed from now on.
    pub(crate) fn set_timed(&mut self, session: &Session, timed: bool) {
        self.timed = timed;
        self.tell(session);
    }
}

/// Empties the table of an epoch, and hands over the slots' entries of it: the programs reuse the
/// slots in the next epoch.
fn take(session: &Session, epoch: u32, each: &mut impl FnMut(&wire::wire_use)) {
    let (table, own) = if epoch & 1 == 1 { ("uses_2", 1) } else { ("uses", 0) };
    for value in SLOTS.iter().flat_map(|map| session.each_cpu(map)) {
        let slots =
            wire::wire_slots::ref_from_prefix(&value).ok().and_then(|parsed| parsed.0.of.get(own));
        let current = |used: &&wire::wire_use| used.file_key != 0 && used.epoch == epoch;
        slots.into_iter().flatten().filter(current).for_each(&mut *each);
    }
    session.take_values(table, |value| {
        if let Ok((row, _)) = wire::wire_use::read_from_prefix(value) {
            each(&row);
        }
    });
}

fn difference(now: &wire::wire_use, before: &wire::wire_use) -> wire::wire_use {
    let mut new = *now;
    new.read_bytes = now.read_bytes.wrapping_sub(before.read_bytes);
    new.write_bytes = now.write_bytes.wrapping_sub(before.write_bytes);
    new.fault_bytes = now.fault_bytes.wrapping_sub(before.fault_bytes);
    for (new, before) in new.times.iter_mut().zip(before.times) {
        *new = new.wrapping_sub(before);
    }
    for (new, before) in new.calls.iter_mut().zip(before.calls) {
        *new = new.wrapping_sub(before);
    }
    new
}
