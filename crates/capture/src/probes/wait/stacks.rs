//! The stacks that waits refer to: by their slots in the kernel's maps, each read and judged once.
//!
//! What does not belong here: names for their functions (see [`crate::decode::stacks`]).

use crate::decode::DecodeContext;
use crate::session::Session;
use crate::wire::{self, wire_wait};
use iowhy_model::bounded_map::RestartingMap;
use iowhy_model::wait::class::{StackVerdict, verdict};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rustc_hash::FxHashMap;

/// User stacks by process and slot that are kept named.
const MOST_USER_STACKS: usize = 65_536;

/// The verdict on a stack, and its number in the recording.
#[derive(Clone, Copy, Debug)]
pub struct KnownStack {
    /// The stack's number; `None` if it was not kept.
    pub stack_id: Option<u64>,
    /// The verdict.
    pub verdict: StackVerdict,
}

/// The stacks read so far.
#[derive(Default)]
pub struct WaitStacks {
    /// The kernel's maps of stacks; empty if waits are not recorded.
    maps: Vec<MapHandle>,
    known: FxHashMap<i32, KnownStack>,
    /// The map of user stacks.
    user_map: Option<MapHandle>,
    /// The numbers of its stacks, by process and slot.
    known_users: RestartingMap<(u32, i32), Option<u64>, MOST_USER_STACKS>,
    /// Threads that were listed while they slept.
    sleeping: FxHashMap<u32, KnownStack>,
}

impl WaitStacks {
    /// Begins with the maps of this session's programs.
    pub fn new(session: &Session) -> WaitStacks {
        let maps = ["wait_stacks", "wait_stacks_2"];
        WaitStacks {
            maps: maps.iter().filter_map(|map| session.handle(map)).collect(),
            user_map: session.handle("wait_user_stacks"),
            ..WaitStacks::default()
        }
    }

    /// Whether waits are recorded.
    pub fn are_recorded(&self) -> bool {
        !self.maps.is_empty()
    }

    /// Keeps the stack of a thread that was listed while it slept, until its wait arrives.
    pub fn add_sleeper(&mut self, tid: u32, frames: &[u64], cx: &mut DecodeContext<'_>) {
        self.sleeping.insert(tid, judge(frames, cx));
    }

    /// The stacks of threads that were listed while they slept, by thread.
    pub fn sleeping(&self) -> &FxHashMap<u32, KnownStack> {
        &self.sleeping
    }

    /// Replaces them.
    pub fn set_sleeping(&mut self, sleeping: FxHashMap<u32, KnownStack>) {
        self.sleeping = sleeping;
    }

    /// Returns the verdict on the stack of a wait; `None` if none was taken.
    pub fn kernel(&mut self, wait: &wire_wait, cx: &mut DecodeContext<'_>) -> Option<KnownStack> {
        if wait.flags & (wire::WAIT_BEGUN_BEFORE | wire::WAIT_LISTED) != 0 {
            return self.sleeping.remove(&wait.tid);
        }
        if let Some(known) = self.known.get(&wait.stack) {
            return Some(*known);
        }
        let place = u32::try_from(wait.stack).ok()?;
        let map = self.maps.get((place / wire::WIRE_WAIT_STACKS) as usize)?;
        let frames = frames_at(map, place % wire::WIRE_WAIT_STACKS)?;
        let known = judge(&frames, cx);
        self.known.insert(wait.stack, known);
        Some(known)
    }

    /// The user stack of a wait, if one was taken: along frame pointers, or by `.eh_frame` if that
    /// leads further.
    pub fn user(&mut self, wait: &wire_wait, cx: &mut DecodeContext<'_>) -> Option<u64> {
        let walked = self.walked(wait, cx);
        let stacks = &cx.known.stacks;
        stacks.better(walked, stacks.copied.of_wait((wait.tid, wait.start_ns)))
    }

    fn walked(&mut self, wait: &wire_wait, cx: &mut DecodeContext<'_>) -> Option<u64> {
        let place = u32::try_from(wait.user_stack).ok()?;
        let key = (wait.tgid, wait.user_stack);
        if let Some(known) = self.known_users.get(&key) {
            return *known;
        }
        let frames = frames_at(self.user_map.as_ref()?, place)?;
        let id = cx.known.stacks.user(wait.tgid, &frames, &mut cx.out);
        self.known_users.insert(key, id);
        id
    }
}

fn judge(frames: &[u64], cx: &mut DecodeContext<'_>) -> KnownStack {
    let stacks = &mut cx.known.stacks;
    let stack_id = stacks.kernel(frames, &mut cx.out);
    let frames = stack_id.and_then(|id| stacks.frames_of(id)).unwrap_or_default();
    KnownStack { stack_id, verdict: verdict(frames.iter().map(|name| cx.out.names.get(*name))) }
}

/// The frames in a slot of a map of stacks.
fn frames_at(map: &MapHandle, place: u32) -> Option<Vec<u64>> {
    let value = map.lookup(&place.to_ne_bytes(), MapFlags::ANY).ok()??;
    let (words, _) = value.as_chunks::<8>();
    let frames = words.iter().map(|word| u64::from_ne_bytes(*word));
    Some(frames.take_while(|address| *address != 0).collect())
}
