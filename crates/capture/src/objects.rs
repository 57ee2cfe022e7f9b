//! Which compiled objects hold the programs of a plan, and how they are loaded: those of a usual
//! watch at once, or group by group on a kernel that rejects one of them.
//!
//! What does not belong here: how one object is loaded (see [`crate::loader`]), and attaching (see
//! [`crate::session`]).

use crate::error::WatchError;
use crate::loader::{self, CompressedObject, object};
use crate::plan::{Plan, Probe, ProbeGroup};
use crate::wire;
use libbpf_rs::Object;
use std::ffi::OsStr;

/// What was loaded of a plan.
#[derive(Default)]
pub(crate) struct LoadedGroups {
    /// The objects, in order: maps that two of them have are shared.
    pub objects: Vec<Object>,
    /// Probes that every watch can do without and that could not be loaded, with the kernel's
    /// reason.
    pub failed: Vec<(Probe, String)>,
    /// Whether the kernel accepted [`DEFAULT_WATCH`] as a whole.
    pub together: bool,
}

/// The object that holds all groups with a name.
const DEFAULT_WATCH: CompressedObject = object!("default_watch");

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

/// The objects that a group can be loaded from; the first one that the kernel accepts is used. The
/// plain ones do without atomic instructions, which Linux 5.12 added.
fn objects_of(group: ProbeGroup) -> Vec<CompressedObject> {
    match group {
        ProbeGroup::Block => vec![DEFAULT_WATCH, object!("block-plain")],
        ProbeGroup::Writeback => vec![DEFAULT_WATCH, object!("writeback-plain")],
        ProbeGroup::Snapshot => vec![DEFAULT_WATCH, object!("snapshot-plain")],
        ProbeGroup::Events => vec![object!("events"), object!("events-plain")],
        ProbeGroup::PageCache => vec![object!("page_cache")],
        ProbeGroup::Aggregate | ProbeGroup::Wait | ProbeGroup::File => vec![DEFAULT_WATCH],
    }
}

/// Loads the programs of a plan.
///
/// # Errors
/// Where the kernel does not accept a group that every watch needs.
pub(crate) fn load(
    plan: &Plan,
    settings: &wire::wire_settings,
) -> Result<LoadedGroups, WatchError> {
    let mut loaded = LoadedGroups::default();
    let (together, mut others): (Vec<ProbeGroup>, Vec<ProbeGroup>) =
        plan.groups().into_iter().partition(|group| name_there(*group).is_some());
    match load_object(DEFAULT_WATCH, &together, plan, settings, &[]) {
        Ok(object) => {
            loaded.objects.push(object);
            loaded.together = true;
        }
        // Each by itself says why.
        Err(_one_of_them_is_rejected) => others.splice(..0, together).for_each(drop),
    }
    for group in others {
        match load_group(group, plan, settings, &loaded.objects) {
            Ok(object) => loaded.objects.push(object),
            Err(cause) => note_failed(group, plan, cause, &mut loaded)?,
        }
    }
    Ok(loaded)
}

fn load_group(
    group: ProbeGroup,
    plan: &Plan,
    settings: &wire::wire_settings,
    earlier: &[Object],
) -> Result<Object, String> {
    let mut result = Err(String::new());
    for object in objects_of(group) {
        result = load_object(object, &[group], plan, settings, earlier);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Loads what some groups have in an object: their programs of the plan, and their maps.
fn load_object(
    object: CompressedObject,
    groups: &[ProbeGroup],
    plan: &Plan,
    settings: &wire::wire_settings,
    earlier: &[Object],
) -> Result<Object, String> {
    let is_program = |name: &OsStr| {
        plan.probes.iter().any(|it| groups.contains(&it.group) && name == it.program)
    };
    let names: Vec<&str> = groups.iter().filter_map(|group| name_there(*group)).collect();
    let is_others = |map: &OsStr| {
        let mut owners = wire::GROUP_MAPS.iter().filter(|(_, name)| map == *name).peekable();
        !names.is_empty()
            && owners.peek().is_some()
            && owners.all(|(group, _)| !names.contains(group))
    };
    loader::load(object, is_program, is_others, settings, earlier)
}

fn note_failed(
    group: ProbeGroup,
    plan: &Plan,
    cause: String,
    loaded: &mut LoadedGroups,
) -> Result<(), WatchError> {
    let probes = plan.probes.iter().filter(|probe| probe.group == group);
    if probes.clone().any(|probe| probe.needed) {
        let object = format!("the {group:?} programs").to_lowercase();
        return Err(WatchError::Kernel { verb: "load", object, cause });
    }
    loaded.failed.extend(probes.map(|probe| (*probe, cause.clone())));
    Ok(())
}
