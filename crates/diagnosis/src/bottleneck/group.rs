//! The waits of one kind for one device.
//!
//! What does not belong here: what they wait for (see [`super::bound`]), and which processes are
//! one program (see `facts::by_program`).

use super::kind::BottleneckKind;
use crate::facts::by_program::WaitingProgram;
use crate::facts::{Facts, Waited};
use iowhy_analysis::summary::DeviceSummary;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_model::compact_sort::CompactSort;
use std::collections::BTreeMap;

/// The waits of one kind for one device.
#[derive(Clone, Debug)]
pub struct GroupedWaits<'a> {
    /// The kind of bottleneck: what the threads do.
    pub kind: BottleneckKind,
    /// The device, if known.
    pub device: Option<&'a DeviceSummary>,
    /// All of the waits.
    pub waited: Waited<'a>,
    /// By program, the one with the most time first.
    pub programs: Vec<WaitingProgram<'a>>,
}

/// Returns the groups of this kind, one for each device, the one with the most time first.
pub fn all<'a>(facts: &Facts<'a>, kind: BottleneckKind) -> Vec<GroupedWaits<'a>> {
    let of_kind = facts.waits(|group| BottleneckKind::new(facts, group) == kind);
    let mut devices: BTreeMap<Option<&str>, Vec<&'a WaitGroup>> = BTreeMap::new();
    for group in of_kind.groups {
        devices.entry(group.device.as_deref()).or_default().push(group);
    }
    // What the main user of a device waits for is its own work: those behind it come first.
    let mut culprits = facts.main_users();
    culprits.retain(|user| !user.is_known());
    let is_culprits = |group: &WaitGroup| {
        culprits.iter().any(|user| {
            group.device.as_ref() == Some(&user.device.device)
                && group.process == user.row.subject.process
        })
    };
    let of_device = |(name, groups): (Option<&str>, Vec<&'a WaitGroup>)| {
        let (own, others): (Vec<&WaitGroup>, Vec<&WaitGroup>) =
            groups.into_iter().partition(|group| is_culprits(group));
        let groups = if others.is_empty() { own } else { others };
        let waited = Waited::from_groups(groups);
        let device = facts.devices().iter().find(|row| Some(row.device.as_str()) == name);
        GroupedWaits { kind, device, programs: facts.by_program(&waited), waited }
    };
    let mut groups: Vec<GroupedWaits<'a>> = devices.into_iter().map(of_device).collect();
    groups.compact_sort_by_key(|group| std::cmp::Reverse(group.waited.time_ns));
    groups
}
