//! The compiled objects that hold the programs of a plan, and their loading: those of a usual watch
//! at once. A program that the kernel refuses is left out, and the rest is loaded again.
//!
//! What does not belong here: how one object is loaded (see [`crate::loader`]), and attaching (see
//! [`crate::session`]).

use crate::error::WatchError;
use crate::kernel::KernelFeatures;
use crate::loader::{self, LoadFailure, ObjectFile, ObjectSource, object};
use crate::plan::{Plan, Probe, ProbeGroup};
use crate::wire;
use libbpf_rs::{Object, ProgramType};
use std::ffi::OsStr;

/// The loaded part of a plan.
#[derive(Default)]
pub(crate) struct LoadedGroups {
    /// The objects, in order: maps that two of them have are shared.
    pub objects: Vec<Object>,
    /// Probes that every watch can do without and that could not be loaded, with the kernel's
    /// reason.
    pub failed: Vec<(Probe, String)>,
}

/// The object that holds all groups with a name.
const DEFAULT_WATCH: ObjectFile = object!("default_watch");

/// The name of a group that is in [`DEFAULT_WATCH`], as `wire::GROUP_MAPS` has it.
const fn name_there(group: ProbeGroup) -> Option<&'static str> {
    match group {
        ProbeGroup::Aggregate => Some("aggregate"),
        ProbeGroup::Block => Some("block"),
        ProbeGroup::Writeback => Some("writeback"),
        ProbeGroup::Wait => Some("wait"),
        ProbeGroup::File => Some("file"),
        ProbeGroup::Snapshot => Some("snapshot"),
        ProbeGroup::Events | ProbeGroup::PageCache => None,
    }
}

/// The variant of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instructions {
    /// With atomic instructions, which Linux 5.12 added, and 5.18 for arm64.
    Atomic,
    /// Without.
    Plain,
}

/// The object that a group is loaded from.
const fn object_of(group: ProbeGroup, instructions: Instructions) -> ObjectFile {
    match (group, instructions) {
        (ProbeGroup::Block, Instructions::Plain) => object!("block-plain"),
        (ProbeGroup::Writeback, Instructions::Plain) => object!("writeback-plain"),
        (ProbeGroup::Snapshot, Instructions::Plain) => object!("snapshot-plain"),
        (ProbeGroup::Events, Instructions::Plain) => object!("events-plain"),
        (ProbeGroup::Events, Instructions::Atomic) => object!("events"),
        (ProbeGroup::PageCache, _) => object!("page_cache"),
        (
            ProbeGroup::Aggregate
            | ProbeGroup::Block
            | ProbeGroup::Writeback
            | ProbeGroup::Wait
            | ProbeGroup::File
            | ProbeGroup::Snapshot,
            _,
        ) => DEFAULT_WATCH,
    }
}

/// Groups that are loaded from one object.
type Portion = (ObjectFile, Vec<ProbeGroup>);

/// The plan's groups by object.
fn portions(plan: &Plan, instructions: Instructions) -> Vec<Portion> {
    let mut portions: Vec<Portion> = Vec::new();
    for group in plan.groups() {
        let file = object_of(group, instructions);
        match portions.iter_mut().find(|(known, _)| known.name == file.name) {
            Some((_, groups)) => groups.push(group),
            None => portions.push((file, vec![group])),
        }
    }
    portions
}

/// Loads the programs of a plan. What the kernel refuses costs one more attempt for each program
/// that is refused.
///
/// # Errors
/// Fails if the kernel does not accept a program that every watch needs.
pub(crate) fn load(
    plan: &Plan,
    facts: &KernelFeatures,
    settings: &wire::wire_settings,
    source: &ObjectSource,
) -> Result<LoadedGroups, WatchError> {
    let loading = Loading { plan, settings, source };
    if !facts.may_have_atomics {
        return loading.all(Instructions::Plain);
    }
    // A kernel may know the instructions, and its compiler for this architecture may not.
    loading.all(Instructions::Atomic).or_else(|error| {
        loading.all(Instructions::Plain).map_err(|_not_because_of_the_instructions| error)
    })
}

/// Loads each object of both variants that this kernel should accept, with every program of the
/// plan. Returns the refused programs, each with its object's name and the kernel's reason.
pub(crate) fn refused(
    plan: &Plan,
    facts: &KernelFeatures,
    settings: &wire::wire_settings,
    source: &ObjectSource,
) -> Vec<(&'static str, String, String)> {
    let loading = Loading { plan, settings, source };
    let mut refused = Vec::new();
    // Kernels before 5.14 have no such programs.
    let has_symbols = ProgramType::Syscall.is_supported().unwrap_or(true);
    if has_symbols && let Err(cause) = loader::load_symbols(source) {
        refused.push(("symbols", String::new(), cause.to_string()));
    }
    let atomic = facts.may_have_atomics.then_some(Instructions::Atomic);
    for instructions in atomic.into_iter().chain([Instructions::Plain]) {
        let mut objects = Vec::new();
        for (file, groups) in portions(plan, instructions) {
            let mut add = |program: &str, cause: &str| {
                refused.push((file.name, program.to_owned(), cause.to_owned()));
            };
            match loading.portion(file, &groups, &objects) {
                Ok((object, left_out)) => {
                    objects.push(object);
                    left_out.iter().for_each(|(probe, cause)| add(probe.program, cause));
                }
                Err(failure) => add(&failure.program.unwrap_or_default(), &failure.cause),
            }
        }
    }
    let alone = object!("aggregate");
    if let Err(failure) = loader::load(source, alone, |_| true, |_| false, settings, &[]) {
        refused.push((alone.name, failure.program.unwrap_or_default(), failure.cause));
    }
    refused
}

