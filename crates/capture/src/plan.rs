//! Selects the probes of a watch from facts and wishes. Pure, so that it can be tested with kernels
//! that are not at hand.

use crate::kernel::{self, KernelFeatures};

/// A group of BPF programs that share a purpose, a decoder and maps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProbeGroup {
    /// Exact counts: alone, or together with the others.
    Aggregate,
    /// Requests: required by every watch.
    Block,
    /// Processes that dirty pages.
    Writeback,
    /// Every single block event, only on request.
    Events,
    /// Threads that wait.
    Wait,
    /// Uses of files by programs.
    File,
    /// Additions to the page cache and removals from it, only on request.
    PageCache,
    /// State that exists when the watch begins: run by iowhy itself.
    Snapshot,
}

/// A program on a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The group that it belongs to.
    pub group: ProbeGroup,
    /// The program's name in the BPF object.
    pub program: &'static str,
    /// The tracepoint it is attached to; `None` for a program that iowhy runs itself.
    pub tracepoint: Option<&'static str>,
    /// The facts that are not visible without it. Several probes of a group with the same text are
    /// alternatives: a kernel has one or the other.
    pub gives: &'static str,
    /// Whether a watch is worthless without it.
    pub needed: bool,
    /// Whether it only handles events that another program on the same tracepoint missed because of
    /// BPF recursion protection: needed where tracepoints are preemptible.
    pub again: bool,
}

impl Probe {
    /// Returns the name of the feature that a kernel lacks if it cannot provide the probe.
    pub fn needs(&self) -> String {
        match self.tracepoint.unwrap_or(self.program) {
            kernel::URING => format!("{} with a request argument", kernel::URING),
            name => name.to_owned(),
        }
    }

    /// Returns the other way to the same facts; `None` if they are not visible without the probe.
    pub fn otherwise(&self) -> Option<&'static str> {
        (self.program == "list_pending").then_some("read from user space, at a higher cost")
    }

    /// Whether it tells nothing, or something wrong, without the other: who lists sleepers must see
    /// them wake.
    pub fn rests_on(&self, other: &Probe) -> bool {
        let others: &[&str] = match self.program {
            "list_sleepers" => &["on_switch"],
            "list_thread_sleepers" => &["on_switch", "on_waking"],
            "on_call_begins" => &["on_call"],
            _ => &[],
        };
        self.again && self.group == other.group && self.tracepoint == other.tracepoint
            || others.contains(&other.program)
    }
}

const fn probe(
    group: ProbeGroup,
    program: &'static str,
    tracepoint: &'static str,
    gives: &'static str,
    needed: bool,
) -> Probe {
    Probe { group, program, tracepoint: Some(tracepoint), gives, needed, again: false }
}

const fn again(program: &'static str, tracepoint: &'static str) -> Probe {
    let gives = "events missed because of BPF recursion protection";
    Probe { again: true, ..probe(ProbeGroup::Block, program, tracepoint, gives, false) }
}

const fn look(program: &'static str, gives: &'static str) -> Probe {
    Probe {
        group: ProbeGroup::Snapshot,
        program,
        tracepoint: None,
        gives,
        needed: false,
        again: false,
    }
}

/// The program that counts requests where the one at their completion does not.
pub(crate) const COUNTS_ALONE: &str = "count_completion";

