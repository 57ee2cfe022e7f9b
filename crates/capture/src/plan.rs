//! Which probes a watch uses, from facts and wishes. Pure, so that it can be tested with kernels
//! that nobody has.

use crate::kernel::Facts;

/// A group of programs that is loaded or fails as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Requests: every watch needs it.
    Block,
    /// Who makes pages dirty.
    Writeback,
}

/// A program on a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The group that it is part of.
    pub group: Group,
    /// Its name in the BPF object.
    pub program: &'static str,
    /// The tracepoint it is attached to.
    pub tracepoint: &'static str,
    /// What nobody can see without it.
    pub gives: &'static str,
    /// Whether a watch without it is worth nothing.
    pub needed: bool,
}

const fn probe(
    group: Group,
    program: &'static str,
    tracepoint: &'static str,
    gives: &'static str,
    needed: bool,
) -> Probe {
    Probe { group, program, tracepoint, gives, needed }
}

/// Every probe, in the order of attachment: what ends a request comes before what begins it, so
/// that no request begins for which the end would not be seen.
pub const PROBES: &[Probe] = &[
    probe(Group::Block, "on_complete", "block_rq_complete", "the end of requests", true),
    probe(Group::Block, "on_bio_complete", "block_bio_complete", "devices without requests (zram, device mapper)", false),
    probe(Group::Block, "on_requeue", "block_rq_requeue", "how often drivers give requests back", false),
    probe(Group::Block, "on_issue", "block_rq_issue", "when the driver gets a request", true),
    probe(Group::Block, "on_insert", "block_rq_insert", "time in the scheduler apart from dispatch", false),
    probe(Group::Block, "on_get", "block_getrq", "waits for wbt, iocost and tags", false),
    probe(Group::Block, "on_split", "block_split", "the beginning of requests that were split", false),
    probe(Group::Block, "on_queue", "block_bio_queue", "who asked, for which file, and since when", true),
    probe(Group::Writeback, "on_dirty", "writeback_dirty_folio", "who dirtied what writeback writes", false),
];

/// What the user wants to see.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Device numbers to watch; all when empty.
    pub devices: Vec<u32>,
    /// Stacks a second on each CPU; 0 for none.
    pub stacks_per_second: u32,
    /// Whether user stacks are taken too.
    pub user_stacks: bool,
}

/// What will be loaded, and what cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The probes to attach, in order.
    pub probes: Vec<Probe>,
    /// Probes whose tracepoint this kernel lacks.
    pub missing: Vec<Probe>,
}

impl Plan {
    /// Chooses from `facts`.
    pub fn new(facts: &Facts) -> Plan {
        let (probes, missing) = PROBES
            .iter()
            .copied()
            .partition(|probe: &Probe| facts.tracepoints.contains(probe.tracepoint));
        Plan { probes, missing }
    }

    /// The first probe that is missing although no watch can do without it.
    pub fn first_needed_missing(&self) -> Option<&Probe> {
        self.missing.iter().find(|probe| probe.needed)
    }

    /// The groups that have at least one probe.
    pub fn groups(&self) -> Vec<Group> {
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

    fn facts_without(missing: &[&str]) -> Facts {
        let tracepoints =
            PROBES.iter().map(|probe| probe.tracepoint).filter(|name| !missing.contains(name));
        Facts { tracepoints: tracepoints.collect(), ..Facts::default() }
    }

    #[test]
    fn a_kernel_with_everything_misses_nothing() {
        let plan = Plan::new(&facts_without(&[]));
        assert_eq!(plan.probes, PROBES);
        assert!(plan.missing.is_empty());
    }

    #[test]
    fn a_missing_extra_costs_its_own_feature_only() {
        let plan = Plan::new(&facts_without(&["writeback_dirty_folio"]));
        assert_eq!(plan.groups(), [Group::Block]);
        assert_eq!(plan.first_needed_missing(), None);
        assert_eq!(plan.missing[0].gives, "who dirtied what writeback writes");
    }

    #[test]
    fn a_missing_end_of_requests_is_fatal() {
        let plan = Plan::new(&facts_without(&["block_rq_complete"]));
        assert_eq!(plan.first_needed_missing().map(|probe| probe.program), Some("on_complete"));
    }

    #[test]
    fn ends_are_attached_before_beginnings() {
        let place = |program| PROBES.iter().position(|probe| probe.program == program);
        assert!(place("on_complete") < place("on_issue"));
        assert!(place("on_issue") < place("on_queue"));
    }
}
