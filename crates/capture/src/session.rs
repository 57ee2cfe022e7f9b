//! BPF programs in the kernel: loaded, attached, read from, and unloaded with the session.
//!
//! What does not belong here: which programs (see [`crate::plan`]) and what their records mean
//! (see [`crate::probes`]).

use crate::counters::{COUNTERS, SKIPPED, batch_of, counter, is_all, untold};
use crate::error::WatchError;
use crate::handles;
use crate::kernel::KernelFeatures;
use crate::loader::{self, ObjectSource};
use crate::objects::{self, LoadedGroups};
use crate::plan::{self, Plan, Probe, ProbeGroup, Wishes};
use crate::settings;
use crate::wire;
use iowhy_model::Losses;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ProgramMut, RingBuffer, RingBufferBuilder,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::rc::Rc;
use zerocopy::{FromBytes, IntoBytes};

/// The program at the completion of requests.
const ENDS: &str = "on_complete";

/// Programs that are attached, and the ring they write to.
pub struct Session {
    // Drop order: detach first, then free the ring buffer and the maps.
    links: Vec<(Probe, Link)>,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    objects: Vec<Object>,
    /// Runs that were skipped of programs that are detached by now, by group.
    skipped_before: FxHashMap<ProbeGroup, u64>,
    /// Entries that each map held at the end and did not list.
    untold: RefCell<FxHashMap<&'static str, u64>>,
    /// Whether the program at the completion of requests counts them exactly, too.
    counts_at_end: bool,
    /// Probes that were planned but could not be used, with the kernel's reason.
    pub failed: Vec<(Probe, String)>,
}