/// Every probe, in the order of attachment: what ends a request is attached before what begins it,
/// so that no request begins whose end would be missed.
pub const PROBES: &[Probe] = &[
    probe(
        ProbeGroup::Aggregate,
        COUNTS_ALONE,
        "block_rq_complete",
        "exact counts of requests",
        false,
    ),
    probe(
        ProbeGroup::Aggregate,
        "count_bio_completion",
        "block_bio_complete",
        "exact counts of bio-based devices",
        false,
    ),
    probe(ProbeGroup::Block, "on_complete", "block_rq_complete", "request completions", true),
    probe(
        ProbeGroup::Block,
        "on_bio_complete",
        "block_bio_complete",
        "bio-based devices (zram, device mapper)",
        false,
    ),
    probe(
        ProbeGroup::Block,
        "on_requeue",
        "block_rq_requeue",
        "how often drivers requeue requests",
        false,
    ),
    probe(ProbeGroup::Block, "on_issue", "block_rq_issue", "when a request is issued", true),
    probe(
        ProbeGroup::Block,
        "on_insert",
        "block_rq_insert",
        "time in the scheduler before dispatch",
        false,
    ),
    probe(ProbeGroup::Block, "on_get", "block_getrq", "waits for wbt, iocost and tags", false),
    probe(ProbeGroup::Block, "on_split", "block_split", "start times of split requests", false),
    probe(
        ProbeGroup::Block,
        "on_queue",
        "block_bio_queue",
        "submitter, file and queue time of requests",
        true,
    ),
    again("on_complete_again", "block_rq_complete"),
    again("on_bio_complete_again", "block_bio_complete"),
    again("on_issue_again", "block_rq_issue"),
    again("on_insert_again", "block_rq_insert"),
    again("on_get_again", "block_getrq"),
    again("on_split_again", "block_split"),
    again("on_queue_again", "block_bio_queue"),
    probe(ProbeGroup::Events, "event_complete", "block_rq_complete", "single events: C", false),
    probe(
        ProbeGroup::Events,
        "event_bio_complete",
        "block_bio_complete",
        "single events: C of bios",
        false,
    ),
    probe(ProbeGroup::Events, "event_requeue", "block_rq_requeue", "single events: R", false),
    probe(ProbeGroup::Events, "event_issue", "block_rq_issue", "single events: D", false),
    probe(ProbeGroup::Events, "event_insert", "block_rq_insert", "single events: I", false),
    probe(
        ProbeGroup::Events,
        "event_merge",
        "block_rq_merge",
        "single events: M of requests",
        false,
    ),
    probe(ProbeGroup::Events, "event_unplug", "block_unplug", "single events: U", false),
    probe(ProbeGroup::Events, "event_plug", "block_plug", "single events: P", false),
    probe(ProbeGroup::Events, "event_get", "block_getrq", "single events: G", false),
    probe(
        ProbeGroup::Events,
        "event_frontmerge",
        "block_bio_frontmerge",
        "single events: F",
        false,
    ),
    probe(ProbeGroup::Events, "event_backmerge", "block_bio_backmerge", "single events: M", false),
    probe(ProbeGroup::Events, "event_split", "block_split", "single events: X", false),
    probe(ProbeGroup::Events, "event_queue", "block_bio_queue", "single events: Q", false),
    probe(ProbeGroup::Events, "event_remap", "block_bio_remap", "single events: A", false),
    probe(
        ProbeGroup::Writeback,
        "on_dirty",
        "writeback_dirty_folio",
        "who dirtied the pages of writeback",
        false,
    ),
    probe(
        ProbeGroup::Writeback,
        "on_dirty_page",
        "writeback_dirty_page",
        "who dirtied the pages of writeback",
        false,
    ),
    probe(
        ProbeGroup::Wait,
        "on_waking",
        "sched_waking",
        "who woke a waiting thread, and when",
        false,
    ),
    probe(
        ProbeGroup::Wait,
        "on_posix_lock",
        "posix_lock_inode",
        "waits for locks of files (fcntl)",
        false,
    ),
    probe(
        ProbeGroup::Wait,
        "on_flock",
        "flock_lock_inode",
        "waits for locks of files (flock)",
        false,
    ),
    probe(ProbeGroup::Wait, "on_switch", "sched_switch", "where blocked threads waited", false),
    Probe {
        group: ProbeGroup::Wait,
        ..look("list_sleepers", "waits that began before the watch and outlast it")
    },
    Probe {
        group: ProbeGroup::Wait,
        ..look("list_thread_sleepers", "wait chains that last until the watch ends")
    },
    probe(
        ProbeGroup::File,
        "on_call",
        "sys_exit",
        "opens, reads, writes, syncs and removals of files",
        false,
    ),
    probe(ProbeGroup::File, "on_call_begins", "sys_enter", "how long calls on files take", false),
    probe(
        ProbeGroup::File,
        "on_uring_complete",
        kernel::URING,
        "file operations by io_uring",
        false,
    ),
    probe(
        ProbeGroup::File,
        "on_file_fault",
        "mm_filemap_fault",
        "page faults on mapped files",
        false,
    ),
    probe(
        ProbeGroup::File,
        "on_file_mapped",
        "mm_filemap_map_pages",
        "mapped files whose pages are cached",
        false,
    ),
    probe(
        ProbeGroup::PageCache,
        "on_page_added",
        "mm_filemap_add_to_page_cache",
        "pages added to the page cache",
        false,
    ),
    probe(
        ProbeGroup::PageCache,
        "on_page_removed",
        "mm_filemap_delete_from_page_cache",
        "pages removed from the page cache",
        false,
    ),
    look("look_in_flight", "requests that began before the watch and outlast it"),
    look("list_pending", "the age of requests in flight during the watch"),
    look("list_writers", "who has files open for writing, for pages dirtied before the watch"),
];