/// The state of loading a plan.
struct Loading<'a> {
    plan: &'a Plan,
    settings: &'a wire::wire_settings,
    source: &'a ObjectSource,
}

impl Loading<'_> {
    fn all(&self, instructions: Instructions) -> Result<LoadedGroups, WatchError> {
        let mut loaded = LoadedGroups::default();
        for (file, groups) in portions(self.plan, instructions) {
            match self.portion(file, &groups, &loaded.objects) {
                Ok((object, left_out)) => {
                    loaded.objects.push(object);
                    loaded.failed.extend(left_out);
                }
                Err(failure) => self.apart(file, &groups, &failure, &mut loaded)?,
            }
        }
        Ok(loaded)
    }

    /// Loads the groups of an object one by one, so that groups which do not need the missing part
    /// (a map, the memory for all of them) are there.
    fn apart(
        &self,
        file: ObjectFile,
        groups: &[ProbeGroup],
        failure: &LoadFailure,
        loaded: &mut LoadedGroups,
    ) -> Result<(), WatchError> {
        for group in groups {
            let of_group = self.plan.probes.iter().filter(|probe| probe.group == *group);
            let needed = of_group.clone().find(|probe| probe.needed);
            let result = if groups.len() == 1 {
                Err(failure.clone())
            } else {
                self.portion(file, &[*group], &loaded.objects)
            };
            match (result, needed) {
                (Ok((object, left_out)), _) => {
                    loaded.objects.push(object);
                    loaded.failed.extend(left_out);
                }
                (Err(failure), Some(_)) => {
                    let object = format!("the {group:?} programs").to_lowercase();
                    let cause = failure.cause;
                    return Err(WatchError::Kernel { verb: "load", object, cause });
                }
                (Err(failure), None) => {
                    loaded.failed.extend(of_group.map(|probe| (*probe, failure.cause.clone())));
                }
            }
        }
        Ok(())
    }

    /// Loads what some groups have in an object: their programs of the plan, and their maps. Leaves
    /// out the programs that are refused, and those that are worth nothing without them.
    fn portion(
        &self,
        file: ObjectFile,
        groups: &[ProbeGroup],
        earlier: &[Object],
    ) -> Result<(Object, Vec<(Probe, String)>), LoadFailure> {
        let mut left_out: Vec<(Probe, String)> = Vec::new();
        loop {
            let is_left_out = |probe: &Probe| left_out.iter().any(|(refused, _)| refused == probe);
            let mut wanted: Vec<Probe> = self.plan.probes.clone();
            wanted.retain(|probe| groups.contains(&probe.group) && !is_left_out(probe));
            let failure = match self.object(file, groups, &wanted, earlier) {
                Ok(object) => return Ok((object, left_out)),
                Err(failure) => failure,
            };
            let is_refused = |probe: &&Probe| failure.program.as_deref() == Some(probe.program);
            let Some(refused) = wanted.iter().find(is_refused) else { return Err(failure) };
            let lost = |probe: &&Probe| *probe == refused || probe.rests_on(refused);
            let lost: Vec<Probe> = wanted.iter().filter(lost).copied().collect();
            if lost.iter().any(|probe| probe.needed) {
                return Err(failure);
            }
            left_out.extend(lost.into_iter().map(|probe| {
                let cause = &failure.cause;
                let is_refused = probe.program == refused.program;
                let resting =
                    || format!("it is worth nothing without {}: {cause}", refused.program);
                (probe, if is_refused { cause.clone() } else { resting() })
            }));
        }
    }

    fn object(
        &self,
        file: ObjectFile,
        groups: &[ProbeGroup],
        wanted: &[Probe],
        earlier: &[Object],
    ) -> Result<Object, LoadFailure> {
        let is_program = |name: &OsStr| wanted.iter().any(|probe| name == probe.program);
        let names: Vec<&str> = groups.iter().filter_map(|group| name_there(*group)).collect();
        let is_others = |map: &OsStr| {
            let mut owners = wire::GROUP_MAPS.iter().filter(|(_, name)| map == *name).peekable();
            !names.is_empty()
                && owners.peek().is_some()
                && owners.all(|(group, _)| !names.contains(group))
        };
        loader::load(self.source, file, is_program, is_others, self.settings, earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PROBES, Wishes};

    fn plan() -> Plan {
        let tracepoints = PROBES.iter().filter_map(|probe| probe.tracepoint).collect();
        let facts = KernelFeatures { tracepoints, ..KernelFeatures::default() };
        let wishes = Wishes { events: true, waits: true, files: true, ..Wishes::default() };
        Plan::new(&facts, &wishes)
    }

    #[test]
    fn a_usual_watch_is_one_object_and_what_is_asked_for_another() {
        let portions = portions(&plan(), Instructions::Atomic);
        let names: Vec<&str> = portions.iter().map(|(file, _)| file.name).collect();
        assert_eq!(names, ["default_watch", "events"]);
    }

    #[test]
    fn without_atomics_only_the_groups_that_use_them_are_loaded_apart() {
        let portions = portions(&plan(), Instructions::Plain);
        let of = |name: &str| {
            portions.iter().find(|(file, _)| file.name == name).map(|(_, groups)| groups)
        };
        assert_eq!(of("default_watch"), Some(&vec![ProbeGroup::Wait, ProbeGroup::File]));
        assert_eq!(of("block-plain"), Some(&vec![ProbeGroup::Block]));
        assert_eq!(portions.len(), 5);
    }
}