/// Records copied out of the ring buffer, in order, each padded to a multiple of 8 bytes.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Session {
    /// Loads and attaches the probes of `plan`. Probes that are not needed by every watch may fail:
    /// they are noted in [`Session::failed`].
    /// `begun` is called when requests are seen from then on.
    pub fn begin(
        plan: &Plan,
        facts: &KernelFeatures,
        wishes: &Wishes,
        mut attached: impl FnMut(&Session, ProbeGroup),
    ) -> Result<Session, WatchError> {
        loader::keep_warnings();
        let settings = settings::of(facts, wishes)?;
        // Load all before the first is attached: the verifier uses a CPU for a while, which is not
        // part of the watch.
        let LoadedGroups { objects, failed } =
            objects::load(plan, facts, &settings, &ObjectSource::BuiltIn)?;
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let ring = ring(&objects, &inbox)?;
        let mut session = Session {
            links: Vec::new(),
            ring,
            inbox,
            objects,
            skipped_before: FxHashMap::default(),
            untold: RefCell::default(),
            counts_at_end: settings.counts_requests != 0,
            failed,
        };
        session.attach(plan, ProbeGroup::Block)?;
        attached(&session, ProbeGroup::Block);
        for group in plan.groups().into_iter().filter(|group| *group != ProbeGroup::Block) {
            session.attach(plan, group)?;
            attached(&session, group);
            // Records of requests that arrive meanwhile must not fill the ring.
            session.ring.consume_raw();
        }
        Ok(session)
    }

    /// Returns a program that iowhy runs itself, if it could be loaded.
    pub fn program(&self, name: &str) -> Option<ProgramMut<'_>> {
        find_program(&self.objects, name)
    }

    /// Attaches a program of the plan that was detached. Returns whether it is attached now.
    pub fn attach_program(&mut self, plan: &Plan, program: &str) -> bool {
        let planned = plan.probes.iter().find(|probe| probe.program == program);
        let Some(probe) = planned.filter(|probe| probe.tracepoint.is_some()) else { return false };
        if self.is_attached(program) {
            return true;
        }
        let Some(found) = find_program(&self.objects, program) else { return false };
        let link = found.attach();
        let attached = link.is_ok();
        self.links.extend(link.ok().map(|link| (*probe, link)));
        attached
    }

    fn attach(&mut self, plan: &Plan, group: ProbeGroup) -> Result<(), WatchError> {
        for probe in plan.probes.iter().filter(|probe| probe.group == group) {
            let Some(tracepoint) = probe.tracepoint else { continue };
            let Some(program) = find_program(&self.objects, probe.program) else { continue };
            match program.attach() {
                Ok(link) => self.links.push((*probe, link)),
                Err(cause) if probe.needed => {
                    return Err(kernel("attach", tracepoint.to_owned(), cause.to_string()));
                }
                Err(cause) => self.failed.push((*probe, cause.to_string())),
            }
        }
        Ok(())
    }

    /// Hands up to `most` records to `each`, and those that came while programs were attached.
    /// Returns how many there were.
    pub fn read(&self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        self.ring.consume_raw_n(most);
        let mut inbox = self.inbox.borrow_mut();
        let mut start = 0;
        for end in &inbox.ends {
            each(&inbox.bytes[start..*end]);
            start = *end;
        }
        let count = inbox.ends.len();
        inbox.bytes.clear();
        inbox.ends.clear();
        count
    }

    /// Detaches every program: nothing new begins or ends in the ring.
    pub fn detach(&mut self) {
        self.skipped_before = self.skipped_runs(|_| true);
        // Programs for completions go last: otherwise a completed request would seem to be in
        // flight.
        while self.links.pop().is_some() {}
    }

    /// Hands each request that is still in flight to `each`, as a record without an end.
    pub fn pending(&self, mut each: impl FnMut(&[u8])) {
        self.each_value("pending", |value| each_of_pair(value, &mut each));
        self.overflowed(each);
    }

    /// Hands the requests in flight at these places of their table to `each`, as records without an
    /// end.
    pub fn pending_at(&self, places: &[u32], mut each: impl FnMut(&[u8])) {
        let Some(map) = self.map("pending") else { return };
        for place in places {
            if let Ok(Some(value)) = map.lookup(&place.to_ne_bytes(), MapFlags::ANY) {
                each_of_pair(&value, &mut each);
            }
        }
    }

    /// Hands the requests in flight beyond their table to `each`, as records without an end.
    pub fn overflowed(&self, each: impl FnMut(&[u8])) {
        self.each_value("overflow", each);
    }

    /// Whether there may be requests beyond their table.
    pub fn has_overflowed(&self) -> bool {
        self.words::<1>("overflowed") != [0]
    }

    /// Hands each sleep that is still open to `each`, as a wait without an end.
    pub fn asleep(&self, each: impl FnMut(&[u8])) {
        self.each_value("sleepers", each);
    }

    /// Hands each thread that asks for a file's lock again and again to `each`, as a
    /// `wire_lock_poll`.
    pub fn lock_polls(&self, each: impl FnMut(&[u8])) {
        self.each_value("lock_polls", each);
    }

    /// Hands every entry of a hash map to `each`, and removes it. Entries that remain are listed by
    /// the next call, or lost.
    pub fn take_values(&self, name: &'static str, mut each: impl FnMut(&[u8])) {
        let Some(map) = self.map(name) else { return };
        let (batch, most) = (batch_of(&map), map.max_entries());
        // Programs may add entries meanwhile, but not for ever.
        for _ in 0..=most / batch.max(1) {
            let read = map.lookup_and_delete_batch(batch, MapFlags::ANY, MapFlags::ANY);
            let Ok(entries) = read else { break };
            let count = entries.map(|(_, value)| each(&value)).count();
            if is_all(map.map_type(), count, batch, most) {
                break;
            }
        }
        self.untold.borrow_mut().insert(name, untold(&map, 0));
    }

    /// Returns the values of a map with one entry per CPU.
    pub fn each_cpu(&self, map: &str) -> Vec<Vec<u8>> {
        let key = 0_u32.to_ne_bytes();
        let values = self.map(map).and_then(|map| map.lookup_percpu(&key, MapFlags::ANY).ok()?);
        values.unwrap_or_default()
    }

    /// The first words of 64 bits of the only entry of a map; 0 if there is no such map.
    pub fn words<const N: usize>(&self, map: &str) -> [u64; N] {
        let key = 0_u32.to_ne_bytes();
        let value = self.map(map).and_then(|map| map.lookup(&key, MapFlags::ANY).ok()?);
        value
            .and_then(|value| Some(<[u64; N]>::read_from_prefix(&value[..]).ok()?.0))
            .unwrap_or([0; N])
    }

    /// Sets the only entry of a map.
    pub fn set(&self, map: &str, value: &[u8]) {
        if let Some(map) = self.map(map) {
            // The update fails only if the map does not match the value.
            let _same = map.update(&0_u32.to_ne_bytes(), value, MapFlags::ANY);
        }
    }

    /// Detaches one program. Returns whether it was attached.
    pub fn detach_program(&mut self, program: &str) -> bool {
        let before = self.links.len();
        // The kernel's statistics of a program go with it.
        self.skipped_before = self.skipped_runs(|probe| probe.program == program);
        self.links.retain(|(probe, _)| probe.program != program);
        self.links.len() < before
    }

    /// Whether the program is attached.
    pub fn is_attached(&self, program: &str) -> bool {
        self.links.iter().any(|(probe, _)| probe.program == program)
    }

    /// Whether requests are counted exactly.
    pub fn counts_requests(&self) -> bool {
        self.is_attached(if self.counts_at_end { ENDS } else { plan::COUNTS_ALONE })
    }

    fn each_value(&self, name: &'static str, each: impl FnMut(&[u8])) {
        let Some(map) = self.map(name) else { return };
        let told = match map.map_type() {
            MapType::Array => each_of_array(&map, each),
            _ => each_of_hash_map(&map, each),
        };
        // While programs run, entries that came since are not lost.
        if self.links.is_empty() {
            self.untold.borrow_mut().insert(name, untold(&map, told));
        }
    }

    /// Adds the state that was present at the end and could not be listed.
    pub fn untold(&self, losses: &mut Losses) {
        let untold = self.untold.borrow();
        let of = |names: &[&str]| names.iter().filter_map(|name| untold.get(name)).sum();
        let meaning = "requests in flight at the end that the kernel did not list";
        losses.add("list", of(&["pending", "overflow"]), meaning, true);
        let meaning = "waits at the end that the kernel did not list";
        losses.add("list_waits", of(&["sleepers"]), meaning, false);
        let meaning = "files whose counts the kernel did not list";
        losses.add("list_uses", of(&["uses", "uses_2"]), meaning, false);
    }

    /// Returns a map that other code reads, too.
    pub fn handle(&self, map: &str) -> Option<MapHandle> {
        MapHandle::try_from(&self.map(map)?).ok()
    }

    fn map(&self, name: &str) -> Option<libbpf_rs::Map<'_>> {
        loader::map_of(&self.objects, OsStr::new(name))
    }

    /// Adds the losses of the BPF programs.
    pub fn losses(&self, losses: &mut Losses) {
        for (counter, place, meaning, requests) in COUNTERS {
            losses.add(place, self.counter(*counter), meaning, *requests);
        }
        let skipped = self.skipped_runs(|_| true);
        for (group, place, what, requests) in SKIPPED {
            let meaning = format!("{what} missed: BPF recursion protection");
            losses.add(place, skipped.get(group).copied().unwrap_or(0), &meaning, *requests);
        }
    }

    /// Submissions that must not block (REQ_NOWAIT) and were retried.
    pub fn retried_submissions(&self) -> u64 {
        self.counter(wire::COUNT_RETRIED)
    }

    /// Whether this thread may read maps.
    pub(crate) fn reads_maps(&self) -> bool {
        let key = 0_u32.to_ne_bytes();
        self.map("counters").is_some_and(|map| match map.map_type().is_percpu() {
            true => map.lookup_percpu(&key, MapFlags::ANY).is_ok(),
            false => map.lookup(&key, MapFlags::ANY).is_ok(),
        })
    }

    fn counter(&self, number: u32) -> u64 {
        self.map("counters").map_or(0, |map| counter(&map, number))
    }

    /// Runs that were skipped, by group: of programs that are detached, and of the attached ones
    /// selected by `is_meant`.
    fn skipped_runs(&self, is_meant: impl Fn(&Probe) -> bool) -> FxHashMap<ProbeGroup, u64> {
        let mut skipped = self.skipped_before.clone();
        let known = handles::misses(&self.objects);
        let misses = |link: &Link| known.get(&u64::from(link.info().ok()?.prog_id)).copied();
        for (probe, link) in self.links.iter().filter(|(probe, _)| is_meant(probe)) {
            let is_second = |other: &Probe| {
                other.again && (other.group, other.tracepoint) == (probe.group, probe.tracepoint)
            };
            let second = self.links.iter().find(|(other, _)| is_second(other));
            if !probe.again {
                // Only what both missed is lost.
                let least = second.and_then(|(_, link)| misses(link)).unwrap_or(u64::MAX);
                let own = misses(link).unwrap_or(0).min(least);
                *skipped.entry(probe.group).or_default() += own;
                if self.counts_at_end && probe.program == ENDS {
                    *skipped.entry(ProbeGroup::Aggregate).or_default() += own;
                }
            }
        }
        skipped
    }

    /// Instructions that the verifier processed, by program; 0 on kernels that do not report it.
    pub fn verified(&self) -> FxHashMap<String, u32> {
        let ours = self.objects.iter().flat_map(Object::progs).filter(|program| program.autoload());
        ours.filter_map(|program| {
            let name = program.name().to_str()?.to_owned();
            Some((name, handles::verified_instructions(program.as_fd()).unwrap_or(0)))
        })
        .collect()
    }

    /// Memory that the kernel uses for the maps, bytes.
    pub fn map_bytes(&self) -> u64 {
        let mut seen = Vec::new();
        let mut total = 0;
        for map in self.objects.iter().flat_map(Object::maps).filter(|map| map.autocreate()) {
            let id = map.info().map(|info| info.info.id).unwrap_or(0);
            if !seen.contains(&id) {
                seen.push(id);
                total += handles::memory_of(map.as_fd());
            }
        }
        total
    }
}

