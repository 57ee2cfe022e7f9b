//! Settings and limits that changed.

use crate::summary::ChangedSetting;
use iowhy_model::Environment;
use iowhy_model::environment::{Device, SettingChange, chosen};
use std::collections::BTreeMap;

type Settings = BTreeMap<String, String>;

/// The machine's changed settings, then each device's and each cgroup's.
pub(crate) fn changed(environment: &Environment) -> Vec<ChangedSetting> {
    let mut all = differences(None, &environment.settings_start, &environment.settings_end);
    for device in &environment.devices {
        all.extend(of_device(environment, device));
    }
    for cgroup in &environment.cgroups {
        let own = differences(None, &cgroup.settings_start, &cgroup.settings_end);
        let name = |setting: String| format!("{setting} of cgroup {}", cgroup.path);
        all.extend(
            own.into_iter()
                .map(|change| ChangedSetting { setting: name(change.setting), ..change }),
        );
    }
    all
}

pub(crate) fn has_changed(environment: &Environment, device: &Device) -> bool {
    !of_device(environment, device).is_empty()
}

/// Observed changes, and differences between both ends for settings that were not polled.
fn of_device(environment: &Environment, device: &Device) -> Vec<ChangedSetting> {
    let noted = &device.settings_changed;
    let mut all: Vec<ChangedSetting> =
        noted.iter().filter_map(|change| seen(environment, device, change)).collect();
    let ends = differences(Some(&device.name), &device.settings_start, &device.settings_end);
    all.extend(ends.into_iter().filter(|end| noted.iter().all(|seen| seen.setting != end.setting)));
    all
}

/// A change that was observed during the watch.
fn seen(
    environment: &Environment,
    device: &Device,
    change: &SettingChange,
) -> Option<ChangedSetting> {
    let of_watch = |at_ns: u64| at_ns.saturating_sub(environment.start_ns);
    let is_in = change.by_ns > environment.start_ns
        && (change.since_ns < environment.end_ns || environment.end_ns == 0);
    (is_in && is_another(Some(&change.before), Some(&change.after))).then(|| ChangedSetting {
        device: Some(device.name.clone()),
        setting: change.setting.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
        between_ns: Some((of_watch(change.since_ns), of_watch(change.by_ns))),
    })
}

/// Whether the values differ: a new choice, as a scheduler that was loaded for another device, is
/// not a change.
fn is_another(before: Option<&String>, after: Option<&String>) -> bool {
    before.map(|value| chosen(value)) != after.map(|value| chosen(value))
}

/// Differences between `before` and `after`; none if one of them was not read.
fn differences(device: Option<&str>, before: &Settings, after: &Settings) -> Vec<ChangedSetting> {
    if before.is_empty() || after.is_empty() {
        return Vec::new();
    }
    // What is there at one end only came or went with something else: a device, a scheduler.
    let both = before.iter().filter_map(|(name, value)| Some((name, value, after.get(name)?)));
    let differs = both.filter(|(_, before, after)| is_another(Some(before), Some(after)));
    differs
        .map(|(name, before, after)| ChangedSetting {
            device: device.map(str::to_owned),
            setting: name.clone(),
            before: before.clone(),
            after: after.clone(),
            between_ns: None,
        })
        .collect()
}