/// The user's wishes for a watch.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Device numbers to watch; empty for all.
    pub devices: Vec<u32>,
    /// Stacks per second on each CPU; 0 for none.
    pub stacks_per_second: u32,
    /// Whether user stacks are taken too.
    pub user_stacks: bool,
    /// Whether every single block event is wanted.
    pub events: bool,
    /// Whether the waits of threads are wanted.
    pub waits: bool,
    /// Whether to record who waited for a waiting thread.
    pub chains: bool,
    /// Whether uses of files by programs are wanted.
    pub files: bool,
    /// Whether every single open is wanted.
    pub opens: bool,
    /// Whether additions to the page cache and removals from it are counted.
    pub page_cache: bool,
    /// Whether requests are counted exactly, too.
    pub aggregates: bool,
    /// The ring buffer's size.
    pub ring: RingSize,
}

/// The room for records until they are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RingSize {
    /// For watches that record as much as they can, which a busy machine may keep from reading for
    /// tens of milliseconds.
    #[default]
    Large,
    /// For watches with a budget, which lets fewer records through.
    Middle,
    /// For watches that run for ever, whose budget lets few records through.
    Small,
}

impl RingSize {
    /// The size in bytes, a power of two. The kernel maps the ring buffer twice, one behind the
    /// other, and counts both as the process's memory.
    pub const fn bytes(self) -> u32 {
        match self {
            RingSize::Large => 16 << 20,
            RingSize::Middle => 8 << 20,
            RingSize::Small => 4 << 20,
        }
    }

    /// The size of the table of requests in flight, which is listed every second: two to this power
    /// pairs. Requests that do not fit go to a slower table.
    pub const fn pairs_bits(self) -> u32 {
        match self {
            RingSize::Large | RingSize::Middle => 13,
            RingSize::Small => 11,
        }
    }
}

impl Wishes {
    /// Whether the program at the completion of requests counts them exactly, too: to enter one
    /// program costs less than to enter two. Where programs can be preempted a second one handles
    /// what the first one missed, and cannot tell what has been counted.
    pub fn counts_requests(&self, facts: &KernelFeatures) -> bool {
        self.aggregates && !facts.programs_are_preemptible
    }

    fn want(&self, group: ProbeGroup) -> bool {
        match group {
            ProbeGroup::Events => self.events,
            ProbeGroup::Wait => self.waits,
            ProbeGroup::File => self.files,
            ProbeGroup::PageCache => self.page_cache,
            ProbeGroup::Aggregate => self.aggregates,
            ProbeGroup::Block | ProbeGroup::Writeback | ProbeGroup::Snapshot => true,
        }
    }
}

/// The probes to load, and those that this kernel cannot provide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The probes to attach, in order.
    pub probes: Vec<Probe>,
    /// Probes whose tracepoint this kernel lacks, without an alternative that gives the same.
    pub missing: Vec<Probe>,
}

impl Plan {
    /// Selects the probes for `wishes` that `facts` allow.
    pub fn new(facts: &KernelFeatures, wishes: &Wishes) -> Plan {
        let mut plan = Plan::of_probes(facts, |probe| wishes.want(probe.group));
        if wishes.counts_requests(facts) {
            plan.probes.retain(|probe| probe.program != COUNTS_ALONE);
        }
        plan
    }

    /// Selects those of some probes that `facts` allow.
    fn of_probes(facts: &KernelFeatures, is_wanted: impl Fn(&Probe) -> bool) -> Plan {
        let is_meant =
            |probe: &Probe| is_wanted(probe) && (!probe.again || facts.programs_are_preemptible);
        let (probes, mut missing): (Vec<Probe>, Vec<Probe>) =
            PROBES.iter().copied().filter(|probe| is_meant(probe)).partition(|probe: &Probe| {
                probe.tracepoint.is_none_or(|tracepoint| facts.tracepoints.contains(tracepoint))
            });
        let same =
            |one: &Probe, other: &Probe| one.group == other.group && one.gives == other.gives;
        missing.retain(|absent| !probes.iter().any(|probe| same(absent, probe)));
        missing.dedup_by(|second, first| same(first, second));
        Plan { probes, missing }
    }