/// Hands the requests of a pair of the table in flight to `each`.
fn each_of_pair(value: &[u8], each: &mut impl FnMut(&[u8])) {
    let Ok((pair, _)) = wire::wire_pair::ref_from_prefix(value) else { return };
    for (key, request) in pair.keys.iter().zip(&pair.requests) {
        if *key != 0 {
            each(request.as_bytes());
        }
    }
}

/// Hands the values of an array to `each`; returns how many there are.
fn each_of_array(map: &impl MapCore, mut each: impl FnMut(&[u8])) -> u32 {
    let entries = map.lookup_batch(batch_of(map), MapFlags::ANY, MapFlags::ANY);
    entries.map_or(0, |entries| entries.map(|(_, value)| each(&value)).count() as u32)
}

/// Hands the values of a hash map to `each`; returns how many there are. Values that a short batch
/// left out cannot be asked for, so all are read again in one batch then.
fn each_of_hash_map(map: &impl MapCore, mut each: impl FnMut(&[u8])) -> u32 {
    let (few, most) = (batch_of(map), map.max_entries());
    let read = |batch| -> Vec<Vec<u8>> {
        let entries = map.lookup_batch(batch, MapFlags::ANY, MapFlags::ANY);
        entries.map_or(Vec::new(), |entries| entries.map(|(_, value)| value).collect())
    };
    let mut values = read(few);
    if !is_all(map.map_type(), values.len(), few, most) {
        values = read(most);
    }
    values.iter().for_each(|value| each(value));
    values.len() as u32
}