    /// Selects the probes that count requests, and nothing else.
    pub fn of_aggregates(facts: &KernelFeatures) -> Plan {
        Plan::of_probes(facts, |probe| probe.group == ProbeGroup::Aggregate)
    }

    /// The first missing probe that every watch requires.
    pub fn first_needed_missing(&self) -> Option<&Probe> {
        self.missing.iter().find(|probe| probe.needed)
    }

    /// The groups that have at least one probe.
    pub fn groups(&self) -> Vec<ProbeGroup> {
        let mut groups = Vec::new();
        for probe in &self.probes {
            if !groups.contains(&probe.group) {
                groups.push(probe.group);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: Wishes = Wishes {
        devices: Vec::new(),
        stacks_per_second: 0,
        user_stacks: false,
        events: true,
        waits: true,
        chains: true,
        files: true,
        opens: false,
        page_cache: true,
        aggregates: true,
        ring: RingSize::Large,
    };

    fn facts_without(missing: &[&str]) -> KernelFeatures {
        let tracepoints = PROBES
            .iter()
            .filter_map(|probe| probe.tracepoint)
            .filter(|name| !missing.contains(name));
        KernelFeatures { tracepoints: tracepoints.collect(), ..KernelFeatures::default() }
    }

    #[test]
    fn a_kernel_with_everything_misses_nothing() {
        let mut facts = facts_without(&[]);
        facts.programs_are_preemptible = true;
        let plan = Plan::new(&facts, &EVERYTHING);
        assert_eq!(plan.probes, PROBES);
        assert!(plan.missing.is_empty());
    }

    #[test]
    fn a_second_program_comes_after_its_first_and_only_where_that_is_skipped() {
        let facts = facts_without(&[]);
        let plan = Plan::new(&facts, &EVERYTHING);
        assert!(plan.probes.iter().all(|probe| !probe.again));
        assert!(plan.probes.iter().all(|probe| probe.program != COUNTS_ALONE));
        assert_eq!(Plan::of_aggregates(&facts).probes[0].program, COUNTS_ALONE);
        for (place, probe) in PROBES.iter().enumerate().filter(|(_, probe)| probe.again) {
            let is_first =
                |one: &Probe| !one.again && format!("{}_again", one.program) == probe.program;
            let first = PROBES.iter().position(is_first);
            assert!(first.is_some_and(|first| first < place), "{}", probe.program);
            assert_eq!(first.map(|first| PROBES[first].tracepoint), Some(probe.tracepoint));
        }
    }

    #[test]
    fn a_missing_extra_costs_its_own_feature_only() {
        let plan = Plan::new(
            &facts_without(&["writeback_dirty_folio", "writeback_dirty_page"]),
            &Wishes::default(),
        );
        assert_eq!(plan.groups(), [ProbeGroup::Block, ProbeGroup::Snapshot]);
        assert_eq!(plan.first_needed_missing(), None);
        assert_eq!(plan.missing[0].gives, "who dirtied the pages of writeback");
    }

    #[test]
    fn either_of_two_names_will_do() {
        let plan = Plan::new(&facts_without(&["writeback_dirty_folio"]), &Wishes::default());
        assert!(plan.groups().contains(&ProbeGroup::Writeback));
        assert!(plan.missing.is_empty());
    }

    #[test]
    fn what_a_kernel_lacks_is_said() {
        let plan = Plan::new(&facts_without(&["mm_filemap_fault", kernel::URING]), &EVERYTHING);
        let needs: Vec<String> = plan.missing.iter().map(Probe::needs).collect();
        assert_eq!(needs, ["io_uring_complete with a request argument", "mm_filemap_fault"]);
    }

    #[test]
    fn a_missing_end_of_requests_is_fatal() {
        let plan = Plan::new(&facts_without(&["block_rq_complete"]), &Wishes::default());
        assert_eq!(plan.first_needed_missing().map(|probe| probe.program), Some("on_complete"));
    }

    #[test]
    fn single_events_are_left_alone_unless_asked_for() {
        let plan = Plan::new(&facts_without(&["block_plug"]), &Wishes::default());
        assert!(!plan.groups().contains(&ProbeGroup::Events));
        assert!(plan.missing.is_empty());
    }

    #[test]
    fn ends_are_attached_before_beginnings() {
        let place = |program| PROBES.iter().position(|probe| probe.program == program);
        assert!(place("on_complete") < place("on_issue"));
        assert!(place("on_issue") < place("on_queue"));
    }
}