fn kernel(verb: &'static str, object: String, cause: String) -> WatchError {
    WatchError::Kernel { verb, object, cause }
}

fn find_program<'a>(objects: &'a [Object], name: &str) -> Option<ProgramMut<'a>> {
    // If groups are loaded one by one, several objects have the program, and one has loaded it.
    let mut all = objects.iter().flat_map(Object::progs_mut);
    all.find(|program| program.name() == name && program.autoload())
}

fn ring(objects: &[Object], inbox: &Rc<RefCell<Inbox>>) -> Result<RingBuffer<'static>, WatchError> {
    let fail = |cause: String| kernel("read", "the ring buffer".to_owned(), cause);
    let map = loader::map_of(objects, OsStr::new(loader::RING))
        .ok_or_else(|| fail("no such map".to_owned()))?;
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    let take = move |record: &[u8]| {
        let mut inbox = inbox.borrow_mut();
        inbox.bytes.extend_from_slice(record);
        // Each record begins where its integers can be read in place.
        let end = inbox.bytes.len().next_multiple_of(8);
        inbox.bytes.resize(end, 0);
        inbox.ends.push(end);
        0
    };
    builder.add(&map, take).map_err(|cause| fail(cause.to_string()))?;
    builder.build().map_err(|cause| fail(cause.to_string()))
}
